//  agent/worker_client.c - what the ranks of this node ask of their worker

#include "agent/worker_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

//  Epoll data: kind in the upper half, session in the lower (worker.c).
static bool
s_watch (ta_worker_t *self, int fd, uint32_t kind, uint32_t index)
{
    struct epoll_event event = { .events = EPOLLIN,
                                 .data.u64 = (uint64_t) kind << 32 | index };
    return epoll_ctl (self->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

static ta_session_t *
s_free_session (ta_worker_t *self)
{
    for (uint32_t i = 0; i < TP_LOCAL_MAX; i++)
        if (!self->session[i].used)
            return &self->session[i];
    return NULL;
}

void
ta_client_turn_away (const ta_relay_message_t *message, tutti_err_t err,
                     const char *text)
{
    ta_session_t guest = { .sock = message->fds[0] };
    if (guest.sock < 0)
        return;
    ta_session_reply (&guest, TP_LOCAL_REFUSE, 0, err, text);
    close (guest.sock);
    if (message->fds[1] >= 0)
        close (message->fds[1]);
}

//  The coordinator compares the ranks of the whole job; a rank that is twice
//  on this node is seen here first.
static ta_session_t *
s_holder (ta_worker_t *self, uint32_t rank)
{
    for (uint32_t i = 0; i < TP_LOCAL_MAX; i++)
        if (self->session[i].used && self->session[i].hello.rank == rank)
            return &self->session[i];
    return NULL;
}

static tutti_err_t
s_admit (ta_worker_t *self, const tp_local_hello_t *hello, char *text)
{
    ta_session_t *holder = s_holder (self, hello->rank);
    if (holder) {  //  it may just have said goodbye
        ta_client_ready (self, holder, false);
        holder = s_holder (self, hello->rank);
    }
    if (holder) {
        snprintf (text, TP_TEXT_MAX,
                  "job %s: rank %u is taken by pid %u on host %s; give every "
                  "process its own TUTTI_RANK",
                  self->setup.job, hello->rank, holder->hello.pid,
                  holder->hello.host);
        return TUTTI_EJOIN;
    }
    if (self->state == TA_JOINING)
        return TUTTI_OK;
    //  The client asks again until the old run is over.
    snprintf (text, TP_TEXT_MAX,
              "job %s is still running with other ranks; a new run of that "
              "name waits for them to end, or needs another TUTTI_JOB or a "
              "higher TUTTI_ATTEMPT",
              self->setup.job);
    return TUTTI_EAGAIN;
}

void
ta_client_adopt (ta_worker_t *self, const ta_relay_message_t *message)
{
    tp_local_hello_t hello;
    int sock = message->fds[0], pidfd = message->fds[1];
    if (message->len != sizeof hello || sock < 0)
        return;
    memcpy (&hello, message->body, sizeof hello);
    char text[TP_TEXT_MAX];
    tutti_err_t err = s_admit (self, &hello, text);
    if (err) {
        ta_client_turn_away (message, err, text);
        return;
    }
    ta_session_t *session = s_free_session (self);
    if (!session) {
        ta_client_turn_away (message, TUTTI_EJOIN,
                             "too many ranks on this node");
        return;
    }
    uint32_t index = (uint32_t) (session - self->session);
    if (ta_session_open (session, index, &hello, sock, pidfd, self->memory,
                         self->setup.staging_bytes))
        return;
    self->sessions++;
    s_watch (self, sock, 1, index);
    if (pidfd >= 0)
        s_watch (self, pidfd, 2, index);
    ta_channel_session (self->channel, index, session->event);
    ta_job_join (self, session);
}

void
ta_client_welcome (ta_worker_t *self, ta_session_t *session)
{
    ta_member_t *world = ta_job_member (self, TA_WORLD);
    if (!world || session->welcome)
        return;
    tp_local_welcome_t w = {
        .rank = session->hello.rank,
        .size = session->hello.size,
        .epoch = self->roster.epoch,
        .nodes = self->roster.nodes,
        .n_local = world->n_local,
        .session = session->index,
        .staging_segment = session->staging->id,
        .staging_bytes = session->staging->bytes,
        .board_bytes = world->board_bytes,
        .world = world->id,
    };
    snprintf (w.node, sizeof w.node, "%s", self->setup.node);
    int fds[TP_WELCOME_FDS] = {
        [TP_FD_WAKE] = self->wake_fd,
        [TP_FD_BELL] = self->bell,
        [TP_FD_EVENT] = session->event,
        [TP_FD_STAGING] = session->staging->fd,
        [TP_FD_BOARD] = world->board_fd,
    };
    session->welcome = true;
    ta_session_send (session, TP_LOCAL_WELCOME, 0, &w, sizeof w, fds,
                     TP_WELCOME_FDS);
}

void
ta_client_refuse (ta_worker_t *self, ta_session_t *session, tutti_err_t err,
                  const char *text)
{
    ta_session_reply (session, TP_LOCAL_REFUSE, 0, err, text);
    session->goodbye = true;
    ta_client_end (self, session, text);
}

void
ta_client_waiting (ta_worker_t *self, tp_stage_t stage, const char *text)
{
    tp_local_waiting_t waiting = { .stage = stage };
    snprintf (waiting.text, sizeof waiting.text, "%s", text);
    for (uint32_t i = 0; i < TP_LOCAL_MAX; i++)
        if (self->session[i].used && !self->session[i].welcome)
            ta_session_send (&self->session[i], TP_LOCAL_WAITING, 0, &waiting,
                             sizeof waiting, NULL, 0);
}

//  Its comms go on without it (goodbye) or end (lost).
void
ta_client_end (ta_worker_t *self, ta_session_t *session, const char *cause)
{
    if (session->goodbye)
        ta_job_leave (self, session);
    else
        ta_job_lost (self, session, cause);
    epoll_ctl (self->epoll, EPOLL_CTL_DEL, session->sock, NULL);
    if (session->pidfd >= 0)
        epoll_ctl (self->epoll, EPOLL_CTL_DEL, session->pidfd, NULL);
    ta_channel_session (self->channel, session->index, -1);
    for (uint32_t i = 0; i < self->n_members; i++) {
        ta_member_t *m = self->members[i];
        for (uint32_t k = 0; k < m->n_local; k++)
            if (m->session[k] == session->index)
                m->closed++;
    }
    ta_session_close (session, self->memory);
    self->sessions--;
    if (self->sessions == 0)
        ta_worker_enter (self, TA_ENDING);
}

//  ---------------------------------------------------------------- requests

static void
s_alloc (ta_worker_t *self, ta_session_t *session, uint64_t tag,
         const tp_local_segment_t *want)
{
    ta_segment_t *segment;
    if (ta_memory_make (self->memory, session->index, want->bytes, &segment)) {
        ta_session_reply (session, TP_LOCAL_REPLY, tag, TUTTI_ENOMEM,
                          "the agent cannot make a segment of that size");
        return;
    }
    tp_local_segment_t got = { segment->id, 0, segment->bytes };
    ta_session_send (session, TP_LOCAL_SEGMENT, tag, &got, sizeof got,
                     &segment->fd, 1);
}

static void
s_free (ta_worker_t *self, ta_session_t *session, uint64_t tag,
        const tp_local_segment_t *which)
{
    ta_segment_t *segment = ta_memory_find (self->memory, which->id);
    if (!segment || segment->session != session->index ||
        segment == session->staging) {
        ta_session_reply (session, TP_LOCAL_REPLY, tag, TUTTI_EINVAL,
                          "that memory is not yours");
        return;
    }
    ta_memory_drop (self->memory, which->id);
    ta_session_reply (session, TP_LOCAL_REPLY, tag, TUTTI_OK, "");
}

//  A peer's segment, for reading only.
static void
s_map (ta_worker_t *self, ta_session_t *session, uint64_t tag,
       const tp_local_segment_t *which)
{
    ta_segment_t *segment = ta_memory_find (self->memory, which->id);
    int fd = segment ? ta_memfd_read_only (segment->fd) : -1;
    if (fd < 0) {
        ta_session_reply (session, TP_LOCAL_REPLY, tag, TUTTI_EINVAL,
                          "there is no such segment");
        return;
    }
    tp_local_segment_t got = { segment->id, 0, segment->bytes };
    ta_session_send (session, TP_LOCAL_SEGMENT, tag, &got, sizeof got, &fd, 1);
    close (fd);
}

static bool
s_is_in (const ta_member_t *member, const ta_session_t *session)
{
    for (uint32_t i = 0; i < member->n_local; i++)
        if (member->session[i] == session->index)
            return true;
    return false;
}

//  Everyone here has asked: all get the board.
static void
s_answer_group (ta_worker_t *self, ta_member_t *member)
{
    tp_local_comm_t body = { member->id, member->board_bytes };
    for (uint32_t i = 0; i < TP_LOCAL_MAX; i++) {
        ta_session_t *session = &self->session[i];
        if (!session->used || session->asked != member->id)
            continue;
        ta_session_send (session, TP_LOCAL_COMM, session->asked_tag, &body,
                         sizeof body, &member->board_fd, 1);
        session->asked = 0;
    }
}

static void
s_group (ta_worker_t *self, ta_session_t *session, uint64_t tag,
         const tp_local_group_t *group, size_t len)
{
    bool whole = len >= sizeof *group && group->n <= TP_RANKS_MAX &&
                 len == sizeof *group + group->n * sizeof (uint32_t);
    ta_member_t *member = whole ? ta_job_member (self, group->comm) : NULL;
    tutti_err_t err = whole ? TUTTI_OK : TUTTI_EPROTO;
    if (!err && !member)
        err = ta_job_new_member (self, group->comm, group->ranks, group->n,
                                 &member);
    else if (!err && (member->size != group->n ||
                      memcmp (member->world, group->ranks,
                              group->n * sizeof (uint32_t)) != 0))
        err = TUTTI_EMISMATCH;
    if (!err && !s_is_in (member, session))
        err = TUTTI_EINVAL;
    if (err) {
        ta_session_reply (session, TP_LOCAL_REPLY, tag, err,
                          "the ranks of the new communicator do not agree");
        return;
    }
    session->asked = group->comm;
    session->asked_tag = tag;
    if (++member->asked == member->n_local)
        s_answer_group (self, member);
}

static void
s_close_comm (ta_worker_t *self, ta_session_t *session, uint64_t tag,
              const tp_local_comm_t *which)
{
    ta_member_t *member = ta_job_member (self, which->comm);
    bool ok = member && member->id != TA_WORLD && s_is_in (member, session);
    ta_session_reply (session, TP_LOCAL_REPLY, tag,
                      ok ? TUTTI_OK : TUTTI_EHANDLE,
                      ok ? "" : "there is no such communicator");
    if (ok && ++member->closed == member->n_local)
        ta_job_drop_member (self, member);
}

static void
s_stats (ta_worker_t *self, ta_session_t *session, uint64_t tag)
{
    struct rusage usage;
    getrusage (RUSAGE_SELF, &usage);
    tp_local_stats_t stats = {
        .wire_bytes = ta_channel_wire_bytes (self->channel),
        .cpu_us = (uint64_t) (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) *
                      1000000 +
                  (uint64_t) (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec),
        .segment_bytes = ta_memory_total (self->memory),
    };
    snprintf (stats.transport, sizeof stats.transport, "%.15s",
              self->setup.transport);
    ta_session_send (session, TP_LOCAL_STATS, tag, &stats, sizeof stats, NULL,
                     0);
}

static void
s_abort (ta_worker_t *self, ta_session_t *session, uint64_t tag,
         tp_local_abort_t *abort)
{
    abort->text[sizeof abort->text - 1] = 0;
    if (abort->code > -1 || abort->code < -79)
        abort->code = TUTTI_EABORTED;  //  no code of ours
    ta_member_t *member = ta_job_member (self, abort->comm);
    if (member && s_is_in (member, session)) {
        ta_job_fail_member (self, member, (tutti_err_t) abort->code,
                            abort->text);
        ta_job_abort (self, abort->comm, abort->code, abort->text,
                      session->hello.rank);
    }
    ta_session_reply (session, TP_LOCAL_REPLY, tag, TUTTI_OK, "");
}

//  Bodies of fixed size are checked here once.
static size_t
s_body_size (uint32_t type)
{
    switch (type) {
    case TP_LOCAL_ALLOC:
    case TP_LOCAL_FREE:
    case TP_LOCAL_MAP:
        return sizeof (tp_local_segment_t);
    case TP_LOCAL_CLOSE:
        return sizeof (tp_local_comm_t);
    case TP_LOCAL_ABORT:
        return sizeof (tp_local_abort_t);
    default:
        return 0;
    }
}

//  False: the message makes no sense.
static bool
s_request (ta_worker_t *self, ta_session_t *session,
           const tp_local_head_t *head, void *body)
{
    if (head->type != TP_LOCAL_GROUP && head->len != s_body_size (head->type))
        return false;
    switch (head->type) {
    case TP_LOCAL_ALLOC:
        s_alloc (self, session, head->tag, body);
        return true;
    case TP_LOCAL_FREE:
        s_free (self, session, head->tag, body);
        return true;
    case TP_LOCAL_MAP:
        s_map (self, session, head->tag, body);
        return true;
    case TP_LOCAL_GROUP:
        s_group (self, session, head->tag, body, head->len);
        return true;
    case TP_LOCAL_CLOSE:
        s_close_comm (self, session, head->tag, body);
        return true;
    case TP_LOCAL_STATS:
        s_stats (self, session, head->tag);
        return true;
    case TP_LOCAL_ABORT:
        s_abort (self, session, head->tag, body);
        return true;
    case TP_LOCAL_GOODBYE:
        session->goodbye = true;
        return true;
    default:
        return false;
    }
}

void
ta_client_ready (ta_worker_t *self, ta_session_t *session, bool pidfd)
{
    static _Alignas(16) uint8_t body[TP_LOCAL_MSG_MAX];
    tp_local_head_t head;
    ssize_t n = 0;
    //  What a process said before it died still counts.
    for (int i = 0; i < 16 && session->used; i++) {
        n = ta_session_receive (session, &head, body, sizeof body);
        if (n < 0)
            break;
        if (!s_request (self, session, &head, body)) {
            ta_worker_log (self, "garbage", "rank=%u pid=%u type=%u",
                           session->hello.rank, session->hello.pid, head.type);
            n = -2;
            break;
        }
    }
    if (session->used && (n == -2 || (pidfd && n == -1)))
        ta_client_end (self, session,
                       pidfd ? "its process ended without tutti_finalize"
                             : "its connection to the agent closed without "
                               "tutti_finalize");
}
