//  protocol/plan.c - costs by the textbook model, and the choice

#include "protocol/plan.h"

#include <math.h>

#define MIB (1024.0 * 1024.0)

typedef struct model {
    double a;                 //  us per message
    double b;                 //  us to move the whole vector once
    double c;                 //  us to reduce the whole vector once
    double n, rounds, power;  //  power: nodes left by folding, 2^rounds
} model_t;

static model_t
s_model (const tp_plan_t *plan, uint32_t n, uint64_t bytes)
{
    double mib = (double) bytes / MIB;
    model_t m = { .a = plan->alpha_us,
                  .b = mib * plan->beta_us_per_mib,
                  .c = mib * plan->gamma_us_per_mib,
                  .n = n,
                  .power = 1 };
    for (; m.power * 2 <= m.n; m.power *= 2)
        m.rounds++;
    return m;
}

//  Rounds of an algorithm that takes any n as it is.
static double
s_rounds_up (const model_t *m)
{
    return m->rounds + (m->power < m->n ? 1 : 0);
}

static double
s_star (const model_t *m, int kind)
{
    double others = m->n - 1, part = others / m->n;
    switch (kind) {
    case TP_ALLREDUCE:
        return others * (2 * m->a + 2 * m->b + m->c);
    case TP_REDUCE_SCATTER:
        return others * (2 * m->a + m->b + m->c) + part * m->b;
    case TP_ALLGATHER:
        return others * (2 * m->a + m->b * part) + part * m->b;
    case TP_REDUCE:
        return others * (m->a + m->b + m->c);
    default:
        return others * (m->a + m->b);
    }
}

//  Ring, halving and direct move (n - 1) / n of the vector per phase, n the
//  number of nodes TAKING part; they differ in the number of messages. The
//  second phase of a reduce is what the root receives.
static double
s_phases (const model_t *m, int kind, double messages, double taking)
{
    double part = (taking - 1) / taking;
    double phases = kind == TP_ALLREDUCE || kind == TP_REDUCE ? 2 : 1;
    double reduced = tp_kind_info (kind)->reduces ? part * m->c : 0;
    return phases * (messages * m->a + part * m->b) + reduced;
}

//  Handing the vector to a neighbour before, and the result back after.
static double
s_fold (const model_t *m)
{
    return m->power < m->n ? 2 * (m->a + m->b) + m->c : 0;
}

double
tp_plan_cost (const tp_plan_t *self, int kind, int algorithm, uint32_t n,
              uint64_t bytes)
{
    if (!tp_algorithm_ok (kind, algorithm))
        return HUGE_VAL;
    if (n <= 1)
        return 0;
    model_t m = s_model (self, n, bytes);
    kind = (int) tp_kind_info (kind)->even;
    switch (algorithm) {
    case TP_STAR:
        return s_star (&m, kind);
    case TP_RING:
    case TP_DIRECT:
        return s_phases (&m, kind, m.n - 1, m.n);
    case TP_DOUBLING:
        if (kind == TP_ALLGATHER)
            return s_phases (&m, kind, s_rounds_up (&m), m.n);
        return m.rounds * (m.a + m.b + m.c) + s_fold (&m);
    case TP_HALVING:
        if (kind == TP_REDUCE_SCATTER && m.power < m.n)
            return s_phases (&m, kind, m.n - 1, m.n);
        return s_phases (&m, kind, m.rounds, m.power) + s_fold (&m);
    case TP_TREE:
        return s_rounds_up (&m) * (m.a + m.b) +
               (kind == TP_REDUCE ? s_rounds_up (&m) * m.c : 0);
    case TP_PAIRWISE:
        return s_phases (&m, kind, m.n - 1, m.n);
    default:
        return s_rounds_up (&m) * m.a;
    }
}

//  Star is for comparison and direct for the reproducible mode: both only
//  when asked for.
static bool
s_candidate (int kind, int algorithm)
{
    if (!tp_algorithm_ok (kind, algorithm))
        return false;
    return algorithm != TP_STAR && algorithm != TP_DIRECT;
}

int
tp_plan_choose (const tp_plan_t *self, int kind, int forced, uint32_t flags,
                uint32_t n, uint64_t bytes)
{
    bool reduces =
        kind >= 0 && kind < TP_KINDS && tp_kind_info (kind)->reduces;
    if (flags & TP_SIG_REPRODUCIBLE && reduces)
        return TP_DIRECT;
    if (tp_algorithm_ok (kind, forced))
        return forced;
    if (kind >= 0 && kind < TP_KINDS &&
        tp_algorithm_ok (kind, self->algorithm[kind]))
        return self->algorithm[kind];
    int best = -1;
    double least = HUGE_VAL;
    for (int a = 0; a < TP_ALGORITHMS; a++) {
        if (!s_candidate (kind, a))
            continue;
        double cost = tp_plan_cost (self, kind, a, n, bytes);
        if (best < 0 || cost < least) {
            best = a;
            least = cost;
        }
    }
    return best;
}

void
tp_plan_wire_bytes (const tp_schedule_t *schedules, uint32_t n, size_t element,
                    uint64_t *max_p, uint64_t *sum_p)
{
    uint64_t max = 0, sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t sent = 0;
        for (size_t k = 0; k < schedules[i].length; k++)
            if (schedules[i].steps[k].op == TP_STEP_SEND)
                sent += schedules[i].steps[k].count * element;
        max = sent > max ? sent : max;
        sum += sent;
    }
    if (max_p)
        *max_p = max;
    if (sum_p)
        *sum_p = sum;
}
