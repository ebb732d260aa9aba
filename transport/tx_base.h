//  transport/tx_base.h - what every transport needs; for transport/*.c only
//
//  A transport's own structs begin with struct tx and struct tx_ep, so that
//  the accessors of tx.h work for all and a cast leads from one to the other.
//
//  Owner: the thread of the tx_t. The one clock is CLOCK_MONOTONIC, in ns.

#ifndef TX_BASE_H
#define TX_BASE_H

#include "transport/tx.h"

#include <sys/epoll.h>

#define TX_MS INT64_C (1000000)  //  ns
#define TX_NEVER INT64_MAX
#define TX_PARKED_MAX 64  //  hellos that wait for our identity
#define TX_PARKED_NS (10000 * TX_MS)
#define TX_CONNECT_MS 30000  //  when the options say 0
#define TX_RETRY_MIN_MS 10
#define TX_RETRY_MAX_MS 1000

//  One frame on its way out.
typedef struct tx_post {
    struct tx_post *next;
    struct tx_post *prev;
    tp_frame_t frame;
    const uint8_t *payload;  //  the caller's until sent ()
    uint64_t cookie;
    int priority;
    size_t moved;  //  bytes of header and payload that have left
    uint8_t header[TP_FRAME_BYTES];
} tx_post_t;

typedef struct tx_queue {
    tx_post_t *head;
    tx_post_t *tail;
} tx_queue_t;

struct tx_ep {
    void *user;
    uint32_t peer;
    uint64_t tally;  //  a wrapper's own count
};

struct tx {
    tx_handler_t handler;
    void *owner;
    char job[TP_NAME_MAX];
    int64_t epoch;  //  0: identity is not known yet
    uint32_t node;
    uint16_t channel;
    uint8_t key[TP_KEY_BYTES];
    int64_t connect_ns;
    tx_post_t *spare;  //  posts to use again, never more than the peak
    uint32_t dice;     //  for jitter only
    bool polling;      //  dead endpoints are kept until poll ends
    tx_stats_t stats;
};

//  Copy and check OPTIONS and HANDLER (every member must be there).
//  TUTTI_EINVAL.
tutti_err_t
tx_base_init (tx_t *self, const tx_options_t *options,
              const tx_handler_t *handler, void *owner);
void
tx_base_identity (tx_t *self, int64_t epoch, uint32_t node,
                  const uint8_t key[TP_KEY_BYTES]);
//  Free the spare posts and wipe the key.
void
tx_base_done (tx_t *self);

//  Our hello to node TO.
void
tx_base_hello (const tx_t *self, uint32_t to, uint64_t received,
               tp_hello_t *hello);

//  Whether we can judge a hello now. Not before we know who we are, nor when
//  it is of a later epoch than ours: its sender was told of that one first.
bool
tx_base_knows (const tx_t *self, const tp_hello_t *theirs);

//  Queue a post: behind those of its priority or a higher one, behind those of
//  its own (comm, seq) and behind the one that is already moving. Costs a walk
//  over the posts it overtakes. TUTTI_ENOMEM; TUTTI_EINVAL for a frame longer
//  than TP_PAYLOAD_MAX or with no payload where there should be.
tutti_err_t
tx_queue_put (tx_queue_t *self, tx_t *tx, const tp_frame_t *frame,
              const void *payload, int priority, uint64_t cookie);
//  Take the first post out; the caller gives it back with tx_post_free.
tx_post_t *
tx_queue_take (tx_queue_t *self);
void
tx_queue_clear (tx_queue_t *self, tx_t *tx);
void
tx_post_free (tx_t *tx, tx_post_t *post);

int64_t
tx_now_ns (void);
//  Pause before attempt number ATTEMPT (1, 2, ...), jittered.
int64_t
tx_pause_ns (tx_t *self, uint32_t attempt);
//  Make TIMER_FD readable at AT_NS (TX_NEVER: not at all).
void
tx_timer_arm (int timer_fd, int64_t at_ns);
//  Create an epoll and a timer in it, whose events carry TIMER_DATA.
//  TUTTI_ENOMEM when the process is out of descriptors.
tutti_err_t
tx_wait_open (int *epoll_fd, int *timer_fd, void *timer_data);
//  epoll_wait with microseconds. 0 on EINTR.
int
tx_wait (int epoll_fd, struct epoll_event *events, int max,
         int64_t timeout_us);

//  Bodies for transports that need no registration.
tutti_err_t
tx_any_region_add (tx_t *self, void *ptr, size_t bytes,
                   tx_region_t **region_p);
void
tx_any_region_drop (tx_t *self, tx_region_t **region_p);

extern const tx_ops_t tx_tcp_ops;
extern const tx_ops_t tx_loopback_ops;

//  The faulty transport with the fault of SPEC, "flip:100"; NULL if there is
//  no such fault.
const tx_ops_t *
tx_faulty_find (const char *spec);

#endif
