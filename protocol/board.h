//  protocol/board.h - the shared segment of a communicator on one node
//
//  A ring of TP_SLOTS op slots; op SEQ (from 1) uses slot SEQ % TP_SLOTS. As
//  many slots again are for named ops, which ranks may submit in any order:
//  their SEQ is TP_NAMED | use of the slot | slot, made by the local rank that
//  comes first with the key of a name (tp_board_name); between nodes they go
//  by the key. A slot has one cell per local rank. A rank deposits its part of
//  an op in its cell and publishes it by storing the seq; blocking and
//  asynchronous calls deposit alike and so match each other. A slot may be
//  used again when every local rank has left the op that used it (`finished`,
//  or tp_board_unname).
//
//  Who works: on a comm that lives on one node the ranks themselves (each
//  writes its own output from all the inputs), or the worker for a rank that
//  called asynchronously and does not wait; the claim word decides, once. On
//  a comm of several nodes the worker. A rank writes its own memory and its
//  own cells only; only the worker writes memory of others. Claimed work of
//  a live process is never taken back.
//
//  An op is cut into segments; counters in the cell say how far it is:
//    ready    segments that may be worked on, as far as this rank is concerned
//             (staged: copied in, and the place of the output is free)
//    read     segments whose inputs the executor of this rank's output has
//             read: when all have read a segment, its inputs may change
//    written  segments of this rank's output that are written
//
//  Memory of the board is writable by every local rank of the job, so the
//  worker copies a deposit once, checks the copy and never looks again.

#ifndef TP_BOARD_H
#define TP_BOARD_H

#include "protocol/geo.h"
#include "protocol/local.h"

#define TP_BOARD_MAGIC 0x44414f42u  //  "BOAD"
#define TP_BOARD_VERSION 3u
#define TP_SLOTS 64u
#define TP_NAMED (UINT64_C (1) << 63)   //  of a seq, and of a key
#define TP_INLINE_BYTES TP_EAGER_BYTES  //  of a cell: input, and output
#define TP_NO_SEGMENT UINT32_MAX

typedef enum tp_claim {
    TP_CLAIM_NONE,
    TP_CLAIM_RANK,
    TP_CLAIM_WORKER
} tp_claim_t;

typedef struct tp_deposit {
    tp_sig_t sig;
    uint32_t in_where, out_where;      //  tp_where_t
    uint32_t in_segment, out_segment;  //  DIRECT
    uint64_t in_off, out_off;
    uint32_t window_segment;  //  WINDOW
    uint32_t window;          //  slots of it, 0: none yet
    uint64_t window_off;
    //  Uneven ops: where the words of this rank are (geo.h), and the largest
    //  count among them.
    uint64_t words_off, most;
    uint32_t words_segment;
    uint32_t async;  //  the caller did not wait at once
    int32_t priority;
    double scale;    //  of the input, before a PREMUL_SUM
    uint32_t peer;   //  sendrecv: the other rank
    uint64_t stamp;  //  arrival, ticks of this node
} tp_deposit_t;

typedef struct tp_cell {
    _Alignas(64) _Atomic uint64_t seq;  //  published last
    tp_deposit_t deposit;
    _Alignas(64) _Atomic uint32_t claim;
    _Atomic uint32_t ready;
    _Atomic uint32_t read;
    _Atomic uint32_t written;
    //  sendrecv: 1 + elements of the whole message, once the receiver's node
    //  knows; before the last of `written`.
    _Atomic uint64_t received;
} tp_cell_t;

//  Finished ops of a rank by kind; buckets of duration end at 10 us, 100 us,
//  1 ms, 10 ms, 100 ms, 1 s, 10 s and never.
#define TP_BUCKETS 8
typedef struct tp_tally {
    _Atomic uint64_t ops, bytes, us;
    _Atomic uint64_t bucket[TP_BUCKETS];
} tp_tally_t;

typedef struct tp_board_rank {
    _Alignas(64) _Atomic uint64_t finished;  //  every op up to this is left
    uint32_t rank;                           //  in the comm
    uint32_t world_rank;
    uint32_t session;  //  in the wake page
    uint32_t pid;
    tp_tally_t tally[TP_KINDS];
} tp_board_rank_t;

//  A named op that is in flight on this node; under the board's lock.
typedef struct tp_named {
    _Atomic uint64_t seq;  //  0: free
    uint64_t key, uses;
    uint32_t left;  //  local ranks that have left it,
    uint32_t want;  //  of so many that take part
} tp_named_t;

typedef struct tp_board {
    uint32_t magic, version;
    uint64_t bytes;
    uint64_t comm;
    int64_t epoch;
    uint32_t size, n_local, nodes, pad;
    uint64_t segment_bytes;  //  of a segment's vector, all pieces
    //  The end of the comm: 0, then 1 while the text is written, then minus
    //  the error. The first writer wins.
    _Atomic uint32_t fail;
    char text[TP_TEXT_MAX];
    _Atomic uint32_t algorithm;  //  of the last op between nodes, for reports
    _Atomic uint32_t lock;       //  spins; of `named`
    tp_named_t named[TP_SLOTS];
    //  A slot's verdict (elastic comms): TP_OPEN, then COMMIT or ABORT once.
    _Alignas(64) _Atomic uint32_t verdict[TP_SLOTS];
    //  then n_local tp_board_rank_t, 2 * TP_SLOTS * n_local tp_cell_t, and
    //  as many inline areas
} tp_board_t;

//  Bytes of a board for N_LOCAL ranks.
size_t
tp_board_bytes (uint32_t n_local);

//  Set up a zeroed board; ranks are filled in by tp_board_rank.
void
tp_board_init (tp_board_t *self, uint64_t comm, int64_t epoch, uint32_t size,
               uint32_t n_local, uint32_t nodes, uint64_t segment_bytes);

//  Whether a mapped board of BYTES is one of ours (client, after COMM).
bool
tp_board_ok (const tp_board_t *self, size_t bytes);

tp_board_rank_t *
tp_board_rank (tp_board_t *self, uint32_t local);
tp_cell_t *
tp_board_cell (tp_board_t *self, uint64_t seq, uint32_t local);
void *
tp_board_inline (tp_board_t *self, uint64_t seq, uint32_t local);

//  The slot of an op, below 2 * TP_SLOTS.
uint32_t
tp_board_slot (uint64_t seq);

//  The key of the OCCURRENCE-th op of a comm with this NAME, never 0.
uint64_t
tp_board_key (const char *name, uint64_t occurrence);

//  The seq of the named op KEY on this node, in which WANT local ranks take
//  part; 0: all slots are in use, or the comm has ended. Then each of them
//  leaves it once.
uint64_t
tp_board_name (tp_board_t *self, uint64_t key, uint32_t want);
void
tp_board_unname (tp_board_t *self, uint64_t seq);

//  The key of a named op that has not been left by all.
uint64_t
tp_board_key_of (tp_board_t *self, uint64_t seq);

//  "op #17", or "a named op": how texts begin.
const char *
tp_board_op_text (uint64_t seq, char *text, size_t len);

//  Whether every local rank has left op SEQ - TP_SLOTS, so SEQ may deposit.
bool
tp_board_room (tp_board_t *self, uint64_t seq);

//  Publish a deposit in an empty cell. The counters are reset before.
void
tp_board_deposit (tp_board_t *self, uint64_t seq, uint32_t local,
                  const tp_deposit_t *deposit, uint32_t ready);

//  Whether local rank LOCAL has deposited SEQ; whether all that take part did.
bool
tp_board_in (tp_board_t *self, uint64_t seq, uint32_t local);
bool
tp_board_all_in (tp_board_t *self, uint64_t seq);

//  The signature of the first local rank in SEQ.
const tp_sig_t *
tp_board_sig (tp_board_t *self, uint64_t seq);

//  Compare the signatures of SEQ, all of whose deposits are in. True: equal.
//  False: TEXT (TP_TEXT_MAX) names both sides.
bool
tp_board_agree (tp_board_t *self, uint64_t seq, char *text);

//  The largest count of SEQ, all of whose deposits are in (uneven ops).
uint64_t
tp_board_most (tp_board_t *self, uint64_t seq);

//  End the comm with an error, if nobody has yet. Returns the error it has
//  now ended with.
tutti_err_t
tp_board_fail (tp_board_t *self, tutti_err_t err, const char *text);

//  TUTTI_OK, or the error the comm has ended with (text in self->text).
tutti_err_t
tp_board_error (tp_board_t *self);

#endif
