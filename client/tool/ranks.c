//  client/tool/ranks.c - the ranks of a run: start, watch, end

#include "client/tool/ranks.h"

#include "client/tool/relay.h"
#include "client/tool/spawn.h"
#include "client/tool/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define GRACE_MS 5000  //  to end by themselves
#define ASKED_MS 2000  //  from SIGTERM to SIGKILL
#define STATUS_TIMEOUT 124
#define VARIABLES 12
#define VARIABLE_BYTES 320

typedef enum { RUNNING, PATIENT, ASKED, KILLED } stage_t;

typedef struct rank {
    pid_t pid;  //  0: ended
    int status;
    relay_t *out, *err;  //  ours; NULL without --label
} rank_t;

struct ranks {
    const run_options_t *options;
    const char *job;
    cluster_t *cluster;  //  not ours; may be NULL
    int signal_fd;
    rank_t *rank;
    struct pollfd *polls;
    int live, good;
    stage_t stage;
    int64_t deadline;  //  of the stage
    int64_t expiry;    //  --timeout
    bool expired;
    int result;   //  of the first rank that failed; 0: none did
    bool killed;  //  it, or another one, was killed
};

//  ------------------------------------------------------------------- start

typedef struct environment {
    char text[VARIABLES][VARIABLE_BYTES];
    char *list[VARIABLES + 1];
    int n;
} environment_t;

__attribute__ ((format (printf, 2, 3))) static void
s_set (environment_t *self, const char *format, ...)
{
    va_list args;
    va_start (args, format);
    vsnprintf (self->text[self->n], VARIABLE_BYTES, format, args);
    va_end (args);
    self->list[self->n] = self->text[self->n];
    self->list[++self->n] = NULL;
}

//  The node of a rank: blocks of ranks, as equal as can be.
static int
s_node (const ranks_t *self, int r)
{
    return (int) ((long) r * self->options->cluster.nodes /
                  self->options->ranks);
}

static void
s_environment (const ranks_t *self, int r, environment_t *e)
{
    const run_options_t *o = self->options;
    int local = 0;
    while (local < r && s_node (self, r - local - 1) == s_node (self, r))
        local++;
    s_set (e, "TUTTI_JOB=%s", self->job);
    s_set (e, "TUTTI_RANK=%d", r);
    s_set (e, "TUTTI_SIZE=%d", o->ranks);
    s_set (e, "TUTTI_LOCAL_RANK=%d", local);
    if (self->cluster) {
        int node = s_node (self, r);
        s_set (e, "TUTTI_NODE=%s", cluster_node (self->cluster, node));
        s_set (e, "TUTTI_AGENT=%s", cluster_agent (self->cluster, node));
        s_set (e, "TUTTI_STATUS_URL=%s", cluster_url (self->cluster));
    }
    if (self->cluster || !getenv ("TUTTI_ATTEMPT"))
        s_set (e, "TUTTI_ATTEMPT=0");
    if (o->report && !getenv ("TUTTI_REPORT"))
        s_set (e, "TUTTI_REPORT=stderr");
    if (o->elastic)
        s_set (e, "TUTTI_ELASTIC=%s", o->elastic);
}

//  A pipe with a label, or -1: the tool's own output.
static bool
s_relay (const ranks_t *self, relay_t **relay_p, int to, int r, int *fd_p)
{
    *fd_p = -1;
    if (!self->options->label)
        return true;
    *relay_p = calloc (1, sizeof **relay_p);
    if (*relay_p && relay_open (*relay_p, to, r, fd_p))
        return true;
    free (*relay_p);
    *relay_p = NULL;
    return false;
}

static bool
s_start_rank (ranks_t *self, int r, const char *path, char **program)
{
    environment_t environment = { .n = 0 };
    s_environment (self, r, &environment);
    rank_t *rank = &self->rank[r];
    //  One program at a terminal could not be told from the other: input is
    //  for rank 0, and only from a pipe or a file.
    int null = open ("/dev/null", O_RDONLY | O_CLOEXEC), out = -1, err = -1;
    if (s_relay (self, &rank->out, STDOUT_FILENO, r, &out) &&
        s_relay (self, &rank->err, STDERR_FILENO, r, &err)) {
        int node = s_node (self, r);
        rank->pid = spawn_child (&(spawn_t){
            .program = path,
            .argv = program,
            .environment = environment.list,
            .netns =
                self->cluster ? cluster_netns (self->cluster, node) : NULL,
            .in = r == 0 && !isatty (STDIN_FILENO) ? -1 : null,
            .out = out,
            .err = err,
            .pass = -1 });
    }
    int error = errno;
    close (null);
    if (out >= 0)
        close (out);
    if (err >= 0)
        close (err);
    if (rank->pid > 0) {
        self->live++;
        return true;
    }
    rank->pid = 0;
    tool_error ("run: cannot start rank %d: %s", r, strerror (error));
    return false;
}

static ranks_t *
s_new (const run_options_t *options)
{
    size_t n = (size_t) options->ranks;
    ranks_t *self = calloc (1, sizeof *self);
    if (self) {
        self->options = options;
        self->rank = calloc (n, sizeof *self->rank);
        self->polls = calloc (2 * n + 1, sizeof *self->polls);
    }
    if (self && self->rank && self->polls)
        return self;
    tool_error ("run: no memory for %d ranks", options->ranks);
    ranks_destroy (&self);
    return NULL;
}

ranks_t *
ranks_start (const run_options_t *options, const char *job, const char *path,
             char **program, cluster_t *cluster, int signal_fd)
{
    ranks_t *self = s_new (options);
    if (!self)
        return NULL;
    self->job = job;
    self->cluster = cluster;
    self->signal_fd = signal_fd;
    self->deadline = INT64_MAX;
    self->expiry = options->timeout_s > 0
                       ? tool_now_ms () + (int64_t) options->timeout_s * 1000
                       : INT64_MAX;
    bool ok = true;
    for (int r = 0; ok && r < options->ranks; r++)
        ok = s_start_rank (self, r, path, program);
    if (!ok)
        ranks_destroy (&self);
    return self;
}

void
ranks_destroy (ranks_t **self_p)
{
    ranks_t *self = *self_p;
    if (!self)
        return;
    for (int r = 0; self->rank && r < self->options->ranks; r++) {
        rank_t *rank = &self->rank[r];
        if (rank->pid > 0)
            spawn_end (rank->pid, 0);
        if (rank->out)
            relay_close (rank->out);
        if (rank->err)
            relay_close (rank->err);
        free (rank->out);
        free (rank->err);
    }
    free (self->rank);
    free (self->polls);
    free (self);
    *self_p = NULL;
}

//  -------------------------------------------------------------- the ladder

static void
s_signal_all (ranks_t *self, int signal)
{
    for (int r = 0; r < self->options->ranks; r++)
        if (self->rank[r].pid > 0)
            spawn_signal (self->rank[r].pid, signal);
}

//  The only writer of the stage.
static void
s_enter (ranks_t *self, stage_t stage)
{
    if (stage == ASKED)
        s_signal_all (self, SIGTERM);
    if (stage == KILLED)
        s_signal_all (self, SIGKILL);
    self->stage = stage;
    self->deadline = INT64_MAX;
    if (stage != KILLED)
        self->deadline =
            tool_now_ms () + (stage == ASKED ? ASKED_MS : GRACE_MS);
}

static void
s_check_time (ranks_t *self)
{
    int64_t now = tool_now_ms ();
    if (now >= self->expiry) {
        tool_error ("run: %d ranks still run after %d s (--timeout): they are "
                    "ended",
                    self->live, self->options->timeout_s);
        self->expired = true;
        self->expiry = INT64_MAX;
        if (self->stage < ASKED)
            s_enter (self, ASKED);
        return;
    }
    if (now < self->deadline)
        return;
    if (self->stage == PATIENT) {
        tool_error ("run: %d ranks still run %d s later: SIGTERM", self->live,
                    GRACE_MS / 1000);
        s_enter (self, ASKED);
    }
    else if (self->stage == ASKED) {
        s_enter (self, KILLED);
    }
}

static void
s_take_signal (ranks_t *self)
{
    struct signalfd_siginfo info;
    while (read (self->signal_fd, &info, sizeof info) ==
           (ssize_t) sizeof info) {
        if (info.ssi_signo == SIGCHLD)
            continue;
        if (self->stage != RUNNING) {
            s_enter (self, KILLED);
            continue;
        }
        s_signal_all (self, (int) info.ssi_signo);
        s_enter (self, PATIENT);
    }
}

//  ------------------------------------------------------------------- watch

//  An elastic job goes on without some of its ranks.
static bool
s_goes_on (const ranks_t *self)
{
    int least = self->options->elastic_min;
    return least > 0 && self->live + self->good >= least;
}

static void
s_say_failed (const ranks_t *self, int r, pid_t pid)
{
    int status = self->rank[r].status, node = s_node (self, r);
    const char *name =
        self->cluster ? cluster_node (self->cluster, node) : "this node";
    if (WIFSIGNALED (status))
        tool_error ("run: rank %d (%s, pid %d) was killed by signal %d (%s)",
                    r, name, pid, WTERMSIG (status),
                    strsignal (WTERMSIG (status)));
    else
        tool_error ("run: rank %d (%s, pid %d) ended with status %d", r, name,
                    pid, WEXITSTATUS (status));
}

static int
s_result (int status)
{
    return WIFSIGNALED (status) ? 128 + WTERMSIG (status)
                                : WEXITSTATUS (status);
}

//  A rank that was killed, by somebody else, comes before ranks that failed:
//  they did so because of it, and often end sooner than its memory is undone.
static void
s_reap (ranks_t *self)
{
    int failed = 0;
    bool killed = false;
    for (int r = 0; r < self->options->ranks; r++) {
        rank_t *rank = &self->rank[r];
        pid_t pid = rank->pid;
        if (pid == 0 || !spawn_ended (pid, &rank->status))
            continue;
        rank->pid = 0;
        self->live--;
        self->good += rank->status == 0;
        if (rank->status == 0)
            continue;
        if (self->stage < ASKED)
            s_say_failed (self, r, pid);
        if (failed == 0 || (!killed && WIFSIGNALED (rank->status)))
            failed = s_result (rank->status);
        killed |= WIFSIGNALED (rank->status);
    }
    if (failed == 0)
        return;
    bool culprit = killed && !self->killed && self->stage < ASKED;
    self->result = self->result && !culprit ? self->result : failed;
    self->killed |= killed;
    if (self->stage == RUNNING && !s_goes_on (self))
        s_enter (self, PATIENT);
}

static void
s_poll_relay (ranks_t *self, relay_t *relay, nfds_t *n_p)
{
    if (relay && relay->fd >= 0)
        self->polls[(*n_p)++] = (struct pollfd){ relay->fd, POLLIN, 0 };
}

static void
s_pump (ranks_t *self)
{
    for (int r = 0; r < self->options->ranks; r++) {
        if (self->rank[r].out)
            relay_pump (self->rank[r].out);
        if (self->rank[r].err)
            relay_pump (self->rank[r].err);
    }
}

static void
s_wait (ranks_t *self)
{
    nfds_t n = 0;
    self->polls[n++] = (struct pollfd){ self->signal_fd, POLLIN, 0 };
    for (int r = 0; r < self->options->ranks; r++) {
        s_poll_relay (self, self->rank[r].out, &n);
        s_poll_relay (self, self->rank[r].err, &n);
    }
    int64_t until =
        self->deadline < self->expiry ? self->deadline : self->expiry;
    int64_t left = until - tool_now_ms ();
    int patience = until == INT64_MAX ? -1
                   : left < 0         ? 0
                   : left < 60000     ? (int) left
                                      : 60000;
    poll (self->polls, n, patience);
}

int
ranks_watch (ranks_t *self)
{
    while (self->live > 0) {
        s_take_signal (self);
        s_reap (self);
        if (self->live == 0)
            break;
        cluster_check (self->cluster);
        s_check_time (self);
        s_wait (self);
        s_pump (self);
    }
    if (self->expired)
        return STATUS_TIMEOUT;
    int least = self->options->elastic_min;
    return least > 0 && self->good >= least ? 0 : self->result;
}
