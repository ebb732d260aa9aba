//  client/tool/bench.h - tutti bench: what its files share
//
//  bench.c          launches itself as ranks, or is one; the sizes
//  bench_options.c  the command line
//  bench_measure.c  one size: time, bytes on the wire, CPU, wrong elements
//  bench_data.c     input that gives exact results, and their check
//  bench_tensors.c  the gradients of a model, three ways
//  bench_overlap.c  how much of an op computation hides
//  bench_print.c    the table of nccl-tests, or JSON lines

#ifndef TOOL_BENCH_H
#define TOOL_BENCH_H

#include "client/tutti.h"

#include "protocol/types.h"

#include <stdbool.h>

typedef struct bench_options {
    tp_kind_t kind;
    int ranks, nodes;  //  0: not said
    size_t min, max;   //  bytes of the larger buffer
    int factor;
    int iterations;  //  0: by time
    int warmup;
    tutti_dtype_t dtype;
    tutti_op_t op;
    int root;
    int in_place;  //  0, 1; 2: both
    bool check, async, private_memory, corrupt, reproducible, json, overlap;
    const char *tensors;                //  "resnet50" or a file; NULL: none
    const char *algorithm, *transport;  //  NULL: not said
    const char *http;                   //  as tutti run has them
    char **netns, **addresses;
    int timeout_s;
    bool verbose;
} bench_options_t;

//  What one way (out of place, in place) gave; agreed between all ranks.
typedef struct bench_way {
    bool done;
    double time_us;      //  mean of the slowest rank
    double time_us_p99;  //  of rank 0
    double first_us;     //  the first call, of rank 0; in no other number
    int64_t wrong;       //  elements, all ranks
    double wire_bytes_max, wire_bytes_sum, cpu_us;  //  per op
} bench_way_t;

typedef struct bench_row {
    size_t bytes, count;  //  count: as in the call
    bench_way_t way[2];   //  in place: 1
    char algorithm[16];
} bench_row_t;

//  One rank of the benchmark. The buffers are as long as the largest size.
typedef struct bench {
    const bench_options_t *options;
    tutti_comm_t *comm;
    int rank, size, nodes;
    bool speaks_for_node;  //  first rank of its node
    char transport[16];
    uint8_t *send, *recv;
    double *times;  //  us, room for BENCH_ITERATIONS_MAX
} bench_t;

#define BENCH_ITERATIONS_MAX 10000

//  Read the command line. -1: go on; else the exit status.
int
bench_options_read (bench_options_t *self, int argc, char **argv);

//  Ends the process with the library's sentence unless ERR is TUTTI_OK.
void
bench_check (const bench_t *self, tutti_err_t err);

//  N values, combined over all ranks.
void
bench_agree (const bench_t *self, int64_t *values, size_t n, tutti_op_t op);

//  Monotonic.
int64_t
bench_now_ns (void);

//  Memory as --memory says; NULL without any.
void *
bench_memory (const bench_t *self, size_t bytes);
void
bench_memory_free (const bench_t *self, void *memory);

//  Measure and print the tensors of a model. Returns wrong elements; -1: it
//  could not, the reason is on stderr.
int64_t
bench_tensors (const bench_t *self, const char *what);

//  Measure and print one size.
void
bench_overlap (const bench_t *self, size_t bytes);

//  Elements of the call, and bytes of the larger buffer, for BYTES asked for.
void
bench_sizes (const bench_t *self, size_t bytes, bench_row_t *row);

//  Measure one size.
void
bench_measure (bench_t *self, bench_row_t *row);

//  Whether the check is exact for this type, op and number of ranks.
bool
bench_data_ok (const bench_options_t *options, int size);

//  Write the input of this rank: COUNT elements of the call (bench_row_t). The
//  two parities differ in every element's neighbourhood.
void
bench_data_fill (const bench_t *self, void *send, size_t count, int parity);

//  Whether this rank brings an input.
bool
bench_has_input (const bench_t *self);

//  Elements of the output that are not what they should be.
int64_t
bench_data_wrong (const bench_t *self, const void *recv, size_t count,
                  int parity);

//  Elements in the input and in the output of a call with COUNT.
size_t
bench_in_count (const bench_t *self, size_t count);
size_t
bench_out_count (const bench_t *self, size_t count);

//  Rank 0 prints: before the first row, a row, after the last.
void
bench_print_head (const bench_t *self);
void
bench_print_row (const bench_t *self, const bench_row_t *row);
void
bench_print_tail (const bench_t *self, const bench_row_t *rows, size_t n);

#endif
