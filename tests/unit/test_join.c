//  tests/unit/test_join.c - client/join.c, by a clock of ours

#include "client/join.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define S 1000000000ll

static void
test_times_of_the_stages (void **state)
{
    (void) state;
    tl_join_t join;
    tl_report_t silent = { .fd = -1 };
    char text[128];
    tl_join_begin (&join, &silent, 300000, 5 * S);
    tl_join_times (&join, 6 * S, text, sizeof text);
    assert_string_equal (text, "agent 1.0 s");
    tl_join_enter (&join, TP_STAGE_COORDINATOR, "", 7 * S);
    tl_join_enter (&join, TP_STAGE_RANKS, "1 of 2", 7 * S + S / 2);
    tl_join_enter (&join, TP_STAGE_RANKS, "1 of 2", 17 * S);  //  again
    tl_join_enter (&join, TP_STAGE_NODES, "2 nodes", 38 * S + S / 2);
    assert_string_equal (join.text, "2 nodes");
    tl_join_times (&join, 39 * S, text, sizeof text);
    assert_string_equal (
        text, "agent 2.0 s, coordinator 0.5 s, ranks 31.0 s, nodes 0.5 s");
    //  A refused attempt begins again; what passed stays counted.
    tl_join_enter (&join, TP_STAGE_AGENT, "", 40 * S);
    tl_join_times (&join, 41 * S, text, sizeof text);
    assert_string_equal (text, "agent 3.0 s");
    tl_join_times (&join, 41 * S, text, 6);
    assert_string_equal (text, "agent");
}

//  Every ten seconds one line, and never a sleep beyond the deadline.
static void
test_reminders (void **state)
{
    (void) state;
    int pipe_fds[2];
    char said[2048] = "";
    assert_int_equal (pipe (pipe_fds), 0);
    tl_report_t report = {
        .fd = pipe_fds[1], .level = TL_LOG_WARN, .rank = 3, .job = "j"
    };
    tl_join_t join;
    tl_join_begin (&join, &report, 25000, 0);
    assert_int_equal (tl_join_remind (&join, 0), 10 * S);
    tl_join_enter (&join, TP_STAGE_RANKS, "missing: 7", S);
    assert_int_equal (tl_join_remind (&join, 9 * S), 10 * S);
    assert_int_equal (tl_join_remind (&join, 10 * S), 20 * S);
    assert_int_equal (tl_join_remind (&join, 11 * S), 20 * S);
    assert_int_equal (tl_join_remind (&join, 21 * S), 25 * S);
    close (pipe_fds[1]);
    ssize_t n = read (pipe_fds[0], said, sizeof said - 1);
    close (pipe_fds[0]);
    assert_true (n > 0);
    assert_string_equal (
        said,
        "tutti: job j rank 3: tutti_init waits since 10 s for ranks (agent "
        "1.0 s, coordinator 0.0 s, ranks 9.0 s): missing: 7\n"
        "tutti: job j rank 3: tutti_init waits since 21 s for ranks (agent "
        "1.0 s, coordinator 0.0 s, ranks 20.0 s): missing: 7\n");
}

int
main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_times_of_the_stages),
        cmocka_unit_test (test_reminders),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
