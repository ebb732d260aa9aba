//  protocol/schedule.c - what the algorithms share, and the table of them

#include "protocol/schedule_build.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    void (*make) (tp_build_t *);
    uint8_t kinds[TP_KINDS];  //  by tp_kind_t
} s_algorithms[TP_ALGORITHMS] = {
    //  even kinds: barrier allreduce allgather r_s broadcast reduce, then
    //  gather scatter alltoall
    [TP_STAR] = { "star", tp_make_star, { 0, 1, 1, 1, 1, 1 } },
    [TP_RING] = { "ring", tp_make_ring, { 0, 1, 1, 1, 0, 1 } },
    [TP_DOUBLING] = { "doubling", tp_make_doubling, { 0, 1, 1 } },
    [TP_HALVING] = { "halving", tp_make_halving, { 0, 1, 0, 1 } },
    [TP_TREE] = { "tree", tp_make_tree, { 0, 0, 0, 0, 1, 1 } },
    [TP_DIRECT] = { "direct", tp_make_direct, { 0, 1, 1, 1, 0, 1 } },
    [TP_DISSEMINATION] = { "dissemination", tp_make_dissemination, { 1 } },
    [TP_PAIRWISE] = { "pairwise",
                      tp_make_pairwise,
                      { [TP_GATHER] = 1,
                        [TP_SCATTER] = 1,
                        [TP_ALLTOALL] = 1,
                        [TP_SENDRECV] = 1 } },
};

bool
tp_algorithm_ok (int kind, int algorithm)
{
    return kind >= 0 && kind < TP_KINDS && algorithm >= 0 &&
           algorithm < TP_ALGORITHMS &&
           s_algorithms[algorithm].kinds[tp_kind_info (kind)->even];
}

const char *
tp_algorithm_name (int algorithm)
{
    return algorithm >= 0 && algorithm < TP_ALGORITHMS
               ? s_algorithms[algorithm].name
               : "?";
}

int
tp_algorithm_value (const char *name)
{
    for (int i = 0; name && i < TP_ALGORITHMS; i++)
        if (strcmp (s_algorithms[i].name, name) == 0)
            return i;
    return -1;
}

uint64_t
tp_part (uint64_t count, uint32_t n, uint32_t i)
{
    uint64_t each = count / n, rest = count % n;
    return i * each + (i < rest ? i : rest);
}

uint32_t
tp_tree_split (uint32_t count)
{
    uint32_t half = 1;
    while (half < count - half)
        half *= 2;
    return half;
}

//  ------------------------------------------------------------------- steps

tp_ref_t
tp_work (uint64_t off)
{
    return (tp_ref_t){ TP_WORK, 0, off };
}

tp_ref_t
tp_temp (uint64_t off)
{
    return (tp_ref_t){ TP_TEMP, 0, off };
}

static void
s_add (tp_build_t *self, tp_step_t step)
{
    tp_schedule_t *s = self->schedule;
    if (self->err)
        return;
    if (s->length == s->room) {
        size_t room = s->room > 0 ? 2 * s->room : 32;
        tp_step_t *more = realloc (s->steps, room * sizeof *more);
        if (!more) {
            self->err = TUTTI_ENOMEM;
            return;
        }
        s->steps = more;
        s->room = room;
    }
    s->steps[s->length++] = step;
}

void
tp_send (tp_build_t *self, uint32_t peer, uint64_t count, tp_ref_t dst,
         tp_ref_t src)
{
    s_add (self, (tp_step_t){ .op = TP_STEP_SEND,
                              .peer = peer,
                              .count = count,
                              .dst = dst,
                              .src = src });
}

void
tp_recv (tp_build_t *self, uint32_t peer, uint64_t count)
{
    s_add (self,
           (tp_step_t){ .op = TP_STEP_RECV, .peer = peer, .count = count });
}

void
tp_reduce (tp_build_t *self, uint64_t count, tp_ref_t dst, tp_ref_t a,
           tp_ref_t b)
{
    if (count > 0)
        s_add (self, (tp_step_t){ .op = TP_STEP_REDUCE,
                                  .count = count,
                                  .dst = dst,
                                  .src = a,
                                  .src2 = b });
}

void
tp_copy (tp_build_t *self, uint64_t count, tp_ref_t dst, tp_ref_t src)
{
    if (count > 0)
        s_add (self, (tp_step_t){ .op = TP_STEP_COPY,
                                  .count = count,
                                  .dst = dst,
                                  .src = src });
}

void
tp_wait (tp_build_t *self)
{
    s_add (self, (tp_step_t){ .op = TP_STEP_WAIT });
}

uint64_t
tp_part_len (const tp_build_t *self, uint32_t i)
{
    return self->off[i + 1] - self->off[i];
}

//  -------------------------------------------------------------------- fold

tp_fold_t
tp_fold (uint32_t n, uint32_t node)
{
    tp_fold_t fold = { .power = 1 };
    while (fold.power * 2 <= n)
        fold.power *= 2;
    fold.extra = n - fold.power;
    if (node >= 2 * fold.extra)
        fold.id = node - fold.extra;
    else
        fold.id = node % 2 ? node / 2 : UINT32_MAX;
    return fold;
}

uint32_t
tp_unfold (const tp_fold_t *fold, uint32_t id)
{
    return id < fold->extra ? 2 * id + 1 : id + fold->extra;
}

void
tp_fold_in (tp_build_t *self, const tp_fold_t *fold)
{
    uint32_t node = self->what->node;
    uint64_t count = self->what->count;
    if (node >= 2 * fold->extra)
        return;
    if (node % 2 == 0) {
        tp_send (self, node + 1, count, tp_temp (0), tp_work (0));
        return;
    }
    tp_recv (self, node - 1, count);
    tp_reduce (self, count, tp_work (0), tp_temp (0), tp_work (0));
}

//  The result may be put over the vector that was handed on: its receiver
//  has had it for long.
void
tp_fold_out (tp_build_t *self, const tp_fold_t *fold)
{
    uint32_t node = self->what->node;
    uint64_t count = self->what->count;
    if (node >= 2 * fold->extra)
        return;
    if (node % 2 == 0)
        tp_recv (self, node + 1, count);
    else
        tp_send (self, node - 1, count, tp_work (0), tp_work (0));
}

//  -------------------------------------------------------------------- make

//  Offsets of the parts: given ones, or an even split.
static uint64_t *
s_offsets (const tp_case_t *what)
{
    uint64_t *off = malloc ((what->n + 1) * sizeof *off);
    if (!off)
        return NULL;
    off[0] = 0;
    for (uint32_t i = 0; i < what->n; i++)
        off[i + 1] = what->parts ? off[i] + what->parts[i]
                                 : tp_part (what->count, what->n, i + 1);
    return off;
}

static bool
s_items_ok (const tp_items_t *items, uint32_t n, uint32_t node)
{
    for (size_t i = 0; i < items->length; i++)
        if (items->list[i].peer >= n || items->list[i].peer == node)
            return false;
    return true;
}

static bool
s_case_ok (const tp_case_t *what)
{
    bool parted =
        what->kind == TP_ALLGATHER || what->kind == TP_REDUCE_SCATTER;
    bool rooted = what->kind == TP_BROADCAST || what->kind == TP_REDUCE;
    return tp_algorithm_ok ((int) what->kind, (int) what->algorithm) &&
           tp_kind_info ((int) what->kind)->even == what->kind &&
           what->node < what->n && (!parted || what->parts) &&
           (!rooted || what->root < what->n) &&
           s_items_ok (&what->sends, what->n, what->node) &&
           s_items_ok (&what->recvs, what->n, what->node);
}

tutti_err_t
tp_schedule_make (tp_schedule_t *self, const tp_case_t *what)
{
    self->length = 0;
    self->work = self->temp = 0;
    if (!s_case_ok (what))
        return TUTTI_EINVAL;
    uint64_t *off = s_offsets (what);
    if (!off)
        return TUTTI_ENOMEM;
    tp_build_t build = { self, what, off, TUTTI_OK };
    self->work = off[what->n];
    if (what->n > 1)
        s_algorithms[what->algorithm].make (&build);
    free (off);
    if (build.err) {
        self->length = 0;
        self->work = self->temp = 0;
    }
    return build.err;
}

void
tp_schedule_destroy (tp_schedule_t *self)
{
    free (self->steps);
    *self = (tp_schedule_t){ 0 };
}

//  ------------------------------------------------------------------ blocks

//  Whether ranks [first, first + count) live on one node.
static bool
s_one_node (const uint32_t *node_of, uint32_t first, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++)
        if (node_of[first + i] != node_of[first])
            return false;
    return true;
}

static void
s_split (tp_blocks_t *self, const uint32_t *node_of, uint32_t first,
         uint32_t count)
{
    if (count == 1 || s_one_node (node_of, first, count)) {
        self->list[self->length++] =
            (tp_block_t){ first, count, node_of[first] };
        return;
    }
    uint32_t half = tp_tree_split (count);
    s_split (self, node_of, first, half);
    s_split (self, node_of, first + half, count - half);
}

tutti_err_t
tp_blocks_make (tp_blocks_t *self, const uint32_t *node_of, uint32_t ranks)
{
    *self = (tp_blocks_t){ .ranks = ranks };
    self->list = malloc ((ranks > 0 ? ranks : 1) * sizeof *self->list);
    if (!self->list)
        return TUTTI_ENOMEM;
    if (ranks > 0)
        s_split (self, node_of, 0, ranks);
    return TUTTI_OK;
}

void
tp_blocks_destroy (tp_blocks_t *self)
{
    free (self->list);
    *self = (tp_blocks_t){ 0 };
}
