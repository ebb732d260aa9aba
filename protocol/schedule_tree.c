//  protocol/schedule_tree.c - along a binomial tree: broadcast, reduce
//
//  Counted from the root, a node's parent is its number without the lowest
//  set bit. A broadcast goes to the children from the farthest to the
//  nearest, a reduction comes from the nearest first; each child has its
//  place in TEMP, and the operand of the lower of the two nodes stands left.

#include "protocol/schedule_build.h"

static void
s_reduce (tp_build_t *self)
{
    uint32_t n = self->what->n, root = self->what->root;
    uint32_t node = self->what->node, number = (node + n - root) % n;
    uint64_t count = self->what->count, place = 0;
    uint32_t bit = 1;
    for (; bit < n && !(number & bit); bit *= 2, place += count) {
        if (number + bit >= n)
            continue;
        uint32_t child = (number + bit + root) % n;
        tp_ref_t mine = tp_work (0), theirs = tp_temp (place);
        tp_recv (self, child, count);
        tp_reduce (self, count, mine, child < node ? theirs : mine,
                   child < node ? mine : theirs);
    }
    self->schedule->temp = place;
    if (number > 0)
        tp_send (self, (number - bit + root) % n, count, tp_temp (place),
                 tp_work (0));
}

static void
s_broadcast (tp_build_t *self)
{
    uint32_t n = self->what->n, root = self->what->root;
    uint32_t number = (self->what->node + n - root) % n;
    uint32_t bit = 1;
    while (bit < n && !(number & bit))
        bit *= 2;
    if (number > 0)
        tp_recv (self, (number - bit + root) % n, self->what->count);
    for (bit /= 2; bit > 0; bit /= 2)
        if (number + bit < n)
            tp_send (self, (number + bit + root) % n, self->what->count,
                     tp_work (0), tp_work (0));
}

void
tp_make_tree (tp_build_t *self)
{
    if (self->what->kind == TP_REDUCE)
        s_reduce (self);
    else
        s_broadcast (self);
}
