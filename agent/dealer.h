//  agent/dealer.h - the ZeroMQ socket towards the coordinator
//
//  One DEALER with CURVE, and its monitor. Never blocks, except that close
//  waits a moment for the last message. Both descriptors are edge-triggered:
//  after any of them, and after sending, take events and messages until
//  there are none.
//
//  Owner: the supervisor.

#ifndef TA_DEALER_H
#define TA_DEALER_H

#include "agent/address.h"
#include "agent/keys.h"

typedef struct ta_dealer ta_dealer_t;

typedef enum ta_dealer_event {
    TA_DEALER_NOTHING,
    TA_DEALER_CONNECTED,  //  and the handshake is done
    TA_DEALER_BROKEN      //  or never came; see ta_dealer_why
} ta_dealer_event_t;

//  Connect to URL, with CURVE if KEYS is not NULL (copied). TUTTI_EINVAL with
//  a sentence in TEXT (TP_TEXT_MAX bytes).
tutti_err_t
ta_dealer_open (ta_dealer_t **self_p, const char *url, const ta_keys_t *keys,
                char *text);

//  Wait at most LINGER_MS until what was sent has left, then end.
void
ta_dealer_close (ta_dealer_t **self_p, int linger_ms);

//  Descriptors to poll for input: socket and monitor.
int
ta_dealer_fd (const ta_dealer_t *self);
int
ta_dealer_monitor_fd (const ta_dealer_t *self);

//  Next event of the connection.
ta_dealer_event_t
ta_dealer_next (ta_dealer_t *self);
//  Why it is broken, as a sentence.
const char *
ta_dealer_why (const ta_dealer_t *self);
//  Both ends of the connection; "" while it was never there.
const char *
ta_dealer_local (const ta_dealer_t *self);
const char *
ta_dealer_peer (const ta_dealer_t *self);

//  Next message, freed by the caller with free (). TUTTI_EAGAIN: none;
//  TUTTI_ENOMEM; TUTTI_EPROTO: one that has more than one part.
tutti_err_t
ta_dealer_receive (ta_dealer_t *self, uint8_t **bytes_p, size_t *len_p);

//  False: no connection, or its queue is full.
bool
ta_dealer_send (ta_dealer_t *self, const uint8_t *bytes, size_t len);

//  Whether messages wait, which a poll of the descriptor may not tell.
bool
ta_dealer_readable (ta_dealer_t *self);

#endif
