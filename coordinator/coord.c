//  coordinator/coord.c - the control loop: nodes, jobs, and what they say

#include "coordinator/coord_impl.h"

#include "coordinator/log.h"
#include "coordinator/status.h"

#include <czmq.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUND_MS 50       //  longest sleep of the loop
#define BATCH 256         //  messages between two looks at the timers
#define PUBLISH_MS 100    //  shortest time between two snapshots
#define PUBLISH_SHARE 10  //  a snapshot may take a tenth of the time
#define JOBS_MAX 4096
#define GARBLED_MAX 1024  //  peers

static int64_t
s_clock_ms (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

//  ------------------------------------------------------------------ sending

//  For jobs: to the agent of a node, if it is known.
static void
s_job_send (void *arg, const char *node, Tutti__Envelope *e)
{
    tc_coord_t *self = arg;
    tc_entry_t *entry = zhashx_lookup (self->by_name, node);
    if (!entry || tc_node_state (entry->node) == TC_NODE_LOST)
        return;
    if (!tc_coord_send (self, &entry->peer, e))
        tc_log (TC_LOG_WARN, "unsent", "message=%s job=%s node=%s",
                tp_msg_name (e), e->job, node);
}

static int64_t
s_new_epoch (void *arg)
{
    tc_coord_t *self = arg;
    if (++self->epoch + TC_STORE_EPOCHS / 2 > self->reserved) {
        self->reserved = self->epoch + TC_STORE_EPOCHS;
        tc_store_epoch (self->store, self->reserved);
    }
    return self->epoch;
}

static const tc_store_plan_t *
s_plan (void *arg, const tc_shape_t *shape, bool *made_p)
{
    tc_coord_t *self = arg;
    return tc_plans_get (self->plans, shape, made_p);
}

//  --------------------------------------------------------------------- jobs

static bool
s_ended (const tc_job_t *job)
{
    return tc_job_state (job) == TC_JOB_FINISHED ||
           tc_job_state (job) == TC_JOB_FAILED;
}

//  The latest job of that name.
static tc_job_t *
s_job (tc_coord_t *self, const char *name)
{
    for (size_t i = self->n_jobs; i > 0; i--)
        if (strcmp (tc_job_name (self->jobs[i - 1]), name) == 0)
            return self->jobs[i - 1];
    return NULL;
}

//  The run that a message is about. Without an epoch its sender has not seen
//  START, so it is about the run that has not ended.
static tc_job_t *
s_run (tc_coord_t *self, const Tutti__Envelope *e)
{
    for (size_t i = self->n_jobs; i > 0; i--) {
        tc_job_t *job = self->jobs[i - 1];
        if (strcmp (tc_job_name (job), e->job) == 0 &&
            tc_job_attempt (job) == e->attempt &&
            (e->epoch ? e->epoch == tc_job_epoch (job) : !s_ended (job)))
            return job;
    }
    return NULL;
}

//  Jobs that were never started are not worth a record.
static void
s_record (void *arg, const tc_job_t *job)
{
    tc_coord_t *self = arg;
    tc_store_job_t record = { .attempt = tc_job_attempt (job),
                              .size = tc_job_size (job),
                              .epoch = tc_job_epoch (job) };
    self->dirty = true;
    if (record.epoch == 0)
        return;
    snprintf (record.job, sizeof record.job, "%s", tc_job_name (job));
    snprintf (record.state, sizeof record.state, "%s",
              tc_job_state_name (tc_job_state (job)));
    snprintf (record.text, sizeof record.text, "%s", tc_job_text (job));
    tc_store_job (self->store, &record);
}

//  Forget the oldest ended jobs beyond the history.
static void
s_trim_jobs (tc_coord_t *self)
{
    size_t ended = 0;
    for (size_t i = 0; i < self->n_jobs; i++)
        ended += s_ended (self->jobs[i]);
    for (size_t i = 0; ended > TC_HISTORY && i < self->n_jobs;) {
        if (!s_ended (self->jobs[i])) {
            i++;
            continue;
        }
        tc_job_destroy (&self->jobs[i]);
        memmove (&self->jobs[i], &self->jobs[i + 1],
                 (--self->n_jobs - i) * sizeof *self->jobs);
        ended--;
    }
}

static tc_job_t *
s_new_job (tc_coord_t *self, const Tutti__Envelope *e)
{
    tc_job_t **more = realloc (self->jobs, (self->n_jobs + 1) * sizeof *more);
    if (!more)
        return NULL;
    self->jobs = more;
    tc_job_t *job;
    if (tc_job_new (&job, e->job, e->attempt, e->join, &self->context,
                    self->now_ms))
        return NULL;
    self->jobs[self->n_jobs++] = job;
    s_trim_jobs (self);
    return job;
}

static void
s_refuse_join (tc_coord_t *self, const char *node, const Tutti__Envelope *e,
               const char *text)
{
    Tutti__Envelope answer = TUTTI__ENVELOPE__INIT;
    Tutti__Refuse refuse = TUTTI__REFUSE__INIT;
    refuse.code = TUTTI_EJOIN;
    refuse.text = (char *) text;
    refuse.has_rank = true;
    refuse.rank = e->join->rank;
    answer.job = e->job;
    answer.attempt = e->attempt;
    answer.body_case = TUTTI__ENVELOPE__BODY_REFUSE;
    answer.refuse = &refuse;
    tc_log (TC_LOG_WARN, "refuse", "job=%s rank=%u node=%s text=\"%s\"",
            e->job, e->join->rank, node, text);
    s_job_send (self, node, &answer);
}

//  Whether the attempt of a JOIN is the one of the run OLD, or a later one,
//  which ends it.
static bool
s_attempt_ok (tc_coord_t *self, tc_job_t *old, const char *node,
              const Tutti__Envelope *e)
{
    char text[TP_TEXT_MAX];
    uint32_t running = tc_job_attempt (old);
    if (e->attempt >= running) {
        if (e->attempt > running)
            tc_job_supersede (old, e->attempt);
        return true;
    }
    snprintf (text, sizeof text,
              "job %s: rank %u (host %s, pid %u) belongs to attempt %u, but "
              "attempt %u is running; end this process",
              e->job, e->join->rank, e->join->host, e->join->pid, e->attempt,
              running);
    s_refuse_join (self, node, e, text);
    return false;
}

static void
s_join (tc_coord_t *self, const char *node, const Tutti__Envelope *e)
{
    tc_job_t *job = s_job (self, e->job);
    if (job && !s_ended (job) && !s_attempt_ok (self, job, node, e))
        return;
    if (job && s_ended (job)) {  //  the name may be used again
        tc_job_mute (job);
        job = NULL;
    }
    if (!job && self->n_jobs < JOBS_MAX)
        job = s_new_job (self, e);
    if (!job) {
        s_refuse_join (self, node, e, "the coordinator has too many jobs");
        return;
    }
    tc_job_join (job, node, e->join, self->now_ms);
    if (tc_job_joined (job) == 0 && tc_job_state (job) == TC_JOB_FORMING)
        tc_job_destroy (&self->jobs[--self->n_jobs]);  //  its first, refused
}

//  ----------------------------------------------------------------- dispatch

static void
s_job_message (tc_coord_t *self, const char *node, const Tutti__Envelope *e)
{
    tc_job_t *job = s_run (self, e);
    if (!job)
        return;
    switch (e->body_case) {
    case TUTTI__ENVELOPE__BODY_READY:
        if (e->epoch != 0)
            tc_job_ready (job, node);
        break;
    case TUTTI__ENVELOPE__BODY_LEAVE:
        tc_job_leave (job, e->leave->rank, self->now_ms);
        break;
    case TUTTI__ENVELOPE__BODY_LOST:
        tc_job_lost (job, node, e->lost, self->now_ms);
        break;
    case TUTTI__ENVELOPE__BODY_ABORT:
        tc_job_abort (job, node, e->abort);
        break;
    case TUTTI__ENVELOPE__BODY_STALL:
        tc_job_stall (job, node, e->stall);
        break;
    default:
        break;
    }
}

//  Without an epoch it is about the latest run.
static void
s_progress (tc_coord_t *self, const char *node, const Tutti__Progress *p)
{
    tc_job_t *job = s_job (self, p->job);
    if (job && (p->epoch == 0 || p->epoch == tc_job_epoch (job)))
        tc_job_progress (job, node, p, self->now_ms);
    tc_tally_add (self->tally, node, p, self->now_ms);
}

static void
s_known_message (tc_coord_t *self, tc_entry_t *entry, const Tutti__Envelope *e)
{
    const char *node = tc_node_name (entry->node);
    tc_node_event (entry->node, TC_NODE_HEARD, self->now_ms);
    switch (e->body_case) {
    case TUTTI__ENVELOPE__BODY_HEARTBEAT:
        for (size_t i = 0; i < e->heartbeat->n_progress; i++)
            s_progress (self, node, e->heartbeat->progress[i]);
        break;
    case TUTTI__ENVELOPE__BODY_GOODBYE:
        tc_node_event (entry->node, TC_NODE_GOODBYE, self->now_ms);
        tc_coord_lose (self, entry, "its agent was stopped");
        tc_coord_forget (self, entry);
        break;
    case TUTTI__ENVELOPE__BODY_JOIN:
        s_join (self, node, e);
        break;
    default:
        s_job_message (self, node, e);
        break;
    }
}

static void
s_receive (tc_coord_t *self, const tc_peer_t *peer, const Tutti__Envelope *e)
{
    self->messages[(unsigned) e->body_case % TC_BODIES]++;
    self->dirty = true;
    if (e->body_case == TUTTI__ENVELOPE__BODY_HELLO) {
        tc_coord_hello (self, peer, e);
        return;
    }
    tc_entry_t *entry = tc_coord_peer (self, peer);
    if (entry)
        s_known_message (self, entry, e);
    else
        tc_coord_refuse (
            self, peer, TUTTI_ESTATE,
            "say HELLO first: this coordinator does not know you");
}

//  Counted always; logged, and a foreign version answered, once a peer.
static void
s_garbage (tc_coord_t *self, const tc_peer_t *peer, tutti_err_t err,
           const char *text)
{
    char key[KEY_MAX];
    self->garbage++;
    self->dirty = true;
    tc_peer_key (peer, key);
    if (zhashx_lookup (self->garbled, key) ||
        zhashx_size (self->garbled) >= GARBLED_MAX)
        return;
    zhashx_insert (self->garbled, key, self);
    tc_log (TC_LOG_WARN, "garbage", "peer=%s text=\"%s\"", key, text);
    if (err == TUTTI_EVERSION)
        tc_coord_refuse (self, peer, err, text);
}

//  ------------------------------------------------------------------- timers

static void
s_publish (tc_coord_t *self)
{
    int64_t start_ms = s_clock_ms ();
    tc_pages_t pages = tc_status_pages (self);
    tc_http_publish (self->http, &pages);
    int64_t end_ms = s_clock_ms ();
    int64_t pause = (end_ms - start_ms) * PUBLISH_SHARE;
    self->publish_ms = end_ms + (pause > PUBLISH_MS ? pause : PUBLISH_MS);
    self->dirty = false;
}

//  By the clock of the turn: were it read again, a sleep since then would
//  look like the silence of others.
static void
s_timers (tc_coord_t *self)
{
    for (size_t i = 0; i < self->n_nodes; i++)
        if (self->now_ms >= tc_node_deadline (self->nodes[i]->node))
            tc_coord_expire (self, self->nodes[i]);
    tc_coord_rivals (self);
    for (size_t i = 0; i < self->n_jobs; i++)
        tc_job_tick (self->jobs[i], self->now_ms);
    if (self->dirty && self->now_ms >= self->publish_ms)
        s_publish (self);
}

//  What the loop itself slept too long proves nothing about others.
static void
s_late (tc_coord_t *self, int64_t late_ms)
{
    if (late_ms <= ROUND_MS)
        return;
    self->late_ms += (uint64_t) late_ms;
    for (size_t i = 0; i < self->n_nodes; i++)
        tc_node_late (self->nodes[i]->node, late_ms);
    if (late_ms > self->options.patience.suspect)
        tc_log (TC_LOG_WARN, "late", "ms=%lld", (long long) late_ms);
}

//  Runs of our forerunners that ended.
static void
s_restore (tc_coord_t *self)
{
    size_t n;
    const tc_store_job_t *past = tc_store_history (self->store, &n);
    self->jobs = n > 0 ? calloc (n, sizeof (self->jobs[0])) : NULL;
    for (size_t i = 0; self->jobs && i < n; i++)
        if (!tc_job_restore (&self->jobs[self->n_jobs], &past[i],
                             &self->context))
            self->n_jobs++;
}

tutti_err_t
tc_coord_new (tc_coord_t **self_p, const tc_coord_options_t *options,
              tc_wire_t *wire, tc_http_t *http, tc_store_t *store)
{
    tc_coord_t *self = calloc (1, sizeof *self);
    if (!self)
        return TUTTI_ENOMEM;
    self->options = *options;
    self->wire = wire;
    self->http = http;
    self->store = store;
    self->epoch = options->epoch;
    self->reserved = options->epoch + TC_STORE_EPOCHS;
    self->context =
        (tc_job_context_t){ self, s_job_send, s_new_epoch, s_plan, s_record };
    self->by_name = zhashx_new ();
    self->by_peer = zhashx_new ();
    self->garbled = zhashx_new ();
    self->now_ms = s_clock_ms ();
    self->started_s = (int64_t) time (NULL);
    if (tc_tally_new (&self->tally) || tc_plans_new (&self->plans, store)) {
        tc_coord_destroy (&self);
        return TUTTI_ENOMEM;
    }
    s_restore (self);
    s_publish (self);
    *self_p = self;
    return TUTTI_OK;
}

void
tc_coord_destroy (tc_coord_t **self_p)
{
    tc_coord_t *self = *self_p;
    if (!self)
        return;
    while (self->n_nodes > 0)
        tc_coord_forget (self, self->nodes[0]);
    for (size_t i = 0; i < TC_RIVALS; i++)
        tp_msg_free (&self->rivals[i].hello);
    for (size_t i = 0; i < self->n_jobs; i++)
        tc_job_destroy (&self->jobs[i]);
    zhashx_destroy ((zhashx_t **) &self->by_name);
    zhashx_destroy ((zhashx_t **) &self->by_peer);
    zhashx_destroy ((zhashx_t **) &self->garbled);
    tc_tally_destroy (&self->tally);
    tc_plans_destroy (&self->plans);
    free (self->nodes);
    free (self->jobs);
    free (self);
    *self_p = NULL;
}

void
tc_coord_run (tc_coord_t *self, volatile sig_atomic_t *stop)
{
    char text[TP_TEXT_MAX];
    tc_peer_t peer;
    Tutti__Envelope *e;
    int64_t turn_ms = s_clock_ms ();
    while (!*stop) {
        tutti_err_t err =
            tc_wire_receive (self->wire, ROUND_MS, &peer, &e, text);
        self->now_ms = s_clock_ms ();
        s_late (self, self->now_ms - turn_ms - ROUND_MS);
        turn_ms = self->now_ms;
        for (int i = 0; err != TUTTI_EAGAIN && i < BATCH; i++) {
            if (err == TUTTI_OK) {
                s_receive (self, &peer, e);
                tp_msg_free (&e);
            }
            else
                s_garbage (self, &peer, err, text);
            err = i + 1 < BATCH
                      ? tc_wire_receive (self->wire, 0, &peer, &e, text)
                      : TUTTI_EAGAIN;
        }
        s_timers (self);
    }
}
