//  kernels/work.c - one rank's output of a collective inside a node

#include "kernels/work.h"

#include "kernels/tk.h"

#include <stdlib.h>

tutti_err_t
tk_work_init (tk_work_t *self)
{
    self->next = self->flushed = 0;
    self->scratch = NULL;
    if (self->in_place) {
        size_t bytes = 2 * self->geo.seg * self->geo.element;
        self->scratch = malloc (bytes > 0 ? bytes : 1);
        if (!self->scratch)
            return TUTTI_ENOMEM;
    }
    return TUTTI_OK;
}

void
tk_work_destroy (tk_work_t *self)
{
    free (self->scratch);
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

//  DST = segment G of piece P, reduced over all ranks.
static void
s_reduce (const tk_work_t *self, void *dst, uint32_t p, uint32_t g)
{
    const void *src[TP_LOCAL_MAX];
    uint32_t n = self->geo.size;
    for (uint32_t r = 0; r < n; r++)
        src[r] = tp_geo_in (&self->geo, &self->in[r], r, p, g);
    tk_reduce (&dst, 1, src, (int) n, tp_geo_len (&self->geo, g),
               (tutti_dtype_t) self->sig.dtype, (tutti_op_t) self->sig.op, n,
               NULL);
}

static void
s_move (const tk_work_t *self, uint32_t from, uint32_t p, uint32_t g)
{
    void *dst = tp_geo_out (&self->geo, &self->out, self->me, p, g);
    const void *src = tp_geo_in (&self->geo, &self->in[from], from, p, g);
    if (dst != src)
        tk_copy (dst, src, tp_geo_len (&self->geo, g) * self->geo.element,
                 NULL);
}

static void *
s_scratch (const tk_work_t *self, uint32_t g)
{
    return self->scratch + (g % 2) * self->geo.seg * self->geo.element;
}

static void
s_compute (const tk_work_t *self, uint32_t g)
{
    switch (self->sig.kind) {
    case TP_ALLREDUCE:
        s_reduce (self,
                  self->in_place
                      ? s_scratch (self, g)
                      : tp_geo_out (&self->geo, &self->out, self->me, 0, g),
                  0, g);
        break;
    case TP_REDUCE_SCATTER:
        s_reduce (self,
                  tp_geo_out (&self->geo, &self->out, self->me, self->me, g),
                  self->me, g);
        break;
    case TP_ALLGATHER:
        for (uint32_t p = 0; p < self->geo.pieces; p++)
            s_move (self, p, p, g);
        break;
    case TP_BROADCAST:
        if (self->me != (uint32_t) self->sig.root)
            s_move (self, (uint32_t) self->sig.root, 0, g);
        break;
    default:
        break;
    }
}

static tk_work_result_t
s_step_in_place (tk_work_t *self, tp_cell_t *cell)
{
    uint32_t read = s_least (self, false);
    if (self->flushed < self->next && read > self->flushed) {
        uint32_t g = self->flushed;
        tk_copy (tp_geo_out (&self->geo, &self->out, self->me, 0, g),
                 s_scratch (self, g),
                 tp_geo_len (&self->geo, g) * self->geo.element, NULL);
        self->flushed++;
        atomic_store (&cell->written, self->flushed);
        return TK_WORK_MOVED;
    }
    if (self->next == self->geo.segments || self->next > self->flushed + 1 ||
        s_least (self, true) <= self->next)
        return TK_WORK_BLOCKED;
    s_compute (self, self->next);
    self->next++;
    atomic_store (&cell->read, self->next);
    return TK_WORK_MOVED;
}

static tk_work_result_t
s_step_direct (tk_work_t *self, tp_cell_t *cell)
{
    if (self->next == self->geo.segments || s_least (self, true) <= self->next)
        return TK_WORK_BLOCKED;
    s_compute (self, self->next);
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
