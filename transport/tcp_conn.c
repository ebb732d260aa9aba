//  transport/tcp_conn.c - life of a connection until it is up, and its end
//
//  tcp.h has the picture. A connector that is refused, or whose peer closes
//  or stays silent before its hello, tries again until its time is up: the
//  peer may not have started, or may be out of room for one more stranger.
//  Once the peer's hello is here, a failure is final.
//
//  The acceptor answers every hello that it can read with its own, also one
//  of another job or epoch: both sides then know what differs, and can say.

#include "transport/tcp.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHAKE_NS (5000 * TX_MS)  //  for each step the peer must answer

//  For one SYN and its repetitions: the kernel's next pause would be longer
//  than a healed network deserves.
#define DIAL_NS (3000 * TX_MS)

//  Ends ------------------------------------------------------------------

tcp_ep_t *
tx_tcp_ep_new (tcp_t *tx, tcp_state_t state, int64_t deadline)
{
    tcp_ep_t *self = calloc (1, sizeof *self);
    tcp_shake_t *shake = calloc (1, sizeof *shake);
    if (!self || !shake) {
        free (self);
        free (shake);
        return NULL;
    }
    self->tx = tx;
    self->fd = -1;
    self->shake = shake;
    self->next = tx->eps;
    if (tx->eps)
        tx->eps->prev = self;
    tx->eps = self;
    tx_tcp_enter (self, state, deadline);
    return self;
}

void
tx_tcp_enter (tcp_ep_t *self, tcp_state_t state, int64_t deadline)
{
    tcp_t *tx = self->tx;
    if (state == EP_UP && self->state != EP_UP)
        tx->base.stats.endpoints++;
    if (state != EP_UP && self->state == EP_UP)
        tx->base.stats.endpoints--;
    self->state = state;
    self->deadline = deadline;
    if (deadline < tx->wake) {
        tx->wake = deadline;
        tx_timer_arm (tx->timer_fd, deadline);
    }
}

void
tx_tcp_arm (tcp_ep_t *self, uint32_t events)
{
    if (events == self->armed)
        return;
    struct epoll_event event = { .events = events };
    event.data.ptr = self;
    int op = self->armed ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (epoll_ctl (self->tx->epoll_fd, op, self->fd, &event) == 0)
        self->armed = events;
}

static void
s_close_fd (tcp_ep_t *self)
{
    if (self->fd < 0)
        return;
    //  A forked child may hold a copy of the socket, which then stays in the
    //  epoll unless it is taken out by hand.
    if (self->armed)
        epoll_ctl (self->tx->epoll_fd, EPOLL_CTL_DEL, self->fd, NULL);
    close (self->fd);
    self->fd = -1;
    self->armed = 0;
}

static void
s_shake_free (tcp_ep_t *self)
{
    if (!self->shake)
        return;
    tp_handshake_destroy (&self->shake->keys);
    free (self->shake);
    self->shake = NULL;
}

static void
s_unlink (tcp_ep_t *self)
{
    tcp_t *tx = self->tx;
    *(self->prev ? &self->prev->next : &tx->eps) = self->next;
    if (self->next)
        self->next->prev = self->prev;
    tcp_ep_t **link = &tx->dirty;
    while (self->dirty && *link != self)
        link = &(*link)->next_dirty;
    if (self->dirty)
        *link = self->next_dirty;
    self->dirty = false;
}

void
tx_tcp_drop (tcp_ep_t *self)
{
    if (self->state == EP_DOWN)
        return;
    tcp_t *tx = self->tx;
    tx_tcp_enter (self, EP_DOWN, TX_NEVER);
    s_close_fd (self);
    s_shake_free (self);
    tx_queue_clear (&self->queue, &tx->base);
    s_unlink (self);
    if (!tx->base.polling) {
        free (self);
        return;
    }
    self->next = tx->dead;
    tx->dead = self;
}

void
tx_tcp_down (tcp_ep_t *self, tutti_err_t err, const char *format, ...)
{
    if (self->state == EP_DOWN)
        return;
    tcp_t *tx = self->tx;
    bool known = self->ours || self->state == EP_UP;
    char text[TP_TEXT_MAX];
    int n =
        snprintf (text, sizeof text,
                  "node %" PRIu32 " at %s: ", self->base.peer, self->address);
    va_list args;
    va_start (args, format);
    vsnprintf (text + n, sizeof text - (size_t) n, format, args);
    va_end (args);
    if (!known || err == TUTTI_EPROTO || err == TUTTI_EVERSION)
        tx->base.stats.refused++;
    tx_tcp_drop (self);
    tx->events++;
    if (known)
        tx->base.handler.down (tx->base.owner, &self->base, err, text);
}

//  Dialing ---------------------------------------------------------------

static double
s_seconds (const tcp_ep_t *self, int64_t now)
{
    return (double) (now - self->started) / 1e9;
}

static bool
s_worth_retry (int err)
{
    switch (err) {
    case ECONNREFUSED:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENETDOWN:
    case EHOSTDOWN:
    case ETIMEDOUT:
    case ECONNRESET:
    case ECONNABORTED:
    case EPIPE:
    case EADDRNOTAVAIL:  //  no free port here, for the moment
    case EAGAIN:
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
        return true;
    default:
        return false;
    }
}

//  The attempt failed with ERR: pause and try again, or give up.
static void
s_retry (tcp_ep_t *self, int err)
{
    int64_t now = tx_now_ns ();
    s_close_fd (self);
    if (!s_worth_retry (err) || now >= self->give_up) {
        tx_tcp_down (self,
                     s_worth_retry (err) ? TUTTI_ETIMEDOUT : TUTTI_EPEERLOST,
                     "cannot connect: %s; tried %" PRIu32 " times in %.1f s",
                     strerror (err), self->attempts, s_seconds (self, now));
        return;
    }
    int64_t at = now + tx_pause_ns (&self->tx->base, self->attempts);
    tx_tcp_enter (self, EP_PAUSED, at < self->give_up ? at : self->give_up);
}

static void
s_dial (tcp_ep_t *self)
{
    self->attempts++;
    self->fd = socket (self->to.ss_family,
                       SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (self->fd < 0) {
        s_retry (self, errno);
        return;
    }
    if (connect (self->fd, (struct sockaddr *) &self->to, self->to_len) < 0 &&
        errno != EINPROGRESS) {
        s_retry (self, errno);
        return;
    }
    //  A connect that succeeded at once is told by epoll like any other.
    int64_t deadline = tx_now_ns () + DIAL_NS;
    if (deadline > self->give_up)
        deadline = self->give_up;
    tx_tcp_enter (self, EP_DIALING, deadline);
    tx_tcp_arm (self, EPOLLOUT);
}

//  Handshake -------------------------------------------------------------

//  A socket that has sent nothing yet takes a few hundred bytes or is dead.
static bool
s_send (tcp_ep_t *self, const void *bytes, size_t len)
{
    self->tx->base.stats.writes++;
    return send (self->fd, bytes, len, MSG_NOSIGNAL) == (ssize_t) len;
}

//  Collect LEN bytes and no more: what follows are frames. True when all are
//  here; *err_p is 0 while more must come, else why none will (0 < errno, or
//  -1 for the end of the stream).
static bool
s_collect (tcp_ep_t *self, size_t len, int *err_p)
{
    tcp_shake_t *shake = self->shake;
    *err_p = 0;
    ssize_t n =
        recv (self->fd, shake->bytes + shake->got, len - shake->got, 0);
    self->tx->base.stats.reads++;
    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR)
            *err_p = errno;
        return false;
    }
    if (n == 0)
        *err_p = -1;
    shake->got += (size_t) n;
    if (shake->got < len)
        return false;
    shake->got = 0;
    *err_p = 0;
    return true;
}

static const char *
s_reason (int err)
{
    return err < 0 ? "closed by the peer" : strerror (err);
}

static bool
s_hello_out (tcp_ep_t *self)
{
    tp_hello_t hello;
    uint8_t bytes[TP_HELLO_BYTES];
    tx_base_hello (&self->tx->base, self->base.peer, self->number_in, &hello);
    if (tp_handshake_start (&self->shake->keys, &hello))
        return false;
    tp_hello_encode (&self->shake->keys.mine, bytes);
    return s_send (self, bytes, sizeof bytes);
}

//  Compare the two hellos and compute the proofs; the text of a failure names
//  both sides of whatever differs.
static bool
s_agree (tcp_ep_t *self)
{
    tcp_t *tx = self->tx;
    const tp_hello_t *theirs = &self->shake->theirs;
    tutti_err_t err =
        tp_handshake_finish (&self->shake->keys, theirs, tx->base.key);
    if (err == TUTTI_OK)
        return true;
    tx_tcp_down (self, err,
                 "refused: it is node %" PRIu32 " of job %s epoch %" PRId64
                 " channel %u and calls node %" PRIu32 "; we are node %" PRIu32
                 " of job %s epoch %" PRId64 " channel %u",
                 theirs->from, theirs->job, theirs->epoch, theirs->channel,
                 theirs->to, tx->base.node, tx->base.job, tx->base.epoch,
                 tx->base.channel);
    return false;
}

static void
s_up (tcp_ep_t *self)
{
    s_shake_free (self);
    tx_tcp_enter (self, EP_UP, TX_NEVER);
    //  The first flush is EPOLLOUT's: there may be posts already.
    tx_tcp_arm (self, EPOLLIN | (self->queue.head ? EPOLLOUT : 0));
    self->tx->events++;
}

static void
s_dialed (tcp_ep_t *self)
{
    int err = 0;
    socklen_t len = sizeof err;
    getsockopt (self->fd, SOL_SOCKET, SO_ERROR, &err, &len);
    if (!err && tx_tcp_is_self (self->fd))
        err = ECONNREFUSED;
    if (err) {
        s_retry (self, err);
        return;
    }
    tx_tcp_tune (self->fd);
    self->shake->got = 0;
    if (!s_hello_out (self)) {
        s_retry (self, ECONNRESET);
        return;
    }
    //  A peer that does not know yet who it is lets us wait here.
    tx_tcp_enter (self, EP_HELLO, self->give_up);
    tx_tcp_arm (self, EPOLLIN);
}

static void
s_hello_in (tcp_ep_t *self)
{
    int err;
    tcp_shake_t *shake = self->shake;
    bool silent = shake->got == 0;
    if (!s_collect (self, TP_HELLO_BYTES, &err)) {
        if (err && silent)
            s_retry (self, err < 0 ? ECONNRESET : err);
        else if (err)
            tx_tcp_down (self, TUTTI_EPROTO, "broken off in its hello: %s",
                         s_reason (err));
        return;
    }
    tutti_err_t bad = tp_hello_decode (&shake->theirs, shake->bytes);
    if (bad) {
        tx_tcp_down (self, bad, "its hello is not one of this version");
        return;
    }
    if (!s_agree (self))
        return;
    if (!s_send (self, shake->keys.proof_out, TP_PROOF_BYTES)) {
        tx_tcp_down (self, TUTTI_EPEERLOST, "lost in the handshake: %s",
                     strerror (errno));
        return;
    }
    tx_tcp_enter (self, EP_PROOF, tx_now_ns () + SHAKE_NS);
}

static void
s_proof_in (tcp_ep_t *self)
{
    int err;
    if (!s_collect (self, TP_PROOF_BYTES, &err)) {
        if (err)
            tx_tcp_down (self, TUTTI_EDENIED,
                         "it refused us, or has another epoch key: %s",
                         s_reason (err));
        return;
    }
    if (tp_handshake_check (&self->shake->keys, self->shake->bytes)) {
        tx_tcp_down (self, TUTTI_EDENIED, "it does not know the epoch key");
        return;
    }
    s_up (self);
    self->tx->base.handler.up (self->tx->base.owner, &self->base);
}

//  Their hello is here and we know who we are.
static void
s_answer (tcp_ep_t *self)
{
    tx_tcp_enter (self, EP_CHECKED, tx_now_ns () + SHAKE_NS);
    if (!s_hello_out (self))
        tx_tcp_down (self, TUTTI_EPEERLOST, "lost in the handshake");
    else
        s_agree (self);
}

static uint32_t
s_parked (const tcp_t *tx)
{
    uint32_t n = 0;
    for (const tcp_ep_t *ep = tx->eps; ep; ep = ep->next)
        n += ep->state == EP_PARKED;
    return n;
}

static void
s_called (tcp_ep_t *self)
{
    int err;
    tcp_t *tx = self->tx;
    tcp_shake_t *shake = self->shake;
    if (!s_collect (self, TP_HELLO_BYTES, &err)) {
        if (err)
            tx_tcp_down (self, TUTTI_EPROTO, "%s", s_reason (err));
        return;
    }
    if (tp_hello_decode (&shake->theirs, shake->bytes)) {
        tx_tcp_down (self, TUTTI_EPROTO, "not a hello");
        return;
    }
    self->base.peer = shake->theirs.from;
    if (tx_base_knows (&tx->base, &shake->theirs))
        s_answer (self);
    else if (s_parked (tx) >= TX_PARKED_MAX)
        tx_tcp_down (self, TUTTI_EAGAIN, "too many wait");
    else
        tx_tcp_enter (self, EP_PARKED, tx_now_ns () + TX_PARKED_NS);
}

void
tx_tcp_unpark (tcp_ep_t *self)
{
    s_answer (self);
}

static void
s_checked (tcp_ep_t *self)
{
    int err;
    tx_t *base = &self->tx->base;
    tcp_shake_t *shake = self->shake;
    if (!s_collect (self, TP_PROOF_BYTES, &err)) {
        if (err)
            tx_tcp_down (self, TUTTI_EDENIED, "%s", s_reason (err));
        return;
    }
    if (tp_handshake_check (&shake->keys, shake->bytes) ||
        !base->handler.accepted (base->owner, &self->base, &shake->theirs,
                                 &self->base.user)) {
        tx_tcp_down (self, TUTTI_EDENIED, "refused");
        return;
    }
    if (self->state != EP_CHECKED)
        return;  //  the owner closed it at once
    bool sent = s_send (self, shake->keys.proof_out, TP_PROOF_BYTES);
    s_up (self);
    if (!sent)
        tx_tcp_down (self, TUTTI_EPEERLOST, "lost in the handshake: %s",
                     strerror (errno));
}

void
tx_tcp_advance (tcp_ep_t *self)
{
    switch (self->state) {
    case EP_DIALING:
        s_dialed (self);
        break;
    case EP_HELLO:
        s_hello_in (self);
        break;
    case EP_PROOF:
        s_proof_in (self);
        break;
    case EP_CALLED:
        s_called (self);
        break;
    case EP_PARKED:  //  it has nothing to say before our hello
        tx_tcp_down (self, TUTTI_EPROTO, "gone, or talks out of turn");
        break;
    case EP_CHECKED:
        s_checked (self);
        break;
    default:
        break;
    }
}

void
tx_tcp_expire (tcp_ep_t *self, int64_t now)
{
    switch (self->state) {
    case EP_PAUSED:
        s_dial (self);
        break;
    case EP_DIALING:
        s_retry (self, ETIMEDOUT);
        break;
    case EP_HELLO:
    case EP_PROOF:
        tx_tcp_down (self, TUTTI_ETIMEDOUT,
                     "it accepted but did not finish the handshake; waited "
                     "%.1f s",
                     s_seconds (self, now));
        break;
    default:
        tx_tcp_down (self, TUTTI_ETIMEDOUT, "too slow");
        break;
    }
}
