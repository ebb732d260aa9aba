//  client/tool/relay.c - one output of one rank, line by line with its label

#include "client/tool/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool
relay_open (relay_t *self, int to, int rank, int *write_fd_p)
{
    int fds[2];
    if (pipe2 (fds, O_CLOEXEC) < 0)
        return false;
    fcntl (fds[0], F_SETFL, O_NONBLOCK);
    self->fd = fds[0];
    self->to = to;
    self->rank = rank;
    self->len = 0;
    *write_fd_p = fds[1];
    return true;
}

//  Label, LEN bytes and a newline.
static void
s_put (const relay_t *self, const char *text, size_t len)
{
    char whole[RELAY_LINE_MAX + 32];
    int label = snprintf (whole, 32, "[%d] ", self->rank);
    memcpy (whole + label, text, len);
    size_t end = (size_t) label + len;
    whole[end++] = '\n';
    for (size_t done = 0; done < end;) {
        ssize_t put = write (self->to, whole + done, end - done);
        if (put < 0 && errno != EINTR)
            return;  //  nobody reads any more
        done += put > 0 ? (size_t) put : 0;
    }
}

static void
s_put_lines (relay_t *self)
{
    char *line = self->line, *end = self->line + self->len, *newline;
    while ((newline = memchr (line, '\n', (size_t) (end - line))) != NULL) {
        s_put (self, line, (size_t) (newline - line));
        line = newline + 1;
    }
    self->len = (size_t) (end - line);
    memmove (self->line, line, self->len);
    if (self->len == sizeof self->line) {
        s_put (self, self->line, self->len);
        self->len = 0;
    }
}

void
relay_pump (relay_t *self)
{
    while (self->fd >= 0) {
        ssize_t got = read (self->fd, self->line + self->len,
                            sizeof self->line - self->len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return;
        if (got > 0) {
            self->len += (size_t) got;
            s_put_lines (self);
            continue;
        }
        if (self->len > 0)
            s_put (self, self->line, self->len);
        close (self->fd);
        self->fd = -1;
    }
}

void
relay_close (relay_t *self)
{
    relay_pump (self);
    if (self->fd < 0)
        return;
    if (self->len > 0)
        s_put (self, self->line, self->len);
    close (self->fd);
    self->fd = -1;
}
