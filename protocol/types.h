//  protocol/types.h - collectives, signatures and names, for every part
//
//  Pure data and pure functions: no clock, no socket, no allocation.

#ifndef TP_TYPES_H
#define TP_TYPES_H

#include "protocol/tutti_types.h"

#include <stdbool.h>

//  Bumped when peers could misread each other: major refuses, minor adapts.
#define TP_PROTOCOL_MAJOR 1
#define TP_PROTOCOL_MINOR 0
#define TP_PROTOCOL ((TP_PROTOCOL_MAJOR << 16) | TP_PROTOCOL_MINOR)

//  Limits. Everything read from a peer is checked against them first.
#define TP_NAME_MAX 64       //  job and node names, with the zero
#define TP_TEXT_MAX 512      //  one sentence for a human, with the zero
#define TP_VERSION_MAX 32    //  "1.0.0", with the zero
#define TP_BUILD_MAX 48      //  a build id in hex, with the zero
#define TP_RANKS_MAX 65536   //  ranks of a job
#define TP_LOCAL_MAX 256     //  ranks of a job on one node
#define TP_NODES_MAX 4096    //  nodes of a job
#define TP_EAGER_BYTES 4096  //  inputs this small travel in the deposit

typedef enum tp_kind {
    TP_BARRIER,
    TP_ALLREDUCE,
    TP_ALLGATHER,
    TP_REDUCE_SCATTER,
    TP_BROADCAST,
    TP_REDUCE,
    TP_GATHER,
    TP_SCATTER,
    TP_ALLTOALL,
    TP_ALLGATHERV,
    TP_REDUCE_SCATTERV,
    TP_GATHERV,
    TP_SCATTERV,
    TP_ALLTOALLV,
    TP_SENDRECV,  //  from root to one other rank
    TP_KINDS
} tp_kind_t;

//  What a rank brings to a collective or takes from it: nothing, one piece,
//  or a piece for (of) each rank.
typedef enum tp_form { TP_FORM_NONE, TP_FORM_ONE, TP_FORM_EACH } tp_form_t;
typedef enum tp_who { TP_WHO_ALL, TP_WHO_ROOT, TP_WHO_OTHERS } tp_who_t;

typedef struct tp_kind_info {
    const char *name;
    tp_form_t in;
    tp_who_t in_who;  //  has an input
    tp_form_t out;
    tp_who_t out_who;
    bool reduces;    //  else pieces are only moved
    bool rooted;     //  the signature names a root
    bool uneven;     //  pieces have counts of their own
    tp_kind_t even;  //  the same with equal counts
} tp_kind_info_t;

//  KIND < TP_KINDS.
const tp_kind_info_t *
tp_kind_info (int kind);

//  Flags of a signature.
#define TP_SIG_WIDE 1u          //  partial sums travel as 32 bit
#define TP_SIG_REPRODUCIBLE 2u  //  balanced tree over rank numbers

//  What a rank says it calls. Ranks of one op must agree in every field; it
//  is compared before data moves, and both sides are printed. 24 bytes,
//  no padding: it travels in frames and lies in the board as it is.
typedef struct tp_sig {
    uint8_t kind;    //  tp_kind_t
    uint8_t dtype;   //  tutti_dtype_t
    uint8_t op;      //  tutti_op_t; 0 where nothing is reduced
    uint8_t flags;   //  TP_SIG_*
    int32_t root;    //  -1 where there is none; allgatherv, reduce_scatterv:
                     //  a hash of the counts, which all ranks know
    uint64_t count;  //  elements, in the unit of the call's count argument;
                     //  of those two all together, of other uneven kinds 0
    uint32_t
        algorithm;  //  tp_algorithm_t + 1 when the caller forced it, else 0
    uint32_t name;  //  hash of the op's name, 0: none
} tp_sig_t;

_Static_assert(sizeof (tp_sig_t) == 24, "tp_sig_t is wire and memory layout");

//  Bytes of one element; 0 for a value that is no type.
size_t
tp_dtype_size (int dtype);

//  "allreduce", "float32", "sum"; "?" for a value out of range.
const char *
tp_kind_name (int kind);
const char *
tp_dtype_name (int dtype);
const char *
tp_op_name (int op);

//  The value of a name, or -1.
int
tp_kind_value (const char *name);
int
tp_dtype_value (const char *name);
int
tp_op_value (const char *name);

//  Whether every field is in range and the op is defined for the type
//  (bitwise on integers only, reductions only where the kind reduces).
//  Root is checked against SIZE ranks.
bool
tp_sig_ok (const tp_sig_t *sig, uint32_t size);

//  What RANK brings and takes.
tp_form_t
tp_form_in (const tp_sig_t *sig, uint32_t rank);
tp_form_t
tp_form_out (const tp_sig_t *sig, uint32_t rank);

//  Whether an output in the place of the input overwrites what other ranks
//  still read.
bool
tp_overwrites (const tp_sig_t *sig);

//  "allreduce float32 x1024 sum", at most LEN bytes with the zero.
void
tp_sig_text (const tp_sig_t *sig, char *text, size_t len);

//  Names of jobs and nodes: [A-Za-z0-9._-], 1 to 63 of them.
bool
tp_name_ok (const char *name);

#endif
