//  tests/unit/test_verdict.c - every order of events, for three agents
//
//  A model of one op: three agents with the real machine, the messages
//  between them, and coordinators that decide with the real function. All
//  reachable states are visited. What may happen, in any order:
//    - the last frame arrives (DONE); a HELD reaches a peer, or never does
//    - a member is lost: to the others it is gone; itself it may go on for
//      ever (a partition), stop at once (a crash), or anything between
//    - a second member is lost, noticed or not yet
//    - a coordinator begins a round; its ASKs, ANSWERs and verdicts arrive in
//      any order, late, twice, or never; it dies after telling one agent
//    - another takes over, knows nothing and asks again, while the old one may
//      still decide and send ("test_verdict 2": twice, ten times the states)
//  Everything is kept monotone (who said, who heard, what was asked), so that
//  "late", "twice" and "never" need no queues: a message that was sent once
//  may be delivered in every later state.

#include "protocol/verdict.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define AGENTS 3
#define ALL 7u    //  mask of the agents
#define ROUNDS 4  //  two losses, two new coordinators
#define MAX_LOST 2

static int s_changes = 1;  //  new coordinators, at most 2

//  Bytes only: hashed and compared as they lie.
typedef struct s_model {
    uint8_t state[AGENTS];  //  tp_verdict_state_t
    uint8_t heard[AGENTS];  //  whose HELD it has heard, a mask
    uint8_t asked[AGENTS];  //  last round it has answered, from 1; 0: none
    uint8_t said;           //  who has said HELD
    uint8_t lost;
    uint8_t known;    //  losses that the coordinator knows
    uint8_t changes;  //  coordinators that are gone
    uint8_t rounds;   //  begun so far
    uint8_t member[ROUNDS];
    uint8_t answer[ROUNDS][AGENTS];  //  tp_answer_t, once it has arrived
    uint8_t decided[ROUNDS];         //  tp_decision_t
} s_model_t;

//  All states ever seen, open addressing; also the queue of the search.
typedef struct s_search {
    s_model_t *seen;
    size_t count, room;
    uint32_t *slot;  //  index + 1, 0: free
    size_t slots;
    bool fenced;  //  agents look at the rounds; else the control
    size_t broken;
    const char *why;
    s_model_t bad;  //  the state before it broke
} s_search_t;

static uint64_t
s_hash (const s_model_t *model)
{
    const uint8_t *bytes = (const uint8_t *) model;
    uint64_t hash = UINT64_C (0xcbf29ce484222325);
    for (size_t i = 0; i < sizeof *model; i++)
        hash = (hash ^ bytes[i]) * UINT64_C (0x100000001b3);
    return hash ^ hash >> 29;
}

static size_t
s_find (const s_search_t *search, const s_model_t *model)
{
    size_t at = s_hash (model) & (search->slots - 1);
    while (search->slot[at] && memcmp (&search->seen[search->slot[at] - 1],
                                       model, sizeof *model) != 0)
        at = (at + 1) & (search->slots - 1);
    return at;
}

static void
s_grow (s_search_t *search)
{
    search->room *= 2;
    search->slots *= 2;
    search->seen = realloc (search->seen, search->room * sizeof *search->seen);
    free (search->slot);
    search->slot = calloc (search->slots, sizeof *search->slot);
    assert_non_null (search->seen);
    assert_non_null (search->slot);
    for (size_t i = 0; i < search->count; i++)
        search->slot[s_find (search, &search->seen[i])] = (uint32_t) i + 1;
}

static void
s_visit (s_search_t *search, const s_model_t *model)
{
    if (search->count == search->room)
        s_grow (search);
    size_t at = s_find (search, model);
    if (search->slot[at])
        return;
    search->seen[search->count++] = *model;
    search->slot[at] = (uint32_t) search->count;
}

static void
s_break (s_search_t *search, const char *why)
{
    search->broken++;
    search->why = why;
}

//  For whoever has to find out why.
static void
s_print (const s_model_t *model)
{
    for (int i = 0; i < AGENTS; i++)
        print_error ("agent %d %s heard %x asked %u\n", i,
                     tp_verdict_name (model->state[i]), model->heard[i],
                     model->asked[i]);
    print_error ("said %x lost %x known %x changes %u\n", model->said,
                 model->lost, model->known, model->changes);
    for (int r = 0; r < model->rounds; r++)
        print_error ("round %d members %x answers %u %u %u decided %u\n",
                     r + 1, model->member[r], model->answer[r][0],
                     model->answer[r][1], model->answer[r][2],
                     model->decided[r]);
}

//  ------------------------------------------------------------ transitions

//  Give agent I an event; the actions that the model needs.
static uint32_t
s_event (s_search_t *search, s_model_t *model, int i, tp_verdict_event_t event)
{
    tp_verdict_state_t state = (tp_verdict_state_t) model->state[i];
    uint32_t actions = 0;
    if (tp_verdict_event (&state, event, &actions))
        s_break (search, "an agent was told what cannot happen");
    model->state[i] = (uint8_t) state;
    return actions;
}

//  Agent I has heard HELD from J, which may be itself.
static void
s_hear (s_search_t *search, s_model_t *model, int i, int j)
{
    model->heard[i] |= (uint8_t) (1u << j);
    if (model->heard[i] == ALL)
        s_event (search, model, i, TP_V_ALL_HELD);
}

static bool
s_frozen (const s_model_t *model, int i)
{
    return model->state[i] == TP_V_PROMISED ||
           model->state[i] == TP_V_PROMISED_HELD;
}

static void
s_done (s_search_t *search, s_model_t model, int i)
{
    if (model.state[i] != TP_V_RUNNING && model.state[i] != TP_V_PROMISED &&
        model.state[i] != TP_V_ABORTED)
        return;
    if (s_event (search, &model, i, TP_V_DONE) & TP_V_SAY_HELD) {
        model.said |= (uint8_t) (1u << i);
        s_hear (search, &model, i, i);
    }
    s_visit (search, &model);
}

//  The HELD of J reaches I. A frozen agent takes no frame; the machine is
//  told nevertheless, since a frame may be on its way through the owner.
static void
s_held (s_search_t *search, s_model_t model, int i, int j)
{
    if (!(model.said & 1u << j) || model.heard[i] & 1u << j)
        return;
    s_hear (search, &model, i, j);
    s_visit (search, &model);
}

//  The ASK of round R (from 0) reaches agent I, and its answer comes back or
//  is lost.
static void
s_ask (s_search_t *search, s_model_t model, int i, int r)
{
    if (!(model.member[r] & 1u << i) ||
        (search->fenced && r + 1 < model.asked[i]))
        return;
    uint32_t actions = s_event (search, &model, i, TP_V_ASK);
    if (model.asked[i] < r + 1)
        model.asked[i] = (uint8_t) (r + 1);
    s_visit (search, &model);
    tp_answer_t answer = actions & TP_V_ANSWER_HELD     ? TP_ANSWER_HELD
                         : actions & TP_V_ANSWER_COMMIT ? TP_ANSWER_COMMIT
                         : actions & TP_V_ANSWER_ABORT  ? TP_ANSWER_ABORT
                                                        : TP_ANSWER_OPEN;
    if (model.decided[r] || model.answer[r][i])
        return;
    model.answer[r][i] = (uint8_t) answer;
    s_visit (search, &model);
}

static void
s_decide (s_search_t *search, s_model_t model, int r)
{
    if (model.decided[r])
        return;
    tp_answer_t answers[AGENTS];
    for (int i = 0; i < AGENTS; i++)
        answers[i] = model.member[r] & 1u << i
                         ? (tp_answer_t) model.answer[r][i]
                         : TP_ANSWER_LOST;
    tp_decision_t decision = tp_verdict_decide (answers, AGENTS);
    if (decision == TP_DECIDE_WAIT)
        return;
    if (decision == TP_DECIDE_BROKEN)
        s_break (search, "a commit and an abort among the answers");
    model.decided[r] = (uint8_t) decision;
    memset (model.answer[r], 0, sizeof model.answer[r]);
    s_visit (search, &model);
}

static void
s_verdict (s_search_t *search, s_model_t model, int i, int r)
{
    if (!model.decided[r] || !(model.member[r] & 1u << i) ||
        model.asked[i] == 0 || (search->fenced && model.asked[i] != r + 1))
        return;
    s_event (search, &model, i,
             model.decided[r] == TP_DECIDE_COMMIT ? TP_V_COMMIT : TP_V_ABORT);
    s_visit (search, &model);
}

static int
s_count (unsigned mask)
{
    return __builtin_popcount (mask);
}

static void
s_lose (s_search_t *search, s_model_t model, int i)
{
    if (model.lost & 1u << i || s_count (model.lost) == MAX_LOST)
        return;
    model.lost |= (uint8_t) (1u << i);
    s_visit (search, &model);
}

//  The coordinator notices what is lost, and begins a round.
static void
s_notice (s_search_t *search, s_model_t model)
{
    if (model.known == model.lost)
        return;
    assert_in_range (model.rounds, 0, ROUNDS - 1);
    model.known = model.lost;
    model.member[model.rounds++] = (uint8_t) (ALL & ~model.lost);
    s_visit (search, &model);
}

static void
s_change (s_search_t *search, s_model_t model)
{
    if (model.changes == s_changes)
        return;
    model.changes++;
    model.known = 0;
    s_visit (search, &model);
}

//  -------------------------------------------------------------- invariants

static bool
s_final (const s_model_t *model, int i)
{
    return model->state[i] == TP_V_COMMITTED ||
           model->state[i] == TP_V_ABORTED;
}

//  OK, once returned by anybody, binds all survivors.
static void
s_check_agree (s_search_t *search, const s_model_t *model)
{
    bool ok = false, aborted = false;
    for (int i = 0; i < AGENTS; i++) {
        ok = ok || model->state[i] == TP_V_COMMITTED;
        aborted = aborted || (model->state[i] == TP_V_ABORTED &&
                              !(model->lost & 1u << i));
    }
    if (ok && aborted)
        s_break (search, "one returned OK and a survivor aborted");
}

//  Whether something must still happen if nothing more goes wrong: frames
//  and HELDs arrive while nobody is lost, losses are noticed, the newest
//  round runs to its end.
static bool
s_moves (const s_model_t *model)
{
    if (model->known != model->lost)
        return true;
    int r = model->rounds - 1;
    for (int i = 0; i < AGENTS; i++) {
        if (model->lost & 1u << i)
            continue;
        if (model->lost == 0 && !s_frozen (model, i) &&
            (model->state[i] == TP_V_RUNNING ||
             (model->said & ~model->heard[i]) != 0))
            return true;
        if (model->lost != 0 && model->asked[i] != r + 1)
            return true;
        if (model->lost != 0 && !model->decided[r] && !model->answer[r][i])
            return true;  //  it is asked again until the answer is there
        if (model->lost != 0 && model->decided[r] && s_frozen (model, i))
            return true;
    }
    return model->lost != 0 && !model->decided[r];
}

static void
s_check_stuck (s_search_t *search, const s_model_t *model)
{
    if (s_moves (model))
        return;
    for (int i = 0; i < AGENTS; i++) {
        if (!(model->lost & 1u << i) && !s_final (model, i))
            s_break (search, "a survivor is never told");
    }
}

static void
s_expand (s_search_t *search, s_model_t model)
{
    s_check_agree (search, &model);
    s_check_stuck (search, &model);
    s_notice (search, model);
    s_change (search, model);
    for (int i = 0; i < AGENTS; i++) {
        s_lose (search, model, i);
        s_done (search, model, i);
        for (int j = 0; j < AGENTS; j++)
            s_held (search, model, i, j);
        for (int r = 0; r < model.rounds; r++) {
            s_ask (search, model, i, r);
            s_verdict (search, model, i, r);
        }
    }
    for (int r = 0; r < model.rounds; r++)
        s_decide (search, model, r);
}

static void
s_run (s_search_t *search, bool fenced)
{
    *search = (s_search_t){ .room = 1 << 10, .slots = 1 << 12 };
    search->fenced = fenced;
    search->seen = malloc (search->room * sizeof *search->seen);
    search->slot = calloc (search->slots, sizeof *search->slot);
    assert_non_null (search->seen);
    assert_non_null (search->slot);
    s_model_t start = { 0 };
    s_visit (search, &start);
    for (size_t i = 0; i < search->count && search->broken == 0; i++) {
        search->bad = search->seen[i];
        s_expand (search, search->bad);
    }
    free (search->seen);
    free (search->slot);
}

//  ------------------------------------------------------------------- tests

static void
test_every_order (void **unused)
{
    (void) unused;
    s_search_t search;
    s_run (&search, true);
    print_message ("%zu states explored\n", search.count);
    if (search.broken) {
        print_error ("after %zu states: %s\n", search.count, search.why);
        s_print (&search.bad);
    }
    assert_int_equal (search.broken, 0);
    assert_true (search.count > 1000);
}

//  The control: without rounds the search must find the fault.
static void
test_rounds_matter (void **unused)
{
    (void) unused;
    s_search_t search;
    s_run (&search, false);
    assert_int_not_equal (search.broken, 0);
    print_message ("without rounds, after %zu states: %s\n", search.count,
                   search.why);
}

static void
test_normal_course (void **unused)
{
    (void) unused;
    tp_verdict_state_t state = TP_V_RUNNING;
    uint32_t actions = 99;
    assert_int_equal (tp_verdict_event (&state, TP_V_COMMIT, &actions),
                      TUTTI_ESTATE);
    assert_int_equal (actions, 99);
    assert_int_equal (state, TP_V_RUNNING);
    assert_int_equal (tp_verdict_event (&state, TP_V_DONE, &actions), 0);
    assert_int_equal (actions, TP_V_SAY_HELD);
    assert_int_equal (tp_verdict_event (&state, TP_V_ALL_HELD, &actions), 0);
    assert_int_equal (actions, TP_V_RETURN_OK);
    assert_int_equal (tp_verdict_event (&state, TP_V_ASK, &actions), 0);
    assert_int_equal (actions, TP_V_ANSWER_COMMIT);
    assert_int_equal (tp_verdict_event (&state, TP_V_ABORT, &actions),
                      TUTTI_ESTATE);
    assert_string_equal (tp_verdict_name ((int) state), "COMMITTED");
    assert_string_equal (tp_verdict_name (-1), "?");
    assert_string_equal (tp_verdict_name (TP_V_STATES), "?");
}

static void
test_decide (void **unused)
{
    (void) unused;
    static const struct {
        tp_answer_t answers[3];
        tp_decision_t decision;
    } cases[] = {
        { { TP_ANSWER_HELD, TP_ANSWER_HELD, TP_ANSWER_LOST },
          TP_DECIDE_COMMIT },
        { { TP_ANSWER_HELD, TP_ANSWER_OPEN, TP_ANSWER_LOST },
          TP_DECIDE_ABORT },
        { { TP_ANSWER_HELD, TP_ANSWER_NONE, TP_ANSWER_LOST }, TP_DECIDE_WAIT },
        { { TP_ANSWER_HELD, TP_ANSWER_COMMIT, TP_ANSWER_LOST },
          TP_DECIDE_COMMIT },
        { { TP_ANSWER_HELD, TP_ANSWER_ABORT, TP_ANSWER_LOST },
          TP_DECIDE_ABORT },
        { { TP_ANSWER_COMMIT, TP_ANSWER_ABORT, TP_ANSWER_NONE },
          TP_DECIDE_BROKEN },
        { { TP_ANSWER_LOST, TP_ANSWER_LOST, TP_ANSWER_LOST },
          TP_DECIDE_ABORT },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal (tp_verdict_decide (cases[i].answers, 3),
                          cases[i].decision);
}

int
main (int argc, char **argv)
{
    if (argc > 1 && strcmp (argv[1], "2") == 0)
        s_changes = 2;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_normal_course),
        cmocka_unit_test (test_decide),
        cmocka_unit_test (test_every_order),
        cmocka_unit_test (test_rounds_matter),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
