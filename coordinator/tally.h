//  coordinator/tally.h - sums over all jobs of past and present
//
//  Workers report counters that start at 0 with each worker; sums here never
//  go backwards. No clock, no socket.
//
//  Owner: the coordinator's loop. Not thread safe.

#ifndef TC_TALLY_H
#define TC_TALLY_H

#include "protocol/msg.h"

#define TC_BUCKETS 8     //  of KindCount in tutti.proto
#define TC_TRANSPORTS 4  //  names that are told apart

typedef struct tc_tally tc_tally_t;

typedef struct tc_totals {
    uint64_t ops[TP_KINDS], bytes[TP_KINDS], us[TP_KINDS];
    uint64_t bucket[TP_KINDS][TC_BUCKETS];
    char transport[TC_TRANSPORTS][16];  //  "" at the end
    uint64_t wire_bytes[TC_TRANSPORTS];
} tc_totals_t;

//  TUTTI_ENOMEM.
tutti_err_t
tc_tally_new (tc_tally_t **self_p);
void
tc_tally_destroy (tc_tally_t **self_p);

//  NODE reported about a job: add what has grown since its last report.
void
tc_tally_add (tc_tally_t *self, const char *node,
              const Tutti__Progress *progress, int64_t now_ms);

//  The sums; valid as long as the tally.
const tc_totals_t *
tc_tally_totals (const tc_tally_t *self);

#endif
