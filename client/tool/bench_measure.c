//  client/tool/bench_measure.c - one size: time, wire, CPU, wrong elements
//
//  The ranks tell each other what they measured by the collectives that they
//  measure, in five copies of which the middle one counts: a transport that
//  flips bits (--corrupt) can spoil the benchmark's own numbers too.

#include "client/tool/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define COPIES 5
#define VALUES_MAX 4
#define TARGET_NS 300000000  //  of the timed part of a size
#define ITERATIONS_MIN 5
#define CHECKS_SMALL 6  //  ops that are checked
#define CHECKS_LARGE 2
#define SMALL_BYTES (1u << 20)
#define POISON 0xa5

int64_t
bench_now_ns (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return (int64_t) now.tv_sec * 1000000000 + now.tv_nsec;
}

static int
s_by_value (const void *a, const void *b)
{
    int64_t x = *(const int64_t *) a, y = *(const int64_t *) b;
    return (x > y) - (x < y);
}

void
bench_agree (const bench_t *self, int64_t *values, size_t n, tutti_op_t op)
{
    int64_t copies[VALUES_MAX * COPIES], middle[COPIES];
    for (size_t c = 0; c < COPIES; c++)
        memcpy (copies + c * n, values, n * sizeof *values);
    bench_check (self, tutti_allreduce (copies, copies, n * COPIES,
                                        TUTTI_INT64, op, self->comm));
    for (size_t i = 0; i < n; i++) {
        for (size_t c = 0; c < COPIES; c++)
            middle[c] = copies[c * n + i];
        qsort (middle, COPIES, sizeof *middle, s_by_value);
        values[i] = middle[COPIES / 2];
    }
}

//  ------------------------------------------------------------------- calls

typedef struct call {
    const void *send;
    void *recv;
    size_t count;
} call_t;

//  Where input and output lie. In place, an allgather's or gather's input is
//  its part of the output, a reduce-scatter's or scatter's output its part of
//  the input; off the root they are apart as ever.
static call_t
s_place (const bench_t *self, size_t count, bool in_place)
{
    const bench_options_t *o = self->options;
    const tp_kind_info_t *info = tp_kind_info ((int) o->kind);
    tp_sig_t sig = { .kind = (uint8_t) o->kind, .root = o->root };
    size_t part = (size_t) self->rank * count * tp_dtype_size ((int) o->dtype);
    call_t call = { self->send, self->recv, count };
    tp_form_t in = tp_form_in (&sig, (uint32_t) self->rank);
    tp_form_t out = tp_form_out (&sig, (uint32_t) self->rank);
    if (o->kind == TP_BROADCAST)
        call.send = self->recv;
    else if (!in_place || in == TP_FORM_NONE || out == TP_FORM_NONE)
        return call;
    else if (info->in == TP_FORM_ONE && info->out == TP_FORM_EACH)
        call.send = self->recv + part;
    else if (info->in == TP_FORM_EACH && info->out == TP_FORM_ONE)
        call.recv = self->send + part;
    else
        call.send = self->recv;
    return call;
}

static tutti_err_t
s_call_async (const bench_t *self, const call_t *c)
{
    const bench_options_t *o = self->options;
    tutti_request_t *request = NULL;
    tutti_err_t err = TUTTI_ENOTSUP;
    switch (o->kind) {
    case TP_ALLREDUCE:
        err = tutti_allreduce_async (c->send, c->recv, c->count, o->dtype,
                                     o->op, self->comm, NULL, &request);
        break;
    case TP_ALLGATHER:
        err = tutti_allgather_async (c->send, c->recv, c->count, o->dtype,
                                     self->comm, NULL, &request);
        break;
    case TP_REDUCE_SCATTER:
        err = tutti_reduce_scatter_async (c->send, c->recv, c->count, o->dtype,
                                          o->op, self->comm, NULL, &request);
        break;
    case TP_BROADCAST:
        err = tutti_broadcast_async (c->recv, c->count, o->dtype, o->root,
                                     self->comm, NULL, &request);
        break;
    case TP_REDUCE:
        err = tutti_reduce_async (c->send, c->recv, c->count, o->dtype, o->op,
                                  o->root, self->comm, NULL, &request);
        break;
    case TP_GATHER:
        err = tutti_gather_async (c->send, c->recv, c->count, o->dtype,
                                  o->root, self->comm, NULL, &request);
        break;
    case TP_SCATTER:
        err = tutti_scatter_async (c->send, c->recv, c->count, o->dtype,
                                   o->root, self->comm, NULL, &request);
        break;
    case TP_ALLTOALL:
        err = tutti_alltoall_async (c->send, c->recv, c->count, o->dtype,
                                    self->comm, NULL, &request);
        break;
    default:
        err = tutti_barrier_async (self->comm, NULL, &request);
    }
    return err ? err : tutti_wait (&request, TUTTI_FOREVER);
}

static tutti_err_t
s_call (const bench_t *self, const call_t *c)
{
    const bench_options_t *o = self->options;
    if (o->async)
        return s_call_async (self, c);
    switch (o->kind) {
    case TP_ALLREDUCE:
        return tutti_allreduce (c->send, c->recv, c->count, o->dtype, o->op,
                                self->comm);
    case TP_ALLGATHER:
        return tutti_allgather (c->send, c->recv, c->count, o->dtype,
                                self->comm);
    case TP_REDUCE_SCATTER:
        return tutti_reduce_scatter (c->send, c->recv, c->count, o->dtype,
                                     o->op, self->comm);
    case TP_BROADCAST:
        return tutti_broadcast (c->recv, c->count, o->dtype, o->root,
                                self->comm);
    case TP_REDUCE:
        return tutti_reduce (c->send, c->recv, c->count, o->dtype, o->op,
                             o->root, self->comm);
    case TP_GATHER:
        return tutti_gather (c->send, c->recv, c->count, o->dtype, o->root,
                             self->comm);
    case TP_SCATTER:
        return tutti_scatter (c->send, c->recv, c->count, o->dtype, o->root,
                              self->comm);
    case TP_ALLTOALL:
        return tutti_alltoall (c->send, c->recv, c->count, o->dtype,
                               self->comm);
    default:
        return tutti_barrier (self->comm);
    }
}

//  -------------------------------------------------------------- time, cost

//  What this rank, and for its node the agent, has used so far.
typedef struct usage {
    int64_t cpu_us, wire_bytes;
    char algorithm[16];
} usage_t;

static int64_t
s_us (const struct timeval *time)
{
    return (int64_t) time->tv_sec * 1000000 + time->tv_usec;
}

static void
s_usage (const bench_t *self, usage_t *usage)
{
    struct rusage own;
    tutti_stats_t stats = TUTTI_STATS_INIT;
    bench_check (self, tutti_comm_stats (self->comm, &stats));
    getrusage (RUSAGE_SELF, &own);
    usage->cpu_us = s_us (&own.ru_utime) + s_us (&own.ru_stime);
    usage->wire_bytes = 0;
    if (self->speaks_for_node) {
        usage->cpu_us += (int64_t) stats.agent_cpu_us;
        usage->wire_bytes = (int64_t) stats.wire_bytes;
    }
    memcpy (usage->algorithm, stats.algorithm, sizeof usage->algorithm);
}

//  Warm up, and see how often the op can be timed; the same on all ranks.
//  *first_us_p: the first call, 0 without a warm-up.
static int
s_iterations (const bench_t *self, const call_t *call, double *first_us_p)
{
    const bench_options_t *o = self->options;
    int warmup = o->warmup;
    if (o->iterations == 0 && warmup < 2)
        warmup = 2;  //  one connects and allocates, one is timed
    int64_t begun = bench_now_ns (), start = begun;
    for (int i = 0; i < warmup; i++) {
        bench_check (self, s_call (self, call));
        if (i == 0)
            start = bench_now_ns ();
    }
    *first_us_p = (double) (start - begun) / 1e3;
    if (o->iterations > 0)
        return o->iterations;
    int64_t each = (bench_now_ns () - start) / (warmup - 1) + 1;
    bench_agree (self, &each, 1, TUTTI_MAX);
    int64_t n = TARGET_NS / each;
    n = n < ITERATIONS_MIN ? ITERATIONS_MIN : n;
    return (int) (n < BENCH_ITERATIONS_MAX ? n : BENCH_ITERATIONS_MAX);
}

static int
s_by_time (const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

//  Returns this rank's mean, in ns.
static int64_t
s_time (const bench_t *self, const call_t *call, int iterations)
{
    bench_check (self, tutti_barrier (self->comm));
    int64_t begun = bench_now_ns (), last = begun;
    for (int i = 0; i < iterations; i++) {
        bench_check (self, s_call (self, call));
        int64_t now = bench_now_ns ();
        self->times[i] = (double) (now - last) / 1e3;
        last = now;
    }
    return (last - begun) / iterations;
}

static void
s_measure (const bench_t *self, bench_row_t *row, bool in_place)
{
    bench_way_t *way = &row->way[in_place];
    call_t call = s_place (self, row->count, in_place);
    int iterations = s_iterations (self, &call, &way->first_us);
    usage_t before, after;
    bench_check (self, tutti_barrier (self->comm));
    s_usage (self, &before);
    int64_t mean = s_time (self, &call, iterations);
    s_usage (self, &after);
    memcpy (row->algorithm, after.algorithm, sizeof row->algorithm);
    int64_t most[] = { mean, after.wire_bytes - before.wire_bytes };
    int64_t sum[] = { after.cpu_us - before.cpu_us, most[1] };
    bench_agree (self, most, 2, TUTTI_MAX);
    bench_agree (self, sum, 2, TUTTI_SUM);
    qsort (self->times, (size_t) iterations, sizeof *self->times, s_by_time);
    way->done = true;
    way->time_us = (double) most[0] / 1e3;
    way->time_us_p99 = self->times[(iterations * 99 - 1) / 100];
    way->wire_bytes_max = (double) most[1] / iterations;
    way->wire_bytes_sum = (double) sum[1] / iterations;
    way->cpu_us = (double) sum[0] / iterations;
}

//  ------------------------------------------------------------------- check

//  The input of an op, and an output that no op has written.
static void
s_prepare (const bench_t *self, const call_t *call, size_t bytes, int parity)
{
    memset (self->recv, POISON, bytes);
    if (!bench_has_input (self))
        return;
    if (self->options->kind != TP_BROADCAST)
        bench_data_fill (self, (void *) call->send, call->count, parity);
    else
        bench_data_fill (self, call->recv, call->count, parity);
}

static void
s_check (const bench_t *self, bench_row_t *row, bool in_place)
{
    call_t call = s_place (self, row->count, in_place);
    int64_t wrong = 0;
    int n = row->bytes <= SMALL_BYTES ? CHECKS_SMALL : CHECKS_LARGE;
    for (int i = 0; i < n; i++) {
        s_prepare (self, &call, row->bytes, i & 1);
        bench_check (self, s_call (self, &call));
        wrong += bench_data_wrong (self, call.recv, call.count, i & 1);
    }
    bench_agree (self, &wrong, 1, TUTTI_SUM);
    row->way[in_place].wrong = wrong;
}

void
bench_sizes (const bench_t *self, size_t bytes, bench_row_t *row)
{
    size_t size = tp_dtype_size ((int) self->options->dtype);
    size_t n = (size_t) self->size;
    const tp_kind_info_t *info = tp_kind_info ((int) self->options->kind);
    bool parts = info->in == TP_FORM_EACH || info->out == TP_FORM_EACH;
    row->count = bytes / size / (parts ? n : 1);
    if (row->count == 0)
        row->count = 1;
    row->bytes = row->count * size * (parts ? n : 1);
    if (self->options->kind == TP_BARRIER)
        row->bytes = row->count = 0;
}

void
bench_measure (bench_t *self, bench_row_t *row)
{
    for (int in_place = 0; in_place < 2; in_place++) {
        if (self->options->in_place == !in_place)
            continue;
        //  Timed on numbers, not on what the memory happened to hold.
        call_t call = s_place (self, row->count, in_place);
        s_prepare (self, &call, row->bytes, 0);
        s_measure (self, row, in_place);
        if (self->options->check)
            s_check (self, row, in_place);
    }
}
