//  client/tool/spawn.c - child processes that never outlive the tool

#include "client/tool/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NO_EXEC 127
#define POLL_MS 5
#define SWEEP_MS 2000

//  The guard: one per tool.
static struct {
    pid_t pid;
    int fd;  //  groups go in: N to add, -N to forget
} s_guard = { -1, -1 };

//  ------------------------------------------------------------- the guard

static void
s_remember (pid_t message, pid_t **groups_p, size_t *n_p)
{
    pid_t *groups = *groups_p;
    if (message > 0) {
        groups = realloc (groups, (*n_p + 1) * sizeof *groups);
        if (!groups)
            return;
        groups[(*n_p)++] = message;
        *groups_p = groups;
        return;
    }
    for (size_t i = 0; i < *n_p; i++)
        if (groups[i] == -message) {
            groups[i] = groups[--*n_p];
            return;
        }
}

//  Reads until the tool has closed its end, by will or by death.
__attribute__ ((noreturn)) static void
s_watch (int fd)
{
    pid_t *groups = NULL, message;
    size_t n = 0;
    while (read (fd, &message, sizeof message) == (ssize_t) sizeof message)
        s_remember (message, &groups, &n);
    for (size_t i = 0; i < n; i++)
        kill (-groups[i], SIGKILL);
    _exit (0);
}

__attribute__ ((noreturn)) static void
s_become_guard (int fd)
{
    sigset_t all;
    sigfillset (&all);
    sigprocmask (SIG_SETMASK, &all, NULL);
    setpgid (0, 0);
    prctl (PR_SET_NAME, "tutti-guard");
    dup2 (fd, 3);
    close_range (4, ~0u, 0);
    int null = open ("/dev/null", O_RDWR);
    for (int i = 0; i < 3; i++)
        dup2 (null, i);
    s_watch (3);
}

static void
s_tell (pid_t message)
{
    ssize_t sent = write (s_guard.fd, &message, sizeof message);
    (void) sent;  //  no guard: the death signal is still there
}

bool
spawn_open (void)
{
    int fds[2];
    if (prctl (PR_SET_CHILD_SUBREAPER, 1) < 0 || pipe2 (fds, O_CLOEXEC) < 0)
        return false;
    signal (SIGPIPE, SIG_IGN);
    s_guard.pid = fork ();
    if (s_guard.pid == 0)
        s_become_guard (fds[0]);
    close (fds[0]);
    s_guard.fd = fds[1];
    if (s_guard.pid > 0)
        return true;
    close (s_guard.fd);
    return false;
}

//  ------------------------------------------------------------- one child

static void
s_nap (void)
{
    nanosleep (&(struct timespec){ 0, POLL_MS * 1000000 }, NULL);
}

//  Into the network namespace of the node.
static void
s_enter (const char *netns)
{
    char path[PATH_MAX];
    snprintf (path, sizeof path, "/run/netns/%s", netns);
    int fd = open (path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && setns (fd, CLONE_NEWNET) == 0)
        return;
    fprintf (stderr, "tutti: network namespace %s: %s; --netns needs root\n",
             netns, strerror (errno));
    _exit (NO_EXEC);
}

//  In the child, which has one thread only.
__attribute__ ((noreturn)) static void
s_become (const spawn_t *what, pid_t parent)
{
    setpgid (0, 0);
    prctl (PR_SET_PDEATHSIG, SIGKILL);
    if (getppid () != parent)
        _exit (NO_EXEC);
    const int wanted[3] = { what->in, what->out, what->err };
    for (int i = 0; i < 3; i++)
        if (wanted[i] >= 0)
            dup2 (wanted[i], i);
    if (what->pass >= 0)
        fcntl (what->pass, F_SETFD, 0);
    if (what->netns)
        s_enter (what->netns);
    for (char *const *e = what->environment; e && *e; e++)
        putenv (*e);  //  without '=': unsets (glibc)
    signal (SIGPIPE, SIG_DFL);
    sigset_t none;
    sigemptyset (&none);
    sigprocmask (SIG_SETMASK, &none, NULL);
    execv (what->program, what->argv);
    fprintf (stderr, "tutti: cannot start %s: %s\n", what->program,
             strerror (errno));
    _exit (NO_EXEC);
}

pid_t
spawn_child (const spawn_t *what)
{
    pid_t parent = getpid ();
    fflush (NULL);
    pid_t pid = fork ();
    if (pid == 0)
        s_become (what, parent);
    if (pid > 0) {
        setpgid (pid, pid);
        s_tell (pid);
    }
    return pid;
}

bool
spawn_ended (pid_t pid, int *status_p)
{
    siginfo_t info = { 0 };
    int rc = waitid (P_PID, (id_t) pid, &info, WEXITED | WNOHANG | WNOWAIT);
    *status_p = 0;
    if (rc < 0)
        return true;  //  no such child: it needs no more care
    if (info.si_pid != pid)
        return false;
    //  Not yet reaped, so its group's number is still its own.
    kill (-pid, SIGKILL);
    s_tell (-pid);
    waitpid (pid, status_p, 0);
    return true;
}

void
spawn_signal (pid_t pid, int signal)
{
    kill (-pid, signal);
}

void
spawn_end (pid_t pid, int patience_ms)
{
    int status;
    for (int ms = 0; ms < patience_ms; ms += POLL_MS) {
        if (spawn_ended (pid, &status))
            return;
        s_nap ();
    }
    kill (-pid, SIGKILL);
    while (!spawn_ended (pid, &status))
        s_nap ();
}

//  ------------------------------------------------------------ what is left

static void
s_kill_children (void)
{
    char path[64];
    snprintf (path, sizeof path, "/proc/self/task/%d/children", getpid ());
    FILE *file = fopen (path, "r");
    int pid;
    while (file && fscanf (file, "%d", &pid) == 1)
        kill (pid, SIGKILL);
    if (file)
        fclose (file);
}

void
spawn_close (void)
{
    close (s_guard.fd);
    waitpid (s_guard.pid, NULL, 0);
    for (int ms = 0; ms < SWEEP_MS; ms += POLL_MS) {
        s_kill_children ();
        pid_t pid;
        while ((pid = waitpid (-1, NULL, WNOHANG)) > 0)
            continue;
        if (pid < 0)
            return;
        s_nap ();
    }
}

//  -------------------------------------------------------------- programs

static bool
s_is_program (const char *dir, size_t len, const char *name,
              char path[PATH_MAX])
{
    int n = snprintf (path, PATH_MAX, "%.*s/%s", (int) len, dir, name);
    return n < PATH_MAX && access (path, X_OK) == 0;
}

bool
spawn_find (const char *name, bool beside, char path[PATH_MAX])
{
    if (strchr (name, '/'))
        return snprintf (path, PATH_MAX, "%s", name) < PATH_MAX &&
               access (path, X_OK) == 0;
    char self[PATH_MAX];
    ssize_t len = readlink ("/proc/self/exe", self, sizeof self - 1);
    if (beside && len > 0) {
        self[len] = 0;
        char *slash = strrchr (self, '/');
        if (s_is_program (self, (size_t) (slash - self), name, path))
            return true;
    }
    const char *dir = getenv ("PATH");
    while (dir && *dir) {
        size_t end = strcspn (dir, ":");
        if (end > 0 && s_is_program (dir, end, name, path))
            return true;
        dir += end + (dir[end] == ':');
    }
    return false;
}
