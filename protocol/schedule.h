//  protocol/schedule.h - a collective as a list of steps
//
//  A schedule is what ONE node does in one segment of one op. It is a pure
//  function of its arguments: no clock, no socket, no data. The executor of
//  the agent runs it over a transport; unit tests interpret the schedules of
//  all nodes in one process; a simulator can price it.
//
//  Two buffers: WORK is the node's vector (input before, result after), TEMP
//  is scratch of tp_schedule_t.temp elements. Sizes and offsets are elements.
//
//  Data moves by one-sided puts: SEND names where the bytes land at the peer,
//  because the peer's schedule is known here. A put may land at any moment
//  after the peer made its buffers, so every schedule keeps this rule: no
//  place that a peer may still put into is read or written by an earlier
//  step, and two puts never share a place, unless the first one's effect is
//  what caused the second. Tests deliver puts as early as possible and as
//  late as possible to prove it.
//
//  Reductions: REDUCE sets dst = a (op) b with the operand of the lower node
//  left, so all nodes compute the same bits.
//
//  Algorithms: Thakur, Rabenseifner, Gropp, "Optimization of Collective
//  Communication Operations in MPICH", IJHPCA 19(1), 2005; Bruck et al.,
//  IEEE TPDS 8(11), 1997 (all-gather for any n); Hensgen, Finkel, Manber,
//  IJPP 17(1), 1988 (dissemination barrier).

#ifndef TP_SCHEDULE_H
#define TP_SCHEDULE_H

#include "protocol/types.h"

typedef enum tp_algorithm {
    TP_STAR,  //  master-worker: the honest baseline
    TP_RING,
    TP_DOUBLING,  //  recursive doubling; Bruck for all-gather; any n
    TP_HALVING,   //  halving reduce-scatter + doubling all-gather; any n
    TP_TREE,      //  binomial tree (broadcast, reduce)
    TP_DIRECT,    //  every part straight to its owner; the reproducible mode
    TP_DISSEMINATION,
    TP_PAIRWISE,  //  every piece straight to where it goes
    TP_ALGORITHMS
} tp_algorithm_t;

//  SEND     put COUNT elements of src at dst of the peer; returns at once. The
//           n-th SEND to a peer meets its n-th RECV from us
//  RECV     until the next put of this peer has landed
//  REDUCE   dst = a (op) b, a = src, b = src2; dst may be src or src2
//  COPY     dst = src; no overlap
//  WAIT     until the sources of all SENDs so far may be overwritten
typedef enum tp_step_op {
    TP_STEP_SEND,
    TP_STEP_RECV,
    TP_STEP_REDUCE,
    TP_STEP_COPY,
    TP_STEP_WAIT
} tp_step_op_t;

typedef enum tp_buf { TP_WORK, TP_TEMP } tp_buf_t;

typedef struct tp_ref {
    uint32_t buf;  //  tp_buf_t
    uint32_t pad;
    uint64_t off;  //  elements
} tp_ref_t;

typedef struct tp_step {
    uint32_t op;     //  tp_step_op_t
    uint32_t peer;   //  node index (SEND, RECV)
    uint64_t count;  //  elements; 0 is legal (a bare notification)
    tp_ref_t dst;    //  SEND: place in the PEER's buffers
    tp_ref_t src;
    tp_ref_t src2;
} tp_step_t;

typedef struct tp_schedule {
    tp_step_t *steps;  //  ours
    size_t length;
    size_t room;
    uint64_t work;  //  elements of WORK
    uint64_t temp;  //  elements of TEMP
} tp_schedule_t;

//  One collective among N nodes. PARTS[i] is the number of elements that node
//  i owns of the vector, in the order of the nodes:
//    allreduce       parts NULL; WORK has count elements
//    broadcast       parts NULL; root is a node index
//    barrier         nothing moves
//    reduce_scatter  WORK has sum (parts) elements, all of them input; on
//                    return the own part is reduced, the rest undefined
//    allgather       WORK has sum (parts) elements; on entry the own part is
//                    filled, on return all are
//    reduce          parts NULL; the result is in WORK of root, in the others'
//                    it is undefined
//    gather, scatter, alltoall, sendrecv
//                    what moves is listed: sends of this node, and for each
//                    what the peer's list says of it in recvs, in the same
//                    order. WORK has count elements, TEMP temp
//  Parts of 0 are legal. n = 1 gives an empty schedule. Uneven kinds are as
//  their even ones.
typedef struct tp_item {
    uint32_t peer;
    uint32_t pad;
    uint64_t count;  //  elements
    uint64_t src;    //  in WORK (sends)
    tp_ref_t dst;    //  at the peer (sends)
} tp_item_t;

typedef struct tp_items {
    const tp_item_t *list;  //  the caller's, by peer
    size_t length;
} tp_items_t;

typedef struct tp_case {
    uint32_t kind;       //  tp_kind_t
    uint32_t algorithm;  //  tp_algorithm_t
    uint32_t node;       //  0 <= node < n
    uint32_t n;
    uint32_t root;
    uint64_t count;
    const uint64_t *parts;
    tp_items_t sends, recvs;
    uint64_t temp;
    //  Reproducible allreduce and reduce_scatter (TP_DIRECT only): the rank
    //  blocks of the nodes, see below. NULL: node i is leaf i of the tree.
    const struct tp_blocks *blocks;
} tp_case_t;

//  Reproducible order: the reduction is the balanced binary tree over
//  rank numbers, leaf i = rank i; a range that is no power of two is split at
//  the largest power of two below its length. A block is a maximal subtree
//  whose ranks all live on one node; the node reduces it by itself, in tree
//  order. WORK then has, one behind the other, the node's blocks in order of
//  their first rank: work = blocks of this node x vector elements; the result
//  stands in the first.
typedef struct tp_block {
    uint32_t first;  //  first rank
    uint32_t count;  //  ranks
    uint32_t node;
} tp_block_t;

typedef struct tp_blocks {
    tp_block_t *list;  //  ours, ordered by first rank
    uint32_t length;
    uint32_t ranks;
} tp_blocks_t;

//  Whether ALGORITHM exists for KIND.
bool
tp_algorithm_ok (int kind, int algorithm);

//  "ring"; "?" out of range. Value of a name, or -1.
const char *
tp_algorithm_name (int algorithm);
int
tp_algorithm_value (const char *name);

//  Make the schedule of one node. *self must be zeroed or an old schedule,
//  whose memory is reused. TUTTI_EINVAL: no such algorithm for this kind, or
//  a node out of range, or parts missing; TUTTI_ENOMEM. On error *self is
//  empty but may be destroyed.
tutti_err_t
tp_schedule_make (tp_schedule_t *self, const tp_case_t *what);

//  Free the steps; *self is zeroed.
void
tp_schedule_destroy (tp_schedule_t *self);

//  The largest power of two below COUNT (COUNT >= 2): where a tree splits.
uint32_t
tp_tree_split (uint32_t count);

//  Maximal subtrees of ranks 0..ranks-1 that live on one node each;
//  node_of[r] is the node of rank r. TUTTI_ENOMEM.
tutti_err_t
tp_blocks_make (tp_blocks_t *self, const uint32_t *node_of, uint32_t ranks);
void
tp_blocks_destroy (tp_blocks_t *self);

//  Part i of COUNT elements split evenly among N: offset of part I; the part
//  ends where part I + 1 begins. I may be N. Exact for any 64-bit count.
uint64_t
tp_part (uint64_t count, uint32_t n, uint32_t i);

#endif
