//  tests/unit/tx_suite.h - what every transport must do; see tx_world.h
//  and, for connecting and refusing, tx_suite_join.h
//
//  A transport's test sets world_transport and runs suite_tests.

#ifndef TX_SUITE_H
#define TX_SUITE_H

#include "tests/unit/tx_suite_join.h"

//  Life ------------------------------------------------------------------

static void
suite_connects_once (void **state)
{
    (void) state;
    side_t *pair = s_sides;
    world_pair (pair);
    world_idle (pair, 2, 20);
    assert_int_equal (pair[0].up, 1);
    assert_int_equal (pair[0].accepted, 0);
    assert_int_equal (pair[1].accepted, 1);
    assert_int_equal (pair[1].up, 0);
    assert_int_equal (pair[0].down + pair[1].down, 0);
    assert_int_equal (tx_ep_peer (pair[0].ep), 1);
    assert_int_equal (tx_ep_peer (pair[1].ep), 0);
    assert_ptr_equal (tx_ep_user (pair[0].ep), &pair[0]);
    assert_ptr_equal (tx_ep_user (pair[1].ep), &pair[1]);
    tx_ep_set_user (pair[0].ep, pair);
    assert_ptr_equal (tx_ep_user (pair[0].ep), pair);
    assert_string_equal (pair[1].hello.job, "test");
    assert_int_equal (world_stats (&pair[0]).endpoints, 1);
    world_close_pair (pair);
}

static void
suite_peer_dies (void **state)
{
    (void) state;
    side_t *pair = s_sides;
    world_pair (pair);
    for (uint64_t i = 1; i <= 4; i++)
        world_post (&pair[0], i, 0, 1u << 20, 0);
    world_turn (pair, 2);
    pair[1].ops->destroy (&pair[1].tx);
    WAIT (pair, 1, pair[0].down == 1);
    assert_int_equal (pair[0].err, TUTTI_EPEERLOST);
    assert_non_null (strstr (pair[0].text, "node 1"));
    world_idle (pair, 1, 20);
    assert_int_equal (pair[0].down, 1);
    assert_int_equal (world_stats (&pair[0]).endpoints, 0);
    world_close_pair (pair);
}

//  What was sent before a close arrives before the down.
static void
suite_last_words (void **state)
{
    (void) state;
    side_t *pair = s_sides;
    world_pair (pair);
    for (uint64_t i = 1; i <= 10; i++)
        world_post (&pair[0], i, 0, 100, 0);
    WAIT (pair, 1, pair[0].sent == 10);
    pair[0].ops->close (pair[0].tx, &pair[0].ep);
    assert_null (pair[0].ep);
    WAIT (pair, 2, pair[1].down == 1);
    assert_int_equal (pair[1].arrived, 10);
    assert_int_equal (pair[0].down, 0);
    world_close_pair (pair);
}

static void
suite_close_in_handler (void **state)
{
    (void) state;
    side_t *pair = s_sides;
    world_pair (pair);
    pair[1].close_at = 7;
    for (uint64_t i = 1; i <= 2000; i++)
        world_post (&pair[0], i, 0, i % 2 ? 0 : 4000, 0);
    WAIT (pair, 2, pair[0].down == 1);
    world_idle (pair, 2, 20);
    assert_int_equal (pair[1].arrived, 7);
    assert_int_equal (pair[1].down, 0);
    world_close_pair (pair);
}

static void
suite_close_outside (void **state)
{
    (void) state;
    side_t *pair = s_sides;
    world_pair (pair);
    for (uint64_t i = 1; i <= 8; i++)
        world_post (&pair[0], i, 0, 1u << 20, 0);
    world_turn (pair, 2);
    world_turn (pair, 2);
    //  Another endpoint may get the same memory, so it is only compared while
    //  there is none.
    pair[0].closed = pair[0].ep;
    pair[0].ops->close (pair[0].tx, &pair[0].ep);
    WAIT (pair, 2, pair[1].down == 1);
    assert_int_equal (pair[1].err, TUTTI_EPEERLOST);
    assert_int_equal (pair[0].down, 0);
    world_close_pair (pair);
}

static void
suite_close_while_connecting (void **state)
{
    (void) state;
    side_t *pair = s_sides;
    world_open (&pair[0], 0);
    world_open (&pair[1], 1);
    for (int turns = 0; turns < 6; turns++) {
        world_connect (&pair[0], &pair[1], 1);
        for (int i = 0; i < turns; i++)
            world_turn (pair, 2);
        pair[0].ops->close (pair[0].tx, &pair[0].ep);
        world_idle (pair, 2, 5);
        assert_int_equal (pair[0].down, 0);
    }
    WAIT (pair, 2, pair[1].down == pair[1].accepted);
    world_close_pair (pair);
}

//  Frames ----------------------------------------------------------------

static void
suite_order (void **state)
{
    (void) state;
    side_t *pair = s_sides;
    world_pair (pair);
    for (uint64_t i = 1; i <= 300; i++)
        world_post (&pair[0], i, i * 100, (uint32_t) (i * 37 % 3000), 0);
    WAIT (pair, 2, pair[1].arrived == 300 && pair[0].sent == 300);
    for (uint64_t i = 0; i < 300; i++)
        assert_int_equal (pair[1].seqs[i], i + 1);
    assert_int_equal (pair[1].last_number, 300);
    assert_int_equal (pair[0].last_cookie, 300);
    world_close_pair (pair);
}

static void
suite_zero_length (void **state)
{
    (void) state;
    side_t *pair = s_sides;
    world_pair (pair);
    world_post (&pair[0], 3, 0, 0, 0);
    WAIT (pair, 2, pair[1].arrived == 1 && pair[0].sent == 1);
    assert_int_equal (pair[1].places, 0);
    assert_null (pair[1].payload);
    assert_int_equal (pair[0].last_cookie, 3);
    world_close_pair (pair);
}

static void
suite_large_both_ways (void **state)
{
    (void) state;
    const uint32_t len = 8u << 20;
    side_t *pair = s_sides;
    world_pair (pair);
    uint8_t *source[2];
    for (int i = 0; i < 2; i++) {
        world_fill (&pair[i], (unsigned) i + 1);
        source[i] = malloc (len);
        assert_non_null (source[i]);
        memcpy (source[i], pair[i].memory, len);
        tp_frame_t frame = world_frame (1, 0, len);
        assert_int_equal (pair[i].ops->post (pair[i].tx, pair[i].ep, &frame,
                                             source[i], 0, 9),
                          TUTTI_OK);
    }
    WAIT (pair, 2,
          pair[0].arrived == 1 && pair[1].arrived == 1 && pair[0].sent == 1 &&
              pair[1].sent == 1);
    assert_memory_equal (pair[0].memory, source[1], len);
    assert_memory_equal (pair[1].memory, source[0], len);
    free (source[0]);
    free (source[1]);
    world_close_pair (pair);
}

static void
suite_thousands_small (void **state)
{
    (void) state;
    side_t *pair = s_sides;
    world_pair (pair);
    world_fill (&pair[0], 5);
    for (uint64_t i = 0; i < 8000; i++)
        world_post (&pair[0], i + 1, i * 64, (uint32_t) (i % 65), 0);
    WAIT (pair, 2, pair[1].arrived == 8000);
    for (uint64_t i = 0; i < 8000; i++) {
        assert_int_equal (pair[1].seqs[i], i + 1);
        assert_memory_equal (pair[0].memory + i * 64, pair[1].memory + i * 64,
                             i % 65);
    }
    world_close_pair (pair);
}

static void
suite_echo (void **state)
{
    (void) state;
    side_t *pair = s_sides;
    world_pair (pair);
    pair[1].echo = true;
    for (uint64_t i = 1; i <= 100; i++) {
        world_post (&pair[0], i, 0, 1000, 0);
        WAIT (pair, 2, pair[0].arrived == i);
    }
    //  Each answer acknowledged the question that it answers.
    assert_int_equal (pair[0].ops->acked (pair[0].tx, pair[0].ep), 100);
    assert_int_equal (pair[1].ops->acked (pair[1].tx, pair[1].ep), 99);
    world_close_pair (pair);
}

static void
suite_priorities (void **state)
{
    (void) state;
    static const uint64_t expected[] = { 9, 8, 3, 4, 1, 2 };
    side_t *pair = s_sides;
    world_open (&pair[0], 0);
    world_open (&pair[1], 1);
    world_connect (&pair[0], &pair[1], 1);
    world_post (&pair[0], 1, 0, 10, 0);
    world_post (&pair[0], 2, 0, 10, 0);
    world_post (&pair[0], 3, 0, 10, 5);
    world_post (&pair[0], 9, 0, 10, 7);
    world_post (&pair[0], 4, 0, 10, 5);
    world_post (&pair[0], 8, 0, 10, 6);
    WAIT (pair, 2, pair[1].arrived == 6);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal (pair[1].seqs[i], expected[i]);
    world_close_pair (pair);
}

//  Higher priority never overtakes a frame of its own op.
static void
suite_order_in_op (void **state)
{
    (void) state;
    static const uint64_t expected[] = { 1, 2, 2, 3 };
    static const uint32_t lens[] = { 10, 20, 30, 40 };
    side_t *pair = s_sides;
    world_open (&pair[0], 0);
    world_open (&pair[1], 1);
    world_connect (&pair[0], &pair[1], 1);
    world_post (&pair[0], 1, 0, lens[0], 4);
    world_post (&pair[0], 2, 0, lens[1], 0);
    world_post (&pair[0], 3, 0, lens[3], 0);
    world_post (&pair[0], 2, 0, lens[2], 9);
    WAIT (pair, 2, pair[1].arrived == 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal (pair[1].seqs[i], expected[i]);
    world_close_pair (pair);
}

static void
suite_no_place (void **state)
{
    (void) state;
    side_t *pair = s_sides;
    world_pair (pair);
    pair[1].no_place = true;
    world_post (&pair[0], 1, 0, 0, 0);
    world_post (&pair[0], 2, 0, 10, 0);
    world_post (&pair[0], 3, 0, 10, 0);
    WAIT (pair, 2, pair[0].down == 1 && pair[1].down == 1);
    assert_int_equal (pair[1].err, TUTTI_EPROTO);
    assert_int_equal (pair[0].err, TUTTI_EPEERLOST);
    assert_int_equal (pair[1].arrived, 1);
    assert_int_equal (pair[1].places, 1);
    assert_int_equal (world_stats (&pair[1]).refused, 1);
    world_close_pair (pair);
}

static void
suite_stats (void **state)
{
    (void) state;
    side_t *pair = s_sides;
    world_pair (pair);
    uint64_t bytes = 0;
    for (uint64_t i = 1; i <= 50; i++) {
        uint32_t len = (uint32_t) (i * i * 397);
        world_post (&pair[0], i, 0, len, 0);
        bytes += len;
    }
    world_post (&pair[1], 1, 0, 77, 0);
    WAIT (pair, 2, pair[1].arrived == 50 && pair[0].arrived == 1);
    tx_stats_t out = world_stats (&pair[0]);
    tx_stats_t in = world_stats (&pair[1]);
    assert_int_equal (out.frames_out, 50);
    assert_int_equal (in.frames_in, 50);
    assert_int_equal (out.payload_out, bytes);
    assert_int_equal (in.payload_in, bytes);
    assert_int_equal (pair[1].bytes, bytes);
    assert_int_equal (in.frames_out, 1);
    assert_int_equal (out.payload_in, 77);
    assert_true (out.writes > 0 && in.reads > 0);
    world_close_pair (pair);
}

static void
suite_many_peers (void **state)
{
    (void) state;
    world_open (&s_sides[0], 0);
    for (uint32_t i = 1; i < SIDES; i++) {
        world_open (&s_sides[i], i);
        world_connect (&s_sides[i], &s_sides[0], 0);
        for (uint64_t k = 1; k <= 100; k++)
            world_post (&s_sides[i], k, i * 10000, 10000, 0);
    }
    WAIT (s_sides, SIDES, s_sides[0].arrived == 100 * (SIDES - 1));
    assert_int_equal (s_sides[0].accepted, SIDES - 1);
    for (uint32_t i = 1; i < SIDES; i++)
        world_close (&s_sides[i]);
    WAIT (s_sides, 1, s_sides[0].down == SIDES - 1);
    world_close (&s_sides[0]);
}

//  Sleeping, threads, misuse ---------------------------------------------

//  Everything works for an owner that sleeps on the descriptor.
static void
suite_sleeps_on_fd (void **state)
{
    (void) state;
    side_t *pair = s_sides;
    world_open (&pair[0], 0);
    world_open (&pair[1], 1);
    pair[1].echo = true;
    world_connect (&pair[0], &pair[1], 1);
    for (uint64_t i = 1; i <= 40; i++)
        world_post (&pair[0], i, 0, 1u << 18, 0);
    struct pollfd fds[2];
    for (int i = 0; i < 2; i++)
        fds[i] = (struct pollfd){ pair[i].ops->fd (pair[i].tx), POLLIN, 0 };
    int64_t end_ms = world_ms () + PATIENCE_MS;
    while (pair[0].arrived < 40 && world_ms () < end_ms) {
        assert_true (poll (fds, 2, 10000) > 0);
        for (int i = 0; i < 2; i++)
            if (fds[i].revents)
                pair[i].ops->poll (pair[i].tx, 0);
    }
    assert_int_equal (pair[0].arrived, 40);
    world_close_pair (pair);
}

static void
suite_poll_waits (void **state)
{
    (void) state;
    side_t *side = s_sides;
    world_open (side, 0);
    side->ops->poll (side->tx, 0);
    int64_t start_ms = world_ms ();
    assert_int_equal (side->ops->poll (side->tx, 50000), 0);
    int64_t took_ms = world_ms () - start_ms;
    assert_true (took_ms >= 49 && took_ms < 5000);
    world_close (side);
}

static void *
suite_thread (void *arg)
{
    side_t *side = arg;
    int64_t end_ms = world_ms () + PATIENCE_MS;
    while (side->arrived < 500 && world_ms () < end_ms)
        side->ops->poll (side->tx, 10000);
    while (side->sent < 500 && world_ms () < end_ms)
        side->ops->poll (side->tx, 10000);
    return NULL;
}

static void
suite_two_threads (void **state)
{
    (void) state;
    side_t *pair = s_sides;
    pthread_t thread;
    world_open (&pair[0], 0);
    world_open (&pair[1], 1);
    pair[1].echo = true;
    world_connect (&pair[0], &pair[1], 1);
    assert_int_equal (pthread_create (&thread, NULL, suite_thread, &pair[1]),
                      0);
    for (uint64_t i = 1; i <= 500; i++)
        world_post (&pair[0], i, i * 1000, 5000, 0);
    int64_t end_ms = world_ms () + PATIENCE_MS;
    while (pair[0].arrived < 500 && world_ms () < end_ms)
        pair[0].ops->poll (pair[0].tx, 1000);
    pthread_join (thread, NULL);
    assert_int_equal (pair[0].arrived, 500);
    world_close_pair (pair);
}

static void
suite_misuse (void **state)
{
    (void) state;
    side_t *pair = s_sides;
    tx_ep_t *ep = NULL;
    tx_options_t options = world_options (0);
    options.epoch = 0;
    world_pair (pair);
    world_open_with (&pair[2], &options);
    const tx_ops_t *ops = pair[0].ops;
    tp_frame_t frame = world_frame (1, 0, TP_PAYLOAD_MAX + 1);
    assert_int_equal (
        ops->post (pair[0].tx, pair[0].ep, &frame, pair[0].memory, 0, 1),
        TUTTI_EINVAL);
    assert_int_equal (ops->connect (pair[0].tx, "nonsense", 1, NULL, &ep),
                      TUTTI_EINVAL);
    assert_int_equal (
        ops->connect (pair[2].tx, ops->address (pair[1].tx), 1, NULL, &ep),
        TUTTI_ESTATE);
    assert_int_equal (ops->resume (pair[0].tx, pair[0].ep, "nowhere"),
                      TUTTI_ENOTSUP);
    assert_null (ep);
    tx_region_t *region = NULL;
    assert_int_equal (
        ops->region_add (pair[0].tx, pair[0].memory, 10, &region), TUTTI_OK);
    assert_non_null (region);
    ops->region_drop (pair[0].tx, &region);
    assert_null (region);
    options.job = "not a name";
    assert_int_equal (ops->open (&pair[3].tx, &options, &world_handler, NULL),
                      TUTTI_EINVAL);
    world_close (&pair[2]);
    world_close_pair (pair);
}

static const struct CMUnitTest suite_tests[] = {
    cmocka_unit_test (suite_connects_once),
    cmocka_unit_test (suite_peer_dies),
    cmocka_unit_test (suite_last_words),
    cmocka_unit_test (suite_close_in_handler),
    cmocka_unit_test (suite_close_outside),
    cmocka_unit_test (suite_close_while_connecting),
    cmocka_unit_test (suite_order),
    cmocka_unit_test (suite_zero_length),
    cmocka_unit_test (suite_large_both_ways),
    cmocka_unit_test (suite_thousands_small),
    cmocka_unit_test (suite_echo),
    cmocka_unit_test (suite_priorities),
    cmocka_unit_test (suite_order_in_op),
    cmocka_unit_test (suite_no_place),
    cmocka_unit_test (suite_stats),
    cmocka_unit_test (suite_many_peers),
    cmocka_unit_test (suite_wrong_hellos),
    cmocka_unit_test (suite_wrong_node),
    cmocka_unit_test (suite_owner_refuses),
    cmocka_unit_test (suite_waits_for_identity),
    cmocka_unit_test (suite_listens_later),
    cmocka_unit_test (suite_nobody_listens),
    cmocka_unit_test (suite_sleeps_on_fd),
    cmocka_unit_test (suite_poll_waits),
    cmocka_unit_test (suite_two_threads),
    cmocka_unit_test (suite_misuse),
};

#endif
