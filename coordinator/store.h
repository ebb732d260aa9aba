//  coordinator/store.h - state that survives the coordinator
//
//  An actor of its own: the loop hands over records and goes on; only open
//  waits for the disk. What was handed over is on disk some milliseconds
//  later, in order. A file has one coordinator at a time.
//
//  Threads: open and close by the owner; the others from the loop.

#ifndef TC_STORE_H
#define TC_STORE_H

#include "protocol/plan.h"

#define TC_STORE_EPOCHS 1000    //  reserved at a time
#define TC_STORE_HISTORY 64     //  ended jobs that are read at open
#define TC_FINGERPRINT_MAX 128  //  of a plan, with the zero
#define TC_STORE_EVENTS 10000   //  kept at open, older ones go

typedef struct tc_store tc_store_t;

//  A job as it stands.
typedef struct tc_store_job {
    char job[TP_NAME_MAX];
    uint32_t attempt, size;
    int64_t epoch;
    char state[16];
    char text[TP_TEXT_MAX];
} tc_store_job_t;

//  A plan and what it was made for; of the plan all but `algorithm` is kept.
typedef struct tc_store_plan {
    char fingerprint[TC_FINGERPRINT_MAX];
    tp_plan_t plan;
} tc_store_plan_t;

//  URL is "sqlite:PATH"; NULL: nothing is kept (a private run).
//  *last_epoch_p is the highest epoch that may have been given out, 0 at
//  first; TC_STORE_EPOCHS more are on disk as given out when this returns.
//  INCARNATION is of this start. TUTTI_EINVAL, or TUTTI_ESTATE if another
//  coordinator has the file, with one sentence in TEXT; TUTTI_ENOMEM.
tutti_err_t
tc_store_open (tc_store_t **self_p, const char *url, uint64_t incarnation,
               int64_t *last_epoch_p, char *text);

//  Write what is queued, then end.
void
tc_store_close (tc_store_t **self_p);

//  Jobs that had finished or failed when the store was opened, the oldest
//  first; valid as long as the store. SELF may be NULL.
const tc_store_job_t *
tc_store_history (const tc_store_t *self, size_t *n_p);

//  Plans that were there when the store was opened, by id; valid as long as
//  the store. SELF may be NULL.
const tc_store_plan_t *
tc_store_plans (const tc_store_t *self, size_t *n_p);

//  Queue a record; copied. Dropped if the queue is full, for a slow disk must
//  not stop the service: the log says when it begins, and how many were
//  dropped. SELF may be NULL.
void
tc_store_job (tc_store_t *self, const tc_store_job_t *job);
void
tc_store_node (tc_store_t *self, const char *node, const char *host,
               const char *state);
void
tc_store_plan (tc_store_t *self, const tc_store_plan_t *plan);

//  The highest epoch that is reserved from now on. Never dropped, and
//  written before the records that wait. SELF may be NULL.
void
tc_store_epoch (tc_store_t *self, int64_t epoch);

#endif
