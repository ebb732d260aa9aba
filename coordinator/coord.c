//  coordinator/coord.c - the control loop: nodes, jobs, and what they say

#include "coordinator/coord.h"

#include "coordinator/log.h"
#include "coordinator/status.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUND_MS 50      //  longest sleep of the loop
#define PUBLISH_MS 100
#define TICK_MS 500

static int64_t
s_clock_ms (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

//  ------------------------------------------------------------------ sending

static void
s_send (tc_coord_t *self, const tc_peer_t *peer, Tutti__Envelope *e)
{
    e->protocol = TP_PROTOCOL;
    e->incarnation = self->incarnation;
    if (!tc_wire_send (self->wire, peer, e))
        tc_log ("unsent", "message=%s job=%s", tp_msg_name (e), e->job);
}

static tc_entry_t *
s_by_node (tc_coord_t *self, const char *name)
{
    for (size_t i = 0; i < self->n_nodes; i++)
        if (strcmp (tc_node_name (self->nodes[i].node), name) == 0)
            return &self->nodes[i];
    return NULL;
}

static tc_entry_t *
s_by_peer (tc_coord_t *self, const tc_peer_t *peer)
{
    for (size_t i = 0; i < self->n_nodes; i++)
        if (self->nodes[i].peer.len == peer->len
            && memcmp (self->nodes[i].peer.id, peer->id, peer->len) == 0)
            return &self->nodes[i];
    return NULL;
}

//  For jobs: to the agent of a node, if it is known.
static void
s_job_send (void *arg, const char *node, Tutti__Envelope *e)
{
    tc_coord_t *self = arg;
    tc_entry_t *entry = s_by_node (self, node);
    if (entry)
        s_send (self, &entry->peer, e);
}

static int64_t
s_new_epoch (void *arg)
{
    tc_coord_t *self = arg;
    return ++self->epoch;
}

static void
s_refuse (tc_coord_t *self, const tc_peer_t *peer, tutti_err_t err,
          const char *text)
{
    Tutti__Envelope e = TUTTI__ENVELOPE__INIT;
    Tutti__Refuse refuse = TUTTI__REFUSE__INIT;
    refuse.code = err;
    refuse.text = (char *) text;
    e.body_case = TUTTI__ENVELOPE__BODY_REFUSE;
    e.refuse = &refuse;
    s_send (self, peer, &e);
}

static void
s_welcome (tc_coord_t *self, const tc_peer_t *peer)
{
    Tutti__Envelope e = TUTTI__ENVELOPE__INIT;
    Tutti__Welcome welcome = TUTTI__WELCOME__INIT;
    char version[32];
    snprintf (version, sizeof version, "%d.%d.%d", TUTTI_VERSION_MAJOR,
              TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH);
    welcome.heartbeat_ms = self->options.heartbeat_ms;
    welcome.version = version;
    e.body_case = TUTTI__ENVELOPE__BODY_WELCOME;
    e.welcome = &welcome;
    s_send (self, peer, &e);
}

//  --------------------------------------------------------------------- jobs

static bool
s_ended (const tc_job_t *job)
{
    return tc_job_state (job) == TC_JOB_FINISHED
           || tc_job_state (job) == TC_JOB_FAILED;
}

//  The latest job of that name that has not ended; ATTEMPT < 0: any.
static tc_job_t *
s_job (tc_coord_t *self, const char *name, int64_t attempt)
{
    for (size_t i = self->n_jobs; i > 0; i--) {
        tc_job_t *job = self->jobs[i - 1];
        if (strcmp (tc_job_name (job), name) == 0
            && (attempt < 0 || tc_job_attempt (job) == attempt))
            return job;
    }
    return NULL;
}

static void
s_record (tc_coord_t *self, const tc_job_t *job)
{
    tc_store_job_t record = { .attempt = tc_job_attempt (job),
                              .size = tc_job_size (job),
                              .epoch = tc_job_epoch (job) };
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
    tc_job_t **more
        = realloc (self->jobs, (self->n_jobs + 1) * sizeof *more);
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
s_refuse_attempt (tc_coord_t *self, const char *node,
                  const Tutti__Envelope *e, uint32_t running)
{
    char text[TP_TEXT_MAX];
    Tutti__Envelope answer = TUTTI__ENVELOPE__INIT;
    Tutti__Refuse refuse = TUTTI__REFUSE__INIT;
    snprintf (text, sizeof text,
              "job %s: rank %u (host %s, pid %u) belongs to attempt %u, but "
              "attempt %u is running",
              e->job, e->join->rank, e->join->host, e->join->pid, e->attempt,
              running);
    refuse.code = TUTTI_EJOIN;
    refuse.text = text;
    refuse.has_rank = true;
    refuse.rank = e->join->rank;
    answer.job = e->job;
    answer.attempt = e->attempt;
    answer.body_case = TUTTI__ENVELOPE__BODY_REFUSE;
    answer.refuse = &refuse;
    s_job_send (self, node, &answer);
}

static void
s_join (tc_coord_t *self, const char *node, const Tutti__Envelope *e)
{
    tc_job_t *job = s_job (self, e->job, -1);
    if (job && s_ended (job))
        job = NULL;  //  a name may be used again
    if (job && e->attempt < tc_job_attempt (job)) {
        s_refuse_attempt (self, node, e, tc_job_attempt (job));
        return;
    }
    if (job && e->attempt > tc_job_attempt (job)) {
        tc_job_supersede (job, e->attempt, self->now_ms);
        s_record (self, job);
        job = NULL;
    }
    if (!job)
        job = s_new_job (self, e);
    if (!job)
        return;
    tc_job_join (job, node, e->join, self->now_ms);
    s_record (self, job);
}

//  ----------------------------------------------------------------- progress

static tc_seen_t *
s_seen (tc_coord_t *self, const char *node, const char *job)
{
    for (size_t i = 0; i < self->n_seen; i++)
        if (strcmp (self->seen[i].node, node) == 0
            && strcmp (self->seen[i].job, job) == 0)
            return &self->seen[i];
    if (self->n_seen > 16384)
        self->n_seen = 0;  //  bounded; sums stay as they are
    tc_seen_t *more
        = realloc (self->seen, (self->n_seen + 1) * sizeof *more);
    if (!more)
        return NULL;
    self->seen = more;
    tc_seen_t *seen = &more[self->n_seen++];
    *seen = (tc_seen_t){ .last = { .wire_bytes = 0 } };
    snprintf (seen->node, sizeof seen->node, "%s", node);
    snprintf (seen->job, sizeof seen->job, "%s", job);
    return seen;
}

//  A counter that fell belongs to a new worker: all of it is new.
static void
s_grow (uint64_t *total, uint64_t *last, uint64_t now)
{
    *total += now >= *last ? now - *last : now;
    *last = now;
}

static void
s_progress (tc_coord_t *self, const char *node, const Tutti__Progress *p)
{
    tc_job_t *job = s_job (self, p->job, -1);
    tc_seen_t *seen = s_seen (self, node, p->job);
    if (job)
        tc_job_progress (job, node, p);
    if (!seen)
        return;
    tc_totals_t *t = &self->totals, *l = &seen->last;
    s_grow (&t->wire_bytes, &l->wire_bytes, p->wire_bytes);
    for (size_t i = 0; i < p->n_kinds; i++) {
        const Tutti__KindCount *c = p->kinds[i];
        uint32_t k = c->kind;
        if (k >= TP_KINDS)
            continue;
        s_grow (&t->ops[k], &l->ops[k], c->ops);
        s_grow (&t->bytes[k], &l->bytes[k], c->bytes);
        s_grow (&t->us[k], &l->us[k], c->total_us);
        for (size_t b = 0; b < c->n_buckets && b < 8; b++)
            s_grow (&t->bucket[k][b], &l->bucket[k][b], c->buckets[b]);
    }
}

//  -------------------------------------------------------------------- nodes

static void
s_drop_node (tc_coord_t *self, tc_entry_t *entry, const char *cause)
{
    const char *name = tc_node_name (entry->node);
    for (size_t i = 0; i < self->n_jobs; i++)
        if (!s_ended (self->jobs[i])) {
            tc_job_node_lost (self->jobs[i], name, cause, self->now_ms);
            s_record (self, self->jobs[i]);
        }
    tc_store_node (self->store, name, tc_node_host (entry->node), "lost");
    tc_node_destroy (&entry->node);
    *entry = self->nodes[--self->n_nodes];
}

static void
s_add_node (tc_coord_t *self, const tc_peer_t *peer, const Tutti__Hello *hello)
{
    tc_entry_t *more
        = realloc (self->nodes, (self->n_nodes + 1) * sizeof *more);
    if (!more)
        return;
    self->nodes = more;
    tc_entry_t *entry = &more[self->n_nodes];
    if (tc_node_new (&entry->node, hello, self->options.patience,
                     self->now_ms))
        return;
    entry->peer = *peer;
    self->n_nodes++;
    tc_store_node (self->store, hello->node, hello->host, "ready");
    tc_log ("hello", "node=%s host=%s data=%s version=%s", hello->node,
            hello->host, hello->data_host, hello->version);
    s_welcome (self, peer);
}

static void
s_hello (tc_coord_t *self, const tc_peer_t *peer, const Tutti__Hello *hello)
{
    tc_entry_t *entry = s_by_node (self, hello->node);
    bool same = entry && entry == s_by_peer (self, peer);
    if (same) {
        tc_node_event (entry->node, TC_NODE_HEARD, self->now_ms);
        s_welcome (self, peer);
        return;
    }
    if (entry && tc_node_state (entry->node) == TC_NODE_READY) {
        char text[TP_TEXT_MAX];
        snprintf (text, sizeof text,
                  "node %s (host %s) is connected already and alive; give "
                  "this agent on host %s another --node",
                  hello->node, tc_node_host (entry->node), hello->host);
        //  It may be the same agent over a new connection: it tries again,
        //  and by then the old one has fallen silent.
        s_refuse (self, peer, TUTTI_EAGAIN, text);
        return;
    }
    if (entry) {  //  back after a silence: its jobs go on
        tc_node_event (entry->node, TC_NODE_HEARD, self->now_ms);
        entry->peer = *peer;
        s_welcome (self, peer);
        return;
    }
    s_add_node (self, peer, hello);
}

//  ----------------------------------------------------------------- dispatch

static void
s_job_message (tc_coord_t *self, const char *node, const Tutti__Envelope *e)
{
    tc_job_t *job = s_job (self, e->job, e->attempt);
    if (!job || (e->epoch != 0 && e->epoch != tc_job_epoch (job)))
        return;  //  of an older run of that name
    switch (e->body_case) {
    case TUTTI__ENVELOPE__BODY_READY:
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
    default:
        break;
    }
    s_record (self, job);
}

static void
s_known_message (tc_coord_t *self, tc_entry_t *entry,
                 const Tutti__Envelope *e)
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
        s_drop_node (self, entry, "its agent was stopped");
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
    self->messages[(unsigned) e->body_case % 32]++;
    self->dirty = true;
    if (e->body_case == TUTTI__ENVELOPE__BODY_HELLO) {
        s_hello (self, peer, e->hello);
        return;
    }
    tc_entry_t *entry = s_by_peer (self, peer);
    if (entry)
        s_known_message (self, entry, e);
    else
        s_refuse (self, peer, TUTTI_ESTATE,
                  "say HELLO first: this coordinator does not know you");
}

//  -------------------------------------------------------------------- timers

//  LATE: what the loop itself slept too long proves nothing about others
//  (R22).
static void
s_check_nodes (tc_coord_t *self, int64_t late)
{
    for (size_t i = 0; i < self->n_nodes;) {
        tc_entry_t *entry = &self->nodes[i];
        if (late > 0)
            tc_node_late (entry->node, late);
        if (self->now_ms < tc_node_deadline (entry->node)) {
            i++;
            continue;
        }
        tc_node_event (entry->node, TC_NODE_EXPIRED, self->now_ms);
        self->dirty = true;
        if (tc_node_state (entry->node) != TC_NODE_LOST) {
            i++;
            continue;
        }
        char cause[128];
        snprintf (cause, sizeof cause, "node %s was silent for %.1f s",
                  tc_node_name (entry->node),
                  (double) self->options.patience.lost / 1000.0);
        s_drop_node (self, entry, cause);
    }
}

static void
s_timers (tc_coord_t *self, int64_t late)
{
    s_check_nodes (self, late);
    if (self->now_ms >= self->tick_ms) {
        self->tick_ms = self->now_ms + TICK_MS;
        for (size_t i = 0; i < self->n_jobs; i++)
            tc_job_tick (self->jobs[i], self->now_ms);
    }
    if (self->dirty && self->now_ms >= self->publish_ms) {
        tc_pages_t pages = tc_status_pages (self);
        tc_http_publish (self->http, &pages);
        self->publish_ms = self->now_ms + PUBLISH_MS;
        self->dirty = false;
    }
}

static void
s_loop (tc_coord_t *self, volatile bool *stop)
{
    char text[TP_TEXT_MAX];
    while (!*stop) {
        int64_t before = s_clock_ms ();
        tc_peer_t peer;
        Tutti__Envelope *e;
        bool got = tc_wire_receive (self->wire, ROUND_MS, &peer, &e, text);
        self->now_ms = s_clock_ms ();
        int64_t late = self->now_ms - before - 2 * ROUND_MS;
        for (int i = 0; got && i < 256; i++) {
            if (e) {
                s_receive (self, &peer, e);
                tp_msg_free (&e);
            } else if (self->garbage++ < 100)
                tc_log ("garbage", "text=\"%s\"", text);
            got = tc_wire_receive (self->wire, 0, &peer, &e, text);
        }
        if (got && e)
            s_receive (self, &peer, e);
        if (got)
            tp_msg_free (&e);
        s_timers (self, late);
    }
}

tutti_err_t
tc_coord_run (const tc_coord_options_t *options, tc_wire_t *wire,
              tc_http_t *http, tc_store_t *store, volatile bool *stop)
{
    tc_coord_t *self = calloc (1, sizeof *self);
    if (!self)
        return TUTTI_ENOMEM;
    self->options = *options;
    self->wire = wire;
    self->http = http;
    self->store = store;
    //  A block of epochs is reserved at once, so that a crash before the
    //  store has written cannot give one out twice.
    self->epoch = options->last_epoch;
    tc_store_epoch (store, options->last_epoch + (1 << 20));
    randombytes_buf (&self->incarnation, sizeof self->incarnation);
    self->incarnation |= 1;
    self->context = (tc_job_context_t){ self, s_job_send, s_new_epoch };
    self->dirty = true;
    s_loop (self, stop);
    for (size_t i = 0; i < self->n_nodes; i++)
        tc_node_destroy (&self->nodes[i].node);
    for (size_t i = 0; i < self->n_jobs; i++)
        tc_job_destroy (&self->jobs[i]);
    free (self->nodes);
    free (self->jobs);
    free (self->seen);
    free (self);
    return TUTTI_OK;
}
