//  protocol/schedule_direct.c - every part straight to its owner
//
//  Each node sends every other node that node's part; the owner reduces what
//  it got along the balanced binary tree over rank numbers, so the result
//  does not depend on ring order, placement or arrival: the reproducible mode.
//  With one block a node it moves the same bytes as a ring.
//
//  A leaf of the tree is a block: a run of ranks that one node has reduced by
//  itself. The owner keeps blocks of others in TEMP, in order of their first
//  rank; its own are in WORK, one vector behind the other.

#include "protocol/schedule_build.h"

#include <stdlib.h>

typedef struct direct {
    tp_build_t *build;
    uint64_t vector;         //  elements
    uint32_t blocks;         //  leaves
    const tp_block_t *list;  //  NULL: leaf i is node i
    tp_ref_t *leaf;          //  where each leaf's slice of my part is
    uint32_t at;             //  next leaf of the walk
} direct_t;

static tp_block_t
s_block (const direct_t *self, uint32_t i)
{
    return self->list ? self->list[i] : (tp_block_t){ i, 1, i };
}

//  Send the slices of my blocks; SLOT of a block at its owner is the number
//  of blocks before it that are not the owner's.
static void
s_send_slices (direct_t *self, uint32_t *own)
{
    tp_build_t *b = self->build;
    uint32_t n = b->what->n, node = b->what->node, mine = 0;
    for (uint32_t i = 0; i < self->blocks; i++) {
        tp_block_t block = s_block (self, i);
        if (block.node == node) {
            for (uint32_t s = 1; s < n; s++) {
                uint32_t to = (node + s) % n;
                uint64_t len = tp_part_len (b, to);
                tp_send (b, to, len, tp_temp ((i - own[to]) * len),
                         tp_work (mine * self->vector + b->off[to]));
            }
            mine++;
        }
        own[block.node]++;
    }
    //  A node without ranks still gets the result.
    b->schedule->work = (mine > 0 ? mine : 1) * self->vector;
}

static void
s_recv_slices (direct_t *self)
{
    tp_build_t *b = self->build;
    uint32_t node = b->what->node, mine = 0, slot = 0;
    uint64_t len = tp_part_len (b, node);
    for (uint32_t i = 0; i < self->blocks; i++) {
        tp_block_t block = s_block (self, i);
        if (block.node == node) {
            self->leaf[i] = tp_work (mine++ * self->vector + b->off[node]);
        }
        else {
            self->leaf[i] = tp_temp (slot++ * len);
            tp_recv (b, block.node, len);
        }
    }
    b->schedule->temp = slot * len;
}

//  Ranks [first, first + count): the place of their sum. DST, if given, is
//  where it must be.
static tp_ref_t
s_walk (direct_t *self, uint32_t first, uint32_t count, const tp_ref_t *dst)
{
    tp_block_t block = s_block (self, self->at);
    if (block.first == first && block.count == count)
        return self->leaf[self->at++];
    uint32_t half = tp_tree_split (count);
    tp_ref_t left = s_walk (self, first, half, NULL);
    tp_ref_t right = s_walk (self, first + half, count - half, NULL);
    tp_ref_t to = dst ? *dst : left;
    tp_reduce (self->build, tp_part_len (self->build, self->build->what->node),
               to, left, right);
    return to;
}

//  Every block on one of the nodes.
static bool
s_blocks_ok (const tp_case_t *what)
{
    const tp_blocks_t *blocks = what->blocks;
    for (uint32_t i = 0; blocks && i < blocks->length; i++)
        if (blocks->list[i].node >= what->n)
            return false;
    return !blocks || blocks->length > 0;
}

//  Finished parts to everybody; what they are put over was received by their
//  owner before.
static void
s_spread (tp_build_t *b)
{
    uint32_t n = b->what->n, node = b->what->node;
    tp_ref_t mine = tp_work (b->off[node]);
    for (uint32_t s = 1; s < n; s++)
        tp_send (b, (node + s) % n, tp_part_len (b, node), mine, mine);
    for (uint32_t s = 1; s < n; s++)
        tp_recv (b, (node + n - s) % n, tp_part_len (b, (node + n - s) % n));
}

static void
s_reduce (tp_build_t *b)
{
    const tp_case_t *what = b->what;
    direct_t self = { .build = b, .vector = b->off[what->n] };
    self.list = what->blocks ? what->blocks->list : NULL;
    self.blocks = what->blocks ? what->blocks->length : what->n;
    uint32_t ranks = what->blocks ? what->blocks->ranks : what->n;
    uint32_t *own = calloc (what->n, sizeof *own);
    self.leaf = malloc (self.blocks * sizeof *self.leaf);
    if (own && self.leaf) {
        tp_ref_t to = tp_work (b->off[what->node]);
        s_send_slices (&self, own);
        s_recv_slices (&self);
        tp_ref_t sum = s_walk (&self, 0, ranks, &to);
        //  A tree of one leaf, which may be another node's.
        if (sum.buf != to.buf || sum.off != to.off)
            tp_copy (b, tp_part_len (b, what->node), to, sum);
    }
    else
        b->err = TUTTI_ENOMEM;
    free (own);
    free (self.leaf);
}

void
tp_make_direct (tp_build_t *self)
{
    if (!s_blocks_ok (self->what)) {
        self->err = TUTTI_EINVAL;
        return;
    }
    if (self->what->kind != TP_ALLGATHER)
        s_reduce (self);
    if (self->what->kind == TP_REDUCE)
        tp_parts_to_root (self);
    else if (self->what->kind != TP_REDUCE_SCATTER)
        s_spread (self);
}
