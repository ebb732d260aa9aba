//  agent/attach.c - a client's HELLO: read, check, answer

#include "agent/attach.h"

#include "agent/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FDS_MAX 16  //  more are dropped by the kernel

#define MAJOR(version) ((version) >> 16)
#define MINOR(version) ((version) &0xffffu)

//  ------------------------------------------------------------------- checks

//  TEXT ends within ROOM bytes and is printable ASCII.
static bool
s_string_ok (const char *text, size_t room)
{
    const char *end = memchr (text, 0, room);
    for (const char *c = text; end && c < end; c++) {
        if (*c < ' ' || *c > '~')
            return false;
    }
    return end != NULL;
}

static bool
s_strings_ok (const tp_local_hello_t *hello)
{
    return memchr (hello->job, 0, sizeof hello->job) &&
           s_string_ok (hello->host, sizeof hello->host) &&
           s_string_ok (hello->library, sizeof hello->library) &&
           s_string_ok (hello->build, sizeof hello->build) &&
           s_string_ok (hello->algorithm, sizeof hello->algorithm) &&
           s_string_ok (hello->token, sizeof hello->token);
}

//  The head, and that LEN fits it. A newer minor version may have appended
//  fields to HELLO, which we do not know and do not need.
static tutti_err_t
s_check_head (const tp_local_head_t *head, size_t len, const char *node,
              char *text)
{
    if (head->magic != TP_LOCAL_MAGIC || head->type != TP_LOCAL_HELLO ||
        head->len != len - sizeof *head)
        return TUTTI_EPROTO;
    uint32_t ours = TP_LOCAL_VERSION;
    if (MAJOR (head->version) != MAJOR (ours)) {
        snprintf (text, TP_TEXT_MAX,
                  "libtutti speaks local protocol %u.%u, the agent of node %s "
                  "speaks %u.%u; use a library and an agent of the same major "
                  "version",
                  MAJOR (head->version), MINOR (head->version), node,
                  MAJOR (ours), MINOR (ours));
        return TUTTI_EVERSION;
    }
    bool newer = MINOR (head->version) > MINOR (ours);
    if (head->len < sizeof (tp_local_hello_t) ||
        (head->len > sizeof (tp_local_hello_t) && !newer))
        return TUTTI_EPROTO;
    return TUTTI_OK;
}

tutti_err_t
ta_attach_check (const void *bytes, size_t len, const char *node,
                 tp_local_hello_t *hello, char *text)
{
    tp_local_head_t head;
    if (len < sizeof head || len > TP_LOCAL_MSG_MAX)
        return TUTTI_EPROTO;
    memcpy (&head, bytes, sizeof head);
    tutti_err_t err = s_check_head (&head, len, node, text);
    if (err)
        return err;
    memcpy (hello, (const uint8_t *) bytes + sizeof head, sizeof *hello);
    if (!s_strings_ok (hello))
        return TUTTI_EPROTO;
    if (!tp_name_ok (hello->job)) {
        snprintf (text, TP_TEXT_MAX,
                  "node %s: the job name (TUTTI_JOB) must be 1 to %d of "
                  "letters, digits, '.', '_' and '-'",
                  node, TP_NAME_MAX - 1);
        return TUTTI_EINVAL;
    }
    if (hello->size == 0 || hello->size > TP_RANKS_MAX ||
        hello->rank >= hello->size) {
        snprintf (text, TP_TEXT_MAX,
                  "job %s on node %s: rank %u of %u is not possible; check "
                  "TUTTI_RANK (0 to size - 1) and TUTTI_SIZE (1 to %d)",
                  hello->job, node, hello->rank, hello->size, TP_RANKS_MAX);
        return TUTTI_EINVAL;
    }
    if (hello->elastic_min > hello->elastic_max ||
        hello->elastic_max > TP_RANKS_MAX) {
        snprintf (text, TP_TEXT_MAX,
                  "job %s on node %s, rank %u: elastic %u:%u is not possible; "
                  "check TUTTI_ELASTIC (MIN:MAX)",
                  hello->job, node, hello->rank, hello->elastic_min,
                  hello->elastic_max);
        return TUTTI_EINVAL;
    }
    return TUTTI_OK;
}

//  ------------------------------------------------------------------ receive

//  Only a pidfd may travel this way: the poll of any other file, a FUSE one
//  say, may be in the hands of whoever sent it.
static bool
s_is_pidfd (int fd)
{
    char path[64], target[64];
    snprintf (path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t n = readlink (path, target, sizeof target - 1);
    if (n < 0)
        return false;
    target[n] = 0;
    return strcmp (target, "anon_inode:[pidfd]") == 0 ||
           strncmp (target, "pidfd:", 6) == 0;
}

//  Keep the first pidfd, close all else. *n_p: how many descriptors came.
static int
s_take_pidfd (struct msghdr *msg, size_t *n_p)
{
    int pidfd = -1;
    *n_p = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR (msg); c;
         c = CMSG_NXTHDR (msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (c->cmsg_len - CMSG_LEN (0)) / sizeof (int);
        *n_p += n;
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy (&fd, CMSG_DATA (c) + i * sizeof fd, sizeof fd);
            if (pidfd < 0 && s_is_pidfd (fd))
                pidfd = fd;
            else
                close (fd);
        }
    }
    return pidfd;
}

tutti_err_t
ta_attach_receive (ta_client_t *client, const char *node, char *text)
{
    //  Room for what a newer minor version may append.
    static uint8_t
        buffer[sizeof (tp_local_head_t) + 2 * sizeof (tp_local_hello_t)];
    struct iovec iov = { buffer, sizeof buffer };
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE (sizeof (int) * FDS_MAX)];
    } control;
    struct msghdr msg = { .msg_iov = &iov,
                          .msg_iovlen = 1,
                          .msg_control = &control,
                          .msg_controllen = sizeof control.bytes };
    ssize_t got =
        recvmsg (client->sock, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return TUTTI_EAGAIN;
    if (got <= 0)
        return TUTTI_EAGENTLOST;
    size_t n_fds;
    client->pidfd = s_take_pidfd (&msg, &n_fds);
    if (n_fds == 0 && client->pid > 0)  //  valgrind, say, has no pidfd_open
        client->pidfd = (int) syscall (SYS_pidfd_open, client->pid, 0);
    if (msg.msg_flags & MSG_TRUNC)
        return TUTTI_EPROTO;
    tutti_err_t err =
        ta_attach_check (buffer, (size_t) got, node, &client->hello, text);
    if (!err && client->pidfd < 0) {
        snprintf (text, TP_TEXT_MAX,
                  "job %s on node %s, rank %u: no pidfd came with HELLO, and "
                  "there is none by its pid; Linux 5.3 or newer is needed",
                  client->hello.job, node, client->hello.rank);
        err = TUTTI_EINVAL;
    }
    return err;
}

//  ------------------------------------------------------------------- answer

static void
s_send (int sock, uint32_t type, void *body, size_t len)
{
    tp_local_head_t head = { .magic = TP_LOCAL_MAGIC,
                             .version = TP_LOCAL_VERSION,
                             .type = type,
                             .len = (uint32_t) len };
    struct iovec iov[2] = { { &head, sizeof head }, { body, len } };
    struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
    //  A client that does not listen learns it from the closing.
    if (sendmsg (sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        ta_log (TA_LOG_INFO, "client-deaf", "text=\"sendmsg: %s\"",
                strerror (errno));
}

void
ta_attach_refuse (int sock, tutti_err_t err, const char *text)
{
    tp_local_reply_t reply = { .err = err };
    snprintf (reply.text, sizeof reply.text, "%s", text);
    s_send (sock, TP_LOCAL_REFUSE, &reply, sizeof reply);
}

void
ta_attach_waiting (int sock, const char *text)
{
    tp_local_waiting_t waiting = { .stage = TP_STAGE_COORDINATOR };
    snprintf (waiting.text, sizeof waiting.text, "%s", text);
    s_send (sock, TP_LOCAL_WAITING, &waiting, sizeof waiting);
}
