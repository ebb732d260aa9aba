//  protocol/schedule_ring.c - around the ring: 2 (n - 1) / n S per node
//
//  Reduce-scatter: part p starts at node p + 1 and is added to on the way to
//  node p, n - 1 hops. Each part passes a node once, so it has a place of its
//  own in TEMP: that of WORK, less the part that starts here.
//
//  All-gather: the parts go round once more. A put over a part in WORK comes
//  after that part went all the way round, so the node's own SEND of it was
//  received.
//
//  Reduce: the parts go to the root at once, over parts that the root has
//  passed on before.
//
//  At each hop the operand of the lower of the two neighbours stands left.

#include "protocol/schedule_build.h"

static uint32_t
s_back (uint32_t n, uint32_t from, uint32_t steps)
{
    return (from + n - steps % n) % n;
}

//  Where part P lands in the TEMP of OWNER, which never gets the part that it
//  starts.
static tp_ref_t
s_place (const tp_build_t *self, uint32_t owner, uint32_t p)
{
    uint32_t starts = s_back (self->what->n, owner, 1);
    uint64_t skip = starts < p ? tp_part_len (self, starts) : 0;
    return tp_temp (self->off[p] - skip);
}

static void
s_reduce_scatter (tp_build_t *self)
{
    uint32_t n = self->what->n, node = self->what->node;
    uint32_t next = (node + 1) % n, last = s_back (n, node, 1);
    self->schedule->temp = self->off[n] - tp_part_len (self, last);
    for (uint32_t s = 0; s + 1 < n; s++) {
        uint32_t out = s_back (n, node, s + 1), in = s_back (n, node, s + 2);
        tp_ref_t mine = tp_work (self->off[in]);
        tp_ref_t theirs = s_place (self, node, in);
        tp_send (self, next, tp_part_len (self, out),
                 s_place (self, next, out), tp_work (self->off[out]));
        tp_recv (self, last, tp_part_len (self, in));
        tp_reduce (self, tp_part_len (self, in), mine,
                   last < node ? theirs : mine, last < node ? mine : theirs);
    }
}

static void
s_allgather (tp_build_t *self)
{
    uint32_t n = self->what->n, node = self->what->node;
    uint32_t next = (node + 1) % n, last = s_back (n, node, 1);
    for (uint32_t s = 0; s + 1 < n; s++) {
        uint32_t out = s_back (n, node, s), in = s_back (n, node, s + 1);
        tp_send (self, next, tp_part_len (self, out), tp_work (self->off[out]),
                 tp_work (self->off[out]));
        tp_recv (self, last, tp_part_len (self, in));
    }
}

void
tp_make_ring (tp_build_t *self)
{
    if (self->what->kind != TP_ALLGATHER)
        s_reduce_scatter (self);
    if (self->what->kind == TP_REDUCE)
        tp_parts_to_root (self);
    else if (self->what->kind != TP_REDUCE_SCATTER)
        s_allgather (self);
}
