//  tests/unit/test_schedule.c - every algorithm among 1 to 64 nodes
//
//  Awkward counts and parts, three kinds of delivery, and the proof of order:
//  a place that is used twice, a missing WAIT or a wrong peer gives a wrong
//  number, a deadlock or a put without a place of its own.

#include "tests/unit/schedule_world.h"

//  Fill the inputs; WANT becomes the whole result.
static void
s_fill (const tp_case_t *c, uint64_t all, uint64_t *want)
{
    uint64_t off = 0;
    memset (want, 0, all * sizeof *want);
    for (uint32_t r = 0; r < c->n; r++) {
        uint64_t first = 0, count = all;
        if (c->kind == TP_ALLGATHER) {
            first = off;
            count = c->parts[r];
        }
        if (c->kind == TP_BROADCAST && r != c->root)
            count = 0;
        for (uint64_t i = first; i < first + count; i++)
            want[i] += s_w.node[r].work[i] = s_value (r, i);
        off += c->parts ? c->parts[r] : 0;
    }
}

static void
s_check (const tp_case_t *c, delivery_t delivery, arith_t mode)
{
    s_open (c, delivery, mode);
    uint64_t off = 0, all = s_w.node[0].schedule.work;
    uint64_t *want = malloc ((all + 1) * sizeof *want);
    s_fill (c, all, want);
    s_run ();
    //  Where the order matters only node 0 knows which one it was.
    if (mode != EXACT)
        memcpy (want, s_w.node[c->root].work, all * sizeof *want);
    for (uint32_t r = 0; r < c->n; r++) {
        if (c->kind == TP_REDUCE_SCATTER)
            s_expect (r, off, c->parts[r], want);
        else if (c->kind != TP_REDUCE || r == c->root)
            s_expect (r, 0, all, want);
        off += c->parts ? c->parts[r] : 0;
    }
    free (want);
    s_close ();
}

//  -------------------------------------------------------------------- cases

//  Uneven parts, some of them empty, or even ones.
static void
s_parts (uint32_t n, int shape, uint64_t *parts)
{
    const uint64_t even[] = { 0, 1, 13 };
    for (uint32_t i = 0; i < n; i++)
        parts[i] = shape < 3    ? even[shape]
                   : shape == 3 ? (i * 7 + n) % 5 * 11
                                : (i == n / 2 ? 997 : 0);
}

static void
s_vectors (tp_case_t *c)
{
    const uint32_t n = c->n;
    const uint64_t counts[] = { 0, 1, n - 1, n, n + 1, 1009, 65537 };
    size_t m = n <= 4 || n == 13 || n == 32 ? 7 : 6;
    for (size_t i = 0; i < m; i++)
        for (delivery_t d = EARLY; d < DELIVERIES; d++) {
            c->count = counts[i];
            c->root = (uint32_t) ((counts[i] * 7 + d) % n);
            s_check (c, d, EXACT);
        }
    c->count = 3 * n + 2;
    if (c->kind == TP_ALLREDUCE) {
        s_check (c, RANDOM, FLOAT);
        s_check (c, RANDOM, SKEW);
    }
}

static void
s_parted (tp_case_t *c)
{
    uint64_t parts[MAX_NODES];
    c->parts = parts;
    for (int shape = 0; shape < 5; shape++)
        for (delivery_t d = EARLY; d < DELIVERIES; d++) {
            s_parts (c->n, shape, parts);
            s_check (c, d, EXACT);
        }
    s_parts (c->n, 3, parts);
    if (c->n <= 35 || c->n > 62)
        s_prove (c);
    c->parts = NULL;
}

//  Every algorithm of KIND among every number of nodes.
static void
s_kind (int kind)
{
    for (uint32_t n = 1; n <= MAX_NODES; n++)
        for (int a = 0; a < TP_ALGORITHMS; a++) {
            tp_case_t c = { .kind = (uint32_t) kind,
                            .algorithm = (uint32_t) a,
                            .n = n };
            if (!tp_algorithm_ok (kind, a))
                continue;
            if (kind == TP_ALLGATHER || kind == TP_REDUCE_SCATTER) {
                s_parted (&c);
                continue;
            }
            s_vectors (&c);
            if (n <= 35 || n > 62)
                s_prove (&c);
        }
}

static void
test_allreduce (void **state)
{
    (void) state;
    s_kind (TP_ALLREDUCE);
}

static void
test_broadcast (void **state)
{
    (void) state;
    s_kind (TP_BROADCAST);
}

static void
test_reduce (void **state)
{
    (void) state;
    s_kind (TP_REDUCE);
}

//  ----------------------------------------------------------------- pairwise

//  Elements from one node to another: uneven, some none.
static uint64_t
s_traffic (uint32_t from, uint32_t to)
{
    return (from * 7 + to * 3) % 5 * 4;
}

#define PLACE 16  //  elements; more than any traffic

static tp_item_t s_sends[MAX_NODES], s_recvs[MAX_NODES];

//  Two items a pair where it is even, to see that their order is kept.
static void
s_items (tp_case_t *what)
{
    size_t sends = 0, recvs = 0;
    for (uint32_t peer = 0; peer < what->n; peer++) {
        if (peer == what->node)
            continue;
        s_sends[sends++] =
            (tp_item_t){ .peer = peer,
                         .count = s_traffic (what->node, peer),
                         .src = peer * PLACE,
                         .dst = { TP_TEMP, 0, what->node * PLACE } };
        s_recvs[recvs++] =
            (tp_item_t){ .peer = peer, .count = s_traffic (peer, what->node) };
    }
    what->sends = (tp_items_t){ s_sends, sends };
    what->recvs = (tp_items_t){ s_recvs, recvs };
    what->count = what->temp = (uint64_t) what->n * PLACE;
}

static void
test_pairwise (void **state)
{
    (void) state;
    s_w.each = s_items;
    for (uint32_t n = 1; n <= MAX_NODES; n++)
        for (delivery_t d = EARLY; d < DELIVERIES; d++) {
            tp_case_t c = { .kind = TP_ALLTOALL,
                            .algorithm = TP_PAIRWISE,
                            .n = n };
            s_open (&c, d, EXACT);
            for (uint32_t r = 0; r < n; r++)
                for (uint64_t i = 0; i < (uint64_t) n * PLACE; i++)
                    s_w.node[r].work[i] = s_value (r, i);
            s_run ();
            for (uint32_t r = 0; r < n; r++)
                for (uint32_t from = 0; from < n; from++)
                    for (uint64_t i = 0; from != r && i < s_traffic (from, r);
                         i++)
                        assert_int_equal (s_w.node[r].temp[from * PLACE + i],
                                          s_value (from, r * PLACE + i));
            s_close ();
            if (d == EARLY && (n <= 35 || n > 62))
                s_prove (&c);
        }
    s_w.each = NULL;
}

static void
test_reduce_scatter (void **state)
{
    (void) state;
    s_kind (TP_REDUCE_SCATTER);
}

static void
test_allgather (void **state)
{
    (void) state;
    s_kind (TP_ALLGATHER);
}

//  Nobody leaves the barrier before the last one came: one node is held back,
//  and nobody may be through.
static void
test_barrier (void **state)
{
    (void) state;
    for (uint32_t n = 2; n <= MAX_NODES; n++) {
        tp_case_t c = { .kind = TP_BARRIER,
                        .algorithm = TP_DISSEMINATION,
                        .n = n };
        s_open (&c, EARLY, EXACT);
        for (uint32_t round = 0; round < 2 * n; round++)
            for (uint32_t me = 0; me < n; me++) {
                node_t *node = &s_w.node[me];
                while (me != n / 2 && node->pc < node->schedule.length &&
                       s_step (me))
                    node->pc++;
            }
        for (uint32_t me = 0; me < n; me++)
            assert_true (s_w.node[me].pc < s_w.node[me].schedule.length);
        s_run ();
        s_close ();
    }
}

//  ------------------------------------------------------------- reproducible

static uint64_t
s_tree (uint32_t first, uint32_t count, uint64_t i)
{
    if (count == 1)
        return s_value (first, i);
    uint32_t half = tp_tree_split (count);
    return s_op (s_tree (first, half, i),
                 s_tree (first + half, count - half, i));
}

//  The bits are those of the tree over rank numbers, wherever the ranks are.
static void
s_placed (const tp_case_t *c, delivery_t delivery, arith_t mode)
{
    uint32_t mine[MAX_NODES] = { 0 };
    uint64_t want[512], off = 0, all = c->count;
    for (uint32_t r = 0; c->parts && r < c->n; r++)
        all += c->parts[r];
    s_open (c, delivery, mode);
    for (uint32_t b = 0; b < c->blocks->length; b++) {
        const tp_block_t *block = &c->blocks->list[b];
        uint64_t at = mine[block->node]++ * all;
        for (uint64_t i = 0; i < all; i++)
            s_w.node[block->node].work[at + i] =
                s_tree (block->first, block->count, i);
    }
    for (uint64_t i = 0; i < all; i++)
        want[i] = s_tree (0, c->blocks->ranks, i);
    s_run ();
    for (uint32_t r = 0; r < c->n; r++) {
        if (c->parts)
            s_expect (r, off, c->parts[r], want);
        else
            s_expect (r, 0, all, want);
        off += c->parts ? c->parts[r] : 0;
    }
    s_close ();
}

static void
s_placement (uint32_t nodes, uint32_t each, int shape)
{
    uint32_t node_of[64], ranks = nodes * each;
    uint64_t parts[MAX_NODES];
    for (uint32_t r = 0; r < ranks; r++)
        node_of[r] = shape == 0   ? r / each
                     : shape == 1 ? r % nodes
                     : shape == 2 ? (r * 5 + r / 3) % nodes
                                  : nodes - 1;  //  the others have none
    tp_blocks_t blocks;
    assert_int_equal (tp_blocks_make (&blocks, node_of, ranks), TUTTI_OK);
    s_parts (nodes, 3, parts);
    tp_case_t sum = { .kind = TP_ALLREDUCE,
                      .algorithm = TP_DIRECT,
                      .n = nodes,
                      .count = 37,
                      .blocks = &blocks };
    tp_case_t cut = { .kind = TP_REDUCE_SCATTER,
                      .algorithm = TP_DIRECT,
                      .n = nodes,
                      .parts = parts,
                      .blocks = &blocks };
    for (delivery_t d = EARLY; d < DELIVERIES; d++) {
        s_placed (&sum, d, d == LATE ? SKEW : FLOAT);
        s_placed (&cut, d, d == LATE ? SKEW : FLOAT);
    }
    s_prove (&sum);
    s_prove (&cut);
    tp_blocks_destroy (&blocks);
}

static void
test_reproducible (void **state)
{
    (void) state;
    for (uint32_t nodes = 2; nodes <= 9; nodes++)
        for (uint32_t each = 1; each <= 7; each++)
            for (int shape = 0; shape < 4; shape++)
                s_placement (nodes, each, shape);
}

static void
test_blocks (void **state)
{
    (void) state;
    const uint32_t node_of[] = { 0, 0, 0, 1, 1, 1 };
    tp_blocks_t blocks;
    assert_int_equal (tp_blocks_make (&blocks, node_of, 6), TUTTI_OK);
    const tp_block_t want[] = {
        { 0, 2, 0 }, { 2, 1, 0 }, { 3, 1, 1 }, { 4, 2, 1 }
    };
    assert_int_equal (blocks.length, 4);
    assert_memory_equal (blocks.list, want, sizeof want);
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
    assert_int_equal (tp_algorithm_value ("halving"), TP_HALVING);
    assert_int_equal (tp_algorithm_value (NULL), -1);
}

int
main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_allreduce),
        cmocka_unit_test (test_broadcast),
        cmocka_unit_test (test_reduce),
        cmocka_unit_test (test_pairwise),
        cmocka_unit_test (test_reduce_scatter),
        cmocka_unit_test (test_allgather),
        cmocka_unit_test (test_barrier),
        cmocka_unit_test (test_reproducible),
        cmocka_unit_test (test_blocks),
        cmocka_unit_test (test_refusals),
    };
    int failed = cmocka_run_group_tests (tests, NULL, NULL);
    for (int i = 0; i < MAX_NODES; i++)
        tp_schedule_destroy (&s_w.node[i].schedule);
    return failed;
}
