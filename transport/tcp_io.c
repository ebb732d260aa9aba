//  transport/tcp_io.c - frames over a connection that is up
//
//  Out: headers and payloads of as many posts as fit are gathered into one
//  sendmsg of about a MiB. A frame gets its number when its first byte leaves,
//  since until then one of higher priority may overtake it.
//
//  In: between frames we read into the buffer that all endpoints share, so
//  that many small frames cost one call; a payload that is longer than what
//  the buffer held is read in place, and with the same call the buffer takes
//  what follows it. After a long payload only a header is read at first: most
//  likely another long payload comes, and none of it should be copied.

#include "transport/tcp.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/uio.h>

#define CALL_BYTES (1u << 20)  //  of payload in one system call (PERF 7)
#define IOV_MAX_OUT 64
#define CALLS 4  //  of a kind, per endpoint and poll
#define BULK_BYTES (16u << 10)

static size_t
s_min (size_t a, size_t b)
{
    return a < b ? a : b;
}

//  Sending ---------------------------------------------------------------

static void
s_stamp (const tcp_ep_t *self, tx_post_t *post, uint64_t number)
{
    post->frame.number = number;
    post->frame.ack = self->number_in;
    tp_frame_encode (&post->frame, post->header);
}

//  Returns the number of vectors; their bytes go to *bytes_p.
static size_t
s_gather (tcp_ep_t *self, struct iovec *iov, size_t *bytes_p)
{
    size_t n = 0, bytes = 0;
    uint64_t number = self->number_out;
    for (tx_post_t *post = self->queue.head;
         post && n + 2 <= IOV_MAX_OUT && bytes < CALL_BYTES;
         post = post->next) {
        size_t at = post->moved;
        if (at == 0)
            s_stamp (self, post, ++number);
        if (at < TP_FRAME_BYTES) {
            iov[n].iov_base = post->header + at;
            iov[n].iov_len = TP_FRAME_BYTES - at;
            bytes += iov[n++].iov_len;
            at = TP_FRAME_BYTES;
        }
        size_t rest = TP_FRAME_BYTES + post->frame.len - at;
        if (rest == 0)
            continue;
        if (bytes >= CALL_BYTES)
            break;
        iov[n].iov_base = (void *) (post->payload + (at - TP_FRAME_BYTES));
        iov[n].iov_len = s_min (rest, CALL_BYTES - bytes);
        bytes += iov[n++].iov_len;
    }
    *bytes_p = bytes;
    return n;
}

//  The kernel took BYTES. All posts are settled before a handler runs, because
//  it may post something that overtakes them.
static void
s_settle (tcp_ep_t *self, size_t bytes)
{
    tx_t *base = &self->tx->base;
    tx_queue_t done = { NULL, NULL };
    while (bytes > 0) {
        tx_post_t *post = self->queue.head;
        size_t all = TP_FRAME_BYTES + post->frame.len;
        size_t step = s_min (bytes, all - post->moved);
        if (post->moved == 0)
            self->number_out++;
        post->moved += step;
        bytes -= step;
        if (post->moved < all)
            break;
        base->stats.frames_out++;
        base->stats.payload_out += post->frame.len;
        tx_queue_take (&self->queue);
        post->prev = done.tail;
        *(done.tail ? &done.tail->next : &done.head) = post;
        done.tail = post;
    }
    tx_post_t *post;
    while ((post = tx_queue_take (&done))) {
        uint64_t cookie = post->cookie;
        tx_post_free (base, post);
        self->tx->events++;
        if (cookie && self->state == EP_UP)
            base->handler.sent (base->owner, &self->base, cookie);
    }
}

//  True if the kernel took all and may take more.
static bool
s_write (tcp_ep_t *self)
{
    struct iovec iov[IOV_MAX_OUT];
    size_t bytes;
    struct msghdr msg = { .msg_iov = iov };
    msg.msg_iovlen = s_gather (self, iov, &bytes);
    ssize_t n = sendmsg (self->fd, &msg, MSG_NOSIGNAL);
    int err = errno;
    self->tx->base.stats.writes++;
    if (n >= 0) {
        s_settle (self, (size_t) n);
        return (size_t) n == bytes;
    }
    //  A peer that closed may have sent a last word, its reason: the reader
    //  finds it, then the end.
    if (err == ECONNRESET || err == EPIPE)
        self->broken = true;
    else if (err != EAGAIN && err != EINTR)
        tx_tcp_down (self, TUTTI_EPEERLOST, "sending failed: %s",
                     strerror (err));
    return false;
}

void
tx_tcp_flush (tcp_ep_t *self)
{
    for (int i = 0; i < CALLS && self->state == EP_UP && !self->broken &&
                    self->queue.head;
         i++)
        if (!s_write (self))
            break;
    if (self->state != EP_UP)
        return;
    bool more = self->queue.head && !self->broken;
    tx_tcp_arm (self, EPOLLIN | (more ? EPOLLOUT : 0));
}

//  Receiving -------------------------------------------------------------

//  The frame and its payload are here.
static void
s_arrived (tcp_ep_t *self)
{
    tx_t *base = &self->tx->base;
    uint8_t *payload = self->payload;
    self->payload = NULL;
    self->number_in = self->frame.number;
    base->stats.frames_in++;
    base->stats.payload_in += self->frame.len;
    self->tx->events++;
    base->handler.arrived (base->owner, &self->base, &self->frame, payload);
}

//  A header is here: check it and find the place of its payload. False if the
//  endpoint went down.
static bool
s_header (tcp_ep_t *self, const uint8_t *bytes)
{
    tx_t *base = &self->tx->base;
    tp_frame_t *frame = &self->frame;
    tutti_err_t err = tp_frame_decode (frame, bytes);
    if (err || frame->len > TP_PAYLOAD_MAX) {
        tx_tcp_down (self, err ? err : TUTTI_EPROTO, "sent no valid frame");
        return false;
    }
    if (frame->number != self->number_in + 1 ||
        frame->ack > self->number_out) {
        tx_tcp_down (self, TUTTI_EPROTO,
                     "sent frame %" PRIu64 " after %" PRIu64
                     ", acknowledging %" PRIu64 " of %" PRIu64,
                     frame->number, self->number_in, frame->ack,
                     self->number_out);
        return false;
    }
    if (frame->ack > self->acked)
        self->acked = frame->ack;
    self->bulk = frame->len >= BULK_BYTES;
    self->got = 0;
    if (frame->len == 0)
        return true;
    self->payload = base->handler.place (base->owner, &self->base, frame);
    if (!self->payload)
        tx_tcp_down (self, TUTTI_EPROTO,
                     "sent %" PRIu32 " bytes of comm %" PRIu64 " op %" PRIu64
                     " for which there is no place",
                     frame->len, frame->comm, frame->seq);
    return self->state == EP_UP;
}

//  N bytes from the buffer.
static void
s_parse (tcp_ep_t *self, const uint8_t *bytes, size_t n)
{
    self->head_len = 0;
    while (self->state == EP_UP) {
        if (!self->payload) {
            if (n < TP_FRAME_BYTES) {
                memcpy (self->head, bytes, n);
                self->head_len = n;
                return;
            }
            if (!s_header (self, bytes))
                return;
            bytes += TP_FRAME_BYTES;
            n -= TP_FRAME_BYTES;
        }
        size_t step = s_min (n, self->frame.len - self->got);
        if (step)
            memcpy (self->payload + self->got, bytes, step);
        self->got += step;
        bytes += step;
        n -= step;
        if (self->got < self->frame.len)
            return;
        s_arrived (self);
    }
}

//  Receive once. *asked_p is what there was room for.
static ssize_t
s_receive (tcp_ep_t *self, size_t *asked_p, size_t *direct_p)
{
    struct iovec iov[2];
    int n = 0;
    size_t rest = self->payload ? self->frame.len - self->got : 0;
    size_t direct = s_min (rest, CALL_BYTES);
    if (direct) {
        iov[n].iov_base = self->payload + self->got;
        iov[n++].iov_len = direct;
    }
    size_t room = 0;
    if (direct == rest) {
        room = self->bulk ? TP_FRAME_BYTES : TCP_READ_BYTES;
        memcpy (self->tx->read, self->head, self->head_len);
        room -= self->head_len;
        iov[n].iov_base = self->tx->read + self->head_len;
        iov[n++].iov_len = room;
    }
    *direct_p = direct;
    *asked_p = direct + room;
    self->tx->base.stats.reads++;
    return readv (self->fd, iov, n);
}

//  True if more may be waiting.
static bool
s_read (tcp_ep_t *self)
{
    size_t asked, direct;
    ssize_t n = s_receive (self, &asked, &direct);
    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR)
            tx_tcp_down (self, TUTTI_EPEERLOST, "connection lost: %s",
                         strerror (errno));
        return false;
    }
    if (n == 0) {
        bool amid = self->payload || self->head_len;
        tx_tcp_down (self, TUTTI_EPEERLOST, "closed by the peer%s",
                     amid ? " in the middle of a frame" : "");
        return false;
    }
    size_t bytes = (size_t) n;
    size_t placed = s_min (bytes, direct);
    self->got += placed;
    if (self->payload && self->got == self->frame.len)
        s_arrived (self);
    if (self->state != EP_UP)
        return false;
    if (!self->payload)
        s_parse (self, self->tx->read, self->head_len + bytes - placed);
    return bytes == asked && self->state == EP_UP;
}

void
tx_tcp_read (tcp_ep_t *self)
{
    for (int i = 0; i < CALLS; i++)
        if (!s_read (self))
            break;
}
