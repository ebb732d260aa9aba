//  protocol/schedule_doubling.c - log2 n rounds, for small vectors
//
//  Allreduce: recursive doubling. In round k a node and the one whose id
//  differs in bit k exchange their sums; both compute lower + higher, so all
//  have the same bits. Each round has its place in TEMP. The sum is written
//  over what is being sent, hence the WAIT.
//
//  All-gather: Bruck's, any n. In round k a node has the 2^k parts from its
//  own on (cyclic) and sends them to the node 2^k before it.

#include "protocol/schedule_build.h"

static void
s_allreduce (tp_build_t *self)
{
    uint64_t count = self->what->count;
    tp_fold_t fold = tp_fold (self->what->n, self->what->node);
    uint64_t place = fold.extra > 0 ? count : 0;
    tp_fold_in (self, &fold);
    for (uint32_t bit = 1; bit < fold.power; bit *= 2, place += count) {
        if (fold.id == UINT32_MAX)
            continue;
        uint32_t other = fold.id ^ bit;
        uint32_t peer = tp_unfold (&fold, other);
        bool lower = other < fold.id;
        tp_send (self, peer, count, tp_temp (place), tp_work (0));
        tp_recv (self, peer, count);
        tp_wait (self);
        tp_reduce (self, count, tp_work (0),
                   lower ? tp_temp (place) : tp_work (0),
                   lower ? tp_work (0) : tp_temp (place));
    }
    self->schedule->temp = place;
    tp_fold_out (self, &fold);
}

//  Parts [first, first + m), cyclic, in one or two runs; put to PEER, or
//  received from it.
static void
s_runs (tp_build_t *self, uint32_t first, uint32_t m, uint32_t peer,
        bool send)
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
