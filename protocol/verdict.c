//  protocol/verdict.c - commit or abort of an op, the same on all ranks
//
//                 DONE       ALL_HELD    ASK              COMMIT     ABORT
//  RUNNING        HOLDING h  -           PROMISED o       -          -
//  HOLDING        -          COMMITTED r PROMISED_HELD e  -          -
//  COMMITTED      -          same        same c           same       -
//  PROMISED       same       -           same o           -          ABORTED x
//  PROMISED_HELD  -          same        same e           COMMITTED r
//                                                                    ABORTED x
//  ABORTED        same       -           same a           -          same
//
//  h SAY_HELD, r RETURN_OK, x RETURN_ABORT, answers: o OPEN, e HELD, c COMMIT,
//  a ABORT. A dash cannot happen. s_rules is this picture; change both or
//  neither.
//
//  Why all survivors come to the same end. An agent returns OK only (1) when
//  everybody has said HELD, or (2) on a verdict. (1): everybody held before
//  the first answer, so whoever is asked, now or later, and whoever is lost
//  by then, the answers are HELD or COMMIT and the verdict is commit. (2): a
//  verdict counts only for who answered that very round, so of two verdicts
//  with different ends, of two rounds, the older one reaches nobody who has
//  answered the newer; and whom it did reach before, says so in its answer,
//  which binds. tests/unit/test_verdict.c tries every order of events.

#include "protocol/verdict.h"

#define ILLEGAL TP_V_STATES  //  no such transition

typedef struct s_rule {
    tp_verdict_state_t next;
    uint32_t actions;
} s_rule_t;

#define NEVER                                                                 \
    {                                                                         \
        ILLEGAL, 0                                                            \
    }
#define GO(state, action)                                                     \
    {                                                                         \
        TP_V_##state, TP_V_##action                                           \
    }
#define STAY(state)                                                           \
    {                                                                         \
        TP_V_##state, 0                                                       \
    }

static const struct {
    const char *name;
    s_rule_t rule[TP_V_EVENTS];
} s_rules[TP_V_STATES] = {
    { "RUNNING",
      { GO (HOLDING, SAY_HELD), NEVER, GO (PROMISED, ANSWER_OPEN), NEVER,
        NEVER } },
    { "HOLDING",
      { NEVER, GO (COMMITTED, RETURN_OK), GO (PROMISED_HELD, ANSWER_HELD),
        NEVER, NEVER } },
    { "COMMITTED",
      { NEVER, STAY (COMMITTED), GO (COMMITTED, ANSWER_COMMIT),
        STAY (COMMITTED), NEVER } },
    { "PROMISED",
      { STAY (PROMISED), NEVER, GO (PROMISED, ANSWER_OPEN), NEVER,
        GO (ABORTED, RETURN_ABORT) } },
    { "PROMISED_HELD",
      { NEVER, STAY (PROMISED_HELD), GO (PROMISED_HELD, ANSWER_HELD),
        GO (COMMITTED, RETURN_OK), GO (ABORTED, RETURN_ABORT) } },
    { "ABORTED",
      { STAY (ABORTED), NEVER, GO (ABORTED, ANSWER_ABORT), NEVER,
        STAY (ABORTED) } },
};

tutti_err_t
tp_verdict_event (tp_verdict_state_t *state, tp_verdict_event_t event,
                  uint32_t *actions_p)
{
    if (*state >= TP_V_STATES || event >= TP_V_EVENTS)
        return TUTTI_ESTATE;
    const s_rule_t *rule = &s_rules[*state].rule[event];
    if (rule->next == ILLEGAL)
        return TUTTI_ESTATE;
    *state = rule->next;
    *actions_p = rule->actions;
    return TUTTI_OK;
}

const char *
tp_verdict_name (int state)
{
    return state >= 0 && state < TP_V_STATES ? s_rules[state].name : "?";
}

tp_decision_t
tp_verdict_decide (const tp_answer_t *answers, size_t n)
{
    size_t count[TP_ANSWER_LOST + 1] = { 0 };
    for (size_t i = 0; i < n; i++)
        count[answers[i]]++;
    if (count[TP_ANSWER_COMMIT] > 0 && count[TP_ANSWER_ABORT] > 0)
        return TP_DECIDE_BROKEN;
    if (count[TP_ANSWER_NONE] > 0)
        return TP_DECIDE_WAIT;
    if (count[TP_ANSWER_COMMIT] > 0)
        return TP_DECIDE_COMMIT;
    //  Where nobody is left nobody holds it.
    if (count[TP_ANSWER_HELD] > 0 && count[TP_ANSWER_OPEN] == 0 &&
        count[TP_ANSWER_ABORT] == 0)
        return TP_DECIDE_COMMIT;
    return TP_DECIDE_ABORT;
}
