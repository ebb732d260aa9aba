//  client/request.c - one op of one rank, from its deposit to its result

#include "client/request_impl.h"

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

//  ----------------------------------------------------------------- staging

bool
tl_request_wants_window (const tl_request_t *self)
{
    return self->deposit.in_where == TP_WHERE_WINDOW ||
           self->deposit.out_where == TP_WHERE_WINDOW;
}

//  Windows are given in the order of the ops. Else one rank could hold them
//  for ops that another rank has none for, and wait for ever.
static bool
s_has_turn (const tl_request_t *self)
{
    for (const tl_request_t *r = self->comm->pending; r && r != self;
         r = r->next)
        if (r->state != TL_DONE && tl_request_wants_window (r) &&
            !r->window.base)
            return false;
    return true;
}

bool
tl_request_take_window (tl_request_t *self)
{
    tl_session_t *session = self->comm->session;
    if (!s_has_turn (self))
        return false;
    uint32_t slots =
        self->geo.segments < WINDOW_SLOTS ? self->geo.segments : WINDOW_SLOTS;
    for (; slots > 0; slots /= 2) {
        uint64_t off = tl_staging_take (session, slots * self->geo.slot);
        if (off == UINT64_MAX)
            continue;
        self->window = (tp_side_t){ .base = session->staging->base + off,
                                    .where = TP_WHERE_WINDOW,
                                    .window = slots };
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

uint64_t
tl_request_words_bytes (const tl_comm_t *comm, const tp_sig_t *sig)
{
    return tp_geo_words (sig, comm->size, comm->rank) * sizeof (uint64_t);
}

void
tl_request_give_words (tl_request_t *self)
{
    tl_session_t *session = self->comm->session;
    if (self->words)
        tl_staging_give (
            session,
            (uint64_t) ((uint8_t *) self->words - session->staging->base),
            tl_request_words_bytes (self->comm, &self->sig));
    self->words = NULL;
}

void
tl_request_announce (tl_request_t *self)
{
    tl_comm_t *comm = self->comm;
    if (comm->batch)  //  its end tells of all
        return;
    tl_comm_wake (comm);
    bool ring = self->by_worker;
    if (!ring && tp_board_all_in (comm->board, self->seq))
        for (uint32_t i = 0; i < comm->board->n_local && !ring; i++)
            ring = tp_board_cell (comm->board, self->seq, i)->deposit.async;
    if (ring)
        tp_bell_ring (comm->session->wake, comm->session->bell);
}

//  ---------------------------------------------------------------- progress

//  Copy one segment of every piece between the caller's memory and the
//  window.
static void
s_copy_segment (tl_request_t *self, uint32_t g, bool in)
{
    const tp_side_t *mine = in ? &self->in : &self->out;
    const tp_geo_t *geo = &self->geo;
    uint32_t rank = self->comm->rank;
    for (uint32_t p = 0; p < mine->pieces; p++) {
        uint64_t bytes = tp_geo_len (geo, mine, p, g) * geo->element;
        if (bytes == 0)
            continue;
        if (in)
            memcpy (tp_geo_in (geo, &self->window, rank, p, g),
                    tp_geo_in (geo, mine, rank, p, g), bytes);
        else
            memcpy (tp_geo_out (geo, mine, rank, p, g),
                    tp_geo_out (geo, &self->window, rank, p, g), bytes);
    }
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
    if (!self->by_worker)
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
    if (!tl_request_wants_window (self) || self->fed == self->geo.segments)
        return false;
    if (!self->window.base) {
        if (!tl_request_take_window (self))
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
    //  A message may be longer than what there is room for.
    bool rest =
        self->sig.kind == TP_SENDRECV && self->fed == self->geo.segments;
    atomic_store (&self->cell->ready, rest ? UINT32_MAX : self->fed);
    tl_request_announce (self);
    return true;
}

static bool
s_take (tl_request_t *self, uint32_t written)
{
    if (self->deposit.out_where != TP_WHERE_WINDOW ||
        self->taken >= self->geo.segments || self->taken >= written)
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
    atomic_fetch_add_explicit (&tally->bytes, self->bytes,
                               memory_order_relaxed);
    atomic_fetch_add_explicit (&tally->us, us, memory_order_relaxed);
    atomic_fetch_add_explicit (&tally->bucket[bucket], 1,
                               memory_order_relaxed);
}

const char *
tl_request_text (const tl_request_t *self, char *text, size_t len)
{
    tp_sig_t sig = self->sig;
    char what[96];
    sig.name = 0;
    tp_sig_text (&sig, what, sizeof what);
    if (self->seq & TP_NAMED)
        snprintf (text, len, "%s \"%s\"", what, self->name);
    else
        snprintf (text, len, "%s #%llu", what, (unsigned long long) self->seq);
    return text;
}

static void
s_log_op (const tl_request_t *self)
{
    char what[160];
    tl_report_line (&self->comm->session->report, TL_LOG_OPS,
                    "%s waited %lld us, moved %lld us",
                    tl_request_text (self, what, sizeof what),
                    (long long) (self->started_ns - self->submitted_ns) / 1000,
                    (long long) (self->done_ns - self->started_ns) / 1000);
}

//  A message that was longer than the buffer: only this op has failed.
static void
s_check_length (tl_request_t *self)
{
    char text[160];
    if (!self->learned || self->received <= self->out.counts[0])
        return;
    snprintf (text, sizeof text,
              "rank %d sent %llu elements, recv has room for %llu; the first "
              "%llu are there",
              self->sig.root, (unsigned long long) self->received,
              (unsigned long long) self->out.counts[0],
              (unsigned long long) self->out.counts[0]);
    self->err = TUTTI_ETRUNC;
    free (self->text);
    self->text = strdup (text);
}

static void
s_finish (tl_request_t *self)
{
    tl_comm_t *comm = self->comm;
    if (self->deposit.out_where == TP_WHERE_INLINE) {
        tp_side_t side = { tp_board_inline (comm->board, self->seq,
                                            comm->local),
                           TP_WHERE_INLINE,
                           1,
                           0,
                           NULL,
                           NULL };
        uint64_t bytes = tp_geo_bytes (&self->geo, &self->out);
        if (bytes > 0)
            memcpy (self->out.base,
                    tp_geo_out (&self->geo, &side, comm->rank, 0, 0), bytes);
    }
    self->err = TUTTI_OK;
    s_check_length (self);
    s_give_window (self);
    tl_request_give_words (self);
    tl_comm_leave (comm, self->seq);
    s_enter (self, TL_DONE);
    s_count (self);
    if (comm->session->report.level >= TL_LOG_OPS)
        s_log_op (self);
    comm->ops++;
    comm->bytes += self->in_bytes;
    comm->wait_ns += (uint64_t) (self->started_ns - self->submitted_ns);
    comm->move_ns += (uint64_t) (self->done_ns - self->started_ns);
}

//  Counts of local rank I, copied.
static tutti_err_t
s_map_words (tl_request_t *self, uint32_t i, const tp_deposit_t *d)
{
    tl_comm_t *comm = self->comm;
    size_t n = tp_geo_words (&self->sig, comm->size, i);
    uint64_t *words = NULL;
    if (n > 0) {
        tl_segment_t *segment;
        tutti_err_t err =
            tl_segment_map (comm->session, d->words_segment, &segment);
        if (err)
            return err;
        if (n * sizeof *words > segment->bytes ||
            d->words_off > segment->bytes - n * sizeof *words)
            return tl_error (TUTTI_EPROTO, "counts of rank %u are not there",
                             i);
        words = self->peers + (size_t) i * 4 * comm->size;
        memcpy (words, segment->base + d->words_off, n * sizeof *words);
    }
    tp_side_t out;
    tp_geo_sides (&self->geo, &self->sig, i, words, &self->sides[i], &out);
    return TUTTI_OK;
}

static tutti_err_t
s_map_side (tl_request_t *self, uint32_t i)
{
    tl_comm_t *comm = self->comm;
    tp_cell_t *cell = tp_board_cell (comm->board, self->seq, i);
    const tp_deposit_t *d = &cell->deposit;
    tp_side_t *side = &self->sides[i];
    tutti_err_t err = s_map_words (self, i, d);
    if (err)
        return err;
    side->where = d->in_where;
    side->window = d->window;
    if (d->in_where == TP_WHERE_INLINE)
        side->base = tp_board_inline (comm->board, self->seq, i);
    if (d->in_where != TP_WHERE_DIRECT && d->in_where != TP_WHERE_WINDOW)
        return TUTTI_OK;
    bool direct = d->in_where == TP_WHERE_DIRECT;
    uint64_t off = direct ? d->in_off : d->window_off;
    uint64_t bytes =
        direct ? tp_geo_bytes (&self->geo, side) : d->window * self->geo.slot;
    tl_segment_t *segment;
    err = tl_segment_map (
        comm->session, direct ? d->in_segment : d->window_segment, &segment);
    if (err)
        return err;
    if (bytes > segment->bytes || off > segment->bytes - bytes)
        return tl_error (TUTTI_EPROTO, "the input of rank %u is not there", i);
    side->base = segment->base + off;
    return TUTTI_OK;
}

//  Inputs of all ranks as this process sees them.
static tutti_err_t
s_map_sides (tl_request_t *self)
{
    uint32_t n = self->comm->board->n_local;
    tutti_err_t err = TUTTI_OK;
    memset (self->sides, 0, n * sizeof *self->sides);
    if (self->geo.info->uneven) {
        self->peers = malloc ((size_t) n * 4 * n * sizeof *self->peers);
        if (!self->peers)
            return tl_error (TUTTI_ENOMEM, "out of memory");
    }
    for (uint32_t i = 0; i < n && !err; i++)
        err = s_map_side (self, i);
    return err;
}

static void
s_end_work (tl_request_t *self)
{
    if (self->working)
        tk_work_destroy (&self->work);
    self->working = false;
    free (self->peers);
    self->peers = NULL;
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
        .out = self->out,
        .in_place = tp_overwrites (&self->sig) &&
                    self->deposit.in_where == TP_WHERE_DIRECT &&
                    self->in.base == self->out.base,
    };
    char text[TP_TEXT_MAX];
    tutti_err_t err = s_map_sides (self);
    if (err)
        snprintf (text, sizeof text, "%s", tl_error_text ());
    else
        err = tk_work_init (&self->work, text);
    if (err)
        tp_board_fail (board, err, text);
    self->working = !err;
    if (err)
        s_end_work (self);
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
        s_end_work (self);
        s_finish (self);
    }
    if (result != TK_WORK_BLOCKED)
        tl_comm_wake (self->comm);
    return result != TK_WORK_BLOCKED;
}

//  How long the message is: told before its last segment is.
static void
s_learn (tl_request_t *self)
{
    if (self->sig.kind != TP_SENDRECV || self->out.pieces == 0 ||
        self->learned)
        return;
    uint64_t told = atomic_load (&self->cell->received);
    if (told == 0)
        return;
    uint64_t room = self->out.counts[0];
    self->learned = true;
    self->received = told - 1;
    if (self->received < room)
        self->words[0] = self->received;  //  the count of the output
    tp_geo_stretch (&self->geo, self->received < room ? self->received : room);
}

static bool
s_step_nodes (tl_request_t *self)
{
    uint32_t written = atomic_load (&self->cell->written);
    s_learn (self);
    if (s_take (self, written))
        return true;
    bool recv = self->sig.kind == TP_SENDRECV && self->out.pieces > 0;
    if ((recv && !self->learned) || written < self->geo.segments ||
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
    if (!tp_board_agree (board, self->seq, text))
        tp_board_fail (board, TUTTI_EMISMATCH, text);
    else if (self->geo.info->uneven && self->sig.kind != TP_SENDRECV &&
             tp_geo_stretch (&self->geo, tp_board_most (board, self->seq)))
        tp_board_fail (board, TUTTI_EPROTO,
                       "a rank has counts that cannot be");
    else
        s_enter (self, TL_WORKING);
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
    return (self->by_worker ? s_step_nodes (self)
                            : s_step_single (self, waiting)) ||
           moved;
}

//  ------------------------------------------------------------------ ending

//  The window is not given back: the worker of a failed comm may still be
//  writing to it. It returns with the session.
void
tl_request_fail (tl_request_t *self, tutti_err_t err, const char *text)
{
    s_end_work (self);
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
