//  agent/op.c - runs one op between nodes, segment by segment
//
//  A segment is begun when every local rank has it ready and fewer than
//  TA_WINDOW are in flight: its buffers are made, the nodes that put to us
//  get their GRANT, the local ranks are combined into WORK, then the schedule
//  runs step by step and stops where it would have to wait. Nothing here
//  blocks; whatever arrives makes the channel call ta_op_run again.

#include "agent/channel_impl.h"
#include "kernels/tk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

//  ------------------------------------------------------------------- start

static void
s_free (ta_op_t *op)
{
    for (uint32_t i = 0; i < TA_WINDOW; i++) {
        free (op->seg[i].got);
        free (op->seg[i].at);
    }
    free (op->deposit);
    free (op->words);
    free (op->in);
    free (op->out);
    free (op);
}

static ta_op_t *
s_new (ta_member_t *member, uint64_t seq)
{
    ta_op_t *op = calloc (1, sizeof *op);
    if (!op)
        return NULL;
    op->member = member;
    op->seq = seq;
    op->id = seq & TP_NAMED ? tp_board_key_of (member->board, seq) : seq;
    op->deposit = calloc (member->n_local, sizeof *op->deposit);
    op->in = calloc (member->n_local, sizeof *op->in);
    op->out = calloc (member->n_local, sizeof *op->out);
    bool ok = op->deposit && op->in && op->out;
    for (uint32_t i = 0; ok && i < TA_WINDOW; i++) {
        ta_seg_t *seg = &op->seg[i];
        seg->op = op;
        seg->got = calloc (3 * (size_t) member->nodes, sizeof *seg->got);
        seg->at = calloc (member->size + 1, sizeof *seg->at);
        ok = seg->got && seg->at;
        seg->taken = ok ? seg->got + member->nodes : NULL;
        seg->sending = ok ? seg->taken + member->nodes : NULL;
    }
    if (!ok) {
        s_free (op);
        return NULL;
    }
    return op;
}

//  Bytes of the largest put of an even op, no less: sums of a wider type, or
//  a block of pieces between two nodes, may be larger than any rank's buffer.
static uint64_t
s_largest_put (const ta_op_t *op)
{
    const ta_member_t *m = op->member;
    uint64_t most = 0, pieces = op->geo.pieces;
    for (uint32_t i = 0; i < m->nodes; i++)
        most = m->ranks_on[i] > most ? m->ranks_on[i] : most;
    if (op->kind == TP_ALLTOALL && most * most > pieces)
        pieces = most * most;
    return op->geo.count * pieces * op->element;
}

//  What follows from the signature alone; the same on every node.
static void
s_decide (ta_channel_t *self, ta_op_t *op)
{
    const ta_member_t *m = op->member;
    const tp_sig_t *sig = &op->sig;
    const tp_kind_info_t *info = op->geo.info;
    op->kind = info->even;
    op->dtype = info->reduces ? tk_wide (sig) : (tutti_dtype_t) sig->dtype;
    op->wide = op->dtype != (tutti_dtype_t) sig->dtype;
    op->by = sig->op == TUTTI_AVG || sig->op == TUTTI_PREMUL_SUM
                 ? TUTTI_SUM
                 : (tutti_op_t) sig->op;
    op->element = tp_dtype_size ((int) op->dtype);
    op->root_node = info->rooted ? m->node_of[sig->root] : 0;
    uint32_t flags = info->reduces ? sig->flags : 0;
    //  Of uneven kinds only some have a size that all nodes know.
    uint64_t bytes =
        (info->uneven ? sig->count : op->geo.count * op->geo.pieces) *
        op->element;
    //  Named ops may come in another order at the peer: frames of those that
    //  it has not called must not use up the credit of the one it waits for.
    op->eager = op->geo.small && !(op->seq & TP_NAMED) &&
                s_largest_put (op) <= TP_EAGER_BYTES;
    op->algorithm = (uint32_t) tp_plan_choose (&self->plan, sig->kind,
                                               (int) sig->algorithm - 1, flags,
                                               m->nodes, bytes);
}

void
ta_op_start (ta_channel_t *self, ta_member_t *member, uint64_t seq)
{
    char text[TP_TEXT_MAX];
    ta_op_t *op = s_new (member, seq);
    if (!op) {
        ta_channel_fail (self, member, TUTTI_ENOMEM,
                         "the agent has no memory for another operation");
        return;
    }
    op->sig = *tp_board_sig (member->board, seq);
    if (!tp_board_agree (member->board, seq, text)) {
        s_free (op);
        ta_channel_fail (self, member, TUTTI_EMISMATCH, text);
        return;
    }
    if (!tp_sig_ok (&op->sig, member->size) ||
        tp_geo_make (&op->geo, &op->sig, member->size,
                     member->board->segment_bytes)) {
        s_free (op);
        ta_channel_fail (self, member, TUTTI_EPROTO,
                         "a rank deposited an operation that cannot be");
        return;
    }
    s_decide (self, op);
    atomic_store_explicit (&member->board->algorithm, op->algorithm,
                           memory_order_relaxed);
    member->ops[tp_board_slot (seq)] = op;
}

//  -------------------------------------------------------------------- begin

static bool
s_all_ready (const ta_op_t *op, uint32_t g)
{
    tp_board_t *board = op->member->board;
    for (uint32_t i = 0; i < op->member->n_local; i++)
        if (tp_board_in (board, op->seq, i) &&
            atomic_load (&tp_board_cell (board, op->seq, i)->ready) <= g)
            return false;
    return true;
}

static tp_frame_t
s_frame (ta_op_t *op, uint32_t node, tp_frame_type_t type)
{
    ta_credit_t *credit = &op->member->credit[node];
    credit->eager_told = credit->eager_in;
    return (tp_frame_t){ .type = (uint8_t) type,
                         .comm = op->member->id,
                         .epoch = op->member->epoch,
                         .seq = op->id,
                         .eager = credit->eager_in,
                         .sig = op->sig };
}

static tx_ep_t *
s_edge (ta_channel_t *self, const ta_member_t *member, uint32_t node)
{
    return self->edge[member->job_node[node]];
}

static void
s_grant (ta_channel_t *self, ta_op_t *op, const ta_recipe_t *recipe)
{
    for (uint32_t i = 0; i < recipe->n_senders; i++) {
        uint32_t node = recipe->senders[i];
        tx_ep_t *ep = s_edge (self, op->member, node);
        if (!ep)
            continue;
        tp_frame_t frame = s_frame (op, node, TP_FRAME_GRANT);
        frame.grant = op->begun + 1;
        self->ops->post (self->tx, ep, &frame, NULL, 1 << 30, 0);
    }
}

static tutti_err_t
s_buffers (ta_op_t *op, ta_seg_t *seg)
{
    const tp_schedule_t *schedule = &seg->recipe->schedule;
    uint64_t work = schedule->work, least = seg->len;
    if (ta_pieces_kind (op->kind))
        least = ta_pieces_room (op, seg);
    else if (op->geo.pieces > 1)
        least = seg->at[op->member->size];
    work = work > least ? work : least;
    seg->work_bytes = work * op->element;
    seg->temp_bytes = schedule->temp * op->element;
    seg->work = ta_stage_work (op, seg->index);
    seg->work_ours = seg->work == NULL;
    if (seg->work_ours)
        seg->work = malloc (seg->work_bytes + 1);
    seg->temp = malloc (seg->temp_bytes + 1);
    return seg->work && seg->temp ? TUTTI_OK : TUTTI_ENOMEM;
}

static void
s_free_buffers (ta_seg_t *seg)
{
    if (seg->work_ours)
        free (seg->work);
    free (seg->temp);
    seg->work = seg->temp = NULL;
    seg->work_ours = false;
    if (seg->recipe)
        ta_recipe_release (seg->recipe);
    seg->recipe = NULL;
    seg->active = false;
}

//  Elements of the longest piece in a segment.
static uint64_t
s_longest (const ta_op_t *op, uint32_t g)
{
    static const tp_side_t even;
    if (!op->geo.info->uneven)
        return tp_geo_len (&op->geo, &even, 0, g);
    return op->geo.seg;
}

//  The next segment; false if it cannot be begun now.
static bool
s_begin (ta_channel_t *self, ta_op_t *op)
{
    if (op->begun == op->geo.segments ||
        op->begun - op->written >= TA_WINDOW || !s_all_ready (op, op->begun))
        return false;
    ta_seg_t *seg = &op->seg[op->begun % TA_WINDOW];
    char text[TP_TEXT_MAX];
    tutti_err_t err =
        op->resolved ? TUTTI_OK : ta_stage_resolve (self, op, text);
    seg->index = op->begun;
    seg->len = s_longest (op, seg->index);
    seg->pc = 0;
    memset (seg->got, 0, 2 * op->member->nodes * sizeof *seg->got);
    if (!err) {
        ta_stage_layout (op, seg);
        seg->recipe = ta_recipe_get (op, seg);
        err = seg->recipe ? s_buffers (op, seg) : TUTTI_ENOMEM;
    }
    if (!err) {
        seg->active = true;
        if (!op->eager) {
            s_grant (self, op, seg->recipe);
            self->ops->poll (self->tx, 0);
        }
        err = ta_stage_in (op, seg);
    }
    op->begun++;
    if (err)
        ta_channel_fail (self, op->member, err,
                         err == TUTTI_ENOMEM
                             ? "the agent has no memory for a segment"
                             : text);
    else if (op->eager)
        ta_place_parcels (self, op);
    return true;
}

//  --------------------------------------------------------------------- run

static uint8_t *
s_at (const ta_op_t *op, const ta_seg_t *seg, const tp_ref_t *ref)
{
    return (ref->buf == TP_WORK ? seg->work : seg->temp) +
           ref->off * op->element;
}

//  Credit for one put of this segment; eager credit is spent.
static bool
s_may_send (ta_channel_t *self, ta_op_t *op, const ta_seg_t *seg,
            uint32_t node)
{
    ta_credit_t *credit = &op->member->credit[node];
    if (op->eager) {
        if (credit->eager_out - credit->eager_acked >= TP_EAGER_CREDITS)
            return false;
        credit->eager_out++;
        return true;
    }
    const ta_grant_t *grant = ta_place_grant (credit, op->id);
    if (!grant || grant->seq != op->id || grant->segments <= seg->index)
        return false;
    if (memcmp (&grant->sig, &op->sig, sizeof op->sig) != 0) {
        ta_place_mismatch (self, op->member, op->id, node, &op->sig,
                           &grant->sig);
        return false;
    }
    return true;
}

static bool
s_send (ta_channel_t *self, ta_op_t *op, ta_seg_t *seg, const tp_step_t *step)
{
    tx_ep_t *ep = s_edge (self, op->member, step->peer);
    if (!ep || !s_may_send (self, op, seg, step->peer))
        return false;
    tp_frame_t frame = s_frame (op, step->peer, TP_FRAME_PUT);
    frame.flags = op->eager ? TP_FRAME_IS_EAGER : 0;
    frame.segment = seg->index;
    frame.grant = op->kind == TP_SENDRECV ? op->geo.segments : 0;
    frame.buf = step->dst.buf;
    frame.off = step->dst.off * op->element;
    frame.len = (uint32_t) (step->count * op->element);
    uint64_t cookie = frame.len > 0 ? (uint64_t) (uintptr_t) seg : 0;
    if (self->ops->post (self->tx, ep, &frame, s_at (op, seg, &step->src),
                         op->deposit[0].priority, cookie)) {
        ta_channel_fail (self, op->member, TUTTI_ENOMEM,
                         "the transport has no memory for a frame");
        return false;
    }
    if (cookie) {
        seg->sends++;
        seg->sending[step->peer]++;
    }
    return true;
}

//  One step. False: it has to wait.
static bool
s_step (ta_channel_t *self, ta_op_t *op, ta_seg_t *seg)
{
    const tp_step_t *step = &seg->recipe->schedule.steps[seg->pc];
    const void *two[2];
    void *dst;
    switch (step->op) {
    case TP_STEP_SEND:
        return s_send (self, op, seg, step);
    case TP_STEP_RECV:
        if (seg->got[step->peer] == seg->taken[step->peer])
            return false;
        seg->taken[step->peer]++;
        return true;
    case TP_STEP_REDUCE:
        dst = s_at (op, seg, &step->dst);
        two[0] = s_at (op, seg, &step->src);
        two[1] = s_at (op, seg, &step->src2);
        tk_reduce (&dst, 1, two, 2, step->count, op->dtype, op->by, 1, NULL);
        return true;
    case TP_STEP_COPY:
        tk_copy (s_at (op, seg, &step->dst), s_at (op, seg, &step->src),
                 step->count * op->element, NULL);
        return true;
    default:
        return seg->sends == 0;
    }
}

//  A segment is over: deliver it, and tell the ranks how far it is.
static void
s_end (ta_channel_t *self, ta_op_t *op, ta_seg_t *seg)
{
    ta_member_t *m = op->member;
    ta_stage_out (op, seg);
    op->done |= UINT64_C (1) << (seg->index - op->written);
    s_free_buffers (seg);
    while (op->done & 1) {
        op->done >>= 1;
        op->written++;
    }
    //  The memory must be let go before a rank can see that it is done.
    if (op->written == op->geo.segments)
        ta_stage_release (self, op);
    for (uint32_t i = 0; i < m->n_local; i++) {
        tp_cell_t *cell = tp_board_cell (m->board, op->seq, i);
        if (!tp_board_in (m->board, op->seq, i))
            continue;
        if (op->kind == TP_SENDRECV && op->written == op->geo.segments &&
            op->out[i].pieces > 0)
            atomic_store (&cell->received, op->received + 1);
        atomic_store (&cell->read, op->written);
        atomic_store (&cell->written, op->written);
        ta_channel_wake (self, m, i);
    }
}

static bool
s_run_seg (ta_channel_t *self, ta_op_t *op, ta_seg_t *seg)
{
    bool moved = false;
    size_t length = seg->recipe->schedule.length;
    while (seg->pc < length && s_step (self, op, seg)) {
        seg->pc++;
        moved = true;
    }
    if (seg->pc == length && seg->sends == 0 && !op->member->failed) {
        s_end (self, op, seg);
        moved = true;
    }
    return moved;
}

bool
ta_op_run (ta_channel_t *self, ta_op_t *op)
{
    bool moved = false;
    while (!op->member->failed && s_begin (self, op))
        moved = true;
    for (uint32_t i = 0; i < TA_WINDOW && !op->member->failed; i++)
        if (op->seg[i].active)
            moved |= s_run_seg (self, op, &op->seg[i]);
    if (!op->member->failed && op->written == op->geo.segments) {
        ta_place_forget (op);
        op->member->ops[tp_board_slot (op->seq)] = NULL;
        s_free (op);
        return true;
    }
    return moved;
}

//  Whether the transport still reads from or writes to the segment.
static bool
s_in_use (const ta_channel_t *self, const ta_seg_t *seg)
{
    for (uint32_t i = 0; i < self->nodes; i++)
        if (self->landing[i] == seg)
            return true;
    return seg->sends > 0;
}

void
ta_op_drop (ta_channel_t *self, ta_op_t *op)
{
    for (uint32_t i = 0; self->tx && i < TA_WINDOW; i++)
        if (op->seg[i].active && s_in_use (self, &op->seg[i]))
            return;
    for (uint32_t i = 0; i < TA_WINDOW; i++)
        if (op->seg[i].active)
            s_free_buffers (&op->seg[i]);
    ta_stage_release (self, op);
    op->member->ops[tp_board_slot (op->seq)] = NULL;
    s_free (op);
}

//  Waiting is normal; only the coordinator can see that nodes wait in the same
//  op with different signatures.
#define STALL_MS 1000

bool
ta_op_stalled (ta_channel_t *self, ta_op_t *op, int64_t now_ms, char *text)
{
    uint64_t mark = 1 + op->begun + op->written;
    char who[112], what[96];
    for (uint32_t i = 0; i < TA_WINDOW; i++)
        mark += op->seg[i].active ? op->seg[i].pc : 0;
    if (mark != op->mark) {
        op->mark = mark;
        op->mark_ms = now_ms;
    }
    if (op->told || now_ms - op->mark_ms < STALL_MS)
        return false;
    op->told = true;
    ta_place_who (self, op->member, op->member->me, who, sizeof who);
    tp_sig_text (&op->sig, what, sizeof what);
    snprintf (text, TP_TEXT_MAX, "%s called %s", who, what);
    return true;
}
