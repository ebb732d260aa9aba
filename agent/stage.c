//  agent/stage.c - between the ranks' memory and the node's vector (WORK)
//
//  On the way in the local ranks are combined, so that one stream per node
//  goes over the network; on the way out every local rank gets its output.
//  WORK keeps pieces in node-major order (ta_member_t.position). In the
//  reproducible mode it holds one vector per block of ranks that this node
//  reduces by itself (schedule.h).

#include "agent/channel_impl.h"
#include "kernels/tk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

//  ----------------------------------------------------------------- resolve

//  One side of local rank I from its deposit (already a copy).
static tutti_err_t
s_side (ta_channel_t *self, ta_op_t *op, uint32_t i, bool in)
{
    const tp_deposit_t *d = &op->deposit[i];
    tp_side_t *side = in ? &op->in[i] : &op->out[i];
    uint64_t bytes = tp_geo_bytes (&op->geo, side);
    side->where = in ? d->in_where : d->out_where;
    switch (side->where) {
    case TP_WHERE_NONE:
        return bytes == 0 ? TUTTI_OK : TUTTI_EPROTO;
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

//  Counts of local rank I: a copy, since the rank could change them.
static tutti_err_t
s_words (ta_channel_t *self, ta_op_t *op, uint32_t i)
{
    const tp_deposit_t *d = &op->deposit[i];
    uint32_t r = op->member->local[i];
    size_t n = tp_geo_words (&op->sig, op->member->size, r);
    uint64_t *words = NULL;
    if (n > 0) {
        words = op->words + (size_t) i * 4 * op->member->size;
        const void *from = ta_memory_use (self->memory, d->words_segment,
                                          d->words_off, n * sizeof *words);
        if (!from)
            return TUTTI_EPROTO;
        memcpy (words, from, n * sizeof *words);
        ta_memory_unuse (self->memory, d->words_segment);
    }
    tp_geo_sides (&op->geo, &op->sig, r, words, &op->in[i], &op->out[i]);
    if (tp_geo_bytes (&op->geo, &op->in[i]) == UINT64_MAX ||
        tp_geo_bytes (&op->geo, &op->out[i]) == UINT64_MAX)
        return TUTTI_EPROTO;
    return TUTTI_OK;
}

//  A message is as long as its sender says; a receiver alone finds out.
static tutti_err_t
s_measure_message (ta_op_t *op)
{
    const ta_member_t *m = op->member;
    uint64_t most = UINT64_MAX;
    for (uint32_t i = 0; i < m->n_local; i++)
        if (tp_board_in (m->board, op->seq, i) && op->in[i].pieces > 0)
            most = op->in[i].counts[0];
    if (most < UINT64_MAX)
        return tp_geo_stretch (&op->geo, most) ? TUTTI_EPROTO : TUTTI_OK;
    op->geo.segments = 1;  //  the first put tells how many there are
    return TUTTI_OK;
}

//  How many segments the largest piece needs, and whether what stays on this
//  node fits; what does not shows when it arrives.
static tutti_err_t
s_measure (ta_op_t *op, char *text)
{
    const ta_member_t *m = op->member;
    uint64_t most = 0;
    tp_side_t *known = calloc (m->size, sizeof *known);
    if (!known)
        return TUTTI_ENOMEM;
    for (uint32_t i = 0; i < m->n_local; i++) {
        uint64_t in = tp_geo_most (&op->in[i]),
                 out = tp_geo_most (&op->out[i]);
        most = in > most ? in : most;
        most = out > most ? out : most;
        known[m->local[i]] = op->in[i];
    }
    bool fits = true, message = op->kind == TP_SENDRECV;
    for (uint32_t i = 0; fits && !message && i < m->n_local; i++)
        fits = tk_work_fits (&op->geo, &op->sig, known, &op->out[i],
                             m->local[i], text);
    free (known);
    if (!fits)
        return TUTTI_EMISMATCH;
    if (message)
        return s_measure_message (op);
    return tp_geo_stretch (&op->geo, most) ? TUTTI_EPROTO : TUTTI_OK;
}

tutti_err_t
ta_stage_resolve (ta_channel_t *self, ta_op_t *op, char *text)
{
    uint32_t n = op->member->n_local;
    bool uneven = op->geo.info->uneven;
    snprintf (text, TP_TEXT_MAX,
              "a rank deposited memory that is not there, or counts that "
              "cannot be");
    op->resolved = true;
    memset (op->in, 0, n * sizeof *op->in);
    memset (op->out, 0, n * sizeof *op->out);
    if (uneven) {
        op->words =
            calloc ((size_t) n * 4 * op->member->size + 1, sizeof *op->words);
        if (!op->words)
            return TUTTI_ENOMEM;
    }
    tutti_err_t err = TUTTI_OK;
    for (uint32_t i = 0; i < n; i++)
        op->deposit[i] =
            tp_board_cell (op->member->board, op->seq, i)->deposit;
    for (uint32_t i = 0; i < n && !err; i++) {
        if (!tp_board_in (op->member->board, op->seq, i))
            continue;
        err = s_words (self, op, i);
        if (!err)
            err = s_side (self, op, i, true);
        if (!err)
            err = s_side (self, op, i, false);
    }
    return !err && uneven ? s_measure (op, text) : err;
}

//  Whose counts tell the size of every piece: any local rank's where all know
//  them, else nobody's, and pieces have places of their own (pieces.c).
void
ta_stage_layout (const ta_op_t *op, ta_seg_t *seg)
{
    const ta_member_t *m = op->member;
    uint64_t at = 0;
    const tp_side_t *side =
        op->geo.info->in == TP_FORM_EACH ? &op->in[0] : &op->out[0];
    bool known = op->geo.pieces > 1 && !ta_pieces_kind (op->kind);
    for (uint32_t p = 0; p < m->size; p++) {
        seg->at[p] = at;
        at += known ? tp_geo_len (&op->geo, side, m->at[p], seg->index) : 0;
    }
    seg->at[m->size] = at;
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

//  Local ranks of the block, in order, reduced into DST: LEN elements of piece
//  P. ASIDE, if not NULL: room for inputs that change their width, or are
//  multiplied, on the way.
static tutti_err_t
s_reduce_block (ta_op_t *op, void *dst, const tp_block_t *block, uint32_t p,
                uint64_t len, const ta_seg_t *seg, uint8_t *aside)
{
    const ta_member_t *m = op->member;
    const void *src[TP_LOCAL_MAX];
    uint32_t n = 0;
    if (len == 0)
        return TUTTI_OK;
    for (uint32_t i = 0; i < m->n_local; i++) {
        uint32_t r = m->local[i];
        if (r < block->first || r - block->first >= block->count)
            continue;
        src[n] = tp_geo_in (&op->geo, &op->in[i], r, p, seg->index);
        if (aside) {
            uint8_t *to = aside + n * seg->len * op->element;
            double factor =
                op->sig.op == TUTTI_PREMUL_SUM ? op->deposit[i].scale : 1.0;
            tk_bring (to, op->dtype, src[n], (tutti_dtype_t) op->sig.dtype,
                      len, factor);
            src[n] = to;
        }
        n++;
    }
    return tk_reduce (&dst, 1, src, (int) n, len, op->dtype, op->by, 1, NULL);
}

//  Every piece of one block; *dst_p moves on.
static tutti_err_t
s_reduce_pieces (ta_op_t *op, ta_seg_t *seg, const tp_block_t *block,
                 uint8_t *aside, uint8_t **dst_p)
{
    const ta_member_t *m = op->member;
    bool many = op->geo.info->in == TP_FORM_EACH;
    tutti_err_t err = TUTTI_OK;
    for (uint32_t k = 0; k < (many ? m->size : 1) && !err; k++) {
        uint64_t len = many ? seg->at[k + 1] - seg->at[k] : seg->len;
        err = s_reduce_block (op, *dst_p, block, many ? m->at[k] : 0, len, seg,
                              aside);
        *dst_p += len * op->element;
    }
    return err;
}

//  Every block of this node.
static tutti_err_t
s_reduce_in (ta_op_t *op, ta_seg_t *seg)
{
    const ta_member_t *m = op->member;
    uint8_t *aside = NULL, *dst = seg->work;
    if (op->sig.op == TUTTI_PREMUL_SUM || op->wide) {
        aside = malloc (m->n_local * seg->len * op->element + 1);
        if (!aside)
            return TUTTI_ENOMEM;
    }
    tutti_err_t err = TUTTI_OK;
    bool tree = op->sig.flags & TP_SIG_REPRODUCIBLE;
    tp_block_t all = { 0, m->size, m->me };
    for (uint32_t b = 0; b < (tree ? m->blocks.length : 1) && !err; b++) {
        const tp_block_t *block = tree ? &m->blocks.list[b] : &all;
        if (block->node == m->me)
            err = s_reduce_pieces (op, seg, block, aside, &dst);
    }
    free (aside);
    return err;
}

static void
s_gather_in (ta_op_t *op, ta_seg_t *seg)
{
    const ta_member_t *m = op->member;
    for (uint32_t i = 0; i < m->n_local; i++) {
        uint32_t r = m->local[i], k = m->position[r];
        uint64_t len = seg->at[k + 1] - seg->at[k];
        if (len > 0)
            tk_copy (seg->work + seg->at[k] * op->element,
                     tp_geo_in (&op->geo, &op->in[i], r, 0, seg->index),
                     len * op->element, NULL);
    }
}

static void
s_root_in (ta_op_t *op, ta_seg_t *seg)
{
    for (uint32_t i = 0; i < op->member->n_local; i++)
        if (op->sig.root == (int32_t) op->member->local[i])
            tk_copy (seg->work,
                     tp_geo_in (&op->geo, &op->in[i], op->member->local[i], 0,
                                seg->index),
                     seg->len * op->element, NULL);
}

tutti_err_t
ta_stage_in (ta_op_t *op, ta_seg_t *seg)
{
    if (op->kind == TP_SENDRECV)
        ta_message_in (op, seg);
    else if (ta_pieces_kind (op->kind))
        ta_pieces_in (op, seg);
    else if (seg->len == 0)
        return TUTTI_OK;
    else if (op->geo.info->reduces)
        return s_reduce_in (op, seg);
    else if (op->kind == TP_ALLGATHER)
        s_gather_in (op, seg);
    else if (op->kind == TP_BROADCAST)
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
    bool kind = op->kind == TP_ALLREDUCE ||
                (op->kind == TP_BROADCAST && op->root_node != op->member->me);
    if (!direct || !kind)
        return NULL;
    return tp_geo_out (&op->geo, &op->out[0], op->member->local[0], 0, g);
}

//  --------------------------------------------------------------------- out

//  LEN elements at FROM to local rank I as piece P of its output.
static void
s_deliver (ta_op_t *op, const ta_seg_t *seg, uint32_t i, uint32_t p,
           const uint8_t *from, uint64_t len)
{
    uint32_t r = op->member->local[i];
    if (len == 0)
        return;
    void *to = tp_geo_out (&op->geo, &op->out[i], r, p, seg->index);
    if (to == from)
        return;
    if (op->wide)
        tk_resize (to, (tutti_dtype_t) op->sig.dtype, from, op->dtype, len);
    else
        tk_copy (to, from, len * op->element, NULL);
}

static void
s_out_rank (ta_op_t *op, ta_seg_t *seg, uint32_t i)
{
    const ta_member_t *m = op->member;
    bool each = op->geo.info->out == TP_FORM_EACH;
    for (uint32_t p = 0; p < op->out[i].pieces; p++) {
        uint32_t k = m->position[each ? p : m->local[i]];
        bool parts = op->geo.pieces > 1;
        s_deliver (op, seg, i, p,
                   seg->work + (parts ? seg->at[k] : 0) * op->element,
                   parts ? seg->at[k + 1] - seg->at[k] : seg->len);
    }
}

//  The elements of WORK that are complete here.
static void
s_average (ta_op_t *op, ta_seg_t *seg)
{
    const ta_member_t *m = op->member;
    uint64_t first = 0, end = seg->len;
    if (op->kind == TP_REDUCE_SCATTER) {
        uint32_t k = m->first_on[m->me];
        first = seg->at[k];
        end = seg->at[k + m->n_local];
    }
    if (end > first)
        tk_divide (seg->work + first * op->element, end - first, op->dtype,
                   m->size, NULL);
}

void
ta_stage_out (ta_op_t *op, ta_seg_t *seg)
{
    if (op->kind == TP_SENDRECV) {
        ta_message_out (op, seg);
        return;
    }
    if (ta_pieces_kind (op->kind)) {
        ta_pieces_out (op, seg);
        return;
    }
    if (seg->len == 0)
        return;
    if (op->sig.op == TUTTI_AVG && op->geo.info->reduces)
        s_average (op, seg);
    for (uint32_t i = 0; i < op->member->n_local; i++)
        s_out_rank (op, seg, i);
}
