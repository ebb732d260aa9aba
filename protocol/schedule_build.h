//  protocol/schedule_build.h - private to schedule*.c: adding steps
//
//  A build remembers the first error, so that algorithms read as plain lists.

#ifndef TP_SCHEDULE_BUILD_H
#define TP_SCHEDULE_BUILD_H

#include "protocol/schedule.h"

typedef struct tp_build {
    tp_schedule_t *schedule;
    const tp_case_t *what;
    const uint64_t *off;  //  n + 1 offsets of the parts of the vector
    tutti_err_t err;
} tp_build_t;

//  References: OFF elements into a buffer.
tp_ref_t
tp_work (uint64_t off);
tp_ref_t
tp_temp (uint64_t off);

//  Append one step.
void
tp_send (tp_build_t *self, uint32_t peer, uint64_t count, tp_ref_t dst,
         tp_ref_t src);
void
tp_recv (tp_build_t *self, uint32_t peer, uint64_t count);
void
tp_reduce (tp_build_t *self, uint64_t count, tp_ref_t dst, tp_ref_t a,
           tp_ref_t b);
void
tp_copy (tp_build_t *self, uint64_t count, tp_ref_t dst, tp_ref_t src);
void
tp_wait (tp_build_t *self);

//  Elements of part I.
uint64_t
tp_part_len (const tp_build_t *self, uint32_t i);

//  One algorithm each; WORK and TEMP sizes are set by them where they differ
//  from the vector's length and 0.
void
tp_make_star (tp_build_t *self);
void
tp_make_ring (tp_build_t *self);
void
tp_make_doubling (tp_build_t *self);
void
tp_make_halving (tp_build_t *self);
void
tp_make_tree (tp_build_t *self);
void
tp_make_direct (tp_build_t *self);
void
tp_make_dissemination (tp_build_t *self);
void
tp_make_pairwise (tp_build_t *self);

//  Parts that are reduced go from their owners to the root (reduce).
void
tp_parts_to_root (tp_build_t *self);

//  Folding of n nodes to a power of two: of the first 2r nodes the even ones
//  hand their vector to the next odd one and get the result back.
typedef struct tp_fold {
    uint32_t power;  //  nodes that go on
    uint32_t extra;  //  pairs that folded
    uint32_t id;     //  mine among them; UINT32_MAX: folded away
} tp_fold_t;

//  The fold of N nodes as NODE sees it.
tp_fold_t
tp_fold (uint32_t n, uint32_t node);
//  Node of a folded id.
uint32_t
tp_unfold (const tp_fold_t *fold, uint32_t id);
//  The steps before and after; the handed vector lands in TEMP at 0.
void
tp_fold_in (tp_build_t *self, const tp_fold_t *fold);
void
tp_fold_out (tp_build_t *self, const tp_fold_t *fold);

#endif
