//  agent/listener.c - the local socket that clients connect to

#include "agent/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define BACKLOG 1024
#define LOCK_TRIES 100

bool
ta_listener_abstract (const ta_listener_t *self)
{
    return self->path[0] == '@';
}

static void
s_lock_path (const ta_listener_t *self, char *path, size_t len)
{
    snprintf (path, len, "%s.lock", self->path);
}

//  The directory of the socket, if only it is missing.
static void
s_make_directory (const ta_listener_t *self)
{
    char path[sizeof self->path];
    memcpy (path, self->path, sizeof path);
    char *slash = strrchr (path, '/');
    if (slash && slash > path) {
        *slash = 0;
        mkdir (path, 0755);  //  an error shows when the lock is opened
    }
}

//  Whether LOCK is still the file at PATH: its last holder removed it while
//  we waited to open it.
static bool
s_same_file (int lock, const char *path)
{
    struct stat opened, named;
    return fstat (lock, &opened) == 0 && stat (path, &named) == 0 &&
           opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

static tutti_err_t
s_lock (ta_listener_t *self, char *text)
{
    char path[sizeof self->path + 8];
    s_lock_path (self, path, sizeof path);
    for (int i = 0; i < LOCK_TRIES; i++) {
        int fd = open (path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0) {
            snprintf (text, TP_TEXT_MAX,
                      "socket %s: cannot open its lock file: %s; give "
                      "--socket a path in a directory that this user may "
                      "write",
                      self->path, strerror (errno));
            return TUTTI_EINVAL;
        }
        if (flock (fd, LOCK_EX | LOCK_NB) < 0) {
            close (fd);
            snprintf (text, TP_TEXT_MAX,
                      "socket %s: another agent serves it; stop that one, or "
                      "give --socket another path",
                      self->path);
            return TUTTI_ESTATE;
        }
        if (s_same_file (fd, path)) {
            self->lock = fd;
            return TUTTI_OK;
        }
        close (fd);
    }
    snprintf (text, TP_TEXT_MAX, "socket %s: its lock file keeps vanishing",
              self->path);
    return TUTTI_ESTATE;
}

//  Remove a dead socket; anything else at the path is not ours to remove.
static tutti_err_t
s_clear (ta_listener_t *self, char *text)
{
    struct stat info;
    if (lstat (self->path, &info) < 0)
        return TUTTI_OK;
    if (S_ISSOCK (info.st_mode) && unlink (self->path) == 0)
        return TUTTI_OK;
    snprintf (text, TP_TEXT_MAX,
              "socket %s: something that is no socket, or not ours, is in the "
              "way; remove it, or give --socket another path",
              self->path);
    return TUTTI_EINVAL;
}

static bool
s_bind (ta_listener_t *self)
{
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    size_t len = strlen (self->path);
    memcpy (addr.sun_path, self->path, len);
    bool abstract = ta_listener_abstract (self);
    if (abstract)
        addr.sun_path[0] = 0;
    socklen_t size =
        (socklen_t) (offsetof (struct sockaddr_un, sun_path) + len);
    self->fd =
        socket (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (self->fd < 0 || bind (self->fd, (struct sockaddr *) &addr, size) < 0)
        return false;
    struct stat info;
    if (!abstract) {
        self->bound = true;
        //  Every user may attach; who it is SO_PEERCRED tells.
        if (chmod (self->path, 0666) < 0 || lstat (self->path, &info) < 0)
            return false;
        self->device = info.st_dev;
        self->inode = info.st_ino;
    }
    return listen (self->fd, BACKLOG) == 0;
}

tutti_err_t
ta_listener_open (ta_listener_t *self, const char *path, char *text)
{
    *self = (ta_listener_t){ .fd = -1, .lock = -1 };
    if (strlen (path) >= sizeof self->path) {
        snprintf (text, TP_TEXT_MAX,
                  "socket %.120s: longer than %zu bytes, the limit of Unix "
                  "sockets; give --socket a shorter path",
                  path, sizeof self->path - 1);
        return TUTTI_EINVAL;
    }
    memcpy (self->path, path, strlen (path) + 1);
    tutti_err_t err = TUTTI_OK;
    if (!ta_listener_abstract (self)) {
        s_make_directory (self);
        err = s_lock (self, text);
        if (!err)
            err = s_clear (self, text);
    }
    if (!err && !s_bind (self)) {
        bool taken = errno == EADDRINUSE;
        snprintf (text, TP_TEXT_MAX, "socket %s: %s%s", self->path,
                  strerror (errno), taken ? "; another agent serves it" : "");
        err = taken ? TUTTI_ESTATE : TUTTI_EINVAL;
    }
    if (err)
        ta_listener_close (self);
    return err;
}

//  The lock goes last: until then nobody else touches these files.
void
ta_listener_close (ta_listener_t *self)
{
    char path[sizeof self->path + 8];
    struct stat info;
    if (self->fd >= 0)
        close (self->fd);
    if (self->bound && lstat (self->path, &info) == 0 &&
        info.st_dev == self->device && info.st_ino == self->inode)
        unlink (self->path);
    if (self->lock >= 0) {
        s_lock_path (self, path, sizeof path);
        unlink (path);
        close (self->lock);
    }
    *self = (ta_listener_t){ .fd = -1, .lock = -1 };
}
