//  agent/child.h - one worker process, as the supervisor sees it
//
//  A child serves one (job, attempt). It remembers which ranks the worker has
//  adopted, so that the supervisor can speak for them when the worker dies.
//
//  Owner: the crew.

#ifndef TA_CHILD_H
#define TA_CHILD_H

#include "agent/attach.h"
#include "agent/pair.h"
#include "protocol/msg.h"

typedef enum ta_child_state {
    TA_CHILD_RUNNING,  //  takes clients
    TA_CHILD_LEAVING,  //  said EMPTY; its exit is expected
    TA_CHILD_CUT,      //  its pair closed, or it sent garbage, or is stuck
    TA_CHILD_ENDED,    //  reaped; final
    TA_CHILD_STATES
} ta_child_state_t;

typedef enum ta_child_event {
    TA_CHILD_EMPTY,
    TA_CHILD_BROKEN,
    TA_CHILD_EXITED,
    TA_CHILD_EVENTS
} ta_child_event_t;

typedef struct ta_adopted {
    uint32_t rank;
    uint32_t pid;  //  as the client told it
} ta_adopted_t;

typedef struct ta_child {
    struct ta_child *next;
    char job[TP_NAME_MAX];
    uint32_t attempt;
    uid_t uid;               //  of the job
    ta_child_state_t state;  //  written by ta_child_event only
    pid_t pid;
    int status;  //  of waitpid, once ENDED
    ta_pair_t *pair;
    bool writing;               //  the crew polls for room as well
    int64_t deadline;           //  kill it then; INT64_MAX: never
    int64_t epoch;              //  last that the coordinator told
    uint32_t sent;              //  ADOPTs so far
    Tutti__Progress *progress;  //  its last, ours; NULL: none yet
    uint32_t n_adopted;
    ta_adopted_t adopted[TP_LOCAL_MAX];
} ta_child_t;

//  Start a worker for SETUP's job under CLIENT's uid, if we may.
//  TUTTI_ENOMEM with a sentence in TEXT (TP_TEXT_MAX bytes).
tutti_err_t
ta_child_new (ta_child_t **self_p, const ta_setup_t *setup,
              const ta_client_t *client, char *text);

//  Close the pair; the worker, if it lives, notices.
void
ta_child_destroy (ta_child_t **self_p);

//  Apply one event.
void
ta_child_event (ta_child_t *self, ta_child_event_t event, int64_t now_ms);

//  Hand CLIENT over. On success its descriptors are ours. Errors as
//  ta_pair_send.
tutti_err_t
ta_child_adopt (ta_child_t *self, const ta_client_t *client);

//  RANK has left, or its loss is reported.
void
ta_child_forget (ta_child_t *self, uint32_t rank);

//  Reap it if it has exited.
bool
ta_child_reap (ta_child_t *self);

//  Whether it ended as it should.
bool
ta_child_ended_well (const ta_child_t *self);

//  "worker of job J on node N killed by signal 9".
void
ta_child_epitaph (const ta_child_t *self, const char *node, char *text,
                  size_t len);

#endif
