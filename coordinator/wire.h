//  coordinator/wire.h - the ROUTER socket, its options and who may connect
//
//  Owner: the coordinator's loop, but for the ZAP handler, a thread of its
//  own that only reads the list of keys.

#ifndef TC_WIRE_H
#define TC_WIRE_H

#include "protocol/msg.h"

typedef struct tc_wire tc_wire_t;

#define TC_PEER_MAX 256  //  bytes of a routing id
#define TC_KEY_MAX 41    //  a Z85 key with the zero

//  Who a message came from: the connection, as the ROUTER names it, and the
//  public key that CURVE has proven; "" without encryption.
typedef struct tc_peer {
    uint8_t id[TC_PEER_MAX];
    size_t len;
    char key[TC_KEY_MAX];
} tc_peer_t;

//  Bind to ENDPOINT ("tcp://127.0.0.1:0"). KEYS: a file, or "fd:N", with
//  lines "coordinator_secret Z85", "coordinator_public Z85" and one or more
//  "agent_public Z85 [NODE]"; with NODE the key is for the node of that name,
//  and no other key may claim it. NULL: no encryption, anybody may connect.
//  TUTTI_EINVAL, TUTTI_ESTATE (the address cannot be used now), with one
//  sentence in TEXT (TP_TEXT_MAX); TUTTI_ENOMEM.
tutti_err_t
tc_wire_open (tc_wire_t **self_p, const char *endpoint, const char *keys,
              char *text);
void
tc_wire_close (tc_wire_t **self_p);

//  The bound endpoint, and the public key ("-" without encryption).
const char *
tc_wire_endpoint (const tc_wire_t *self);
const char *
tc_wire_key (const tc_wire_t *self);

//  Whether KEY may speak for NODE; if not, one sentence in TEXT.
bool
tc_wire_owns (const tc_wire_t *self, const char *key, const char *node,
              char *text);

//  Wait at most TIMEOUT_MS for a message. TUTTI_OK: *envelope_p is the
//  caller's. TUTTI_EPROTO, TUTTI_EVERSION: PEER sent what makes no sense, TEXT
//  (TP_TEXT_MAX) says why. TUTTI_EAGAIN: nothing came, or a signal.
tutti_err_t
tc_wire_receive (tc_wire_t *self, int timeout_ms, tc_peer_t *peer,
                 Tutti__Envelope **envelope_p, char *text);

//  Send now or not at all. False: the peer is gone or does not read.
bool
tc_wire_send (tc_wire_t *self, const tc_peer_t *peer,
              const Tutti__Envelope *envelope);

#endif
