//  transport/tcp.c - frames over TCP: the tx_t, its poll and its timers
//
//  One epoll holds the listener, the connections and one timer for all
//  deadlines, so the epoll's descriptor is what an owner can sleep on. It is
//  level triggered: an endpoint whose turn was cut short by its budget shows
//  again in the next poll, behind the others.

#include "transport/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EVENTS 64
#define ACCEPTS 64         //  per poll
#define STRANGERS_MAX 256  //  accepted and not proved
#define STRANGER_NS (5000 * TX_MS)
#define ACCEPT_REST_NS (100 * TX_MS)

static void
s_destroy (tx_t **base_p);

static tcp_t *
s_tcp (const tx_t *base)
{
    return (tcp_t *) base;
}

static tutti_err_t
s_open (tx_t **base_p, const tx_options_t *options,
        const tx_handler_t *handler, void *owner)
{
    tcp_t *self = calloc (1, sizeof *self);
    if (!self)
        return TUTTI_ENOMEM;
    self->epoll_fd = self->timer_fd = self->listen_fd = -1;
    self->wake = self->accept_again = TX_NEVER;
    tutti_err_t err = tx_base_init (&self->base, options, handler, owner);
    if (!err)
        err = tx_wait_open (&self->epoll_fd, &self->timer_fd, &self->timer_fd);
    if (!err)
        err = tx_tcp_listen (&self->listen_fd, options->bind, options->port_lo,
                             options->port_hi, self->address,
                             sizeof self->address);
    struct epoll_event event = { .events = EPOLLIN };
    event.data.ptr = &self->listen_fd;
    if (!err &&
        epoll_ctl (self->epoll_fd, EPOLL_CTL_ADD, self->listen_fd, &event) < 0)
        err = TUTTI_ENOMEM;
    tx_t *base = &self->base;
    if (err)
        s_destroy (&base);
    else
        *base_p = base;
    return err;
}

static void
s_destroy (tx_t **base_p)
{
    if (!*base_p)
        return;
    tcp_t *self = s_tcp (*base_p);
    while (self->eps)
        tx_tcp_drop (self->eps);
    int fds[] = { self->listen_fd, self->timer_fd, self->epoll_fd };
    int kept = errno;  //  open () tells by it why there is no listener
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close (fds[i]);
    errno = kept;
    tx_base_done (&self->base);
    free (self);
    *base_p = NULL;
}

//  Parked hellos are judged in the next poll, where handlers may run.
static void
s_identity (tx_t *base, int64_t epoch, uint32_t node,
            const uint8_t key[TP_KEY_BYTES])
{
    tcp_t *self = s_tcp (base);
    tx_base_identity (base, epoch, node, key);
    self->wake = 0;
    tx_timer_arm (self->timer_fd, self->wake);
}

static const char *
s_address (const tx_t *base)
{
    return s_tcp (base)->address;
}

static tutti_err_t
s_connect (tx_t *base, const char *address, uint32_t peer, void *user,
           tx_ep_t **ep_p)
{
    tcp_t *self = s_tcp (base);
    struct sockaddr_storage to;
    socklen_t to_len;
    if (base->epoch == 0)
        return TUTTI_ESTATE;
    if (tx_tcp_parse (address, &to, &to_len) ||
        strlen (address) >= TCP_ADDRESS_MAX)
        return TUTTI_EINVAL;
    int64_t now = tx_now_ns ();
    tcp_ep_t *ep = tx_tcp_ep_new (self, EP_PAUSED, now);
    if (!ep)
        return TUTTI_ENOMEM;
    ep->base.user = user;
    ep->base.peer = peer;
    ep->ours = true;
    ep->started = now;
    ep->give_up = now + base->connect_ns;
    memcpy (ep->address, address, strlen (address) + 1);
    ep->to = to;
    ep->to_len = to_len;
    *ep_p = &ep->base;
    return TUTTI_OK;
}

static void
s_close (tx_t *base, tx_ep_t **ep_p)
{
    (void) base;
    if (*ep_p)
        tx_tcp_drop ((tcp_ep_t *) *ep_p);
    *ep_p = NULL;
}

static tutti_err_t
s_post (tx_t *base, tx_ep_t *ep_base, const tp_frame_t *frame,
        const void *payload, int priority, uint64_t cookie)
{
    tcp_t *self = s_tcp (base);
    tcp_ep_t *ep = (tcp_ep_t *) ep_base;
    if (ep->state == EP_DOWN)
        return TUTTI_ESTATE;
    tutti_err_t err =
        tx_queue_put (&ep->queue, base, frame, payload, priority, cookie);
    if (err)
        return err;
    if (ep->state == EP_UP && !ep->dirty && !(ep->armed & EPOLLOUT)) {
        ep->dirty = true;
        ep->next_dirty = self->dirty;
        self->dirty = ep;
    }
    return TUTTI_OK;
}

//  Send what was posted since the last time. What handlers post meanwhile to
//  endpoints that had their turn is left to EPOLLOUT.
static void
s_flush (tcp_t *self)
{
    tcp_ep_t *ep;
    int turns = EVENTS;
    while ((ep = self->dirty)) {
        self->dirty = ep->next_dirty;
        ep->dirty = false;
        if (turns-- > 0)
            tx_tcp_flush (ep);
        else
            tx_tcp_arm (ep, EPOLLIN | EPOLLOUT);
    }
}

static uint32_t
s_strangers (const tcp_t *self)
{
    uint32_t n = 0;
    for (const tcp_ep_t *ep = self->eps; ep; ep = ep->next)
        n += !ep->ours && ep->state != EP_UP;
    return n;
}

static void
s_stranger (tcp_t *self, int fd)
{
    int64_t deadline = tx_now_ns () + STRANGER_NS;
    tcp_ep_t *ep = NULL;
    if (s_strangers (self) < STRANGERS_MAX)
        ep = tx_tcp_ep_new (self, EP_CALLED, deadline);
    if (!ep) {
        close (fd);
        self->base.stats.refused++;
        return;
    }
    ep->fd = fd;
    tx_tcp_peer_text (fd, ep->address, sizeof ep->address);
    tx_tcp_tune (fd);
    tx_tcp_arm (ep, EPOLLIN);
}

static void
s_listener_arm (tcp_t *self, uint32_t events)
{
    struct epoll_event event = { .events = events };
    event.data.ptr = &self->listen_fd;
    epoll_ctl (self->epoll_fd, EPOLL_CTL_MOD, self->listen_fd, &event);
}

//  Without a free descriptor the listener would stay readable for ever, and
//  its owner would spin.
static void
s_accept (tcp_t *self)
{
    for (int i = 0; i < ACCEPTS; i++) {
        int fd = accept4 (self->listen_fd, NULL, NULL,
                          SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            self->events++;
            s_stranger (self, fd);
        }
        else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
                 errno == ENOBUFS) {
            s_listener_arm (self, 0);
            self->accept_again = tx_now_ns () + ACCEPT_REST_NS;
            if (self->accept_again < self->wake)
                self->wake = self->accept_again;
            tx_timer_arm (self->timer_fd, self->wake);
            break;
        }
        else if (errno != ECONNABORTED && errno != EINTR)
            break;
    }
}

//  One endpoint that has to move on: its state changes or its deadline grows,
//  so asking again ends.
static tcp_ep_t *
s_due (tcp_t *self, int64_t now)
{
    for (tcp_ep_t *ep = self->eps; ep; ep = ep->next)
        if (ep->deadline <= now ||
            (ep->state == EP_PARKED &&
             tx_base_knows (&self->base, &ep->shake->theirs)))
            return ep;
    return NULL;
}

static void
s_timers (tcp_t *self)
{
    int64_t now = tx_now_ns ();
    tcp_ep_t *ep;
    while ((ep = s_due (self, now))) {
        self->events++;
        if (ep->deadline > now)
            tx_tcp_unpark (ep);
        else
            tx_tcp_expire (ep, now);
    }
    if (self->accept_again <= now) {
        self->accept_again = TX_NEVER;
        s_listener_arm (self, EPOLLIN);
    }
    self->wake = self->accept_again;
    for (ep = self->eps; ep; ep = ep->next)
        if (ep->deadline < self->wake)
            self->wake = ep->deadline;
    tx_timer_arm (self->timer_fd, self->wake);
}

//  An endpoint that died earlier in this round is still memory, and DOWN.
static void
s_endpoint (tcp_ep_t *ep, uint32_t events)
{
    if (ep->state != EP_UP) {
        tx_tcp_advance (ep);
        return;
    }
    if (events & EPOLLOUT)
        tx_tcp_flush (ep);
    if (ep->state == EP_UP && events & (EPOLLIN | EPOLLERR | EPOLLHUP))
        tx_tcp_read (ep);
}

static void
s_bury (tcp_t *self)
{
    while (self->dead) {
        tcp_ep_t *ep = self->dead;
        self->dead = ep->next;
        free (ep);
    }
}

static int
s_poll (tx_t *base, int64_t timeout_us)
{
    tcp_t *self = s_tcp (base);
    struct epoll_event ready[EVENTS];
    base->polling = true;
    self->events = 0;
    s_flush (self);
    int n =
        tx_wait (self->epoll_fd, ready, EVENTS, self->events ? 0 : timeout_us);
    for (int i = 0; i < n; i++) {
        void *source = ready[i].data.ptr;
        if (source == &self->timer_fd)
            s_timers (self);
        else if (source == &self->listen_fd)
            s_accept (self);
        else
            s_endpoint (source, ready[i].events);
    }
    s_flush (self);
    base->polling = false;
    s_bury (self);
    return self->events;
}

static int
s_fd (const tx_t *base)
{
    return s_tcp (base)->epoll_fd;
}

static uint64_t
s_acked (const tx_t *base, const tx_ep_t *ep)
{
    (void) base;
    return ((const tcp_ep_t *) ep)->acked;
}

static void
s_stats (const tx_t *base, tx_stats_t *stats)
{
    *stats = base->stats;
}

const tx_ops_t tx_tcp_ops = {
    .name = "tcp",
    .open = s_open,
    .identity = s_identity,
    .address = s_address,
    .destroy = s_destroy,
    .connect = s_connect,
    .close = s_close,
    .post = s_post,
    .poll = s_poll,
    .fd = s_fd,
    .region_add = tx_any_region_add,
    .region_drop = tx_any_region_drop,
    .acked = s_acked,
    .resume = tx_no_resume,
    .stats = s_stats,
};
