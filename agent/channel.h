//  agent/channel.h - the thread that moves and reduces the bytes of a job
//
//  One channel thread per worker: it owns the transport, the connections to
//  the other nodes, and every op between nodes or of a rank that does not
//  wait. It never blocks but in its own epoll, on the transport, the bell and
//  the command pipe.
//
//  Doors: commands come through a pipe as pointers (the channel frees them),
//  events go back the same way. Members are handed over with ADD and given
//  back with an event; the boards are shared by their own rules.

#ifndef TA_CHANNEL_H
#define TA_CHANNEL_H

#include "agent/member.h"
#include "agent/memory.h"
#include "protocol/plan.h"
#include "transport/tx.h"

typedef struct ta_channel ta_channel_t;

typedef enum ta_command_type {
    TA_CMD_START,    //  connect to the other nodes of the job
    TA_CMD_ADD,      //  member
    TA_CMD_SESSION,  //  event is the descriptor of session (-1: it has left)
    TA_CMD_FAIL,     //  member's ops are dropped; its board has the error
    TA_CMD_REMOVE,   //  member: drop its ops, give it back (TA_EV_REMOVED)
    TA_CMD_STOP
} ta_command_type_t;

typedef struct ta_command {
    ta_command_type_t type;
    ta_member_t *member;
    uint32_t session;
    int event;
    //  START
    int64_t epoch;
    uint32_t me, nodes;
    uint8_t key[TP_KEY_BYTES];
    tp_plan_t plan;
    char (*address)[TP_TEXT_MAX];  //  per node; freed by the channel
    char (*name)[TP_NAME_MAX];     //  per node; kept by the channel
} ta_command_t;

typedef enum ta_event_type {
    TA_EV_READY,   //  connected to all
    TA_EV_FAILED,  //  member id ended with err, text; tell the others
    TA_EV_EDGE,    //  the connection to a node broke; text says how
    TA_EV_STALL,   //  op seq of comm id has not moved for a second; text
    TA_EV_REMOVED  //  member is the actor's again
} ta_event_type_t;

typedef struct ta_event {
    ta_event_type_t type;
    uint64_t id;
    uint64_t seq;  //  STALL, with sig
    tp_sig_t sig;
    ta_member_t *member;
    uint32_t node;
    tutti_err_t err;
    char text[TP_TEXT_MAX];
} ta_event_t;

typedef struct ta_channel_options {
    const char *transport;  //  for tx_find
    const char *bind;
    uint16_t port_lo, port_hi;
    const char *job;
    ta_memory_t *memory;  //  shared by its own rules
    tp_wake_page_t *wake;
    int bell;  //  eventfd
} ta_channel_options_t;

//  Listen, then start the thread. TUTTI_EINVAL: no such transport or address
//  (text, TP_TEXT_MAX, says which); TUTTI_ENOMEM.
tutti_err_t
ta_channel_new (ta_channel_t **self_p, const ta_channel_options_t *options,
                char *text);

//  Stop the thread, wait for it, free. Members that it had are the caller's.
void
ta_channel_destroy (ta_channel_t **self_p);

//  Where peers connect.
const char *
ta_channel_address (const ta_channel_t *self);

//  Give a command; ownership passes.
void
ta_channel_send (ta_channel_t *self, ta_command_t *command);

//  Readable when ta_channel_event has one; it returns NULL if there is none.
//  The caller frees it with free ().
int
ta_channel_fd (const ta_channel_t *self);
ta_event_t *
ta_channel_event (ta_channel_t *self);

//  The event descriptor of a session (tutti_comm_fd), -1: it has left. The
//  channel keeps a copy of its own, so a session may close at any time.
void
ta_channel_session (ta_channel_t *self, uint32_t session, int event);

//  Payload bytes sent so far. Any thread.
uint64_t
ta_channel_wire_bytes (const ta_channel_t *self);

#endif
