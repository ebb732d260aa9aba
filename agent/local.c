//  agent/local.c - one node: outputs of ranks that called and went on
//
//  On a comm that lives on one node ranks do their own work while they wait.
//  A rank that called asynchronously and computes meanwhile leaves it to the
//  worker: the last rank to deposit rings the bell, and here its output is
//  claimed and made, segment by segment (kernels/work.h). Only outputs in the
//  agent's memory can be; the others wait for their rank. A rank that is in a
//  wait does its own work: on a machine without a core to spare the worker
//  would only be in its way.

#include "agent/channel_impl.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GRACE_NS 100000  //  a rank that submits may wait just after

static void
s_free (ta_channel_t *self, ta_local_t *local)
{
    ta_member_t *m = local->member;
    for (uint32_t i = 0; local->work && i < m->n_local; i++) {
        const tp_deposit_t *d = &local->deposit[i];
        if (local->work[i].board)
            tk_work_destroy (&local->work[i]);
        if (local->in[i].base && d->in_where == TP_WHERE_DIRECT)
            ta_memory_unuse (self->memory, d->in_segment);
        if (local->in[i].base && d->in_where == TP_WHERE_WINDOW)
            ta_memory_unuse (self->memory, d->window_segment);
    }
    free (local->deposit);
    free (local->in);
    free (local->out);
    free (local->words);
    free (local->work);
    free (local);
}

static ta_local_t *
s_new (ta_channel_t *self, ta_member_t *m, uint64_t seq)
{
    ta_local_t *local = calloc (1, sizeof *local);
    if (!local)
        return NULL;
    local->member = m;
    local->seq = seq;
    local->deposit = calloc (m->n_local, sizeof *local->deposit);
    local->in = calloc (m->n_local, sizeof *local->in);
    local->out = calloc (m->n_local, sizeof *local->out);
    local->work = calloc (m->n_local, sizeof *local->work);
    if (!local->deposit || !local->in || !local->out || !local->work) {
        free (local->work);
        local->work = NULL;
        s_free (self, local);
        return NULL;
    }
    for (uint32_t i = 0; i < m->n_local; i++)
        local->deposit[i] = tp_board_cell (m->board, seq, i)->deposit;
    return local;
}

//  Pieces and, of an uneven op, copies of the counts of rank I.
static bool
s_words (ta_channel_t *self, ta_local_t *local, const tp_geo_t *geo,
         uint32_t i)
{
    const tp_deposit_t *d = &local->deposit[i];
    size_t n = tp_geo_words (&d->sig, geo->size, i);
    uint64_t *words = NULL;
    if (n > 0) {
        if (!local->words)
            local->words = calloc ((size_t) 4 * geo->size * geo->size,
                                   sizeof *local->words);
        const void *from = ta_memory_use (self->memory, d->words_segment,
                                          d->words_off, n * sizeof *words);
        if (!local->words || !from)
            return false;
        words = local->words + (size_t) i * 4 * geo->size;
        memcpy (words, from, n * sizeof *words);
        ta_memory_unuse (self->memory, d->words_segment);
    }
    tp_geo_sides (geo, &d->sig, i, words, &local->in[i], &local->out[i]);
    return true;
}

//  Input of rank I as the worker sees it. False: it is not there.
static bool
s_side (ta_channel_t *self, ta_local_t *local, const tp_geo_t *geo, uint32_t i)
{
    const tp_deposit_t *d = &local->deposit[i];
    tp_side_t *side = &local->in[i];
    uint64_t bytes = tp_geo_bytes (geo, side);
    side->where = d->in_where;
    side->window = d->window;
    switch (d->in_where) {
    case TP_WHERE_NONE:
        return bytes == 0;
    case TP_WHERE_INLINE:
        side->base = tp_board_inline (local->member->board, local->seq, i);
        return geo->small;
    case TP_WHERE_DIRECT:
        side->base =
            ta_memory_use (self->memory, d->in_segment, d->in_off, bytes);
        return side->base != NULL;
    case TP_WHERE_WINDOW:
        if (d->window == 0 || d->window > TP_SLOTS)
            return false;
        side->base = ta_memory_use (self->memory, d->window_segment,
                                    d->window_off, d->window * geo->slot);
        return side->base != NULL;
    default:
        return false;
    }
}

//  Whether the output of rank I may be the worker's, and is nobody's yet.
static bool
s_open (const ta_local_t *local, uint32_t i)
{
    const tp_deposit_t *d = &local->deposit[i];
    tp_board_t *board = local->member->board;
    tp_cell_t *cell = tp_board_cell (board, local->seq, i);
    return d->async && d->out_where == TP_WHERE_DIRECT &&
           tp_board_in (board, local->seq, i) &&
           atomic_load (&cell->claim) == TP_CLAIM_NONE;
}

//  Begin the output of rank I, which is claimed: nobody else can do it any
//  more, so an error is the comm's.
static void
s_begin (ta_channel_t *self, ta_local_t *local, uint32_t i)
{
    const tp_deposit_t *d = &local->deposit[i];
    char text[TP_TEXT_MAX] = "a rank deposited memory that is not there";
    tp_side_t *out = &local->out[i];
    out->where = TP_WHERE_DIRECT;
    out->base = ta_memory_use (self->memory, d->out_segment, d->out_off,
                               tp_geo_bytes (&local->geo, out));
    local->work[i] = (tk_work_t){
        .board = local->member->board,
        .seq = local->seq,
        .me = i,
        .sig = d->sig,
        .geo = local->geo,
        .in = local->in,
        .out = *out,
        .in_place = tp_overwrites (&d->sig) &&
                    d->in_where == TP_WHERE_DIRECT &&
                    d->in_segment == d->out_segment && d->in_off == d->out_off,
    };
    tutti_err_t err =
        out->base ? tk_work_init (&local->work[i], text) : TUTTI_EPROTO;
    if (!err) {
        local->open++;
        return;
    }
    if (out->base)
        ta_memory_unuse (self->memory, d->out_segment);
    local->work[i].board = NULL;
    ta_channel_fail (self, local->member, err, text);
}

//  Claim outputs of ranks that are not inside a wait.
static void
s_claim (ta_channel_t *self, ta_local_t *local)
{
    ta_member_t *m = local->member;
    for (uint32_t i = 0; i < m->n_local && !m->failed; i++) {
        uint32_t none = TP_CLAIM_NONE;
        if (!s_open (local, i) ||
            atomic_load (&self->wake->session[m->session[i]].present) > 0)
            continue;
        tp_cell_t *cell = tp_board_cell (m->board, local->seq, i);
        if (atomic_compare_exchange_strong (&cell->claim, &none,
                                            TP_CLAIM_WORKER))
            s_begin (self, local, i);
    }
}

static bool
s_any_open (const ta_local_t *local)
{
    for (uint32_t i = 0; i < local->member->n_local; i++)
        if (s_open (local, i))
            return true;
    return false;
}

static int64_t
s_now_ns (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return (int64_t) now.tv_sec * 1000000000 + now.tv_nsec;
}

static void
s_start (ta_channel_t *self, ta_member_t *m, uint64_t seq)
{
    char text[TP_TEXT_MAX];
    ta_local_t *local = s_new (self, m, seq);
    if (!local)
        return;
    const tp_sig_t *sig = &local->deposit[0].sig;
    tp_geo_t *geo = &local->geo;
    bool ok = s_any_open (local) && tp_board_agree (m->board, seq, text) &&
              tp_sig_ok (sig, m->size) &&
              !tp_geo_make (geo, sig, m->size, m->board->segment_bytes) &&
              (!geo->info->uneven ||
               !tp_geo_stretch (geo, tp_board_most (m->board, seq)));
    for (uint32_t i = 0; ok && i < m->n_local; i++)
        ok = s_words (self, local, geo, i);
    for (uint32_t i = 0; ok && i < m->n_local; i++)
        ok = s_side (self, local, geo, i);
    if (!ok) {
        s_free (self, local);
        return;
    }
    local->due_ns = s_now_ns () + GRACE_NS;
    ta_local_t **end = &m->locals;  //  the oldest is the first to be worked on
    while (*end)
        end = &(*end)->next;
    *end = local;
}

//  Nothing of SEQ is left to look at: every rank has left it.
static bool
s_passed (ta_member_t *m, uint64_t seq)
{
    for (uint32_t i = 0; i < m->n_local; i++)
        if (atomic_load (&tp_board_rank (m->board, i)->finished) < seq)
            return false;
    return true;
}

//  A window that is still to come makes the whole op wait its turn.
static bool
s_windows_in (ta_member_t *m, uint64_t seq)
{
    for (uint32_t i = 0; i < m->n_local; i++)
        if (atomic_load (&tp_board_cell (m->board, seq, i)->ready) == 0)
            return false;
    return true;
}

static void
s_take (ta_channel_t *self, ta_member_t *m, uint64_t seq)
{
    s_start (self, m, seq);
    //  Ranks that sleep in their own epoll can go on now.
    for (uint32_t i = 0; i < m->n_local; i++)
        ta_channel_wake (self, m, i);
}

static void
s_scan_named (ta_channel_t *self, ta_member_t *m)
{
    for (uint32_t i = 0; i < TP_SLOTS; i++) {
        uint64_t seq = atomic_load (&m->board->named[i].seq);
        if (seq == 0 || seq == m->begun[i] ||
            tp_board_slot (seq) != TP_SLOTS + i ||
            !tp_board_all_in (m->board, seq) ||
            tp_board_sig (m->board, seq)->kind == TP_SENDRECV ||
            !s_windows_in (m, seq))
            continue;
        m->begun[i] = seq;
        s_take (self, m, seq);
    }
}

void
ta_local_scan (ta_channel_t *self, ta_member_t *m)
{
    s_scan_named (self, m);
    while (true) {
        if (s_passed (m, m->next)) {
            uint64_t least = UINT64_MAX;
            for (uint32_t i = 0; i < m->n_local; i++) {
                uint64_t f =
                    atomic_load (&tp_board_rank (m->board, i)->finished);
                least = f < least ? f : least;
            }
            m->next = least + 1;
            continue;
        }
        if (!tp_board_all_in (m->board, m->next) || !s_windows_in (m, m->next))
            return;
        s_take (self, m, m->next);
        m->next++;
    }
}

//  One step of every open output of one op.
static bool
s_run (ta_channel_t *self, ta_local_t *local)
{
    bool moved = false;
    ta_member_t *m = local->member;
    for (uint32_t i = 0; i < m->n_local; i++) {
        tk_work_t *work = &local->work[i];
        if (!work->board)
            continue;
        tk_work_result_t result = tk_work_step (work);
        if (result == TK_WORK_BLOCKED)
            continue;
        moved = true;
        if (result == TK_WORK_DONE) {
            tk_work_destroy (work);
            ta_memory_unuse (self->memory, local->deposit[i].out_segment);
            local->open--;
        }
    }
    for (uint32_t i = 0; moved && i < m->n_local; i++)
        ta_channel_wake (self, m, i);
    return moved;
}

bool
ta_local_run (ta_channel_t *self, ta_member_t *m)
{
    bool moved = false;
    ta_local_t **p = &m->locals;
    int64_t now = *p ? s_now_ns () : 0;
    while (*p) {
        ta_local_t *local = *p;
        bool open = s_any_open (local);
        if (open && now >= local->due_ns)
            s_claim (self, local);
        moved |= s_run (self, local);
        if (local->open == 0 && !s_any_open (local)) {
            *p = local->next;
            s_free (self, local);
        }
        else
            p = &local->next;
    }
    return moved;
}

void
ta_local_drop (ta_channel_t *self, ta_member_t *m)
{
    while (m->locals) {
        ta_local_t *local = m->locals;
        m->locals = local->next;
        for (uint32_t i = 0; i < m->n_local; i++)
            if (local->work[i].board)
                ta_memory_unuse (self->memory, local->deposit[i].out_segment);
        s_free (self, local);
    }
}
