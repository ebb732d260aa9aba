//  agent/place.c - frames that arrive: where they land, what they mean
//
//  Everything in a frame is hostile: bounds first, then meaning. A frame for
//  a comm that has failed or is gone is read into a trash buffer, because its
//  sender could not know; any other frame that does not fit costs the
//  connection.

#include "agent/channel_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint8_t *s_trash;  //  the channel thread's; grows to the largest frame
static size_t s_trash_bytes;

static void *
s_discard (size_t bytes)
{
    if (bytes > s_trash_bytes) {
        uint8_t *more = realloc (s_trash, bytes);
        if (!more)
            return NULL;
        s_trash = more;
        s_trash_bytes = bytes;
    }
    return s_trash;
}

static ta_member_t *
s_member (ta_channel_t *self, const tp_frame_t *frame)
{
    for (ta_member_t *m = self->members; m; m = m->link)
        if (m->id == frame->comm && m->epoch == frame->epoch)
            return m->failed ? NULL : m;
    return NULL;
}

void
ta_place_who (ta_channel_t *self, const ta_member_t *member, uint32_t node,
              char *text, size_t len)
{
    char ranks[40];
    ta_member_ranks_text (member, node, ranks, sizeof ranks);
    snprintf (text, len, "%s (node %s)", ranks,
              self->name[member->job_node[node]]);
}

void
ta_place_mismatch (ta_channel_t *self, ta_member_t *member, uint64_t seq,
                   uint32_t node, const tp_sig_t *mine, const tp_sig_t *theirs)
{
    char a[96], b[96], op[32], us[112], them[112], text[TP_TEXT_MAX];
    tp_sig_text (mine, a, sizeof a);
    tp_sig_text (theirs, b, sizeof b);
    ta_place_who (self, member, member->me, us, sizeof us);
    ta_place_who (self, member, node, them, sizeof them);
    snprintf (text, sizeof text,
              "%s: %s called %s; %s called %s; all ranks must make the "
              "same calls in the same order",
              tp_board_op_text (seq, op, sizeof op), us, a, them, b);
    ta_channel_fail (self, member, TUTTI_EMISMATCH, text);
}

//  The op that frames call ID.
static ta_op_t *
s_op (const ta_member_t *member, uint64_t id)
{
    uint32_t first = id & TP_NAMED ? TP_SLOTS : (uint32_t) (id % TP_SLOTS);
    uint32_t n = id & TP_NAMED ? TP_SLOTS : 1;
    for (uint32_t i = first; i < first + n; i++)
        if (member->ops[i] && member->ops[i]->id == id)
            return member->ops[i];
    return NULL;
}

//  The segment that a put belongs to, if it has been begun.
static ta_seg_t *
s_segment (ta_member_t *member, const tp_frame_t *frame)
{
    ta_op_t *op = s_op (member, frame->seq);
    if (!op)
        return NULL;
    ta_seg_t *seg = &op->seg[frame->segment % TA_WINDOW];
    return seg->active && seg->index == frame->segment ? seg : NULL;
}

//  Place in the buffers of a begun segment, NULL if it is outside of them.
static uint8_t *
s_inside (const ta_seg_t *seg, const tp_frame_t *frame)
{
    size_t room = frame->buf == TP_WORK ? seg->work_bytes : seg->temp_bytes;
    if (frame->off > room || frame->len > room - frame->off)
        return NULL;
    return (frame->buf == TP_WORK ? seg->work : seg->temp) + frame->off;
}

static ta_parcel_t *
s_free_parcel (ta_credit_t *credit)
{
    for (int i = 0; i < TP_EAGER_CREDITS; i++)
        if (!credit->parcel[i].full)
            return &credit->parcel[i];
    return NULL;
}

static void *
s_place (void *owner, tx_ep_t *ep, const tp_frame_t *frame)
{
    ta_channel_t *self = owner;
    uint32_t node;
    ta_member_t *member = s_member (self, frame);
    if (!member)
        return s_discard (frame->len);
    if (frame->type != TP_FRAME_PUT ||
        !ta_member_has_node (member, tx_ep_peer (ep), &node))
        return NULL;
    ta_seg_t *seg = s_segment (member, frame);
    if (seg && memcmp (&seg->op->sig, &frame->sig, sizeof frame->sig) != 0) {
        ta_place_mismatch (self, member, frame->seq, node, &seg->op->sig,
                           &frame->sig);
        return s_discard (frame->len);
    }
    if (seg) {
        uint8_t *to = s_inside (seg, frame);
        self->landing[tx_ep_peer (ep)] = to ? seg : NULL;
        return to;
    }
    ta_parcel_t *parcel =
        frame->flags & TP_FRAME_IS_EAGER && frame->len <= TP_EAGER_BYTES
            ? s_free_parcel (&member->credit[node])
            : NULL;
    return parcel ? parcel->data : NULL;
}

//  Give eager credit back; at once only if the sender has none left, else it
//  rides on the next frame.
void
ta_place_return (ta_channel_t *self, ta_member_t *member, uint32_t node)
{
    ta_credit_t *credit = &member->credit[node];
    credit->eager_in++;
    tx_ep_t *ep = self->edge[member->job_node[node]];
    if (credit->eager_in - credit->eager_told < TP_EAGER_CREDITS || !ep)
        return;
    tp_frame_t frame = { .type = TP_FRAME_EAGER,
                         .comm = member->id,
                         .epoch = member->epoch,
                         .eager = credit->eager_in };
    credit->eager_told = credit->eager_in;
    self->ops->post (self->tx, ep, &frame, NULL, 1 << 30, 0);
}

//  The parcel that a payload was put in, NULL if it was not.
static ta_parcel_t *
s_parcel_of (ta_credit_t *credit, const void *payload)
{
    for (int i = 0; i < TP_EAGER_CREDITS; i++)
        if (credit->parcel[i].data == payload)
            return &credit->parcel[i];
    return NULL;
}

//  Counts that differ between two nodes show here. False: the comm has ended.
static bool
s_length_fits (ta_channel_t *self, ta_member_t *member, uint32_t node,
               const ta_seg_t *seg, const tp_frame_t *frame)
{
    const ta_op_t *op = seg->op;
    uint64_t want = ta_recipe_expects (seg->recipe, node, seg->got[node]);
    uint64_t got = frame->len / op->element;
    char what[32], us[112], them[112], text[TP_TEXT_MAX];
    if (want == got)
        return true;
    ta_place_who (self, member, member->me, us, sizeof us);
    ta_place_who (self, member, node, them, sizeof them);
    snprintf (text, sizeof text,
              "%s, %s: %s sends %llu elements of a piece where %s "
              "expects %llu; the counts of sender and receiver must agree",
              tp_board_op_text (op->seq, what, sizeof what),
              op->geo.info->name, them, (unsigned long long) got, us,
              want == UINT64_MAX ? 0ull : (unsigned long long) want);
    ta_channel_fail (self, member, TUTTI_EMISMATCH, text);
    return false;
}

//  A payload may have begun to land before its op started here, so what
//  s_place decided is read from where it is, not decided again.
static void
s_put_arrived (ta_channel_t *self, ta_member_t *member, uint32_t node,
               const tp_frame_t *frame, void *payload)
{
    ta_seg_t *seg = s_segment (member, frame);
    bool eager = frame->flags & TP_FRAME_IS_EAGER;
    if (seg && frame->len == 0 &&
        memcmp (&seg->op->sig, &frame->sig, sizeof frame->sig) != 0) {
        ta_place_mismatch (self, member, frame->seq, node, &seg->op->sig,
                           &frame->sig);
        return;
    }
    ta_credit_t *credit = &member->credit[node];
    ta_parcel_t *parcel =
        frame->len > 0 ? s_parcel_of (credit, payload) : NULL;
    if (seg && seg->op->kind == TP_SENDRECV)
        ta_message_arrived (seg->op, seg, frame->len / seg->op->element,
                            frame->grant);
    else if (seg && seg->op->geo.info->uneven &&
             !s_length_fits (self, member, node, seg, frame))
        return;
    if (seg) {
        uint8_t *to = parcel ? s_inside (seg, frame) : NULL;
        if (to)
            memcpy (to, parcel->data, frame->len);
        seg->got[node]++;
        if (eager)
            ta_place_return (self, member, node);
        return;
    }
    if (frame->len == 0)
        parcel = s_free_parcel (credit);
    if (!parcel || !eager)
        return;
    parcel->frame = *frame;
    parcel->full = true;
}

static void
s_arrived (void *owner, tx_ep_t *ep, const tp_frame_t *frame, void *payload)
{
    ta_channel_t *self = owner;
    uint32_t node;
    self->landing[tx_ep_peer (ep)] = NULL;
    ta_member_t *member = s_member (self, frame);
    if (!member || !ta_member_has_node (member, tx_ep_peer (ep), &node))
        return;
    ta_credit_t *credit = &member->credit[node];
    //  Urgent frames overtake: one that was made before may come after.
    if ((int32_t) (frame->eager - credit->eager_acked) > 0)
        credit->eager_acked = frame->eager;
    if (frame->type == TP_FRAME_PUT)
        s_put_arrived (self, member, node, frame, payload);
    if (frame->type != TP_FRAME_GRANT)
        return;
    ta_grant_t *grant = ta_place_grant (credit, frame->seq);
    if (grant)
        *grant = (ta_grant_t){ frame->seq, frame->grant, frame->sig };
    else
        ta_channel_fail (self, member, TUTTI_EPROTO,
                         "a node grants more named operations than there can "
                         "be");
}

ta_grant_t *
ta_place_grant (ta_credit_t *credit, uint64_t id)
{
    ta_grant_t *free_place = NULL;
    if (!(id & TP_NAMED))
        return &credit->grant[id % TA_GRANTS];
    for (uint32_t i = 0; i < TA_GRANTS; i++) {
        if (credit->named[i].seq == id)
            return &credit->named[i];
        if (credit->named[i].seq == 0 && !free_place)
            free_place = &credit->named[i];
    }
    return free_place;
}

void
ta_place_forget (ta_op_t *op)
{
    ta_member_t *m = op->member;
    for (uint32_t n = 0; op->id & TP_NAMED && n < m->nodes; n++) {
        ta_grant_t *grant = ta_place_grant (&m->credit[n], op->id);
        if (grant)
            *grant = (ta_grant_t){ 0 };
    }
}

//  Order among the parcels of a node is their frame number.
static ta_parcel_t *
s_next_parcel (ta_credit_t *credit, uint64_t id)
{
    ta_parcel_t *first = NULL;
    for (int i = 0; i < TP_EAGER_CREDITS; i++) {
        ta_parcel_t *p = &credit->parcel[i];
        if (p->full && p->frame.seq == id &&
            (!first || p->frame.number < first->frame.number))
            first = p;
    }
    return first;
}

void
ta_place_parcels (ta_channel_t *self, ta_op_t *op)
{
    ta_member_t *member = op->member;
    ta_seg_t *seg = &op->seg[0];
    for (uint32_t node = 0; node < member->nodes; node++) {
        ta_parcel_t *parcel;
        while ((parcel = s_next_parcel (&member->credit[node], op->id))) {
            parcel->full = false;
            if (memcmp (&parcel->frame.sig, &op->sig, sizeof op->sig) != 0) {
                ta_place_mismatch (self, member, op->id, node, &op->sig,
                                   &parcel->frame.sig);
                return;
            }
            uint8_t *to = s_inside (seg, &parcel->frame);
            if (!to) {
                ta_channel_fail (self, member, TUTTI_EPROTO,
                                 "a node sent data that does not fit");
                return;
            }
            memcpy (to, parcel->data, parcel->frame.len);
            seg->got[node]++;
            ta_place_return (self, member, node);
        }
    }
}

static void
s_sent (void *owner, tx_ep_t *ep, uint64_t cookie)
{
    (void) owner;
    ta_seg_t *seg = (ta_seg_t *) (uintptr_t) cookie;
    uint32_t node;
    if (!ta_member_has_node (seg->op->member, tx_ep_peer (ep), &node))
        return;
    seg->sending[node]--;
    seg->sends--;
}

//  -------------------------------------------------------------- connections

static void
s_set_edge (ta_channel_t *self, uint32_t node, tx_ep_t *ep)
{
    self->edge[node] = ep;
    self->up++;
}

//  The lower node connects, so there is one connection per pair.
static bool
s_accepted (void *owner, tx_ep_t *ep, const tp_hello_t *hello, void **user_p)
{
    ta_channel_t *self = owner;
    if (!self->started || hello->from >= self->me || self->edge[hello->from])
        return false;
    *user_p = NULL;
    s_set_edge (self, hello->from, ep);
    return true;
}

static void
s_up (void *owner, tx_ep_t *ep)
{
    ta_channel_t *self = owner;
    s_set_edge (self, tx_ep_peer (ep), ep);
}

//  Payloads that were queued on a dead connection are dropped by the
//  transport without sent ().
static void
s_forget_sends (ta_member_t *m, uint32_t node)
{
    for (uint32_t s = 0; s < 2 * TP_SLOTS; s++)
        for (uint32_t i = 0; m->ops[s] && i < TA_WINDOW; i++) {
            ta_seg_t *seg = &m->ops[s]->seg[i];
            seg->sends -= seg->sending[node];
            seg->sending[node] = 0;
        }
}

static void
s_down (void *owner, tx_ep_t *ep, tutti_err_t err, const char *text)
{
    ta_channel_t *self = owner;
    uint32_t job_node = tx_ep_peer (ep), node;
    if (job_node < self->nodes && self->edge[job_node] == ep) {
        self->edge[job_node] = NULL;
        self->landing[job_node] = NULL;
        self->up--;
    }
    for (ta_member_t *m = self->members; m; m = m->link)
        if (m->nodes > 1 && ta_member_has_node (m, job_node, &node)) {
            s_forget_sends (m, node);
            ta_channel_fail (self, m, TUTTI_EPEERLOST, text);
        }
    ta_channel_edge_down (self, job_node, err, text);
}

const tx_handler_t ta_channel_handler = {
    .accepted = s_accepted,
    .up = s_up,
    .place = s_place,
    .arrived = s_arrived,
    .sent = s_sent,
    .down = s_down,
};
