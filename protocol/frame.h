//  protocol/frame.h - what travels between two agents
//
//  A connection starts with one hello in each direction, one proof in each,
//  then carries frames: a fixed header, little endian, and payload bytes.
//
//  A PUT is a one-sided write: its header says where the payload lands in the
//  peer's buffers of (comm, seq, segment); over TCP the receiver resolves and
//  checks that place, over RDMA the bases in the GRANT make it an address.
//  Nobody sends a PUT without credit:
//    eager   whole op no larger than TP_EAGER_BYTES: two frames per (comm,
//            peer) may be unacknowledged; EAGER counts the ones received
//    chunks  segments below the GRANT that the receiver sent for this op,
//            which it does only after its own ranks submitted the op
//  The signature rides on every PUT and GRANT; whoever reads one compares it
//  with its own before a byte is used.
//
//  number and ack make a broken connection resumable: number counts the
//  frames of a direction of an edge and survives the connection; ack is the
//  highest number received in the other direction.

#ifndef TP_FRAME_H
#define TP_FRAME_H

#include "protocol/types.h"

#define TP_FRAME_MAGIC 0x54u  //  'T'
#define TP_FRAME_VERSION 1u
#define TP_FRAME_BYTES 128  //  header on the wire
#define TP_HELLO_BYTES 256  //  hello on the wire
#define TP_PROOF_BYTES 32
#define TP_PAYLOAD_MAX (64u << 20)
#define TP_KEY_BYTES 32
#define TP_EAGER_CREDITS 2

typedef enum tp_frame_type {
    TP_FRAME_PUT = 1,
    TP_FRAME_GRANT,   //  segments [0, grant) of the op may be sent to me
    TP_FRAME_EAGER,   //  only the eager count: credit comes back
    TP_FRAME_NOTICE,  //  payload: one control message (death, abort), R61
    TP_FRAME_TYPES
} tp_frame_type_t;

#define TP_FRAME_HAS_SUM 1u  //  checksum field is valid
#define TP_FRAME_IS_EAGER 2u

typedef struct tp_frame {
    uint8_t type;  //  tp_frame_type_t
    uint8_t flags;
    uint16_t channel;
    uint32_t len;  //  payload bytes
    uint64_t comm;
    int64_t epoch;
    uint64_t seq;  //  of the op in its comm
    uint32_t segment;
    uint32_t buf;    //  tp_buf_t: place of the payload at the receiver
    uint64_t off;    //  bytes
    uint32_t grant;  //  GRANT: segments; PUT of a sendrecv: all its segments
    uint32_t eager;  //  eager frames of this comm received so far, all types
    tp_sig_t sig;
    uint64_t number;
    uint64_t ack;
    uint32_t checksum;   //  CRC32C of the payload
    uint32_t key_phase;  //  which key sealed the payload; 0: not sealed
    uint64_t work_base;  //  GRANT over RDMA: base addresses and keys of the
    uint64_t temp_base;  //  receiver's buffers; 0 over TCP
    uint32_t work_rkey;
    uint32_t temp_rkey;
} tp_frame_t;

//  First bytes of a connection, in both directions. The keys of the
//  connection come from the epoch key, an ephemeral X25519 exchange, both
//  randoms, both names, the channel and the direction, so no
//  connection ever reuses a nonce of another.
typedef struct tp_hello {
    uint32_t protocol;  //  TP_PROTOCOL
    uint16_t channel;
    uint16_t pad;
    int64_t epoch;
    char job[TP_NAME_MAX];
    uint32_t from;  //  node indices in START
    uint32_t to;
    uint64_t received;  //  highest number received on this edge
    uint8_t random[32];
    uint8_t ephemeral[32];  //  X25519 public key
} tp_hello_t;

//  Encode into exactly TP_FRAME_BYTES / TP_HELLO_BYTES.
void
tp_frame_encode (const tp_frame_t *self, uint8_t *bytes);
void
tp_hello_encode (const tp_hello_t *self, uint8_t *bytes);

//  Decode and check what can be checked without state: magic, version, type,
//  lengths, reserved bytes zero, name legal. TUTTI_EPROTO, TUTTI_EVERSION; on
//  error *self is untouched.
tutti_err_t
tp_frame_decode (tp_frame_t *self, const uint8_t *bytes);
tutti_err_t
tp_hello_decode (tp_hello_t *self, const uint8_t *bytes);

#endif
