//  agent/worker.c - the worker of one job: its life and its loop

#include "agent/worker_impl.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PROGRESS_MS 250
#define LINGER_MS 10000  //  for other nodes that still read what we sent
#define WATCH_RELAY 0u
#define WATCH_SOCKET 1u
#define WATCH_PIDFD 2u
#define WATCH_CHANNEL 3u

int64_t
ta_worker_now_ms (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void
ta_worker_log (const ta_worker_t *self, const char *event, const char *format,
               ...)
{
    char text[TP_TEXT_MAX], stamp[32];
    struct timespec now;
    struct tm tm;
    va_list args;
    va_start (args, format);
    vsnprintf (text, sizeof text, format, args);
    va_end (args);
    clock_gettime (CLOCK_REALTIME, &now);
    gmtime_r (&now.tv_sec, &tm);
    strftime (stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &tm);
    fprintf (stderr, "time=%s.%03ldZ level=info event=worker-%s job=%s %s\n",
             stamp, now.tv_nsec / 1000000, event, self->setup.job, text);
}

void
ta_worker_enter (ta_worker_t *self, ta_worker_state_t state)
{
    static const char *names[] = { "joining", "connecting", "running",
                                   "ending" };
    if (state == self->state)
        return;
    int64_t now_ms = ta_worker_now_ms ();
    ta_worker_log (self, "state", "state=%s was=%s ms=%lld", names[state],
                   names[self->state], (long long) (now_ms - self->state_ms));
    self->state = state;
    self->state_ms = now_ms;
    if (state == TA_ENDING)
        self->end_ms = now_ms + LINGER_MS;
}

static bool
s_watch (ta_worker_t *self, int fd, uint32_t kind)
{
    struct epoll_event event = { .events = EPOLLIN,
                                 .data.u64 = (uint64_t) kind << 32 };
    return epoll_ctl (self->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

//  The first message: what to serve, and how.
static tutti_err_t
s_await_setup (ta_worker_t *self)
{
    ta_relay_message_t message;
    struct pollfd pfd = { .fd = self->relay.fd, .events = POLLIN };
    poll (&pfd, 1, 10000);
    tutti_err_t err = ta_relay_receive (&self->relay, &message);
    if (err)
        return err;
    if (message.type != TA_SETUP || message.len != sizeof self->setup)
        return TUTTI_EPROTO;
    memcpy (&self->setup, message.body, sizeof self->setup);
    return TUTTI_OK;
}

static tutti_err_t
s_open (ta_worker_t *self, char *text)
{
    self->wake_fd = ta_memfd ("tutti-wake", sizeof *self->wake);
    self->bell = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
    void *page = mmap (NULL, sizeof *self->wake, PROT_READ | PROT_WRITE,
                       MAP_SHARED, self->wake_fd, 0);
    if (self->wake_fd < 0 || self->bell < 0 || page == MAP_FAILED)
        return TUTTI_ENOMEM;
    self->wake = page;
    tutti_err_t err = ta_memory_new (&self->memory);
    if (err)
        return err;
    ta_channel_options_t options = { .transport = self->setup.transport,
                                     .bind = self->setup.bind,
                                     .port_lo = self->setup.port_lo,
                                     .port_hi = self->setup.port_hi,
                                     .job = self->setup.job,
                                     .memory = self->memory,
                                     .wake = self->wake,
                                     .bell = self->bell };
    err = ta_channel_new (&self->channel, &options, text);
    if (err)
        return err;
    return s_watch (self, self->relay.fd, WATCH_RELAY) &&
                   s_watch (self, ta_channel_fd (self->channel), WATCH_CHANNEL)
               ? TUTTI_OK
               : TUTTI_ENOMEM;
}

//  The worker cannot serve: clients that were handed over hear why.
static void
s_refuse_clients (ta_worker_t *self, const char *text)
{
    ta_worker_log (self, "refused", "text=\"%s\"", text);
    struct pollfd pfd = { .fd = self->relay.fd, .events = POLLIN };
    ta_relay_message_t message;
    while (poll (&pfd, 1, 200) > 0 &&
           ta_relay_receive (&self->relay, &message) != TUTTI_EAGENTLOST)
        if (message.type == TA_ADOPT)
            ta_client_turn_away (&message, TUTTI_EJOIN, text);
}

//  Messages of the supervisor. False: it is gone.
static bool
s_relay (ta_worker_t *self)
{
    for (int i = 0; i < 64; i++) {
        ta_relay_message_t message;
        tutti_err_t err = ta_relay_receive (&self->relay, &message);
        if (err == TUTTI_EAGAIN)
            return true;
        if (err == TUTTI_EAGENTLOST)
            return false;
        if (err)
            continue;
        if (message.type == TA_ADOPT) {
            self->adopted++;
            ta_client_adopt (self, &message);
        }
        else if (message.type == TA_CONTROL)
            ta_job_message (self, message.body, message.len);
        else if (message.type == TA_DRAIN)
            self->drain = true;
    }
    return true;
}

static void
s_events (ta_worker_t *self)
{
    ta_event_t *event;
    while ((event = ta_channel_event (self->channel))) {
        ta_job_event (self, event);
        free (event);
    }
}

static bool
s_dispatch (ta_worker_t *self, uint64_t data)
{
    uint32_t kind = (uint32_t) (data >> 32);
    ta_session_t *session = &self->session[(uint32_t) data % TP_LOCAL_MAX];
    switch (kind) {
    case WATCH_RELAY:
        return s_relay (self);
    case WATCH_CHANNEL:
        s_events (self);
        return true;
    default:
        if (session->used)
            ta_client_ready (self, session, kind == WATCH_PIDFD);
        return true;
    }
}

//  ENDING lasts until every rank of the job has left, so that no connection
//  breaks while another node still reads from it.
static bool
s_over (const ta_worker_t *self)
{
    if (self->state != TA_ENDING)
        return false;
    return self->finished || self->roster.nodes <= 1 ||
           ta_worker_now_ms () >= self->end_ms;
}

//  Nobody is left: the supervisor closes the pair if it knows of no client
//  that is still on its way to us (it counts ADOPTs as we do).
static void
s_say_empty (ta_worker_t *self)
{
    if (self->told_empty == self->adopted)
        return;
    self->told_empty = self->adopted;
    ta_job_progress (self);
    ta_relay_send (&self->relay, TA_EMPTY, (uint8_t *) &self->told_empty,
                   sizeof self->told_empty);
}

static void
s_loop (ta_worker_t *self)
{
    struct epoll_event events[32];
    while (!self->drain) {
        if (s_over (self))
            s_say_empty (self);
        int64_t now = ta_worker_now_ms ();
        int64_t wait = self->progress_ms - now;
        int n =
            epoll_wait (self->epoll, events, 32, wait < 0 ? 0 : (int) wait);
        for (int i = 0; i < n; i++)
            if (!s_dispatch (self, events[i].data.u64))
                return;
        if (ta_worker_now_ms () < self->progress_ms)
            continue;
        self->progress_ms = ta_worker_now_ms () + PROGRESS_MS;
        if (self->state == TA_RUNNING)
            ta_job_progress (self);
    }
}

//  No rank may wait for a worker that is gone: their comms end first.
static void
s_close (ta_worker_t *self)
{
    for (uint32_t i = 0; i < self->n_members; i++) {
        tp_board_fail (self->members[i]->board, TUTTI_EAGENTLOST,
                       "the agent of this node has ended; call "
                       "tutti_finalize, then tutti_init again");
        for (uint32_t k = 0; k < self->members[i]->n_local; k++)
            tp_wake (&self->wake->session[self->members[i]->session[k]]);
    }
    ta_channel_destroy (&self->channel);
    for (uint32_t i = 0; i < TP_LOCAL_MAX; i++)
        if (self->session[i].used)
            ta_session_close (&self->session[i], self->memory);
    for (uint32_t i = 0; i < self->n_members; i++)
        ta_member_destroy (&self->members[i]);
    while (self->leaving) {
        ta_member_t *member = self->leaving;
        self->leaving = member->leaving;
        ta_member_destroy (&member);
    }
    free (self->members);
    ta_memory_destroy (&self->memory);
    free (self->node_of);
    free (self->pid_of);
    free (self->session_of);
    free (self->node_name);
    ta_relay_destroy (&self->relay);
    free (self);
}

int
ta_worker_main (int fd)
{
    ta_worker_t *self = calloc (1, sizeof *self);
    if (!self)
        return 1;
    //  The supervisor decides when we end; a terminal's Ctrl-C goes to all.
    signal (SIGINT, SIG_IGN);
    signal (SIGTERM, SIG_IGN);
    signal (SIGPIPE, SIG_IGN);
    self->relay.fd = fd;
    self->state_ms = ta_worker_now_ms ();
    for (uint32_t i = 0; i < TP_LOCAL_MAX; i++)
        self->session[i] =
            (ta_session_t){ .sock = -1, .pidfd = -1, .event = -1 };
    self->epoll = epoll_create1 (EPOLL_CLOEXEC);
    tutti_err_t err = self->epoll < 0 ? TUTTI_ENOMEM : s_await_setup (self);
    char text[TP_TEXT_MAX] = "the agent cannot start a worker for the job";
    if (!err) {
        err = s_open (self, text);
        if (err)
            s_refuse_clients (self, text);
        else
            s_loop (self);
    }
    s_close (self);
    return err ? 1 : 0;
}
