//  coordinator/job_impl.h - what the sources of a job share

#ifndef TC_JOB_IMPL_H
#define TC_JOB_IMPL_H

#include "coordinator/job.h"

//  One run; owned by the coordinator's loop.
struct tc_job {
    char name[TP_NAME_MAX];
    uint32_t attempt, size;
    const tc_job_context_t *context;
    tc_job_state_t state;  //  written by s_event and restore in job.c
    bool muted, builds_differ;
    int64_t epoch;
    int64_t told_ms, remind_ms;  //  FORMING: last and next
    tc_rank_t *rank;             //  ours
    uint32_t joined, gone;
    tc_part_t *part;  //  ours
    size_t parts;
    uint32_t first;        //  rank that set size and config
    Tutti__Config config;  //  strings below
    char algorithm[TP_NAME_MAX], transport[TP_NAME_MAX];
    char library[TP_VERSION_MAX], agent[TP_VERSION_MAX];
    uint64_t plan;
    char text[TP_TEXT_MAX];
};

//  Whether this rank may join; if not, TEXT (TP_TEXT_MAX) says who differs
//  from whom and what to do.
bool
tc_job_admits (const tc_job_t *self, const char *node, const Tutti__Join *join,
               char *text);

//  The part of a node, or NULL.
tc_part_t *
tc_job_part (const tc_job_t *self, const char *node);

//  Put the parts in ring order. TUTTI_ENOMEM.
tutti_err_t
tc_job_order (tc_job_t *self);

//  Make the START message, with a fresh key, and give it to every part.
//  TUTTI_ENOMEM: nobody was told.
tutti_err_t
tc_job_tell_start (tc_job_t *self);

//  Send to every node of the job but EXCEPT (NULL: to all).
void
tc_job_tell (tc_job_t *self, const char *except, Tutti__Envelope *envelope);

#endif
