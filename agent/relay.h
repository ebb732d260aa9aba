//  agent/relay.h - Envelopes and other bytes over the pair, in pieces
//
//  Used by the worker; the supervisor relays pieces as they are.

#ifndef TA_RELAY_H
#define TA_RELAY_H

#include "agent/worker.h"
#include "protocol/msg.h"

typedef struct ta_relay {
    int fd;
    uint8_t *bytes;  //  of a CONTROL message whose pieces are arriving
    size_t len;
} ta_relay_t;

typedef struct ta_relay_message {
    uint32_t type;        //  ta_worker_type_t
    const uint8_t *body;  //  valid until the next receive
    size_t len;
    int fds[2];  //  ADOPT: client's socket, pidfd; else -1
} ta_relay_message_t;

//  Send a packed Envelope or Progress. TUTTI_ENOMEM, or TUTTI_EAGENTLOST if
//  the supervisor is gone.
tutti_err_t
ta_relay_send (ta_relay_t *self, uint32_t type, const uint8_t *bytes,
               size_t len);
tutti_err_t
ta_relay_envelope (ta_relay_t *self, const Tutti__Envelope *envelope);

//  Receive one whole message. TUTTI_EAGAIN: nothing (yet); TUTTI_EAGENTLOST:
//  the supervisor is gone; TUTTI_EPROTO.
tutti_err_t
ta_relay_receive (ta_relay_t *self, ta_relay_message_t *message);

void
ta_relay_destroy (ta_relay_t *self);

#endif
