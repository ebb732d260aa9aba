//  agent/relay.c - Envelopes and other bytes over the pair, in pieces

#include "agent/relay.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIECE (TA_WORKER_MSG_MAX - sizeof (ta_worker_head_t))
#define PATIENCE_MS 1000

//  The supervisor drains its side at once; a second of a full socket means
//  that it hangs.
static tutti_err_t
s_send_piece (int fd, const ta_worker_head_t *head, const uint8_t *bytes)
{
    struct iovec iov[2] = { { (void *) head, sizeof *head },
                            { (void *) bytes, head->len } };
    struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
    while (sendmsg (fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
        struct pollfd pfd = { .fd = fd, .events = POLLOUT };
        if ((errno != EAGAIN && errno != EINTR) ||
            poll (&pfd, 1, PATIENCE_MS) == 0)
            return TUTTI_EAGENTLOST;
    }
    return TUTTI_OK;
}

tutti_err_t
ta_relay_send (ta_relay_t *self, uint32_t type, const uint8_t *bytes,
               size_t len)
{
    do {
        size_t piece = len < PIECE ? len : PIECE;
        ta_worker_head_t head = { type, (uint32_t) piece, len > piece, 0 };
        tutti_err_t err = s_send_piece (self->fd, &head, bytes);
        if (err)
            return err;
        bytes = bytes ? bytes + piece : NULL;
        len -= piece;
    } while (len > 0);
    return TUTTI_OK;
}

tutti_err_t
ta_relay_envelope (ta_relay_t *self, const Tutti__Envelope *envelope)
{
    uint8_t *bytes;
    size_t len;
    tutti_err_t err = tp_msg_pack (envelope, &bytes, &len);
    if (err)
        return err;
    err = ta_relay_send (self, TA_CONTROL, bytes, len);
    free (bytes);
    return err;
}

static void
s_take_fds (ta_relay_message_t *message, struct msghdr *msg)
{
    int taken = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR (msg); c;
         c = CMSG_NXTHDR (msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (c->cmsg_len - CMSG_LEN (0)) / sizeof (int);
        for (size_t i = 0; i < n && taken < 2; i++)
            memcpy (&message->fds[taken++], CMSG_DATA (c) + i * sizeof (int),
                    sizeof (int));
    }
}

//  Add a CONTROL piece. TUTTI_EAGAIN while more are to come.
static tutti_err_t
s_add_piece (ta_relay_t *self, ta_relay_message_t *message,
             const uint8_t *piece, size_t len, bool more)
{
    if (self->len + len > TP_MSG_MAX)
        return TUTTI_EPROTO;
    uint8_t *grown = realloc (self->bytes, self->len + len + 1);
    if (!grown)
        return TUTTI_ENOMEM;
    memcpy (grown + self->len, piece, len);
    self->bytes = grown;
    self->len += len;
    if (more)
        return TUTTI_EAGAIN;
    message->body = self->bytes;
    message->len = self->len;
    self->len = 0;
    return TUTTI_OK;
}

tutti_err_t
ta_relay_receive (ta_relay_t *self, ta_relay_message_t *message)
{
    static uint8_t buffer[TA_WORKER_MSG_MAX];
    ta_worker_head_t head;
    struct iovec iov[2] = { { &head, sizeof head },
                            { buffer, sizeof buffer } };
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE (sizeof (int) * 2)];
    } control;
    struct msghdr msg = { .msg_iov = iov,
                          .msg_iovlen = 2,
                          .msg_control = &control,
                          .msg_controllen = sizeof control.bytes };
    ssize_t n = recvmsg (self->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return TUTTI_EAGAIN;
    if (n <= 0)
        return TUTTI_EAGENTLOST;
    if ((size_t) n < sizeof head || head.len != (size_t) n - sizeof head)
        return TUTTI_EPROTO;
    *message = (ta_relay_message_t){ head.type, buffer, head.len, { -1, -1 } };
    s_take_fds (message, &msg);
    if (head.type != TA_CONTROL)
        return TUTTI_OK;
    return s_add_piece (self, message, buffer, head.len, head.more);
}

void
ta_relay_destroy (ta_relay_t *self)
{
    free (self->bytes);
    if (self->fd >= 0)
        close (self->fd);
    *self = (ta_relay_t){ .fd = -1 };
}
