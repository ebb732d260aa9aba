//  protocol/schedule_doubling.c - log2 n rounds, for small vectors
//
//  Allreduce: recursive doubling. In round k a node and the one whose id
//  differs in bit k exchange their sums; both compute lower + higher, so all
//  have the same bits. Each round has its place in TEMP, and its sum stands
//  where the put landed: what was sent is left alone, so rounds need no WAIT.
//  Only the last sum goes over WORK, which the first round sent; by then that
//  put is done in all likelihood, so the WAIT stands before the last SEND.
//
//  All-gather: Bruck's, any n. In round k a node has the 2^k parts from its
//  own on (cyclic) and sends them to the node 2^k before it.

#include "protocol/schedule_build.h"

//  The rounds of a node that was not folded away; PLACE is free TEMP.
static void
s_rounds (tp_build_t *self, const tp_fold_t *fold, uint64_t place)
{
    uint64_t count = self->what->count;
    tp_ref_t mine = tp_work (0);
    for (uint32_t bit = 1; bit < fold->power; bit *= 2, place += count) {
        uint32_t other = fold->id ^ bit;
        uint32_t peer = tp_unfold (fold, other);
        bool lower = other < fold->id, last = bit * 2 == fold->power;
        tp_ref_t theirs = tp_temp (place);
        tp_ref_t sum = last ? tp_work (0) : theirs;
        if (last && bit > 1)
            tp_wait (self);
        tp_send (self, peer, count, theirs, mine);
        tp_recv (self, peer, count);
        if (last && bit == 1)
            tp_wait (self);
        tp_reduce (self, count, sum, lower ? theirs : mine,
                   lower ? mine : theirs);
        mine = sum;
    }
    self->schedule->temp = place;
}

static void
s_allreduce (tp_build_t *self)
{
    tp_fold_t fold = tp_fold (self->what->n, self->what->node);
    tp_fold_in (self, &fold);
    if (fold.id != UINT32_MAX)
        s_rounds (self, &fold, fold.extra > 0 ? self->what->count : 0);
    tp_fold_out (self, &fold);
}

//  Parts [first, first + m), cyclic, in one or two runs; put to PEER, or
//  received from it.
static void
s_runs (tp_build_t *self, uint32_t first, uint32_t m, uint32_t peer, bool send)
{
    uint32_t n = self->what->n;
    while (m > 0) {
        uint32_t run = first + m <= n ? m : n - first;
        uint64_t count = self->off[first + run] - self->off[first];
        tp_ref_t at = tp_work (self->off[first]);
        if (send)
            tp_send (self, peer, count, at, at);
        else
            tp_recv (self, peer, count);
        m -= run;
        first = 0;
    }
}

static void
s_allgather (tp_build_t *self)
{
    uint32_t n = self->what->n, node = self->what->node;
    for (uint32_t have = 1; have < n; have *= 2) {
        uint32_t m = have < n - have ? have : n - have;
        s_runs (self, node, m, (node + n - have) % n, true);
        s_runs (self, (node + have) % n, m, (node + have) % n, false);
    }
}

void
tp_make_doubling (tp_build_t *self)
{
    if (self->what->kind == TP_ALLREDUCE)
        s_allreduce (self);
    else
        s_allgather (self);
}
