//  protocol/schedule_tree.c - broadcast along a binomial tree
//
//  Counted from the root, a node's parent is its number without the lowest
//  set bit; it sends to its children from the farthest to the nearest.

#include "protocol/schedule_build.h"

void
tp_make_tree (tp_build_t *self)
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
