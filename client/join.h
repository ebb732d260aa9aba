//  client/join.h - what tutti_init waits for, and how long that took
//
//  Agent, coordinator, ranks and nodes are waited for within one deadline. The
//  times of the stages are for the log, and say in an error which of them
//  was slow.

#ifndef TL_JOIN_H
#define TL_JOIN_H

#include "client/report.h"
#include "protocol/local.h"

typedef struct tl_join {
    const tl_report_t *report;  //  told every TL_REMIND_NS
    int64_t begun_ns, limit_ns, remind_ns;
    int64_t since_ns;  //  of the stage
    int64_t ns[TP_STAGES];
    tp_stage_t stage;
    char text[TP_TEXT_MAX];  //  what the agent last said; empty at first
} tl_join_t;

#define TL_REMIND_NS 10000000000ll

void
tl_join_begin (tl_join_t *self, const tl_report_t *report, int64_t timeout_ms,
               int64_t now_ns);

//  STAGE is waited for now; TEXT says more.
void
tl_join_enter (tl_join_t *self, tp_stage_t stage, const char *text,
               int64_t now_ns);

//  Say what is waited for if it is time. Returns until when to wait at most.
int64_t
tl_join_remind (tl_join_t *self, int64_t now_ns);

//  "agent 0.8 s, coordinator 0.0 s, ranks 31.2 s, nodes 0.1 s", as far as it
//  came.
void
tl_join_times (const tl_join_t *self, int64_t now_ns, char *text, size_t len);

#endif
