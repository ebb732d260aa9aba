//  client/tool/bench.c - tutti bench: launches itself as ranks, or is one

#include "client/tool/bench.h"

#include "client/tool/run.h"
#include "client/tool/tool.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RANKS_DEFAULT 4
#define ROWS_MAX 64
#define CORRUPT "faulty:flip:3"

void
bench_check (const bench_t *self, tutti_err_t err)
{
    if (err == TUTTI_OK)
        return;
    const char *name = tutti_err_name (err), *why = tutti_last_error ();
    if (self->rank >= 0)
        tool_error ("bench: rank %d: %s: %s", self->rank, name, why);
    else
        tool_error ("bench: cannot join the job: %s: %s", name, why);
    exit (TOOL_FAILED);
}

//  ------------------------------------------------------------------ a rank

//  A launcher has started this process as a rank of its job.
static bool
s_is_rank (void)
{
    static const char *const names[] = { "TUTTI_RANK", "RANK",
                                         "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                         "SLURM_PROCID" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv (names[i]))
            return true;
    return false;
}

static void
s_join (bench_t *self)
{
    const bench_options_t *o = self->options;
    tutti_call_t call = TUTTI_CALL_INIT;
    tutti_config_t config = TUTTI_CONFIG_INIT;
    tutti_stats_t stats = TUTTI_STATS_INIT;
    call.algorithm = o->algorithm;
    config.call = &call;
    if (o->reproducible)
        config.reproducible = 1;
    bench_check (self, tutti_init (&config, &self->comm));
    self->rank = tutti_comm_rank (self->comm);
    self->size = tutti_comm_size (self->comm);
    bench_check (self, tutti_comm_stats (self->comm, &stats));
    self->nodes = stats.nodes;
    self->speaks_for_node = stats.local_rank == 0;
    memcpy (self->transport, stats.transport, sizeof self->transport);
}

void *
bench_memory (const bench_t *self, size_t bytes)
{
    void *memory = NULL;
    if (!self->options->private_memory)
        bench_check (self,
                     tutti_mem_alloc (self->comm, bytes, TUTTI_HOST, &memory));
    else
        memory = malloc (bytes);
    return memory;
}

void
bench_memory_free (const bench_t *self, void *memory)
{
    if (self->options->private_memory)
        free (memory);
    else
        bench_check (self, tutti_mem_free (self->comm, memory));
}

//  Why so many ranks cannot do it; NULL: they can.
static const char *
s_objection (const bench_options_t *o, int ranks)
{
    if (tp_kind_info ((int) o->kind)->rooted && o->root >= ranks)
        return "--root is no rank of this job";
    if (o->check && !bench_data_ok (o, ranks))
        return "the average of so many ranks is not exact in this type; "
               "use -c 0, or a wider type";
    return NULL;
}

//  False: the reason is on stderr.
static bool
s_prepare (bench_t *self)
{
    const bench_options_t *o = self->options;
    const char *why = s_objection (o, self->size);
    if (why) {
        if (self->rank == 0)
            tool_error ("bench: %s", why);
        return false;
    }
    bench_row_t largest;
    bench_sizes (self, o->max, &largest);
    size_t bytes = largest.bytes > 0 ? largest.bytes : 1;
    //  In place alone, one buffer does: the largest sizes want it.
    self->recv = bench_memory (self, bytes);
    self->send = o->in_place == 1 ? self->recv : bench_memory (self, bytes);
    self->times = calloc (BENCH_ITERATIONS_MAX, sizeof *self->times);
    if (self->send && self->recv && self->times)
        return true;
    tool_error ("bench: rank %d: no memory for 2 x %zu bytes; try a smaller "
                "-e",
                self->rank, bytes);
    return false;
}

//  All sizes. Returns the number of wrong elements.
static int64_t
s_sizes (bench_t *self)
{
    const bench_options_t *o = self->options;
    static bench_row_t rows[ROWS_MAX];
    size_t n = 0;
    int64_t wrong = 0;
    for (size_t bytes = o->min; bytes <= o->max && n < ROWS_MAX;
         bytes *= (size_t) o->factor) {
        bench_row_t *row = &rows[n];
        bench_sizes (self, bytes, row);
        if (n > 0 && row->bytes == row[-1].bytes)
            continue;  //  too small to give every rank an element of its own
        bench_measure (self, row);
        bench_print_row (self, row);
        wrong += row->way[0].wrong + row->way[1].wrong;
        n++;
        if (o->kind == TP_BARRIER)
            break;
    }
    bench_print_tail (self, rows, n);
    return wrong;
}

static void
s_overlaps (const bench_t *self)
{
    const bench_options_t *o = self->options;
    for (size_t bytes = o->min; bytes <= o->max; bytes *= (size_t) o->factor)
        bench_overlap (self, bytes);
}

static int
s_bench (const bench_options_t *options)
{
    bench_t self = { .options = options, .rank = -1 };
    s_join (&self);
    bool ok = options->tensors || s_prepare (&self);
    int64_t wrong = 0;
    if (ok && options->tensors) {
        wrong = bench_tensors (&self, options->tensors);
        ok = wrong >= 0;
    }
    else if (ok && options->overlap)
        s_overlaps (&self);
    else if (ok) {
        bench_print_head (&self);
        wrong = s_sizes (&self);
    }
    free (self.times);
    if (self.send && self.send != self.recv)
        bench_memory_free (&self, self.send);
    if (self.recv)
        bench_memory_free (&self, self.recv);
    bench_check (&self, tutti_finalize (&self.comm));
    if (ok && wrong > 0 && self.rank == 0)
        tool_error ("bench: %lld wrong elements", (long long) wrong);
    //  All ranks know the number; one of them says so to the launcher.
    return !ok || (wrong > 0 && self.rank == 0) ? TOOL_FAILED : 0;
}

//  ---------------------------------------------------------------- launcher

//  The same command as ranks of a run.
static int
s_launch (const bench_options_t *options, int argc, char **argv)
{
    run_options_t run = { .ranks =
                              options->ranks ? options->ranks : RANKS_DEFAULT,
                          .timeout_s = options->timeout_s,
                          .cluster = { .nodes = options->nodes,
                                       .http = options->http,
                                       .netns = options->netns,
                                       .addresses = options->addresses,
                                       .verbose = options->verbose,
                                       .transport = options->transport } };
    if (options->corrupt) {
        run.cluster.transport = CORRUPT;
        run.cluster.nodes = options->nodes ? options->nodes : 2;
    }
    const char *why = s_objection (options, run.ranks);
    if (why)
        tool_error ("bench: %s", why);
    if (why || !tool_run_check (&run, "bench"))
        return TOOL_USAGE;
    char self[PATH_MAX];
    ssize_t len = readlink ("/proc/self/exe", self, sizeof self - 1);
    char **program = calloc ((size_t) argc + 2, sizeof *program);
    if (len < 0 || !program) {
        tool_error ("bench: cannot start itself");
        free (program);
        return TOOL_FAILED;
    }
    self[len] = 0;
    program[0] = self;
    for (int i = 0; i < argc; i++)
        program[i + 1] = argv[i];
    int status = tool_run (&run, program);
    free (program);
    return status;
}

int
tool_bench_main (int argc, char **argv)
{
    bench_options_t options;
    int status = bench_options_read (&options, argc, argv);
    if (status >= 0)
        return status;
    if (s_is_rank ())
        return s_bench (&options);
    return s_launch (&options, argc, argv);
}
