//  client/tool/bench_options.c - the command line of tutti bench

#include "client/tool/bench.h"
#include "client/tool/run.h"
#include "client/tool/tool.h"
#include "protocol/schedule.h"

#include <stdio.h>
#include <string.h>

#define RANKS_MAX 4096
#define NODES_MAX 256

static const char s_help[] =
    "usage: tutti bench COLLECTIVE [OPTION]...\n"
    "Measures allreduce, allgather, reduce_scatter, broadcast, reduce,\n"
    "gather, scatter, alltoall or barrier and checks every element. Started\n"
    "by a launcher (TUTTI_RANK, Open MPI, MPICH, Slurm, torchrun) it is a\n"
    "rank of that job; else it starts its own ranks, as tutti run does. "
    "Times\n"
    "and bandwidths as in nccl-tests.\n"
    "\n"
    "      --ranks N        ranks to start [4]\n"
    "      --nodes K        agents to start [1]\n"
    "  -b, --minbytes SIZE  smallest, 16 or 4K or 64M [16]\n"
    "  -e, --maxbytes SIZE  largest [64M]\n"
    "  -f, --stepfactor N   from one size to the next [4]\n"
    "  -n, --iters N        timed ops of a size [by time]\n"
    "  -w, --warmup N       ops before them [5]\n"
    "  -d, --datatype TYPE  int8 uint8 int32 uint32 int64 uint64 float16\n"
    "                       bfloat16 float32 float64 float8e4m3 float8e5m2\n"
    "                       [float32]\n"
    "  -o, --op OP          sum prod min max avg band bor bxor [sum]\n"
    "  -c, --check 0|1      check the results [1]\n"
    "      --root R         of broadcast, reduce, gather, scatter [0]\n"
    "      --algorithm A    star ring doubling halving tree direct [the "
    "plan's]\n"
    "      --async          by the asynchronous call and a wait\n"
    "      --memory shared|malloc  of the buffers [shared]\n"
    "      --in-place 0|1|both     [both]\n"
    "      --transport T    between nodes: tcp, faulty:MODE:ARG [tcp]\n"
    "      --corrupt        flip bits between nodes: wrong must not be 0\n"
    "      --reproducible   reduce along the tree over rank numbers\n"
    "      --tensors resnet50|FILE  gradients (a count a line) by blocking\n"
    "                       calls, by asynchronous ones, fused by hand\n"
    "      --overlap        how much of the op a computation hides\n"
    "      --json           one object per size and line\n"
    "      --http ADDR --timeout S --netns LIST --addresses LIST --verbose\n"
    "                       as tutti run has them\n"
    "\n"
    "Exit status: 1 if any element is wrong.\n";

enum {
    RANKS = 256,
    NODES,
    ROOT,
    ALGORITHM,
    ASYNC,
    MEMORY,
    IN_PLACE,
    TRANSPORT,
    CORRUPT,
    REPRODUCIBLE,
    TENSORS,
    OVERLAP,
    JSON,
    HTTP,
    TIMEOUT,
    NETNS,
    ADDRESSES,
    VERBOSE,
    HELP
};

static const struct option s_options[] = {
    { "ranks", required_argument, NULL, RANKS },
    { "nodes", required_argument, NULL, NODES },
    { "minbytes", required_argument, NULL, 'b' },
    { "maxbytes", required_argument, NULL, 'e' },
    { "stepfactor", required_argument, NULL, 'f' },
    { "iters", required_argument, NULL, 'n' },
    { "warmup", required_argument, NULL, 'w' },
    { "datatype", required_argument, NULL, 'd' },
    { "op", required_argument, NULL, 'o' },
    { "check", required_argument, NULL, 'c' },
    { "root", required_argument, NULL, ROOT },
    { "algorithm", required_argument, NULL, ALGORITHM },
    { "async", no_argument, NULL, ASYNC },
    { "memory", required_argument, NULL, MEMORY },
    { "in-place", required_argument, NULL, IN_PLACE },
    { "transport", required_argument, NULL, TRANSPORT },
    { "corrupt", no_argument, NULL, CORRUPT },
    { "reproducible", no_argument, NULL, REPRODUCIBLE },
    { "tensors", required_argument, NULL, TENSORS },
    { "overlap", no_argument, NULL, OVERLAP },
    { "json", no_argument, NULL, JSON },
    { "http", required_argument, NULL, HTTP },
    { "timeout", required_argument, NULL, TIMEOUT },
    { "netns", required_argument, NULL, NETNS },
    { "addresses", required_argument, NULL, ADDRESSES },
    { "verbose", no_argument, NULL, VERBOSE },
    { "help", no_argument, NULL, HELP },
    { 0 },
};

static bool
s_bad (const char *name, const char *value, const char *expects)
{
    return tool_bad_value ("bench", name, value, expects);
}

static bool
s_number (const char *name, const char *value, int lo, int hi, int *number_p)
{
    char expects[64];
    snprintf (expects, sizeof expects, "a number from %d to %d", lo, hi);
    return tool_number (value, lo, hi, number_p) ||
           s_bad (name, value, expects);
}

static bool
s_size (const char *name, const char *value, size_t *size_p)
{
    return tool_size (value, size_p) ||
           s_bad (name, value, "a size: 16, 4K, 64M, 1G");
}

//  Our name of a type, or that of nccl-tests.
static bool
s_dtype (bench_options_t *self, const char *value)
{
    static const struct {
        const char *name;
        tutti_dtype_t dtype;
    } others[] = { { "half", TUTTI_FLOAT16 },
                   { "float", TUTTI_FLOAT32 },
                   { "double", TUTTI_FLOAT64 },
                   { "fp8_e4m3", TUTTI_FLOAT8E4M3 },
                   { "fp8_e5m2", TUTTI_FLOAT8E5M2 } };
    int dtype = tp_dtype_value (value);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp (value, others[i].name) == 0)
            dtype = (int) others[i].dtype;
    self->dtype = (tutti_dtype_t) dtype;
    return dtype >= 0 || s_bad ("-d", value, "a type, see tutti bench --help");
}

static bool
s_op (bench_options_t *self, const char *value)
{
    int op = tp_op_value (value);
    self->op = (tutti_op_t) op;
    return (op >= 0 && op != TUTTI_PREMUL_SUM) ||
           s_bad ("-o", value, "sum prod min max avg band bor bxor");
}

static bool
s_memory (bench_options_t *self, const char *value)
{
    self->private_memory = strcmp (value, "malloc") == 0;
    return self->private_memory || strcmp (value, "shared") == 0 ||
           s_bad ("--memory", value, "shared or malloc");
}

static bool
s_in_place (bench_options_t *self, const char *value)
{
    if (strcmp (value, "both") == 0) {
        self->in_place = 2;
        return true;
    }
    return tool_number (value, 0, 1, &self->in_place) ||
           s_bad ("--in-place", value, "0, 1 or both");
}

//  An option of one letter.
static bool
s_take_letter (bench_options_t *self, int option, const char *value)
{
    int number = 0;
    switch (option) {
    case 'b':
        return s_size ("-b", value, &self->min);
    case 'e':
        return s_size ("-e", value, &self->max);
    case 'f':
        return s_number ("-f", value, 2, 1 << 20, &self->factor);
    case 'n':
        return s_number ("-n", value, 1, BENCH_ITERATIONS_MAX,
                         &self->iterations);
    case 'w':
        return s_number ("-w", value, 0, BENCH_ITERATIONS_MAX, &self->warmup);
    case 'd':
        return s_dtype (self, value);
    case 'o':
        return s_op (self, value);
    default:
        if (!s_number ("-c", value, 0, 1, &number))
            return false;
        self->check = number == 1;
        return true;
    }
}

//  Options of the run around it.
static bool
s_take_run (bench_options_t *self, int option, char *value)
{
    switch (option) {
    case HTTP:
        self->http = value;
        return true;
    case TIMEOUT:
        return s_number ("--timeout", value, 1, 1000000, &self->timeout_s);
    case NETNS:
        return tool_run_list ("--netns", value, &self->netns);
    case ADDRESSES:
        return tool_run_list ("--addresses", value, &self->addresses);
    default:
        self->verbose = true;
        return true;
    }
}

static bool
s_take (bench_options_t *self, int option, char *value)
{
    if (option >= HTTP && option <= VERBOSE)
        return s_take_run (self, option, value);
    switch (option) {
    case RANKS:
        return s_number ("--ranks", value, 1, RANKS_MAX, &self->ranks);
    case NODES:
        return s_number ("--nodes", value, 1, NODES_MAX, &self->nodes);
    case ROOT:
        return s_number ("--root", value, 0, RANKS_MAX - 1, &self->root);
    case ALGORITHM:
        self->algorithm = value;
        return tp_algorithm_value (value) >= 0 ||
               s_bad ("--algorithm", value,
                      "star ring doubling halving tree direct");
    case ASYNC:
        self->async = true;
        return true;
    case MEMORY:
        return s_memory (self, value);
    case IN_PLACE:
        return s_in_place (self, value);
    case TRANSPORT:
        self->transport = value;
        return true;
    case CORRUPT:
        self->corrupt = true;
        return true;
    case REPRODUCIBLE:
        self->reproducible = true;
        return true;
    case TENSORS:
        self->tensors = value;
        return true;
    case OVERLAP:
        self->overlap = true;
        return true;
    case JSON:
        self->json = true;
        return true;
    default:
        return s_take_letter (self, option, value);
    }
}

static bool
s_collective (bench_options_t *self, int argc, char **argv, int at)
{
    const char *names[TP_KINDS];
    for (int i = 0; i < TP_KINDS; i++)
        names[i] = tp_kind_name (i);
    if (at == argc) {
        tool_error ("bench: which collective? allreduce, allgather, "
                    "reduce_scatter, broadcast, reduce, gather, scatter, "
                    "alltoall or barrier");
        return false;
    }
    int kind = tp_kind_value (argv[at]);
    self->kind = (tp_kind_t) kind;
    if (kind < 0)
        tool_error ("bench: no collective \"%s\"; did you mean %s?", argv[at],
                    tool_nearest (argv[at], names, TP_KINDS));
    else if (kind == TP_SENDRECV) {
        tool_error ("bench: messages are not measured here; use broadcast "
                    "with two ranks");
        return false;
    }
    else if (tp_kind_info (kind)->uneven) {
        tool_error ("bench: %s is measured with equal counts: as %s", argv[at],
                    tp_kind_name ((int) tp_kind_info (kind)->even));
        return false;
    }
    else if (at + 1 < argc)
        tool_error ("bench: one collective at a time; %s is one too many",
                    argv[at + 1]);
    return kind >= 0 && at + 1 == argc;
}

static bool
s_agrees (const bench_options_t *self)
{
    bool bitwise = self->op == TUTTI_BAND || self->op == TUTTI_BOR ||
                   self->op == TUTTI_BXOR;
    if (bitwise && self->dtype >= TUTTI_FLOAT16)
        return s_bad ("-o", tp_op_name ((int) self->op),
                      "an op that floats have; bitwise ones need -d int32");
    if (self->max < self->min) {
        tool_error ("bench: -b %zu is more than -e %zu", self->min, self->max);
        return false;
    }
    if (self->min == 0)
        return s_bad ("-b", "0", "at least one byte");
    if ((self->tensors || self->overlap) &&
        (self->kind != TP_ALLREDUCE || self->dtype != TUTTI_FLOAT32 ||
         self->op != TUTTI_SUM)) {
        tool_error ("bench: --tensors and --overlap measure allreduce float32 "
                    "sum");
        return false;
    }
    if (self->corrupt && (self->nodes == 1 || self->transport)) {
        tool_error ("bench: --corrupt flips bits between nodes: it needs "
                    "--nodes 2 or more, and no --transport");
        return false;
    }
    return true;
}

int
bench_options_read (bench_options_t *self, int argc, char **argv)
{
    *self = (bench_options_t){ .min = 16,
                               .max = 64u << 20,
                               .factor = 4,
                               .warmup = 5,
                               .dtype = TUTTI_FLOAT32,
                               .in_place = 2,
                               .check = true };
    int option;
    opterr = 0;
    while ((option = getopt_long (argc, argv, ":b:e:f:n:w:d:o:c:h", s_options,
                                  NULL)) != -1) {
        if (option == HELP || option == 'h') {
            fputs (s_help, stdout);
            return 0;
        }
        if (option == '?' || option == ':')
            return tool_bad_option ("bench", option, argv, s_options);
        if (!s_take (self, option, optarg))
            return TOOL_USAGE;
    }
    if (!s_collective (self, argc, argv, optind) || !s_agrees (self))
        return TOOL_USAGE;
    return -1;
}
