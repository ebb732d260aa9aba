//  transport/tcp.h - inside of the TCP transport; for transport/tcp*.c only
//
//  tcp.c       the tx_t: open, poll, timers, the ops table
//  tcp_conn.c  life of a connection until it is up, and its end
//  tcp_io.c    frames over a connection that is up
//  tcp_addr.c  addresses and socket options; knows none of the structs below
//
//  Who connected:  PAUSED -> DIALING -> HELLO -> PROOF -> UP
//                    ^----------'---------'  refused or silent: try again
//  Who accepted:   CALLED -> (PARKED ->) CHECKED -> UP
//  and all of them -> DOWN. The acceptor keeps its proof until it has checked
//  the other one and its owner agreed, so up () on one side implies accepted
//  () on the other.
//
//  Owner: the thread of the tx_t.

#ifndef TX_TCP_H
#define TX_TCP_H

#include "protocol/handshake.h"
#include "transport/tx_base.h"

#include <sys/socket.h>

#define TCP_ADDRESS_MAX 80
#define TCP_READ_BYTES (32u << 10)  //  buffer for headers and small payloads

typedef enum tcp_state {
    EP_PAUSED,   //  waiting before the next attempt
    EP_DIALING,  //  connect () is under way
    EP_HELLO,    //  we connected, our hello is out, theirs is awaited
    EP_PROOF,    //  our proof is out, theirs is awaited
    EP_CALLED,   //  we accepted; their hello is awaited
    EP_PARKED,   //  their hello waits until we know who we are
    EP_CHECKED,  //  we accepted, our hello is out, their proof is awaited
    EP_UP,
    EP_DOWN
} tcp_state_t;

//  Needed until a connection is up; allocated so that an endpoint is small.
typedef struct tcp_shake {
    tp_handshake_t keys;
    tp_hello_t theirs;
    uint8_t bytes[TP_HELLO_BYTES];
    size_t got;
} tcp_shake_t;

typedef struct tcp tcp_t;

typedef struct tcp_ep {
    tx_ep_t base;
    struct tcp_ep *next;  //  in tcp_t.eps or tcp_t.dead
    struct tcp_ep *prev;
    struct tcp_ep *next_dirty;
    tcp_t *tx;
    int fd;             //  -1: none
    uint32_t armed;     //  what epoll was told; 0: fd is not in it
    tcp_state_t state;  //  written by tx_tcp_enter only
    bool ours;          //  we connected: the owner knows it since then
    bool dirty;         //  in tcp_t.dirty
    bool broken;        //  writing failed: read what is left, then go down
    int64_t deadline;   //  of this state
    int64_t started;
    int64_t give_up;
    uint32_t attempts;
    char address[TCP_ADDRESS_MAX];
    struct sockaddr_storage to;
    socklen_t to_len;
    tcp_shake_t *shake;  //  until UP
    tx_queue_t queue;
    uint64_t number_out;  //  of the last frame that has begun to leave
    uint64_t number_in;   //  of the last frame that has arrived
    uint64_t acked;
    tp_frame_t frame;  //  whose payload is coming in
    uint8_t *payload;  //  where to; NULL between frames
    size_t got;        //  of that payload
    bool bulk;         //  the last payload was long: read exactly
    size_t head_len;   //  of a header that came in part
    uint8_t head[TP_FRAME_BYTES];
} tcp_ep_t;

struct tcp {
    tx_t base;
    int epoll_fd;
    int timer_fd;
    int listen_fd;
    int64_t wake;          //  when the timer fires
    int64_t accept_again;  //  out of descriptors: the listener rests
    char address[TCP_ADDRESS_MAX];
    tcp_ep_t *eps;
    tcp_ep_t *dirty;               //  have posts and were not told to epoll
    tcp_ep_t *dead;                //  freed when poll ends
    int events;                    //  handled in this poll
    uint8_t read[TCP_READ_BYTES];  //  shared: what is left of it between two
                                   //  reads is kept in tcp_ep_t.head
};

//  tcp_addr.c

//  "10.0.0.1:4711" or "[fd00::1]:4711": literals only. TUTTI_EINVAL.
tutti_err_t
tx_tcp_parse (const char *text, struct sockaddr_storage *to, socklen_t *len);
//  The other way; the peer's address of a socket.
void
tx_tcp_peer_text (int fd, char *text, size_t len);
//  Listen on the literal BIND and a port of [LO, HI] (0, 0: any). The
//  connectable literal goes to TEXT. TUTTI_EINVAL: no address of this host;
//  TUTTI_EAGAIN: all ports taken; TUTTI_EPERM; TUTTI_ENOMEM. errno is kept.
tutti_err_t
tx_tcp_listen (int *fd_p, const char *bind, uint16_t lo, uint16_t hi,
               char *text, size_t len);
//  Options of a connected socket.
void
tx_tcp_tune (int fd);
//  Whether a socket was connected to itself, as happens to who knocks at a
//  free port that the kernel then also picks for the knocking end.
bool
tx_tcp_is_self (int fd);

//  tcp_conn.c

//  A new endpoint in STATE, in the list of TX. NULL: out of memory.
tcp_ep_t *
tx_tcp_ep_new (tcp_t *tx, tcp_state_t state, int64_t deadline);
//  The only writer of state and deadline.
void
tx_tcp_enter (tcp_ep_t *self, tcp_state_t state, int64_t deadline);
//  Tell epoll what this endpoint waits for.
void
tx_tcp_arm (tcp_ep_t *self, uint32_t events);
//  End it without a word to the owner; freed at once outside of poll.
void
tx_tcp_drop (tcp_ep_t *self);
//  End it and tell the owner, if the owner knows it.
void
tx_tcp_down (tcp_ep_t *self, tutti_err_t err, const char *format, ...)
    __attribute__ ((format (printf, 3, 4)));
//  The descriptor of an endpoint that is not up has something to say.
void
tx_tcp_advance (tcp_ep_t *self);
//  Its deadline has passed.
void
tx_tcp_expire (tcp_ep_t *self, int64_t now);
//  A parked endpoint may go on: our identity is known.
void
tx_tcp_unpark (tcp_ep_t *self);

//  tcp_io.c

//  Send what is queued as far as the kernel takes it, a bounded amount.
void
tx_tcp_flush (tcp_ep_t *self);
//  Receive, a bounded amount.
void
tx_tcp_read (tcp_ep_t *self);

#endif
