//  client/tool/bench_tensors.c - the gradients of a model, three ways
//
//    blocking  one allreduce after the other
//    async     all submitted, then all waited for
//    fused     copied by hand into buffers of 25 MB, as torch's DDP does,
//              reduced, copied back
//  Gradients come in the order of the backward pass, the last layer first.
//  The ways take turns in every round, so that a slow moment hits all.

#include "client/tool/bench.h"
#include "client/tool/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TENSORS_MAX 4096
#define FUSED_BYTES ((size_t) 25 << 20)
#define ROUNDS 10
#define ALIGN 64  //  elements

typedef enum mode { BLOCKING, ASYNC, FUSED, MODES } way_t;
static const char *const s_modes[MODES] = { "blocking", "async", "fused" };

typedef struct tensors {
    const bench_t *bench;
    size_t n, total;  //  elements
    size_t count[TENSORS_MAX], at[TENSORS_MAX];
    float *gradients, *fused;
    tutti_request_t *request[TENSORS_MAX];
} tensors_t;

static void
s_add (tensors_t *self, size_t count)
{
    if (self->n < TENSORS_MAX)
        self->count[self->n++] = count;
}

//  The 161 parameters of ResNet-50 (He et al., arXiv:1512.03385, table 1;
//  bottleneck blocks 3, 4, 6, 3): 25 557 032 elements.
static void
s_resnet50 (tensors_t *self)
{
    static const size_t blocks[] = { 3, 4, 6, 3 };
    size_t in = 64;
    s_add (self, 64 * 3 * 7 * 7);
    s_add (self, 64);
    s_add (self, 64);
    for (size_t layer = 0; layer < 4; layer++) {
        size_t width = (size_t) 64 << layer, out = 4 * width;
        for (size_t b = 0; b < blocks[layer]; b++) {
            size_t convolutions[] = { width * in, width * width * 9,
                                      out * width };
            size_t channels[] = { width, width, out };
            for (size_t k = 0; k < 3; k++) {
                s_add (self, convolutions[k]);
                s_add (self, channels[k]);  //  scale and shift of the norm
                s_add (self, channels[k]);
            }
            if (b == 0) {
                s_add (self, out * in);
                s_add (self, out);
                s_add (self, out);
            }
            in = out;
        }
    }
    s_add (self, 1000 * 2048);
    s_add (self, 1000);
}

//  One count a line.
static bool
s_read (tensors_t *self, const char *path)
{
    FILE *file = fopen (path, "re");
    char line[64];
    int number = 0;
    while (file && fgets (line, sizeof line, file)) {
        char *end;
        unsigned long long count = strtoull (line, &end, 10);
        number++;
        if (end == line || *end != '\n' || count == 0 ||
            count > UINT64_C (1) << 40 || self->n == TENSORS_MAX) {
            tool_error ("bench: --tensors %s, line %d: expected a count, one "
                        "a line, at most %d",
                        path, number, TENSORS_MAX);
            fclose (file);
            return false;
        }
        s_add (self, (size_t) count);
    }
    if (file)
        fclose (file);
    if (self->n == 0)
        tool_error ("bench: --tensors %s: no such file, or empty; resnet50 "
                    "is built in",
                    path);
    return self->n > 0;
}

static bool
s_open (tensors_t *self, const char *what)
{
    if (strcmp (what, "resnet50") == 0)
        s_resnet50 (self);
    else if (!s_read (self, what))
        return false;
    size_t room = 0;
    for (size_t i = 0; i < self->n; i++) {
        self->at[i] = room;
        self->total += self->count[i];
        room += (self->count[i] + ALIGN - 1) / ALIGN * ALIGN;
    }
    self->gradients = bench_memory (self->bench, room * sizeof (float));
    self->fused = bench_memory (self->bench, FUSED_BYTES);
    return self->gradients && self->fused;
}

//  ------------------------------------------------------------ the three ways

static void
s_allreduce (const tensors_t *self, float *x, size_t count)
{
    bench_check (self->bench, tutti_allreduce (x, x, count, TUTTI_FLOAT32,
                                               TUTTI_SUM, self->bench->comm));
}

static void
s_async (tensors_t *self)
{
    for (size_t i = self->n; i > 0; i--) {
        float *x = self->gradients + self->at[i - 1];
        bench_check (self->bench, tutti_allreduce_async (
                                      x, x, self->count[i - 1], TUTTI_FLOAT32,
                                      TUTTI_SUM, self->bench->comm, NULL,
                                      &self->request[self->n - i]));
    }
    bench_check (self->bench,
                 tutti_wait_all (self->request, self->n, TUTTI_FOREVER));
}

//  Reduce the tensors [first, last) in one buffer.
static void
s_reduce_fused (tensors_t *self, size_t first, size_t last)
{
    size_t used = 0;
    for (size_t i = first; i < last; used += self->count[i++])
        memcpy (self->fused + used, self->gradients + self->at[i],
                self->count[i] * sizeof (float));
    s_allreduce (self, self->fused, used);
    used = 0;
    for (size_t i = first; i < last; used += self->count[i++])
        memcpy (self->gradients + self->at[i], self->fused + used,
                self->count[i] * sizeof (float));
}

static void
s_fused (tensors_t *self)
{
    size_t last = self->n, most = FUSED_BYTES / sizeof (float);
    while (last > 0) {
        size_t first = last - 1, used = self->count[first];
        while (first > 0 && used + self->count[first - 1] <= most)
            used += self->count[--first];
        if (used > most)  //  a tensor that is larger goes alone
            s_allreduce (self, self->gradients + self->at[first], used);
        else
            s_reduce_fused (self, first, last);
        last = first;
    }
}

static int64_t
s_run (tensors_t *self, way_t mode)
{
    bench_check (self->bench, tutti_barrier (self->bench->comm));
    int64_t begun = bench_now_ns ();
    if (mode == ASYNC)
        s_async (self);
    else if (mode == FUSED)
        s_fused (self);
    else
        for (size_t i = self->n; i > 0; i--)
            s_allreduce (self, self->gradients + self->at[i - 1],
                         self->count[i - 1]);
    return bench_now_ns () - begun;
}

//  ------------------------------------------------------------------- checks

static float
s_value (int rank, size_t tensor, size_t i)
{
    return (float) ((i * 7 + tensor * 3 + (size_t) rank * 5) % 31);
}

static int64_t
s_check (tensors_t *self, way_t mode)
{
    const bench_t *b = self->bench;
    int64_t wrong = 0;
    for (size_t t = 0; t < self->n; t++)
        for (size_t i = 0; i < self->count[t]; i++)
            self->gradients[self->at[t] + i] = s_value (b->rank, t, i);
    s_run (self, mode);
    for (size_t t = 0; t < self->n; t++)
        for (size_t i = 0; i < self->count[t]; i += 1 + i / 64) {
            float want = 0;
            for (int r = 0; r < b->size; r++)
                want += s_value (r, t, i);
            float got = self->gradients[self->at[t] + i];
            wrong += got > want || got < want;
        }
    bench_agree (b, &wrong, 1, TUTTI_SUM);
    return wrong;
}

static int
s_by_time (const void *a, const void *b)
{
    int64_t x = *(const int64_t *) a, y = *(const int64_t *) b;
    return (x > y) - (x < y);
}

static void
s_print (const tensors_t *self, way_t mode, int64_t median, int64_t least,
         int64_t wrong)
{
    const bench_t *b = self->bench;
    if (b->rank != 0)
        return;
    double ms = (double) median * 1e-6;
    if (b->options->json)
        printf (
            "{\"collective\":\"allreduce\",\"mode\":\"%s\",\"tensors\":%zu,"
            "\"bytes\":%zu,\"dtype\":\"float32\",\"ranks\":%d,\"nodes\":%d,"
            "\"transport\":\"%s\",\"time_us\":%.1f,\"time_us_min\":%.1f,"
            "\"algbw_gbps\":%.3f,\"wrong\":%lld}\n",
            s_modes[mode], self->n, self->total * sizeof (float), b->size,
            b->nodes, b->transport, ms * 1e3, (double) least * 1e-3,
            (double) self->total * 4e-6 / ms, (long long) wrong);
    else
        printf ("  %-9s %8zu tensors %12zu B %10.2f ms  %7.3f GB/s  wrong "
                "%lld\n",
                s_modes[mode], self->n, self->total * sizeof (float), ms,
                (double) self->total * 4e-6 / ms, (long long) wrong);
    fflush (stdout);
}

int64_t
bench_tensors (const bench_t *bench, const char *what)
{
    tensors_t *self = calloc (1, sizeof *self);
    int64_t wrong[MODES], all = 0, *times = calloc (ROUNDS * MODES, 8);
    if (self)
        self->bench = bench;
    if (!self || !times || !s_open (self, what)) {
        free (self);
        free (times);
        return -1;
    }
    for (int m = 0; m < MODES; m++) {
        wrong[m] = s_check (self, (way_t) m);
        all += wrong[m];
    }
    for (int r = 0; r < ROUNDS; r++)
        for (int m = 0; m < MODES; m++)
            times[m * ROUNDS + r] = s_run (self, (way_t) m);
    for (int m = 0; m < MODES; m++) {
        int64_t *t = times + m * ROUNDS;
        qsort (t, ROUNDS, sizeof *t, s_by_time);
        int64_t both[] = { (t[ROUNDS / 2] + t[(ROUNDS - 1) / 2]) / 2, t[0] };
        bench_agree (bench, both, 2, TUTTI_MAX);
        s_print (self, (way_t) m, both[0], both[1], wrong[m]);
    }
    bench_memory_free (bench, self->gradients);
    bench_memory_free (bench, self->fused);
    free (times);
    free (self);
    return all;
}
