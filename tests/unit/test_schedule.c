//  tests/unit/test_schedule.c - schedules of all nodes, interpreted
//
//  Every algorithm, n from 1 to 64, awkward counts. Puts are delivered EARLY
//  (when they are sent), LATE (when the receiver cannot do without them, or
//  the sender waits) or at RANDOM, with nodes run in a seeded random order: a
//  place that is used twice, a missing WAIT or a wrong peer gives a wrong
//  number or a deadlock.

#include "protocol/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAX_NODES 64
#define MESSAGES 1024  //  in flight per pair of nodes

typedef enum delivery { EARLY, LATE, RANDOM, DELIVERIES } delivery_t;

typedef struct put {
    uint64_t count;
    tp_ref_t dst, src;
    bool landed;
} put_t;

//  From one node to another, in order.
typedef struct lane {
    put_t *put;
    size_t sent, received;
} lane_t;

typedef struct node {
    tp_schedule_t schedule;
    size_t pc;
    double *work, *temp;
} node_t;

typedef struct world {
    uint32_t n;
    node_t node[MAX_NODES];
    lane_t lane[MAX_NODES][MAX_NODES];
    delivery_t delivery;
    uint64_t random;
    uint64_t sent[MAX_NODES];
} world_t;

static uint64_t
s_random (world_t *self)
{
    self->random = self->random * 6364136223846793005u + 1442695040888963407u;
    return self->random >> 33;
}

static double *
s_at (node_t *node, tp_ref_t ref, uint64_t count)
{
    uint64_t room
        = ref.buf == TP_WORK ? node->schedule.work : node->schedule.temp;
    assert_true (ref.off <= room && count <= room - ref.off);
    return (ref.buf == TP_WORK ? node->work : node->temp) + ref.off;
}

static void
s_land (world_t *self, uint32_t from, uint32_t to, put_t *put)
{
    if (put->landed)
        return;
    put->landed = true;
    if (put->count > 0)
        memcpy (s_at (&self->node[to], put->dst, put->count),
                s_at (&self->node[from], put->src, put->count),
                put->count * sizeof (double));
}

static void
s_land_all (world_t *self, uint32_t from)
{
    for (uint32_t to = 0; to < self->n; to++) {
        lane_t *lane = &self->lane[from][to];
        for (size_t i = lane->received; i < lane->sent; i++)
            s_land (self, from, to, &lane->put[i % MESSAGES]);
    }
}

static void
s_send (world_t *self, uint32_t me, const tp_step_t *step)
{
    lane_t *lane = &self->lane[me][step->peer];
    assert_true (lane->sent - lane->received < MESSAGES);
    put_t *put = &lane->put[lane->sent++ % MESSAGES];
    *put = (put_t){ step->count, step->dst, step->src, false };
    self->sent[me] += step->count;
    if (self->delivery == EARLY
        || (self->delivery == RANDOM && s_random (self) % 2))
        s_land (self, me, step->peer, put);
}

//  False: nothing has been sent yet.
static bool
s_recv (world_t *self, uint32_t me, const tp_step_t *step)
{
    lane_t *lane = &self->lane[step->peer][me];
    if (lane->received == lane->sent)
        return false;
    put_t *put = &lane->put[lane->received++ % MESSAGES];
    s_land (self, step->peer, me, put);
    assert_int_equal (put->count, step->count);
    return true;
}

static bool
s_step (world_t *self, uint32_t me)
{
    node_t *node = &self->node[me];
    const tp_step_t *step = &node->schedule.steps[node->pc];
    double *dst, *a, *b;
    switch (step->op) {
    case TP_SEND:
        s_send (self, me, step);
        return true;
    case TP_RECV:
        return s_recv (self, me, step);
    case TP_REDUCE:
        dst = s_at (node, step->dst, step->count);
        a = s_at (node, step->src, step->count);
        b = s_at (node, step->src2, step->count);
        for (uint64_t i = 0; i < step->count; i++)
            dst[i] = a[i] + b[i];
        return true;
    case TP_COPY:
        memmove (s_at (node, step->dst, step->count),
                 s_at (node, step->src, step->count),
                 step->count * sizeof (double));
        return true;
    default:
        s_land_all (self, me);
        return true;
    }
}

//  Run all nodes, in a random order, until all are through.
static void
s_run (world_t *self, const char *what)
{
    while (true) {
        bool moved = false, open = false;
        uint32_t first = (uint32_t) (s_random (self) % self->n);
        for (uint32_t k = 0; k < self->n; k++) {
            uint32_t me = (first + k) % self->n;
            node_t *node = &self->node[me];
            uint64_t most = 1 + s_random (self) % 8;
            while (most-- > 0 && node->pc < node->schedule.length
                   && s_step (self, me)) {
                node->pc++;
                moved = true;
            }
            open |= node->pc < node->schedule.length;
        }
        if (!open)
            return;
        if (!moved)
            fail_msg ("deadlock: %s", what);
    }
}

//  ------------------------------------------------------------------- worlds

static world_t s_world;

//  Fractions that round differently in every order of addition.
static double
s_value (uint32_t rank, uint64_t i)
{
    return 1.0 / (double) (3 + rank * 7919 + i % 8191);
}

static void
s_open (const tp_case_t *common, delivery_t delivery, uint64_t seed)
{
    world_t *w = &s_world;
    w->n = common->n;
    w->delivery = delivery;
    w->random = seed;
    for (uint32_t i = 0; i < w->n; i++) {
        tp_case_t what = *common;
        node_t *node = &w->node[i];
        what.node = i;
        assert_int_equal (tp_schedule_make (&node->schedule, &what),
                          TUTTI_OK);
        node->pc = 0;
        w->sent[i] = 0;
        node->work = malloc ((node->schedule.work + 1) * sizeof (double));
        node->temp = malloc ((node->schedule.temp + 1) * sizeof (double));
        for (uint64_t k = 0; k < node->schedule.work; k++)
            node->work[k] = -1e6;
        for (uint64_t k = 0; k < node->schedule.temp; k++)
            node->temp[k] = -1e9;
        for (uint32_t to = 0; to < w->n; to++)
            w->lane[i][to].sent = w->lane[i][to].received = 0;
    }
}

static void
s_close (void)
{
    for (uint32_t i = 0; i < s_world.n; i++) {
        for (uint32_t to = 0; to < s_world.n; to++)
            assert_int_equal (s_world.lane[i][to].sent,
                              s_world.lane[i][to].received);
        free (s_world.node[i].work);
        free (s_world.node[i].temp);
    }
}

static const char *
s_name (const tp_case_t *c, delivery_t delivery)
{
    static char text[128];
    snprintf (text, sizeof text, "%s %s n=%u count=%llu root=%u delivery=%d",
              tp_kind_name ((int) c->kind),
              tp_algorithm_name ((int) c->algorithm), c->n,
              (unsigned long long) c->count, c->root, (int) delivery);
    return text;
}

//  A sum that is exact whatever the order, close where it is not.
static void
s_expect (double got, double want, const char *what, uint64_t at)
{
    double error = got > want ? got - want : want - got;
    if (error > 1e-12 * (want > 1 ? want : 1))
        fail_msg ("%s: element %llu is %.17g, not %.17g", what,
                  (unsigned long long) at, got, want);
}

static double
s_sum (uint32_t n, uint64_t i)
{
    double sum = 0;
    for (uint32_t r = 0; r < n; r++)
        sum += s_value (r, i);
    return sum;
}

static void
s_allreduce (const tp_case_t *c, delivery_t delivery)
{
    s_open (c, delivery, c->n * 77 + c->count);
    for (uint32_t r = 0; r < c->n; r++)
        for (uint64_t i = 0; i < c->count; i++)
            s_world.node[r].work[i] = s_value (r, i);
    s_run (&s_world, s_name (c, delivery));
    for (uint32_t r = 0; r < c->n; r++) {
        const double *work = s_world.node[r].work;
        assert_memory_equal (work, s_world.node[0].work,
                             c->count * sizeof *work);
        for (uint64_t i = 0; r == 0 && i < c->count; i++)
            s_expect (work[i], s_sum (c->n, i), s_name (c, delivery), i);
    }
    s_close ();
}

static void
s_reduce_scatter (const tp_case_t *c, delivery_t delivery)
{
    uint64_t off = 0, all = 0;
    s_open (c, delivery, c->n * 78 + 1);
    for (uint32_t r = 0; r < c->n; r++)
        all += c->parts[r];
    for (uint32_t r = 0; r < c->n; r++)
        for (uint64_t i = 0; i < all; i++)
            s_world.node[r].work[i] = s_value (r, i);
    s_run (&s_world, s_name (c, delivery));
    for (uint32_t r = 0; r < c->n; off += c->parts[r++])
        for (uint64_t i = off; i < off + c->parts[r]; i++)
            s_expect (s_world.node[r].work[i], s_sum (c->n, i),
                      s_name (c, delivery), i);
    s_close ();
}

static void
s_allgather (const tp_case_t *c, delivery_t delivery)
{
    uint64_t off = 0, all = 0;
    s_open (c, delivery, c->n * 79 + 1);
    for (uint32_t r = 0; r < c->n; off += c->parts[r++])
        for (uint64_t i = off; i < off + c->parts[r]; i++)
            s_world.node[r].work[i] = s_value (r, i);
    all = off;
    s_run (&s_world, s_name (c, delivery));
    for (uint32_t r = 0; r < c->n; r++) {
        uint32_t owner = 0;
        uint64_t end = c->parts[0];
        for (uint64_t i = 0; i < all; i++) {
            while (i >= end)
                end += c->parts[++owner];
            s_expect (s_world.node[r].work[i], s_value (owner, i),
                      s_name (c, delivery), i);
        }
    }
    s_close ();
}

static void
s_broadcast (const tp_case_t *c, delivery_t delivery)
{
    s_open (c, delivery, c->n * 80 + 1);
    for (uint64_t i = 0; i < c->count; i++)
        s_world.node[c->root].work[i] = s_value (c->root, i);
    s_run (&s_world, s_name (c, delivery));
    for (uint32_t r = 0; r < c->n; r++)
        for (uint64_t i = 0; i < c->count; i++)
            s_expect (s_world.node[r].work[i], s_value (c->root, i),
                      s_name (c, delivery), i);
    s_close ();
}

//  Counts of every kind: 0, 1, around n, prime, and for some n large.
static size_t
s_counts (uint32_t n, uint64_t *counts)
{
    uint64_t list[] = { 0, 1, n - 1, n, n + 1, 1009, 65537 };
    size_t m = n <= 5 || n == 16 || n == 33 ? 7 : 6;
    memcpy (counts, list, sizeof list);
    return m;
}

static void
s_vectors (int kind, void (*run) (const tp_case_t *, delivery_t))
{
    for (uint32_t n = 1; n <= MAX_NODES; n++) {
        uint64_t counts[8];
        size_t m = s_counts (n, counts);
        for (int a = 0; a < TP_ALGORITHMS; a++)
            for (size_t i = 0; tp_algorithm_ok (kind, a) && i < m; i++)
                for (delivery_t d = EARLY; d < DELIVERIES; d++) {
                    tp_case_t c = { .kind = (uint32_t) kind,
                                    .algorithm = (uint32_t) a,
                                    .n = n,
                                    .count = counts[i],
                                    .root = (uint32_t) (counts[i] * 7 % n) };
                    run (&c, d);
                }
    }
}

static void
s_parted (int kind, void (*run) (const tp_case_t *, delivery_t))
{
    for (uint32_t n = 1; n <= MAX_NODES; n++)
        for (int shape = 0; shape < 4; shape++)
            for (int a = 0; a < TP_ALGORITHMS; a++)
                for (delivery_t d = EARLY;
                     tp_algorithm_ok (kind, a) && d < DELIVERIES; d++) {
                    uint64_t parts[MAX_NODES];
                    for (uint32_t i = 0; i < n; i++)
                        parts[i] = shape == 0   ? 0
                                   : shape == 1 ? 1
                                   : shape == 2 ? 13
                                                : (i * 7 + n) % 5 * 11;
                    tp_case_t c = { .kind = (uint32_t) kind,
                                    .algorithm = (uint32_t) a,
                                    .n = n,
                                    .parts = parts };
                    run (&c, d);
                }
}

static void
test_allreduce (void **state)
{
    (void) state;
    s_vectors (TP_ALLREDUCE, s_allreduce);
}

static void
test_broadcast (void **state)
{
    (void) state;
    s_vectors (TP_BROADCAST, s_broadcast);
}

static void
test_reduce_scatter (void **state)
{
    (void) state;
    s_parted (TP_REDUCE_SCATTER, s_reduce_scatter);
}

static void
test_allgather (void **state)
{
    (void) state;
    s_parted (TP_ALLGATHER, s_allgather);
}

//  Nobody leaves the barrier before the last one came: node LATE is held
//  back, and nobody may be through.
static void
test_barrier (void **state)
{
    (void) state;
    for (uint32_t n = 2; n <= MAX_NODES; n++) {
        tp_case_t c = { .kind = TP_BARRIER,
                        .algorithm = TP_DISSEMINATION,
                        .n = n };
        s_open (&c, EARLY, n);
        uint32_t late = n / 2;
        for (uint32_t round = 0; round < 2 * n; round++)
            for (uint32_t me = 0; me < n; me++) {
                node_t *node = &s_world.node[me];
                while (me != late && node->pc < node->schedule.length
                       && s_step (&s_world, me))
                    node->pc++;
            }
        for (uint32_t me = 0; me < n; me++)
            assert_true (s_world.node[me].pc
                         < s_world.node[me].schedule.length);
        s_run (&s_world, "barrier");
        s_close ();
    }
}

//  ------------------------------------------------------------- reproducible

static double
s_tree (uint32_t first, uint32_t count, uint64_t i)
{
    if (count == 1)
        return s_value (first, i);
    uint32_t half = tp_tree_split (count);
    return s_tree (first, half, i) + s_tree (first + half, count - half, i);
}

//  NODES nodes, RANKS ranks placed by NODE_OF: the bits are those of the tree
//  over rank numbers, wherever the ranks are.
static void
s_placed (uint32_t nodes, uint32_t ranks, const uint32_t *node_of,
          delivery_t delivery)
{
    tp_blocks_t blocks;
    const uint64_t count = 37;
    assert_int_equal (tp_blocks_make (&blocks, node_of, ranks), TUTTI_OK);
    tp_case_t c = { .kind = TP_ALLREDUCE,
                    .algorithm = TP_DIRECT,
                    .n = nodes,
                    .count = count,
                    .blocks = &blocks };
    s_open (&c, delivery, nodes * 100 + ranks);
    uint32_t mine[MAX_NODES] = { 0 };
    for (uint32_t b = 0; b < blocks.length; b++) {
        const tp_block_t *block = &blocks.list[b];
        double *work = s_world.node[block->node].work
                       + mine[block->node]++ * count;
        for (uint64_t i = 0; i < count; i++)
            work[i] = s_tree (block->first, block->count, i);
    }
    s_run (&s_world, "reproducible");
    for (uint32_t r = 0; r < nodes; r++)
        for (uint64_t i = 0; nodes > 1 && i < count; i++) {
            double want = s_tree (0, ranks, i);
            assert_memory_equal (&s_world.node[r].work[i], &want,
                                 sizeof want);
        }
    s_close ();
    tp_blocks_destroy (&blocks);
}

static void
test_reproducible (void **state)
{
    (void) state;
    for (uint32_t nodes = 2; nodes <= 7; nodes++)
        for (uint32_t each = 1; each <= 5; each++)
            for (int shape = 0; shape < 3; shape++) {
                uint32_t node_of[64], ranks = nodes * each;
                for (uint32_t r = 0; r < ranks; r++)
                    node_of[r] = shape == 0   ? r / each
                                 : shape == 1 ? r % nodes
                                              : (r * 5 + 1) % nodes;
                if (shape == 2 && nodes == 5)
                    continue;  //  5 does not scatter over 5 nodes
                for (delivery_t d = EARLY; d < DELIVERIES; d++)
                    s_placed (nodes, ranks, node_of, d);
            }
}

static void
test_blocks (void **state)
{
    (void) state;
    const uint32_t node_of[] = { 0, 0, 0, 1, 1, 1 };
    tp_blocks_t blocks;
    assert_int_equal (tp_blocks_make (&blocks, node_of, 6), TUTTI_OK);
    const uint32_t want[][3]
        = { { 0, 2, 0 }, { 2, 1, 0 }, { 3, 1, 1 }, { 4, 2, 1 } };
    assert_int_equal (blocks.length, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal (blocks.list[i].first, want[i][0]);
        assert_int_equal (blocks.list[i].count, want[i][1]);
        assert_int_equal (blocks.list[i].node, want[i][2]);
    }
    tp_blocks_destroy (&blocks);
}

static void
test_refusals (void **state)
{
    (void) state;
    tp_schedule_t s = { 0 };
    tp_case_t c = { .kind = TP_BROADCAST, .algorithm = TP_RING, .n = 4 };
    assert_int_equal (tp_schedule_make (&s, &c), TUTTI_EINVAL);
    c.algorithm = TP_TREE;
    c.node = 4;
    assert_int_equal (tp_schedule_make (&s, &c), TUTTI_EINVAL);
    c.node = 0;
    c.root = 4;
    assert_int_equal (tp_schedule_make (&s, &c), TUTTI_EINVAL);
    c.root = 0;
    assert_int_equal (tp_schedule_make (&s, &c), TUTTI_OK);
    tp_schedule_destroy (&s);
    assert_int_equal (tp_part (UINT64_MAX, 3, 3), UINT64_MAX);
}

int
main (void)
{
    for (int i = 0; i < MAX_NODES; i++)
        for (int k = 0; k < MAX_NODES; k++)
            s_world.lane[i][k].put = calloc (MESSAGES, sizeof (put_t));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_allreduce),
        cmocka_unit_test (test_broadcast),
        cmocka_unit_test (test_reduce_scatter),
        cmocka_unit_test (test_allgather),
        cmocka_unit_test (test_barrier),
        cmocka_unit_test (test_reproducible),
        cmocka_unit_test (test_blocks),
        cmocka_unit_test (test_refusals),
    };
    int failed = cmocka_run_group_tests (tests, NULL, NULL);
    for (int i = 0; i < MAX_NODES; i++) {
        tp_schedule_destroy (&s_world.node[i].schedule);
        for (int k = 0; k < MAX_NODES; k++)
            free (s_world.lane[i][k].put);
    }
    return failed;
}
