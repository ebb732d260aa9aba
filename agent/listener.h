//  agent/listener.h - the local socket that clients connect to
//
//  A path socket outlives kill -9, so it is guarded by a lock file beside it:
//  who holds the lock may replace a dead socket. Abstract names ("@NAME")
//  vanish with us; but anybody could connect, so the door looks at the uid.

#ifndef TA_LISTENER_H
#define TA_LISTENER_H

#include "protocol/types.h"

#include <sys/types.h>
#include <sys/un.h>

typedef struct ta_listener {
    int fd;
    int lock;      //  -1: abstract
    bool bound;    //  the socket file is ours
    dev_t device;  //  of the socket file
    ino_t inode;
    char path[sizeof ((struct sockaddr_un *) 0)->sun_path];
} ta_listener_t;

//  Listen, non-blocking, at PATH or @NAME. TUTTI_EINVAL, TUTTI_ESTATE
//  (another agent serves it): TEXT (TP_TEXT_MAX bytes) says what to do.
tutti_err_t
ta_listener_open (ta_listener_t *self, const char *path, char *text);

//  Stop listening and remove our own files.
void
ta_listener_close (ta_listener_t *self);

bool
ta_listener_abstract (const ta_listener_t *self);

#endif
