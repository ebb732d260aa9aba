//  client/waits.c - wait, test, progress, and what a request tells

#include "client/comm.h"

#include "client/error.h"
#include "client/handle.h"
#include "protocol/schedule.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

//  The request behind a handle, its session's lock taken; or NULL.
static tl_request_t *
s_lock (const tutti_request_t *handle, tutti_err_t *err_p)
{
    tl_request_t *self = tl_handle_get (TL_HANDLE_REQUEST, handle);
    if (self) {
        pthread_mutex_lock (&self->comm->session->lock);
        *err_p = TUTTI_OK;
        return self;
    }
    *err_p = tl_forked ()
                 ? tl_error (TUTTI_ESTATE, "this process is a fork child")
                 : tl_error (TUTTI_EHANDLE,
                             "%p is not a request (waited for "
                             "already?)",
                             (const void *) handle);
    return NULL;
}

//  Done: callback first, then the request is gone.
static tutti_err_t
s_conclude (tl_request_t *self, tutti_request_t **request_p)
{
    tl_comm_t *comm = self->comm;
    tl_comm_collect (comm);
    tl_comm_callbacks (comm);
    *request_p = NULL;
    return tl_request_release (self);
}

tutti_err_t
tutti_wait (tutti_request_t **request_p, int timeout_ms)
{
    if (!request_p)
        return tl_error (TUTTI_EINVAL, "tutti_wait: request_p is NULL");
    if (!*request_p)
        return TUTTI_OK;
    tutti_err_t err;
    tl_request_t *self = s_lock (*request_p, &err);
    if (!self)
        return err;
    tl_comm_t *comm = self->comm;
    err = tl_comm_may_wait (comm, "tutti_wait");
    if (!err)
        err = tl_request_wait (self, timeout_ms);
    if (!err)
        err = s_conclude (self, request_p);
    tl_comm_unlock (comm);
    return err;
}

//  Some ranks may have finished the op already, so it cannot be taken back on
//  all: the comm ends.
tutti_err_t
tutti_request_cancel (tutti_request_t **request_p, int timeout_ms)
{
    if (!request_p)
        return tl_error (TUTTI_EINVAL,
                         "tutti_request_cancel: request_p is NULL");
    if (!*request_p)
        return TUTTI_OK;
    tutti_err_t err;
    tl_request_t *self = s_lock (*request_p, &err);
    if (!self)
        return err;
    tl_comm_t *comm = self->comm;
    char what[160], text[TP_TEXT_MAX];
    if (tl_request_wait (self, timeout_ms < 0 ? 0 : timeout_ms)) {
        snprintf (text, sizeof text, "rank %u cancelled %s", comm->rank,
                  tl_request_text (self, what, sizeof what));
        tp_board_fail (comm->board, TUTTI_EABORTED, text);
        tl_comm_tell_abort (comm, TUTTI_EABORTED, text);
        tl_comm_wake (comm);
        tl_comm_progress (comm->session, false);
    }
    if (self->state == TL_DONE)
        err = s_conclude (self, request_p);
    tl_comm_unlock (comm);
    return err;
}

tutti_err_t
tutti_test (tutti_request_t **request_p, int *done_p)
{
    if (!request_p || !done_p)
        return tl_error (TUTTI_EINVAL, "tutti_test: an argument is NULL");
    *done_p = 1;
    if (!*request_p)
        return TUTTI_OK;
    tutti_err_t err;
    tl_request_t *self = s_lock (*request_p, &err);
    if (!self)
        return err;
    tl_comm_t *comm = self->comm;
    tl_session_check (comm->session);
    tl_comm_progress (comm->session, false);
    if (self->state == TL_DONE)
        err = s_conclude (self, request_p);
    else
        *done_p = 0;
    tl_comm_unlock (comm);
    return err;
}

//  Milliseconds that are left of TIMEOUT_MS since START; < 0: no limit.
static int
s_left_ms (int timeout_ms, int64_t start_ns)
{
    if (timeout_ms < 0)
        return -1;
    int64_t left = timeout_ms - (tl_now_ns () - start_ns) / 1000000;
    return left > 0 ? (int) left : 0;
}

tutti_err_t
tutti_wait_all (tutti_request_t **requests, size_t n, int timeout_ms)
{
    if (!requests && n > 0)
        return tl_error (TUTTI_EINVAL, "tutti_wait_all: requests is NULL");
    int64_t start = tl_now_ns ();
    tutti_err_t first = TUTTI_OK;
    char text[1024] = "";
    for (size_t i = 0; i < n; i++) {
        tutti_err_t err =
            tutti_wait (&requests[i], s_left_ms (timeout_ms, start));
        if (err && !first) {
            first = err;
            __builtin_strncpy (text, tl_error_text (), sizeof text - 1);
        }
    }
    return first ? tl_error (first, "%s", text) : TUTTI_OK;
}

//  One look at every request. True: *index_p is finished and released.
static bool
s_any_done (tutti_request_t **requests, size_t n, size_t *index_p,
            size_t *open_p, tutti_err_t *err_p)
{
    *open_p = 0;
    for (size_t i = 0; i < n; i++) {
        if (!requests[i])
            continue;
        ++*open_p;
        int done;
        *err_p = tutti_test (&requests[i], &done);
        if (*err_p || done) {
            *index_p = i;
            return true;
        }
    }
    return false;
}

//  Sleep on the session of the first open request; ops of other sessions are
//  looked at again after a moment.
static void
s_nap (tutti_request_t **requests, size_t n, int left_ms)
{
    for (size_t i = 0; i < n; i++) {
        tutti_err_t err;
        tl_request_t *self = requests[i] ? s_lock (requests[i], &err) : NULL;
        if (!self)
            continue;
        tl_session_t *session = self->comm->session;
        uint32_t seen = tp_wake_seen (session->mine);
        tp_wake_arm (session->mine);
        bool moved = tl_comm_progress (session, true);
        pthread_mutex_unlock (&session->lock);
        int ms = left_ms < 0 || left_ms > 10 ? 10 : left_ms;
        if (!moved)
            tp_wake_sleep (session->mine, seen, ms);
        tp_wake_disarm (session->mine);
        return;
    }
}

tutti_err_t
tutti_wait_any (tutti_request_t **requests, size_t n, int timeout_ms,
                size_t *index_p)
{
    if ((!requests && n > 0) || !index_p)
        return tl_error (TUTTI_EINVAL, "tutti_wait_any: an argument is NULL");
    int64_t start = tl_now_ns ();
    while (true) {
        size_t open;
        tutti_err_t err = TUTTI_OK;
        if (s_any_done (requests, n, index_p, &open, &err))
            return err;
        if (open == 0) {
            *index_p = n;
            return TUTTI_OK;
        }
        int left = s_left_ms (timeout_ms, start);
        if (left == 0)
            return tl_error (TUTTI_EAGAIN, "none of %zu finished in %d ms",
                             open, timeout_ms);
        s_nap (requests, n, left);
    }
}

static const char *
s_path (const tl_request_t *self)
{
    uint32_t in = self->deposit.in_where, out = self->deposit.out_where;
    if (in == TP_WHERE_WINDOW || out == TP_WHERE_WINDOW)
        return "staged";
    return in == TP_WHERE_INLINE ? "inline" : "shared";
}

tutti_err_t
tutti_request_info (tutti_request_t *request, tutti_request_info_t *info)
{
    tutti_err_t err;
    if (!info || info->struct_size != sizeof *info)
        return tl_error (TUTTI_EINVAL, "tutti_request_info: begin with "
                                       "TUTTI_REQUEST_INFO_INIT");
    tl_request_t *self = s_lock (request, &err);
    if (!self)
        return err;
    int64_t now = self->state == TL_DONE ? self->done_ns : tl_now_ns ();
    int64_t start = self->started_ns ? self->started_ns : now;
    info->seq = self->seq;
    info->bytes = self->bytes;
    info->recv_count = self->learned ? self->received : self->geo.count;
    info->queued_us = 0;
    info->waited_us = (uint64_t) (start - self->submitted_ns) / 1000;
    info->moved_us = (uint64_t) (now - start) / 1000;
    info->epoch = self->comm->board->epoch;
    info->kind = tp_kind_name (self->sig.kind);
    info->name = self->name[0] ? self->name : NULL;
    info->algorithm = self->comm->single
                          ? "board"
                          : tp_algorithm_name ((int) atomic_load (
                                &self->comm->board->algorithm));
    info->path = s_path (self);
    info->err = self->err;
    pthread_mutex_unlock (&self->comm->session->lock);
    return TUTTI_OK;
}

//  Forget old signals before looking, so that a new one is not lost.
static void
s_drain_event (tl_session_t *session)
{
    uint64_t count;
    struct pollfd pfd = { .fd = session->event, .events = POLLIN };
    if (poll (&pfd, 1, 0) == 1 &&
        read (session->event, &count, sizeof count) < 0)
        return;
}

//  One round under the lock: what moved, and how many callbacks ran.
static int
s_progress_round (tl_comm_t *comm, bool waiting)
{
    s_drain_event (comm->session);
    tl_session_check (comm->session);
    while (tl_comm_progress (comm->session, waiting))
        ;
    return tl_comm_callbacks (comm);
}

tutti_err_t
tutti_progress (tutti_comm_t *handle, int timeout_ms, int *events_p)
{
    tutti_err_t err;
    tl_comm_t *comm = tl_comm_lock (handle, &err);
    if (!comm)
        return err;
    tl_session_t *session = comm->session;
    int64_t start = tl_now_ns ();
    int ran = s_progress_round (comm, timeout_ms != 0);
    while (ran == 0 && !tl_comm_error (comm)) {
        int left = s_left_ms (timeout_ms, start);
        if (left == 0)
            break;
        uint32_t seen = tp_wake_seen (session->mine);
        tp_wake_arm (session->mine);
        ran = s_progress_round (comm, true);
        tl_comm_unlock (comm);
        if (ran == 0)
            tp_wake_sleep (session->mine, seen,
                           left < 0 || left > 100 ? 100 : left);
        tp_wake_disarm (session->mine);
        comm = tl_comm_lock (handle, &err);
        if (!comm)
            return err;
        ran += s_progress_round (comm, true);
    }
    err = tl_comm_error (comm);
    tl_comm_unlock (comm);
    if (events_p)
        *events_p = ran;
    return err;
}

tutti_err_t
tutti_comm_fd (tutti_comm_t *handle, int *fd_p)
{
    tutti_err_t err;
    if (!fd_p)
        return tl_error (TUTTI_EINVAL, "tutti_comm_fd: fd_p is NULL");
    tl_comm_t *comm = tl_comm_lock (handle, &err);
    if (!comm)
        return err;
    atomic_store (&comm->session->mine->want_event, 1);
    *fd_p = comm->session->event;
    tl_comm_unlock (comm);
    return TUTTI_OK;
}
