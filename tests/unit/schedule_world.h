//  tests/unit/schedule_world.h - schedules of all nodes in one process
//
//  Two proofs. s_run: puts are delivered EARLY (when they are sent), LATE
//  (when the receiver cannot do without them, or the sender waits) or at
//  RANDOM, with nodes run in a seeded random order; then values can be
//  compared. s_prove: vector clocks show that every access to a place happens
//  before or after every put there, whatever the timing.

#ifndef SCHEDULE_WORLD_H
#define SCHEDULE_WORLD_H

#include "protocol/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAX_NODES 64
#define MESSAGES 64  //  in flight per pair of nodes

typedef enum delivery { EARLY, LATE, RANDOM, DELIVERIES } delivery_t;

//  What an element is and how two are reduced: sums modulo 2^64; float sums,
//  where the order shows in the bits; 3 a + b, where it shows at once.
typedef enum arith { EXACT, FLOAT, SKEW } arith_t;

typedef struct put {
    const tp_step_t *step;
    uint32_t pc;  //  of the SEND
    bool landed;
} put_t;

//  From one node to another, in order.
typedef struct lane {
    put_t put[MESSAGES];
    size_t sent, received;
} lane_t;

typedef struct node {
    tp_schedule_t schedule;
    uint32_t pc;
    uint64_t *work, *temp;
    uint32_t *clock;  //  by step and node: steps of it that were before
} node_t;

//  A put and where it ended, for the proof of order.
typedef struct edge {
    uint32_t from, from_pc, to, to_pc, wait;
    const tp_step_t *step;
} edge_t;

static struct {
    uint32_t n;
    node_t node[MAX_NODES];
    lane_t lane[MAX_NODES][MAX_NODES];
    delivery_t delivery;
    arith_t mode;
    uint64_t random;
    void (*each) (tp_case_t *what);  //  what differs from node to node
    edge_t *edge;                    //  recorded if not NULL
    size_t edges;
    char name[160];
} s_w;

static uint64_t
s_random (void)
{
    s_w.random = s_w.random * 6364136223846793005u + 1442695040888963407u;
    return s_w.random >> 33;
}

static uint64_t
s_value (uint32_t rank, uint64_t i)
{
    uint64_t mixed =
        (i + 1) * 0x9E3779B97F4A7C15u + rank * 0xBF58476D1CE4E5B9u;
    if (s_w.mode != FLOAT)
        return mixed ^ mixed >> 29;
    double fraction = 1.0 / (double) (3 + mixed % 8191);
    memcpy (&mixed, &fraction, sizeof mixed);
    return mixed;
}

static uint64_t
s_op (uint64_t a, uint64_t b)
{
    if (s_w.mode != FLOAT)
        return s_w.mode == EXACT ? a + b : 3 * a + b;
    double x, y;
    memcpy (&x, &a, sizeof x);
    memcpy (&y, &b, sizeof y);
    x += y;
    memcpy (&a, &x, sizeof a);
    return a;
}

//  ---------------------------------------------------------------------- run

static uint64_t *
s_at (uint32_t me, tp_ref_t ref, uint64_t count)
{
    node_t *node = &s_w.node[me];
    bool work = ref.buf == TP_WORK;
    uint64_t room = work ? node->schedule.work : node->schedule.temp;
    if (count > 0 && (ref.off > room || count > room - ref.off))
        fail_msg ("%s: node %u, outside of its buffer", s_w.name, me);
    return (work ? node->work : node->temp) + (count > 0 ? ref.off : 0);
}

static void
s_land (uint32_t from, uint32_t to, put_t *put)
{
    const tp_step_t *step = put->step;
    if (!put->landed)
        memcpy (s_at (to, step->dst, step->count),
                s_at (from, step->src, step->count),
                step->count * sizeof (uint64_t));
    put->landed = true;
}

static void
s_land_all (uint32_t from)
{
    for (uint32_t to = 0; to < s_w.n; to++) {
        lane_t *lane = &s_w.lane[from][to];
        for (size_t i = lane->received; i < lane->sent; i++)
            s_land (from, to, &lane->put[i % MESSAGES]);
    }
}

static void
s_send (uint32_t me, const tp_step_t *step)
{
    lane_t *lane = &s_w.lane[me][step->peer];
    assert_true (lane->sent - lane->received < MESSAGES);
    put_t *put = &lane->put[lane->sent++ % MESSAGES];
    *put = (put_t){ step, s_w.node[me].pc, false };
    if (s_w.delivery == EARLY || (s_w.delivery == RANDOM && s_random () % 2))
        s_land (me, step->peer, put);
}

//  The clock of MY current step: that of the one before, one more of mine,
//  and what the message knew.
static void
s_tick (uint32_t me, const uint32_t *heard)
{
    node_t *node = &s_w.node[me];
    uint32_t *now = node->clock + (size_t) node->pc * s_w.n;
    for (uint32_t i = 0; i < s_w.n; i++) {
        now[i] = node->pc > 0 ? now[(ptrdiff_t) i - (ptrdiff_t) s_w.n] : 0;
        if (heard && heard[i] > now[i])
            now[i] = heard[i];
    }
    now[me] = node->pc + 1;
}

//  False: nothing has been sent yet.
static bool
s_recv (uint32_t me, const tp_step_t *step)
{
    lane_t *lane = &s_w.lane[step->peer][me];
    if (lane->received == lane->sent)
        return false;
    put_t *put = &lane->put[lane->received++ % MESSAGES];
    if (put->step->count != step->count)
        fail_msg ("%s: node %u does not get what it awaits", s_w.name, me);
    s_land (step->peer, me, put);
    if (s_w.edge) {
        const node_t *from = &s_w.node[step->peer];
        s_tick (me, from->clock + (size_t) put->pc * s_w.n);
        s_w.edge[s_w.edges++] = (edge_t){ .from = step->peer,
                                          .from_pc = put->pc,
                                          .to = me,
                                          .to_pc = s_w.node[me].pc,
                                          .step = put->step };
    }
    return true;
}

static void
s_local (uint32_t me, const tp_step_t *step)
{
    uint64_t *dst = s_at (me, step->dst, step->count);
    const uint64_t *a = s_at (me, step->src, step->count);
    if (step->op == TP_STEP_REDUCE) {
        const uint64_t *b = s_at (me, step->src2, step->count);
        for (uint64_t i = 0; i < step->count; i++)
            dst[i] = s_op (a[i], b[i]);
    }
    else
        memcpy (dst, a, step->count * sizeof *dst);
}

static bool
s_step (uint32_t me)
{
    const tp_step_t *step = &s_w.node[me].schedule.steps[s_w.node[me].pc];
    if (s_w.edge && step->op != TP_STEP_RECV)
        s_tick (me, NULL);
    if (step->op == TP_STEP_RECV)
        return s_recv (me, step);
    if (step->op == TP_STEP_SEND)
        s_send (me, step);
    else if (step->op == TP_STEP_WAIT)
        s_land_all (me);
    else
        s_local (me, step);
    return true;
}

//  Run all nodes, in a random order, until all are through.
static void
s_run (void)
{
    for (bool open = true; open;) {
        bool moved = false;
        uint32_t first = (uint32_t) (s_random () % s_w.n);
        open = false;
        for (uint32_t k = 0; k < s_w.n; k++) {
            uint32_t me = (first + k) % s_w.n;
            node_t *node = &s_w.node[me];
            uint64_t most = 1 + s_random () % 8;
            while (most-- > 0 && node->pc < node->schedule.length &&
                   s_step (me)) {
                node->pc++;
                moved = true;
            }
            open |= node->pc < node->schedule.length;
        }
        if (open && !moved)
            fail_msg ("deadlock: %s", s_w.name);
    }
}

//  ------------------------------------------------------------------- worlds

static void
s_open (const tp_case_t *common, delivery_t delivery, arith_t mode)
{
    s_w.n = common->n;
    s_w.delivery = delivery;
    s_w.mode = mode;
    s_w.random = common->n * 77 + common->count;
    snprintf (s_w.name, sizeof s_w.name,
              "%s %s n=%u count=%llu root=%u delivery=%d mode=%d",
              tp_kind_name ((int) common->kind),
              tp_algorithm_name ((int) common->algorithm), common->n,
              (unsigned long long) common->count, common->root, (int) delivery,
              (int) mode);
    for (uint32_t i = 0; i < s_w.n; i++) {
        tp_case_t what = *common;
        node_t *node = &s_w.node[i];
        what.node = i;
        if (s_w.each)
            s_w.each (&what);
        if (tp_schedule_make (&node->schedule, &what) != TUTTI_OK)
            fail_msg ("no schedule: %s", s_w.name);
        node->pc = 0;
        size_t work = (node->schedule.work + 1) * sizeof (uint64_t);
        size_t temp = (node->schedule.temp + 1) * sizeof (uint64_t);
        node->work = memset (malloc (work), 0xDB, work);
        node->temp = memset (malloc (temp), 0xDE, temp);
        for (uint32_t to = 0; to < s_w.n; to++)
            s_w.lane[i][to].sent = s_w.lane[i][to].received = 0;
    }
}

static void
s_close (void)
{
    for (uint32_t i = 0; i < s_w.n; i++) {
        for (uint32_t to = 0; to < s_w.n; to++)
            if (s_w.lane[i][to].sent != s_w.lane[i][to].received)
                fail_msg ("%s: %u to %u, not received", s_w.name, i, to);
        free (s_w.node[i].work);
        free (s_w.node[i].temp);
    }
}

//  Elements [first, first + count) of ME must be those of WANT.
static void
s_expect (uint32_t me, uint64_t first, uint64_t count, const uint64_t *want)
{
    const uint64_t *work = s_w.node[me].work;
    for (uint64_t i = first; i < first + count; i++)
        if (work[i] != want[i])
            fail_msg ("%s: node %u, element %llu: %llx, not %llx", s_w.name,
                      me, (unsigned long long) i, (unsigned long long) work[i],
                      (unsigned long long) want[i]);
}

//  -------------------------------------------------------------------- order

//  Step P of node V is done before step Q of W starts.
static bool
s_before (uint32_t v, uint32_t p, uint32_t w, uint32_t q)
{
    if (v == w)
        return p < q;
    return s_w.node[w].clock[(size_t) q * s_w.n + v] > p;
}

//  The source of a put is free before step Q of W starts.
static bool
s_read_before (const edge_t *e, uint32_t w, uint32_t q)
{
    return s_before (e->to, e->to_pc, w, q) ||
           (e->wait != UINT32_MAX && s_before (e->from, e->wait, w, q));
}

static bool
s_meet (tp_ref_t a, uint64_t a_count, tp_ref_t b, uint64_t b_count)
{
    return a.buf == b.buf && a_count > 0 && b_count > 0 &&
           a.off < b.off + b_count && b.off < a.off + a_count;
}

//  Local steps of both ends against one put.
static bool
s_local_ok (const edge_t *e)
{
    const tp_schedule_t *to = &s_w.node[e->to].schedule;
    const tp_schedule_t *from = &s_w.node[e->from].schedule;
    uint64_t count = e->step->count;
    for (uint32_t q = 0; q < e->to_pc; q++) {
        const tp_step_t *s = &to->steps[q];
        if ((s->op == TP_STEP_REDUCE || s->op == TP_STEP_COPY) &&
            (s_meet (s->dst, s->count, e->step->dst, count) ||
             s_meet (s->src, s->count, e->step->dst, count) ||
             (s->op == TP_STEP_REDUCE &&
              s_meet (s->src2, s->count, e->step->dst, count))) &&
            !s_before (e->to, q, e->from, e->from_pc))
            return false;
    }
    for (uint32_t q = e->from_pc + 1; q < from->length; q++) {
        const tp_step_t *s = &from->steps[q];
        if ((s->op == TP_STEP_REDUCE || s->op == TP_STEP_COPY) &&
            s_meet (s->dst, s->count, e->step->src, count) &&
            !s_read_before (e, e->from, q))
            return false;
    }
    return true;
}

//  Two puts: places at one node, or the place of A and the source of B.
static bool
s_puts_ok (const edge_t *a, const edge_t *b)
{
    const tp_step_t *x = a->step, *y = b->step;
    if (a != b && a->to == b->to &&
        s_meet (x->dst, x->count, y->dst, y->count) &&
        !s_before (a->to, a->to_pc, b->from, b->from_pc) &&
        !s_before (b->to, b->to_pc, a->from, a->from_pc))
        return false;
    return a->to != b->from || !s_meet (x->dst, x->count, y->src, y->count) ||
           a->to_pc < b->from_pc || s_read_before (b, a->from, a->from_pc);
}

static void
s_find_waits (void)
{
    for (size_t i = 0; i < s_w.edges; i++) {
        edge_t *e = &s_w.edge[i];
        const tp_schedule_t *s = &s_w.node[e->from].schedule;
        e->wait = e->from_pc;
        while (e->wait < s->length && s->steps[e->wait].op != TP_STEP_WAIT)
            e->wait++;
        if (e->wait == s->length)
            e->wait = UINT32_MAX;
    }
}

//  Record one run, then compare every put with all that may meet it.
static void
s_prove (const tp_case_t *c)
{
    size_t steps = 1;
    s_open (c, EARLY, EXACT);
    for (uint32_t i = 0; i < c->n; i++) {
        size_t length = s_w.node[i].schedule.length;
        s_w.node[i].clock = malloc ((length + 1) * c->n * sizeof (uint32_t));
        steps += length;
    }
    s_w.edge = malloc (steps * sizeof *s_w.edge);
    s_w.edges = 0;
    s_run ();
    s_find_waits ();
    for (size_t i = 0; i < s_w.edges; i++) {
        const edge_t *e = &s_w.edge[i];
        bool ok = s_local_ok (e);
        for (size_t k = 0; k < s_w.edges; k++)
            if (s_w.edge[k].to == e->to || s_w.edge[k].from == e->to)
                ok = ok && s_puts_ok (e, &s_w.edge[k]);
        if (!ok)
            fail_msg ("%s: the put of node %u step %u has no place of its own",
                      s_w.name, e->from, e->from_pc);
    }
    for (uint32_t i = 0; i < c->n; i++)
        free (s_w.node[i].clock);
    free (s_w.edge);
    s_w.edge = NULL;
    s_close ();
}

#endif
