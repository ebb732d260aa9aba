//  protocol/schedule_star.c - master-worker: node 0, or the root, does it all
//
//  The baseline that others are compared with: the master's link carries
//  2 (n - 1) S in an allreduce of S.

#include "protocol/schedule_build.h"

//  The master has everybody's vector in TEMP and adds them in order, the
//  operand of the lower node left.
static void
s_collect (tp_build_t *self, uint32_t master)
{
    uint32_t n = self->what->n, node = self->what->node;
    uint64_t all = self->off[n];
    if (node != master) {
        uint32_t place = node < master ? node : node - 1;
        tp_send (self, master, all, tp_temp (place * all), tp_work (0));
        return;
    }
    self->schedule->temp = (n - 1) * all;
    for (uint32_t i = 0, place = 0; i < n; i++) {
        if (i == master)
            continue;
        tp_ref_t mine = tp_work (0), theirs = tp_temp (place++ * all);
        tp_recv (self, i, all);
        tp_reduce (self, all, mine, i < master ? theirs : mine,
                   i < master ? mine : theirs);
    }
}

static void
s_allreduce (tp_build_t *self)
{
    uint32_t n = self->what->n;
    uint64_t all = self->off[n];
    s_collect (self, 0);
    if (self->what->node > 0)
        tp_recv (self, 0, all);
    else
        for (uint32_t i = 1; i < n; i++)
            tp_send (self, i, all, tp_work (0), tp_work (0));
}

static void
s_reduce_scatter (tp_build_t *self)
{
    uint32_t node = self->what->node;
    s_collect (self, 0);
    if (node > 0)
        tp_recv (self, 0, tp_part_len (self, node));
    else
        for (uint32_t i = 1; i < self->what->n; i++)
            tp_send (self, i, tp_part_len (self, i), tp_work (self->off[i]),
                     tp_work (self->off[i]));
}

//  What is before and what is behind a node's own part.
static void
s_allgather (tp_build_t *self)
{
    uint32_t n = self->what->n, node = self->what->node;
    uint64_t all = self->off[n];
    if (node > 0) {
        tp_ref_t mine = tp_work (self->off[node]);
        tp_send (self, 0, tp_part_len (self, node), mine, mine);
        tp_recv (self, 0, self->off[node]);
        tp_recv (self, 0, all - self->off[node + 1]);
        return;
    }
    for (uint32_t i = 1; i < n; i++)
        tp_recv (self, i, tp_part_len (self, i));
    for (uint32_t i = 1; i < n; i++) {
        tp_ref_t behind = tp_work (self->off[i + 1]);
        tp_send (self, i, self->off[i], tp_work (0), tp_work (0));
        tp_send (self, i, all - self->off[i + 1], behind, behind);
    }
}

static void
s_broadcast (tp_build_t *self)
{
    uint32_t root = self->what->root;
    if (self->what->node != root) {
        tp_recv (self, root, self->what->count);
        return;
    }
    for (uint32_t i = 0; i < self->what->n; i++)
        if (i != root)
            tp_send (self, i, self->what->count, tp_work (0), tp_work (0));
}

void
tp_make_star (tp_build_t *self)
{
    switch (self->what->kind) {
    case TP_ALLREDUCE:
        s_allreduce (self);
        break;
    case TP_REDUCE_SCATTER:
        s_reduce_scatter (self);
        break;
    case TP_ALLGATHER:
        s_allgather (self);
        break;
    case TP_REDUCE:
        s_collect (self, self->what->root);
        break;
    default:
        s_broadcast (self);
        break;
    }
}
