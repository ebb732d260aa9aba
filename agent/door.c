//  agent/door.c - where clients come in
//
//           HELLO ok, admitted              -> gone, the owner has it
//  READING  HELLO ok, not yet               -> HELD
//           bad HELLO, deadline, closed     -> gone, refused or dropped
//  HELD     offered again: admitted/refused -> gone
//           closed, or any further message  -> gone, dropped

#include "agent/door.h"

#include "agent/listener.h"
#include "agent/log.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define VISITORS_MAX 512
#define HELLO_MS 5000
#define PAUSE_MS 200  //  when accept fails for want of descriptors
#define TURN_MAX 64   //  events of one turn

typedef struct s_visitor {
    struct s_visitor *next, **link;
    ta_client_t client;
    bool held;         //  HELLO is checked; waits for its owner
    int64_t deadline;  //  of HELLO
} s_visitor_t;

struct ta_door {
    ta_listener_t listener;
    int epoll;
    const char *node;
    ta_door_admit_t *admit;
    void *arg;
    s_visitor_t *visitors;  //  newest first
    size_t n_visitors;
    bool listening;       //  the listener is in the epoll set
    int64_t pause_until;  //  accept no one before
};

static bool
s_watch (int epoll, int fd, void *object)
{
    struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP,
                                 .data.ptr = object };
    return epoll_ctl (epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

static void
s_listen (ta_door_t *self, int64_t now_ms)
{
    bool want = self->n_visitors < VISITORS_MAX && now_ms >= self->pause_until;
    if (want && !self->listening)
        self->listening = s_watch (self->epoll, self->listener.fd, NULL);
    else if (!want && self->listening) {
        epoll_ctl (self->epoll, EPOLL_CTL_DEL, self->listener.fd, NULL);
        self->listening = false;
    }
}

//  ----------------------------------------------------------------- visitors

//  Forget a visitor. Its descriptors are closed unless they were TAKEN.
static void
s_forget (ta_door_t *self, s_visitor_t *visitor, bool taken)
{
    if (!taken) {
        close (visitor->client.sock);
        if (visitor->client.pidfd >= 0)
            close (visitor->client.pidfd);
    }
    *visitor->link = visitor->next;
    if (visitor->next)
        visitor->next->link = visitor->link;
    self->n_visitors--;
    free (visitor);
}

static void
s_refuse (ta_door_t *self, s_visitor_t *visitor, tutti_err_t err,
          const char *text)
{
    ta_log (TA_LOG_WARN, "client-refused", "uid=%u code=%d text=\"%s\"",
            visitor->client.uid, (int) err, text);
    ta_attach_refuse (visitor->client.sock, err, text);
    s_forget (self, visitor, false);
}

//  An abstract socket has no permissions: only this user and root may enter.
static bool
s_uid_ok (const ta_door_t *self, const s_visitor_t *visitor)
{
    return !ta_listener_abstract (&self->listener) ||
           visitor->client.uid == geteuid () || visitor->client.uid == 0;
}

static void
s_offer (ta_door_t *self, s_visitor_t *visitor)
{
    char text[TP_TEXT_MAX] = "";
    //  The owner's copies must be the only ones that the set could know of.
    epoll_ctl (self->epoll, EPOLL_CTL_DEL, visitor->client.sock, NULL);
    tutti_err_t err = self->admit (self->arg, &visitor->client, text);
    if (err == TUTTI_OK) {
        s_forget (self, visitor, true);
        return;
    }
    if (err == TUTTI_EAGAIN &&
        s_watch (self->epoll, visitor->client.sock, visitor)) {
        visitor->held = true;
        ta_attach_waiting (visitor->client.sock, text);
        return;
    }
    s_refuse (self, visitor, err, text);
}

static void
s_read (ta_door_t *self, s_visitor_t *visitor)
{
    char text[TP_TEXT_MAX] = "";
    if (visitor->held) {  //  it left, or talks out of turn
        s_forget (self, visitor, false);
        return;
    }
    tutti_err_t err = ta_attach_receive (&visitor->client, self->node, text);
    if (err == TUTTI_EAGAIN)
        return;
    if (err == TUTTI_OK && !s_uid_ok (self, visitor)) {
        err = TUTTI_EDENIED;
        snprintf (text, sizeof text,
                  "job %s on node %s, rank %u: this is a private agent of "
                  "another user (uid %u, you are %u); use your own, or the "
                  "node's at /run/tutti/agent.sock",
                  visitor->client.hello.job, self->node,
                  visitor->client.hello.rank, geteuid (), visitor->client.uid);
    }
    if (err == TUTTI_OK)
        s_offer (self, visitor);
    else if (text[0])
        s_refuse (self, visitor, err, text);
    else {
        if (err == TUTTI_EPROTO)
            ta_log (TA_LOG_WARN, "client-garbage", "uid=%u",
                    visitor->client.uid);
        s_forget (self, visitor, false);
    }
}

static bool
s_welcome (ta_door_t *self, int sock, int64_t now_ms)
{
    struct ucred who = { .uid = (uid_t) -1, .gid = (gid_t) -1 };
    socklen_t len = sizeof who;
    s_visitor_t *visitor = calloc (1, sizeof *visitor);
    if (!visitor ||
        getsockopt (sock, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0 ||
        !s_watch (self->epoll, sock, visitor)) {
        free (visitor);
        return false;
    }
    visitor->client.sock = sock;
    visitor->client.pidfd = -1;
    visitor->client.pid = who.pid;
    visitor->client.uid = who.uid;
    visitor->client.gid = who.gid;
    visitor->deadline = now_ms + HELLO_MS;
    visitor->next = self->visitors;
    visitor->link = &self->visitors;
    if (visitor->next)
        visitor->next->link = &visitor->next;
    self->visitors = visitor;
    self->n_visitors++;
    return true;
}

static void
s_accept (ta_door_t *self, int64_t now_ms)
{
    int sock =
        accept4 (self->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (sock >= 0) {
        if (!s_welcome (self, sock, now_ms))
            close (sock);
        return;
    }
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
        return;
    ta_log (TA_LOG_ERROR, "accept-failed", "text=\"accept: %s\"",
            strerror (errno));
    self->pause_until = now_ms + PAUSE_MS;
}

//  --------------------------------------------------------------------- turn

static void
s_expire (ta_door_t *self, int64_t now_ms)
{
    s_visitor_t *next;
    for (s_visitor_t *v = self->visitors; v; v = next) {
        next = v->next;
        if (v->held || now_ms < v->deadline)
            continue;
        char text[TP_TEXT_MAX];
        snprintf (text, sizeof text,
                  "node %s: no HELLO came within %d s of the connection; is "
                  "this a libtutti?",
                  self->node, HELLO_MS / 1000);
        s_refuse (self, v, TUTTI_ETIMEDOUT, text);
    }
}

void
ta_door_turn (ta_door_t *self, int64_t now_ms)
{
    s_expire (self, now_ms);
    for (int i = 0; i < TURN_MAX; i++) {
        s_listen (self, now_ms);
        //  One at a time, so none can speak of a visitor that is gone.
        struct epoll_event event;
        if (epoll_wait (self->epoll, &event, 1, 0) != 1)
            break;
        if (event.data.ptr)
            s_read (self, event.data.ptr);
        else
            s_accept (self, now_ms);
    }
    s_listen (self, now_ms);
}

int64_t
ta_door_deadline (const ta_door_t *self)
{
    int64_t next = INT64_MAX;
    if (!self->listening && self->n_visitors < VISITORS_MAX)
        next = self->pause_until;
    for (const s_visitor_t *v = self->visitors; v; v = v->next) {
        if (!v->held && v->deadline < next)
            next = v->deadline;
    }
    return next;
}

void
ta_door_late (ta_door_t *self, int64_t late_ms)
{
    for (s_visitor_t *v = self->visitors; v; v = v->next)
        v->deadline += late_ms;
}

void
ta_door_retry (ta_door_t *self)
{
    s_visitor_t *next;
    for (s_visitor_t *v = self->visitors; v; v = next) {
        next = v->next;
        if (v->held)
            s_offer (self, v);
    }
}

int
ta_door_fd (const ta_door_t *self)
{
    return self->epoll;
}

//  --------------------------------------------------------------------- life

tutti_err_t
ta_door_open (ta_door_t **self_p, const char *path, const char *node,
              ta_door_admit_t *admit, void *arg, char *text)
{
    assert (self_p && path && node && admit);
    ta_door_t *self = calloc (1, sizeof *self);
    if (!self) {
        snprintf (text, TP_TEXT_MAX, "no memory for the local socket");
        return TUTTI_ENOMEM;
    }
    self->node = node;
    self->admit = admit;
    self->arg = arg;
    self->epoll = -1;
    tutti_err_t err = ta_listener_open (&self->listener, path, text);
    if (!err) {
        self->epoll = epoll_create1 (EPOLL_CLOEXEC);
        s_listen (self, 0);
        if (!self->listening) {
            snprintf (text, TP_TEXT_MAX, "epoll: %s", strerror (errno));
            err = TUTTI_ENOMEM;
        }
    }
    if (err) {
        ta_door_close (&self, "");
        return err;
    }
    *self_p = self;
    return TUTTI_OK;
}

void
ta_door_close (ta_door_t **self_p, const char *text)
{
    ta_door_t *self = *self_p;
    if (!self)
        return;
    while (self->visitors)
        s_refuse (self, self->visitors, TUTTI_EAGENTLOST, text);
    ta_listener_close (&self->listener);
    if (self->epoll >= 0)
        close (self->epoll);
    free (self);
    *self_p = NULL;
}
