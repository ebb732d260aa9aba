//  agent/crew.c - all workers of a node

#include "agent/crew.h"

#include "agent/child.h"
#include "agent/log.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define CHILDREN_MAX 256
#define TURN_EVENTS 64     //  of one turn
#define CHILD_MESSAGES 64  //  of one child before others get a turn

struct ta_crew {
    ta_crew_options_t options;
    int epoll;
    bool draining;
    ta_child_t *children;  //  ours
    size_t count;
    Tutti__Progress *progress[CHILDREN_MAX];  //  the children's
    //  What children said last before they ended, ours: told once.
    Tutti__Progress *last[CHILDREN_MAX];
    size_t n_last;  //  first N_TOLD of them are told
    size_t n_told;
};

//  ----------------------------------------------------------------- children

static ta_child_t *
s_find (const ta_crew_t *self, const char *job, uint32_t attempt)
{
    for (ta_child_t *c = self->children; c; c = c->next) {
        if (c->state == TA_CHILD_RUNNING && c->attempt == attempt &&
            strcmp (c->job, job) == 0)
            return c;
    }
    return NULL;
}

//  Poll a child for room as long as something is queued for it.
static void
s_rewatch (ta_crew_t *self, ta_child_t *child)
{
    bool write = ta_pair_queued (child->pair);
    if (write == child->writing)
        return;
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = child };
    if (write)
        event.events |= EPOLLOUT;
    if (epoll_ctl (self->epoll, EPOLL_CTL_MOD, ta_pair_fd (child->pair),
                   &event) == 0)
        child->writing = write;
}

//  The pair is of no use any more: a closed one would wake us for ever.
static void
s_break (ta_crew_t *self, ta_child_t *child, const char *why, int64_t now_ms)
{
    ta_log (TA_LOG_INFO, "worker-pair", "job=%s pid=%d text=\"%s\"",
            child->job, child->pid, why);
    epoll_ctl (self->epoll, EPOLL_CTL_DEL, ta_pair_fd (child->pair), NULL);
    ta_child_event (child, TA_CHILD_BROKEN, now_ms);
}

static tutti_err_t
s_start (ta_crew_t *self, const ta_client_t *client, ta_child_t **child_p,
         char *text)
{
    ta_setup_t setup = self->options.setup;
    memcpy (setup.job, client->hello.job, sizeof setup.job);
    setup.attempt = client->hello.attempt;
    if (self->count >= CHILDREN_MAX) {
        snprintf (text, TP_TEXT_MAX,
                  "job %s on node %s: the node serves %zu jobs already, its "
                  "limit; wait until one has ended",
                  setup.job, setup.node, self->count);
        return TUTTI_ENOMEM;
    }
    ta_child_t *child;
    tutti_err_t err = ta_child_new (&child, &setup, client, text);
    if (err)
        return err;
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = child };
    if (epoll_ctl (self->epoll, EPOLL_CTL_ADD, ta_pair_fd (child->pair),
                   &event) < 0)
        kill (child->pid, SIGKILL);  //  reaped like any other
    child->next = self->children;
    self->children = child;
    self->count++;
    *child_p = child;
    return TUTTI_OK;
}

tutti_err_t
ta_crew_admit (ta_crew_t *self, const ta_client_t *client, char *text)
{
    const tp_local_hello_t *hello = &client->hello;
    const char *node = self->options.setup.node;
    ta_child_t *child = s_find (self, hello->job, hello->attempt);
    tutti_err_t err = TUTTI_OK;
    if (child && client->uid != child->uid && client->uid != 0) {
        snprintf (text, TP_TEXT_MAX,
                  "job %s on node %s, rank %u: the job is of uid %u, you are "
                  "uid %u; choose another job name (TUTTI_JOB)",
                  hello->job, node, hello->rank, child->uid, client->uid);
        return TUTTI_EDENIED;
    }
    if (!child)
        err = s_start (self, client, &child, text);
    if (err)
        return err;
    err = ta_child_adopt (child, client);
    if (err) {
        snprintf (text, TP_TEXT_MAX,
                  "job %s on node %s, rank %u: the job's worker (pid %d) does "
                  "not take messages; end the job, then try again",
                  hello->job, node, hello->rank, child->pid);
        return TUTTI_ENOMEM;
    }
    s_rewatch (self, child);
    ta_log (TA_LOG_INFO, "client-attached",
            "job=%s attempt=%u rank=%u size=%u pid=%u uid=%u worker=%d",
            hello->job, hello->attempt, hello->rank, hello->size, hello->pid,
            client->uid, child->pid);
    return TUTTI_OK;
}

//  ------------------------------------------------- from the coordinator

static void
s_send (ta_crew_t *self, ta_child_t *child, uint32_t type,
        const uint8_t *bytes, size_t len)
{
    tutti_err_t err = ta_pair_send (child->pair, type, bytes, len, NULL);
    s_rewatch (self, child);
    if (err == TUTTI_OK || err == TUTTI_ESTATE)
        return;
    //  It has not read for megabytes, and must not miss a message.
    ta_log (TA_LOG_ERROR, "worker-stuck", "job=%s pid=%d code=%d", child->job,
            child->pid, (int) err);
    kill (child->pid, SIGKILL);
}

void
ta_crew_deliver (ta_crew_t *self, const Tutti__Envelope *envelope,
                 const uint8_t *bytes, size_t len)
{
    bool found = false;
    for (ta_child_t *c = self->children; c; c = c->next) {
        if (c->attempt != envelope->attempt || c->state == TA_CHILD_CUT ||
            strcmp (c->job, envelope->job) != 0)
            continue;
        found = true;
        if (envelope->epoch > c->epoch)
            c->epoch = envelope->epoch;
        s_send (self, c, TA_CONTROL, bytes, len);
    }
    if (!found)
        ta_log (TA_LOG_INFO, "no-worker", "message=%s job=%s attempt=%u",
                tp_msg_name (envelope), envelope->job, envelope->attempt);
}

void
ta_crew_welcome (ta_crew_t *self, const Tutti__Envelope *welcome)
{
    for (ta_child_t *c = self->children; c; c = c->next) {
        Tutti__Envelope envelope = *welcome;
        envelope.job = c->job;
        envelope.attempt = c->attempt;
        uint8_t *bytes;
        size_t len;
        if (tp_msg_pack (&envelope, &bytes, &len) != TUTTI_OK)
            continue;
        s_send (self, c, TA_CONTROL, bytes, len);
        free (bytes);
    }
}

//  ------------------------------------------------------------ from a worker

//  A worker runs under the user's uid: it may speak for its own job only.
static void
s_on_control (ta_crew_t *self, ta_child_t *child, const uint8_t *bytes,
              size_t len)
{
    Tutti__Envelope *envelope;
    char text[TP_TEXT_MAX];
    tutti_err_t err = tp_msg_unpack (bytes, len, &envelope, text);
    if (err) {
        ta_log (TA_LOG_ERROR, "worker-garbage", "job=%s pid=%d text=\"%s\"",
                child->job, child->pid, text);
        return;
    }
    if (envelope->job && strcmp (envelope->job, child->job) == 0 &&
        envelope->attempt == child->attempt) {
        if (envelope->body_case == TUTTI__ENVELOPE__BODY_LEAVE)
            ta_child_forget (child, envelope->leave->rank);
        if (envelope->body_case == TUTTI__ENVELOPE__BODY_LOST)
            ta_child_forget (child, envelope->lost->rank);
        self->options.relay (self->options.arg, bytes, len);
    }
    else
        ta_log (TA_LOG_ERROR, "worker-garbage",
                "job=%s pid=%d text=\"%s of another job\"", child->job,
                child->pid, tp_msg_name (envelope));
    tp_msg_free (&envelope);
}

//  Whether the coordinator will accept it; else it would refuse the whole
//  heartbeat.
static bool
s_progress_ok (Tutti__Progress *progress)
{
    Tutti__Heartbeat heartbeat = TUTTI__HEARTBEAT__INIT;
    heartbeat.n_progress = 1;
    heartbeat.progress = &progress;
    Tutti__Envelope envelope = TUTTI__ENVELOPE__INIT;
    envelope.protocol = TP_PROTOCOL;
    envelope.body_case = TUTTI__ENVELOPE__BODY_HEARTBEAT;
    envelope.heartbeat = &heartbeat;
    Tutti__Envelope *checked = NULL;
    uint8_t *bytes;
    size_t len;
    if (tp_msg_pack (&envelope, &bytes, &len) != TUTTI_OK)
        return false;
    tutti_err_t err = tp_msg_unpack (bytes, len, &checked, NULL);
    free (bytes);
    if (err == TUTTI_OK)
        tp_msg_free (&checked);
    return err == TUTTI_OK;
}

static void
s_on_progress (ta_child_t *child, const uint8_t *bytes, size_t len)
{
    Tutti__Progress *progress = tutti__progress__unpack (NULL, len, bytes);
    if (!progress || strcmp (progress->job, child->job) != 0 ||
        !s_progress_ok (progress)) {
        ta_log (TA_LOG_ERROR, "worker-garbage",
                "job=%s pid=%d text=\"malformed progress\"", child->job,
                child->pid);
        if (progress)
            tutti__progress__free_unpacked (progress, NULL);
        return;
    }
    if (child->progress)
        tutti__progress__free_unpacked (child->progress, NULL);
    child->progress = progress;
}

//  A worker that names the ADOPTs it has seen is believed only if it has seen
//  all: a client may be on its way while it thinks that it is alone.
static void
s_on_empty (ta_child_t *child, const uint8_t *bytes, size_t len,
            int64_t now_ms)
{
    uint32_t seen = child->sent;
    if (len == sizeof seen)
        memcpy (&seen, bytes, sizeof seen);
    if (seen != child->sent)
        return;
    ta_child_event (child, TA_CHILD_EMPTY, now_ms);
    ta_pair_shut (child->pair);
}

//  Read what a child has to say. False: its pair is of no use any more.
static bool
s_read (ta_crew_t *self, ta_child_t *child, int64_t now_ms, const char **why_p)
{
    for (int i = 0; i < CHILD_MESSAGES; i++) {
        uint32_t type;
        const uint8_t *bytes;
        size_t len;
        tutti_err_t err = ta_pair_receive (child->pair, &type, &bytes, &len);
        if (err == TUTTI_EAGAIN)
            return true;
        if (err) {
            *why_p = err == TUTTI_EAGENTLOST ? "closed" : "garbage";
            return false;
        }
        if (type == TA_CONTROL)
            s_on_control (self, child, bytes, len);
        else if (type == TA_PROGRESS)
            s_on_progress (child, bytes, len);
        else if (type == TA_EMPTY)
            s_on_empty (child, bytes, len, now_ms);
        else {
            *why_p = "a message of unknown type";
            return false;
        }
    }
    return true;
}

//  ---------------------------------------------------------------------- end

//  Its worker is dead, so nobody else can tell the other nodes.
static void
s_speak_for (ta_crew_t *self, ta_child_t *child)
{
    char cause[TP_TEXT_MAX];
    const char *node = self->options.setup.node;
    ta_child_epitaph (child, node, cause, sizeof cause);
    ta_log (TA_LOG_ERROR, "worker-died",
            "job=%s attempt=%u pid=%d text=\"%s\"", child->job, child->attempt,
            child->pid, cause);
    for (uint32_t i = 0; i < child->n_adopted; i++) {
        Tutti__Lost lost = TUTTI__LOST__INIT;
        lost.rank = child->adopted[i].rank;
        lost.pid = child->adopted[i].pid;
        lost.node = (char *) node;
        lost.cause = cause;
        Tutti__Envelope envelope = TUTTI__ENVELOPE__INIT;
        envelope.job = child->job;
        envelope.attempt = child->attempt;
        envelope.epoch = child->epoch;
        envelope.body_case = TUTTI__ENVELOPE__BODY_LOST;
        envelope.lost = &lost;
        self->options.speak (self->options.arg, &envelope);
    }
}

static void
s_bury (ta_crew_t *self, ta_child_t *child, int64_t now_ms)
{
    const char *why;
    //  Its last words may lie in the pair; it is bounded by the socket.
    for (int i = 0; i < CHILD_MESSAGES; i++) {
        if (!s_read (self, child, now_ms, &why))
            break;
    }
    if (!ta_child_ended_well (child) && !self->draining)
        s_speak_for (self, child);
    ta_child_event (child, TA_CHILD_EXITED, now_ms);
    if (child->progress && self->n_last < CHILDREN_MAX) {
        self->last[self->n_last++] = child->progress;
        child->progress = NULL;
    }
    ta_child_destroy (&child);
    self->count--;
}

static void
s_reap (ta_crew_t *self, int64_t now_ms)
{
    ta_child_t **link = &self->children;
    while (*link) {
        ta_child_t *child = *link;
        if (now_ms >= child->deadline) {
            ta_log (TA_LOG_WARN, "worker-killed",
                    "job=%s pid=%d text=\"it did not exit in time\"",
                    child->job, child->pid);
            kill (child->pid, SIGKILL);
            child->deadline = INT64_MAX;
        }
        if (ta_child_reap (child)) {
            *link = child->next;
            s_bury (self, child, now_ms);
        }
        else
            link = &child->next;
    }
}

void
ta_crew_turn (ta_crew_t *self, int64_t now_ms)
{
    for (int i = 0; i < TURN_EVENTS; i++) {
        //  One at a time, so none can speak of a child that is gone.
        struct epoll_event event;
        if (epoll_wait (self->epoll, &event, 1, 0) != 1)
            break;
        ta_child_t *child = event.data.ptr;
        const char *why = NULL;
        if (event.events & EPOLLOUT)
            ta_pair_flush (child->pair);
        if (!s_read (self, child, now_ms, &why))
            s_break (self, child, why, now_ms);
        else
            s_rewatch (self, child);
    }
    s_reap (self, now_ms);
}

int64_t
ta_crew_deadline (const ta_crew_t *self)
{
    int64_t next = INT64_MAX;
    for (const ta_child_t *c = self->children; c; c = c->next) {
        if (c->deadline < next)
            next = c->deadline;
    }
    return next;
}

//  ----------------------------------------------------------------- progress

//  Only the newest attempt of a job counts.
static bool
s_superseded (const ta_crew_t *self, const ta_child_t *child)
{
    for (const ta_child_t *c = self->children; c; c = c->next) {
        if (c->progress && c->attempt > child->attempt &&
            strcmp (c->job, child->job) == 0)
            return true;
    }
    return false;
}

static void
s_forget_told (ta_crew_t *self)
{
    for (size_t i = 0; i < self->n_told; i++)
        tutti__progress__free_unpacked (self->last[i], NULL);
    self->n_last -= self->n_told;
    memmove (self->last, self->last + self->n_told,
             self->n_last * sizeof self->last[0]);
    self->n_told = 0;
}

//  Add one to the report of N, whose size is *BYTES_P; false: it is full.
static bool
s_add_progress (ta_crew_t *self, Tutti__Progress *progress, size_t *n_p,
                size_t *bytes_p)
{
    size_t bytes = *bytes_p + tutti__progress__get_packed_size (progress) + 16;
    if (*n_p == CHILDREN_MAX || bytes > TP_MSG_MAX / 2)
        return false;
    self->progress[(*n_p)++] = progress;
    *bytes_p = bytes;
    return true;
}

Tutti__Progress **
ta_crew_progress (ta_crew_t *self, size_t *count_p)
{
    size_t n = 0;
    size_t bytes = 0;
    s_forget_told (self);
    while (self->n_told < self->n_last &&
           s_add_progress (self, self->last[self->n_told], &n, &bytes))
        self->n_told++;
    for (ta_child_t *c = self->children; c; c = c->next) {
        if (!c->progress || s_superseded (self, c))
            continue;
        if (!s_add_progress (self, c->progress, &n, &bytes))
            break;
    }
    *count_p = n;
    return self->progress;
}

//  --------------------------------------------------------------------- life

void
ta_crew_drain (ta_crew_t *self)
{
    self->draining = true;
    for (ta_child_t *c = self->children; c; c = c->next)
        s_send (self, c, TA_DRAIN, NULL, 0);
}

void
ta_crew_kill (ta_crew_t *self)
{
    for (ta_child_t *c = self->children; c; c = c->next)
        kill (c->pid, SIGKILL);
}

size_t
ta_crew_count (const ta_crew_t *self)
{
    return self->count;
}

int
ta_crew_fd (const ta_crew_t *self)
{
    return self->epoll;
}

void
ta_crew_bind (ta_crew_t *self, const char *address)
{
    snprintf (self->options.setup.bind, sizeof self->options.setup.bind, "%s",
              address);
}

tutti_err_t
ta_crew_new (ta_crew_t **self_p, const ta_crew_options_t *options)
{
    assert (options->relay && options->speak);
    ta_crew_t *self = calloc (1, sizeof *self);
    if (!self)
        return TUTTI_ENOMEM;
    self->options = *options;
    self->epoll = epoll_create1 (EPOLL_CLOEXEC);
    if (self->epoll < 0) {
        free (self);
        return TUTTI_ENOMEM;
    }
    *self_p = self;
    return TUTTI_OK;
}

void
ta_crew_destroy (ta_crew_t **self_p)
{
    ta_crew_t *self = *self_p;
    if (!self)
        return;
    self->n_told = self->n_last;
    s_forget_told (self);
    while (self->children) {
        ta_child_t *child = self->children;
        self->children = child->next;
        ta_child_destroy (&child);
    }
    close (self->epoll);
    free (self);
    *self_p = NULL;
}
