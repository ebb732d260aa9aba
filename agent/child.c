//  agent/child.c - one worker process, as the supervisor sees it
//
//            EMPTY    BROKEN   EXITED
//  RUNNING   LEAVING  CUT      ENDED
//  LEAVING   LEAVING  LEAVING  ENDED
//  CUT       CUT      CUT      ENDED
//  ENDED     -        -        -
//
//  s_rules is this picture; change both or neither. A worker that is LEAVING
//  or CUT is killed if it does not exit in time.

#include "agent/child.h"

#include "agent/log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXIT_NO_EXEC 127

static const struct {
    const char *name;
    int64_t patience;  //  ms until it is killed; 0 is forever
    ta_child_state_t next[TA_CHILD_EVENTS];
} s_rules[TA_CHILD_STATES] = {
    { "running", 0, { TA_CHILD_LEAVING, TA_CHILD_CUT, TA_CHILD_ENDED } },
    { "leaving",
      20000,
      { TA_CHILD_LEAVING, TA_CHILD_LEAVING, TA_CHILD_ENDED } },
    { "cut", 2000, { TA_CHILD_CUT, TA_CHILD_CUT, TA_CHILD_ENDED } },
    { "ended", 0, { TA_CHILD_ENDED, TA_CHILD_ENDED, TA_CHILD_ENDED } },
};

void
ta_child_event (ta_child_t *self, ta_child_event_t event, int64_t now_ms)
{
    assert (event < TA_CHILD_EVENTS);
    ta_child_state_t state = s_rules[self->state].next[event];
    if (state == self->state)
        return;
    ta_log (TA_LOG_INFO, "worker", "job=%s attempt=%u pid=%d state=%s was=%s",
            self->job, self->attempt, self->pid, s_rules[state].name,
            s_rules[self->state].name);
    int64_t patience = s_rules[state].patience;
    self->deadline = patience ? now_ms + patience : INT64_MAX;
    self->state = state;
}

//  -------------------------------------------------------------------- start

//  In the new process, between fork and exec: only what is safe there.
__attribute__ ((noreturn)) static void
s_become_worker (int fd, const ta_client_t *client)
{
    sigset_t none;
    sigemptyset (&none);
    sigprocmask (SIG_SETMASK, &none, NULL);
    //  A terminal's Ctrl-C is for the supervisor, which then drains us.
    setpgid (0, 0);
    //  stdout is where the supervisor says that it is ready.
    dup2 (STDERR_FILENO, STDOUT_FILENO);
    if (fd == TA_WORKER_FD)
        fcntl (fd, F_SETFD, 0);
    else
        dup2 (fd, TA_WORKER_FD);
    if (geteuid () == 0 && client->uid != 0 &&
        (setgroups (0, NULL) < 0 || setgid (client->gid) < 0 ||
         setuid (client->uid) < 0))
        _exit (EXIT_NO_EXEC);
    char *const arguments[] = { "tutti-agent", "--worker", NULL };
    execv ("/proc/self/exe", arguments);
    _exit (EXIT_NO_EXEC);
}

static tutti_err_t
s_spawn (ta_child_t *self, const ta_client_t *client, char *text)
{
    int fds[2];
    if (socketpair (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0) {
        snprintf (text, TP_TEXT_MAX, "job %s: socketpair: %s", self->job,
                  strerror (errno));
        return TUTTI_ENOMEM;
    }
    if (ta_pair_new (&self->pair, fds[0]) != TUTTI_OK) {
        snprintf (text, TP_TEXT_MAX, "job %s: no memory", self->job);
        close (fds[0]);
        close (fds[1]);
        return TUTTI_ENOMEM;
    }
    self->pid = fork ();
    if (self->pid == 0)
        s_become_worker (fds[1], client);
    int error = errno;
    close (fds[1]);
    if (self->pid > 0)
        return TUTTI_OK;
    snprintf (text, TP_TEXT_MAX, "job %s: cannot start a worker: fork: %s",
              self->job, strerror (error));
    return TUTTI_ENOMEM;
}

tutti_err_t
ta_child_new (ta_child_t **self_p, const ta_setup_t *setup,
              const ta_client_t *client, char *text)
{
    ta_child_t *self = calloc (1, sizeof *self);
    if (!self) {
        snprintf (text, TP_TEXT_MAX, "job %s: no memory", setup->job);
        return TUTTI_ENOMEM;
    }
    memcpy (self->job, setup->job, sizeof self->job);
    self->attempt = setup->attempt;
    self->uid = client->uid;
    self->deadline = INT64_MAX;
    tutti_err_t err = s_spawn (self, client, text);
    if (!err)
        err = ta_pair_send (self->pair, TA_SETUP, setup, sizeof *setup, NULL);
    if (err) {
        if (self->pid > 0 && kill (self->pid, SIGKILL) == 0)
            waitpid (self->pid, NULL, 0);
        ta_child_destroy (&self);
        return TUTTI_ENOMEM;
    }
    ta_log (TA_LOG_INFO, "worker-started", "job=%s attempt=%u pid=%d uid=%u",
            self->job, self->attempt, self->pid, self->uid);
    *self_p = self;
    return TUTTI_OK;
}

void
ta_child_destroy (ta_child_t **self_p)
{
    ta_child_t *self = *self_p;
    if (!self)
        return;
    ta_pair_destroy (&self->pair);
    if (self->progress)
        tutti__progress__free_unpacked (self->progress, NULL);
    free (self);
    *self_p = NULL;
}

//  -------------------------------------------------------------------- ranks

tutti_err_t
ta_child_adopt (ta_child_t *self, const ta_client_t *client)
{
    int fds[2] = { client->sock, client->pidfd };
    tutti_err_t err = ta_pair_send (self->pair, TA_ADOPT, &client->hello,
                                    sizeof client->hello, fds);
    if (err)
        return err;
    self->sent++;
    //  A second claim to a rank is refused by the worker: keep the first.
    for (uint32_t i = 0; i < self->n_adopted; i++) {
        if (self->adopted[i].rank == client->hello.rank)
            return TUTTI_OK;
    }
    if (self->n_adopted < TP_LOCAL_MAX)
        self->adopted[self->n_adopted++] =
            (ta_adopted_t){ client->hello.rank, client->hello.pid };
    return TUTTI_OK;
}

void
ta_child_forget (ta_child_t *self, uint32_t rank)
{
    for (uint32_t i = 0; i < self->n_adopted; i++) {
        if (self->adopted[i].rank != rank)
            continue;
        self->adopted[i] = self->adopted[--self->n_adopted];
        return;
    }
}

//  ---------------------------------------------------------------------- end

bool
ta_child_reap (ta_child_t *self)
{
    return waitpid (self->pid, &self->status, WNOHANG) == self->pid;
}

bool
ta_child_ended_well (const ta_child_t *self)
{
    return self->state == TA_CHILD_LEAVING && WIFEXITED (self->status) &&
           WEXITSTATUS (self->status) == 0;
}

void
ta_child_epitaph (const ta_child_t *self, const char *node, char *text,
                  size_t len)
{
    if (WIFSIGNALED (self->status))
        snprintf (text, len, "worker of job %s on node %s killed by signal %d",
                  self->job, node, WTERMSIG (self->status));
    else
        snprintf (text, len, "worker of job %s on node %s exited with %d",
                  self->job, node, WEXITSTATUS (self->status));
}
