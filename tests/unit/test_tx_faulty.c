//  tests/unit/test_tx_faulty.c - the faulty transport: the whole suite while
//  its fault does not show, then each fault

#include "tests/unit/tx_suite.h"

static void
s_pair (const char *transport)
{
    world_transport = transport;
    world_pair (s_sides);
}

static void
faulty_names (void **state)
{
    (void) state;
    static const char *const bad[] = { "faulty",
                                       "faulty:",
                                       "faulty:flip",
                                       "faulty:flip:",
                                       "faulty:flip:0",
                                       "faulty:flip:x",
                                       "faulty:flip:-1",
                                       "faulty:flip:1x",
                                       "faulty:melt:1",
                                       "udp",
                                       "" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_null (tx_find (bad[i]));
    assert_null (tx_find (NULL));
    assert_string_equal (tx_find ("faulty:flip:3")->name, "faulty");
    assert_string_equal (tx_find ("tcp")->name, "tcp");
    assert_string_equal (tx_find ("loopback")->name, "loopback");
}

static void
faulty_flips (void **state)
{
    (void) state;
    side_t *pair = s_sides;
    s_pair ("faulty:flip:3");
    for (uint64_t i = 1; i <= 10; i++) {
        world_post (&pair[0], i, 0, 0, 0);  //  not a payload
        world_post (&pair[0], i, i * 100, 100, 0);
    }
    WAIT (pair, 2, pair[1].arrived == 20);
    for (uint64_t i = 1; i <= 10; i++) {
        int bits = 0;
        for (uint64_t k = i * 100; k < i * 100 + 100; k++)
            bits += __builtin_popcount (pair[1].memory[k] ^ pair[0].memory[k]);
        assert_int_equal (bits, i % 3 == 0);
    }
    world_close_pair (pair);
}

static void
faulty_cuts (void **state)
{
    (void) state;
    side_t *pair = s_sides;
    s_pair ("faulty:cut:1000");
    for (uint64_t i = 1; i <= 20; i++)
        world_post (&pair[0], i, 0, 300, 0);
    WAIT (pair, 2, pair[0].down == 1 && pair[1].down == 1);
    assert_int_equal (pair[1].arrived, 3);
    assert_int_equal (pair[1].err, TUTTI_EPEERLOST);
    world_close_pair (pair);
}

static void
faulty_delays (void **state)
{
    (void) state;
    side_t *pair = s_sides;
    s_pair ("faulty:delay:60");
    int64_t start_ms = world_ms ();
    world_post (&pair[0], 1, 0, 10, 0);
    world_post (&pair[0], 2, 0, 0, 0);
    WAIT (pair, 2, pair[1].arrived == 2);
    assert_true (world_ms () - start_ms >= 60);
    //  What is held when the peer goes is told first, and nothing after close.
    world_post (&pair[0], 3, 0, 10, 0);
    WAIT (pair, 2, pair[0].sent == 3);
    world_close (&pair[0]);
    WAIT (pair, 2, pair[1].down == 1);
    assert_int_equal (pair[1].arrived, 3);
    world_close (&pair[1]);
    s_pair ("faulty:delay:60");
    world_post (&pair[0], 4, 0, 10, 0);
    WAIT (pair, 2, pair[1].places == 1);
    pair[1].closed = pair[1].ep;
    pair[1].ops->close (pair[1].tx, &pair[1].ep);
    world_idle (pair, 2, 100);
    assert_int_equal (pair[1].arrived, 0);
    world_close_pair (pair);
}

static const struct CMUnitTest s_tests[] = {
    cmocka_unit_test (faulty_names),
    cmocka_unit_test (faulty_flips),
    cmocka_unit_test (faulty_cuts),
    cmocka_unit_test (faulty_delays),
};

int
main (void)
{
    int failed = cmocka_run_group_tests_name ("faults", s_tests, NULL, NULL);
    world_transport = "faulty:flip:1000000";
    failed += cmocka_run_group_tests_name ("flip", suite_tests, NULL, NULL);
    world_transport = "faulty:delay:1";
    failed += cmocka_run_group_tests_name ("delay", suite_tests, NULL, NULL);
    return failed;
}
