//  agent/channel.c - the thread that moves and reduces the bytes of a job
//
//  One round: commands, new ops, ops in flight, transport. When a round moves
//  nothing for a while the thread sleeps in epoll on the bell, the commands
//  and the transport. `asleep` in the wake page tells the ranks to ring.

#include "agent/channel_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

//  Rounds without work before sleeping, giving the core away in each. A
//  wake-up costs some 25 us where this was measured (a virtual machine).
#define IDLE_ROUNDS 50
#define SLEEP_MS 100
#define GRACE_MS 1  //  between two looks at outputs that may become ours

//  ------------------------------------------------------------------- doors

static void
s_post_event (ta_channel_t *self, const ta_event_t *event)
{
    ta_event_t *copy = malloc (sizeof *copy);
    if (!copy)
        return;
    *copy = *event;
    if (write (self->events[1], &copy, sizeof copy) != sizeof copy)
        free (copy);
}

ta_event_t *
ta_channel_event (ta_channel_t *self)
{
    ta_event_t *event;
    ssize_t n = read (self->events[0], &event, sizeof event);
    return n == sizeof event ? event : NULL;
}

void
ta_channel_send (ta_channel_t *self, ta_command_t *command)
{
    if (write (self->commands[1], &command, sizeof command) != sizeof command)
        free (command);
}

int
ta_channel_fd (const ta_channel_t *self)
{
    return self->events[0];
}

const char *
ta_channel_address (const ta_channel_t *self)
{
    return self->ops->address (self->tx);
}

void
ta_channel_session (ta_channel_t *self, uint32_t session, int event)
{
    ta_command_t *command = calloc (1, sizeof *command);
    if (!command)
        return;
    command->type = TA_CMD_SESSION;
    command->session = session;
    command->event = event >= 0 ? fcntl (event, F_DUPFD_CLOEXEC, 3) : -1;
    ta_channel_send (self, command);
}

uint64_t
ta_channel_wire_bytes (const ta_channel_t *self)
{
    return atomic_load_explicit (&self->wire_bytes, memory_order_relaxed);
}

void
ta_channel_wake (ta_channel_t *self, ta_member_t *member, uint32_t local)
{
    uint32_t session = member->session[local];
    tp_wake_t *wake = &self->wake->session[session];
    tp_wake (wake);
    int event = self->event_fd[session];
    if (!atomic_load (&wake->want_event) || event < 0)
        return;
    uint64_t one = 1;
    if (write (event, &one, sizeof one) < 0)
        return;  //  a full counter is readable as well
}

//  ----------------------------------------------------------------- failure

void
ta_channel_fail (ta_channel_t *self, ta_member_t *member, tutti_err_t err,
                 const char *text)
{
    if (member->failed)
        return;
    member->failed = true;
    ta_event_t event = { .type = TA_EV_FAILED, .id = member->id, .err = err };
    event.err = tp_board_fail (member->board, err, text);
    snprintf (event.text, sizeof event.text, "%s", text);
    for (uint32_t i = 0; i < member->n_local; i++)
        ta_channel_wake (self, member, i);
    s_post_event (self, &event);
}

void
ta_channel_edge_down (ta_channel_t *self, uint32_t node, tutti_err_t err,
                      const char *text)
{
    ta_event_t event = { .type = TA_EV_EDGE, .node = node, .err = err };
    snprintf (event.text, sizeof event.text, "%s", text);
    s_post_event (self, &event);
}

//  ---------------------------------------------------------------- commands

static void
s_start (ta_channel_t *self, ta_command_t *c)
{
    self->me = c->me;
    self->nodes = c->nodes;
    self->plan = c->plan;
    self->name = c->name;
    self->edge = calloc (c->nodes, sizeof *self->edge);
    self->landing = calloc (c->nodes, sizeof *self->landing);
    self->started = self->edge && self->landing;
    self->ops->identity (self->tx, c->epoch, c->me, c->key);
    for (uint32_t i = c->me + 1; self->started && i < c->nodes; i++) {
        tx_ep_t *ep;
        tutti_err_t err =
            self->ops->connect (self->tx, c->address[i], i, NULL, &ep);
        if (err)
            ta_channel_edge_down (self, i, err,
                                  "the transport cannot connect");
    }
    free (c->address);
}

static void
s_drop_ops (ta_channel_t *self, ta_member_t *m)
{
    for (uint32_t i = 0; i < 2 * TP_SLOTS; i++)
        if (m->ops[i])
            ta_op_drop (self, m->ops[i]);
    ta_local_drop (self, m);
}

static bool
s_has_ops (const ta_member_t *m)
{
    for (uint32_t i = 0; i < 2 * TP_SLOTS; i++)
        if (m->ops[i])
            return true;
    return false;
}

//  A member that is to go: as soon as the transport has let go of its ops.
static bool
s_try_remove (ta_channel_t *self, ta_member_t *m)
{
    m->failed = true;
    s_drop_ops (self, m);
    if (s_has_ops (m))
        return false;
    for (ta_member_t **p = &self->members; *p; p = &(*p)->link)
        if (*p == m) {
            *p = m->link;
            break;
        }
    ta_recipes_destroy (m);
    ta_event_t event = { .type = TA_EV_REMOVED, .member = m, .id = m->id };
    s_post_event (self, &event);
    return true;
}

static void
s_set_event (ta_channel_t *self, uint32_t session, int event)
{
    if (self->event_fd[session] >= 0)
        close (self->event_fd[session]);
    self->event_fd[session] = event;
}

static void
s_command (ta_channel_t *self, ta_command_t *c)
{
    switch (c->type) {
    case TA_CMD_START:
        s_start (self, c);
        break;
    case TA_CMD_ADD:
        c->member->link = self->members;
        self->members = c->member;
        break;
    case TA_CMD_SESSION:
        s_set_event (self, c->session, c->event);
        break;
    case TA_CMD_FAIL:
        c->member->failed = true;
        for (uint32_t i = 0; i < c->member->n_local; i++)
            ta_channel_wake (self, c->member, i);
        break;
    case TA_CMD_REMOVE:
        if (!s_try_remove (self, c->member)) {
            ta_channel_send (self, c);  //  again in the next round
            return;
        }
        break;
    case TA_CMD_STOP:
        self->stop = true;
        break;
    }
    free (c);
}

static bool
s_commands (ta_channel_t *self)
{
    ta_command_t *command;
    bool moved = false;
    for (int i = 0; i < 16; i++) {
        ssize_t n = read (self->commands[0], &command, sizeof command);
        if (n != sizeof command)
            break;
        s_command (self, command);
        moved = true;
    }
    return moved;
}

//  -------------------------------------------------------------------- loop

//  On one node only messages are the worker's; what the ranks do by themselves
//  may end, and its slot be used again, while we look.
static bool
s_is_ours (ta_member_t *m, uint32_t i, uint64_t seq)
{
    uint8_t kind = tp_board_sig (m->board, seq)->kind;
    return m->nodes > 1 || (kind == TP_SENDRECV &&
                            atomic_load (&m->board->named[i].seq) == seq);
}

//  Start the op in a named slot, if all are in and it was not started before.
static bool
s_start_named (ta_channel_t *self, ta_member_t *m, uint32_t i)
{
    uint64_t seq = atomic_load (&m->board->named[i].seq);
    if (seq == 0 || seq == m->begun[i] ||
        tp_board_slot (seq) != TP_SLOTS + i || m->ops[TP_SLOTS + i] ||
        !tp_board_all_in (m->board, seq) || !s_is_ours (m, i, seq))
        return false;
    m->begun[i] = seq;
    ta_op_start (self, m, seq);
    return true;
}

static bool
s_scan (ta_channel_t *self, ta_member_t *m)
{
    bool moved = false;
    if (m->nodes == 1) {
        ta_local_scan (self, m);
        moved = ta_local_run (self, m);
    }
    while (m->nodes > 1 && !m->failed && !m->ops[m->next % TP_SLOTS] &&
           tp_board_all_in (m->board, m->next)) {
        ta_op_start (self, m, m->next);
        m->next++;
        moved = true;
    }
    for (uint32_t i = 0; i < TP_SLOTS && !m->failed; i++)
        if (s_start_named (self, m, i))
            moved = true;
    for (uint32_t i = 0; i < 2 * TP_SLOTS; i++)
        if (m->ops[i] && !m->failed)
            moved |= ta_op_run (self, m->ops[i]);
    return moved;
}

static bool
s_round (ta_channel_t *self)
{
    bool moved = s_commands (self);
    for (ta_member_t *m = self->members; m; m = m->link) {
        if (!m->failed)
            moved |= s_scan (self, m);
        else
            s_drop_ops (self, m);
    }
    moved |= self->ops->poll (self->tx, 0) > 0;
    if (self->started && !self->ready && self->up + 1 == self->nodes) {
        ta_event_t event = { .type = TA_EV_READY };
        self->ready = true;
        s_post_event (self, &event);
    }
    return moved;
}

//  Looked at only when there is nothing else to do.
static void
s_check_stalls (ta_channel_t *self)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    int64_t now_ms = (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
    for (ta_member_t *m = self->members; m; m = m->link)
        for (uint32_t i = 0; i < 2 * TP_SLOTS; i++) {
            ta_event_t event = { .type = TA_EV_STALL, .id = m->id };
            ta_op_t *op = m->ops[i];
            if (!op || m->failed ||
                !ta_op_stalled (self, op, now_ms, event.text))
                continue;
            event.seq = op->id;
            event.sig = op->sig;
            s_post_event (self, &event);
        }
}

static bool
s_undecided (const ta_channel_t *self)
{
    for (const ta_member_t *m = self->members; m; m = m->link)
        if (m->locals)
            return true;
    return false;
}

static void
s_sleep (ta_channel_t *self)
{
    s_check_stalls (self);
    struct epoll_event events[4];
    atomic_store (&self->wake->worker.asleep, 1);
    if (!s_round (self))
        epoll_wait (self->epoll, events, 4,
                    s_undecided (self) ? GRACE_MS : SLEEP_MS);
    atomic_store (&self->wake->worker.asleep, 0);
}

static void
s_publish (ta_channel_t *self)
{
    tx_stats_t stats;
    self->ops->stats (self->tx, &stats);
    atomic_store_explicit (&self->wire_bytes, stats.payload_out,
                           memory_order_relaxed);
}

static void *
s_thread (void *arg)
{
    ta_channel_t *self = arg;
    int idle = 0;
    while (!self->stop) {
        bool moved = s_round (self);
        s_publish (self);
        idle = moved ? 0 : idle + 1;
        if (idle > IDLE_ROUNDS) {
            s_sleep (self);
            idle = 0;
        }
        else if (!moved)
            sched_yield ();
    }
    return NULL;
}

//  ------------------------------------------------------------------- life

static bool
s_watch (ta_channel_t *self, int fd, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.fd = fd };
    return epoll_ctl (self->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

static tutti_err_t
s_open (ta_channel_t *self, const ta_channel_options_t *options, char *text)
{
    self->ops = tx_find (options->transport);
    if (!self->ops) {
        snprintf (text, TP_TEXT_MAX, "there is no transport \"%s\"",
                  options->transport);
        return TUTTI_EINVAL;
    }
    tx_options_t tx = { .bind = options->bind,
                        .port_lo = options->port_lo,
                        .port_hi = options->port_hi,
                        .job = options->job };
    tutti_err_t err =
        self->ops->open (&self->tx, &tx, &ta_channel_handler, self);
    if (err) {
        snprintf (text, TP_TEXT_MAX, "cannot listen on %s (ports %u-%u): %s",
                  options->bind, options->port_lo, options->port_hi,
                  strerror (errno));
        return err;
    }
    self->epoll = epoll_create1 (EPOLL_CLOEXEC);
    //  The bell is never read: its descriptor is shared with clients, which
    //  could make a read block. Edge-triggered, every write is an event.
    bool ok = self->epoll >= 0 &&
              pipe2 (self->commands, O_CLOEXEC | O_NONBLOCK) == 0 &&
              pipe2 (self->events, O_CLOEXEC | O_NONBLOCK) == 0 &&
              s_watch (self, self->bell, EPOLLIN | EPOLLET) &&
              s_watch (self, self->commands[0], EPOLLIN) &&
              s_watch (self, self->ops->fd (self->tx), EPOLLIN);
    if (!ok)
        snprintf (text, TP_TEXT_MAX, "epoll or pipe: %s", strerror (errno));
    return ok ? TUTTI_OK : TUTTI_ENOMEM;
}

//  What nobody has read any more.
static void
s_drain_doors (ta_channel_t *self)
{
    ta_event_t *event;
    ta_command_t *command;
    if (self->events[0] >= 0)
        while ((event = ta_channel_event (self)))
            free (event);
    while (self->commands[0] >= 0 && read (self->commands[0], &command,
                                           sizeof command) == sizeof command) {
        if (command->type == TA_CMD_SESSION && command->event >= 0)
            close (command->event);
        free (command->address);
        free (command->name);
        free (command);
    }
}

static void
s_destroy (ta_channel_t *self)
{
    if (self->tx)
        self->ops->destroy (&self->tx);
    for (ta_member_t *m = self->members; m; m = m->link) {
        m->failed = true;
        s_drop_ops (self, m);
        ta_recipes_destroy (m);
    }
    s_drain_doors (self);
    for (int i = 0; i < 2; i++) {
        if (self->commands[i] >= 0)
            close (self->commands[i]);
        if (self->events[i] >= 0)
            close (self->events[i]);
    }
    if (self->epoll >= 0)
        close (self->epoll);
    for (uint32_t i = 0; i < TP_LOCAL_MAX; i++)
        s_set_event (self, i, -1);
    free (self->edge);
    free (self->landing);
    free (self->name);
    free (self);
}

tutti_err_t
ta_channel_new (ta_channel_t **self_p, const ta_channel_options_t *options,
                char *text)
{
    ta_channel_t *self = calloc (1, sizeof *self);
    if (!self)
        return TUTTI_ENOMEM;
    self->epoll = self->commands[0] = self->commands[1] = -1;
    self->events[0] = self->events[1] = -1;
    self->memory = options->memory;
    self->wake = options->wake;
    self->bell = options->bell;
    TP_PLAN_DEFAULT (&self->plan);
    for (int i = 0; i < TP_LOCAL_MAX; i++)
        self->event_fd[i] = -1;
    tutti_err_t err = s_open (self, options, text);
    if (!err && pthread_create (&self->thread, NULL, s_thread, self)) {
        snprintf (text, TP_TEXT_MAX, "cannot start a thread");
        err = TUTTI_ENOMEM;
    }
    if (err) {
        s_destroy (self);
        return err;
    }
    *self_p = self;
    return TUTTI_OK;
}

void
ta_channel_destroy (ta_channel_t **self_p)
{
    ta_channel_t *self = *self_p;
    if (!self)
        return;
    ta_command_t *stop = calloc (1, sizeof *stop);
    if (!stop)
        return;
    stop->type = TA_CMD_STOP;
    ta_channel_send (self, stop);
    pthread_join (self->thread, NULL);
    s_destroy (self);
    *self_p = NULL;
}
