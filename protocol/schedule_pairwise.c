//  protocol/schedule_pairwise.c - every piece straight to where it goes
//
//  In round s a node sends to the node s places on and receives from the one
//  s places back, so that each link is used by one pair at a time (pairwise
//  exchange: Thakur, Rabenseifner, Gropp 2005, section 4.4).

#include "protocol/schedule_build.h"

//  Items [first, last) of a peer; both lists are ordered by peer.
static void
s_find (const tp_items_t *items, uint32_t peer, size_t *first_p,
        size_t *last_p)
{
    size_t first = 0;
    while (first < items->length && items->list[first].peer < peer)
        first++;
    *first_p = *last_p = first;
    while (*last_p < items->length && items->list[*last_p].peer == peer)
        ++*last_p;
}

void
tp_make_pairwise (tp_build_t *self)
{
    const tp_case_t *what = self->what;
    size_t i, last;
    self->schedule->temp = what->temp;
    for (uint32_t s = 1; s < what->n; s++) {
        uint32_t to = (what->node + s) % what->n;
        uint32_t from = (what->node + what->n - s) % what->n;
        for (s_find (&what->sends, to, &i, &last); i < last; i++) {
            const tp_item_t *item = &what->sends.list[i];
            tp_send (self, to, item->count, item->dst, tp_work (item->src));
        }
        for (s_find (&what->recvs, from, &i, &last); i < last; i++)
            tp_recv (self, from, what->recvs.list[i].count);
    }
}

void
tp_parts_to_root (tp_build_t *self)
{
    uint32_t n = self->what->n, node = self->what->node;
    uint32_t root = self->what->root;
    tp_ref_t mine = tp_work (self->off[node]);
    if (node != root) {
        tp_send (self, root, tp_part_len (self, node), mine, mine);
        return;
    }
    for (uint32_t s = 1; s < n; s++)
        tp_recv (self, (node + n - s) % n,
                 tp_part_len (self, (node + n - s) % n));
}
