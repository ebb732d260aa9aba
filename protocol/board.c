//  protocol/board.c - layout of the board, deposits

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
           (size_t) 2 * TP_SLOTS * n_local * sizeof (tp_cell_t);
}

size_t
tp_board_bytes (uint32_t n_local)
{
    size_t bytes = s_inline_off (n_local) +
                   (size_t) 2 * TP_SLOTS * n_local * TP_INLINE_BYTES;
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

uint32_t
tp_board_slot (uint64_t seq)
{
    uint32_t slot = (uint32_t) (seq % TP_SLOTS);
    return seq & TP_NAMED ? TP_SLOTS + slot : slot;
}

//  FNV-1a (Fowler, Noll, Vo), then splitmix64's finaliser.
uint64_t
tp_board_key (const char *name, uint64_t occurrence)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *name; name++)
        h = (h ^ (uint8_t) *name) * 0x100000001b3u;
    h ^= occurrence * 0x9e3779b97f4a7c15u;
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
    h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
    return (h ^ (h >> 31)) | TP_NAMED;
}

//  False: the comm has ended, maybe because who had the lock died.
static bool
s_lock (tp_board_t *self)
{
    uint32_t free_lock = 0;
    while (!atomic_compare_exchange_weak (&self->lock, &free_lock, 1)) {
        free_lock = 0;
        if (tp_board_error (self))
            return false;
    }
    return true;
}

uint64_t
tp_board_name (tp_board_t *self, uint64_t key, uint32_t want)
{
    tp_named_t *free_place = NULL;
    uint64_t seq = 0;
    if (!s_lock (self))
        return 0;
    for (uint32_t i = 0; i < TP_SLOTS && seq == 0; i++) {
        tp_named_t *named = &self->named[i];
        uint64_t used = atomic_load (&named->seq);
        if (used != 0 && named->key == key)
            seq = used;
        if (used == 0 && !free_place)
            free_place = named;
    }
    if (seq == 0 && free_place) {
        uint32_t slot = (uint32_t) (free_place - self->named);
        seq = TP_NAMED | ++free_place->uses * TP_SLOTS | slot;
        free_place->key = key;
        free_place->left = 0;
        free_place->want = want;
        atomic_store (&free_place->seq, seq);
    }
    atomic_store (&self->lock, 0);
    return seq;
}

void
tp_board_unname (tp_board_t *self, uint64_t seq)
{
    tp_named_t *named = &self->named[seq % TP_SLOTS];
    if (!s_lock (self))
        return;
    if (++named->left == named->want)
        atomic_store (&named->seq, 0);
    atomic_store (&self->lock, 0);
}

uint64_t
tp_board_key_of (tp_board_t *self, uint64_t seq)
{
    return self->named[seq % TP_SLOTS].key | TP_NAMED;
}

const char *
tp_board_op_text (uint64_t seq, char *text, size_t len)
{
    if (seq & TP_NAMED)
        snprintf (text, len, "a named op");
    else
        snprintf (text, len, "op #%llu", (unsigned long long) seq);
    return text;
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
    size_t index = (size_t) tp_board_slot (seq) * self->n_local + local;
    return (tp_cell_t *) (void *) ((uint8_t *) self +
                                   s_cells_off (self->n_local)) +
           index;
}

void *
tp_board_inline (tp_board_t *self, uint64_t seq, uint32_t local)
{
    size_t index = (size_t) tp_board_slot (seq) * self->n_local + local;
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
    atomic_store_explicit (&cell->received, 0, memory_order_relaxed);
    //  Sequentially consistent: pairs with tp_wake_arm of a sleeper.
    atomic_store (&cell->seq, seq);
}

bool
tp_board_in (tp_board_t *self, uint64_t seq, uint32_t local)
{
    return atomic_load (&tp_board_cell (self, seq, local)->seq) == seq;
}

bool
tp_board_all_in (tp_board_t *self, uint64_t seq)
{
    uint32_t want = self->n_local, in = 0;
    if (seq & TP_NAMED)
        want = self->named[seq % TP_SLOTS].want;
    for (uint32_t i = 0; i < self->n_local; i++) {
        in += tp_board_in (self, seq, i);
        if (in <= i && want == self->n_local)
            return false;  //  all must be, and one is not
    }
    return in >= want;
}

static uint32_t
s_first_in (tp_board_t *self, uint64_t seq)
{
    uint32_t first = 0;
    while (first + 1 < self->n_local && !tp_board_in (self, seq, first))
        first++;
    return first;
}

const tp_sig_t *
tp_board_sig (tp_board_t *self, uint64_t seq)
{
    return &tp_board_cell (self, seq, s_first_in (self, seq))->deposit.sig;
}

bool
tp_board_agree (tp_board_t *self, uint64_t seq, char *text)
{
    uint32_t one = s_first_in (self, seq);
    const tp_sig_t *first = &tp_board_cell (self, seq, one)->deposit.sig;
    for (uint32_t i = one + 1; i < self->n_local; i++) {
        const tp_sig_t *other = &tp_board_cell (self, seq, i)->deposit.sig;
        if (!tp_board_in (self, seq, i) ||
            memcmp (first, other, sizeof *first) == 0)
            continue;
        char a[128], b[128], what[32];
        tp_sig_text (first, a, sizeof a);
        tp_sig_text (other, b, sizeof b);
        snprintf (text, TP_TEXT_MAX,
                  "%s: rank %u called %s; rank %u called %s; "
                  "all ranks must make the same calls in the same order",
                  tp_board_op_text (seq, what, sizeof what),
                  tp_board_rank (self, one)->rank, a,
                  tp_board_rank (self, i)->rank, b);
        return false;
    }
    return true;
}

uint64_t
tp_board_most (tp_board_t *self, uint64_t seq)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < self->n_local; i++) {
        uint64_t own = tp_board_cell (self, seq, i)->deposit.most;
        if (tp_board_in (self, seq, i) && own > most)
            most = own;
    }
    return most;
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
