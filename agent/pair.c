//  agent/pair.c - the supervisor's end of a worker's socketpair

#include "agent/pair.h"

#include "agent/log.h"
#include "protocol/msg.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define QUEUE_BYTES (16u << 20)
#define QUEUE_MESSAGES 4096
#define PIECE_MAX (TA_WORKER_MSG_MAX - sizeof (ta_worker_head_t))
#define PROGRESS_MAX (256u << 10)
#define TURN_PIECES 256  //  read at most so many before others get a turn

typedef struct s_piece {
    struct s_piece *next;
    int fds[2];  //  -1: none
    ta_worker_head_t head;
    uint8_t body[];
} s_piece_t;

_Static_assert(offsetof (s_piece_t, body) ==
                   offsetof (s_piece_t, head) + sizeof (ta_worker_head_t),
               "head and body are sent as one");

//  A message whose pieces are coming in.
typedef struct s_whole {
    uint8_t *bytes;
    size_t len, max;
    bool done;  //  handed out; the next piece begins another
} s_whole_t;

struct ta_pair {
    int fd;
    s_piece_t *first, **last;
    size_t n_queued, queued_bytes;
    bool shut;    //  nothing more is queued
    bool broken;  //  nothing can be sent
    s_whole_t control, progress;
    uint8_t buffer[TA_WORKER_MSG_MAX];
};

//  --------------------------------------------------------------------- send

static void
s_close_fds (const int *fds)
{
    for (int i = 0; i < 2; i++) {
        if (fds[i] >= 0)
            close (fds[i]);
    }
}

static void
s_pop (ta_pair_t *self)
{
    s_piece_t *piece = self->first;
    self->first = piece->next;
    if (!self->first)
        self->last = &self->first;
    self->n_queued--;
    self->queued_bytes -= piece->head.len;
    s_close_fds (piece->fds);
    free (piece);
}

//  False: try again when the socket takes more.
static bool
s_send_piece (ta_pair_t *self, s_piece_t *piece)
{
    struct iovec iov = { &piece->head, sizeof piece->head + piece->head.len };
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE (sizeof piece->fds)];
    } control = { 0 };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
    if (piece->fds[0] >= 0) {
        msg.msg_control = &control;
        msg.msg_controllen = sizeof control.bytes;
        struct cmsghdr *c = CMSG_FIRSTHDR (&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN (sizeof piece->fds);
        memcpy (CMSG_DATA (c), piece->fds, sizeof piece->fds);
    }
    if (sendmsg (self->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
        return true;
    if (errno == EAGAIN || errno == EINTR)
        return false;
    ta_log (TA_LOG_WARN, "worker-send", "text=\"sendmsg: %s\"",
            strerror (errno));
    if (errno == EPIPE || errno == ECONNRESET)
        self->broken = true;
    return true;
}

void
ta_pair_flush (ta_pair_t *self)
{
    while (self->first && (self->broken || s_send_piece (self, self->first)))
        s_pop (self);
    if (self->shut && !self->first)
        shutdown (self->fd, SHUT_WR);
}

bool
ta_pair_queued (const ta_pair_t *self)
{
    return self->first != NULL;
}

static s_piece_t *
s_new_piece (uint32_t type, const uint8_t *body, size_t len, bool more)
{
    s_piece_t *piece = calloc (1, sizeof *piece + len);
    if (!piece)
        return NULL;
    piece->head.type = type;
    piece->head.len = (uint32_t) len;
    piece->head.more = more;
    piece->fds[0] = piece->fds[1] = -1;
    if (len > 0)
        memcpy (piece->body, body, len);
    return piece;
}

static void
s_free_pieces (s_piece_t *piece)
{
    while (piece) {
        s_piece_t *next = piece->next;
        free (piece);
        piece = next;
    }
}

tutti_err_t
ta_pair_send (ta_pair_t *self, uint32_t type, const void *body, size_t len,
              const int *fds)
{
    const uint8_t *bytes = body;
    size_t n = len > 0 ? (len + PIECE_MAX - 1) / PIECE_MAX : 1;
    if (self->shut || self->broken)
        return TUTTI_ESTATE;
    if (self->queued_bytes + len > QUEUE_BYTES ||
        self->n_queued + n > QUEUE_MESSAGES)
        return TUTTI_EAGAIN;
    s_piece_t *first = NULL;
    s_piece_t **last = &first;
    for (size_t i = 0, left = len; i < n; i++) {
        size_t part = left < PIECE_MAX ? left : PIECE_MAX;
        *last = s_new_piece (type, bytes, part, left > part);
        if (!*last) {
            s_free_pieces (first);
            return TUTTI_ENOMEM;
        }
        last = &(*last)->next;
        bytes += part;
        left -= part;
    }
    if (fds)
        memcpy (first->fds, fds, sizeof first->fds);
    *self->last = first;
    self->last = last;
    self->n_queued += n;
    self->queued_bytes += len;
    ta_pair_flush (self);
    return TUTTI_OK;
}

void
ta_pair_shut (ta_pair_t *self)
{
    self->shut = true;
    ta_pair_flush (self);
}

//  ------------------------------------------------------------------ receive

//  Add a piece. TUTTI_EAGAIN while more are to come.
static tutti_err_t
s_add (s_whole_t *whole, const uint8_t *piece, size_t len, bool more)
{
    if (whole->done) {
        whole->done = false;
        whole->len = 0;
    }
    if (whole->len + len > whole->max)
        return TUTTI_EPROTO;
    uint8_t *grown = realloc (whole->bytes, whole->len + len + 1);
    if (!grown)
        return TUTTI_ENOMEM;
    memcpy (grown + whole->len, piece, len);
    whole->bytes = grown;
    whole->len += len;
    whole->done = !more;
    return more ? TUTTI_EAGAIN : TUTTI_OK;
}

static tutti_err_t
s_receive_piece (ta_pair_t *self, ta_worker_head_t *head)
{
    struct iovec iov[2] = { { head, sizeof *head },
                            { self->buffer, sizeof self->buffer } };
    struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
    ssize_t got = recvmsg (self->fd, &msg, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return TUTTI_EAGAIN;
    if (got <= 0)
        return TUTTI_EAGENTLOST;
    if ((size_t) got < sizeof *head || (msg.msg_flags & MSG_TRUNC) ||
        head->len != (size_t) got - sizeof *head)
        return TUTTI_EPROTO;
    return TUTTI_OK;
}

tutti_err_t
ta_pair_receive (ta_pair_t *self, uint32_t *type_p, const uint8_t **bytes_p,
                 size_t *len_p)
{
    for (int i = 0; i < TURN_PIECES; i++) {
        ta_worker_head_t head;
        tutti_err_t err = s_receive_piece (self, &head);
        if (err)
            return err;
        *type_p = head.type;
        *bytes_p = self->buffer;
        *len_p = head.len;
        if (head.type != TA_CONTROL && head.type != TA_PROGRESS)
            return head.more ? TUTTI_EPROTO : TUTTI_OK;
        s_whole_t *whole =
            head.type == TA_CONTROL ? &self->control : &self->progress;
        err = s_add (whole, self->buffer, head.len, head.more);
        *bytes_p = whole->bytes;
        *len_p = whole->len;
        if (err != TUTTI_EAGAIN)
            return err;
    }
    return TUTTI_EAGAIN;
}

//  --------------------------------------------------------------------- life

tutti_err_t
ta_pair_new (ta_pair_t **self_p, int fd)
{
    ta_pair_t *self = calloc (1, sizeof *self);
    if (!self)
        return TUTTI_ENOMEM;
    self->fd = fd;
    self->last = &self->first;
    self->control.max = TP_MSG_MAX;
    self->progress.max = PROGRESS_MAX;
    *self_p = self;
    return TUTTI_OK;
}

void
ta_pair_destroy (ta_pair_t **self_p)
{
    ta_pair_t *self = *self_p;
    if (!self)
        return;
    while (self->first)
        s_pop (self);
    close (self->fd);
    free (self->control.bytes);
    free (self->progress.bytes);
    free (self);
    *self_p = NULL;
}

int
ta_pair_fd (const ta_pair_t *self)
{
    return self->fd;
}
