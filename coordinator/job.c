//  coordinator/job.c - one run of a program, from its first JOIN to its end
//
//             COMPLETE   READY_ALL  LEFT_ALL   FAIL
//  FORMING    STARTING   -          FINISHED   FAILED
//  STARTING   -          RUNNING    FINISHED   FAILED
//  RUNNING    -          -          FINISHED   FAILED
//  FINISHED   -          -          -          -
//  FAILED     -          -          -          -
//
//  s_rules is this picture; change both or neither.

#include "coordinator/job_impl.h"

#include "coordinator/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ILLEGAL TC_JOB_STATES
#define REMIND_MS 2000
#define HUSH_MS 100  //  between two FORMINGs; a big job forms by thousands

typedef enum { COMPLETE, READY_ALL, LEFT_ALL, FAIL, EVENTS } event_t;

static const struct {
    const char *name;
    tc_job_state_t next[EVENTS];
} s_rules[TC_JOB_STATES] = {
    { "forming",
      { TC_JOB_STARTING, ILLEGAL, TC_JOB_FINISHED, TC_JOB_FAILED } },
    { "forming", { ILLEGAL, TC_JOB_RUNNING, TC_JOB_FINISHED, TC_JOB_FAILED } },
    { "running", { ILLEGAL, ILLEGAL, TC_JOB_FINISHED, TC_JOB_FAILED } },
    { "finished", { ILLEGAL, ILLEGAL, ILLEGAL, ILLEGAL } },
    { "failed", { ILLEGAL, ILLEGAL, ILLEGAL, ILLEGAL } },
};

//  The only writer of state. False, and no change, if there is no such step.
static bool
s_event (tc_job_t *self, event_t event)
{
    tc_job_state_t next = s_rules[self->state].next[event];
    if (next == ILLEGAL)
        return false;
    self->state = next;
    tc_log (next == TC_JOB_FAILED ? TC_LOG_WARN : TC_LOG_INFO, "job",
            "job=%s attempt=%u state=%s epoch=%lld text=\"%s\"", self->name,
            self->attempt, s_rules[next].name, (long long) self->epoch,
            self->text);
    self->context->changed (self->context->arg, self);
    return true;
}

//  ------------------------------------------------------------------ sending

static void
s_send (tc_job_t *self, const char *node, Tutti__Envelope *e)
{
    e->job = self->name;
    e->attempt = self->attempt;
    e->epoch = self->epoch;
    if (!self->muted)
        self->context->send (self->context->arg, node, e);
}

void
tc_job_tell (tc_job_t *self, const char *except, Tutti__Envelope *e)
{
    for (size_t i = 0; i < self->parts; i++)
        if (!except || strcmp (self->part[i].node, except) != 0)
            s_send (self, self->part[i].node, e);
}

static void
s_refuse (tc_job_t *self, const char *node, uint32_t rank, tutti_err_t err,
          const char *text)
{
    Tutti__Envelope e = TUTTI__ENVELOPE__INIT;
    Tutti__Refuse refuse = TUTTI__REFUSE__INIT;
    refuse.code = err;
    refuse.text = (char *) text;
    refuse.has_rank = true;
    refuse.rank = rank;
    e.body_case = TUTTI__ENVELOPE__BODY_REFUSE;
    e.refuse = &refuse;
    tc_log (TC_LOG_WARN, "refuse", "job=%s rank=%u node=%s text=\"%s\"",
            self->name, rank, node, text);
    s_send (self, node, &e);
}

static void
s_tell_forming (tc_job_t *self, int64_t now_ms)
{
    char missing[200];
    Tutti__Envelope e = TUTTI__ENVELOPE__INIT;
    Tutti__Forming forming = TUTTI__FORMING__INIT;
    tc_job_missing (self, missing, sizeof missing);
    forming.present = self->joined;
    forming.size = self->size;
    forming.missing = missing;
    e.body_case = TUTTI__ENVELOPE__BODY_FORMING;
    e.forming = &forming;
    tc_job_tell (self, NULL, &e);
    self->told_ms = now_ms;
    self->remind_ms = now_ms + REMIND_MS;
}

//  The set of ranks has changed: tell now, or soon.
static void
s_changed (tc_job_t *self, int64_t now_ms)
{
    if (now_ms - self->told_ms >= HUSH_MS)
        s_tell_forming (self, now_ms);
    else
        self->remind_ms = self->told_ms + HUSH_MS;
}

static void
s_tell_finished (tc_job_t *self)
{
    Tutti__Envelope e = TUTTI__ENVELOPE__INIT;
    Tutti__Finished finished = TUTTI__FINISHED__INIT;
    finished.reason = "every rank has left";
    e.body_case = TUTTI__ENVELOPE__BODY_FINISHED;
    e.finished = &finished;
    tc_job_tell (self, NULL, &e);
}

//  --------------------------------------------------------------------- life

static void
s_take_config (tc_job_t *self, const Tutti__Config *config)
{
    self->config = *config;
    snprintf (self->algorithm, sizeof self->algorithm, "%s",
              config->algorithm);
    snprintf (self->transport, sizeof self->transport, "%s",
              config->transport);
    snprintf (self->library, sizeof self->library, "%s", config->library);
    snprintf (self->agent, sizeof self->agent, "%s", config->agent);
    self->config.algorithm = self->algorithm;
    self->config.transport = self->transport;
    self->config.library = self->library;
    self->config.agent = self->agent;
}

tutti_err_t
tc_job_new (tc_job_t **self_p, const char *name, uint32_t attempt,
            const Tutti__Join *join, const tc_job_context_t *context,
            int64_t now_ms)
{
    tc_job_t *self = calloc (1, sizeof *self);
    if (self)
        self->rank = calloc (join->size, sizeof *self->rank);
    if (!self || !self->rank) {
        tc_job_destroy (&self);
        return TUTTI_ENOMEM;
    }
    snprintf (self->name, sizeof self->name, "%s", name);
    self->attempt = attempt;
    self->size = join->size;
    self->first = join->rank;
    self->context = context;
    self->told_ms = now_ms - HUSH_MS;
    self->remind_ms = now_ms + REMIND_MS;
    s_take_config (self, join->config);
    *self_p = self;
    return TUTTI_OK;
}

tutti_err_t
tc_job_restore (tc_job_t **self_p, const tc_store_job_t *record,
                const tc_job_context_t *context)
{
    int state = TC_JOB_FINISHED;
    while (state < TC_JOB_STATES &&
           strcmp (s_rules[state].name, record->state) != 0)
        state++;
    if (state == TC_JOB_STATES || record->size == 0 ||
        record->size > TP_RANKS_MAX || !tp_name_ok (record->job))
        return TUTTI_EINVAL;
    tc_job_t *self = calloc (1, sizeof *self);
    if (self)
        self->rank = calloc (record->size, sizeof *self->rank);
    if (!self || !self->rank) {
        tc_job_destroy (&self);
        return TUTTI_ENOMEM;
    }
    snprintf (self->name, sizeof self->name, "%s", record->job);
    snprintf (self->text, sizeof self->text, "%s", record->text);
    self->attempt = record->attempt;
    self->size = record->size;
    self->epoch = record->epoch;
    self->context = context;
    self->state = (tc_job_state_t) state;
    self->muted = true;
    *self_p = self;
    return TUTTI_OK;
}

void
tc_job_destroy (tc_job_t **self_p)
{
    tc_job_t *self = *self_p;
    if (!self)
        return;
    free (self->rank);
    free (self->part);
    free (self);
    *self_p = NULL;
}

tc_part_t *
tc_job_part (const tc_job_t *self, const char *node)
{
    for (size_t i = 0; i < self->parts; i++)
        if (strcmp (self->part[i].node, node) == 0)
            return &self->part[i];
    return NULL;
}

//  ------------------------------------------------------------------- joining

static tc_part_t *
s_add_part (tc_job_t *self, const char *node)
{
    tc_part_t *more =
        realloc (self->part, (self->parts + 1) * sizeof *self->part);
    if (!more)
        return NULL;
    self->part = more;
    tc_part_t *part = &more[self->parts++];
    *part = (tc_part_t){ .ready = false };
    snprintf (part->node, sizeof part->node, "%s", node);
    return part;
}

//  A node whose ranks have all gone again while the job was forming.
static void
s_drop_part (tc_job_t *self, uint32_t part)
{
    uint32_t last = (uint32_t) --self->parts;
    self->part[part] = self->part[last];
    for (uint32_t r = 0; r < self->size; r++)
        if (self->rank[r].joined && self->rank[r].part == last)
            self->rank[r].part = part;
}

static void
s_start (tc_job_t *self)
{
    if (tc_job_order (self)) {
        tc_log (TC_LOG_ERROR, "job", "job=%s error=\"no memory to start\"",
                self->name);
        return;
    }
    self->epoch = self->context->epoch (self->context->arg);
    if (tc_job_tell_start (self)) {
        tc_log (TC_LOG_ERROR, "job", "job=%s error=\"no memory to start\"",
                self->name);
        return;
    }
    s_event (self, COMPLETE);
}

//  The same JOIN again, after a connection was re-made.
static bool
s_known (const tc_job_t *self, const char *node, const Tutti__Join *join)
{
    if (join->rank >= self->size)
        return false;
    const tc_rank_t *r = &self->rank[join->rank];
    return r->joined && !r->left && !r->lost && r->pid == join->pid &&
           strcmp (r->node, node) == 0;
}

//  The same version, yet not the same file: worth a line, no reason to refuse.
static void
s_compare_builds (tc_job_t *self, const Tutti__Join *join)
{
    const char *first = self->rank[self->first].build;
    if (self->builds_differ || strcmp (first, join->build) == 0)
        return;
    self->builds_differ = true;
    tc_log (TC_LOG_WARN, "builds",
            "job=%s text=\"rank %u (host %s) has loaded build %s of libtutti "
            "%s, rank %u (host %s) build %s\"",
            self->name, join->rank, join->host, join->build, self->library,
            self->first, self->rank[self->first].host, first);
}

void
tc_job_join (tc_job_t *self, const char *node, const Tutti__Join *join,
             int64_t now_ms)
{
    char text[TP_TEXT_MAX];
    if (s_known (self, node, join))
        return;
    tc_part_t *part = tc_job_part (self, node);
    if (!tc_job_admits (self, node, join, text)) {
        //  A rank that has left may come again once the others have, too.
        bool again = join->rank < self->size && self->rank[join->rank].left;
        s_refuse (self, node, join->rank, again ? TUTTI_EAGAIN : TUTTI_EJOIN,
                  text);
        return;
    }
    if (!part && self->parts < TP_NODES_MAX)
        part = s_add_part (self, node);
    if (!part) {
        s_refuse (self, node, join->rank, TUTTI_EJOIN,
                  "the job has too many nodes, or the coordinator no memory");
        return;
    }
    snprintf (part->data, sizeof part->data, "%s", join->data[0]);
    tc_rank_t *rank = &self->rank[join->rank];
    *rank = (tc_rank_t){ .joined = true,
                         .pid = join->pid,
                         .part = (uint32_t) (part - self->part) };
    part->ranks++;
    snprintf (rank->node, sizeof rank->node, "%s", node);
    snprintf (rank->host, sizeof rank->host, "%s", join->host);
    snprintf (rank->build, sizeof rank->build, "%s", join->build);
    if (self->joined == 0)
        self->first = join->rank;
    s_compare_builds (self, join);
    if (++self->joined == self->size)
        s_start (self);
    else
        s_changed (self, now_ms);
}

void
tc_job_ready (tc_job_t *self, const char *node)
{
    tc_part_t *part = tc_job_part (self, node);
    if (!part || self->state != TC_JOB_STARTING)
        return;
    part->ready = true;
    for (size_t i = 0; i < self->parts; i++)
        if (!self->part[i].ready)
            return;
    Tutti__Envelope e = TUTTI__ENVELOPE__INIT;
    Tutti__Go go = TUTTI__GO__INIT;
    e.body_case = TUTTI__ENVELOPE__BODY_GO;
    e.go = &go;
    s_event (self, READY_ALL);
    tc_job_tell (self, NULL, &e);
}

//  ------------------------------------------------------------------- ending

//  A rank that goes while the job forms is free again.
static void
s_unjoin (tc_job_t *self, uint32_t rank, int64_t now_ms)
{
    uint32_t part = self->rank[rank].part;
    self->rank[rank] = (tc_rank_t){ .joined = false };
    self->joined--;
    for (uint32_t r = 0; rank == self->first && r < self->size; r++)
        if (self->rank[r].joined)
            self->first = r;  //  someone to name in a refusal
    if (--self->part[part].ranks == 0)
        s_drop_part (self, part);
    if (self->joined == 0)
        s_event (self, LEFT_ALL);
    else
        s_changed (self, now_ms);
}

//  One rank less. When none is left the agents may let their connections go.
static bool
s_gone (tc_job_t *self, uint32_t rank)
{
    if (rank >= self->size || !self->rank[rank].joined ||
        self->rank[rank].left || self->rank[rank].lost)
        return false;
    self->gone++;
    return true;
}

static void
s_check_end (tc_job_t *self)
{
    if (self->gone < self->size)
        return;
    s_event (self, LEFT_ALL);
    s_tell_finished (self);
}

void
tc_job_leave (tc_job_t *self, uint32_t rank, int64_t now_ms)
{
    if (self->state == TC_JOB_FORMING) {
        if (rank < self->size && self->rank[rank].joined)
            s_unjoin (self, rank, now_ms);
        return;
    }
    if (!s_gone (self, rank))
        return;
    self->rank[rank].left = true;
    s_check_end (self);
}

static void
s_lose (tc_job_t *self, uint32_t rank, const char *cause, int64_t now_ms)
{
    if (self->state == TC_JOB_FORMING) {
        if (rank < self->size && self->rank[rank].joined)
            s_unjoin (self, rank, now_ms);
        return;
    }
    if (!s_gone (self, rank))
        return;
    tc_rank_t *r = &self->rank[rank];
    Tutti__Envelope e = TUTTI__ENVELOPE__INIT;
    Tutti__Lost lost = TUTTI__LOST__INIT;
    r->lost = true;
    lost.rank = rank;
    lost.node = r->node;
    lost.pid = r->pid;
    lost.cause = (char *) cause;
    e.body_case = TUTTI__ENVELOPE__BODY_LOST;
    e.lost = &lost;
    if (self->text[0] == 0)
        snprintf (self->text, sizeof self->text,
                  "rank %u (node %s, pid %u) was lost: %.300s", rank, r->node,
                  r->pid, cause);
    tc_job_tell (self, r->node, &e);
    s_event (self, FAIL);
    s_check_end (self);
}

void
tc_job_lost (tc_job_t *self, const char *node, const Tutti__Lost *lost,
             int64_t now_ms)
{
    if (lost->rank < self->size &&
        strcmp (self->rank[lost->rank].node, node) == 0)
        s_lose (self, lost->rank, lost->cause, now_ms);
}

void
tc_job_node_lost (tc_job_t *self, const char *node, const char *cause,
                  int64_t now_ms)
{
    for (uint32_t r = 0; r < self->size; r++)
        if (self->rank[r].joined && strcmp (self->rank[r].node, node) == 0)
            s_lose (self, r, cause, now_ms);
}

void
tc_job_abort (tc_job_t *self, const char *node, const Tutti__Abort *abort)
{
    Tutti__Envelope e = TUTTI__ENVELOPE__INIT;
    Tutti__Abort copy = *abort;
    copy.base.n_unknown_fields = 0;  //  only what we understood goes on
    if (!tc_job_part (self, node))
        return;
    e.body_case = TUTTI__ENVELOPE__BODY_ABORT;
    e.abort = &copy;
    tc_job_tell (self, node, &e);
}

static void
s_tell_mismatch (tc_job_t *self, const tc_part_t *a, const tc_part_t *b)
{
    char text[TP_TEXT_MAX];
    Tutti__Envelope e = TUTTI__ENVELOPE__INIT;
    Tutti__Abort abort = TUTTI__ABORT__INIT;
    snprintf (text, sizeof text,
              "op #%llu: %s; %s; all ranks must make the same calls in the "
              "same order",
              (unsigned long long) a->stall_seq, a->stall_text, b->stall_text);
    abort.comm = a->stall_comm;
    abort.code = TUTTI_EMISMATCH;
    abort.text = text;
    e.body_case = TUTTI__ENVELOPE__BODY_ABORT;
    e.abort = &abort;
    tc_job_tell (self, NULL, &e);
}

void
tc_job_stall (tc_job_t *self, const char *node, const Tutti__Stall *stall)
{
    tc_part_t *part = tc_job_part (self, node);
    if (!part || self->state != TC_JOB_RUNNING)
        return;
    part->stall_comm = stall->comm;
    part->stall_seq = stall->seq;
    memcpy (&part->stall_sig, stall->sig.data, sizeof part->stall_sig);
    snprintf (part->stall_text, sizeof part->stall_text, "%.199s",
              stall->text);
    for (size_t i = 0; i < self->parts; i++) {
        const tc_part_t *other = &self->part[i];
        if (other->stall_comm == part->stall_comm &&
            other->stall_seq == part->stall_seq &&
            memcmp (&other->stall_sig, &part->stall_sig,
                    sizeof part->stall_sig) != 0) {
            s_tell_mismatch (self, other, part);
            return;
        }
    }
}

void
tc_job_supersede (tc_job_t *self, uint32_t attempt)
{
    char text[TP_TEXT_MAX];
    Tutti__Envelope e = TUTTI__ENVELOPE__INIT;
    Tutti__Abort abort = TUTTI__ABORT__INIT;
    snprintf (text, sizeof text,
              "job %s: attempt %u was replaced by attempt %u", self->name,
              self->attempt, attempt);
    abort.code = TUTTI_EABORTED;
    abort.text = text;
    e.body_case = TUTTI__ENVELOPE__BODY_ABORT;
    e.abort = &abort;
    tc_job_tell (self, NULL, &e);
    snprintf (self->text, sizeof self->text, "%s", text);
    s_event (self, FAIL);
}

void
tc_job_mute (tc_job_t *self)
{
    self->muted = true;
}

void
tc_job_tick (tc_job_t *self, int64_t now_ms)
{
    if (self->state != TC_JOB_FORMING || now_ms < self->remind_ms)
        return;
    if (self->joined == self->size)
        s_start (self);  //  there was no memory
    if (self->state == TC_JOB_FORMING)
        s_tell_forming (self, now_ms);
}

const char *
tc_job_state_name (tc_job_state_t state)
{
    return s_rules[state].name;
}
