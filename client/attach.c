//  client/attach.c - becoming a rank: from the socket to the world's board

#include "client/attach.h"

#include "client/error.h"
#include "client/join.h"
#include "client/message.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_NS 3000000000ll  //  where no agent is to be expected
#define RETRY_NS 50000000
#define AGAIN_MIN_NS 2000000
#define AGAIN_MAX_NS 100000000

static void
s_sleep (int64_t ns)
{
    nanosleep (&(struct timespec){ ns / 1000000000, ns % 1000000000 }, NULL);
}

//  ------------------------------------------------------------------- socket

static tutti_err_t
s_address (const char *agent, struct sockaddr_un *addr, socklen_t *size_p)
{
    size_t len = strlen (agent);
    *addr = (struct sockaddr_un){ .sun_family = AF_UNIX };
    if (len >= sizeof addr->sun_path)
        return tl_error (TUTTI_EINVAL, "agent socket %s: name too long",
                         agent);
    memcpy (addr->sun_path, agent, len);
    if (agent[0] == '@')
        addr->sun_path[0] = 0;
    *size_p = (socklen_t) (offsetof (struct sockaddr_un, sun_path) + len);
    return TUTTI_OK;
}

//  An agent may come where one was, or is to be: the folder of the socket is
//  there. A private one (an abstract name) lives as long as its ranks.
static bool
s_expected (const char *agent)
{
    char folder[sizeof ((tl_whoami_t *) 0)->agent];
    snprintf (folder, sizeof folder, "%s", agent);
    char *slash = strrchr (folder, '/');
    if (agent[0] == '@' || !slash)
        return false;
    slash[slash == folder] = 0;
    return access (folder, X_OK) == 0;
}

static tutti_err_t
s_no_agent (const char *agent, const tl_join_t *join, int error)
{
    return tl_error (
        TUTTI_EAGENTLOST,
        "no agent at the socket %s after %.1f s: %s. Start tutti-agent on "
        "this node, set TUTTI_AGENT to its socket, or run the program by "
        "itself with: tutti run -n 1 -- PROGRAM",
        agent, (double) (tl_now_ns () - join->begun_ns) * 1e-9,
        strerror (error));
}

static tutti_err_t
s_connect (const char *agent, tl_join_t *join, int *sock_p)
{
    struct sockaddr_un addr;
    socklen_t size = 0;
    tutti_err_t err = s_address (agent, &addr, &size);
    if (err)
        return err;
    int64_t patience = tl_now_ns () + PATIENCE_NS;
    tl_join_enter (join, TP_STAGE_AGENT, agent, tl_now_ns ());
    while (true) {
        int sock = socket (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (sock < 0)
            return s_no_agent (agent, join, errno);
        if (connect (sock, (struct sockaddr *) &addr, size) == 0) {
            *sock_p = sock;
            return TUTTI_OK;
        }
        int error = errno;
        int64_t now = tl_now_ns ();
        close (sock);
        if (now > join->limit_ns || (now > patience && !s_expected (agent)) ||
            (error != ENOENT && error != ECONNREFUSED && error != EAGAIN))
            return s_no_agent (agent, join, error);
        tl_join_remind (join, now);
        s_sleep (RETRY_NS);
    }
}

//  A pidfd of this process, by which the agent learns of its end; -1 where
//  the kernel has none (before 5.3) or a tool hides it (valgrind): then the
//  agent opens one by the credentials of the socket.
static int
s_pidfd (void)
{
    return (int) syscall (SYS_pidfd_open, getpid (), 0);
}

//  ------------------------------------------------------------------ waiting

static tutti_err_t
s_too_late (const tl_whoami_t *who, const tl_join_t *join)
{
    char times[128];
    tl_join_times (join, tl_now_ns (), times, sizeof times);
    return tl_error (TUTTI_EJOIN,
                     "job %s, rank %u of %u: not complete after %u ms (%s): "
                     "%s. Start what is missing, or raise "
                     "TUTTI_INIT_TIMEOUT_MS",
                     who->hello.job, who->hello.rank, who->hello.size,
                     who->hello.join_timeout_ms, times,
                     join->text[0] ? join->text : "the agent said nothing");
}

static tutti_err_t
s_waiting (const tl_message_t *in, tl_join_t *join)
{
    tp_local_waiting_t waiting;
    if (in->head.type != TP_LOCAL_WAITING || in->len != sizeof waiting)
        return tl_error (TUTTI_EPROTO,
                         "an unexpected message from the agent (type %u)",
                         in->head.type);
    memcpy (&waiting, in->body, sizeof waiting);
    waiting.text[TP_TEXT_MAX - 1] = 0;
    if (waiting.stage <= TP_STAGE_AGENT || waiting.stage >= TP_STAGES)
        return tl_error (TUTTI_EPROTO, "the agent waits for stage %u",
                         waiting.stage);
    tl_join_enter (join, (tp_stage_t) waiting.stage, waiting.text,
                   tl_now_ns ());
    return TUTTI_OK;
}

static tutti_err_t
s_await_welcome (tl_session_t *self, const tl_whoami_t *who, tl_join_t *join,
                 tl_message_t *in)
{
    while (true) {
        int64_t limit = tl_join_remind (join, tl_now_ns ());
        tutti_err_t err = tl_message_receive (in, self->sock, limit);
        if (err == TUTTI_ETIMEDOUT && tl_now_ns () < join->limit_ns)
            continue;
        if (err == TUTTI_ETIMEDOUT)
            return s_too_late (who, join);
        if (err)
            return err;
        if (in->head.type == TP_LOCAL_WELCOME &&
            in->len == sizeof (tp_local_welcome_t) &&
            in->n_fds == TP_WELCOME_FDS)
            return TUTTI_OK;
        tl_message_drop (in);
        if (in->head.type == TP_LOCAL_REFUSE) {
            err = tl_message_error (in);
            return err ? err : TUTTI_EJOIN;
        }
        err = s_waiting (in, join);
        if (err)
            return err;
    }
}

//  ------------------------------------------------------------------ welcome

static tutti_err_t
s_accept_welcome (tl_session_t *self, tl_message_t *in, tp_board_t **board_p)
{
    memcpy (&self->hello, in->body, sizeof self->hello);
    const tp_local_welcome_t *w = &self->hello;
    self->bell = in->fds[TP_FD_BELL];
    self->event = in->fds[TP_FD_EVENT];
    self->wake = tl_map_fd (in->fds[TP_FD_WAKE], sizeof *self->wake, true);
    void *staging = tl_map_fd (in->fds[TP_FD_STAGING], w->staging_bytes, true);
    *board_p = tl_map_fd (in->fds[TP_FD_BOARD], w->board_bytes, true);
    if (staging)
        self->staging = tl_segment_keep (self, w->staging_segment, staging,
                                         w->staging_bytes, false);
    self->granules = (uint32_t) (w->staging_bytes / TL_GRANULE);
    self->staging_used = calloc (self->granules + 1, 1);
    if (!self->wake || !self->staging || !*board_p || !self->staging_used)
        return tl_error (TUTTI_ENOMEM,
                         "no memory to map the agent's segments");
    if (w->session >= TP_LOCAL_MAX || !tp_board_ok (*board_p, w->board_bytes))
        return tl_error (TUTTI_EVERSION,
                         "the agent's board has another layout; library %s "
                         "needs an agent of the same version",
                         tutti_version ());
    self->mine = &self->wake->session[w->session];
    return TUTTI_OK;
}

static tutti_err_t
s_attach (tl_session_t *self, const tl_whoami_t *who, tl_join_t *join,
          tp_board_t **board_p)
{
    tutti_err_t err = s_connect (who->agent, join, &self->sock);
    if (err)
        return err;
    tl_join_enter (join, TP_STAGE_COORDINATOR, "", tl_now_ns ());
    int pidfd = s_pidfd ();
    err = tl_message_send (self->sock, TP_LOCAL_HELLO, ++self->tag,
                           &who->hello, sizeof who->hello, pidfd);
    if (pidfd >= 0)
        close (pidfd);
    tl_message_t in = { .n_fds = 0 };
    if (!err)
        err = s_await_welcome (self, who, join, &in);
    if (!err)
        err = s_accept_welcome (self, &in, board_p);
    return err;
}

//  A run of that name is still ending: ask again until it has.
static tutti_err_t
s_attach_patiently (tl_session_t *self, const tl_whoami_t *who,
                    tl_join_t *join, tp_board_t **board_p)
{
    int64_t pause_ns = AGAIN_MIN_NS;
    while (true) {
        tutti_err_t err = s_attach (self, who, join, board_p);
        if (err != TUTTI_EAGAIN)
            return err;
        if (tl_now_ns () + pause_ns > join->limit_ns)
            return TUTTI_EJOIN;  //  the text says why
        close (self->sock);
        self->sock = -1;
        s_sleep (pause_ns);
        pause_ns = pause_ns < AGAIN_MAX_NS ? pause_ns * 2 : pause_ns;
    }
}

tutti_err_t
tl_attach (tl_session_t *self, const tl_whoami_t *who, tp_board_t **board_p)
{
    tl_join_t join;
    tl_join_begin (&join, &self->report, who->hello.join_timeout_ms,
                   tl_now_ns ());
    tutti_err_t err = s_attach_patiently (self, who, &join, board_p);
    if (err)
        return err;
    char times[128];
    tl_join_times (&join, tl_now_ns (), times, sizeof times);
    tl_report_line (&self->report, TL_LOG_INFO,
                    "joined as %s by %s: %u ranks, %u nodes, %u here; %s",
                    self->hello.node, who->source, self->hello.size,
                    self->hello.nodes, self->hello.n_local, times);
    return TUTTI_OK;
}
