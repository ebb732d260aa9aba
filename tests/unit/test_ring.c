//  tests/unit/test_ring.c - coordinator/ring.c

#include "coordinator/ring.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>

#define MANY 4096

static void
test_natural_order (void **state)
{
    (void) state;
    const char *names[] = { "n10", "n2", "a", "n1", "rack2-n1", "rack1-n9" };
    const char *want[] = { "a", "n1", "n2", "n10", "rack1-n9", "rack2-n1" };
    uint32_t order[6];
    tc_ring_order (names, 6, NULL, order);
    for (size_t i = 0; i < 6; i++)
        assert_string_equal (names[order[i]], want[i]);
}

static void
test_padded_numbers (void **state)
{
    (void) state;
    const char *names[] = { "n100", "n010", "n009", "n001" };
    const char *want[] = { "n001", "n009", "n010", "n100" };
    uint32_t order[4];
    tc_ring_order (names, 4, NULL, order);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal (names[order[i]], want[i]);
}

static void
test_few_and_equal (void **state)
{
    (void) state;
    const char *names[] = { "x", "x", "x" };
    uint32_t order[3] = { 7, 7, 7 };
    tc_ring_order (names, 0, NULL, order);
    assert_int_equal (order[0], 7);
    tc_ring_order (names, 1, NULL, order);
    assert_int_equal (order[0], 0);
    tc_ring_order (names, 3, NULL, order);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal (order[i], i);
}

//  Any order of arrival gives the same ring, and each node has one place.
static void
test_many (void **state)
{
    (void) state;
    static char text[MANY][16];
    static const char *names[MANY];
    static uint32_t order[MANY];
    for (uint32_t step = 1; step < 6; step += 2) {
        for (uint32_t i = 0; i < MANY; i++) {
            snprintf (text[i], sizeof text[i], "node%u",
                      (MANY - 1 - i) * step % MANY);
            names[i] = text[i];
        }
        tc_ring_order (names, MANY, NULL, order);
        for (uint32_t i = 0; i < MANY; i++) {
            char want[16];
            snprintf (want, sizeof want, "node%u", i);
            assert_string_equal (names[order[i]], want);
        }
    }
}

//  Edges are not used yet, so they must change nothing.
static void
test_edges_change_nothing (void **state)
{
    (void) state;
    const char *names[] = { "c", "a", "b" };
    const double gbps[9] = { 0, 1, 90, 2, 0, 3, 80, 4, 0 };
    const tc_edges_t edges = { 3, gbps };
    uint32_t order[3];
    tc_ring_order (names, 3, &edges, order);
    assert_int_equal (order[0], 1);
    assert_int_equal (order[1], 2);
    assert_int_equal (order[2], 0);
}

int
main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_natural_order),
        cmocka_unit_test (test_padded_numbers),
        cmocka_unit_test (test_few_and_equal),
        cmocka_unit_test (test_many),
        cmocka_unit_test (test_edges_change_nothing),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
