//  protocol/plan.c - costs by the textbook model, and the choice

#include "protocol/plan.h"

#include <math.h>

#define MIB (1024.0 * 1024.0)

typedef struct model {
    double a;  //  us per message
    double b;  //  us to move the whole vector once
    double c;  //  us to reduce the whole vector once
    double n, rounds;
} model_t;

static uint32_t
s_log2_up (uint32_t n)
{
    uint32_t rounds = 0;
    for (uint64_t reach = 1; reach < n; reach *= 2)
        rounds++;
    return rounds;
}

static double
s_star (const model_t *m, int kind)
{
    double others = m->n - 1;
    switch (kind) {
    case TP_ALLREDUCE:
        return 2 * m->a + others * (2 * m->b + m->c);
    case TP_REDUCE_SCATTER:
        return 2 * m->a + others * (m->b + m->c) + m->b;
    case TP_ALLGATHER:
        return 2 * m->a + others * m->b + m->b;
    default:
        return m->a + others * m->b;
    }
}

//  Ring, halving and direct move (n - 1) / n of the vector per phase; they
//  differ in the number of messages.
static double
s_phases (const model_t *m, int kind, double messages)
{
    double part = (m->n - 1) / m->n;
    double phases = kind == TP_ALLREDUCE ? 2 : 1;
    double reduced = kind == TP_ALLGATHER ? 0 : part * m->c;
    return phases * (messages * m->a + part * m->b) + reduced;
}

double
tp_plan_cost (const tp_plan_t *self, int kind, int algorithm, uint32_t n,
              uint64_t bytes)
{
    if (!tp_algorithm_ok (kind, algorithm))
        return HUGE_VAL;
    if (n <= 1)
        return 0;
    double mib = (double) bytes / MIB;
    bool power = (n & (n - 1)) == 0;
    model_t m = { self->alpha_us, mib * self->beta_us_per_mib,
                  mib * self->gamma_us_per_mib, n, s_log2_up (n) };
    switch (algorithm) {
    case TP_STAR:
        return s_star (&m, kind);
    case TP_RING:
    case TP_DIRECT:
        return s_phases (&m, kind, m.n - 1);
    case TP_DOUBLING:
        if (kind == TP_ALLGATHER)
            return s_phases (&m, kind, m.rounds);
        return (m.rounds + (power ? 0 : 2)) * (m.a + m.b + m.c);
    case TP_HALVING:
        if (kind == TP_REDUCE_SCATTER && !power)
            return s_phases (&m, kind, m.n - 1);
        return s_phases (&m, kind, m.rounds)
               + (power ? 0 : 2 * (m.a + m.b) + m.c);
    case TP_TREE:
        return m.rounds * (m.a + m.b);
    default:
        return m.rounds * m.a;
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
    bool reduces = kind == TP_ALLREDUCE || kind == TP_REDUCE_SCATTER;
    if (flags & TP_SIG_REPRODUCIBLE && reduces)
        return TP_DIRECT;
    if (tp_algorithm_ok (kind, forced))
        return forced;
    if (kind >= 0 && kind < TP_KINDS
        && tp_algorithm_ok (kind, self->algorithm[kind]))
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
tp_plan_wire_bytes (const tp_schedule_t *schedules, uint32_t n,
                    size_t element, uint64_t *max_p, uint64_t *sum_p)
{
    uint64_t max = 0, sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t sent = 0;
        for (size_t k = 0; k < schedules[i].length; k++)
            if (schedules[i].steps[k].op == TP_SEND)
                sent += schedules[i].steps[k].count * element;
        max = sent > max ? sent : max;
        sum += sent;
    }
    if (max_p)
        *max_p = max;
    if (sum_p)
        *sum_p = sum;
}
