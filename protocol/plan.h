//  protocol/plan.h - which algorithm, which segment size
//
//  A plan is a table of measured or assumed costs; the choice is a pure
//  function of the plan, never of timing, so the same plan gives the same
//  bits in every run. The model is the textbook one (Thakur et al.
//  2005): a message of b bytes costs alpha + b * beta, reducing b bytes costs
//  b * gamma.

#ifndef TP_PLAN_H
#define TP_PLAN_H

#include "protocol/schedule.h"

typedef struct tp_plan {
    uint64_t id;              //  0: the built-in default
    double alpha_us;          //  latency of a message between nodes
    double beta_us_per_mib;   //  wire time of a MiB, per direction and node
    double gamma_us_per_mib;  //  reducing a MiB
    uint64_t segment_bytes;   //  of WORK: the unit of a pipeline
    uint32_t channels;        //  1 to TP_CHANNELS_MAX
    int32_t algorithm[TP_KINDS];  //  forced, or -1: the model chooses
} tp_plan_t;

#define TP_CHANNELS_MAX 8

//  Assumed costs until edges are measured: 10 GbE-like TCP.
#define TP_PLAN_DEFAULT(p)                                                    \
    do {                                                                      \
        *(p) = (tp_plan_t){ .alpha_us = 30.0,                                 \
                            .beta_us_per_mib = 840.0,                         \
                            .gamma_us_per_mib = 100.0,                        \
                            .segment_bytes = 1u << 21,                        \
                            .channels = 1 };                                  \
        for (int k_ = 0; k_ < TP_KINDS; k_++)                                 \
            (p)->algorithm[k_] = -1;                                          \
    } while (0)

//  Predicted microseconds of one collective of BYTES (the WORK vector) among
//  N nodes. HUGE_VAL if the algorithm does not exist for the kind.
double
tp_plan_cost (const tp_plan_t *self, int kind, int algorithm, uint32_t n,
              uint64_t bytes);

//  The algorithm to use. Order: TP_DIRECT where FLAGS has TP_SIG_REPRODUCIBLE
//  and the kind reduces, FORCED (a tp_algorithm_t, or -1), the plan's forced
//  one, else the cheapest by the model (star and direct are only for those
//  who ask), the lower number at a tie. One that does not exist for the kind
//  is not taken.
int
tp_plan_choose (const tp_plan_t *self, int kind, int forced, uint32_t flags,
                uint32_t n, uint64_t bytes);

//  Payload bytes that the busiest node and all nodes together send: what the
//  wire counters of one op must show. Returned by pointer, both optional.
void
tp_plan_wire_bytes (const tp_schedule_t *schedules, uint32_t n, size_t element,
                    uint64_t *max_p, uint64_t *sum_p);

#endif
