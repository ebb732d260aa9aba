//  client/message.h - one message to or from the agent, with descriptors
//
//  The socket is blocking; only a receive has a limit. Not thread safe: the
//  session's lock is held.

#ifndef TL_MESSAGE_H
#define TL_MESSAGE_H

#include "protocol/local.h"

typedef struct tl_message {
    tp_local_head_t head;
    uint8_t body[sizeof (tp_local_welcome_t) + TP_TEXT_MAX + 256];
    size_t len;  //  of the body
    int fds[TP_WELCOME_FDS];
    int n_fds;  //  the receiver's to close: tl_message_drop
} tl_message_t;

//  Send TYPE with TAG and LEN bytes of BODY, and descriptor FD if it is not
//  -1. TUTTI_EAGENTLOST.
tutti_err_t
tl_message_send (int sock, uint32_t type, uint64_t tag, const void *body,
                 size_t len, int fd);

//  Receive one message before LIMIT_NS (monotonic). TUTTI_ETIMEDOUT, without
//  a text: nothing came. TUTTI_EAGENTLOST; TUTTI_EPROTO.
tutti_err_t
tl_message_receive (tl_message_t *self, int sock, int64_t limit_ns);

//  Close the descriptors that came with it.
void
tl_message_drop (tl_message_t *self);

//  The error that a REPLY or REFUSE holds, its text set; or OK.
tutti_err_t
tl_message_error (const tl_message_t *self);

#endif
