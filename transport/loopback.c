//  transport/loopback.c - complete transport inside one process, for tests
//
//  Addresses are "loop:7". Several tx_t live side by side, in one thread or in
//  several; loopback.h says what the mutex guards.

#include "transport/loopback.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static pthread_mutex_t s_mutex = PTHREAD_MUTEX_INITIALIZER;
static loop_t *s_listeners;  //  under the mutex
static unsigned s_last_number;

static void
s_destroy (tx_t **base_p);

static loop_t *
s_loop (const tx_t *base)
{
    return (loop_t *) base;
}

void
tx_loop_lock (void)
{
    pthread_mutex_lock (&s_mutex);
}

void
tx_loop_unlock (void)
{
    pthread_mutex_unlock (&s_mutex);
}

loop_t *
tx_loop_listener (unsigned number)
{
    loop_t *tx = s_listeners;
    while (tx && tx->number != number)
        tx = tx->next_listener;
    return tx;
}

//  Callers ---------------------------------------------------------------

static bool
s_same (const loop_t *self, const loop_link_t *link)
{
    const tx_t *base = &self->base;
    return strcmp (link->hello.job, base->job) == 0 &&
           link->hello.epoch == base->epoch &&
           link->hello.channel == base->channel &&
           link->hello.to == base->node &&
           memcmp (link->key, base->key, sizeof link->key) == 0;
}

static void
s_refuse (loop_t *self, loop_link_t *link)
{
    self->base.stats.refused++;
    tx_loop_lock ();
    link->answer = LOOP_REFUSED;
    tx_loop_leave (link, 1);
    tx_loop_unlock ();
}

//  A caller whose hello we can judge.
static void
s_answer (loop_t *self, loop_link_t *link)
{
    tx_t *base = &self->base;
    self->events++;
    loop_ep_t *ep =
        s_same (self, link) ? tx_loop_ep_new (self, link, 1) : NULL;
    if (!ep) {
        s_refuse (self, link);
        return;
    }
    ep->base.peer = link->hello.from;
    if (!base->handler.accepted (base->owner, &ep->base, &link->hello,
                                 &ep->base.user)) {
        base->stats.refused++;
        tx_loop_drop (ep);
    }
    if (ep->state == LP_DOWN)
        return;
    tx_loop_enter (ep, LP_UP);
    tx_loop_lock ();
    link->answer = LOOP_ACCEPTED;
    tx_loop_ring (link->end[0].tx);
    tx_loop_unlock ();
}

//  Take one caller out of the list that can be answered or has waited too
//  long; *late_p says which.
static loop_link_t *
s_caller (loop_t *self, int64_t now, bool *late_p)
{
    loop_link_t *found = NULL;
    unsigned waiting = 0;
    tx_loop_lock ();
    for (loop_link_t **at = &self->callers; *at; at = &(*at)->next) {
        loop_link_t *link = *at;
        bool known = tx_base_knows (&self->base, &link->hello);
        *late_p = !link->end[0].tx || link->until <= now ||
                  (!known && ++waiting > TX_PARKED_MAX);
        if (!known && !*late_p)
            continue;
        *at = link->next;
        found = link;
        break;
    }
    tx_loop_unlock ();
    return found;
}

static void
s_callers (loop_t *self, int64_t now)
{
    loop_link_t *link;
    bool late;
    while ((link = s_caller (self, now, &late))) {
        if (!late) {
            s_answer (self, link);
            continue;
        }
        tx_loop_lock ();
        tx_loop_leave (link, 1);
        tx_loop_unlock ();
    }
}

//  Poll ------------------------------------------------------------------

//  An endpoint that was not served in this turn; handlers may close any.
static loop_ep_t *
s_next (loop_t *self)
{
    for (loop_ep_t *ep = self->eps; ep; ep = ep->next)
        if (ep->turn != self->turn)
            return ep;
    return NULL;
}

static void
s_turn (loop_t *self)
{
    int64_t now = tx_now_ns ();
    loop_ep_t *ep;
    eventfd_t rung;
    eventfd_read (self->bell_fd, &rung);  //  before we look, not after
    s_callers (self, now);
    self->turn++;
    while ((ep = s_next (self))) {
        ep->turn = self->turn;
        tx_loop_serve (ep, now);
    }
}

static void
s_arm (loop_t *self)
{
    int64_t at = TX_NEVER;
    for (const loop_ep_t *ep = self->eps; ep; ep = ep->next)
        if (ep->state != LP_UP && ep->deadline < at)
            at = ep->deadline;
    tx_timer_arm (self->timer_fd, at);
}

static int
s_poll (tx_t *base, int64_t timeout_us)
{
    loop_t *self = s_loop (base);
    struct epoll_event ready[2];
    base->polling = true;
    self->events = 0;
    s_turn (self);
    if (self->events == 0 && timeout_us > 0) {
        s_arm (self);
        if (tx_wait (self->epoll_fd, ready, 2, timeout_us) > 0)
            s_turn (self);
    }
    if (self->events)
        tx_loop_ring (self);  //  there may be more than a turn's worth
    s_arm (self);
    base->polling = false;
    while (self->dead) {
        loop_ep_t *ep = self->dead;
        self->dead = ep->next;
        free (ep);
    }
    return self->events;
}

//  The rest of the contract ----------------------------------------------

//  Any free number is as good as another: bind and ports are ignored.
static tutti_err_t
s_open (tx_t **base_p, const tx_options_t *options,
        const tx_handler_t *handler, void *owner)
{
    loop_t *self = calloc (1, sizeof *self);
    if (!self)
        return TUTTI_ENOMEM;
    self->epoll_fd = self->timer_fd = -1;
    self->bell_fd = eventfd (0, EFD_NONBLOCK | EFD_CLOEXEC);
    tx_t *base = &self->base;
    tutti_err_t err = tx_base_init (base, options, handler, owner);
    if (!err)
        err = tx_wait_open (&self->epoll_fd, &self->timer_fd, NULL);
    struct epoll_event event = { .events = EPOLLIN };
    if (!err &&
        epoll_ctl (self->epoll_fd, EPOLL_CTL_ADD, self->bell_fd, &event) < 0)
        err = TUTTI_ENOMEM;
    if (err) {
        s_destroy (&base);
        return err;
    }
    tx_loop_lock ();
    self->number = ++s_last_number;
    self->next_listener = s_listeners;
    s_listeners = self;
    tx_loop_unlock ();
    snprintf (self->address, sizeof self->address, "loop:%u", self->number);
    *base_p = base;
    return TUTTI_OK;
}

static void
s_stop_listening (loop_t *self)
{
    tx_loop_lock ();
    loop_t **at = &s_listeners;
    while (*at && *at != self)
        at = &(*at)->next_listener;
    if (*at)
        *at = self->next_listener;
    while (self->callers) {
        loop_link_t *link = self->callers;
        self->callers = link->next;
        tx_loop_leave (link, 1);
    }
    tx_loop_unlock ();
}

static void
s_destroy (tx_t **base_p)
{
    if (!*base_p)
        return;
    loop_t *self = s_loop (*base_p);
    s_stop_listening (self);
    while (self->eps)
        tx_loop_drop (self->eps);
    int fds[] = { self->bell_fd, self->timer_fd, self->epoll_fd };
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close (fds[i]);
    tx_base_done (&self->base);
    free (self);
    *base_p = NULL;
}

static void
s_identity (tx_t *base, int64_t epoch, uint32_t node,
            const uint8_t key[TP_KEY_BYTES])
{
    tx_base_identity (base, epoch, node, key);
    tx_loop_ring (s_loop (base));
}

static const char *
s_address (const tx_t *base)
{
    return s_loop (base)->address;
}

static tutti_err_t
s_connect (tx_t *base, const char *address, uint32_t peer, void *user,
           tx_ep_t **ep_p)
{
    loop_t *self = s_loop (base);
    unsigned to;
    char rest;
    if (base->epoch == 0)
        return TUTTI_ESTATE;
    if (!address || sscanf (address, "loop:%u%c", &to, &rest) != 1)
        return TUTTI_EINVAL;
    loop_ep_t *ep = tx_loop_ep_new (self, NULL, 0);
    if (!ep)
        return TUTTI_ENOMEM;
    ep->base.user = user;
    ep->base.peer = peer;
    ep->to = to;
    ep->deadline = tx_now_ns ();
    ep->give_up = ep->deadline + base->connect_ns;
    tx_loop_ring (self);
    *ep_p = &ep->base;
    return TUTTI_OK;
}

static void
s_close (tx_t *base, tx_ep_t **ep_p)
{
    (void) base;
    if (*ep_p)
        tx_loop_drop ((loop_ep_t *) *ep_p);
    *ep_p = NULL;
}

static tutti_err_t
s_post (tx_t *base, tx_ep_t *ep_base, const tp_frame_t *frame,
        const void *payload, int priority, uint64_t cookie)
{
    loop_ep_t *ep = (loop_ep_t *) ep_base;
    if (ep->state == LP_DOWN)
        return TUTTI_ESTATE;
    return tx_queue_put (&ep->queue, base, frame, payload, priority, cookie);
}

static int
s_fd (const tx_t *base)
{
    return s_loop (base)->epoll_fd;
}

static uint64_t
s_acked (const tx_t *base, const tx_ep_t *ep)
{
    (void) base;
    return ((const loop_ep_t *) ep)->acked;
}

static void
s_stats (const tx_t *base, tx_stats_t *stats)
{
    *stats = base->stats;
}

const tx_ops_t tx_loopback_ops = {
    .name = "loopback",
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
