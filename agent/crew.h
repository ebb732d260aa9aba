//  agent/crew.h - all workers of a node
//
//  Finds or starts the worker of a client's job, relays control messages
//  between workers and the uplink, keeps their progress, reaps them, and
//  speaks for the ranks of a worker that died.
//
//  Owner: the supervisor.

#ifndef TA_CREW_H
#define TA_CREW_H

#include "agent/attach.h"
#include "agent/worker.h"
#include "protocol/msg.h"

typedef struct ta_crew ta_crew_t;

typedef struct ta_crew_options {
    ta_setup_t setup;  //  what all workers share; job and attempt are unused
    void *arg;         //  of the functions below
    //  A checked, packed Envelope of a worker is on its way to the
    //  coordinator.
    void (*relay) (void *arg, const uint8_t *bytes, size_t len);
    //  Say this of a worker; protocol and incarnation are the owner's to set.
    void (*speak) (void *arg, Tutti__Envelope *envelope);
} ta_crew_options_t;

//  TUTTI_ENOMEM.
tutti_err_t
ta_crew_new (ta_crew_t **self_p, const ta_crew_options_t *options);

//  Close all pairs. Workers that still live end themselves.
void
ta_crew_destroy (ta_crew_t **self_p);

//  The data plane's address, before the first client is admitted.
void
ta_crew_bind (ta_crew_t *self, const char *address);

//  Hand CLIENT to the worker of its job. TUTTI_OK: its descriptors are taken.
//  TUTTI_EDENIED (the job is another user's), TUTTI_ENOMEM: TEXT (TP_TEXT_MAX
//  bytes) says why.
tutti_err_t
ta_crew_admit (ta_crew_t *self, const ta_client_t *client, char *text);

//  A message of the coordinator for a job: ENVELOPE, and the LEN bytes it was
//  unpacked from.
void
ta_crew_deliver (ta_crew_t *self, const Tutti__Envelope *envelope,
                 const uint8_t *bytes, size_t len);

//  We are registered (again): tell every worker, with WELCOME and its job,
//  so that it can say again what the coordinator may not know.
void
ta_crew_welcome (ta_crew_t *self, const Tutti__Envelope *welcome);

//  Progress of every job, and once of every worker that has ended: the
//  crew's, valid until the next call of anything.
Tutti__Progress **
ta_crew_progress (ta_crew_t *self, size_t *count_p);

//  Poll this for input, and call turn then, at the deadline and at SIGCHLD.
int
ta_crew_fd (const ta_crew_t *self);
int64_t
ta_crew_deadline (const ta_crew_t *self);
void
ta_crew_turn (ta_crew_t *self, int64_t now_ms);

//  End all workers soon; at once.
void
ta_crew_drain (ta_crew_t *self);
void
ta_crew_kill (ta_crew_t *self);

//  Workers that have not been reaped.
size_t
ta_crew_count (const ta_crew_t *self);

#endif
