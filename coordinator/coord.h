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
#include "coordinator/wire.h"

#define TC_HISTORY 64  //  ended jobs that are still shown

typedef struct tc_coord_options {
    uint32_t heartbeat_ms;
    tc_patience_t patience;
    bool insecure;
    int64_t last_epoch;
} tc_coord_options_t;

typedef struct tc_entry {  //  a node and its connection
    tc_node_t *node;
    tc_peer_t peer;
} tc_entry_t;

//  Sums over all jobs of the past and present, for the metrics.
typedef struct tc_totals {
    uint64_t ops[TP_KINDS], bytes[TP_KINDS], us[TP_KINDS];
    uint64_t bucket[TP_KINDS][8];
    uint64_t wire_bytes;
} tc_totals_t;

//  The last report of a node about a job, so that growth can be added.
typedef struct tc_seen {
    char node[TP_NAME_MAX], job[TP_NAME_MAX];
    tc_totals_t last;
} tc_seen_t;

typedef struct tc_coord {
    tc_coord_options_t options;
    tc_wire_t *wire;    //  the caller's, as are http and store
    tc_http_t *http;
    tc_store_t *store;  //  may be NULL
    uint64_t incarnation;
    int64_t epoch;
    tc_job_context_t context;
    tc_entry_t *nodes;
    size_t n_nodes;
    tc_job_t **jobs;    //  alive first, then ended, oldest first
    size_t n_jobs;
    tc_seen_t *seen;
    size_t n_seen;
    tc_totals_t totals;
    uint64_t messages[32], garbage;
    int64_t now_ms, publish_ms, tick_ms;
    bool dirty;
} tc_coord_t;

//  Run until *STOP. WIRE, HTTP and STORE (or NULL) are the caller's.
//  TUTTI_ENOMEM.
tutti_err_t
tc_coord_run (const tc_coord_options_t *options, tc_wire_t *wire,
              tc_http_t *http, tc_store_t *store, volatile bool *stop);

#endif
