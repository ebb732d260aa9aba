//  client/comm.c - one communicator in this process

#include "client/comm.h"

#include "client/error.h"
#include "client/handle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static bool
s_find_me (tl_comm_t *self, uint32_t world_rank)
{
    for (uint32_t i = 0; i < self->board->n_local; i++) {
        const tp_board_rank_t *rank = tp_board_rank (self->board, i);
        if (rank->world_rank == world_rank) {
            self->local = i;
            self->rank = rank->rank;
            return rank->rank < self->board->size;
        }
    }
    return false;
}

tutti_err_t
tl_comm_new (tl_session_t *session, tp_board_t *board, uint32_t world_rank,
             tl_comm_t **self_p)
{
    tl_comm_t *self = calloc (1, sizeof *self);
    if (!self)
        return tl_error (TUTTI_ENOMEM, "out of memory");
    self->session = session;
    self->board = board;
    self->size = board->size;
    self->single = board->nodes == 1;
    self->pending_end = &self->pending;
    if (!s_find_me (self, world_rank)) {
        free (self);
        return tl_error (TUTTI_EPROTO, "rank %u is not on its agent's board",
                         world_rank);
    }
    self->handle = tl_handle_new (TL_HANDLE_COMM, self);
    if (!self->handle) {
        free (self);
        return tl_error (TUTTI_ENOMEM, "no room for another handle");
    }
    tl_comm_t **end = &session->comms;
    while (*end)
        end = &(*end)->next;
    *end = self;
    *self_p = self;
    return TUTTI_OK;
}

static void
s_free_requests (tl_request_t *list)
{
    while (list) {
        tl_request_t *next = list->next;
        free (list->sides);
        free (list);
        list = next;
    }
}

//  A finished request is kept by its handle; the others are ended here, and
//  their handles become stale.
static void
s_end_requests (tl_comm_t *self)
{
    for (tl_request_t *r = self->pending; r; r = r->next) {
        if (r->working)
            tk_work_destroy (&r->work);
        free (r->peers);
        if (r->handle)
            tl_handle_drop (r->handle);
    }
    s_free_requests (self->pending);
    s_free_requests (self->finished);
    s_free_requests (self->spare);
}

void
tl_comm_destroy (tl_comm_t **self_p)
{
    tl_comm_t *self = *self_p;
    if (!self)
        return;
    for (tl_comm_t **p = &self->session->comms; *p; p = &(*p)->next)
        if (*p == self) {
            *p = self->next;
            break;
        }
    s_end_requests (self);
    tl_report_add (&self->session->report,
                   tp_board_rank (self->board, self->local));
    tl_handle_drop (self->handle);
    munmap (self->board, self->board->bytes);
    tl_names_clear (&self->names);
    free (self);
    *self_p = NULL;
}

tl_comm_t *
tl_comm_lock (const tutti_comm_t *handle, tutti_err_t *err_p)
{
    tl_comm_t *self = tl_handle_get (TL_HANDLE_COMM, handle);
    if (self) {
        pthread_mutex_lock (&self->session->lock);
        *err_p = TUTTI_OK;
        return self;
    }
    if (tl_forked ())
        *err_p = tl_error (TUTTI_ESTATE,
                           "this process was forked after tutti_init; a child "
                           "must call tutti_init itself, in a new program");
    else
        *err_p = tl_error (TUTTI_EHANDLE,
                           "%p is not a communicator (closed already?)",
                           (const void *) handle);
    return NULL;
}

void
tl_comm_unlock (tl_comm_t *self)
{
    pthread_mutex_unlock (&self->session->lock);
}

tutti_err_t
tl_comm_error (tl_comm_t *self)
{
    tutti_err_t err = tp_board_error (self->board);
    if (err)
        return tl_error (err, "%.*s", TP_TEXT_MAX, self->board->text);
    if (self->session->dead)
        return tl_error (self->session->dead,
                         "the agent of node %s is gone; call tutti_finalize, "
                         "then tutti_init again",
                         self->session->hello.node);
    return TUTTI_OK;
}

//  Ops may be left out of order; `finished` on the board is the end of the
//  unbroken run.
void
tl_comm_leave (tl_comm_t *self, uint64_t seq)
{
    if (seq & TP_NAMED) {
        tp_board_unname (self->board, seq);
        return;
    }
    self->left_bits |= UINT64_C (1) << (seq - self->left - 1);
    while (self->left_bits & 1) {
        self->left_bits >>= 1;
        self->left++;
    }
    atomic_store (&tp_board_rank (self->board, self->local)->finished,
                  self->left);
}

tutti_err_t
tl_comm_may_wait (const tl_comm_t *self, const char *name)
{
    if (!self->batch)
        return TUTTI_OK;
    return tl_error (TUTTI_ESTATE,
                     "%s would wait between tutti_batch_begin and "
                     "tutti_batch_end",
                     name);
}

void
tl_comm_wake (tl_comm_t *self)
{
    tp_wake_page_t *page = self->session->wake;
    for (uint32_t i = 0; i < self->board->n_local; i++) {
        uint32_t session = tp_board_rank (self->board, i)->session;
        if (i != self->local && session < TP_LOCAL_MAX)
            tp_wake (&page->session[session]);
    }
}

void
tl_comm_tell_abort (tl_comm_t *self, int code, const char *text)
{
    tp_local_abort_t abort = { .comm = self->board->comm, .code = code };
    snprintf (abort.text, sizeof abort.text, "%s", text);
    tl_session_ask (self->session, TP_LOCAL_ABORT, &abort, sizeof abort,
                    TP_LOCAL_REPLY, NULL, 0, NULL);
}

void
tl_comm_collect (tl_comm_t *self)
{
    tl_request_t **p = &self->pending;
    while (*p) {
        tl_request_t *request = *p;
        if (request->state != TL_DONE) {
            p = &request->next;
            continue;
        }
        *p = request->next;
        request->next = NULL;
        if (!request->callback)
            continue;
        tl_request_t **end = &self->finished;
        while (*end)
            end = &(*end)->next;
        *end = request;
    }
    self->pending_end = p;
}

static bool
s_progress_one (tl_comm_t *self, bool waiting)
{
    bool moved = false;
    tutti_err_t dead = self->session->dead;
    if (dead)
        tl_comm_error (self);  //  its text
    for (tl_request_t *r = self->pending; r; r = r->next) {
        if (dead && r->state != TL_DONE)
            tl_request_fail (r, dead, tl_error_text ());
        moved |= dead || tl_request_step (r, waiting);
        //  On one node the oldest first, to its end: other ranks work on it,
        //  too, and find in the cache what one of them has read.
        if (moved && waiting && self->single)
            break;
    }
    tl_comm_collect (self);
    return moved;
}

bool
tl_comm_progress (tl_session_t *session, bool waiting)
{
    bool moved = false;
    for (tl_comm_t *comm = session->comms; comm; comm = comm->next)
        if (comm->pending)
            moved |= s_progress_one (comm, waiting);
    return moved;
}

static void
s_info (const tl_request_t *request, tutti_request_info_t *info)
{
    *info = (tutti_request_info_t) TUTTI_REQUEST_INFO_INIT;
    info->seq = request->seq;
    info->kind = tp_kind_name (request->sig.kind);
    info->name = request->name[0] ? request->name : NULL;
    info->err = request->err;
    info->epoch = request->comm->board->epoch;
    info->bytes = request->bytes;
    info->recv_count =
        request->learned ? request->received : request->geo.count;
}

//  The lock is released around each callback, so it may start new ops. A
//  request whose handle is still out stays with it.
int
tl_comm_callbacks (tl_comm_t *self)
{
    int ran = 0;
    while (self->finished) {
        tl_request_t *request = self->finished;
        self->finished = request->next;
        request->next = NULL;
        tutti_request_info_t info;
        s_info (request, &info);
        tutti_callback_t callback = request->callback;
        request->callback = NULL;
        bool keep = request->handle != NULL;
        tutti_err_t err = request->err;
        tl_error (err, "%s", request->text ? request->text : "");
        tl_comm_unlock (self);
        callback (err, &info, request->user);
        pthread_mutex_lock (&self->session->lock);
        if (!keep)
            tl_request_release (request);
        ran++;
    }
    return ran;
}
