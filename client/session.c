//  client/session.c - one attached rank: attach, requests, segments, staging

#include "client/session.h"

#include "client/error.h"
#include "protocol/schedule.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define CONNECT_PATIENCE_NS 3000000000ll  //  for an agent that is starting
#define ANSWER_MS 30000
#define REMIND_NS 10000000000ll

int64_t
tl_now_ns (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return (int64_t) now.tv_sec * 1000000000 + now.tv_nsec;
}

void *
tl_map_fd (int fd, size_t bytes, bool writable)
{
    void *base =
        mmap (NULL, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ,
              MAP_SHARED, fd, 0);
    close (fd);
    return base == MAP_FAILED ? NULL : base;
}

//  ------------------------------------------------------------------ socket

static tutti_err_t
s_no_agent (const char *agent, int error)
{
    return tl_error (
        TUTTI_EAGENTLOST,
        "no agent at the socket %s: %s. Start tutti-agent on this node, set "
        "TUTTI_AGENT to its socket, or run the program by itself with: "
        "tutti run -n 1 -- PROGRAM",
        agent, strerror (error));
}

static tutti_err_t
s_connect (const char *agent, int *sock_p)
{
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    size_t len = strlen (agent);
    if (len >= sizeof addr.sun_path)
        return tl_error (TUTTI_EINVAL, "agent socket %s: name too long",
                         agent);
    memcpy (addr.sun_path, agent, len);
    if (agent[0] == '@')
        addr.sun_path[0] = 0;
    socklen_t size =
        (socklen_t) (offsetof (struct sockaddr_un, sun_path) + len);
    int64_t limit = tl_now_ns () + CONNECT_PATIENCE_NS;
    while (true) {
        int sock = socket (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (sock < 0)
            return s_no_agent (agent, errno);
        if (connect (sock, (struct sockaddr *) &addr, size) == 0) {
            *sock_p = sock;
            return TUTTI_OK;
        }
        int error = errno;
        close (sock);
        if (tl_now_ns () > limit ||
            (error != ENOENT && error != ECONNREFUSED && error != EAGAIN))
            return s_no_agent (agent, error);
        nanosleep (&(struct timespec){ 0, 50000000 }, NULL);
    }
}

//  Send one message, with a descriptor if FD is not -1.
static tutti_err_t
s_send (tl_session_t *self, uint32_t type, const void *body, size_t len,
        int fd)
{
    tp_local_head_t head = { TP_LOCAL_MAGIC, TP_LOCAL_VERSION, type,
                             (uint32_t) len, ++self->tag };
    struct iovec iov[2] = { { &head, sizeof head }, { (void *) body, len } };
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE (sizeof (int))];
    } control = { 0 };
    struct msghdr msg = { .msg_iov = iov, .msg_iovlen = len > 0 ? 2 : 1 };
    if (fd >= 0) {
        msg.msg_control = &control;
        msg.msg_controllen = sizeof control.bytes;
        struct cmsghdr *c = CMSG_FIRSTHDR (&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN (sizeof (int));
        memcpy (CMSG_DATA (c), &fd, sizeof fd);
    }
    if (sendmsg (self->sock, &msg, MSG_NOSIGNAL) < 0)
        return tl_error (TUTTI_EAGENTLOST, "the agent does not answer: %s",
                         strerror (errno));
    return TUTTI_OK;
}

typedef struct incoming {
    tp_local_head_t head;
    uint8_t body[sizeof (tp_local_welcome_t) + TP_TEXT_MAX + 256];
    size_t len;  //  of the body
    int fds[TP_WELCOME_FDS];
    int n_fds;
} incoming_t;

static void
s_take_fds (incoming_t *in, struct msghdr *msg)
{
    in->n_fds = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR (msg); c;
         c = CMSG_NXTHDR (msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (c->cmsg_len - CMSG_LEN (0)) / sizeof (int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy (&fd, CMSG_DATA (c) + i * sizeof fd, sizeof fd);
            if (in->n_fds < TP_WELCOME_FDS)
                in->fds[in->n_fds++] = fd;
            else
                close (fd);
        }
    }
}

static void
s_drop_fds (incoming_t *in)
{
    for (int i = 0; i < in->n_fds; i++)
        close (in->fds[i]);
    in->n_fds = 0;
}

//  Receive one message before LIMIT_NS. TUTTI_ETIMEDOUT: nothing came.
static tutti_err_t
s_receive (tl_session_t *self, incoming_t *in, int64_t limit_ns)
{
    int64_t left_ms = (limit_ns - tl_now_ns ()) / 1000000;
    struct pollfd pfd = { .fd = self->sock, .events = POLLIN };
    int n = poll (&pfd, 1, left_ms > 0 ? (int) left_ms : 0);
    if (n == 0)
        return TUTTI_ETIMEDOUT;
    struct iovec iov[2] = { { &in->head, sizeof in->head },
                            { in->body, sizeof in->body } };
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE (sizeof (int) * TP_WELCOME_FDS)];
    } control;
    struct msghdr msg = { .msg_iov = iov,
                          .msg_iovlen = 2,
                          .msg_control = &control,
                          .msg_controllen = sizeof control.bytes };
    ssize_t got = recvmsg (self->sock, &msg, MSG_CMSG_CLOEXEC);
    if (got <= 0)
        return tl_error (TUTTI_EAGENTLOST,
                         "the agent closed the connection%s%s",
                         got < 0 ? ": " : "", got < 0 ? strerror (errno) : "");
    s_take_fds (in, &msg);
    in->len = (size_t) got - sizeof in->head;
    if ((size_t) got < sizeof in->head || in->head.magic != TP_LOCAL_MAGIC ||
        in->head.len != in->len || (msg.msg_flags & MSG_TRUNC)) {
        s_drop_fds (in);
        return tl_error (TUTTI_EPROTO,
                         "a malformed message from the agent; is its version "
                         "the same as this library's (%s)?",
                         tutti_version ());
    }
    return TUTTI_OK;
}

static tutti_err_t
s_reply_error (const incoming_t *in)
{
    if (in->len != sizeof (tp_local_reply_t))
        return tl_error (TUTTI_EPROTO, "a malformed answer from the agent");
    tp_local_reply_t reply;
    memcpy (&reply, in->body, sizeof reply);
    reply.text[TP_TEXT_MAX - 1] = 0;
    if (reply.err == TUTTI_OK)
        return TUTTI_OK;
    return tl_error ((tutti_err_t) reply.err, "%s", reply.text);
}

tutti_err_t
tl_session_ask (tl_session_t *self, uint32_t type, const void *body,
                size_t len, uint32_t want, void *reply, size_t room, int *fd_p)
{
    tutti_err_t err = s_send (self, type, body, len, -1);
    int64_t limit = tl_now_ns () + ANSWER_MS * 1000000ll;
    incoming_t in = { .n_fds = 0 };
    while (err == TUTTI_OK) {
        err = s_receive (self, &in, limit);
        if (err == TUTTI_ETIMEDOUT)
            return tl_error (TUTTI_EAGENTLOST,
                             "the agent did not answer a request within %d s",
                             ANSWER_MS / 1000);
        if (err || in.head.tag == self->tag)
            break;
        s_drop_fds (&in);
    }
    if (err)
        return err;
    if (in.head.type == TP_LOCAL_REPLY)
        err = s_reply_error (&in);
    if (!err && (in.head.type != want || (room > 0 && in.len != room) ||
                 (fd_p && in.n_fds != 1)))
        err = tl_error (TUTTI_EPROTO, "an unexpected answer from the agent");
    if (err) {
        s_drop_fds (&in);
        return err;
    }
    if (room > 0 && reply)
        memcpy (reply, in.body, room);
    if (fd_p)
        *fd_p = in.fds[0];
    else
        s_drop_fds (&in);
    return TUTTI_OK;
}

tutti_err_t
tl_session_check (tl_session_t *self)
{
    if (self->dead)
        return self->dead;
    struct pollfd pfd = { .fd = self->sock, .events = POLLRDHUP };
    if (poll (&pfd, 1, 0) == 1 &&
        (pfd.revents & (POLLHUP | POLLRDHUP | POLLERR)))
        self->dead = TUTTI_EAGENTLOST;
    return self->dead;
}

//  ------------------------------------------------------------------ attach

static tutti_err_t
s_too_late (const tl_whoami_t *who, const char *waiting)
{
    return tl_error (TUTTI_EJOIN,
                     "job %s, rank %u of %u: not complete after %u ms (%s). "
                     "Start the missing ranks, or raise TUTTI_INIT_TIMEOUT_MS",
                     who->hello.job, who->hello.rank, who->hello.size,
                     who->hello.join_timeout_ms,
                     waiting[0] ? waiting : "the agent said nothing");
}

//  Wait for WELCOME; keep the last WAITING text for the error.
static tutti_err_t
s_await_welcome (tl_session_t *self, const tl_whoami_t *who, incoming_t *in)
{
    char waiting[TP_TEXT_MAX] = "";
    int64_t begun = tl_now_ns (), said = begun;
    int64_t limit =
        tl_now_ns () + (int64_t) who->hello.join_timeout_ms * 1000000;
    while (true) {
        tutti_err_t err = s_receive (self, in, limit);
        if (err == TUTTI_ETIMEDOUT)
            return s_too_late (who, waiting);
        if (err)
            return err;
        if (in->head.type == TP_LOCAL_WELCOME &&
            in->len == sizeof (tp_local_welcome_t) &&
            in->n_fds == TP_WELCOME_FDS)
            return TUTTI_OK;
        s_drop_fds (in);
        if (in->head.type == TP_LOCAL_REFUSE) {
            err = s_reply_error (in);
            return err ? err : TUTTI_EJOIN;
        }
        if (in->head.type != TP_LOCAL_WAITING ||
            in->len != sizeof (tp_local_reply_t))
            return tl_error (TUTTI_EPROTO,
                             "an unexpected message from the agent (type %u)",
                             in->head.type);
        memcpy (waiting, ((tp_local_reply_t *) (void *) in->body)->text,
                sizeof waiting);
        waiting[sizeof waiting - 1] = 0;
        if (tl_now_ns () - said > REMIND_NS) {
            said = tl_now_ns ();
            tl_report_line (&self->report, TL_LOG_WARN,
                            "tutti_init waits since %lld s: %s",
                            (long long) (said - begun) / 1000000000, waiting);
        }
    }
}

static tutti_err_t
s_accept_welcome (tl_session_t *self, incoming_t *in, tp_board_t **board_p)
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
s_attach (tl_session_t *self, const tl_whoami_t *who, tp_board_t **board_p)
{
    tutti_err_t err = s_connect (who->agent, &self->sock);
    if (err)
        return err;
    int pidfd = (int) syscall (SYS_pidfd_open, getpid (), 0);
    if (pidfd < 0)
        return tl_error (TUTTI_ENOTSUP,
                         "pidfd_open: %s; Linux 5.3 or newer is needed",
                         strerror (errno));
    err = s_send (self, TP_LOCAL_HELLO, &who->hello, sizeof who->hello, pidfd);
    close (pidfd);
    incoming_t in = { .n_fds = 0 };
    if (!err)
        err = s_await_welcome (self, who, &in);
    if (!err)
        err = s_accept_welcome (self, &in, board_p);
    return err;
}

//  A run of that name is still ending: ask again until it has.
static tutti_err_t
s_attach_patiently (tl_session_t *self, const tl_whoami_t *who,
                    tp_board_t **board_p)
{
    int64_t limit =
        tl_now_ns () + (int64_t) who->hello.join_timeout_ms * 1000000;
    long pause_ns = 2000000;
    while (true) {
        tutti_err_t err = s_attach (self, who, board_p);
        if (err != TUTTI_EAGAIN)
            return err;
        if (tl_now_ns () + pause_ns > limit)
            return TUTTI_EJOIN;  //  the text says why
        close (self->sock);
        self->sock = -1;
        nanosleep (&(struct timespec){ 0, pause_ns }, NULL);
        pause_ns = pause_ns < 100000000 ? pause_ns * 2 : pause_ns;
    }
}

tutti_err_t
tl_session_open (tl_session_t **self_p, const tl_whoami_t *who,
                 tp_board_t **board_p)
{
    tl_session_t *self = calloc (1, sizeof *self);
    if (!self)
        return tl_error (TUTTI_ENOMEM, "out of memory");
    pthread_mutex_init (&self->lock, NULL);
    self->sock = self->bell = self->event = -1;
    self->op_timeout_ms = (uint32_t) who->op_timeout_ms;
    self->flags = who->hello.flags;
    self->algorithm = tp_algorithm_value (who->hello.algorithm);
    cpu_set_t cores;
    self->cores = sched_getaffinity (0, sizeof cores, &cores) == 0
                      ? CPU_COUNT (&cores)
                      : 1;
    *board_p = NULL;
    tutti_err_t err =
        tl_report_open (&self->report, who->hello.rank, who->hello.job);
    if (!err)
        err = s_attach_patiently (self, who, board_p);
    if (!err)
        tl_report_line (&self->report, TL_LOG_INFO,
                        "joined as %s by %s: %u ranks, %u nodes, %u here, "
                        "%lld ms",
                        self->hello.node, who->source, self->hello.size,
                        self->hello.nodes, self->hello.n_local,
                        (long long) (tl_now_ns () - self->report.begun_ns) /
                            1000000);
    if (err) {
        if (*board_p)
            munmap (*board_p, self->hello.board_bytes);
        *board_p = NULL;
        tl_session_close (&self);
        return err;
    }
    *self_p = self;
    return TUTTI_OK;
}

static void
s_close_fd (int fd)
{
    if (fd >= 0)
        close (fd);
}

void
tl_session_close (tl_session_t **self_p)
{
    tl_session_t *self = *self_p;
    if (!self)
        return;
    if (self->mine) {  //  not after a refusal, whose text must stay
        char text[1024];
        snprintf (text, sizeof text, "%s", tl_error_text ());
        if (s_send (self, TP_LOCAL_GOODBYE, NULL, 0, -1))
            tl_error (TUTTI_OK, "%s", text);
    }
    s_close_fd (self->sock);
    s_close_fd (self->bell);
    s_close_fd (self->event);
    if (self->wake)
        munmap (self->wake, sizeof *self->wake);
    while (self->segments) {
        tl_segment_t *segment = self->segments;
        self->segments = segment->next;
        munmap (segment->base, segment->bytes);
        free (segment);
    }
    free (self->staging_used);
    tl_report_close (&self->report);
    pthread_mutex_destroy (&self->lock);
    free (self);
    *self_p = NULL;
}
