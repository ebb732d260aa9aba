//  client/request_submit.c - one op of one rank: what others need to know

#include "client/request_impl.h"

#include "client/comm.h"
#include "client/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOKS 200  //  before sleeping for want of room

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

static void
s_place_in (tl_request_t *self)
{
    tp_deposit_t *d = &self->deposit;
    uint64_t bytes = tp_geo_bytes (&self->geo, &self->in);
    d->in_where = TP_WHERE_WINDOW;
    if (!self->in.base || self->in.pieces == 0)
        d->in_where = TP_WHERE_NONE;
    else if (self->geo.small)
        d->in_where = TP_WHERE_INLINE;
    else if (s_direct (self, self->in.base, bytes, &d->in_segment, &d->in_off))
        d->in_where = TP_WHERE_DIRECT;
}

//  On one node a private output is written by the rank itself; between nodes
//  the worker writes, so it needs a window where memory is private.
static void
s_place_out (tl_request_t *self)
{
    tp_deposit_t *d = &self->deposit;
    bool single = !self->by_worker;
    uint64_t bytes = tp_geo_bytes (&self->geo, &self->out);
    d->out_where = single ? TP_WHERE_PRIVATE : TP_WHERE_WINDOW;
    if (!self->out.base || self->out.pieces == 0)
        d->out_where = TP_WHERE_NONE;
    else if (self->geo.small)
        d->out_where = single ? TP_WHERE_PRIVATE : TP_WHERE_INLINE;
    else if (s_direct (self, self->out.base, bytes, &d->out_segment,
                       &d->out_off))
        d->out_where = TP_WHERE_DIRECT;
}

static void
s_place (tl_request_t *self)
{
    tp_deposit_t *d = &self->deposit;
    d->in_segment = d->out_segment = d->window_segment = TP_NO_SEGMENT;
    s_place_in (self);
    s_place_out (self);
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
    self->by_worker = !self->comm->single || call->sig.kind == TP_SENDRECV;
    self->deposit.peer = call->peer;
    tp_geo_sides (&self->geo, &self->sig, self->comm->rank, self->words,
                  &self->in, &self->out);
    self->in.where = self->out.where = TP_WHERE_PRIVATE;
    self->in.base = (uint8_t *) (uintptr_t) call->in;
    self->out.base = call->out;
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
    self->deposit.scale = call->scale;
    self->deposit.priority = call->priority;
    self->deposit.stamp = (uint64_t) self->submitted_ns;
}

//  One round of waiting for room of some kind: work, else look for a while,
//  else sleep a moment.
//  LIMIT_NS is set at the first. TUTTI_EAGAIN, without a text: time is up.
static tutti_err_t
s_wait_round (tl_comm_t *comm, int64_t *limit_ns)
{
    tl_session_t *session = comm->session;
    tutti_err_t err = tl_comm_error (comm);
    if (err || tl_comm_progress (session, true))
        return err;
    for (int i = 0; i < LOOKS; i++)
        if (tl_comm_progress (session, true))
            return TUTTI_OK;
    int64_t now = tl_now_ns ();
    if (*limit_ns == 0)
        *limit_ns = now + (int64_t) session->op_timeout_ms * 1000000;
    if (now > *limit_ns)
        return TUTTI_EAGAIN;
    uint32_t seen = tp_wake_seen (session->mine);
    tp_wake_arm (session->mine);
    pthread_mutex_unlock (&session->lock);
    tp_wake_sleep (session->mine, seen, 1);
    pthread_mutex_lock (&session->lock);
    tp_wake_disarm (session->mine);
    return TUTTI_OK;
}

//  The seq of the next op: the next number or, for a named one, what the first
//  local rank with that name has made. 0: there is no room.
static uint64_t
s_next_seq (tl_comm_t *comm, uint64_t key, uint32_t want)
{
    if (key)
        return tp_board_name (comm->board, key, want);
    bool room = tp_board_room (comm->board, comm->seq + 1);
    return room ? comm->seq + 1 : 0;
}

//  Ring slots are used again in turn, named ones when all have left: work
//  until there is one.
static tutti_err_t
s_await_room (tl_comm_t *comm, uint64_t key, uint32_t want, uint64_t *seq_p)
{
    int64_t limit = 0;
    *seq_p = s_next_seq (comm, key, want);
    if (*seq_p)
        return TUTTI_OK;
    _Atomic uint32_t *present = &comm->session->mine->present;
    atomic_fetch_add (present, 1);
    tutti_err_t err = TUTTI_OK;
    while (!err && (*seq_p = s_next_seq (comm, key, want)) == 0)
        err = s_wait_round (comm, &limit);
    atomic_fetch_sub (present, 1);
    if (err == TUTTI_EAGAIN)
        return tl_error (TUTTI_EAGAIN,
                         "%u operations are in flight and none finishes",
                         TP_SLOTS);
    return err;
}

//  Put the counts where others see them; work until there is room.
static tutti_err_t
s_share_words (tl_request_t *self, const tl_call_t *call)
{
    tl_session_t *session = self->comm->session;
    uint64_t bytes = tl_request_words_bytes (self->comm, &call->sig), off;
    int64_t limit = 0;
    while ((off = tl_staging_take (session, bytes)) == UINT64_MAX) {
        tutti_err_t err = s_wait_round (self->comm, &limit);
        if (err == TUTTI_EAGAIN || bytes > session->hello.staging_bytes)
            return tl_error (
                TUTTI_ENOMEM,
                "the counts of %u ranks find no room in the "
                "staging area of %llu bytes (tutti-agent "
                "--staging)",
                self->comm->size,
                (unsigned long long) session->hello.staging_bytes);
        if (err)
            return err;
    }
    self->words = (uint64_t *) (void *) (session->staging->base + off);
    memcpy (self->words, call->words, bytes);
    self->deposit.words_segment = session->staging->id;
    self->deposit.words_off = off;
    return TUTTI_OK;
}

//  Until the others are known, an uneven op has the segments that this rank
//  needs.
static tutti_err_t
s_measure (tl_request_t *self)
{
    uint64_t out_bytes = tp_geo_bytes (&self->geo, &self->out);
    self->in_bytes = tp_geo_bytes (&self->geo, &self->in);
    self->bytes = self->geo.count * self->geo.element;
    if (!self->geo.info->uneven)
        return TUTTI_OK;
    self->bytes = self->in_bytes > out_bytes ? self->in_bytes : out_bytes;
    uint64_t in = tp_geo_most (&self->in), out = tp_geo_most (&self->out);
    self->deposit.most = in > out ? in : out;
    return tp_geo_stretch (&self->geo, self->deposit.most);
}

static void
s_deposit (tl_request_t *self)
{
    tl_comm_t *comm = self->comm;
    if (!(self->seq & TP_NAMED))
        comm->seq = self->seq;
    self->cell = tp_board_cell (comm->board, self->seq, comm->local);
    uint32_t ready = UINT32_MAX;  //  nothing has to be copied
    if (self->deposit.in_where == TP_WHERE_INLINE) {
        tp_side_t side = { tp_board_inline (comm->board, self->seq,
                                            comm->local),
                           TP_WHERE_INLINE,
                           1,
                           0,
                           NULL,
                           NULL };
        uint64_t bytes = tp_geo_bytes (&self->geo, &self->in);
        if (bytes > 0)
            memcpy (tp_geo_in (&self->geo, &side, comm->rank, 0, 0),
                    self->in.base, bytes);
    }
    if (tl_request_wants_window (self)) {
        tl_request_take_window (self);
        ready = 0;
    }
    tp_board_deposit (comm->board, self->seq, comm->local, &self->deposit,
                      ready);
    *comm->pending_end = self;
    comm->pending_end = &self->next;
}

//  Everything but a place on the board.
static tutti_err_t
s_prepare (tl_request_t *self, const tl_call_t *call)
{
    tutti_err_t err = TUTTI_OK;
    self->sig = call->sig;
    if (self->geo.info->uneven)
        err = s_share_words (self, call);
    if (!err) {
        s_fill (self, call);
        err = s_measure (self);
    }
    return err;
}

//  Messages are numbered by sender, receiver and tag: a name that no program
//  gives.
static const char *
s_name (const tl_comm_t *comm, const tl_call_t *call, char *room, size_t len)
{
    bool sends = call->sig.root == (int32_t) comm->rank;
    if (call->sig.kind != TP_SENDRECV)
        return call->name;
    snprintf (room, len, "\n%u>%u#%u", sends ? comm->rank : call->peer,
              sends ? call->peer : comm->rank, call->tag);
    return room;
}

//  Local ranks that take part.
static uint32_t
s_want (const tl_comm_t *comm, const tl_call_t *call)
{
    uint32_t n = comm->board->n_local;
    if (call->sig.kind != TP_SENDRECV)
        return n;
    for (uint32_t i = 0; i < n; i++)
        if (tp_board_rank (comm->board, i)->rank == call->peer)
            return 2;
    return 1;
}

//  The last thing that can fail: a place taken must be used.
static tutti_err_t
s_take_place (tl_request_t *self, const tl_call_t *call)
{
    tl_comm_t *comm = self->comm;
    char room[48];
    uint32_t want = s_want (comm, call);
    const char *name = s_name (comm, call, room, sizeof room);
    if (!name)
        return s_await_room (comm, 0, want, &self->seq);
    uint64_t *count = tl_names_count (&comm->names, name);
    if (!count)
        return tl_error (TUTTI_ENOMEM, "out of memory");
    uint64_t key = tp_board_key (name, ++*count);
    tutti_err_t err = s_await_room (comm, key, want, &self->seq);
    if (err)  //  it was none; other threads may have moved the table
        --*tl_names_count (&comm->names, name);
    return err;
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
    if (err)
        return err;
    tl_request_t *self = s_spare (comm);
    if (!self)
        return tl_error (TUTTI_ENOMEM, "out of memory");
    self->geo = geo;
    err = s_prepare (self, call);
    if (!err)
        err = s_take_place (self, call);
    if (err) {
        tl_request_give_words (self);
        self->next = comm->spare;
        comm->spare = self;
        return err;
    }
    s_place (self);
    s_deposit (self);
    tl_request_announce (self);
    if (tl_request_wants_window (self))
        while (tl_request_step (self, false))
            ;
    *request_p = self;
    return TUTTI_OK;
}
