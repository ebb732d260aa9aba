//  client/tool/bench.c - tutti bench: times a collective, checks its results
//
//  Started by hand it runs itself as the ranks of a private cluster; started
//  as a rank by any launcher it joins that job, and rank 0 prints.

#include "client/tool/bench.h"
#include "client/tool/tool.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define CHECKS 4
#define SAMPLES 1000
#define TARGET_US 200000.0  //  of a row

static const char s_help[]
    = "tutti bench: time a collective and check every element of its result\n"
      "usage: tutti bench COLLECTIVE [OPTION...]\n"
      "COLLECTIVE: allreduce allgather reduce_scatter broadcast barrier\n"
      "  --ranks N (2)   --nodes K (1)      of the private cluster\n"
      "  -b MIN (8)  -e MAX (16M)  -f FACTOR (4)   sizes: 16, 4K, 64M, 1G\n"
      "  -n ITERATIONS   (as many as fit 0.2 s)   -w WARMUP (2)\n"
      "  -d TYPE (float32)  -o OP (sum)  --root R (0)\n"
      "  -c 0|1          check (1); any wrong element: exit status 1\n"
      "  --algorithm A   star ring doubling halving tree direct\n"
      "  --reproducible  same bits whatever the placement\n"
      "  --async         by the _async call and a wait\n"
      "  --memory shared|malloc (shared)   --in-place 0|1|both (both)\n"
      "  --transport T   between nodes (tcp)\n"
      "  --corrupt       spoil data on the way: the check must see it\n"
      "  --json          one object per line and size\n"
      "  --http --netns --addresses --timeout --verbose   as tutti run\n"
      "time: mean of the slowest rank; busbw as nccl-tests defines it.\n";

typedef struct bench {
    bench_options_t o;
    tutti_comm_t *world;
    int rank, size;
    uint8_t *send, *recv;
    double *sample;
} bench_t;

static void
s_fail (const bench_t *self, tutti_err_t err)
{
    fprintf (stderr, "tutti bench: rank %d: %s: %s\n", self->rank,
             tutti_err_name (err), tutti_last_error ());
    exit (3);
}

static void
s_check (const bench_t *self, tutti_err_t err)
{
    if (err != TUTTI_OK)
        s_fail (self, err);
}

static double
s_now_us (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec * 1e6 + (double) now.tv_nsec * 1e-3;
}

//  ------------------------------------------------------------------- one op

typedef struct place {
    uint8_t *in, *out;
    size_t count;
} place_t;

//  Input and output of one call; in place as the API defines it per kind.
static place_t
s_place (const bench_t *self, size_t count, bool in_place)
{
    size_t piece = count * tp_dtype_size (self->o.dtype);
    size_t mine = (size_t) self->rank * piece;
    place_t p = { self->send, self->recv, count };
    if (!in_place)
        return p;
    switch (self->o.kind) {
    case TP_ALLGATHER:
        p.in = self->recv + mine;
        break;
    case TP_REDUCE_SCATTER:
        p.out = self->send + mine;
        break;
    default:
        p.in = self->recv;
        break;
    }
    return p;
}

static tutti_err_t
s_start (const bench_t *self, const place_t *p, tutti_request_t **r)
{
    const bench_options_t *o = &self->o;
    switch (o->kind) {
    case TP_ALLREDUCE:
        return tutti_allreduce_async (p->in, p->out, p->count, o->dtype, o->op,
                                      self->world, NULL, r);
    case TP_ALLGATHER:
        return tutti_allgather_async (p->in, p->out, p->count, o->dtype,
                                      self->world, NULL, r);
    case TP_REDUCE_SCATTER:
        return tutti_reduce_scatter_async (p->in, p->out, p->count, o->dtype,
                                           o->op, self->world, NULL, r);
    case TP_BROADCAST:
        return tutti_broadcast_async (p->out, p->count, o->dtype, o->root,
                                      self->world, NULL, r);
    default:
        return tutti_barrier_async (self->world, NULL, r);
    }
}

static tutti_err_t
s_call (const bench_t *self, const place_t *p)
{
    const bench_options_t *o = &self->o;
    switch (o->kind) {
    case TP_ALLREDUCE:
        return tutti_allreduce (p->in, p->out, p->count, o->dtype, o->op,
                                self->world);
    case TP_ALLGATHER:
        return tutti_allgather (p->in, p->out, p->count, o->dtype,
                                self->world);
    case TP_REDUCE_SCATTER:
        return tutti_reduce_scatter (p->in, p->out, p->count, o->dtype, o->op,
                                     self->world);
    case TP_BROADCAST:
        return tutti_broadcast (p->out, p->count, o->dtype, o->root,
                                self->world);
    default:
        return tutti_barrier (self->world);
    }
}

static void
s_run (const bench_t *self, const place_t *p)
{
    if (!self->o.async) {
        s_check (self, s_call (self, p));
        return;
    }
    tutti_request_t *request = NULL;
    s_check (self, s_start (self, p, &request));
    s_check (self, tutti_wait (&request, TUTTI_FOREVER));
}

//  -------------------------------------------------------------------- check

static void
s_fill (const bench_t *self, const bench_pattern_t *pattern, const place_t *p)
{
    size_t n = (size_t) self->size;
    if (self->o.kind == TP_REDUCE_SCATTER)
        bench_fill (pattern, p->in, 0, p->count * n);
    else if (self->o.kind == TP_BROADCAST)
        bench_fill (pattern, p->out, 0, p->count);
    else if (self->o.kind != TP_BARRIER)
        bench_fill (pattern, p->in, 0, p->count);
}

static size_t
s_count_wrong (const bench_t *self, const bench_pattern_t *pattern,
               const place_t *p, int parity)
{
    bench_pattern_t other;
    size_t wrong = 0, piece = p->count * pattern->element;
    switch (self->o.kind) {
    case TP_ALLREDUCE:
        return bench_wrong (pattern, pattern->result, p->out, 0, p->count);
    case TP_REDUCE_SCATTER:
        return bench_wrong (pattern, pattern->result, p->out,
                            (size_t) self->rank * p->count, p->count);
    case TP_ALLGATHER:
        for (int r = 0; r < self->size; r++) {
            bench_pattern (&other, &self->o, r, self->size, parity);
            wrong += bench_wrong (&other, other.input,
                                  p->out + (size_t) r * piece, 0, p->count);
        }
        return wrong;
    case TP_BROADCAST:
        bench_pattern (&other, &self->o, self->o.root, self->size, parity);
        return bench_wrong (&other, other.input, p->out, 0, p->count);
    default:
        return 0;
    }
}

//  Wrong elements on all ranks.
static int64_t
s_verify (const bench_t *self, const place_t *p)
{
    int64_t wrong = 0, all = 0;
    for (int i = 0; self->o.check && i < CHECKS; i++) {
        bench_pattern_t pattern;
        bench_pattern (&pattern, &self->o, self->rank, self->size, i % 2);
        s_fill (self, &pattern, p);
        s_run (self, p);
        wrong += (int64_t) s_count_wrong (self, &pattern, p, i % 2);
    }
    s_check (self, tutti_allreduce (&wrong, &all, 1, TUTTI_INT64, TUTTI_SUM,
                                    self->world));
    return all;
}

//  --------------------------------------------------------------------- time

static int
s_compare (const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;
    return x < y ? -1 : x > y;
}

//  Rank 0 decides how often, from a first go, and tells the others.
static int64_t
s_iterations (const bench_t *self, const place_t *p)
{
    int64_t n = self->o.iterations;
    for (int i = 0; i < self->o.warmup; i++)
        s_run (self, p);
    double start = s_now_us ();
    s_run (self, p);
    double took = s_now_us () - start;
    if (n == 0) {
        n = (int64_t) (TARGET_US / (took > 0.1 ? took : 0.1));
        n = n < 3 ? 3 : n > SAMPLES ? SAMPLES : n;
    }
    s_check (self, tutti_broadcast (&n, 1, TUTTI_INT64, 0, self->world));
    return n;
}

static void
s_time (bench_t *self, const place_t *p, int64_t n, bench_side_t *side)
{
    s_check (self, tutti_barrier (self->world));
    double start = s_now_us (), before = start;
    for (int64_t i = 0; i < n; i++) {
        s_run (self, p);
        double now = s_now_us ();
        if (i < SAMPLES)
            self->sample[i] = now - before;
        before = now;
    }
    double mean = (before - start) / (double) n;
    s_check (self, tutti_allreduce (&mean, &side->time_us, 1, TUTTI_FLOAT64,
                                    TUTTI_MAX, self->world));
    size_t samples = (size_t) (n < SAMPLES ? n : SAMPLES);
    qsort (self->sample, samples, sizeof *self->sample, s_compare);
    side->p99_us = self->sample[(samples * 99 + 99) / 100 - 1];
}

typedef struct usage {
    int64_t wire, agent_us, mine_us;
} usage_t;

static usage_t
s_usage (bench_t *self, bench_row_t *row)
{
    struct rusage u;
    tutti_stats_t stats = TUTTI_STATS_INIT;
    s_check (self, tutti_comm_stats (self->world, &stats));
    getrusage (RUSAGE_SELF, &u);
    bool counts = stats.local_rank == 0;  //  one rank speaks for its node
    snprintf (row->algorithm, sizeof row->algorithm, "%s", stats.algorithm);
    snprintf (row->transport, sizeof row->transport, "%s", stats.transport);
    row->nodes = stats.nodes;
    return (usage_t){
        counts ? (int64_t) stats.wire_bytes : 0,
        counts ? (int64_t) stats.agent_cpu_us : 0,
        (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000
            + u.ru_utime.tv_usec + u.ru_stime.tv_usec,
    };
}

//  Bytes on the wire and CPU time of all processes, per op.
static void
s_charge (bench_t *self, bench_row_t *row, const usage_t *a, const usage_t *b,
          int64_t n)
{
    int64_t wire = b->wire - a->wire;
    int64_t sum[2] = { wire, b->agent_us - a->agent_us + b->mine_us
                                 - a->mine_us };
    s_check (self, tutti_allreduce (&wire, &row->wire_max, 1, TUTTI_INT64,
                                    TUTTI_MAX, self->world));
    s_check (self, tutti_allreduce (sum, sum, 2, TUTTI_INT64, TUTTI_SUM,
                                    self->world));
    row->wire_max /= n;
    row->wire_sum = sum[0] / n;
    row->cpu_us = (double) sum[1] / (double) n;
}

//  The barrier keeps the counters of both ends apart from other ops.
static void
s_side (bench_t *self, bench_row_t *row, bool in_place)
{
    place_t p = s_place (self, row->count, in_place);
    bench_side_t *side = in_place ? &row->in : &row->out;
    side->wrong = s_verify (self, &p);
    int64_t n = s_iterations (self, &p);
    bool charged = in_place ? !self->o.out_of_place : true;
    s_check (self, tutti_barrier (self->world));
    usage_t before = s_usage (self, row);
    s_time (self, &p, n, side);
    usage_t after = s_usage (self, row);
    if (charged)
        s_charge (self, row, &before, &after, n);
    s_check (self, tutti_barrier (self->world));
}

//  The algorithm that was used, before other ops overwrite it.
static void
s_note_algorithm (bench_t *self, bench_row_t *row)
{
    place_t p = s_place (self, row->count, !self->o.out_of_place);
    s_run (self, &p);
    s_usage (self, row);
}

static bool
s_row (bench_t *self, unsigned long long bytes)
{
    bool parted = self->o.kind == TP_ALLGATHER
                  || self->o.kind == TP_REDUCE_SCATTER;
    size_t unit = tp_dtype_size (self->o.dtype);
    bench_row_t row = { .size = self->size };
    row.count = bytes / unit / (parted ? (size_t) self->size : 1);
    row.bytes = row.count * unit * (parted ? (size_t) self->size : 1);
    if (self->o.out_of_place)
        s_side (self, &row, false);
    if (self->o.in_place)
        s_side (self, &row, true);
    s_note_algorithm (self, &row);
    if (self->rank == 0)
        bench_print_row (&self->o, &row);
    return row.out.wrong == 0 && row.in.wrong == 0;
}

//  -------------------------------------------------------------------- set-up

static uint8_t *
s_memory (bench_t *self, size_t bytes)
{
    void *memory = NULL;
    bytes += 64;
    if (!self->o.malloced) {
        s_check (self,
                 tutti_mem_alloc (self->world, bytes, TUTTI_HOST, &memory));
        return memory;
    }
    memory = malloc (bytes);
    if (!memory) {
        fprintf (stderr, "tutti bench: no memory for %zu bytes\n", bytes);
        exit (3);
    }
    memset (memory, 0, bytes);
    return memory;
}

static int
s_bench (bench_t *self)
{
    bool right = true;
    self->rank = -1;
    s_check (self, tutti_init (NULL, &self->world));
    self->rank = tutti_comm_rank (self->world);
    self->size = tutti_comm_size (self->world);
    if (self->o.root >= self->size) {
        fprintf (stderr, "tutti bench: --root %d of %d ranks\n", self->o.root,
                 self->size);
        return 2;
    }
    self->send = s_memory (self, self->o.max);
    self->recv = s_memory (self, self->o.max);
    self->sample = calloc (SAMPLES, sizeof *self->sample);
    if (self->rank == 0)
        bench_print_head (&self->o);
    unsigned long long bytes = self->o.min;
    do {
        right &= s_row (self, bytes);
        bytes *= (unsigned long long) self->o.factor;
    } while (self->o.kind != TP_BARRIER && bytes <= self->o.max);
    free (self->sample);
    if (self->o.malloced) {
        free (self->send);
        free (self->recv);
    }
    s_check (self, tutti_finalize (&self->world));
    return right ? 0 : 1;
}

//  ------------------------------------------------------------------- options

enum { RANKS = 256, NODES, ROOT, ALGORITHM, ASYNC, MEMORY, IN_PLACE, TRANSPORT,
       CORRUPT, REPRODUCIBLE, JSON, HELP, PASSED, PASSED_FLAG };

static const struct option s_options[] = {
    { "ranks", required_argument, NULL, RANKS },
    { "nodes", required_argument, NULL, NODES },
    { "root", required_argument, NULL, ROOT },
    { "algorithm", required_argument, NULL, ALGORITHM },
    { "async", no_argument, NULL, ASYNC },
    { "memory", required_argument, NULL, MEMORY },
    { "in-place", required_argument, NULL, IN_PLACE },
    { "transport", required_argument, NULL, TRANSPORT },
    { "corrupt", no_argument, NULL, CORRUPT },
    { "reproducible", no_argument, NULL, REPRODUCIBLE },
    { "json", no_argument, NULL, JSON },
    { "help", no_argument, NULL, HELP },
    { "http", required_argument, NULL, PASSED },
    { "netns", required_argument, NULL, PASSED },
    { "addresses", required_argument, NULL, PASSED },
    { "timeout", required_argument, NULL, PASSED },
    { "verbose", no_argument, NULL, PASSED_FLAG },
    { 0 },
};

//  Options that tutti run takes, kept for it.
static char *s_passed[32];
static int s_n_passed;

static void
s_pass (const char *name, char *value)
{
    if (s_n_passed + 2 > 30)
        return;
    s_passed[s_n_passed++] = (char *) name;
    if (value)
        s_passed[s_n_passed++] = value;
}

static void
s_refuse (const char *option, const char *value)
{
    fprintf (stderr, "tutti bench: bad %s \"%s\"; see tutti bench --help\n",
             option, value);
    exit (2);
}

static void
s_take_letter (bench_options_t *o, int option, char *value)
{
    int number;
    switch (option) {
    case 'b':
        if (!tool_size (value, &o->min))
            s_refuse ("-b", value);
        break;
    case 'e':
        if (!tool_size (value, &o->max))
            s_refuse ("-e", value);
        break;
    case 'f':
        o->factor = tool_number ("bench", "-f", value, 2, 1 << 20);
        break;
    case 'n':
        o->iterations = tool_number ("bench", "-n", value, 1, 1 << 30);
        break;
    case 'w':
        o->warmup = tool_number ("bench", "-w", value, 0, 1 << 20);
        break;
    case 'c':
        o->check = tool_number ("bench", "-c", value, 0, 1) == 1;
        break;
    case 'd':
        number = tp_dtype_value (value);
        if (!bench_dtype_ok (number))
            s_refuse ("-d", value);
        o->dtype = (tutti_dtype_t) number;
        break;
    default:
        number = tp_op_value (value);
        if (number < 0 || number > TUTTI_AVG)
            s_refuse ("-o", value);
        o->op = (tutti_op_t) number;
        break;
    }
}

static void
s_take_places (bench_options_t *o, const char *value)
{
    if (strcmp (value, "both") != 0 && strcmp (value, "0") != 0
        && strcmp (value, "1") != 0)
        s_refuse ("--in-place", value);
    o->out_of_place = strcmp (value, "1") != 0;
    o->in_place = strcmp (value, "0") != 0;
}

static void
s_take_word (bench_options_t *o, int option, char *value)
{
    switch (option) {
    case RANKS:
        o->ranks = tool_number ("bench", "--ranks", value, 1, 1024);
        break;
    case NODES:
        o->nodes = tool_number ("bench", "--nodes", value, 1, 64);
        break;
    case ROOT:
        o->root = tool_number ("bench", "--root", value, 0, 65535);
        break;
    case ALGORITHM:
        o->algorithm = value;
        break;
    case MEMORY:
        o->malloced = strcmp (value, "malloc") == 0;
        if (!o->malloced && strcmp (value, "shared") != 0)
            s_refuse ("--memory", value);
        break;
    case IN_PLACE:
        s_take_places (o, value);
        break;
    case TRANSPORT:
        o->transport = value;
        break;
    case HELP:
        fputs (s_help, stdout);
        exit (0);
    default:
        o->async |= option == ASYNC;
        o->corrupt |= option == CORRUPT;
        o->reproducible |= option == REPRODUCIBLE;
        o->json |= option == JSON;
        break;
    }
}

static void
s_parse (bench_options_t *o, int argc, char **argv)
{
    int option, index = 0;
    *o = (bench_options_t){ .dtype = TUTTI_FLOAT32, .op = TUTTI_SUM,
                            .min = 8, .max = 16u << 20, .factor = 4,
                            .warmup = 2, .check = true, .out_of_place = true,
                            .in_place = true, .ranks = 2, .nodes = 1 };
    optind = 0;
    while ((option = getopt_long (argc, argv, "b:e:f:n:w:d:o:c:", s_options,
                                  &index))
           != -1) {
        if (option == '?')
            exit (2);
        if (option == PASSED || option == PASSED_FLAG) {
            static char names[8][24];
            char *name = names[s_n_passed % 8];
            snprintf (name, sizeof names[0], "--%s", s_options[index].name);
            s_pass (name, option == PASSED ? optarg : NULL);
        } else if (option < 256)
            s_take_letter (o, option, optarg);
        else
            s_take_word (o, option, optarg);
    }
    o->kind = optind < argc ? tp_kind_value (argv[optind]) : -1;
    if (o->kind < 0)
        s_refuse ("COLLECTIVE", optind < argc ? argv[optind] : "");
    if (o->min > o->max)
        o->max = o->min;
    if (o->kind == TP_BROADCAST)
        s_take_places (o, "0");  //  a broadcast has one buffer
}

//  ---------------------------------------------------------------------- run

static bool
s_is_rank (void)
{
    static const char *names[] = { "TUTTI_RANK", "RANK",
                                   "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                   "SLURM_PROCID" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv (names[i]))
            return true;
    return false;
}

//  tutti run ... -- this program, with the same arguments.
static int
s_run_ranks (const bench_options_t *o, int argc, char **argv)
{
    char ranks[16], nodes[16], self[4096];
    char **args = calloc ((size_t) argc + 64, sizeof *args);
    ssize_t len = readlink ("/proc/self/exe", self, sizeof self - 1);
    int n = 0;
    if (!args || len < 0)
        return 1;
    self[len] = 0;
    snprintf (ranks, sizeof ranks, "%d", o->ranks);
    snprintf (nodes, sizeof nodes, "%d", o->nodes);
    char *head[] = { "run", "-n", ranks, "--nodes", nodes };
    for (size_t i = 0; i < sizeof head / sizeof *head; i++)
        args[n++] = head[i];
    const char *transport = o->corrupt ? "faulty:flip:3" : o->transport;
    if (transport) {
        args[n++] = "--transport";
        args[n++] = (char *) transport;
    }
    for (int i = 0; i < s_n_passed; i++)
        args[n++] = s_passed[i];
    args[n++] = "--";
    args[n++] = self;
    for (int i = 0; i < argc; i++)
        args[n++] = argv[i];
    if (o->algorithm)
        setenv ("TUTTI_ALGORITHM", o->algorithm, 1);
    if (o->reproducible)
        setenv ("TUTTI_REPRODUCIBLE", "1", 1);
    int status = tool_run (n, args);
    free (args);
    return status;
}

int
tool_bench (int argc, char **argv)
{
    bench_t self = { .world = NULL };
    char **copy = calloc ((size_t) argc + 1, sizeof *copy);
    for (int i = 0; copy && i < argc; i++)
        copy[i] = argv[i];  //  getopt reorders argv
    s_parse (&self.o, argc, argv);
    int status = s_is_rank () ? s_bench (&self)
                              : s_run_ranks (&self.o, argc, copy);
    free (copy);
    return status;
}
