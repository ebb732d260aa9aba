//  tests/unit/tx_suite_join.h - part of tx_suite.h: who may connect, and when

#ifndef TX_SUITE_JOIN_H
#define TX_SUITE_JOIN_H

#include "tests/unit/tx_world.h"

static side_t s_sides[SIDES];  //  too large for a stack

static void
suite_refused_by (const tx_options_t *options)
{
    side_t *pair = s_sides;
    world_open_with (&pair[0], options);
    world_open (&pair[1], 1);
    world_connect (&pair[0], &pair[1], 1);
    WAIT (pair, 2, pair[0].down == 1);
    assert_true (pair[0].err == TUTTI_EDENIED || pair[0].err == TUTTI_EPROTO);
    assert_int_equal (pair[0].up, 0);
    WAIT (pair, 2, world_stats (&pair[1]).refused == 1);
    assert_int_equal (pair[1].accepted, 0);
    assert_int_equal (pair[1].down, 0);
    world_close (&pair[0]);
    //  The listener goes on.
    world_open (&pair[0], 0);
    world_connect (&pair[0], &pair[1], 1);
    WAIT (pair, 2, pair[0].up == 1);
    world_close_pair (pair);
}

static void
suite_wrong_hellos (void **state)
{
    (void) state;
    tx_options_t options = world_options (0);
    options.key[31] ^= 1;
    suite_refused_by (&options);
    options = world_options (0);
    options.job = "other";
    suite_refused_by (&options);
    options = world_options (0);
    options.epoch = EPOCH - 1;
    suite_refused_by (&options);
    options = world_options (0);
    options.channel = 3;
    suite_refused_by (&options);
}

//  The address was reused by another node of the job.
static void
suite_wrong_node (void **state)
{
    (void) state;
    side_t *pair = s_sides;
    world_open (&pair[0], 0);
    world_open (&pair[1], 1);
    world_connect (&pair[0], &pair[1], 2);
    WAIT (pair, 2, pair[0].down == 1);
    assert_int_equal (pair[0].up + pair[1].accepted, 0);
    world_close_pair (pair);
}

static void
suite_owner_refuses (void **state)
{
    (void) state;
    side_t *pair = s_sides;
    world_open (&pair[0], 0);
    world_open (&pair[1], 1);
    pair[1].refuse = true;
    world_connect (&pair[0], &pair[1], 1);
    WAIT (pair, 2, pair[0].down == 1);
    assert_int_equal (pair[0].err, TUTTI_EDENIED);
    assert_int_equal (pair[0].up, 0);
    assert_int_equal (pair[1].accepted, 1);
    assert_int_equal (pair[1].down, 0);
    world_close_pair (pair);
}

//  A hello before we know who we are waits; so does one of a later epoch.
static void
suite_waits_for_identity (void **state)
{
    (void) state;
    side_t *pair = s_sides;
    for (int64_t epoch = 0; epoch < EPOCH; epoch += EPOCH - 1) {
        tx_options_t options = world_options (1);
        options.epoch = epoch;
        options.node = 4000;
        memset (options.key, 0, sizeof options.key);
        world_open (&pair[0], 0);
        world_open_with (&pair[1], &options);
        world_connect (&pair[0], &pair[1], 1);
        world_post (&pair[0], 1, 0, 100, 0);
        world_idle (pair, 2, 50);
        assert_int_equal (pair[0].up + pair[0].down, 0);
        assert_int_equal (pair[1].accepted, 0);
        options = world_options (1);
        pair[1].ops->identity (pair[1].tx, EPOCH, 1, options.key);
        WAIT (pair, 2, pair[1].arrived == 1);
        world_close_pair (pair);
    }
}

//  An address where somebody will listen, and the options to do so.
static void
suite_future_address (char *address, size_t len, tx_options_t *options)
{
    side_t *side = &s_sides[2];
    unsigned number;
    world_open (side, 1);
    snprintf (address, len, "%s", side->ops->address (side->tx));
    if (sscanf (address, "loop:%u", &number) == 1)
        snprintf (address, len, "loop:%u", number + 2);  //  one more opens
    else {
        long port = strtol (strrchr (address, ':') + 1, NULL, 10);
        options->port_lo = options->port_hi = (uint16_t) port;
    }
    world_close (side);
}

static void
suite_listens_later (void **state)
{
    (void) state;
    char address[80];
    side_t *pair = s_sides;
    tx_options_t options = world_options (1);
    suite_future_address (address, sizeof address, &options);
    world_open (&pair[0], 0);
    world_connect_to (&pair[0], address, 1);
    world_post (&pair[0], 1, 0, 100, 0);
    world_idle (pair, 1, 100);
    assert_int_equal (pair[0].up + pair[0].down, 0);
    world_open_with (&pair[1], &options);
    assert_string_equal (pair[1].ops->address (pair[1].tx), address);
    WAIT (pair, 2, pair[1].arrived == 1);
    assert_int_equal (pair[0].up, 1);
    world_close_pair (pair);
}

static void
suite_nobody_listens (void **state)
{
    (void) state;
    char address[80];
    side_t *side = s_sides;
    tx_options_t options = world_options (1);
    suite_future_address (address, sizeof address, &options);
    options = world_options (0);
    options.connect_timeout_ms = 200;
    world_open_with (side, &options);
    world_connect_to (side, address, 1);
    int64_t start_ms = world_ms ();
    WAIT (side, 1, side->down == 1);
    int64_t took_ms = world_ms () - start_ms;
    assert_true (took_ms >= 190 && took_ms < 5000);
    assert_int_equal (side->err, TUTTI_ETIMEDOUT);
    assert_non_null (strstr (side->text, address));
    assert_int_equal (side->up, 0);
    world_close (side);
}

#endif
