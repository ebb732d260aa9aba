//  kernels/work.h - one rank's output of a collective inside a node
//
//  On a communicator that lives on one node, every output is made by one
//  executor: the rank itself while it waits, or the worker for a rank that
//  does not (protocol/board.h, claim). The executor reads all inputs and
//  writes only that output. It never waits: step () does at most one segment
//  and says whether it moved, so one thread can drive many.
//
//  Owner: whoever holds the claim. Not thread safe.

#ifndef TK_WORK_H
#define TK_WORK_H

#include "protocol/board.h"

typedef enum tk_work_result {
    TK_WORK_BLOCKED,  //  waits for other ranks
    TK_WORK_MOVED,    //  did something; call again
    TK_WORK_DONE      //  output written, and nobody reads my input any more
} tk_work_result_t;

typedef struct tk_work {
    tp_board_t *board;
    uint64_t seq;
    uint32_t me;  //  local index = rank
    tp_sig_t sig;
    tp_geo_t geo;
    const tp_side_t *in;  //  the caller's: one per rank
    tp_side_t out;
    bool in_place;     //  out overwrites what others read: go by scratch
    uint8_t *scratch;  //  ours: two segments, if in_place
    uint8_t *aux;      //  ours: inputs scaled or widened
    uint32_t next;     //  segment to read
    uint32_t flushed;  //  segments written
} tk_work_t;

//  Start on *self whose board, seq, me, sig, geo, in, out and in_place are
//  set: all deposits of seq are in and agree; `in` stays until destroy.
//  TUTTI_EMISMATCH: the counts of an uneven op do not fit, TEXT (TP_TEXT_MAX)
//  says whose; TUTTI_ENOMEM.
tutti_err_t
tk_work_init (tk_work_t *self, char *text);

void
tk_work_destroy (tk_work_t *self);

//  Do at most one segment.
tk_work_result_t
tk_work_step (tk_work_t *self);

//  Whether every piece that rank R takes has as many elements as its sender
//  brings; if not, TEXT names both. IN has the sides of all ranks, or of those
//  that are known (pieces 0: not known).
bool
tk_work_fits (const tp_geo_t *geo, const tp_sig_t *sig, const tp_side_t *in,
              const tp_side_t *out, uint32_t r, char *text);

#endif
