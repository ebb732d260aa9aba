//  coordinator/job.h - one run of a program, from its first JOIN to its end
//
//  A job gathers its ranks, is started when the last is there, and ends when
//  all ranks have left or one is lost. It touches no socket and no clock:
//  messages and times come in, messages go out through a function, so every
//  course can be tested without a network.
//
//  Owner: the coordinator's loop. Not thread safe.

#ifndef TC_JOB_H
#define TC_JOB_H

#include "coordinator/store.h"
#include "protocol/msg.h"
#include "coordinator/plans.h"

typedef struct tc_job tc_job_t;

typedef enum {
    TC_JOB_FORMING,   //  ranks are missing
    TC_JOB_STARTING,  //  START sent; agents connect
    TC_JOB_RUNNING,   //  GO sent
    TC_JOB_FINISHED,  //  every rank left; final
    TC_JOB_FAILED,    //  a rank or node was lost, or superseded; final
    TC_JOB_STATES
} tc_job_state_t;

typedef struct tc_rank {
    bool joined, left, lost;
    char node[TP_NAME_MAX];
    char host[TP_NAME_MAX];
    char build[TP_BUILD_MAX];  //  of its libtutti
    uint32_t pid;
    uint32_t part;  //  index of its node, while joined
    uint64_t seq;   //  last finished op of the world
    char op[96];
    char path[16];
    bool waiting;
} tc_rank_t;

//  How much of its time a node communicates, measured from heartbeats.
typedef struct tc_share {
    bool begun, known;
    int64_t since_ms;  //  of the window that is open
    uint64_t us, ops;  //  then
    double value;      //  of the last whole window, 0 to 1
} tc_share_t;

//  One node of the job.
typedef struct tc_part {
    char node[TP_NAME_MAX];
    char data[TP_TEXT_MAX];  //  where its worker listens
    uint32_t ranks;          //  how many joined from here
    bool ready;
    uint64_t wire_bytes, cpu_us;
    tc_share_t share;
    uint64_t stall_comm, stall_seq;  //  op that it waits in; seq 0: none
    tp_sig_t stall_sig;
    char stall_text[200];
} tc_part_t;

//  How a job speaks and what it needs from outside.
typedef struct tc_job_context {
    void *arg;
    //  Send to the agent of a node; the envelope's body is set, the rest is
    //  filled in by the receiver of this call.
    void (*send) (void *arg, const char *node, Tutti__Envelope *envelope);
    //  A new epoch, never used before.
    int64_t (*epoch) (void *arg);
    //  The plan for its nodes; valid until the next call.
    const tc_store_plan_t *(*plan) (void *arg, const tc_shape_t *shape,
                                    bool *made_p);
    //  The state has changed: record it.
    void (*changed) (void *arg, const tc_job_t *job);
} tc_job_context_t;

//  A job named by the JOIN of its first rank. CONTEXT must outlive it.
//  TUTTI_ENOMEM.
tutti_err_t
tc_job_new (tc_job_t **self_p, const char *name, uint32_t attempt,
            const Tutti__Join *join, const tc_job_context_t *context,
            int64_t now_ms);
void
tc_job_destroy (tc_job_t **self_p);

//  A run that ended before the coordinator was started: shown, no more. Its
//  ranks are not known. TUTTI_EINVAL: the record is of no such run;
//  TUTTI_ENOMEM.
tutti_err_t
tc_job_restore (tc_job_t **self_p, const tc_store_job_t *record,
                const tc_job_context_t *context);

//  A rank wants in, from NODE. Refused with a sentence, or taken; the last
//  one starts the job.
void
tc_job_join (tc_job_t *self, const char *node, const Tutti__Join *join,
             int64_t now_ms);

//  NODE is set up: when all are, GO.
void
tc_job_ready (tc_job_t *self, const char *node);

//  A rank left on purpose, or was lost; a whole node was lost.
void
tc_job_leave (tc_job_t *self, uint32_t rank, int64_t now_ms);
void
tc_job_lost (tc_job_t *self, const char *node, const Tutti__Lost *lost,
             int64_t now_ms);
void
tc_job_node_lost (tc_job_t *self, const char *node, const char *cause,
                  int64_t now_ms);

//  A comm was ended by a rank of NODE: tell the other nodes.
void
tc_job_abort (tc_job_t *self, const char *node, const Tutti__Abort *abort);

//  NODE waits in an op that does not move. If another node waits in the same
//  op with another signature the comm is ended on all, naming both.
void
tc_job_stall (tc_job_t *self, const char *node, const Tutti__Stall *stall);

//  A higher attempt replaces this one.
void
tc_job_supersede (tc_job_t *self, uint32_t attempt);

//  Say nothing any more: another run has the name.
void
tc_job_mute (tc_job_t *self);

//  What NODE's worker reports.
void
tc_job_progress (tc_job_t *self, const char *node,
                 const Tutti__Progress *progress, int64_t now_ms);

//  Time passes: remind who waits. Call some times a second.
void
tc_job_tick (tc_job_t *self, int64_t now_ms);

//  For the status page and the store; valid until the next call.
const char *
tc_job_name (const tc_job_t *self);
uint32_t
tc_job_attempt (const tc_job_t *self);
tc_job_state_t
tc_job_state (const tc_job_t *self);
int64_t
tc_job_epoch (const tc_job_t *self);
uint32_t
tc_job_joined (const tc_job_t *self);  //  ranks
uint32_t
tc_job_size (const tc_job_t *self);
const tc_rank_t *
tc_job_rank (const tc_job_t *self, uint32_t rank);
const tc_part_t *
tc_job_parts (const tc_job_t *self,
              size_t *n_p);  //  in ring order once started
uint64_t
tc_job_plan (const tc_job_t *self);  //  id; 0: not started
const char *
tc_job_library (const tc_job_t *self);  //  version that all ranks have
double
tc_job_comm_share (const tc_job_t *self);  //  0 to 1; < 0: not known
const char *
tc_job_text (const tc_job_t *self);  //  why it failed
void
tc_job_missing (const tc_job_t *self, char *text, size_t len);  //  "2, 5-7"

//  "forming", "running", "finished", "failed".
const char *
tc_job_state_name (tc_job_state_t state);

#endif
