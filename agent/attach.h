//  agent/attach.h - a client's HELLO: read, check, answer
//
//  Clients are other people's programs: nothing they send is believed before
//  it is checked here. Workers get a HELLO whose strings end, whose job is a
//  legal name and whose rank is below its size.
//
//  Owner: the door.

#ifndef TA_ATTACH_H
#define TA_ATTACH_H

#include "protocol/local.h"

#include <sys/types.h>

typedef struct ta_client {
    tp_local_hello_t hello;
    int sock;
    int pidfd;  //  of the client
    pid_t pid;  //  SO_PEERCRED; 0: it lives in another pid namespace
    uid_t uid;  //  SO_PEERCRED
    gid_t gid;
} ta_client_t;

//  Check the LEN bytes of a HELLO and copy it out. TUTTI_EPROTO: garbage,
//  deserves no answer. TUTTI_EVERSION, TUTTI_EINVAL: TEXT (TP_TEXT_MAX bytes)
//  is the sentence to refuse with; NODE names us in it.
tutti_err_t
ta_attach_check (const void *bytes, size_t len, const char *node,
                 tp_local_hello_t *hello, char *text);

//  Receive HELLO on client->sock, which does not block; sets hello and pidfd.
//  Without a descriptor a pidfd is opened by client->pid. TUTTI_EAGAIN:
//  nothing yet; TUTTI_EAGENTLOST: the client left; else as ta_attach_check, or
//  TUTTI_EINVAL if there is no pidfd. Whatever else came with it is closed.
tutti_err_t
ta_attach_receive (ta_client_t *client, const char *node, char *text);

//  Send REFUSE (then the caller closes) or WAITING. Never blocks.
void
ta_attach_refuse (int sock, tutti_err_t err, const char *text);
void
ta_attach_waiting (int sock, const char *text);

#endif
