//  client/tool/bench_overlap.c - how much of an op computation hides
//
//  Per size: the op alone, a computation that takes as long, then both: start
//  the op, compute, wait. Hidden is the part of the op that cost no time,
//    (op + compute - both) / op
//  1 where the op moves by itself, 0 where it moves only inside the wait. A
//  machine needs a core for the ranks and one for the agent; with fewer, bind
//  the ranks (taskset) to see what is left to the agent.

#include "client/tool/bench.h"

#include <stdio.h>
#include <stdlib.h>

#define ROUNDS 15

//  Arithmetic that touches no memory.
static double
s_compute (int64_t steps)
{
    volatile double seed = 1.0000001;
    double x = seed, y = 1.0;
    for (int64_t i = 0; i < steps; i++) {
        y = y * x + 1e-9;
        y = y > 1e9 ? 1.0 : y;
    }
    return y;
}

static volatile double s_sink;

static int64_t
s_time_compute (int64_t steps)
{
    int64_t begun = bench_now_ns ();
    s_sink = s_compute (steps);
    return bench_now_ns () - begun;
}

typedef struct overlap {
    const bench_t *bench;
    size_t count;
    int64_t steps;  //  of the computation
} overlap_t;

//  The op, and the computation if there is one, in ns.
static int64_t
s_time_both (const overlap_t *self, bool compute)
{
    const bench_t *b = self->bench;
    tutti_request_t *request = NULL;
    bench_check (b, tutti_barrier (b->comm));
    int64_t begun = bench_now_ns ();
    bench_check (b, tutti_allreduce_async (b->recv, b->recv, self->count,
                                           TUTTI_FLOAT32, TUTTI_SUM, b->comm,
                                           NULL, &request));
    if (compute)
        s_sink = s_compute (self->steps);
    bench_check (b, tutti_wait (&request, TUTTI_FOREVER));
    return bench_now_ns () - begun;
}

static int
s_by_time (const void *a, const void *b)
{
    int64_t x = *(const int64_t *) a, y = *(const int64_t *) b;
    return (x > y) - (x < y);
}

//  Medians of the slowest rank.
static int64_t
s_median (const bench_t *bench, int64_t *times)
{
    qsort (times, ROUNDS, sizeof *times, s_by_time);
    bench_agree (bench, &times[ROUNDS / 2], 1, TUTTI_MAX);
    return times[ROUNDS / 2];
}

static void
s_print (const bench_t *b, size_t bytes, int64_t op, int64_t compute,
         int64_t both)
{
    double hidden = (double) (op + compute - both) / (double) op;
    if (b->rank != 0)
        return;
    if (b->options->json)
        printf ("{\"collective\":\"allreduce\",\"mode\":\"overlap\","
                "\"bytes\":%zu,\"ranks\":%d,\"nodes\":%d,\"op_us\":%.1f,"
                "\"compute_us\":%.1f,\"both_us\":%.1f,\"hidden\":%.3f}\n",
                bytes, b->size, b->nodes, (double) op / 1e3,
                (double) compute / 1e3, (double) both / 1e3, hidden);
    else
        printf ("  %12zu B  op %10.1f us  compute %10.1f us  both %10.1f us  "
                "hidden %4.0f %%\n",
                bytes, (double) op / 1e3, (double) compute / 1e3,
                (double) both / 1e3, 100 * hidden);
    fflush (stdout);
}

void
bench_overlap (const bench_t *bench, size_t bytes)
{
    overlap_t self = { .bench = bench, .count = bytes / sizeof (float) };
    int64_t op[ROUNDS], compute[ROUNDS], both[ROUNDS];
    if (self.count == 0)
        self.count = 1;
    for (int i = 0; i < ROUNDS; i++)
        op[i] = s_time_both (&self, false);
    int64_t alone = s_median (bench, op);
    //  As many steps as take so long; the slowest rank's number for all.
    int64_t each = s_time_compute (1000000);
    self.steps = (int64_t) ((double) alone / (double) each * 1e6) + 1;
    bench_agree (bench, &self.steps, 1, TUTTI_MIN);
    for (int i = 0; i < ROUNDS; i++) {
        bench_check (bench, tutti_barrier (bench->comm));
        compute[i] = s_time_compute (self.steps);
        both[i] = s_time_both (&self, true);
        op[i] = s_time_both (&self, false);
    }
    s_print (bench, bytes, s_median (bench, op), s_median (bench, compute),
             s_median (bench, both));
}
