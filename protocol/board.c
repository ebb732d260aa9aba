//  protocol/board.c - layout of the board, deposits, geometry of ops

#include "protocol/board.h"

#include <stdio.h>
#include <string.h>

#define FAIL_WRITING 1u
#define PATIENCE 1000000  //  loads, some milliseconds

static size_t
s_ranks_off (void)
{
    return sizeof (tp_board_t);
}

static size_t
s_cells_off (uint32_t n_local)
{
    return s_ranks_off () + n_local * sizeof (tp_board_rank_t);
}

static size_t
s_inline_off (uint32_t n_local)
{
    return s_cells_off (n_local) +
           (size_t) TP_SLOTS * n_local * sizeof (tp_cell_t);
}

size_t
tp_board_bytes (uint32_t n_local)
{
    size_t bytes =
        s_inline_off (n_local) + (size_t) TP_SLOTS * n_local * TP_INLINE_BYTES;
    return (bytes + 4095) & ~(size_t) 4095;
}

void
tp_board_init (tp_board_t *self, uint64_t comm, int64_t epoch, uint32_t size,
               uint32_t n_local, uint32_t nodes, uint64_t segment_bytes)
{
    self->magic = TP_BOARD_MAGIC;
    self->version = TP_BOARD_VERSION;
    self->bytes = tp_board_bytes (n_local);
    self->comm = comm;
    self->epoch = epoch;
    self->size = size;
    self->n_local = n_local;
    self->nodes = nodes;
    self->segment_bytes = segment_bytes;
}

bool
tp_board_ok (const tp_board_t *self, size_t bytes)
{
    return bytes >= sizeof *self && self->magic == TP_BOARD_MAGIC &&
           self->version == TP_BOARD_VERSION && self->n_local > 0 &&
           self->n_local <= TP_LOCAL_MAX && self->size >= self->n_local &&
           self->bytes == bytes && bytes == tp_board_bytes (self->n_local) &&
           self->segment_bytes >= TP_INLINE_BYTES;
}

tp_board_rank_t *
tp_board_rank (tp_board_t *self, uint32_t local)
{
    return (tp_board_rank_t *) (void *) ((uint8_t *) self + s_ranks_off ()) +
           local;
}

tp_cell_t *
tp_board_cell (tp_board_t *self, uint64_t seq, uint32_t local)
{
    size_t index = (size_t) (seq % TP_SLOTS) * self->n_local + local;
    return (tp_cell_t *) (void *) ((uint8_t *) self +
                                   s_cells_off (self->n_local)) +
           index;
}

void *
tp_board_inline (tp_board_t *self, uint64_t seq, uint32_t local)
{
    size_t index = (size_t) (seq % TP_SLOTS) * self->n_local + local;
    return (uint8_t *) self + s_inline_off (self->n_local) +
           index * TP_INLINE_BYTES;
}

bool
tp_board_room (tp_board_t *self, uint64_t seq)
{
    if (seq <= TP_SLOTS)
        return true;
    for (uint32_t i = 0; i < self->n_local; i++)
        if (atomic_load_explicit (&tp_board_rank (self, i)->finished,
                                  memory_order_acquire) < seq - TP_SLOTS)
            return false;
    return true;
}

void
tp_board_deposit (tp_board_t *self, uint64_t seq, uint32_t local,
                  const tp_deposit_t *deposit, uint32_t ready)
{
    tp_cell_t *cell = tp_board_cell (self, seq, local);
    cell->deposit = *deposit;
    atomic_store_explicit (&cell->claim, TP_CLAIM_NONE, memory_order_relaxed);
    atomic_store_explicit (&cell->ready, ready, memory_order_relaxed);
    atomic_store_explicit (&cell->read, 0, memory_order_relaxed);
    atomic_store_explicit (&cell->written, 0, memory_order_relaxed);
    //  Sequentially consistent: pairs with tp_wake_arm of a sleeper.
    atomic_store (&cell->seq, seq);
}

bool
tp_board_all_in (tp_board_t *self, uint64_t seq)
{
    for (uint32_t i = 0; i < self->n_local; i++)
        if (atomic_load (&tp_board_cell (self, seq, i)->seq) != seq)
            return false;
    return true;
}

bool
tp_board_agree (tp_board_t *self, uint64_t seq, char *text)
{
    const tp_sig_t *first = &tp_board_cell (self, seq, 0)->deposit.sig;
    for (uint32_t i = 1; i < self->n_local; i++) {
        const tp_sig_t *other = &tp_board_cell (self, seq, i)->deposit.sig;
        if (memcmp (first, other, sizeof *first) == 0)
            continue;
        char a[128], b[128];
        tp_sig_text (first, a, sizeof a);
        tp_sig_text (other, b, sizeof b);
        snprintf (text, TP_TEXT_MAX,
                  "op #%llu: rank %u called %s; rank %u called %s; "
                  "all ranks must make the same calls in the same order",
                  (unsigned long long) seq, tp_board_rank (self, 0)->rank, a,
                  tp_board_rank (self, i)->rank, b);
        return false;
    }
    return true;
}

//  A writer that died between its two stores must not keep the comm open: the
//  next one takes over after a while that no living writer needs.
tutti_err_t
tp_board_fail (tp_board_t *self, tutti_err_t err, const char *text)
{
    uint32_t state = 0;
    bool mine =
        atomic_compare_exchange_strong (&self->fail, &state, FAIL_WRITING);
    for (int i = 0; !mine && state == FAIL_WRITING && i < PATIENCE; i++)
        state = atomic_load (&self->fail);
    if (mine || state == FAIL_WRITING) {
        snprintf (self->text, sizeof self->text, "%s", text);
        atomic_store (&self->fail, (uint32_t) -err);
        return err;
    }
    return tp_board_error (self);
}

//  While the text is written the comm has not ended yet.
tutti_err_t
tp_board_error (tp_board_t *self)
{
    uint32_t fail = atomic_load_explicit (&self->fail, memory_order_acquire);
    if (fail == 0 || fail == FAIL_WRITING)
        return TUTTI_OK;
    return (tutti_err_t) - (int) fail;
}

//  ---------------------------------------------------------------- geometry

static uint64_t
s_segment_elements (uint64_t segment_bytes, size_t element, uint32_t pieces)
{
    uint64_t seg = segment_bytes / element / pieces;
    if (seg >= 64)
        seg &= ~UINT64_C (63);  //  cache lines stay whole
    return seg > 0 ? seg : 1;
}

tutti_err_t
tp_geo_make (tp_geo_t *self, const tp_sig_t *sig, uint32_t size,
             uint64_t segment_bytes)
{
    *self = (tp_geo_t){ .kind = sig->kind, .size = size, .segments = 1 };
    self->pieces =
        sig->kind == TP_ALLGATHER || sig->kind == TP_REDUCE_SCATTER ? size : 1;
    self->element = tp_dtype_size (sig->dtype);
    self->count = sig->kind == TP_BARRIER ? 0 : sig->count;
    uint64_t bytes;
    if (__builtin_mul_overflow (self->count, self->element, &bytes) ||
        __builtin_mul_overflow (bytes, self->pieces, &bytes) ||
        bytes > (UINT64_C (1) << 62))
        return TUTTI_EINVAL;
    self->small = bytes <= TP_INLINE_BYTES;
    self->seg =
        s_segment_elements (segment_bytes, self->element, self->pieces);
    if (self->small || self->count == 0)
        self->seg = self->count;
    if (self->seg > 0) {
        uint64_t segments = (self->count + self->seg - 1) / self->seg;
        if (segments > UINT32_MAX - TP_SLOTS)
            return TUTTI_EINVAL;
        self->segments = segments > 0 ? (uint32_t) segments : 1;
    }
    self->slot =
        (self->seg * self->pieces * self->element + 63) & ~UINT64_C (63);
    return TUTTI_OK;
}

uint64_t
tp_geo_len (const tp_geo_t *self, uint32_t g)
{
    uint64_t start = g * self->seg;
    uint64_t left = self->count - start;
    return left < self->seg ? left : self->seg;
}

//  Whole buffers keep the caller's layout (pieces COUNT apart); windows and
//  inline areas hold one segment of every piece (pieces SEG apart).
static void *
s_place (const tp_geo_t *self, const tp_side_t *side, uint32_t piece,
         uint32_t slot_piece, uint32_t g)
{
    if (side->where == TP_WHERE_DIRECT || side->where == TP_WHERE_PRIVATE)
        return side->base +
               (piece * self->count + g * self->seg) * self->element;
    uint64_t slot =
        side->where == TP_WHERE_WINDOW ? (g % side->window) * self->slot : 0;
    return side->base + slot + slot_piece * self->seg * self->element;
}

//  In a window the input of an all-gather lies where the rank's own piece of
//  the output will be, and the output of a reduce-scatter on its own piece of
//  the input, so that neither overwrites what others still read.
void *
tp_geo_in (const tp_geo_t *self, const tp_side_t *side, uint32_t r, uint32_t p,
           uint32_t g)
{
    if (self->kind == TP_ALLGATHER)
        return s_place (self, side, 0, r, g);
    return s_place (self, side, p, p, g);
}

void *
tp_geo_out (const tp_geo_t *self, const tp_side_t *side, uint32_t r,
            uint32_t p, uint32_t g)
{
    if (self->kind == TP_REDUCE_SCATTER)
        return s_place (self, side, 0, r, g);
    return s_place (self, side, p, p, g);
}

uint64_t
tp_geo_in_bytes (const tp_geo_t *self, bool root)
{
    uint64_t bytes = self->count * self->element;
    if (self->kind == TP_BROADCAST && !root)
        return 0;
    return self->kind == TP_REDUCE_SCATTER ? bytes * self->pieces : bytes;
}

uint64_t
tp_geo_out_bytes (const tp_geo_t *self)
{
    uint64_t bytes = self->count * self->element;
    return self->kind == TP_ALLGATHER ? bytes * self->pieces : bytes;
}
