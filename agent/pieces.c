//  agent/pieces.c - gather, scatter, alltoall: pieces from rank to rank
//
//  Between two nodes one block travels, the pieces of it in order of the
//  receiving, then of the sending rank. Blocks lie in WORK at the sender and
//  in WORK (gather, scatter: at the place of the rank in node-major order) or
//  TEMP (alltoall) at the receiver, at places that both can compute without
//  knowing the counts of others; neighbours that are full travel as one.
//  Pieces that stay on the node are read from WORK.

#include "agent/channel_impl.h"
#include "kernels/tk.h"

#include <stdlib.h>

bool
ta_pieces_kind (uint32_t kind)
{
    return kind == TP_GATHER || kind == TP_SCATTER || kind == TP_ALLTOALL;
}

uint64_t
ta_pieces_stride (const ta_op_t *op, const ta_seg_t *seg)
{
    return op->geo.info->uneven ? op->geo.seg : seg->len;
}

uint64_t
ta_pieces_room (const ta_op_t *op, const ta_seg_t *seg)
{
    uint64_t each = op->kind == TP_ALLTOALL ? op->member->n_local : 1;
    return each * op->member->size * ta_pieces_stride (op, seg);
}

//  Index of the piece from rank FROM to rank TO, of A ranks of one node to B
//  ranks of another; I and J are their indices there.
static uint64_t
s_index (const ta_op_t *op, uint32_t node, uint32_t me, uint32_t a, uint32_t i,
         uint32_t j)
{
    const ta_member_t *m = op->member;
    return m->ranks_on[me] * m->first_on[node] + (uint64_t) j * a + i;
}

static uint32_t
s_rank (const ta_member_t *m, uint32_t node, uint32_t i)
{
    return m->at[m->first_on[node] + i];
}

//  Place in WORK of what local rank I sends to the J-th rank of NODE.
static uint64_t
s_outgoing (const ta_op_t *op, const ta_seg_t *seg, uint32_t i, uint32_t node,
            uint32_t j)
{
    const ta_member_t *m = op->member;
    uint64_t stride = ta_pieces_stride (op, seg);
    if (op->kind == TP_GATHER)
        return m->position[m->local[i]] * stride;
    if (op->kind == TP_SCATTER)
        return (m->first_on[node] + j) * stride;
    return s_index (op, node, m->me, m->n_local, i, j) * stride;
}

//  Where, at node ME, the piece of the I-th rank of NODE for the J-th lands.
static tp_ref_t
s_incoming (const ta_op_t *op, const ta_seg_t *seg, uint32_t node, uint32_t i,
            uint32_t me, uint32_t j)
{
    const ta_member_t *m = op->member;
    uint64_t stride = ta_pieces_stride (op, seg);
    if (op->kind == TP_GATHER)
        return (tp_ref_t){ TP_WORK, 0, (m->first_on[node] + i) * stride };
    if (op->kind == TP_SCATTER)
        return (tp_ref_t){ TP_WORK, 0, (m->first_on[me] + j) * stride };
    uint32_t a = (uint32_t) m->ranks_on[node];
    return (tp_ref_t){ TP_TEMP, 0, s_index (op, node, me, a, i, j) * stride };
}

//  Whether rank FROM has a piece for rank TO.
static bool
s_flows (const ta_op_t *op, uint32_t from, uint32_t to)
{
    if (op->kind == TP_GATHER)
        return (int32_t) to == op->sig.root;
    return op->kind != TP_SCATTER || (int32_t) from == op->sig.root;
}

//  ------------------------------------------------------------------- items

typedef struct list {
    tp_item_t *items;
    size_t n;
    uint64_t stride;
} list_t;

//  One more piece; it joins the one before if that was full and lies beside.
static void
s_add (list_t *self, uint32_t peer, uint64_t count, uint64_t src, tp_ref_t dst)
{
    tp_item_t *last = self->n > 0 ? &self->items[self->n - 1] : NULL;
    if (last && last->peer == peer && last->count % self->stride == 0 &&
        last->count > 0 && last->src + last->count == src &&
        last->dst.off + last->count == dst.off) {
        last->count += count;
        return;
    }
    self->items[self->n++] =
        (tp_item_t){ .peer = peer, .count = count, .src = src, .dst = dst };
}

static void
s_sends (const ta_op_t *op, const ta_seg_t *seg, uint32_t node, list_t *list)
{
    const ta_member_t *m = op->member;
    for (uint32_t j = 0; j < m->ranks_on[node]; j++)
        for (uint32_t i = 0; i < m->n_local; i++) {
            uint32_t to = s_rank (m, node, j), from = m->local[i], q;
            tp_geo_source (&op->geo, &op->sig, to, from, &q);
            if (s_flows (op, from, to) &&
                tp_geo_has (&op->geo, &op->in[i], q, seg->index))
                s_add (list, node,
                       tp_geo_len (&op->geo, &op->in[i], q, seg->index),
                       s_outgoing (op, seg, i, node, j),
                       s_incoming (op, seg, m->me, i, node, j));
        }
}

//  The piece of FROM in the output of a rank.
static uint32_t
s_piece_of (const ta_op_t *op, uint32_t from)
{
    return op->geo.info->out == TP_FORM_EACH ? from : 0;
}

//  As s_sends of the other node, so that both join the same pieces: its
//  places in WORK follow from the same rule.
static void
s_recvs (const ta_op_t *op, const ta_seg_t *seg, uint32_t node, list_t *list)
{
    const ta_member_t *m = op->member;
    uint32_t a = (uint32_t) m->ranks_on[node];
    for (uint32_t j = 0; j < m->n_local; j++)
        for (uint32_t i = 0; i < a; i++) {
            uint32_t from = s_rank (m, node, i), to = m->local[j];
            uint32_t p = s_piece_of (op, from);
            if (!s_flows (op, from, to) ||
                !tp_geo_has (&op->geo, &op->out[j], p, seg->index))
                continue;
            tp_ref_t dst = s_incoming (op, seg, node, i, m->me, j);
            s_add (list, node,
                   tp_geo_len (&op->geo, &op->out[j], p, seg->index), dst.off,
                   dst);
        }
}

tutti_err_t
ta_pieces_items (const ta_op_t *op, const ta_seg_t *seg, tp_items_t *sends,
                 tp_items_t *recvs)
{
    const ta_member_t *m = op->member;
    size_t most = (size_t) m->n_local * m->size + 1;
    uint64_t stride = ta_pieces_stride (op, seg);
    list_t out = { malloc (most * sizeof *out.items), 0, stride ? stride : 1 };
    list_t in = { malloc (most * sizeof *in.items), 0, stride ? stride : 1 };
    if (!out.items || !in.items) {
        free (out.items);
        free (in.items);
        return TUTTI_ENOMEM;
    }
    for (uint32_t node = 0; node < m->nodes; node++)
        if (node != m->me) {
            s_sends (op, seg, node, &out);
            s_recvs (op, seg, node, &in);
        }
    *sends = (tp_items_t){ out.items, out.n };
    *recvs = (tp_items_t){ in.items, in.n };
    return TUTTI_OK;
}

//  ------------------------------------------------------------- in, and out

void
ta_pieces_in (ta_op_t *op, ta_seg_t *seg)
{
    const ta_member_t *m = op->member;
    const tp_geo_t *geo = &op->geo;
    for (uint32_t node = 0; node < m->nodes; node++)
        for (uint32_t j = 0; j < m->ranks_on[node]; j++)
            for (uint32_t i = 0; i < m->n_local; i++) {
                uint32_t to = s_rank (m, node, j), from = m->local[i], q;
                tp_geo_source (geo, &op->sig, to, from, &q);
                if (!s_flows (op, from, to))
                    continue;
                uint64_t len = tp_geo_len (geo, &op->in[i], q, seg->index);
                if (len > 0)
                    tk_copy (seg->work + s_outgoing (op, seg, i, node, j) *
                                             geo->element,
                             tp_geo_in (geo, &op->in[i], from, q, seg->index),
                             len * geo->element, NULL);
            }
}

static const uint8_t *
s_landed (const ta_op_t *op, const ta_seg_t *seg, uint32_t node, uint32_t i,
          uint32_t j)
{
    const ta_member_t *m = op->member;
    if (node == m->me)
        return seg->work + s_outgoing (op, seg, i, node, j) * op->geo.element;
    tp_ref_t at = s_incoming (op, seg, node, i, m->me, j);
    return (at.buf == TP_WORK ? seg->work : seg->temp) +
           at.off * op->geo.element;
}

void
ta_pieces_out (ta_op_t *op, ta_seg_t *seg)
{
    const ta_member_t *m = op->member;
    const tp_geo_t *geo = &op->geo;
    for (uint32_t node = 0; node < m->nodes; node++)
        for (uint32_t j = 0; j < m->n_local; j++)
            for (uint32_t i = 0; i < m->ranks_on[node]; i++) {
                uint32_t from = s_rank (m, node, i), to = m->local[j];
                uint32_t p = s_piece_of (op, from);
                if (!s_flows (op, from, to))
                    continue;
                uint64_t len = tp_geo_len (geo, &op->out[j], p, seg->index);
                if (len > 0)
                    tk_copy (tp_geo_out (geo, &op->out[j], to, p, seg->index),
                             s_landed (op, seg, node, i, j),
                             len * geo->element, NULL);
            }
}
