//  agent/stage.c - between the ranks' memory and the node's vector (WORK)
//
//  On the way in the local ranks are combined, so that one stream per node
//  goes over the network; on the way out every local rank gets its output.
//  WORK keeps pieces in node-major order (ta_member_t.position). In the
//  reproducible mode it holds one vector per block of ranks that this node
//  reduces by itself (schedule.h).

#include "agent/channel_impl.h"
#include "kernels/tk.h"

#include <stdlib.h>
#include <string.h>

static bool
s_reduces (const ta_op_t *op)
{
    return op->sig.kind == TP_ALLREDUCE || op->sig.kind == TP_REDUCE_SCATTER;
}

static bool
s_is_root (const ta_op_t *op, uint32_t rank)
{
    return op->sig.kind == TP_BROADCAST && op->sig.root == (int32_t) rank;
}

//  ----------------------------------------------------------------- resolve

//  One side of local rank I from its deposit (already a copy).
static tutti_err_t
s_side (ta_channel_t *self, ta_op_t *op, uint32_t i, bool in)
{
    const tp_deposit_t *d = &op->deposit[i];
    bool root = s_is_root (op, op->member->local[i]);
    uint64_t bytes =
        in ? tp_geo_in_bytes (&op->geo, op->sig.kind != TP_BROADCAST || root)
           : tp_geo_out_bytes (&op->geo);
    tp_side_t *side = in ? &op->in[i] : &op->out[i];
    side->where = in ? d->in_where : d->out_where;
    switch (side->where) {
    case TP_WHERE_NONE:
        return bytes == 0 || op->sig.kind == TP_BROADCAST ? TUTTI_OK
                                                          : TUTTI_EPROTO;
    case TP_WHERE_INLINE:
        side->base = tp_board_inline (op->member->board, op->seq, i);
        return op->geo.small ? TUTTI_OK : TUTTI_EPROTO;
    case TP_WHERE_DIRECT:
        side->base =
            ta_memory_use (self->memory, in ? d->in_segment : d->out_segment,
                           in ? d->in_off : d->out_off, bytes);
        return side->base ? TUTTI_OK : TUTTI_EPROTO;
    case TP_WHERE_WINDOW:
        side->window = d->window;
        if (d->window == 0 || d->window > TP_SLOTS)
            return TUTTI_EPROTO;
        side->base = ta_memory_use (self->memory, d->window_segment,
                                    d->window_off, d->window * op->geo.slot);
        return side->base ? TUTTI_OK : TUTTI_EPROTO;
    default:
        return TUTTI_EPROTO;
    }
}

tutti_err_t
ta_stage_resolve (ta_channel_t *self, ta_op_t *op)
{
    op->resolved = true;
    for (uint32_t i = 0; i < op->member->n_local; i++) {
        op->deposit[i] =
            tp_board_cell (op->member->board, op->seq, i)->deposit;
        op->in[i] = op->out[i] = (tp_side_t){ 0 };
        tutti_err_t err = s_side (self, op, i, true);
        if (!err)
            err = s_side (self, op, i, false);
        if (err)
            return err;
    }
    return TUTTI_OK;
}

static void
s_unuse (ta_channel_t *self, const tp_side_t *side, uint32_t direct,
         uint32_t window)
{
    if (!side->base)
        return;
    if (side->where == TP_WHERE_DIRECT)
        ta_memory_unuse (self->memory, direct);
    if (side->where == TP_WHERE_WINDOW)
        ta_memory_unuse (self->memory, window);
}

void
ta_stage_release (ta_channel_t *self, ta_op_t *op)
{
    if (!op->resolved)
        return;
    for (uint32_t i = 0; i < op->member->n_local; i++) {
        const tp_deposit_t *d = &op->deposit[i];
        s_unuse (self, &op->in[i], d->in_segment, d->window_segment);
        s_unuse (self, &op->out[i], d->out_segment, d->window_segment);
    }
}

//  ---------------------------------------------------------------------- in

//  Local ranks of the block, in order, reduced into DST: segment G, piece P.
static tutti_err_t
s_reduce_block (ta_op_t *op, void *dst, uint32_t first, uint32_t count,
                uint32_t p, const ta_seg_t *seg, uint8_t *wide)
{
    const ta_member_t *m = op->member;
    const void *src[TP_LOCAL_MAX];
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n_local; i++) {
        uint32_t r = m->local[i];
        if (r < first || r >= first + count)
            continue;
        src[n] = tp_geo_in (&op->geo, &op->in[i], r, p, seg->index);
        if (wide) {
            uint8_t *to = wide + n * seg->len * op->element;
            tk_convert (to, op->dtype, src[n], (tutti_dtype_t) op->sig.dtype,
                        seg->len, NULL);
            src[n] = to;
        }
        n++;
    }
    tutti_op_t by =
        op->sig.op == TUTTI_AVG ? TUTTI_SUM : (tutti_op_t) op->sig.op;
    return tk_reduce (&dst, 1, src, (int) n, seg->len, op->dtype, by, 1, NULL);
}

//  Every block of this node, every piece.
static tutti_err_t
s_reduce_in (ta_op_t *op, ta_seg_t *seg)
{
    const ta_member_t *m = op->member;
    bool many = op->sig.kind == TP_REDUCE_SCATTER;
    uint32_t pieces = many ? op->geo.pieces : 1;
    uint8_t *wide = NULL, *dst = seg->work;
    if (op->wide) {
        wide = malloc (m->n_local * seg->len * op->element + 1);
        if (!wide)
            return TUTTI_ENOMEM;
    }
    tutti_err_t err = TUTTI_OK;
    bool tree = op->sig.flags & TP_SIG_REPRODUCIBLE;
    uint32_t blocks = tree ? m->blocks.length : 1;
    for (uint32_t b = 0; b < blocks && !err; b++) {
        if (tree && m->blocks.list[b].node != m->me)
            continue;
        uint32_t first = tree ? m->blocks.list[b].first : 0;
        uint32_t count = tree ? m->blocks.list[b].count : m->size;
        for (uint32_t p = 0; p < pieces && !err; p++) {
            err = s_reduce_block (op, dst, first, count, many ? m->at[p] : 0,
                                  seg, wide);
            dst += seg->len * op->element;
        }
    }
    free (wide);
    return err;
}

static void
s_gather_in (ta_op_t *op, ta_seg_t *seg)
{
    const ta_member_t *m = op->member;
    size_t bytes = seg->len * op->element;
    for (uint32_t i = 0; i < m->n_local; i++) {
        uint32_t r = m->local[i];
        tk_copy (seg->work + m->position[r] * bytes,
                 tp_geo_in (&op->geo, &op->in[i], r, r, seg->index), bytes,
                 NULL);
    }
}

static void
s_root_in (ta_op_t *op, ta_seg_t *seg)
{
    for (uint32_t i = 0; i < op->member->n_local; i++)
        if (s_is_root (op, op->member->local[i]))
            tk_copy (seg->work,
                     tp_geo_in (&op->geo, &op->in[i], op->member->local[i], 0,
                                seg->index),
                     seg->len * op->element, NULL);
}

tutti_err_t
ta_stage_in (ta_op_t *op, ta_seg_t *seg)
{
    if (seg->len == 0)
        return TUTTI_OK;
    if (s_reduces (op))
        return s_reduce_in (op, seg);
    if (op->sig.kind == TP_ALLGATHER)
        s_gather_in (op, seg);
    else if (op->sig.kind == TP_BROADCAST)
        s_root_in (op, seg);
    return TUTTI_OK;
}

//  WORK of an allreduce may be the output of the first local rank itself; of
//  a broadcast too, off the root's node.
uint8_t *
ta_stage_work (ta_op_t *op, uint32_t g)
{
    bool direct = op->out[0].where == TP_WHERE_DIRECT && !op->wide &&
                  !(op->sig.flags & TP_SIG_REPRODUCIBLE);
    bool kind =
        op->sig.kind == TP_ALLREDUCE ||
        (op->sig.kind == TP_BROADCAST && op->root_node != op->member->me);
    if (!direct || !kind)
        return NULL;
    return tp_geo_out (&op->geo, &op->out[0], op->member->local[0], 0, g);
}

//  --------------------------------------------------------------------- out

//  PIECE of WORK to local rank I as piece P of its output.
static void
s_deliver (ta_op_t *op, const ta_seg_t *seg, uint32_t i, uint32_t p,
           const uint8_t *from)
{
    uint32_t r = op->member->local[i];
    void *to = tp_geo_out (&op->geo, &op->out[i], r, p, seg->index);
    if (to == from)
        return;
    if (op->wide)
        tk_convert (to, (tutti_dtype_t) op->sig.dtype, from, op->dtype,
                    seg->len, NULL);
    else
        tk_copy (to, from, seg->len * op->element, NULL);
}

static void
s_out_rank (ta_op_t *op, ta_seg_t *seg, uint32_t i)
{
    const ta_member_t *m = op->member;
    uint32_t r = m->local[i];
    size_t bytes = seg->len * op->element;
    switch (op->sig.kind) {
    case TP_ALLREDUCE:
        s_deliver (op, seg, i, 0, seg->work);
        break;
    case TP_BROADCAST:
        if (!s_is_root (op, r))
            s_deliver (op, seg, i, 0, seg->work);
        break;
    case TP_REDUCE_SCATTER:
        s_deliver (op, seg, i, r, seg->work + m->position[r] * bytes);
        break;
    case TP_ALLGATHER:
        for (uint32_t p = 0; p < op->geo.pieces; p++)
            s_deliver (op, seg, i, p, seg->work + m->position[p] * bytes);
        break;
    default:
        break;
    }
}

void
ta_stage_out (ta_op_t *op, ta_seg_t *seg)
{
    if (seg->len == 0)
        return;
    if (op->sig.op == TUTTI_AVG && s_reduces (op)) {
        //  Only this node's share of a reduce-scatter is complete.
        uint32_t first = op->sig.kind == TP_REDUCE_SCATTER
                             ? op->member->position[op->member->local[0]]
                             : 0;
        uint64_t n =
            op->sig.kind == TP_REDUCE_SCATTER ? op->member->n_local : 1;
        tk_divide (seg->work + first * seg->len * op->element, n * seg->len,
                   op->dtype, op->member->size, NULL);
    }
    for (uint32_t i = 0; i < op->member->n_local; i++)
        s_out_rank (op, seg, i);
}
