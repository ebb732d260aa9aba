//  tests/unit/test_plan.c - the cost model chooses what the field knows

#include "protocol/plan.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static tp_plan_t
s_plan (void)
{
    tp_plan_t plan;
    TP_PLAN_DEFAULT (&plan);
    return plan;
}

static void
test_small_is_doubling (void **state)
{
    (void) state;
    tp_plan_t plan = s_plan ();
    for (uint32_t n = 2; n <= 64; n *= 2)
        assert_int_equal (tp_plan_choose (&plan, TP_ALLREDUCE, -1, 0, n, 64),
                          TP_DOUBLING);
}

//  For large vectors the volume decides; among those that move the least the
//  one with fewer messages wins.
static void
test_large_is_not_doubling (void **state)
{
    (void) state;
    tp_plan_t plan = s_plan ();
    for (uint32_t n = 3; n <= 64; n++) {
        int a = tp_plan_choose (&plan, TP_ALLREDUCE, -1, 0, n, 64u << 20);
        assert_true (a == TP_RING || a == TP_HALVING);
    }
    assert_int_equal (
        tp_plan_choose (&plan, TP_ALLREDUCE, -1, 0, 7, 256u << 20), TP_RING);
}

static void
test_forced (void **state)
{
    (void) state;
    tp_plan_t plan = s_plan ();
    assert_int_equal (
        tp_plan_choose (&plan, TP_ALLREDUCE, TP_STAR, 0, 8, 1 << 20), TP_STAR);
    //  No such algorithm for the kind: the model chooses.
    assert_int_equal (
        tp_plan_choose (&plan, TP_BROADCAST, TP_RING, 0, 8, 1 << 20), TP_TREE);
    plan.algorithm[TP_ALLREDUCE] = TP_RING;
    assert_int_equal (tp_plan_choose (&plan, TP_ALLREDUCE, -1, 0, 8, 8),
                      TP_RING);
    assert_int_equal (
        tp_plan_choose (&plan, TP_ALLREDUCE, TP_HALVING, 0, 8, 8), TP_HALVING);
}

static void
test_reproducible_is_direct (void **state)
{
    (void) state;
    tp_plan_t plan = s_plan ();
    for (uint64_t bytes = 8; bytes < 1u << 28; bytes *= 8)
        assert_int_equal (tp_plan_choose (&plan, TP_ALLREDUCE, TP_RING,
                                          TP_SIG_REPRODUCIBLE, 4, bytes),
                          TP_DIRECT);
    assert_int_equal (tp_plan_choose (&plan, TP_ALLGATHER, -1,
                                      TP_SIG_REPRODUCIBLE, 4, 1 << 20),
                      tp_plan_choose (&plan, TP_ALLGATHER, -1, 0, 4, 1 << 20));
}

static void
test_costs_grow (void **state)
{
    (void) state;
    tp_plan_t plan = s_plan ();
    for (int kind = 0; kind < TP_KINDS; kind++)
        for (int a = 0; a < TP_ALGORITHMS; a++) {
            if (!tp_algorithm_ok (kind, a)) {
                assert_true (tp_plan_cost (&plan, kind, a, 4, 8) == HUGE_VAL);
                continue;
            }
            double last = 0;
            assert_true (tp_plan_cost (&plan, kind, a, 1, 1 << 20) == 0);
            for (uint64_t bytes = 8; bytes < 1u << 30; bytes *= 2) {
                double cost = tp_plan_cost (&plan, kind, a, 9, bytes);
                assert_true (cost > 0 && cost >= last);
                last = cost;
            }
        }
}

//  2 (n - 1) / n S per node around the ring, 2 (n - 1) S at the star's root.
static void
test_wire_bytes (void **state)
{
    (void) state;
    for (uint32_t n = 2; n <= 16; n++) {
        tp_schedule_t ring[16] = { 0 }, star[16] = { 0 };
        uint64_t count = 240 * n, max, sum;
        for (uint32_t i = 0; i < n; i++) {
            tp_case_t what = { .kind = TP_ALLREDUCE,
                               .node = i,
                               .n = n,
                               .count = count,
                               .algorithm = TP_RING };
            assert_int_equal (tp_schedule_make (&ring[i], &what), TUTTI_OK);
            what.algorithm = TP_STAR;
            assert_int_equal (tp_schedule_make (&star[i], &what), TUTTI_OK);
        }
        tp_plan_wire_bytes (ring, n, 4, &max, &sum);
        assert_int_equal (max, 2 * (n - 1) * count / n * 4);
        assert_int_equal (sum, 2 * (n - 1) * count * 4);
        tp_plan_wire_bytes (star, n, 4, &max, &sum);
        assert_int_equal (max, (n - 1) * count * 4);
        assert_int_equal (sum, 2 * (n - 1) * count * 4);
        for (uint32_t i = 0; i < n; i++) {
            tp_schedule_destroy (&ring[i]);
            tp_schedule_destroy (&star[i]);
        }
    }
}

//  An all-gather moves n (n - 1) parts in all, whatever the algorithm.
static void
test_allgather_bytes (void **state)
{
    (void) state;
    for (uint32_t n = 2; n <= 16; n++)
        for (int a = 0; a < TP_ALGORITHMS; a++) {
            tp_schedule_t s[16] = { 0 };
            uint64_t parts[16], sum;
            if (!tp_algorithm_ok (TP_ALLGATHER, a))
                continue;
            for (uint32_t i = 0; i < n; i++)
                parts[i] = 12;
            for (uint32_t i = 0; i < n; i++) {
                tp_case_t what = { .kind = TP_ALLGATHER,
                                   .node = i,
                                   .n = n,
                                   .parts = parts,
                                   .algorithm = (uint32_t) a };
                assert_int_equal (tp_schedule_make (&s[i], &what), TUTTI_OK);
            }
            tp_plan_wire_bytes (s, n, 8, NULL, &sum);
            assert_int_equal (sum, n * (n - 1) * 12 * 8);
            for (uint32_t i = 0; i < n; i++)
                tp_schedule_destroy (&s[i]);
        }
}

//  What is put into the star's root, and what the ring needs of TEMP.
static void
test_sizes (void **state)
{
    (void) state;
    for (uint32_t n = 2; n <= 16; n++) {
        tp_schedule_t s = { 0 };
        tp_case_t what = { .kind = TP_ALLREDUCE,
                           .n = n,
                           .count = 240 * n,
                           .algorithm = TP_STAR };
        uint64_t moved = 0;
        assert_int_equal (tp_schedule_make (&s, &what), TUTTI_OK);
        for (size_t k = 0; k < s.length; k++)
            if (s.steps[k].op == TP_STEP_SEND || s.steps[k].op == TP_STEP_RECV)
                moved += s.steps[k].count;
        assert_int_equal (moved, 2 * (n - 1) * what.count);
        what.algorithm = TP_RING;
        assert_int_equal (tp_schedule_make (&s, &what), TUTTI_OK);
        assert_int_equal (s.temp, (n - 1) * what.count / n);
        tp_schedule_destroy (&s);
    }
}

int
main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_small_is_doubling),
        cmocka_unit_test (test_large_is_not_doubling),
        cmocka_unit_test (test_forced),
        cmocka_unit_test (test_reproducible_is_direct),
        cmocka_unit_test (test_costs_grow),
        cmocka_unit_test (test_wire_bytes),
        cmocka_unit_test (test_allgather_bytes),
        cmocka_unit_test (test_sizes),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
