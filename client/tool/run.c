//  client/tool/run.c - tutti run: options, cluster, ranks

#include "client/tool/run.h"

#include "client/tool/ranks.h"
#include "client/tool/spawn.h"
#include "client/tool/tool.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define RANKS_MAX 4096
#define NODES_MAX 256
#define JOB_MAX 63
#define NO_PROGRAM 127  //  exit status, as shells have it

static const char s_help[] =
    "usage: tutti run -n RANKS [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
    "Starts PROGRAM as RANKS ranks. A coordinator and the agents are\n"
    "started on this machine, for this run only, unless TUTTI_AGENT names\n"
    "an agent (or TUTTI_COORDINATOR is set: /run/tutti/agent.sock).\n"
    "\n"
    "  -n, --ranks N        ranks to start\n"
    "      --nodes K        agents; rank r is on node r*K/N [1]\n"
    "      --elastic MIN:MAX  go on while MIN ranks live\n"
    "      --timeout SECONDS  then all are ended, status 124\n"
    "      --label          every line of output begins with [rank]\n"
    "      --job NAME       [run-PID-RANDOM]\n"
    "      --keep           the cluster stays up until Ctrl-C\n"
    "      --verbose        logs of the daemons on stderr\n"
    "      --http ADDR:PORT of the status page [127.0.0.1, any port]\n"
    "      --transport NAME between nodes: tcp, faulty:MODE:ARG [tcp]\n"
    "      --channels N     per edge [the plan's]\n"
    "      --netns LIST     network namespaces, one per node (root)\n"
    "      --addresses LIST the nodes' addresses in them\n"
    "\n"
    "Exit status: of the first rank that failed, 128 + signal if it was\n"
    "killed; the others are given 5 s, then SIGTERM, 2 s, then SIGKILL.\n"
    "Nothing is left running.\n";

enum {
    NODES = 256,
    ELASTIC,
    TIMEOUT,
    LABEL,
    JOB,
    KEEP,
    VERBOSE,
    HTTP,
    TRANSPORT,
    CHANNELS,
    NETNS,
    ADDRESSES,
    HELP
};

static const struct option s_options[] = {
    { "ranks", required_argument, NULL, 'n' },
    { "nodes", required_argument, NULL, NODES },
    { "elastic", required_argument, NULL, ELASTIC },
    { "timeout", required_argument, NULL, TIMEOUT },
    { "label", no_argument, NULL, LABEL },
    { "job", required_argument, NULL, JOB },
    { "keep", no_argument, NULL, KEEP },
    { "verbose", no_argument, NULL, VERBOSE },
    { "http", required_argument, NULL, HTTP },
    { "transport", required_argument, NULL, TRANSPORT },
    { "channels", required_argument, NULL, CHANNELS },
    { "netns", required_argument, NULL, NETNS },
    { "addresses", required_argument, NULL, ADDRESSES },
    { "help", no_argument, NULL, HELP },
    { 0 },
};

//  ----------------------------------------------------------------- options

bool
tool_run_list (const char *name, char *text, char ***list_p)
{
    static char *lists[2][NODES_MAX + 1];
    char **list = lists[strcmp (name, "--netns") == 0];
    size_t n = 0;
    char *item;
    memset (list, 0, sizeof lists[0]);
    while ((item = strsep (&text, ",")) != NULL) {
        if (!*item || n == NODES_MAX)
            return tool_bad_value ("run", name, item,
                                   "a list with commas, one per node");
        list[n++] = item;
    }
    *list_p = list;
    return true;
}

static bool
s_elastic (run_options_t *self, const char *value)
{
    int high;
    char more;
    self->elastic = value;
    if (sscanf (value, "%d:%d%c", &self->elastic_min, &high, &more) == 2 &&
        self->elastic_min > 0 && high >= self->elastic_min)
        return true;
    return tool_bad_value ("run", "--elastic", value, "MIN:MAX");
}

static bool
s_job (run_options_t *self, const char *value)
{
    self->job = value;
    if (*value && strlen (value) <= JOB_MAX &&
        value[strspn (value, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                             "abcdefghijklmnopqrstuvwxyz0123456789._-")] == 0)
        return true;
    return tool_bad_value ("run", "--job", value,
                           "1 to 63 of letters, digits, '.', '_', '-'");
}

static bool
s_number (const char *name, const char *value, int hi, int *number_p)
{
    char expects[64];
    snprintf (expects, sizeof expects, "a number from 1 to %d", hi);
    return tool_number (value, 1, hi, number_p) ||
           tool_bad_value ("run", name, value, expects);
}

static bool
s_take (run_options_t *self, int option, char *value)
{
    switch (option) {
    case 'n':
        return s_number ("-n", value, RANKS_MAX, &self->ranks);
    case NODES:
        return s_number ("--nodes", value, NODES_MAX, &self->cluster.nodes);
    case ELASTIC:
        return s_elastic (self, value);
    case TIMEOUT:
        return s_number ("--timeout", value, 1000000, &self->timeout_s);
    case LABEL:
        self->label = true;
        break;
    case JOB:
        return s_job (self, value);
    case KEEP:
        self->keep = true;
        break;
    case VERBOSE:
        self->cluster.verbose = true;
        break;
    case HTTP:
        self->cluster.http = value;
        break;
    case TRANSPORT:
        self->cluster.transport = value;
        break;
    case CHANNELS:
        self->cluster.channels = value;
        break;
    case NETNS:
        return tool_run_list ("--netns", value, &self->cluster.netns);
    default:
        return tool_run_list ("--addresses", value, &self->cluster.addresses);
    }
    return true;
}

static int
s_length (char **list)
{
    int n = 0;
    while (list && list[n])
        n++;
    return n;
}

//  Whether somebody else's agent serves.
static bool
s_outside (void)
{
    const char *agent = getenv ("TUTTI_AGENT");
    const char *coordinator = getenv ("TUTTI_COORDINATOR");
    return (agent && *agent) || (coordinator && *coordinator);
}

bool
tool_run_check (run_options_t *options, const char *command)
{
    cluster_options_t *c = &options->cluster;
    if (s_outside () &&
        (c->nodes > 1 || c->netns || c->addresses || c->transport ||
         c->channels || c->http || options->keep)) {
        tool_error ("%s: --nodes, --transport, --channels, --http, --netns, "
                    "--addresses and --keep are for a private cluster, but "
                    "TUTTI_AGENT or TUTTI_COORDINATOR is set; unset it",
                    command);
        return false;
    }
    if (c->nodes == 0)
        c->nodes = c->netns ? s_length (c->netns) : 1;
    if (c->nodes > options->ranks) {
        tool_error ("%s: %d nodes for %d ranks: every node needs at least "
                    "one",
                    command, c->nodes, options->ranks);
        return false;
    }
    if ((c->netns && s_length (c->netns) != c->nodes) ||
        (c->addresses && s_length (c->addresses) != c->nodes) ||
        (c->netns && !c->addresses)) {
        tool_error ("%s: --netns and --addresses need one entry for each of "
                    "%d nodes",
                    command, c->nodes);
        return false;
    }
    return true;
}

//  --------------------------------------------------------------------- run

//  SIGCHLD and the signals that end a run, by descriptor from now on.
static int
s_signals (void)
{
    sigset_t set;
    sigemptyset (&set);
    sigaddset (&set, SIGCHLD);
    sigaddset (&set, SIGINT);
    sigaddset (&set, SIGTERM);
    sigaddset (&set, SIGHUP);
    sigprocmask (SIG_BLOCK, &set, NULL);
    return signalfd (-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void
s_name_job (const run_options_t *options, char *job, size_t len)
{
    uint32_t random = 0;
    if (options->job)
        snprintf (job, len, "%s", options->job);
    else if (getrandom (&random, sizeof random, 0) > 0)
        snprintf (job, len, "run-%d-%08x", getpid (), random);
    else
        snprintf (job, len, "run-%d", getpid ());
}

//  --keep: until a signal comes.
static void
s_stay (const cluster_t *cluster, int status)
{
    tool_error ("the ranks ended with status %d; the cluster stays: %s, "
                "agent %s; to end it: kill %d",
                status, cluster_url (cluster), cluster_agent (cluster, 0),
                getpid ());
    sigset_t set;
    sigemptyset (&set);
    sigaddset (&set, SIGINT);
    sigaddset (&set, SIGTERM);
    sigaddset (&set, SIGHUP);
    int signal;
    sigwait (&set, &signal);
}

static int
s_run_ranks (const run_options_t *options, const char *path, char **program,
             cluster_t *cluster, int signal_fd)
{
    char job[JOB_MAX + 1];
    s_name_job (options, job, sizeof job);
    const char *url =
        cluster ? cluster_url (cluster) : getenv ("TUTTI_STATUS_URL");
    tool_error ("job %s status %s", job, url ? url : "unknown");
    ranks_t *ranks =
        ranks_start (options, job, path, program, cluster, signal_fd);
    if (!ranks)
        return TOOL_FAILED;
    int status = ranks_watch (ranks);
    ranks_destroy (&ranks);
    if (options->keep && cluster)
        s_stay (cluster, status);
    return status;
}

int
tool_run (const run_options_t *options, char **program)
{
    char path[PATH_MAX];
    if (!spawn_find (program[0], false, path)) {
        tool_error ("run: there is no program %s; give a path, or a name "
                    "that is in PATH",
                    program[0]);
        return NO_PROGRAM;
    }
    int signal_fd = s_signals ();
    if (signal_fd < 0 || !spawn_open ()) {
        tool_error ("run: cannot prepare: %s", strerror (errno));
        return TOOL_FAILED;
    }
    cluster_t *cluster = NULL;
    bool outside = s_outside ();
    if (!outside)
        cluster = cluster_start (&options->cluster, signal_fd);
    int status = TOOL_FAILED;
    if (outside || cluster)
        status = s_run_ranks (options, path, program, cluster, signal_fd);
    cluster_stop (&cluster);
    spawn_close ();
    close (signal_fd);
    return status;
}

int
tool_run_main (int argc, char **argv)
{
    run_options_t options = { .report = true };
    int option;
    opterr = 0;
    while ((option = getopt_long (argc, argv, "+:n:h", s_options, NULL)) !=
           -1) {
        if (option == HELP || option == 'h') {
            fputs (s_help, stdout);
            return 0;
        }
        if (option == '?' || option == ':')
            return tool_bad_option ("run", option, argv, s_options);
        if (!s_take (&options, option, optarg))
            return TOOL_USAGE;
    }
    if (options.ranks == 0 || optind == argc) {
        tool_error ("run: %s; see tutti run --help",
                    options.ranks == 0 ? "how many ranks? Give -n RANKS"
                                       : "which program? Give its name");
        return TOOL_USAGE;
    }
    if (!tool_run_check (&options, "run"))
        return TOOL_USAGE;
    return tool_run (&options, argv + optind);
}
