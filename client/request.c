//  client/request.c - one op of one rank, from submission to its result

#include "client/comm.h"

#include "client/error.h"
#include "client/handle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW_SLOTS 4

//  The only writer of state.
static void
s_enter (tl_request_t *self, tl_request_state_t state)
{
    self->state = state;
    if (state == TL_WORKING)
        self->started_ns = tl_now_ns ();
    if (state == TL_DONE)
        self->done_ns = tl_now_ns ();
}

//  ------------------------------------------------------------- submission

static bool
s_is_root (const tl_request_t *self)
{
    return self->sig.kind != TP_BROADCAST ||
           self->sig.root == (int32_t) self->comm->rank;
}

//  Where a buffer lies in the agent's memory, if it does.
static bool
s_direct (tl_request_t *self, const void *ptr, uint64_t bytes,
          uint32_t *segment_p, uint64_t *off_p)
{
    tl_segment_t *segment = tl_segment_find (self->comm->session, ptr, bytes);
    if (!segment)
        return false;
    *segment_p = segment->id;
    *off_p = (uint64_t) ((const uint8_t *) ptr - segment->base);
    return true;
}

//  On one node a private output is written by the rank itself; between nodes
//  the worker writes, so it needs a window where memory is private.
static void
s_place (tl_request_t *self)
{
    tp_deposit_t *d = &self->deposit;
    bool single = self->comm->single;
    uint64_t in_bytes = tp_geo_in_bytes (&self->geo, s_is_root (self));
    d->in_where = d->out_where = TP_WHERE_NONE;
    d->in_segment = d->out_segment = d->window_segment = TP_NO_SEGMENT;
    if (self->in && (self->sig.kind != TP_BROADCAST || s_is_root (self))) {
        if (self->geo.small)
            d->in_where = TP_WHERE_INLINE;
        else if (s_direct (self, self->in, in_bytes, &d->in_segment,
                           &d->in_off))
            d->in_where = TP_WHERE_DIRECT;
        else
            d->in_where = TP_WHERE_WINDOW;
    }
    if (self->out && !(self->sig.kind == TP_BROADCAST && s_is_root (self))) {
        if (self->geo.small)
            d->out_where = single ? TP_WHERE_PRIVATE : TP_WHERE_INLINE;
        else if (s_direct (self, self->out, tp_geo_out_bytes (&self->geo),
                           &d->out_segment, &d->out_off))
            d->out_where = TP_WHERE_DIRECT;
        else
            d->out_where = single ? TP_WHERE_PRIVATE : TP_WHERE_WINDOW;
    }
}

static bool
s_wants_window (const tl_request_t *self)
{
    return self->deposit.in_where == TP_WHERE_WINDOW ||
           self->deposit.out_where == TP_WHERE_WINDOW;
}

//  Take a window from the staging area, smaller if it is crowded. False: none
//  now; the next step tries again.
static bool
s_take_window (tl_request_t *self)
{
    tl_session_t *session = self->comm->session;
    uint32_t slots =
        self->geo.segments < WINDOW_SLOTS ? self->geo.segments : WINDOW_SLOTS;
    for (; slots > 0; slots /= 2) {
        uint64_t off = tl_staging_take (session, slots * self->geo.slot);
        if (off == UINT64_MAX)
            continue;
        self->window = (tp_side_t){ session->staging->base + off,
                                    TP_WHERE_WINDOW, slots };
        self->window_bytes = slots * self->geo.slot;
        self->deposit.window_segment = session->staging->id;
        self->deposit.window_off = off;
        self->deposit.window = slots;
        return true;
    }
    return false;
}

static void
s_give_window (tl_request_t *self)
{
    if (!self->window.base)
        return;
    tl_session_t *session = self->comm->session;
    tl_staging_give (session,
                     (uint64_t) (self->window.base - session->staging->base),
                     self->window_bytes);
    self->window.base = NULL;
}

static tl_request_t *
s_spare (tl_comm_t *comm)
{
    tl_request_t *self = comm->spare;
    tp_side_t *sides = self ? self->sides : NULL;
    if (self) {
        comm->spare = self->next;
    }
    else {
        self = malloc (sizeof *self);
        sides = calloc (comm->board->n_local, sizeof *sides);
    }
    if (!self || !sides) {
        free (self);
        free (sides);
        return NULL;
    }
    memset (self, 0, sizeof *self);
    self->sides = sides;
    self->comm = comm;
    return self;
}

static void
s_fill (tl_request_t *self, const tl_call_t *call)
{
    tl_session_t *session = self->comm->session;
    self->sig = call->sig;
    self->in = call->in;
    self->out = call->out;
    self->callback = call->callback;
    self->user = call->user;
    if (call->name)
        strncpy (self->name, call->name, sizeof self->name - 1);
    self->submitted_ns = tl_now_ns ();
    int64_t timeout = call->timeout_ms > 0 ? call->timeout_ms
                                           : (int64_t) session->op_timeout_ms;
    self->deadline_ns = self->submitted_ns + timeout * 1000000;
    self->deposit.sig = call->sig;
    self->deposit.async = call->async;
    self->deposit.priority = call->priority;
    self->deposit.stamp = (uint64_t) self->submitted_ns;
}

//  Ring slots are used again in turn: work until the old op has left.
static tutti_err_t
s_await_room (tl_comm_t *comm)
{
    int64_t limit = 0;
    while (!tp_board_room (comm->board, comm->seq + 1)) {
        if (tl_comm_error (comm))
            return tl_comm_error (comm);
        if (tl_comm_progress (comm->session, true))
            continue;
        if (!limit)
            limit = tl_now_ns () +
                    (int64_t) comm->session->op_timeout_ms * 1000000;
        if (tl_now_ns () > limit)
            return tl_error (TUTTI_EAGAIN,
                             "%u operations are in flight and none finishes",
                             TP_SLOTS);
        uint32_t seen = tp_wake_seen (comm->session->mine);
        tp_wake_arm (comm->session->mine);
        if (!tp_board_room (comm->board, comm->seq + 1)) {
            pthread_mutex_unlock (&comm->session->lock);
            tp_wake_sleep (comm->session->mine, seen, 1);
            pthread_mutex_lock (&comm->session->lock);
        }
        tp_wake_disarm (comm->session->mine);
    }
    return TUTTI_OK;
}

//  Tell whoever can go on now. The last one in rings the bell for ranks that
//  called asynchronously; between nodes the worker must always know.
static void
s_announce (tl_request_t *self)
{
    tl_comm_t *comm = self->comm;
    tl_comm_wake (comm);
    bool ring = !comm->single;
    if (comm->single && tp_board_all_in (comm->board, self->seq))
        for (uint32_t i = 0; i < comm->board->n_local && !ring; i++)
            ring = tp_board_cell (comm->board, self->seq, i)->deposit.async;
    if (ring)
        tp_bell_ring (comm->session->wake, comm->session->bell);
}

static void
s_deposit (tl_request_t *self)
{
    tl_comm_t *comm = self->comm;
    self->seq = ++comm->seq;
    self->cell = tp_board_cell (comm->board, self->seq, comm->local);
    uint32_t ready = self->geo.segments;
    if (self->deposit.in_where == TP_WHERE_INLINE) {
        tp_side_t side = { tp_board_inline (comm->board, self->seq,
                                            comm->local),
                           TP_WHERE_INLINE, 1 };
        uint64_t bytes = tp_geo_in_bytes (&self->geo, true);
        if (bytes > 0)
            memcpy (tp_geo_in (&self->geo, &side, comm->rank, 0, 0), self->in,
                    bytes);
    }
    if (s_wants_window (self)) {
        s_take_window (self);
        ready = 0;
    }
    tp_board_deposit (comm->board, self->seq, comm->local, &self->deposit,
                      ready);
    *comm->pending_end = self;
    comm->pending_end = &self->next;
}

tutti_err_t
tl_request_submit (tl_comm_t *comm, const tl_call_t *call,
                   tl_request_t **request_p)
{
    tutti_err_t err = tl_comm_error (comm);
    tp_geo_t geo;
    if (!err &&
        tp_geo_make (&geo, &call->sig, comm->size, comm->board->segment_bytes))
        err = tl_error (TUTTI_EINVAL, "%s of %llu elements: too large",
                        tp_kind_name (call->sig.kind),
                        (unsigned long long) call->sig.count);
    if (!err)
        err = s_await_room (comm);
    if (err)
        return err;
    tl_request_t *self = s_spare (comm);
    if (!self)
        return tl_error (TUTTI_ENOMEM, "out of memory");
    self->geo = geo;
    s_fill (self, call);
    s_place (self);
    s_deposit (self);
    s_announce (self);
    if (s_wants_window (self))
        while (tl_request_step (self, false))
            ;
    *request_p = self;
    return TUTTI_OK;
}

//  ---------------------------------------------------------------- progress

//  Copy one segment of every piece between the caller's memory and the
//  window.
static void
s_copy_segment (tl_request_t *self, uint32_t g, bool in)
{
    tp_side_t mine = { in ? (uint8_t *) (uintptr_t) self->in : self->out,
                       TP_WHERE_PRIVATE, 0 };
    uint32_t rank = self->comm->rank;
    uint64_t bytes = tp_geo_len (&self->geo, g) * self->geo.element;
    bool many = in ? self->sig.kind == TP_REDUCE_SCATTER
                   : self->sig.kind == TP_ALLGATHER;
    uint32_t pieces = many ? self->geo.pieces : 1;
    for (uint32_t p = 0; p < pieces; p++)
        if (in)
            memcpy (tp_geo_in (&self->geo, &self->window, rank, p, g),
                    tp_geo_in (&self->geo, &mine, rank, p, g), bytes);
        else
            memcpy (tp_geo_out (&self->geo, &mine, rank, p, g),
                    tp_geo_out (&self->geo, &self->window, rank, p, g), bytes);
}

static uint32_t
s_least_read (const tl_request_t *self)
{
    tp_board_t *board = self->comm->board;
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < board->n_local; i++) {
        uint32_t read =
            atomic_load (&tp_board_cell (board, self->seq, i)->read);
        least = read < least ? read : least;
    }
    return least;
}

//  Segments whose place in the window is free again: on one node when all
//  have read the input, between nodes when the output was also copied out.
static uint32_t
s_window_limit (const tl_request_t *self)
{
    uint32_t gone;
    if (self->comm->single)
        gone = s_least_read (self);
    else
        gone = self->deposit.out_where == TP_WHERE_WINDOW
                   ? self->taken
                   : atomic_load (&self->cell->written);
    uint32_t limit = gone + self->window.window;
    return limit < self->geo.segments ? limit : self->geo.segments;
}

//  Copy one more segment in, or only say that its place is free.
static bool
s_feed (tl_request_t *self)
{
    if (!s_wants_window (self) || self->fed == self->geo.segments)
        return false;
    if (!self->window.base) {
        if (!s_take_window (self))
            return false;
        self->cell->deposit.window_segment = self->deposit.window_segment;
        self->cell->deposit.window_off = self->deposit.window_off;
        self->cell->deposit.window = self->deposit.window;
    }
    if (self->fed >= s_window_limit (self))
        return false;
    if (self->deposit.in_where == TP_WHERE_WINDOW)
        s_copy_segment (self, self->fed, true);
    self->fed++;
    atomic_store (&self->cell->ready, self->fed);
    s_announce (self);
    return true;
}

static bool
s_take (tl_request_t *self)
{
    if (self->deposit.out_where != TP_WHERE_WINDOW ||
        self->taken >= atomic_load (&self->cell->written))
        return false;
    s_copy_segment (self, self->taken, false);
    self->taken++;
    return true;
}

//  Into my line of the board, where the agent reads it for the metrics.
static void
s_count (tl_request_t *self)
{
    tp_board_rank_t *rank =
        tp_board_rank (self->comm->board, self->comm->local);
    tp_tally_t *tally = &rank->tally[self->sig.kind];
    uint64_t us = (uint64_t) (self->done_ns - self->submitted_ns) / 1000;
    int bucket = 0;
    for (uint64_t limit = 10; bucket < TP_BUCKETS - 1 && us > limit;
         limit *= 10)
        bucket++;
    atomic_fetch_add_explicit (&tally->ops, 1, memory_order_relaxed);
    atomic_fetch_add_explicit (&tally->bytes,
                               self->geo.count * self->geo.element,
                               memory_order_relaxed);
    atomic_fetch_add_explicit (&tally->us, us, memory_order_relaxed);
    atomic_fetch_add_explicit (&tally->bucket[bucket], 1,
                               memory_order_relaxed);
}

static void
s_log_op (const tl_request_t *self)
{
    char what[96];
    tp_sig_text (&self->sig, what, sizeof what);
    tl_report_line (&self->comm->session->report, TL_LOG_OPS,
                    "%s #%llu waited %lld us, moved %lld us", what,
                    (unsigned long long) self->seq,
                    (long long) (self->started_ns - self->submitted_ns) / 1000,
                    (long long) (self->done_ns - self->started_ns) / 1000);
}

static void
s_finish (tl_request_t *self)
{
    tl_comm_t *comm = self->comm;
    if (self->deposit.out_where == TP_WHERE_INLINE) {
        tp_side_t side = { tp_board_inline (comm->board, self->seq,
                                            comm->local),
                           TP_WHERE_INLINE, 1 };
        uint64_t bytes = tp_geo_out_bytes (&self->geo);
        if (bytes > 0)
            memcpy (self->out,
                    tp_geo_out (&self->geo, &side, comm->rank, 0, 0), bytes);
    }
    self->err = TUTTI_OK;
    s_give_window (self);
    tl_comm_leave (comm, self->seq);
    s_enter (self, TL_DONE);
    s_count (self);
    if (comm->session->report.level >= TL_LOG_OPS)
        s_log_op (self);
    comm->ops++;
    comm->bytes += tp_geo_in_bytes (&self->geo, s_is_root (self));
    comm->wait_ns += (uint64_t) (self->started_ns - self->submitted_ns);
    comm->move_ns += (uint64_t) (self->done_ns - self->started_ns);
}

//  Inputs of all ranks as this process sees them.
static tutti_err_t
s_map_sides (tl_request_t *self)
{
    tl_comm_t *comm = self->comm;
    for (uint32_t i = 0; i < comm->board->n_local; i++) {
        const tp_deposit_t *d =
            &tp_board_cell (comm->board, self->seq, i)->deposit;
        tp_side_t *side = &self->sides[i];
        *side = (tp_side_t){ NULL, d->in_where, d->window };
        if (d->in_where == TP_WHERE_INLINE)
            side->base = tp_board_inline (comm->board, self->seq, i);
        if (d->in_where != TP_WHERE_DIRECT && d->in_where != TP_WHERE_WINDOW)
            continue;
        bool direct = d->in_where == TP_WHERE_DIRECT;
        tl_segment_t *segment;
        tutti_err_t err = tl_segment_map (
            comm->session, direct ? d->in_segment : d->window_segment,
            &segment);
        if (err)
            return err;
        side->base = segment->base + (direct ? d->in_off : d->window_off);
    }
    return TUTTI_OK;
}

//  Become the executor of my own output.
static bool
s_start_work (tl_request_t *self)
{
    tp_board_t *board = self->comm->board;
    for (uint32_t i = 0; i < board->n_local; i++)
        if (atomic_load (&tp_board_cell (board, self->seq, i)->ready) == 0)
            return false;  //  a window is still to come
    uint32_t free_claim = TP_CLAIM_NONE;
    if (!atomic_compare_exchange_strong (&self->cell->claim, &free_claim,
                                         TP_CLAIM_RANK))
        return false;
    self->work = (tk_work_t){
        .board = board,
        .seq = self->seq,
        .me = self->comm->local,
        .sig = self->sig,
        .geo = self->geo,
        .in = self->sides,
        .out = { self->out, TP_WHERE_PRIVATE, 0 },
        .in_place = self->sig.kind == TP_ALLREDUCE &&
                    self->deposit.in_where == TP_WHERE_DIRECT &&
                    self->in == self->out,
    };
    tutti_err_t err = s_map_sides (self);
    if (!err)
        err = tk_work_init (&self->work);
    if (err)
        tp_board_fail (board, err, tl_error_text ());
    self->working = !err;
    return !err;
}

//  One node: I work when nobody else can or when I wait anyway.
static bool
s_step_single (tl_request_t *self, bool waiting)
{
    bool mine = waiting || self->deposit.out_where != TP_WHERE_DIRECT;
    if (!self->working && mine && s_start_work (self))
        return true;
    if (!self->working) {
        if (atomic_load (&self->cell->claim) != TP_CLAIM_WORKER ||
            atomic_load (&self->cell->written) < self->geo.segments ||
            s_least_read (self) < self->geo.segments)
            return false;
        s_finish (self);
        return true;
    }
    tk_work_result_t result = tk_work_step (&self->work);
    if (result == TK_WORK_DONE) {
        tk_work_destroy (&self->work);
        self->working = false;
        s_finish (self);
    }
    if (result != TK_WORK_BLOCKED)
        tl_comm_wake (self->comm);
    return result != TK_WORK_BLOCKED;
}

static bool
s_step_nodes (tl_request_t *self)
{
    if (s_take (self))
        return true;
    if (atomic_load (&self->cell->written) < self->geo.segments ||
        (self->deposit.out_where == TP_WHERE_WINDOW &&
         self->taken < self->geo.segments))
        return false;
    s_finish (self);
    return true;
}

static bool
s_gather (tl_request_t *self)
{
    tp_board_t *board = self->comm->board;
    if (!tp_board_all_in (board, self->seq))
        return false;
    char text[TP_TEXT_MAX];
    if (tp_board_agree (board, self->seq, text))
        s_enter (self, TL_WORKING);
    else
        tp_board_fail (board, TUTTI_EMISMATCH, text);
    return true;
}

bool
tl_request_step (tl_request_t *self, bool waiting)
{
    if (self->state == TL_DONE)
        return false;
    tutti_err_t err = tp_board_error (self->comm->board);
    if (err) {
        tl_request_fail (self, err, self->comm->board->text);
        return true;
    }
    bool moved = s_feed (self);
    if (self->state == TL_GATHERING)
        return s_gather (self) || moved;
    return (self->comm->single ? s_step_single (self, waiting)
                               : s_step_nodes (self)) ||
           moved;
}

//  ------------------------------------------------------------------ ending

//  The window is not given back: the worker of a failed comm may still be
//  writing to it. It returns with the session.
void
tl_request_fail (tl_request_t *self, tutti_err_t err, const char *text)
{
    if (self->working)
        tk_work_destroy (&self->work);
    self->working = false;
    self->err = err;
    if (!self->comm->told)
        tl_report_line (&self->comm->session->report, TL_LOG_WARN, "%s: %s",
                        tutti_err_name (err), text);
    self->comm->told = true;
    free (self->text);
    self->text = strdup (text);
    s_enter (self, TL_DONE);
}

tutti_err_t
tl_request_release (tl_request_t *self)
{
    tl_comm_t *comm = self->comm;
    tutti_err_t err = self->err;
    if (err)
        tl_error (err, "%s", self->text ? self->text : tutti_err_text (err));
    free (self->text);
    if (self->handle)
        tl_handle_drop (self->handle);
    self->next = comm->spare;
    comm->spare = self;
    return err;
}
