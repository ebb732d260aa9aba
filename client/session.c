//  client/session.c - one attached rank: open, requests, close

#include "client/session.h"

#include "client/attach.h"
#include "client/error.h"
#include "client/message.h"
#include "protocol/schedule.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_MS 30000

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

tutti_err_t
tl_session_ask (tl_session_t *self, uint32_t type, const void *body,
                size_t len, uint32_t want, void *reply, size_t room, int *fd_p)
{
    tutti_err_t err =
        tl_message_send (self->sock, type, ++self->tag, body, len, -1);
    int64_t limit = tl_now_ns () + ANSWER_MS * 1000000ll;
    tl_message_t in = { .n_fds = 0 };
    while (err == TUTTI_OK) {
        err = tl_message_receive (&in, self->sock, limit);
        if (err == TUTTI_ETIMEDOUT)
            return tl_error (TUTTI_EAGENTLOST,
                             "the agent did not answer a request within %d s",
                             ANSWER_MS / 1000);
        if (err || in.head.tag == self->tag)
            break;
        tl_message_drop (&in);
    }
    if (err)
        return err;
    if (in.head.type == TP_LOCAL_REPLY)
        err = tl_message_error (&in);
    if (!err && (in.head.type != want || (room > 0 && in.len != room) ||
                 (fd_p && in.n_fds != 1)))
        err = tl_error (TUTTI_EPROTO, "an unexpected answer from the agent");
    if (err) {
        tl_message_drop (&in);
        return err;
    }
    if (room > 0 && reply)
        memcpy (reply, in.body, room);
    if (fd_p)
        *fd_p = in.fds[0];
    else
        tl_message_drop (&in);
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
    self->scale = who->scale;
    self->priority = who->priority;
    self->timeout_ms = who->timeout_ms;
    self->algorithm = tp_algorithm_value (who->hello.algorithm);
    cpu_set_t cores;
    self->cores = sched_getaffinity (0, sizeof cores, &cores) == 0
                      ? CPU_COUNT (&cores)
                      : 1;
    *board_p = NULL;
    tutti_err_t err =
        tl_report_open (&self->report, who->hello.rank, who->hello.job);
    if (!err)
        err = tl_attach (self, who, board_p);
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
        if (tl_message_send (self->sock, TP_LOCAL_GOODBYE, ++self->tag, NULL,
                             0, -1))
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
