//  coordinator/coord.h - the control loop: nodes, jobs, and what they say
//
//  One thread, one loop: receive, dispatch by message, timers, snapshot. It
//  never waits for a disk or a web browser: the store is an actor, and the
//  status server reads snapshots that the loop publishes.

#ifndef TC_COORD_H
#define TC_COORD_H

#include "coordinator/http.h"
#include "coordinator/job.h"
#include "coordinator/node.h"
#include "coordinator/store.h"
#include "coordinator/tally.h"
#include "coordinator/wire.h"

#include <signal.h>

#define TC_HISTORY TC_STORE_HISTORY  //  ended jobs that are still shown
#define TC_RIVALS 16                 //  undecided at a time
#define TC_BODIES 32                 //  more than there are kinds of messages

typedef struct tc_coord_options {
    uint32_t heartbeat_ms;
    tc_patience_t patience;
    bool insecure;
    uint64_t incarnation;  //  random, not 0
    int64_t epoch;         //  the highest that may have been given out
} tc_coord_options_t;

//  A node and its connection; lost ones stay, to be seen, until they return.
typedef struct tc_entry {
    tc_node_t *node;
    tc_peer_t peer;
} tc_entry_t;

//  A HELLO with a name that is taken: decided when the connection of the
//  first, if that has just died, has had time to break.
typedef struct tc_rival {
    tc_peer_t peer;
    Tutti__Envelope *hello;  //  ours; NULL: a free place
    int64_t due_ms;
} tc_rival_t;

//  Owned by the thread of tc_coord_run; the status page reads it.
typedef struct tc_coord {
    tc_coord_options_t options;
    tc_wire_t *wire;  //  the caller's, as are http and store
    tc_http_t *http;
    tc_store_t *store;  //  may be NULL
    tc_tally_t *tally;
    tc_plans_t *plans;
    int64_t epoch, reserved;  //  given out, and on disk as given out
    tc_job_context_t context;
    tc_entry_t **nodes;  //  by age
    size_t n_nodes;
    void *by_name, *by_peer;  //  zhashx_t of entries; the latter live only
    void *garbled;            //  zhashx_t: peers whose garbage was logged
    tc_rival_t rivals[TC_RIVALS];
    tc_job_t **jobs;  //  oldest first; of one name the last counts
    size_t n_jobs;
    uint64_t messages[TC_BODIES], garbage, late_ms;
    int64_t started_s;  //  wall clock, to be shown
    int64_t now_ms, publish_ms;
    bool dirty;
} tc_coord_t;

//  Get ready, with a first page for HTTP. WIRE, HTTP and STORE (or NULL) stay
//  the caller's and must live as long. TUTTI_ENOMEM.
tutti_err_t
tc_coord_new (tc_coord_t **self_p, const tc_coord_options_t *options,
              tc_wire_t *wire, tc_http_t *http, tc_store_t *store);
void
tc_coord_destroy (tc_coord_t **self_p);

//  Serve until *STOP.
void
tc_coord_run (tc_coord_t *self, volatile sig_atomic_t *stop);

#endif
