//  transport/loopback_ep.c - endpoints, links and the frames on them
//
//  A frame is copied when it leaves, as the kernel would do for TCP, and a
//  link takes WINDOW_BYTES of payload each way before its sender must wait.

#include "transport/loopback.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#define WINDOW_BYTES (4u << 20)
#define WINDOW_FRAMES 4096
#define FRAMES 256  //  each way, per endpoint and turn

//  Links -----------------------------------------------------------------

void
tx_loop_ring (const loop_t *tx)
{
    if (tx)
        eventfd_write (tx->bell_fd, 1);
}

//  Under the mutex: side SIDE leaves. The link goes with the second one.
void
tx_loop_leave (loop_link_t *link, int side)
{
    loop_end_t *end = &link->end[side];
    while (end->head) {
        loop_msg_t *msg = end->head;
        end->head = msg->next;
        free (msg);
    }
    end->tx = NULL;
    if (link->end[!side].tx)
        tx_loop_ring (link->end[!side].tx);
    else {
        explicit_bzero (link->key, sizeof link->key);
        free (link);
    }
}

//  Endpoints -------------------------------------------------------------

void
tx_loop_enter (loop_ep_t *ep, loop_state_t state)
{
    if (state == LP_UP)
        ep->tx->base.stats.endpoints++;
    else if (ep->state == LP_UP)
        ep->tx->base.stats.endpoints--;
    ep->state = state;
}

loop_ep_t *
tx_loop_ep_new (loop_t *tx, loop_link_t *link, int side)
{
    loop_ep_t *ep = calloc (1, sizeof *ep);
    if (!ep)
        return NULL;
    ep->tx = tx;
    ep->link = link;
    ep->side = side;
    ep->turn = tx->turn;
    ep->deadline = TX_NEVER;
    ep->next = tx->eps;
    if (tx->eps)
        tx->eps->prev = ep;
    tx->eps = ep;
    return ep;
}

void
tx_loop_drop (loop_ep_t *ep)
{
    loop_t *tx = ep->tx;
    if (ep->state == LP_DOWN)
        return;
    tx_loop_enter (ep, LP_DOWN);
    if (ep->link) {
        tx_loop_lock ();
        if (ep->side == 1 && ep->link->answer == LOOP_ASKED)
            ep->link->answer = LOOP_REFUSED;
        tx_loop_leave (ep->link, ep->side);
        tx_loop_unlock ();
    }
    tx_queue_clear (&ep->queue, &tx->base);
    *(ep->prev ? &ep->prev->next : &tx->eps) = ep->next;
    if (ep->next)
        ep->next->prev = ep->prev;
    if (!tx->base.polling) {
        free (ep);
        return;
    }
    ep->next = tx->dead;
    tx->dead = ep;
}

static void
s_down (loop_ep_t *ep, tutti_err_t err, const char *what)
{
    loop_t *tx = ep->tx;
    char text[TP_TEXT_MAX];
    if (ep->state == LP_DOWN)
        return;
    snprintf (text, sizeof text, "node %u at %s%u: %s", ep->base.peer,
              ep->side ? "the caller of loop:" : "loop:",
              ep->side ? tx->number : ep->to, what);
    if (err == TUTTI_EPROTO)
        tx->base.stats.refused++;
    tx_loop_drop (ep);
    tx->events++;
    tx->base.handler.down (tx->base.owner, &ep->base, err, text);
}

//  Connecting ------------------------------------------------------------

static void
s_pause (loop_ep_t *ep, int64_t now)
{
    tx_loop_enter (ep, LP_PAUSED);
    ep->deadline = now + tx_pause_ns (&ep->tx->base, ep->attempts);
    if (ep->deadline > ep->give_up)
        ep->deadline = ep->give_up;
}

static void
s_dial (loop_ep_t *ep, int64_t now)
{
    loop_t *tx = ep->tx;
    loop_link_t *link = calloc (1, sizeof *link);
    ep->attempts++;
    tx_loop_lock ();
    loop_t *to = link ? tx_loop_listener (ep->to) : NULL;
    if (to) {
        tx_base_hello (&tx->base, ep->base.peer, 0, &link->hello);
        memcpy (link->key, tx->base.key, sizeof link->key);
        link->end[0].tx = tx;
        link->end[1].tx = to;
        link->until = now + TX_PARKED_NS;
        link->next = to->callers;
        to->callers = link;
        ep->link = link;
        tx_loop_ring (to);
    }
    tx_loop_unlock ();
    if (to) {
        ep->deadline = ep->give_up;
        tx_loop_enter (ep, LP_CALLING);
    }
    else {
        free (link);
        s_pause (ep, now);
    }
}

//  The answer to our call, if it is here.
static void
s_called (loop_ep_t *ep, int64_t now)
{
    loop_t *tx = ep->tx;
    tx_loop_lock ();
    loop_answer_t answer = ep->link->answer;
    bool gone = !ep->link->end[1].tx;
    tx_loop_unlock ();
    if (answer == LOOP_REFUSED)
        s_down (ep, TUTTI_EDENIED,
                "refused: another key, job, epoch, node or channel, or it "
                "does not want us");
    else if (answer == LOOP_ACCEPTED) {
        tx_loop_enter (ep, LP_UP);
        ep->deadline = TX_NEVER;
        tx->events++;
        tx->base.handler.up (tx->base.owner, &ep->base);
    }
    else if (gone) {  //  without an answer: try again
        tx_loop_lock ();
        tx_loop_leave (ep->link, 0);
        tx_loop_unlock ();
        ep->link = NULL;
        s_pause (ep, now);
    }
}

//  Frames ----------------------------------------------------------------

static loop_msg_t *
s_msg_new (loop_ep_t *ep, const tx_post_t *post)
{
    loop_msg_t *msg = malloc (sizeof *msg + post->frame.len);
    if (!msg)
        return NULL;
    msg->next = NULL;
    msg->frame = post->frame;
    msg->frame.number = ++ep->number_out;
    msg->frame.ack = ep->number_in;
    if (post->frame.len)
        memcpy (msg->payload, post->payload, post->frame.len);
    return msg;
}

static bool
s_room (loop_ep_t *ep)
{
    tx_loop_lock ();
    const loop_end_t *end = &ep->link->end[!ep->side];
    bool room =
        end->tx && end->bytes < WINDOW_BYTES && end->frames < WINDOW_FRAMES;
    tx_loop_unlock ();
    return room;
}

//  Put MSG on its way; it is lost if nobody is there any more.
static void
s_send (loop_ep_t *ep, loop_msg_t *msg)
{
    tx_loop_lock ();
    loop_end_t *end = &ep->link->end[!ep->side];
    if (end->tx) {
        *(end->head ? &end->tail->next : &end->head) = msg;
        end->tail = msg;
        end->bytes += msg->frame.len;
        end->frames++;
        tx_loop_ring (end->tx);
        msg = NULL;
    }
    tx_loop_unlock ();
    free (msg);
}

static void
s_flush (loop_ep_t *ep)
{
    tx_t *base = &ep->tx->base;
    for (int i = 0;
         i < FRAMES && ep->state == LP_UP && ep->queue.head && s_room (ep);
         i++) {
        loop_msg_t *msg = s_msg_new (ep, ep->queue.head);
        if (!msg)
            return;
        tx_post_t *post = tx_queue_take (&ep->queue);
        uint64_t cookie = post->cookie;
        base->stats.frames_out++;
        base->stats.payload_out += post->frame.len;
        base->stats.writes++;
        tx_post_free (base, post);
        s_send (ep, msg);
        ep->tx->events++;
        if (cookie)
            base->handler.sent (base->owner, &ep->base, cookie);
    }
}

//  The next frame for this endpoint, or NULL; *gone_p: and none will come.
static loop_msg_t *
s_receive (loop_ep_t *ep, bool *gone_p)
{
    tx_loop_lock ();
    loop_end_t *end = &ep->link->end[ep->side];
    loop_msg_t *msg = end->head;
    loop_t *from = ep->link->end[!ep->side].tx;
    if (msg) {
        end->head = msg->next;
        end->bytes -= msg->frame.len;
        end->frames--;
        tx_loop_ring (from);  //  there is room again
    }
    *gone_p = !msg && !from;
    tx_loop_unlock ();
    return msg;
}

static void
s_deliver (loop_ep_t *ep, const loop_msg_t *msg)
{
    tx_t *base = &ep->tx->base;
    const tp_frame_t *frame = &msg->frame;
    void *payload = NULL;
    ep->number_in = frame->number;
    if (frame->ack > ep->acked)
        ep->acked = frame->ack;
    if (frame->len) {
        payload = base->handler.place (base->owner, &ep->base, frame);
        if (!payload)
            s_down (ep, TUTTI_EPROTO,
                    "sent a payload for which there is no place");
        if (ep->state != LP_UP)
            return;
        memcpy (payload, msg->payload, frame->len);
    }
    base->stats.frames_in++;
    base->stats.payload_in += frame->len;
    base->stats.reads++;
    ep->tx->events++;
    base->handler.arrived (base->owner, &ep->base, frame, payload);
}

static void
s_read (loop_ep_t *ep)
{
    bool gone = false;
    loop_msg_t *msg;
    for (int i = 0; i < FRAMES && ep->state == LP_UP; i++) {
        msg = s_receive (ep, &gone);
        if (!msg)
            break;
        s_deliver (ep, msg);
        free (msg);
    }
    if (gone)
        s_down (ep, TUTTI_EPEERLOST, "closed by the peer");
}

void
tx_loop_serve (loop_ep_t *ep, int64_t now)
{
    if (ep->state != LP_UP && now >= ep->give_up) {
        s_down (ep, TUTTI_ETIMEDOUT, "cannot connect: nobody listens there");
        return;
    }
    if (ep->state == LP_PAUSED && ep->deadline <= now)
        s_dial (ep, now);
    if (ep->state == LP_CALLING)
        s_called (ep, now);
    if (ep->state == LP_UP)
        s_flush (ep);
    if (ep->state == LP_UP)
        s_read (ep);
    if (ep->state == LP_UP)
        s_flush (ep);
}
