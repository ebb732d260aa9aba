//  agent/session.h - one attached client, as its worker sees it
//
//  Owner: the worker's actor.

#ifndef TA_SESSION_H
#define TA_SESSION_H

#include "agent/memory.h"

#include <sys/types.h>

typedef struct ta_session {
    bool used;
    bool welcome;  //  has been told that the job is complete
    bool goodbye;  //  has said that it leaves
    uint32_t index;
    int sock, pidfd, event;
    tp_local_hello_t hello;
    ta_segment_t *staging;
    uint64_t asked;      //  comm that it waits for, and
    uint64_t asked_tag;  //  the tag of the answer; 0: none
} ta_session_t;

//  Take over a client. Descriptors become ours. TUTTI_ENOMEM.
tutti_err_t
ta_session_open (ta_session_t *self, uint32_t index,
                 const tp_local_hello_t *hello, int sock, int pidfd,
                 ta_memory_t *memory, uint64_t staging_bytes);

//  Close its descriptors and drop its memory.
void
ta_session_close (ta_session_t *self, ta_memory_t *memory);

//  Send one message with descriptors. Never blocks: a client whose socket is
//  full has stopped listening, and false is returned.
bool
ta_session_send (ta_session_t *self, uint32_t type, uint64_t tag,
                 const void *body, size_t len, const int *fds, int n_fds);

//  A tp_local_reply_t of TYPE (REPLY, WAITING, REFUSE).
bool
ta_session_reply (ta_session_t *self, uint32_t type, uint64_t tag,
                  tutti_err_t err, const char *text);

//  Receive one message into BODY (ROOM bytes). Returns the bytes of the body,
//  -1: nothing there, -2: the client is gone or sent garbage. Descriptors
//  that it sends are closed.
ssize_t
ta_session_receive (ta_session_t *self, tp_local_head_t *head, void *body,
                    size_t room);

#endif
