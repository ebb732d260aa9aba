//  coordinator/node.h - one agent, as the coordinator sees it
//
//  A node is born from a HELLO and ends when it says GOODBYE or falls silent.
//  It touches no socket and no clock: the coordinator feeds it events and the
//  time, so every path here can be tested with no network and no sleep.
//
//  Owner: the coordinator's loop. Not thread safe.

#ifndef TC_NODE_H
#define TC_NODE_H

#include "protocol/msg.h"

typedef struct tc_node tc_node_t;

typedef enum {
    TC_NODE_READY,    //  may be given work
    TC_NODE_SUSPECT,  //  silent too long; keeps its work
    TC_NODE_LOST,     //  final
    TC_NODE_STATES
} tc_node_state_t;

typedef enum {
    TC_NODE_HEARD,    //  any valid message arrived
    TC_NODE_EXPIRED,  //  the deadline passed
    TC_NODE_GOODBYE,  //  the agent is leaving on purpose
    TC_NODE_EVENTS
} tc_node_event_t;

//  Silence that is allowed, in ms.
typedef struct tc_patience {
    int64_t suspect, lost;  //  counted from the last message
} tc_patience_t;

//  Create a node from its HELLO, which stays the caller's: we copy.
//  TUTTI_ENOMEM; on error *self_p is untouched.
tutti_err_t
tc_node_new (tc_node_t **self_p, const Tutti__Hello *hello,
             tc_patience_t patience, int64_t now_ms);

//  Destroy the node and set *self_p to NULL. No effect if it is NULL already.
void
tc_node_destroy (tc_node_t **self_p);

//  Apply one event. TUTTI_ESTATE, and no change, if the state forbids it.
tutti_err_t
tc_node_event (tc_node_t *self, tc_node_event_t event, int64_t now_ms);

//  The loop slept LATE_MS too long: silence in that time proves nothing.
void
tc_node_late (tc_node_t *self, int64_t late_ms);

//  State, and the time of the next TC_NODE_EXPIRED (INT64_MAX: never).
tc_node_state_t
tc_node_state (const tc_node_t *self);
int64_t
tc_node_deadline (const tc_node_t *self);

//  What its HELLO said; valid as long as the node.
const char *
tc_node_name (const tc_node_t *self);
const char *
tc_node_host (const tc_node_t *self);
const char *
tc_node_address (const tc_node_t *self);

//  "ready", "suspect", "lost".
const char *
tc_node_state_name (tc_node_state_t state);

#endif
