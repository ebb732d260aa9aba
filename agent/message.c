//  agent/message.c - send and recv: a message from one rank to another
//
//  An op in which one or two ranks of this node take part. The receiver knows
//  how much it has room for, not how long the message is: it takes the first
//  segment, whose frame tells how many there are, then the others. What it has
//  no room for is dropped, so that nobody keeps the sender waiting.

#include "agent/channel_impl.h"
#include "kernels/tk.h"

static bool
s_sends (const ta_op_t *op, uint32_t i)
{
    return op->in[i].pieces > 0 && tp_board_in (op->member->board, op->seq, i);
}

static bool
s_receives (const ta_op_t *op, uint32_t i)
{
    return op->out[i].pieces > 0 &&
           tp_board_in (op->member->board, op->seq, i);
}

void
ta_message_items (const ta_op_t *op, const ta_seg_t *seg, tp_item_t *send,
                  tp_items_t *sends, tp_item_t *recv, tp_items_t *recvs)
{
    const ta_member_t *m = op->member;
    for (uint32_t i = 0; i < m->n_local; i++) {
        uint32_t peer = m->node_of[op->deposit[i].peer % m->size];
        if (s_sends (op, i) && peer != m->me) {
            *send = (tp_item_t){ .peer = peer,
                                 .count = tp_geo_len (&op->geo, &op->in[i], 0,
                                                      seg->index),
                                 .dst = { TP_WORK, 0, 0 } };
            *sends = (tp_items_t){ send, 1 };
        }
        if (s_receives (op, i) && peer != m->me) {
            *recv = (tp_item_t){ .peer = peer, .count = seg->len };
            *recvs = (tp_items_t){ recv, 1 };
        }
    }
}

void
ta_message_arrived (ta_op_t *op, ta_seg_t *seg, uint64_t count,
                    uint32_t segments)
{
    seg->message = count;
    op->received += count;
    if (seg->index == 0 && segments > 0)
        op->geo.segments = segments;
}

void
ta_message_in (ta_op_t *op, ta_seg_t *seg)
{
    for (uint32_t i = 0; i < op->member->n_local; i++) {
        if (!s_sends (op, i))
            continue;
        uint64_t len = tp_geo_len (&op->geo, &op->in[i], 0, seg->index);
        if (len > 0)
            tk_copy (seg->work,
                     tp_geo_in (&op->geo, &op->in[i], op->member->local[i], 0,
                                seg->index),
                     len * op->element, NULL);
        if (op->member->node_of[op->deposit[i].peer % op->member->size] ==
            op->member->me)
            ta_message_arrived (op, seg, len, op->geo.segments);
    }
}

void
ta_message_out (ta_op_t *op, ta_seg_t *seg)
{
    for (uint32_t i = 0; i < op->member->n_local; i++) {
        if (!s_receives (op, i))
            continue;
        uint64_t room = tp_geo_len (&op->geo, &op->out[i], 0, seg->index);
        uint64_t len = seg->message < room ? seg->message : room;
        if (len > 0)
            tk_copy (tp_geo_out (&op->geo, &op->out[i], op->member->local[i],
                                 0, seg->index),
                     seg->work, len * op->element, NULL);
    }
}
