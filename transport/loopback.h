//  transport/loopback.h - inside of the loopback; for transport/loopback*.c
//
//  loopback.c     the tx_t: listeners, poll, the ops table
//  loopback_ep.c  endpoints, links and the frames on them
//
//  What two tx_t share, the links and the list of listeners, is under one
//  mutex; everything else belongs to the thread of its tx_t. No handler runs
//  with the mutex held.
//
//  A link is a connection: two ends, each with the frames on their way to it.

#ifndef TX_LOOPBACK_H
#define TX_LOOPBACK_H

#include "transport/tx_base.h"

typedef struct loop loop_t;

typedef struct loop_msg {
    struct loop_msg *next;
    tp_frame_t frame;
    uint8_t payload[];
} loop_msg_t;

typedef struct loop_end {
    loop_t *tx;        //  NULL: this side is gone
    loop_msg_t *head;  //  on their way to this side
    loop_msg_t *tail;
    size_t bytes;
    size_t frames;
} loop_end_t;

typedef enum loop_answer {
    LOOP_ASKED,
    LOOP_ACCEPTED,
    LOOP_REFUSED
} loop_answer_t;

typedef struct loop_link {
    struct loop_link *next;  //  in loop_t.callers
    loop_end_t end[2];       //  0: who connected, 1: who listens
    loop_answer_t answer;
    tp_hello_t hello;
    uint8_t key[TP_KEY_BYTES];
    int64_t until;  //  patience with a listener without identity
} loop_link_t;

typedef enum loop_state { LP_PAUSED, LP_CALLING, LP_UP, LP_DOWN } loop_state_t;

typedef struct loop_ep {
    tx_ep_t base;
    struct loop_ep *next;
    struct loop_ep *prev;
    loop_t *tx;
    loop_link_t *link;   //  NULL while paused
    int side;            //  of the link
    loop_state_t state;  //  written by tx_loop_enter only
    unsigned to;         //  number in the address
    uint32_t attempts;
    int64_t deadline;
    int64_t give_up;
    unsigned turn;  //  of poll, in which it was last served
    tx_queue_t queue;
    uint64_t number_out;
    uint64_t number_in;
    uint64_t acked;
} loop_ep_t;

struct loop {
    tx_t base;
    loop_t *next_listener;
    unsigned number;
    char address[32];
    int epoll_fd;
    int timer_fd;
    int bell_fd;           //  rung by the other side of a link
    loop_link_t *callers;  //  under the mutex
    loop_ep_t *eps;
    loop_ep_t *dead;
    unsigned turn;
    int events;
};

//  Take and give back the mutex.
void
tx_loop_lock (void);
void
tx_loop_unlock (void);

//  Under the mutex: wake the owner of TX, which may be NULL.
void
tx_loop_ring (const loop_t *tx);
//  Under the mutex: side SIDE leaves. The link goes with the second one.
void
tx_loop_leave (loop_link_t *link, int side);
//  Under the mutex: who listens at "loop:NUMBER", or NULL.
loop_t *
tx_loop_listener (unsigned number);

//  A new endpoint, paused. NULL: out of memory.
loop_ep_t *
tx_loop_ep_new (loop_t *tx, loop_link_t *link, int side);
//  The only writer of state.
void
tx_loop_enter (loop_ep_t *ep, loop_state_t state);
//  End it without a word to its owner; freed at once outside of poll.
void
tx_loop_drop (loop_ep_t *ep);
//  Give it a turn: connect, send, receive.
void
tx_loop_serve (loop_ep_t *ep, int64_t now);

#endif
