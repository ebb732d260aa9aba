//  agent/session.c - one attached client, as its worker sees it

#include "agent/session.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

tutti_err_t
ta_session_open (ta_session_t *self, uint32_t index,
                 const tp_local_hello_t *hello, int sock, int pidfd,
                 ta_memory_t *memory, uint64_t staging_bytes)
{
    *self = (ta_session_t){ .used = true,
                            .index = index,
                            .sock = sock,
                            .pidfd = pidfd,
                            .hello = *hello };
    self->event = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (self->event < 0 ||
        ta_memory_make (memory, index, staging_bytes, &self->staging)) {
        ta_session_close (self, memory);
        return TUTTI_ENOMEM;
    }
    return TUTTI_OK;
}

void
ta_session_close (ta_session_t *self, ta_memory_t *memory)
{
    if (self->sock >= 0)
        close (self->sock);
    if (self->pidfd >= 0)
        close (self->pidfd);
    if (self->event >= 0)
        close (self->event);
    ta_memory_drop_session (memory, self->index);
    *self = (ta_session_t){ .sock = -1, .pidfd = -1, .event = -1 };
}

bool
ta_session_send (ta_session_t *self, uint32_t type, uint64_t tag,
                 const void *body, size_t len, const int *fds, int n_fds)
{
    tp_local_head_t head = { TP_LOCAL_MAGIC, TP_LOCAL_VERSION, type,
                             (uint32_t) len, tag };
    struct iovec iov[2] = { { &head, sizeof head }, { (void *) body, len } };
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE (sizeof (int) * TP_WELCOME_FDS)];
    } control = { 0 };
    struct msghdr msg = { .msg_iov = iov, .msg_iovlen = len > 0 ? 2 : 1 };
    if (n_fds > 0) {
        size_t bytes = (size_t) n_fds * sizeof *fds;
        msg.msg_control = &control;
        msg.msg_controllen = CMSG_SPACE (bytes);
        struct cmsghdr *c = CMSG_FIRSTHDR (&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN (bytes);
        memcpy (CMSG_DATA (c), fds, bytes);
    }
    return sendmsg (self->sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

bool
ta_session_reply (ta_session_t *self, uint32_t type, uint64_t tag,
                  tutti_err_t err, const char *text)
{
    tp_local_reply_t reply = { .err = err };
    snprintf (reply.text, sizeof reply.text, "%s", text);
    return ta_session_send (self, type, tag, &reply, sizeof reply, NULL, 0);
}

//  Clients pass no descriptors after HELLO; whatever comes is closed.
static void
s_close_fds (struct msghdr *msg)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR (msg); c;
         c = CMSG_NXTHDR (msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (c->cmsg_len - CMSG_LEN (0)) / sizeof (int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy (&fd, CMSG_DATA (c) + i * sizeof fd, sizeof fd);
            close (fd);
        }
    }
}

ssize_t
ta_session_receive (ta_session_t *self, tp_local_head_t *head, void *body,
                    size_t room)
{
    struct iovec iov[2] = { { head, sizeof *head }, { body, room } };
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE (sizeof (int) * 16)];
    } control;
    struct msghdr msg = { .msg_iov = iov,
                          .msg_iovlen = 2,
                          .msg_control = &control,
                          .msg_controllen = sizeof control.bytes };
    ssize_t n = recvmsg (self->sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? -1 : -2;
    s_close_fds (&msg);
    size_t len = (size_t) n - sizeof *head;
    if ((size_t) n < sizeof *head || msg.msg_flags & MSG_TRUNC ||
        head->magic != TP_LOCAL_MAGIC ||
        head->version >> 16 != TP_LOCAL_VERSION >> 16 || head->len != len)
        return -2;
    return (ssize_t) len;
}
