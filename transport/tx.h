//  transport/tx.h - the contract of a transport
//
//  A transport moves frames (protocol/frame.h) between two agents of one job.
//  It is shaped so that RDMA verbs fit and TCP emulates them: payload is PUT
//  into memory that the receiver named, then the receiver is notified; there
//  is no receive queue and no copy that the transport owns.
//
//  Threads: a tx_t and all its endpoints belong to one thread (a channel of
//  the worker). Nothing here blocks but tx_poll, and that no longer than it
//  was told. Handlers run inside tx_poll, may post, connect and close, may
//  not poll or destroy.
//
//  Life of an endpoint: CONNECTING -> UP -> DOWN. up or down is called exactly
//  once for a connect; down exactly once after up. After down the endpoint is
//  the caller's to forget: the transport frees it when the handler returns.
//
//  Costs: a header alone is inline; payload is zero copy, its bytes are the
//  transport's until sent () (TCP: the kernel has them; verbs: completion).
//
//  Order: frames of an endpoint are notified in the order posted.
//  Frames posted within one tx_poll round travel in as few system calls as
//  possible, higher priority first where nothing has been sent of either;
//  the order within one (comm, seq) is kept.

#ifndef TX_H
#define TX_H

#include "protocol/frame.h"

typedef struct tx tx_t;
typedef struct tx_ep tx_ep_t;
typedef struct tx_region tx_region_t;

typedef struct tx_handler {
    //  A peer connected and proved the epoch key; HELLO is its (checked)
    //  hello. Return false to refuse it. *user_p becomes the endpoint's user.
    bool (*accepted) (void *owner, tx_ep_t *ep, const tp_hello_t *hello,
                      void **user_p);
    //  Our connect succeeded.
    void (*up) (void *owner, tx_ep_t *ep);
    //  The header of a frame with payload has arrived: where do its LEN bytes
    //  go? NULL: protocol error, the endpoint goes down with TUTTI_EPROTO.
    void *(*place) (void *owner, tx_ep_t *ep, const tp_frame_t *frame);
    //  The frame and all its payload are here.
    void (*arrived) (void *owner, tx_ep_t *ep, const tp_frame_t *frame,
                     void *payload);
    //  The payload of a post with this cookie (not 0) may be overwritten.
    void (*sent) (void *owner, tx_ep_t *ep, uint64_t cookie);
    //  The endpoint is gone; TEXT says who, what, where. Posts that were not
    //  sent are dropped: sent () is not called for them.
    void (*down) (void *owner, tx_ep_t *ep, tutti_err_t err, const char *text);
} tx_handler_t;

typedef struct tx_options {
    const char *bind;           //  address to listen on, "0.0.0.0", "::", ...
    uint16_t port_lo, port_hi;  //  0, 0: any free port
    const char *job;
    int64_t epoch;  //  of the job, checked in the handshake;
    uint32_t node;  //  both may be set later by identity ()
    uint16_t channel;
    uint8_t key[TP_KEY_BYTES];  //  epoch key
    int connect_timeout_ms;     //  per attempt ladder, 0: 30 000
} tx_options_t;

typedef struct tx_stats {
    uint64_t frames_out, frames_in;
    uint64_t payload_out, payload_in;  //  bytes of payload, no headers
    uint64_t writes, reads;            //  system calls or work requests
    uint64_t endpoints;                //  that are up
    uint64_t refused;  //  peers that failed the handshake or the protocol
} tx_stats_t;

//  The contract, member by member. Absent operations point at a body that
//  returns TUTTI_ENOTSUP, never NULL.
typedef struct tx_ops {
    const char *name;  //  "tcp", "loopback", "verbs", "faulty"
    //  Create and listen. OWNER goes to every handler.
    tutti_err_t (*open) (tx_t **self_p, const tx_options_t *options,
                         const tx_handler_t *handler, void *owner);
    //  Epoch, node index and key are known only after START.
    void (*identity) (tx_t *self, int64_t epoch, uint32_t node,
                      const uint8_t key[TP_KEY_BYTES]);
    //  "10.0.0.1:40123" or "[fd00::1]:40123": where peers connect.
    const char *(*address) (const tx_t *self);
    //  Close all endpoints (down is not called) and free. Never blocks.
    void (*destroy) (tx_t **self_p);
    //  Start to connect to ADDRESS, which is node PEER. Refused connections
    //  are retried with growing, jittered pauses until the time is up.
    tutti_err_t (*connect) (tx_t *self, const char *address, uint32_t peer,
                            void *user, tx_ep_t **ep_p);
    //  Close now; down is not called. Queued posts are dropped.
    void (*close) (tx_t *self, tx_ep_t **ep_p);
    //  Queue a frame. number and ack are filled in here; frame->len bytes of
    //  PAYLOAD must stay until sent (COOKIE). PRIORITY: higher first.
    //  TUTTI_ENOMEM. An endpoint that is still connecting queues.
    tutti_err_t (*post) (tx_t *self, tx_ep_t *ep, const tp_frame_t *frame,
                         const void *payload, int priority, uint64_t cookie);
    //  Move bytes and run handlers; a bounded amount of work a call. Waits at
    //  most TIMEOUT_US for something to do (0: never). Returns the number of
    //  events handled.
    int (*poll) (tx_t *self, int64_t timeout_us);
    //  A descriptor that is readable when poll has something to do. What was
    //  posted since the last poll does not show: poll (0) before you sleep.
    int (*fd) (const tx_t *self);
    //  Make memory known for RDMA. TCP: accepts anything, costs nothing.
    tutti_err_t (*region_add) (tx_t *self, void *ptr, size_t bytes,
                               tx_region_t **region_p);
    void (*region_drop) (tx_t *self, tx_region_t **region_p);
    //  Highest number of our frames that the peer has acknowledged on this
    //  edge, and going on with the rest over a new connection to ADDRESS:
    //  the receiver first stops the old one, then tells what it holds.
    uint64_t (*acked) (const tx_t *self, const tx_ep_t *ep);
    tutti_err_t (*resume) (tx_t *self, tx_ep_t *ep, const char *address);
    void (*stats) (const tx_t *self, tx_stats_t *stats);
} tx_ops_t;

//  The transport of that name, or NULL. "faulty:MODE:ARG" wraps tcp and spoils
//  it for tests: "faulty:flip:N" flips one bit of every N-th payload.
const tx_ops_t *
tx_find (const char *name);

void *
tx_ep_user (const tx_ep_t *ep);
void
tx_ep_set_user (tx_ep_t *ep, void *user);
uint32_t
tx_ep_peer (const tx_ep_t *ep);  //  node index of the other side

//  Bodies for operations that a transport has not got.
tutti_err_t
tx_no_resume (tx_t *self, tx_ep_t *ep, const char *address);

#endif
