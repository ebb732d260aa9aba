//  agent/uplink.h - the agent's standing with the coordinator
//
//  Says HELLO, keeps the heart beating, notices silence and restarts, and
//  holds what workers want to say until it can be said. It touches no socket
//  and no clock: the supervisor feeds it events and the time, and it sends
//  through a function, so every path can be tested without a network.
//
//  Running jobs go on whatever happens here: no collective waits for the
//  coordinator.
//
//  Owner: the supervisor. Not thread safe.

#ifndef TA_UPLINK_H
#define TA_UPLINK_H

#include "protocol/msg.h"

typedef struct ta_uplink ta_uplink_t;

typedef enum ta_uplink_state {
    TA_UPLINK_DOWN,      //  no connection
    TA_UPLINK_HELLOING,  //  connected, HELLO said, no WELCOME yet
    TA_UPLINK_UP,        //  welcome
    TA_UPLINK_SILENT,    //  was up; nothing heard, HELLO said again
    TA_UPLINK_CLOSED,    //  refused, or we said GOODBYE; final
    TA_UPLINK_STATES
} ta_uplink_state_t;

//  What the owner should do after a message.
typedef enum ta_uplink_news {
    TA_NEWS_NONE,
    TA_NEWS_JOB,      //  it is for the worker of its job
    TA_NEWS_WELCOME,  //  we are known to this connection, or to another
                      //  coordinator: workers should say again what lives
    TA_NEWS_REFUSED   //  the node is not let in; see ta_uplink_text
} ta_uplink_news_t;

typedef struct ta_uplink_options {
    const char *node, *host, *version;
    const char *const *labels;
    size_t n_labels;
    void *arg;  //  of the functions below
    //  Send one packed Envelope now; false: not possible now.
    bool (*send) (void *arg, const uint8_t *bytes, size_t len);
    //  Progress of the jobs, the caller's; count by pointer.
    Tutti__Progress **(*progress) (void *arg, size_t *count_p);
} ta_uplink_options_t;

//  OPTIONS' strings stay the caller's and must live as long. TUTTI_ENOMEM.
tutti_err_t
ta_uplink_new (ta_uplink_t **self_p, const ta_uplink_options_t *options,
               int64_t now_ms);
void
ta_uplink_destroy (ta_uplink_t **self_p);

//  The connection is there; DATA_HOST is the address to tell. Says HELLO.
void
ta_uplink_connected (ta_uplink_t *self, const char *data_host, int64_t now_ms);

//  The connection is gone; WHY is for the log.
void
ta_uplink_broken (ta_uplink_t *self, const char *why, int64_t now_ms);

//  A checked message from the coordinator.
ta_uplink_news_t
ta_uplink_receive (ta_uplink_t *self, const Tutti__Envelope *envelope,
                   int64_t now_ms);

//  Time passes: heartbeats, patience. To be called at ta_uplink_deadline.
void
ta_uplink_tick (ta_uplink_t *self, int64_t now_ms);
int64_t
ta_uplink_deadline (const ta_uplink_t *self);

//  The owner slept LATE_MS too long, so silence proves nothing.
void
ta_uplink_late (ta_uplink_t *self, int64_t late_ms);

//  Queue a packed Envelope (copied) and send what can be sent. TUTTI_EAGAIN:
//  the queue is full and the message is dropped; TUTTI_ENOMEM.
tutti_err_t
ta_uplink_send (ta_uplink_t *self, const uint8_t *bytes, size_t len);

//  Send what is queued; call it when the socket takes messages again.
void
ta_uplink_flush (ta_uplink_t *self);

//  Whether messages wait in the queue, and whether so many that no new work
//  should be taken.
bool
ta_uplink_queued (const ta_uplink_t *self);
bool
ta_uplink_crowded (const ta_uplink_t *self);

//  Say GOODBYE and close.
void
ta_uplink_goodbye (ta_uplink_t *self, int64_t now_ms);

ta_uplink_state_t
ta_uplink_state (const ta_uplink_t *self);
//  Of the coordinator; 0: not yet known.
uint64_t
ta_uplink_incarnation (const ta_uplink_t *self);
//  What it waits for, or why it was refused, as a sentence.
const char *
ta_uplink_text (const ta_uplink_t *self);

#endif
