//  protocol/verdict.h - commit or abort of an op, the same on all ranks
//
//  In an elastic communicator an op is done on all ranks or on none. Normal
//  course: every agent that holds the result says HELD to all the others
//  over the data connections, and commits when it has heard HELD from all.
//  When a member is lost, the coordinator ASKs every survivor once. The
//  ANSWER lists the ops whose result the agent holds and the verdicts it has
//  got; it is a promise: from then on, until the VERDICT, the agent takes no
//  frame of that epoch, enters and leaves no barrier of it and returns
//  nothing. An op is committed if any answer carries its commit, or every
//  survivor holds it; else it is aborted. Because answers are promises, a
//  second loss, or another coordinator that asks again, comes to the same
//  end without stored state.
//
//  Two duties of the owners, without which that is not true:
//    rounds     every loss, and every coordinator that takes over, begins a
//               new round, numbered higher than all before (incarnation,
//               counter). ASK, ANSWER and verdict carry it. An agent answers
//               no ASK of a round below the last it answered, and takes a
//               verdict only of exactly that round; others are dropped. Else
//               this happens: A holds it, B does not, abort is decided but
//               still travels; B is lost, A is asked again, and commit is
//               decided
//    memory     an op that has committed is answered with COMMIT as long as
//               any member might not have committed it; the owner keeps the
//               highest seq up to which all are committed instead of the ops
//
//  Both machines are pure: events in, actions out, no clock, no socket. The
//  agent machine is for ONE op; an agent runs one per op in flight, and its
//  ANSWER is the set of their views.

#ifndef TP_VERDICT_H
#define TP_VERDICT_H

#include "protocol/types.h"

//  ------------------------------------------------------------------ agent

typedef enum tp_verdict_state {
    TP_V_RUNNING,        //  moving bytes
    TP_V_HOLDING,        //  result here, HELD said, not heard from all
    TP_V_COMMITTED,      //  final: returned to the ranks
    TP_V_PROMISED,       //  answered "not held": frozen until the verdict
    TP_V_PROMISED_HELD,  //  answered "held": frozen until the verdict
    TP_V_ABORTED,        //  final
    TP_V_STATES
} tp_verdict_state_t;

typedef enum tp_verdict_event {
    TP_V_DONE,      //  the last frame was reduced: the result is here
    TP_V_ALL_HELD,  //  HELD heard from every member, itself included
    TP_V_ASK,       //  the coordinator asks
    TP_V_COMMIT,    //  the coordinator's verdict, of the round last answered
    TP_V_ABORT,
    TP_V_EVENTS
} tp_verdict_event_t;

//  What the owner must do after an event; bits.
#define TP_V_SAY_HELD 1u      //  HELD to all members
#define TP_V_RETURN_OK 2u     //  release the ranks with success
#define TP_V_RETURN_ABORT 4u  //  release the ranks with the loss; inputs kept
#define TP_V_ANSWER_OPEN 8u   //  answer: not held
#define TP_V_ANSWER_HELD 16u  //  answer: held, no verdict
#define TP_V_ANSWER_COMMIT 32u  //  answer: already committed; binds
#define TP_V_ANSWER_ABORT 64u   //  answer: already aborted; binds

//  Apply one event: *state moves by the table in verdict.c, the actions are
//  returned by pointer. Events that a frozen agent must not act on are legal
//  and change nothing. TUTTI_ESTATE for what cannot happen (a COMMIT after an
//  ABORT, or a COMMIT of an op that is not held): the caller must stop.
tutti_err_t
tp_verdict_event (tp_verdict_state_t *state, tp_verdict_event_t event,
                  uint32_t *actions_p);

const char *
tp_verdict_name (int state);

//  ------------------------------------------------------------ coordinator

typedef enum tp_answer {
    TP_ANSWER_NONE,  //  not heard yet
    TP_ANSWER_OPEN,
    TP_ANSWER_HELD,
    TP_ANSWER_COMMIT,
    TP_ANSWER_ABORT,
    TP_ANSWER_LOST  //  this member is gone
} tp_answer_t;

typedef enum tp_decision {
    TP_DECIDE_WAIT,  //  somebody has not answered
    TP_DECIDE_COMMIT,
    TP_DECIDE_ABORT,
    TP_DECIDE_BROKEN  //  a commit and an abort: cannot happen, must be shown
} tp_decision_t;

//  The decision from the answers of the N members of the epoch, all of one
//  round. Pure: another coordinator with the same answers decides the same.
tp_decision_t
tp_verdict_decide (const tp_answer_t *answers, size_t n);

#endif
