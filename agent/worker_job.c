//  agent/worker_job.c - the job as the coordinator tells it

#include "agent/worker_impl.h"

#include "agent/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

//  ------------------------------------------------------------------ sending

static Tutti__Envelope
s_envelope (const ta_worker_t *self)
{
    Tutti__Envelope e = TUTTI__ENVELOPE__INIT;
    e.protocol = TP_PROTOCOL;
    e.job = (char *) self->setup.job;
    e.attempt = self->setup.attempt;
    e.incarnation = self->incarnation;
    e.epoch = self->roster.epoch;
    return e;
}

void
ta_job_join (ta_worker_t *self, const ta_session_t *session)
{
    const tp_local_hello_t *h = &session->hello;
    Tutti__Envelope e = s_envelope (self);
    Tutti__Join join = TUTTI__JOIN__INIT;
    Tutti__Config config = TUTTI__CONFIG__INIT;
    char *data[1] = { (char *) ta_channel_address (self->channel) };
    config.reproducible = (h->flags & TP_LOCAL_REPRODUCIBLE) != 0;
    config.wide = (h->flags & TP_LOCAL_WIDE) != 0;
    config.elastic_min = h->elastic_min;
    config.elastic_max = h->elastic_max;
    config.algorithm = (char *) h->algorithm;
    config.transport = self->setup.transport;
    config.library = (char *) h->library;
    config.agent = TA_VERSION_TEXT;
    join.rank = h->rank;
    join.size = h->size;
    join.local_rank = h->local_rank;
    join.pid = h->pid;
    join.host = (char *) h->host;
    join.n_data = 1;
    join.data = data;
    join.config = &config;
    join.build = (char *) h->build;
    e.body_case = TUTTI__ENVELOPE__BODY_JOIN;
    e.join = &join;
    ta_relay_envelope (&self->relay, &e);
}

void
ta_job_leave (ta_worker_t *self, const ta_session_t *session)
{
    Tutti__Envelope e = s_envelope (self);
    Tutti__Leave leave = TUTTI__LEAVE__INIT;
    leave.rank = session->hello.rank;
    e.body_case = TUTTI__ENVELOPE__BODY_LEAVE;
    e.leave = &leave;
    ta_job_progress (self);
    ta_relay_envelope (&self->relay, &e);
}

void
ta_job_abort (ta_worker_t *self, uint64_t comm, int code, const char *text,
              uint32_t rank)
{
    Tutti__Envelope e = s_envelope (self);
    Tutti__Abort abort = TUTTI__ABORT__INIT;
    abort.comm = comm;
    abort.code = code;
    abort.text = (char *) text;
    abort.rank = rank;
    e.body_case = TUTTI__ENVELOPE__BODY_ABORT;
    e.abort = &abort;
    ta_relay_envelope (&self->relay, &e);
}

//  ------------------------------------------------------------------ members

ta_member_t *
ta_job_member (ta_worker_t *self, uint64_t id)
{
    for (uint32_t i = 0; i < self->n_members; i++)
        if (self->members[i]->id == id)
            return self->members[i];
    return NULL;
}

static bool
s_command (ta_worker_t *self, ta_command_type_t type, ta_member_t *member)
{
    ta_command_t *command = calloc (1, sizeof *command);
    if (!command)
        return false;
    command->type = type;
    command->member = member;
    ta_channel_send (self->channel, command);
    return true;
}

tutti_err_t
ta_job_new_member (ta_worker_t *self, uint64_t id, const uint32_t *ranks,
                   uint32_t n, ta_member_t **member_p)
{
    ta_member_t **more =
        realloc (self->members, (self->n_members + 1) * sizeof *self->members);
    if (!more)
        return TUTTI_ENOMEM;
    self->members = more;
    ta_member_t *member;
    tutti_err_t err = ta_member_new (&member, &self->roster, id, ranks, n,
                                     self->plan.segment_bytes);
    if (err)
        return err;
    self->members[self->n_members++] = member;
    s_command (self, TA_CMD_ADD, member);
    *member_p = member;
    return TUTTI_OK;
}

void
ta_job_fail_member (ta_worker_t *self, ta_member_t *member, tutti_err_t err,
                    const char *text)
{
    tp_board_fail (member->board, err, text);
    s_command (self, TA_CMD_FAIL, member);
}

//  The channel has let go of MEMBER.
static void
s_free_member (ta_worker_t *self, ta_member_t *member)
{
    ta_member_t **p = &self->leaving;
    while (*p && *p != member)
        p = &(*p)->leaving;
    if (*p)
        *p = member->leaving;
    ta_member_destroy (&member);
}

//  Off the list now; freed when the channel gives it back.
void
ta_job_drop_member (ta_worker_t *self, ta_member_t *member)
{
    for (uint32_t k = 0; k < TP_KINDS; k++) {
        tp_tally_t *from = &tp_board_rank (member->board, 0)->tally[k];
        self->closed[k].ops += from->ops;
        self->closed[k].bytes += from->bytes;
        self->closed[k].us += from->us;
        for (int b = 0; b < TP_BUCKETS; b++)
            self->closed[k].bucket[b] += from->bucket[b];
    }
    for (uint32_t i = 0; i < self->n_members; i++)
        if (self->members[i] == member)
            self->members[i] = self->members[--self->n_members];
    member->leaving = self->leaving;
    self->leaving = member;
    s_command (self, TA_CMD_REMOVE, member);
}

//  A world rank is gone: every comm that it is in ends.
static void
s_lose_rank (ta_worker_t *self, uint32_t rank, const char *text)
{
    for (uint32_t i = 0; i < self->n_members; i++) {
        ta_member_t *m = self->members[i];
        for (uint32_t r = 0; r < m->size; r++)
            if (m->world[r] == rank) {
                ta_job_fail_member (self, m, TUTTI_EPEERLOST, text);
                break;
            }
    }
}

void
ta_job_lost (ta_worker_t *self, const ta_session_t *session, const char *cause)
{
    char text[TP_TEXT_MAX];
    snprintf (text, sizeof text, "rank %u (node %s, pid %u) was lost: %s",
              session->hello.rank, self->setup.node, session->hello.pid,
              cause);
    ta_worker_log (self, "lost", "rank=%u pid=%u cause=\"%s\"",
                   session->hello.rank, session->hello.pid, cause);
    s_lose_rank (self, session->hello.rank, text);
    Tutti__Envelope e = s_envelope (self);
    Tutti__Lost lost = TUTTI__LOST__INIT;
    lost.rank = session->hello.rank;
    lost.node = self->setup.node;
    lost.pid = session->hello.pid;
    lost.cause = (char *) cause;
    e.body_case = TUTTI__ENVELOPE__BODY_LOST;
    e.lost = &lost;
    ta_relay_envelope (&self->relay, &e);
}

//  -------------------------------------------------------------------- START

//  The session of every rank, -1 where it lives on another node.
static void
s_find_sessions (ta_worker_t *self, uint32_t size)
{
    for (uint32_t r = 0; r < size; r++)
        self->session_of[r] = -1;
    for (uint32_t i = 0; i < TP_LOCAL_MAX; i++) {
        const ta_session_t *s = &self->session[i];
        if (!s->used || s->hello.rank >= size)
            continue;
        self->session_of[s->hello.rank] = (int32_t) i;
        self->pid_of[s->hello.rank] = s->hello.pid;
    }
}

//  Fill the roster; TUTTI_EPROTO if START does not fit the clients here.
static tutti_err_t
s_take_roster (ta_worker_t *self, const Tutti__Start *start, int64_t epoch)
{
    uint32_t size = start->size, nodes = (uint32_t) start->n_members;
    self->node_of = calloc (size, sizeof *self->node_of);
    self->pid_of = calloc (size, sizeof *self->pid_of);
    self->session_of = calloc (size, sizeof *self->session_of);
    self->node_name = calloc (nodes, sizeof *self->node_name);
    if (!self->node_of || !self->pid_of || !self->session_of ||
        !self->node_name)
        return TUTTI_ENOMEM;
    s_find_sessions (self, size);
    uint32_t me = UINT32_MAX, seen = 0;
    for (uint32_t i = 0; i < nodes; i++) {
        const Tutti__Member *m = start->members[i];
        snprintf (self->node_name[i], TP_NAME_MAX, "%s", m->node);
        if (strcmp (m->node, self->setup.node) == 0)
            me = i;
        for (size_t k = 0; k < m->n_ranks; k++) {
            if (m->ranks[k] >= size)
                return TUTTI_EPROTO;
            self->node_of[m->ranks[k]] = i;
            seen++;
        }
    }
    self->roster = (ta_roster_t){ size,        nodes,         me,
                                  epoch,       self->node_of, self->session_of,
                                  self->pid_of };
    for (uint32_t r = 0; r < size; r++)
        if ((self->node_of[r] == me) != (self->session_of[r] >= 0))
            return TUTTI_EPROTO;
    return me != UINT32_MAX && seen == size ? TUTTI_OK : TUTTI_EPROTO;
}

static void
s_take_plan (ta_worker_t *self, const Tutti__Plan *plan)
{
    TP_PLAN_DEFAULT (&self->plan);
    if (!plan)
        return;
    self->plan.id = plan->id;
    if (plan->alpha_us > 0)
        self->plan.alpha_us = plan->alpha_us;
    if (plan->beta_us_per_mib > 0)
        self->plan.beta_us_per_mib = plan->beta_us_per_mib;
    if (plan->gamma_us_per_mib > 0)
        self->plan.gamma_us_per_mib = plan->gamma_us_per_mib;
    if (plan->segment_bytes >= TP_EAGER_BYTES &&
        plan->segment_bytes <= TP_PAYLOAD_MAX)
        self->plan.segment_bytes = plan->segment_bytes;
}

static tutti_err_t
s_start_channel (ta_worker_t *self, const Tutti__Start *start)
{
    ta_command_t *c = calloc (1, sizeof *c);
    if (!c)
        return TUTTI_ENOMEM;
    uint32_t nodes = self->roster.nodes;
    c->type = TA_CMD_START;
    c->epoch = self->roster.epoch;
    c->me = self->roster.me;
    c->nodes = nodes;
    c->plan = self->plan;
    if (start->key.len == TP_KEY_BYTES)
        memcpy (c->key, start->key.data, TP_KEY_BYTES);
    c->address = calloc (nodes, sizeof *c->address);
    c->name = calloc (nodes, sizeof *c->name);
    if (!c->address || !c->name) {
        free (c->address);
        free (c->name);
        free (c);
        return TUTTI_ENOMEM;
    }
    for (uint32_t i = 0; i < nodes; i++) {
        memcpy (c->name[i], self->node_name[i], TP_NAME_MAX);
        if (start->members[i]->n_data > 0)
            snprintf (c->address[i], TP_TEXT_MAX, "%s",
                      start->members[i]->data[0]);
    }
    ta_channel_send (self->channel, c);
    return TUTTI_OK;
}

static void
s_refuse_all (ta_worker_t *self, tutti_err_t err, const char *text)
{
    for (uint32_t i = 0; i < TP_LOCAL_MAX; i++)
        if (self->session[i].used)
            ta_client_refuse (self, &self->session[i], err, text);
}

static void
s_enter_connecting (ta_worker_t *self)
{
    char text[TP_TEXT_MAX];
    ta_worker_enter (self, TA_CONNECTING);
    snprintf (text, sizeof text,
              "the %u nodes of job %s connect to each other",
              self->roster.nodes, self->setup.job);
    ta_client_waiting (self, TP_STAGE_NODES, text);
}

static void
s_start (ta_worker_t *self, const Tutti__Envelope *e)
{
    if (self->state != TA_JOINING)
        return;
    self->incarnation = e->incarnation;
    tutti_err_t err = s_take_roster (self, e->start, e->epoch);
    s_take_plan (self, e->start->plan);
    uint32_t *all = err ? NULL : calloc (e->start->size, sizeof *all);
    for (uint32_t r = 0; all && r < e->start->size; r++)
        all[r] = r;
    ta_member_t *world;
    if (!err)
        err = all ? ta_job_new_member (self, TA_WORLD, all, e->start->size,
                                       &world)
                  : TUTTI_ENOMEM;
    free (all);
    if (!err)
        err = s_start_channel (self, e->start);
    if (err)
        s_refuse_all (self, TUTTI_EJOIN,
                      "the agent could not set up the job that the "
                      "coordinator started; see the agent's log");
    else
        s_enter_connecting (self);
}

static void
s_go (ta_worker_t *self)
{
    if (self->state != TA_CONNECTING)
        return;
    ta_worker_enter (self, TA_RUNNING);
    for (uint32_t i = 0; i < TP_LOCAL_MAX; i++)
        if (self->session[i].used)
            ta_client_welcome (self, &self->session[i]);
}

//  ------------------------------------------------------------------ messages

static void
s_forming (ta_worker_t *self, const Tutti__Forming *f)
{
    char text[TP_TEXT_MAX];
    snprintf (text, sizeof text,
              "job %s waits for its ranks: %u of %u are here, missing: %.200s",
              self->setup.job, f->present, f->size, f->missing);
    ta_client_waiting (self, TP_STAGE_RANKS, text);
}

//  The coordinator is new or was away: say again who waits.
static void
s_join_again (ta_worker_t *self)
{
    for (uint32_t i = 0; i < TP_LOCAL_MAX && self->state == TA_JOINING; i++)
        if (self->session[i].used)
            ta_job_join (self, &self->session[i]);
}

static void
s_refuse (ta_worker_t *self, const Tutti__Refuse *r)
{
    if (!r->has_rank) {
        s_refuse_all (self, (tutti_err_t) r->code, r->text);
        return;
    }
    for (uint32_t i = 0; i < TP_LOCAL_MAX; i++)
        if (self->session[i].used && self->session[i].hello.rank == r->rank &&
            !self->session[i].welcome) {
            ta_client_refuse (self, &self->session[i], (tutti_err_t) r->code,
                              r->text);
            return;
        }
}

static void
s_lost (ta_worker_t *self, const Tutti__Lost *lost)
{
    char text[TP_TEXT_MAX];
    snprintf (text, sizeof text, "rank %u (node %s, pid %u) was lost: %.300s",
              lost->rank, lost->node, lost->pid, lost->cause);
    s_lose_rank (self, lost->rank, text);
    if (self->state != TA_RUNNING)
        s_refuse_all (self, TUTTI_EJOIN, text);
}

static void
s_abort (ta_worker_t *self, const Tutti__Abort *abort)
{
    if (abort->comm == 0) {  //  the whole job
        for (uint32_t i = 0; i < self->n_members; i++)
            ta_job_fail_member (self, self->members[i],
                                (tutti_err_t) abort->code, abort->text);
        if (self->state != TA_RUNNING)
            s_refuse_all (self, (tutti_err_t) abort->code, abort->text);
        return;
    }
    ta_member_t *member = ta_job_member (self, abort->comm);
    if (member)
        ta_job_fail_member (self, member, (tutti_err_t) abort->code,
                            abort->text);
}

//  A name may be used again at once: what is said of the last run of it is
//  not for this one.
static bool
s_is_ours (const ta_worker_t *self, const Tutti__Envelope *e)
{
    switch (e->body_case) {
    case TUTTI__ENVELOPE__BODY_GO:
    case TUTTI__ENVELOPE__BODY_LOST:
    case TUTTI__ENVELOPE__BODY_ABORT:
    case TUTTI__ENVELOPE__BODY_FINISHED:
        return e->epoch == self->roster.epoch;
    default:
        return true;
    }
}

void
ta_job_message (ta_worker_t *self, const uint8_t *bytes, size_t len)
{
    Tutti__Envelope *e;
    char text[TP_TEXT_MAX];
    if (tp_msg_unpack (bytes, len, &e, text)) {
        ta_worker_log (self, "garbage", "from=coordinator text=\"%s\"", text);
        return;
    }
    if (!s_is_ours (self, e)) {
        tp_msg_free (&e);
        return;
    }
    switch (e->body_case) {
    case TUTTI__ENVELOPE__BODY_WELCOME:
        s_join_again (self);
        break;
    case TUTTI__ENVELOPE__BODY_FORMING:
        s_forming (self, e->forming);
        break;
    case TUTTI__ENVELOPE__BODY_REFUSE:
        s_refuse (self, e->refuse);
        break;
    case TUTTI__ENVELOPE__BODY_START:
        s_start (self, e);
        break;
    case TUTTI__ENVELOPE__BODY_GO:
        s_go (self);
        break;
    case TUTTI__ENVELOPE__BODY_LOST:
        s_lost (self, e->lost);
        break;
    case TUTTI__ENVELOPE__BODY_ABORT:
        s_abort (self, e->abort);
        break;
    case TUTTI__ENVELOPE__BODY_FINISHED:
        self->finished = true;
        break;
    default:
        break;
    }
    tp_msg_free (&e);
}

static void
s_tell_stall (ta_worker_t *self, const ta_event_t *event)
{
    Tutti__Envelope e = s_envelope (self);
    Tutti__Stall stall = TUTTI__STALL__INIT;
    stall.comm = event->id;
    stall.seq = event->seq;
    stall.sig =
        (ProtobufCBinaryData){ sizeof event->sig, (uint8_t *) &event->sig };
    stall.text = (char *) event->text;
    e.body_case = TUTTI__ENVELOPE__BODY_STALL;
    e.stall = &stall;
    ta_worker_log (self, "stall", "seq=%llu text=\"%s\"",
                   (unsigned long long) event->seq, event->text);
    ta_relay_envelope (&self->relay, &e);
}

void
ta_job_event (ta_worker_t *self, const ta_event_t *event)
{
    Tutti__Envelope e = s_envelope (self);
    Tutti__Ready ready = TUTTI__READY__INIT;
    switch (event->type) {
    case TA_EV_READY:
        e.body_case = TUTTI__ENVELOPE__BODY_READY;
        e.ready = &ready;
        ta_relay_envelope (&self->relay, &e);
        break;
    case TA_EV_FAILED:
        if (self->state >= TA_RUNNING)  //  others may still wait for us
            ta_job_abort (self, event->id, event->err, event->text, 0);
        break;
    case TA_EV_EDGE:
        if (self->state == TA_CONNECTING)
            s_refuse_all (self, TUTTI_EJOIN, event->text);
        else if (self->state == TA_RUNNING)
            ta_worker_log (self, "edge-down", "node=%s text=\"%s\"",
                           self->node_name[event->node], event->text);
        break;
    case TA_EV_STALL:
        s_tell_stall (self, event);
        break;
    case TA_EV_REMOVED:
        s_free_member (self, event->member);
        break;
    }
}
