//  agent/worker_impl.h - inside of the worker's actor: worker.c (loop),
//  worker_job.c (coordinator's messages), worker_client.c (ranks' requests)
//
//  Owner of everything here: the worker's main thread.

#ifndef TA_WORKER_IMPL_H
#define TA_WORKER_IMPL_H

#include "agent/channel.h"
#include "agent/relay.h"
#include "agent/session.h"

#define TA_WORLD 1u  //  comm id of the world

//  JOINING --START--> CONNECTING --all connected, GO--> RUNNING --> ENDING
//     |                   |                                ^
//     +-------------------+----- last client left ---------+
typedef enum ta_worker_state {
    TA_JOINING,
    TA_CONNECTING,
    TA_RUNNING,
    TA_ENDING
} ta_worker_state_t;

typedef struct ta_worker {
    ta_worker_state_t state;  //  written by ta_worker_enter only
    int64_t state_ms;         //  since when
    ta_relay_t relay;
    ta_setup_t setup;
    int epoll;
    ta_memory_t *memory;
    tp_wake_page_t *wake;
    int wake_fd, bell;
    ta_channel_t *channel;
    ta_session_t session[TP_LOCAL_MAX];
    uint32_t sessions;      //  used ones
    ta_member_t **members;  //  ours
    uint32_t n_members;
    ta_member_t *leaving;  //  given up, not yet given back by the channel
    //  From START.
    uint64_t incarnation;
    ta_roster_t roster;
    uint32_t *node_of, *pid_of;
    int32_t *session_of;
    char (*node_name)[TP_NAME_MAX];
    tp_plan_t plan;
    //  Counts of comms that are closed.
    tp_tally_t closed[TP_KINDS];
    int64_t progress_ms;  //  when to report next
    int64_t end_ms;       //  ENDING: not later than this
    bool finished;        //  the coordinator says that all ranks left
    bool drain;
    uint32_t adopted;     //  clients that were handed over
    uint32_t told_empty;  //  the number of them when EMPTY was said
} ta_worker_t;

//  Monotonic.
int64_t
ta_worker_now_ms (void);

//  One line, key=value, to stderr.
void
ta_worker_log (const ta_worker_t *self, const char *event, const char *format,
               ...) __attribute__ ((format (printf, 3, 4)));

void
ta_worker_enter (ta_worker_t *self, ta_worker_state_t state);

//  worker_job.c ------------------------------------------------------------

void
ta_job_message (ta_worker_t *self, const uint8_t *bytes, size_t len);
void
ta_job_event (ta_worker_t *self, const ta_event_t *event);
void
ta_job_join (ta_worker_t *self, const ta_session_t *session);
void
ta_job_leave (ta_worker_t *self, const ta_session_t *session);
void
ta_job_lost (ta_worker_t *self, const ta_session_t *session,
             const char *cause);
void
ta_job_abort (ta_worker_t *self, uint64_t comm, int code, const char *text,
              uint32_t rank);
void
ta_job_progress (ta_worker_t *self);  //  worker_progress.c
//  Comm ID on this node, or NULL.
ta_member_t *
ta_job_member (ta_worker_t *self, uint64_t id);
tutti_err_t
ta_job_new_member (ta_worker_t *self, uint64_t id, const uint32_t *ranks,
                   uint32_t n, ta_member_t **member_p);
//  The end of a comm, with a reason, on this node.
void
ta_job_fail_member (ta_worker_t *self, ta_member_t *member, tutti_err_t err,
                    const char *text);
//  Everyone here who was in it has closed it.
void
ta_job_drop_member (ta_worker_t *self, ta_member_t *member);

//  worker_client.c ---------------------------------------------------------

void
ta_client_adopt (ta_worker_t *self, const ta_relay_message_t *message);
//  Refuse a client that was not adopted; its descriptors are closed.
void
ta_client_turn_away (const ta_relay_message_t *message, tutti_err_t err,
                     const char *text);
//  Its socket has something, or its process is gone (PIDFD).
void
ta_client_ready (ta_worker_t *self, ta_session_t *session, bool pidfd);
void
ta_client_welcome (ta_worker_t *self, ta_session_t *session);
void
ta_client_refuse (ta_worker_t *self, ta_session_t *session, tutti_err_t err,
                  const char *text);
//  Tell every rank that waits for WELCOME what for.
void
ta_client_waiting (ta_worker_t *self, tp_stage_t stage, const char *text);
//  The session ends: LEAVE if it said goodbye, else LOST.
void
ta_client_end (ta_worker_t *self, ta_session_t *session, const char *cause);

#endif
