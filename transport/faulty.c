//  transport/faulty.c - wraps tcp and spoils it, for tests
//
//  "faulty:flip:N"      one bit of every N-th payload of a PUT that arrives:
//                       the top byte of its last element, so that no rounding
//                       hides it
//  "faulty:cut:BYTES"   an endpoint goes down once so many bytes of payload
//                       have arrived on it
//  "faulty:delay:MS"    frames are notified that much later
//
//  open () is not told its name, so the fault is one for the process: that of
//  the last tx_find, kept by each tx_t from its open on. Call tx_find before
//  the threads that open start.

#include "transport/tx_base.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FLIPPED 0x40       //  of a float: the exponent's top bit
#define CLOSED UINT64_MAX  //  tally of an endpoint that its owner closed

typedef struct faulty faulty_t;

//  A frame that is here and must not be known yet.
typedef struct held {
    struct held *next;
    tx_ep_t *ep;
    tp_frame_t frame;
    void *payload;
    int64_t due;
} held_t;

typedef struct fault {
    const char *name;
    void (*arrived) (faulty_t *self, tx_ep_t *ep, const tp_frame_t *frame,
                     void *payload);
} fault_t;

struct faulty {
    tx_t base;  //  handler and owner of the wrapping side
    tx_t *inner;
    const fault_t *fault;
    uint64_t argument;
    uint64_t puts;  //  with payload, that have arrived
    held_t *head;   //  by due time
    held_t *tail;
    int epoll_fd;  //  the inner one and the timer
    int timer_fd;
};

static const fault_t *s_fault;  //  of the last tx_find
static uint64_t s_argument;

static const tx_ops_t *const s_inner = &tx_tcp_ops;

static faulty_t *
s_faulty (const tx_t *base)
{
    return (faulty_t *) base;
}

static void
s_pass (faulty_t *self, tx_ep_t *ep, const tp_frame_t *frame, void *payload)
{
    self->base.handler.arrived (self->base.owner, ep, frame, payload);
}

//  The faults ------------------------------------------------------------

static void
s_flip (faulty_t *self, tx_ep_t *ep, const tp_frame_t *frame, void *payload)
{
    if (frame->type == TP_FRAME_PUT && frame->len &&
        ++self->puts % self->argument == 0)
        ((uint8_t *) payload)[frame->len - 1] ^= FLIPPED;
    s_pass (self, ep, frame, payload);
}

static void
s_cut (faulty_t *self, tx_ep_t *ep, const tp_frame_t *frame, void *payload)
{
    ep->tally += frame->len;
    if (ep->tally < self->argument) {
        s_pass (self, ep, frame, payload);
        return;
    }
    char text[TP_TEXT_MAX];
    snprintf (text, sizeof text,
              "node %" PRIu32 ": cut on purpose after %" PRIu64 " bytes",
              ep->peer, ep->tally);
    //  We are inside the inner poll, which keeps what it has closed.
    tx_ep_t *gone = ep;
    s_inner->close (self->inner, &gone);
    self->base.handler.down (self->base.owner, ep, TUTTI_EPEERLOST, text);
}

static void
s_delay (faulty_t *self, tx_ep_t *ep, const tp_frame_t *frame, void *payload)
{
    held_t *held = malloc (sizeof *held);
    if (!held) {
        s_pass (self, ep, frame, payload);
        return;
    }
    held->next = NULL;
    held->ep = ep;
    held->frame = *frame;
    held->payload = payload;
    held->due = tx_now_ns () + (int64_t) self->argument * TX_MS;
    *(self->head ? &self->tail->next : &self->head) = held;
    self->tail = held;
}

static const fault_t s_faults[] = {
    { "flip", s_flip },
    { "cut", s_cut },
    { "delay", s_delay },
};

//  Frames that are held --------------------------------------------------

static held_t *
s_take (faulty_t *self)
{
    held_t *held = self->head;
    self->head = held->next;
    return held;
}

//  Notify what is due at NOW; returns how much that was.
static int
s_release (faulty_t *self, int64_t now)
{
    int n = 0;
    //  The inner poll, which comes next, buries what handlers close here.
    self->inner->polling = true;
    for (; self->head && self->head->due <= now; n++) {
        held_t *held = s_take (self);
        s_pass (self, held->ep, &held->frame, held->payload);
        free (held);
    }
    return n;
}

static void
s_forget (faulty_t *self, const tx_ep_t *ep)
{
    held_t *all = self->head;
    self->head = self->tail = NULL;
    while (all) {
        held_t *held = all;
        all = held->next;
        held->next = NULL;
        if (held->ep == ep)
            free (held);
        else {
            *(self->head ? &self->tail->next : &self->head) = held;
            self->tail = held;
        }
    }
}

//  What came before the end is told before the end.
static void
s_release_of (faulty_t *self, const tx_ep_t *ep)
{
    held_t *held = self->head;
    while (held) {
        if (held->ep != ep) {
            held = held->next;
            continue;
        }
        held->ep = NULL;
        s_pass (self, (tx_ep_t *) ep, &held->frame, held->payload);
        s_forget (self, NULL);
        held = self->head;
    }
}

//  Between the inner transport and the owner -----------------------------

static bool
s_on_accepted (void *owner, tx_ep_t *ep, const tp_hello_t *hello,
               void **user_p)
{
    faulty_t *self = owner;
    return self->base.handler.accepted (self->base.owner, ep, hello, user_p);
}

static void
s_on_up (void *owner, tx_ep_t *ep)
{
    faulty_t *self = owner;
    self->base.handler.up (self->base.owner, ep);
}

static void *
s_on_place (void *owner, tx_ep_t *ep, const tp_frame_t *frame)
{
    faulty_t *self = owner;
    return self->base.handler.place (self->base.owner, ep, frame);
}

static void
s_on_arrived (void *owner, tx_ep_t *ep, const tp_frame_t *frame, void *payload)
{
    faulty_t *self = owner;
    self->fault->arrived (self, ep, frame, payload);
}

static void
s_on_sent (void *owner, tx_ep_t *ep, uint64_t cookie)
{
    faulty_t *self = owner;
    self->base.handler.sent (self->base.owner, ep, cookie);
}

static void
s_on_down (void *owner, tx_ep_t *ep, tutti_err_t err, const char *text)
{
    faulty_t *self = owner;
    s_release_of (self, ep);
    if (ep->tally != CLOSED)
        self->base.handler.down (self->base.owner, ep, err, text);
}

static const tx_handler_t s_handler = {
    .accepted = s_on_accepted,
    .up = s_on_up,
    .place = s_on_place,
    .arrived = s_on_arrived,
    .sent = s_on_sent,
    .down = s_on_down,
};

//  The operations --------------------------------------------------------

static void
s_destroy (tx_t **base_p)
{
    if (!*base_p)
        return;
    faulty_t *self = s_faulty (*base_p);
    if (self->inner)
        s_inner->destroy (&self->inner);
    while (self->head)
        free (s_take (self));
    if (self->timer_fd >= 0)
        close (self->timer_fd);
    if (self->epoll_fd >= 0)
        close (self->epoll_fd);
    tx_base_done (&self->base);
    free (self);
    *base_p = NULL;
}

static tutti_err_t
s_open (tx_t **base_p, const tx_options_t *options,
        const tx_handler_t *handler, void *owner)
{
    faulty_t *self = calloc (1, sizeof *self);
    if (!self)
        return TUTTI_ENOMEM;
    self->epoll_fd = self->timer_fd = -1;
    self->fault = s_fault;
    self->argument = s_argument;
    tx_t *base = &self->base;
    tutti_err_t err = tx_base_init (base, options, handler, owner);
    if (!err)
        err = s_inner->open (&self->inner, options, &s_handler, self);
    if (!err)
        err = tx_wait_open (&self->epoll_fd, &self->timer_fd, NULL);
    struct epoll_event event = { .events = EPOLLIN };
    if (!err && epoll_ctl (self->epoll_fd, EPOLL_CTL_ADD,
                           s_inner->fd (self->inner), &event) < 0)
        err = TUTTI_ENOMEM;
    if (err)
        s_destroy (&base);
    else
        *base_p = base;
    return err;
}

static void
s_identity (tx_t *base, int64_t epoch, uint32_t node,
            const uint8_t key[TP_KEY_BYTES])
{
    s_inner->identity (s_faulty (base)->inner, epoch, node, key);
}

static const char *
s_address (const tx_t *base)
{
    return s_inner->address (s_faulty (base)->inner);
}

static tutti_err_t
s_connect (tx_t *base, const char *address, uint32_t peer, void *user,
           tx_ep_t **ep_p)
{
    return s_inner->connect (s_faulty (base)->inner, address, peer, user,
                             ep_p);
}

static void
s_close (tx_t *base, tx_ep_t **ep_p)
{
    faulty_t *self = s_faulty (base);
    if (*ep_p) {
        s_forget (self, *ep_p);
        (*ep_p)->tally = CLOSED;
    }
    s_inner->close (self->inner, ep_p);
}

static tutti_err_t
s_post (tx_t *base, tx_ep_t *ep, const tp_frame_t *frame, const void *payload,
        int priority, uint64_t cookie)
{
    return s_inner->post (s_faulty (base)->inner, ep, frame, payload, priority,
                          cookie);
}

static int
s_poll (tx_t *base, int64_t timeout_us)
{
    faulty_t *self = s_faulty (base);
    int n = s_release (self, tx_now_ns ());
    if (n > 0)
        timeout_us = 0;
    else if (self->head) {
        int64_t left_us = (self->head->due - tx_now_ns ()) / 1000 + 1;
        timeout_us = left_us < timeout_us ? left_us : timeout_us;
    }
    n += s_inner->poll (self->inner, timeout_us);
    tx_timer_arm (self->timer_fd, self->head ? self->head->due : TX_NEVER);
    return n;
}

static int
s_fd (const tx_t *base)
{
    return s_faulty (base)->epoll_fd;
}

static tutti_err_t
s_region_add (tx_t *base, void *ptr, size_t bytes, tx_region_t **region_p)
{
    return s_inner->region_add (s_faulty (base)->inner, ptr, bytes, region_p);
}

static void
s_region_drop (tx_t *base, tx_region_t **region_p)
{
    s_inner->region_drop (s_faulty (base)->inner, region_p);
}

static uint64_t
s_acked (const tx_t *base, const tx_ep_t *ep)
{
    return s_inner->acked (s_faulty (base)->inner, ep);
}

static void
s_stats (const tx_t *base, tx_stats_t *stats)
{
    s_inner->stats (s_faulty (base)->inner, stats);
}

static const tx_ops_t s_ops = {
    .name = "faulty",
    .open = s_open,
    .identity = s_identity,
    .address = s_address,
    .destroy = s_destroy,
    .connect = s_connect,
    .close = s_close,
    .post = s_post,
    .poll = s_poll,
    .fd = s_fd,
    .region_add = s_region_add,
    .region_drop = s_region_drop,
    .acked = s_acked,
    .resume = tx_no_resume,
    .stats = s_stats,
};

const tx_ops_t *
tx_faulty_find (const char *spec)
{
    for (size_t i = 0; i < sizeof s_faults / sizeof *s_faults; i++) {
        size_t len = strlen (s_faults[i].name);
        if (strncmp (spec, s_faults[i].name, len) != 0 || spec[len] != ':')
            continue;
        const char *digits = spec + len + 1;
        char *end;
        uint64_t argument = strtoull (digits, &end, 10);
        if (*digits < '0' || *digits > '9' || *end || argument == 0 ||
            argument > INT32_MAX)
            return NULL;
        s_fault = &s_faults[i];
        s_argument = argument;
        return &s_ops;
    }
    return NULL;
}
