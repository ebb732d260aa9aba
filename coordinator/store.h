//  coordinator/store.h - state that survives the coordinator
//
//  An actor of its own: the loop hands over records and goes on; only open
//  waits for the disk. What was handed over is on disk some milliseconds
//  later, in order.
//
//  Threads: open and close by the owner; the others from the loop.

#ifndef TC_STORE_H
#define TC_STORE_H

#include "protocol/types.h"

#define TC_STORE_EPOCHS 1000  //  reserved at a time

typedef struct tc_store tc_store_t;

//  A job as it stands.
typedef struct tc_store_job {
    char job[TP_NAME_MAX];
    uint32_t attempt, size;
    int64_t epoch;
    char state[16];
    char text[TP_TEXT_MAX];
} tc_store_job_t;

//  URL is "sqlite:PATH"; NULL: nothing is kept (a private run).
//  *last_epoch_p is the highest epoch that may have been given out, 0 at
//  first; TC_STORE_EPOCHS more are on disk as given out when this returns.
//  INCARNATION is of this start. TUTTI_EINVAL with one sentence in TEXT.
tutti_err_t
tc_store_open (tc_store_t **self_p, const char *url, uint64_t incarnation,
               int64_t *last_epoch_p, char *text);

//  Write what is queued, then end.
void
tc_store_close (tc_store_t **self_p);

//  Queue a record; copied. Dropped, with a line in the log, if the queue is
//  full: a slow disk must not stop the service. SELF may be NULL. EPOCH: the
//  highest that is reserved from now on.
void
tc_store_job (tc_store_t *self, const tc_store_job_t *job);
void
tc_store_epoch (tc_store_t *self, int64_t epoch);
void
tc_store_node (tc_store_t *self, const char *node, const char *host,
               const char *state);

#endif
