//  tests/unit/test_node.c - coordinator/node.c, by a clock of ours

#include "coordinator/node.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

static tc_node_t *
s_node (void)
{
    Tutti__Hello hello = TUTTI__HELLO__INIT;
    tc_node_t *node = NULL;
    hello.node = "n1";
    hello.host = "h1";
    hello.data_host = "10.0.0.1";
    assert_int_equal (
        tc_node_new (&node, &hello, (tc_patience_t){ 1000, 5000 }, 0),
        TUTTI_OK);
    return node;
}

//  The table of node.c, every cell.
static void
test_table (void **state)
{
    (void) state;
    static const int next[TC_NODE_STATES][TC_NODE_EVENTS] = {
        { TC_NODE_READY, TC_NODE_SUSPECT, TC_NODE_LOST },
        { TC_NODE_READY, TC_NODE_LOST, TC_NODE_LOST },
        { -1, -1, -1 },
    };
    for (int from = 0; from < TC_NODE_STATES; from++)
        for (int event = 0; event < TC_NODE_EVENTS; event++) {
            tc_node_t *node = s_node ();
            for (int i = 0; i < from; i++)
                tc_node_event (node, TC_NODE_EXPIRED, 0);
            assert_int_equal (tc_node_state (node), from);
            tutti_err_t err = tc_node_event (node, (tc_node_event_t) event, 0);
            int to = next[from][event];
            assert_int_equal (err, to < 0 ? TUTTI_ESTATE : TUTTI_OK);
            assert_int_equal (tc_node_state (node), to < 0 ? from : to);
            tc_node_destroy (&node);
            assert_null (node);
        }
}

static void
test_deadlines (void **state)
{
    (void) state;
    tc_node_t *node = s_node ();
    assert_int_equal (tc_node_deadline (node), 1000);
    tc_node_event (node, TC_NODE_HEARD, 300);
    assert_int_equal (tc_node_deadline (node), 1300);
    tc_node_late (node, 700);  //  the loop slept
    assert_int_equal (tc_node_deadline (node), 2000);
    tc_node_event (node, TC_NODE_EXPIRED, 2000);
    assert_int_equal (tc_node_deadline (node), 6000);
    tc_node_event (node, TC_NODE_EXPIRED, 6000);
    assert_true (tc_node_deadline (node) == INT64_MAX);
    tc_node_late (node, 1);
    assert_true (tc_node_deadline (node) == INT64_MAX);
    tc_node_destroy (&node);
    tc_node_destroy (&node);
}

static void
test_names (void **state)
{
    (void) state;
    tc_node_t *node = s_node ();
    assert_string_equal (tc_node_name (node), "n1");
    assert_string_equal (tc_node_host (node), "h1");
    assert_string_equal (tc_node_address (node), "10.0.0.1");
    assert_string_equal (tc_node_state_name (TC_NODE_SUSPECT), "suspect");
    tc_node_destroy (&node);
}

int
main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_table),
        cmocka_unit_test (test_deadlines),
        cmocka_unit_test (test_names),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
