//  kernels/work.c - one rank's output of a collective inside a node

#include "kernels/work.h"

#include "kernels/tk.h"

#include <stdio.h>
#include <stdlib.h>

static bool
s_scaled (const tk_work_t *self)
{
    return self->sig.op == TUTTI_PREMUL_SUM && self->geo.info->reduces;
}

//  Sums of floats are kept in float32 anyway; those of integers only here.
static tutti_dtype_t
s_type (const tk_work_t *self)
{
    return self->sig.dtype <= TUTTI_UINT64 ? tk_wide (&self->sig)
                                           : (tutti_dtype_t) self->sig.dtype;
}

//  Elements of a piece in AUX: every input, and the sum.
static uint8_t *
s_aux (const tk_work_t *self, uint32_t i)
{
    return self->aux + i * self->geo.seg * tp_dtype_size ((int) s_type (self));
}

bool
tk_work_fits (const tp_geo_t *geo, const tp_sig_t *sig, const tp_side_t *in,
              const tp_side_t *out, uint32_t r, char *text)
{
    for (uint32_t p = 0; out->counts && !geo->info->reduces && p < out->pieces;
         p++) {
        uint32_t q, from = tp_geo_source (geo, sig, r, p, &q);
        const tp_side_t *side = &in[from];
        if (side->pieces == 0 || side->counts[q] == out->counts[p])
            continue;
        snprintf (text, TP_TEXT_MAX,
                  "%s: rank %u sends %llu elements to rank %u, which expects "
                  "%llu",
                  geo->info->name, from, (unsigned long long) side->counts[q],
                  r, (unsigned long long) out->counts[p]);
        return false;
    }
    return true;
}

tutti_err_t
tk_work_init (tk_work_t *self, char *text)
{
    self->next = self->flushed = 0;
    self->scratch = self->aux = NULL;
    if (!tk_work_fits (&self->geo, &self->sig, self->in, &self->out, self->me,
                       text))
        return TUTTI_EMISMATCH;
    snprintf (text, TP_TEXT_MAX, "no memory for an operation");
    if (self->in_place)
        self->scratch = malloc (2 * self->geo.slot + 1);
    bool aux = self->geo.info->reduces &&
               (s_scaled (self) || s_type (self) != self->sig.dtype);
    if (aux)
        self->aux = malloc (
            (size_t) (s_aux (self, self->geo.size + 1) - s_aux (self, 0)) + 1);
    if ((self->in_place && !self->scratch) || (aux && !self->aux)) {
        tk_work_destroy (self);
        return TUTTI_ENOMEM;
    }
    return TUTTI_OK;
}

void
tk_work_destroy (tk_work_t *self)
{
    free (self->scratch);
    free (self->aux);
    *self = (tk_work_t){ 0 };
}

//  The smallest of a counter over all ranks: ready (true) or read (false).
static uint32_t
s_least (const tk_work_t *self, bool ready)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < self->geo.size; i++) {
        tp_cell_t *cell = tp_board_cell (self->board, self->seq, i);
        uint32_t value = atomic_load (ready ? &cell->ready : &cell->read);
        if (value < least)
            least = value;
    }
    return least;
}

//  DST = LEN elements of segment G of piece Q, reduced over all ranks.
static void
s_reduce (const tk_work_t *self, void *dst, uint32_t q, uint32_t g,
          uint64_t len)
{
    const void *src[TP_LOCAL_MAX];
    uint32_t n = self->geo.size;
    tutti_dtype_t own = (tutti_dtype_t) self->sig.dtype, type = s_type (self);
    tutti_op_t op = s_scaled (self) ? TUTTI_SUM : (tutti_op_t) self->sig.op;
    for (uint32_t r = 0; r < n; r++)
        src[r] = tp_geo_in (&self->geo, &self->in[r], r, q, g);
    for (uint32_t r = 0; self->aux && r < n; r++) {
        double factor =
            s_scaled (self)
                ? tp_board_cell (self->board, self->seq, r)->deposit.scale
                : 1.0;
        tk_bring (s_aux (self, r), type, src[r], own, len, factor);
        src[r] = s_aux (self, r);
    }
    void *sum = type == own ? dst : s_aux (self, n);
    tk_reduce (&sum, 1, src, (int) n, len, type, op, n, NULL);
    if (sum != dst)
        tk_resize (dst, own, sum, type, len);
}

//  Segment G of my whole output to OUT.
static void
s_compute (const tk_work_t *self, const tp_side_t *out, uint32_t g)
{
    const tp_geo_t *geo = &self->geo;
    for (uint32_t p = 0; p < self->out.pieces; p++) {
        uint32_t q, from = tp_geo_source (geo, &self->sig, self->me, p, &q);
        uint64_t len = tp_geo_len (geo, &self->out, p, g);
        if (len == 0)
            continue;
        void *dst = tp_geo_out (geo, out, self->me, p, g);
        if (geo->info->reduces) {
            s_reduce (self, dst, q, g, len);
            continue;
        }
        const void *src = tp_geo_in (geo, &self->in[from], from, q, g);
        if (dst != src)
            tk_copy (dst, src, len * geo->element, NULL);
    }
}

static tp_side_t
s_scratch (const tk_work_t *self)
{
    return (tp_side_t){ .base = self->scratch,
                        .where = TP_WHERE_WINDOW,
                        .window = 2 };
}

static void
s_flush (const tk_work_t *self, uint32_t g)
{
    tp_side_t scratch = s_scratch (self);
    for (uint32_t p = 0; p < self->out.pieces; p++) {
        uint64_t len = tp_geo_len (&self->geo, &self->out, p, g);
        if (len > 0)
            tk_copy (tp_geo_out (&self->geo, &self->out, self->me, p, g),
                     tp_geo_out (&self->geo, &scratch, self->me, p, g),
                     len * self->geo.element, NULL);
    }
}

static tk_work_result_t
s_step_in_place (tk_work_t *self, tp_cell_t *cell)
{
    uint32_t read = s_least (self, false);
    if (self->flushed < self->next && read > self->flushed) {
        s_flush (self, self->flushed);
        self->flushed++;
        atomic_store (&cell->written, self->flushed);
        return TK_WORK_MOVED;
    }
    if (self->next == self->geo.segments || self->next > self->flushed + 1 ||
        s_least (self, true) <= self->next)
        return TK_WORK_BLOCKED;
    tp_side_t scratch = s_scratch (self);
    s_compute (self, &scratch, self->next);
    self->next++;
    atomic_store (&cell->read, self->next);
    return TK_WORK_MOVED;
}

static tk_work_result_t
s_step_direct (tk_work_t *self, tp_cell_t *cell)
{
    if (self->next == self->geo.segments || s_least (self, true) <= self->next)
        return TK_WORK_BLOCKED;
    s_compute (self, &self->out, self->next);
    self->next++;
    self->flushed = self->next;
    atomic_store (&cell->written, self->next);
    atomic_store (&cell->read, self->next);
    return TK_WORK_MOVED;
}

tk_work_result_t
tk_work_step (tk_work_t *self)
{
    tp_cell_t *cell = tp_board_cell (self->board, self->seq, self->me);
    if (self->flushed == self->geo.segments &&
        s_least (self, false) == self->geo.segments)
        return TK_WORK_DONE;
    return self->in_place ? s_step_in_place (self, cell)
                          : s_step_direct (self, cell);
}
