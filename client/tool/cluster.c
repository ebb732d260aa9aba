//  client/tool/cluster.c - a private coordinator and its agents

#include "client/tool/cluster.h"

#include "client/tool/spawn.h"
#include "client/tool/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#define KEY_TEXT 41  //  Z85 and the zero
#define LINE_MAX_BYTES 512
#define READY_MS 10000
#define DRAIN_MS 1000
#define STOP_MS 5000  //  from SIGTERM to SIGKILL
#define LOG_TAIL_BYTES 16384
#define LOG_TAIL_LINES 20
#define ARGUMENTS_MAX 20

//  A coordinator or an agent.
typedef struct unit {
    char what[80];  //  "agent node0", for messages
    pid_t pid;      //  0: not running
    int out, log;   //  ours; -1: none
    char line[LINE_MAX_BYTES];
    size_t line_len;
} unit_t;

typedef struct node {
    unit_t unit;
    char name[32], socket[80], address[64];
} node_t;

typedef struct keys {
    char coordinator_public[KEY_TEXT], coordinator_secret[KEY_TEXT];
    char agent_public[KEY_TEXT], agent_secret[KEY_TEXT];
} keys_t;

struct cluster {
    const cluster_options_t *options;
    int stop_fd;
    int64_t deadline;  //  of the start
    unit_t coordinator;
    node_t *nodes;
    char control[128], url[128];
    keys_t keys;
};

//  ------------------------------------------------------------------- keys

static bool
s_make_keys (keys_t *self)
{
    if (zmq_curve_keypair (self->coordinator_public,
                           self->coordinator_secret) == 0 &&
        zmq_curve_keypair (self->agent_public, self->agent_secret) == 0)
        return true;
    tool_error ("run: cannot make CURVE keys: %s; is libzmq built with "
                "libsodium?",
                zmq_strerror (errno));
    return false;
}

//  A key file in memory: every daemon gets its own. -1: none.
static int
s_key_file (const char *text)
{
    int fd = memfd_create ("tutti-keys", MFD_CLOEXEC);
    ssize_t len = (ssize_t) strlen (text);
    if (fd >= 0 && write (fd, text, (size_t) len) == len &&
        lseek (fd, 0, SEEK_SET) == 0)
        return fd;
    tool_error ("run: cannot hold keys in memory: %s", strerror (errno));
    if (fd >= 0)
        close (fd);
    return -1;
}

//  -------------------------------------------------------------- one daemon

//  An unlinked file: nothing to clean up after kill -9.
static int
s_log_file (void)
{
    const char *dir = getenv ("TMPDIR");
    int flags = O_TMPFILE | O_RDWR | O_APPEND | O_CLOEXEC;
    int fd = open (dir && *dir ? dir : "/tmp", flags, 0600);
    return fd >= 0 ? fd : memfd_create ("tutti-log", MFD_CLOEXEC);
}

//  The end of the log, indented.
static void
s_show_log (const unit_t *unit)
{
    char bytes[LOG_TAIL_BYTES + 1];
    off_t end = unit->log < 0 ? 0 : lseek (unit->log, 0, SEEK_END);
    off_t from = end > LOG_TAIL_BYTES ? end - LOG_TAIL_BYTES : 0;
    ssize_t got = end > 0 ? pread (unit->log, bytes, LOG_TAIL_BYTES, from) : 0;
    if (got <= 0)
        return;
    bytes[got] = 0;
    char *start = bytes + got, *line;
    for (int lines = 0; start > bytes; start--)
        if (start < bytes + got && start[-1] == '\n' &&
            ++lines == LOG_TAIL_LINES)
            break;
    while ((line = strsep (&start, "\n")) != NULL)
        if (*line)
            fprintf (stderr, "  | %s\n", line);
}

static bool
s_start_unit (cluster_t *self, unit_t *unit, const char *program,
              char *const *argv, int keys, const char *netns)
{
    static char *const clean[] = {
        "TUTTI_AGENT_INSECURE",       "TUTTI_AGENT_KEYS",
        "TUTTI_COORDINATOR_INSECURE", "TUTTI_COORDINATOR_KEYS",
        "TUTTI_COORDINATOR",          NULL
    };
    char path[PATH_MAX];
    if (!spawn_find (program, true, path)) {
        tool_error ("run: %s is neither beside this tool nor in PATH; build "
                    "it with scons, or install it",
                    program);
        return false;
    }
    int out[2], null = open ("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0 || pipe2 (out, O_CLOEXEC) < 0) {
        tool_error ("run: %s: %s", unit->what, strerror (errno));
        return false;
    }
    unit->log = self->options->verbose ? -1 : s_log_file ();
    pid_t pid = spawn_child (&(spawn_t){ .program = path,
                                         .argv = argv,
                                         .environment = clean,
                                         .netns = netns,
                                         .in = null,
                                         .out = out[1],
                                         .err = unit->log,
                                         .pass = keys });
    if (pid < 0)
        tool_error ("run: cannot start the %s: fork: %s", unit->what,
                    strerror (errno));
    close (null);
    close (out[1]);
    unit->out = out[0];
    unit->pid = pid > 0 ? pid : 0;
    return pid > 0;
}

//  "status 1", "signal 9 (Killed)".
static void
s_say_status (int status, char *text, size_t len)
{
    if (WIFSIGNALED (status))
        snprintf (text, len, "signal %d (%s)", WTERMSIG (status),
                  strsignal (WTERMSIG (status)));
    else
        snprintf (text, len, "status %d", WEXITSTATUS (status));
}

static void
s_say_not_ready (cluster_t *self, unit_t *unit, bool ended)
{
    char how[64];
    int status = 0;
    for (int64_t until = tool_now_ms () + DRAIN_MS;
         ended && tool_now_ms () < until && unit->pid > 0;)
        if (spawn_ended (unit->pid, &status))
            unit->pid = 0;
    s_say_status (status, how, sizeof how);
    if (ended)
        tool_error ("run: the %s ended with %s before it was ready; its last "
                    "words%s",
                    unit->what, how,
                    self->options->verbose ? " are above" : ":");
    else
        tool_error ("run: the %s did not get ready within %d s; run again "
                    "with --verbose to watch its log; it said:",
                    unit->what, READY_MS / 1000);
    s_show_log (unit);
}

//  ------------------------------------------------------- waiting for ready

//  A signal to end; SIGCHLD is not one.
static bool
s_stopped (cluster_t *self)
{
    struct signalfd_siginfo info;
    if (read (self->stop_fd, &info, sizeof info) != (ssize_t) sizeof info ||
        info.ssi_signo == SIGCHLD)
        return false;
    tool_error ("run: signal %u (%s) while the cluster was starting",
                info.ssi_signo, strsignal ((int) info.ssi_signo));
    return true;
}

//  More of the first line. False: the daemon closed its stdout.
static bool
s_read_line (unit_t *unit)
{
    size_t room = sizeof unit->line - 1 - unit->line_len;
    ssize_t got = read (unit->out, unit->line + unit->line_len, room);
    if (got <= 0)
        return got < 0 && errno == EINTR;
    unit->line_len += (size_t) got;
    unit->line[unit->line_len] = 0;
    return true;
}

static bool
s_wait_ready (cluster_t *self, unit_t *unit)
{
    while (!strchr (unit->line, '\n')) {
        struct pollfd fds[2] = { { unit->out, POLLIN, 0 },
                                 { self->stop_fd, POLLIN, 0 } };
        int64_t left = self->deadline - tool_now_ms ();
        if (left <= 0 || unit->line_len == sizeof unit->line - 1) {
            s_say_not_ready (self, unit, false);
            return false;
        }
        poll (fds, 2, (int) left);
        if ((fds[1].revents & POLLIN) && s_stopped (self))
            return false;
        if ((fds[0].revents & (POLLIN | POLLHUP)) && !s_read_line (unit)) {
            s_say_not_ready (self, unit, true);
            return false;
        }
    }
    if (strncmp (unit->line, "ready ", 6) == 0)
        return true;
    tool_error ("run: the %s said \"%.*s\" instead of \"ready ...\"; do the "
                "versions of tutti and the daemons agree?",
                unit->what, (int) strcspn (unit->line, "\n"), unit->line);
    return false;
}

//  The value of " NAME=" in the ready line.
static bool
s_field (const unit_t *unit, const char *name, char *value, size_t room)
{
    const char *at = strstr (unit->line, name);
    if (!at)
        return false;
    at += strlen (name);
    size_t len = strcspn (at, " \n");
    if (len == 0 || len >= room)
        return false;
    memcpy (value, at, len);
    value[len] = 0;
    return true;
}

//  ---------------------------------------------------------------- the lot

static bool
s_start_coordinator (cluster_t *self)
{
    const cluster_options_t *o = self->options;
    const char *address = o->addresses ? o->addresses[0] : "127.0.0.1";
    char keys[32], bind[96], http[96], text[512];
    snprintf (text, sizeof text,
              "coordinator_secret %s\ncoordinator_public %s\n"
              "agent_public %s\n",
              self->keys.coordinator_secret, self->keys.coordinator_public,
              self->keys.agent_public);
    int fd = s_key_file (text);
    explicit_bzero (text, sizeof text);
    if (fd < 0)
        return false;
    snprintf (keys, sizeof keys, "fd:%d", fd);
    snprintf (bind, sizeof bind, "tcp://%s:0", address);
    snprintf (http, sizeof http, "%s:0", address);
    const char *argv[] = { "tutti-coordinator",      "--bind", bind, "--http",
                           o->http ? o->http : http, "--keys", keys, NULL };
    snprintf (self->coordinator.what, sizeof self->coordinator.what,
              "coordinator");
    bool ok = s_start_unit (self, &self->coordinator, argv[0],
                            (char *const *) argv, fd, cluster_netns (self, 0));
    close (fd);
    if (!ok || !s_wait_ready (self, &self->coordinator))
        return false;
    if (s_field (&self->coordinator, " control=", self->control,
                 sizeof self->control) &&
        s_field (&self->coordinator, " http=", self->url, sizeof self->url))
        return true;
    tool_error ("run: the coordinator's ready line has no control= and http=: "
                "%s",
                self->coordinator.line);
    return false;
}

static bool
s_start_agent (cluster_t *self, node_t *node, int fd, const char *netns)
{
    const cluster_options_t *o = self->options;
    char keys[32];
    snprintf (keys, sizeof keys, "fd:%d", fd);
    const char *argv[ARGUMENTS_MAX] = {
        "tutti-agent", "--coordinator", self->control, "--socket",
        node->socket,  "--node",        node->name,    "--data-bind",
        node->address, "--keys",        keys
    };
    size_t n = 11;
    if (o->transport) {
        argv[n++] = "--transport";
        argv[n++] = o->transport;
    }
    if (o->channels) {
        argv[n++] = "--channels";
        argv[n++] = o->channels;
    }
    return s_start_unit (self, &node->unit, argv[0], (char *const *) argv, fd,
                         netns);
}

static bool
s_start_agents (cluster_t *self)
{
    char text[512];
    snprintf (text, sizeof text,
              "coordinator_public %s\nagent_public %s\nagent_secret %s\n",
              self->keys.coordinator_public, self->keys.agent_public,
              self->keys.agent_secret);
    bool ok = true;
    for (int i = 0; ok && i < self->options->nodes; i++) {
        int fd = s_key_file (text);
        ok = fd >= 0 && s_start_agent (self, &self->nodes[i], fd,
                                       cluster_netns (self, i));
        if (fd >= 0)
            close (fd);
    }
    explicit_bzero (text, sizeof text);
    for (int i = 0; ok && i < self->options->nodes; i++)
        ok = s_wait_ready (self, &self->nodes[i].unit);
    return ok;
}

static cluster_t *
s_new (const cluster_options_t *options, int stop_fd)
{
    cluster_t *self = calloc (1, sizeof *self);
    node_t *nodes =
        self ? calloc ((size_t) options->nodes, sizeof *nodes) : NULL;
    uint32_t random = 0;
    if (!nodes || getrandom (&random, sizeof random, 0) < 0) {
        tool_error ("run: no memory for %d nodes", options->nodes);
        free (nodes);
        free (self);
        return NULL;
    }
    self->options = options;
    self->stop_fd = stop_fd;
    self->nodes = nodes;
    self->coordinator.out = self->coordinator.log = -1;
    for (int i = 0; i < options->nodes; i++) {
        node_t *node = &nodes[i];
        node->unit.out = node->unit.log = -1;
        snprintf (node->name, sizeof node->name, "node%d", i);
        snprintf (node->unit.what, sizeof node->unit.what, "agent %s",
                  node->name);
        snprintf (node->socket, sizeof node->socket, "@tutti-%u-%08x-%d",
                  getuid (), random, i);
        snprintf (node->address, sizeof node->address, "%s",
                  options->addresses ? options->addresses[i] : "127.0.0.1");
    }
    return self;
}

cluster_t *
cluster_start (const cluster_options_t *options, int stop_fd)
{
    cluster_t *self = s_new (options, stop_fd);
    if (!self)
        return NULL;
    self->deadline = tool_now_ms () + READY_MS;
    bool ok = s_make_keys (&self->keys) && s_start_coordinator (self) &&
              s_start_agents (self);
    explicit_bzero (&self->keys, sizeof self->keys);
    if (!ok)
        cluster_stop (&self);
    return self;
}

//  Kills it if it is still there at DEADLINE.
static void
s_stop_unit (unit_t *unit, int64_t deadline)
{
    int64_t left = deadline - tool_now_ms ();
    if (unit->pid > 0)
        spawn_end (unit->pid, left > 0 ? (int) left : 0);
    unit->pid = 0;
    if (unit->out >= 0)
        close (unit->out);
    if (unit->log >= 0)
        close (unit->log);
}

void
cluster_stop (cluster_t **self_p)
{
    cluster_t *self = *self_p;
    if (!self)
        return;
    int64_t deadline = tool_now_ms () + STOP_MS;
    for (int i = 0; i < self->options->nodes; i++)
        if (self->nodes[i].unit.pid > 0)
            spawn_signal (self->nodes[i].unit.pid, SIGTERM);
    for (int i = 0; i < self->options->nodes; i++)
        s_stop_unit (&self->nodes[i].unit, deadline);
    if (self->coordinator.pid > 0)
        spawn_signal (self->coordinator.pid, SIGTERM);
    s_stop_unit (&self->coordinator, tool_now_ms () + STOP_MS);
    free (self->nodes);
    free (self);
    *self_p = NULL;
}

static void
s_check_unit (unit_t *unit)
{
    char how[64];
    int status;
    if (unit->pid == 0 || !spawn_ended (unit->pid, &status))
        return;
    unit->pid = 0;
    s_say_status (status, how, sizeof how);
    tool_error ("run: the %s ended with %s while ranks were running; its last "
                "words:",
                unit->what, how);
    s_show_log (unit);
}

void
cluster_check (cluster_t *self)
{
    if (!self)
        return;
    s_check_unit (&self->coordinator);
    for (int i = 0; i < self->options->nodes; i++)
        s_check_unit (&self->nodes[i].unit);
}

const char *
cluster_agent (const cluster_t *self, int node)
{
    return self->nodes[node].socket;
}

const char *
cluster_node (const cluster_t *self, int node)
{
    return self->nodes[node].name;
}

const char *
cluster_url (const cluster_t *self)
{
    return self->url;
}

const char *
cluster_netns (const cluster_t *self, int node)
{
    return self->options->netns ? self->options->netns[node] : NULL;
}
