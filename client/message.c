//  client/message.c - one message to or from the agent, with descriptors

#include "client/message.h"

#include "client/error.h"
#include "client/session.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

tutti_err_t
tl_message_send (int sock, uint32_t type, uint64_t tag, const void *body,
                 size_t len, int fd)
{
    tp_local_head_t head = { TP_LOCAL_MAGIC, TP_LOCAL_VERSION, type,
                             (uint32_t) len, tag };
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
    if (sendmsg (sock, &msg, MSG_NOSIGNAL) < 0)
        return tl_error (TUTTI_EAGENTLOST, "the agent does not answer: %s",
                         strerror (errno));
    return TUTTI_OK;
}

static void
s_take_fds (tl_message_t *self, struct msghdr *msg)
{
    self->n_fds = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR (msg); c;
         c = CMSG_NXTHDR (msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (c->cmsg_len - CMSG_LEN (0)) / sizeof (int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy (&fd, CMSG_DATA (c) + i * sizeof fd, sizeof fd);
            if (self->n_fds < TP_WELCOME_FDS)
                self->fds[self->n_fds++] = fd;
            else
                close (fd);
        }
    }
}

void
tl_message_drop (tl_message_t *self)
{
    for (int i = 0; i < self->n_fds; i++)
        close (self->fds[i]);
    self->n_fds = 0;
}

tutti_err_t
tl_message_receive (tl_message_t *self, int sock, int64_t limit_ns)
{
    struct pollfd pfd = { .fd = sock, .events = POLLIN };
    int n;
    do {  //  the program may have signal handlers
        int64_t left_ms = (limit_ns - tl_now_ns ()) / 1000000;
        n = poll (&pfd, 1, left_ms > 0 ? (int) left_ms : 0);
    } while (n < 0 && errno == EINTR);
    if (n == 0)
        return TUTTI_ETIMEDOUT;
    struct iovec iov[2] = { { &self->head, sizeof self->head },
                            { self->body, sizeof self->body } };
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE (sizeof (int) * TP_WELCOME_FDS)];
    } control;
    struct msghdr msg = { .msg_iov = iov,
                          .msg_iovlen = 2,
                          .msg_control = &control,
                          .msg_controllen = sizeof control.bytes };
    ssize_t got = recvmsg (sock, &msg, MSG_CMSG_CLOEXEC);
    if (got <= 0)
        return tl_error (TUTTI_EAGENTLOST,
                         "the agent closed the connection%s%s",
                         got < 0 ? ": " : "", got < 0 ? strerror (errno) : "");
    s_take_fds (self, &msg);
    self->len = (size_t) got - sizeof self->head;
    if ((size_t) got < sizeof self->head ||
        self->head.magic != TP_LOCAL_MAGIC || self->head.len != self->len ||
        (msg.msg_flags & MSG_TRUNC)) {
        tl_message_drop (self);
        return tl_error (TUTTI_EPROTO,
                         "a malformed message from the agent; is its version "
                         "the same as this library's (%s)?",
                         tutti_version ());
    }
    return TUTTI_OK;
}

tutti_err_t
tl_message_error (const tl_message_t *self)
{
    if (self->len != sizeof (tp_local_reply_t))
        return tl_error (TUTTI_EPROTO, "a malformed answer from the agent");
    tp_local_reply_t reply;
    memcpy (&reply, self->body, sizeof reply);
    reply.text[TP_TEXT_MAX - 1] = 0;
    if (reply.err == TUTTI_OK)
        return TUTTI_OK;
    return tl_error ((tutti_err_t) reply.err, "%s", reply.text);
}
