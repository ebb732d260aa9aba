//  tests/unit/test_uplink.c - agent/uplink.c without a network or a clock

#include "agent/uplink.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define SEEN_MAX 16384

//  What the uplink has sent, as message kinds.
typedef struct s_wire {
    bool blocked;
    size_t n;
    int kind[SEEN_MAX];
    uint64_t beat;  //  sequence of the last heartbeat
    char data_host[TP_NAME_MAX];
    ta_uplink_t *uplink;
} s_wire_t;

#define KIND(name) TUTTI__ENVELOPE__BODY_##name

static bool
s_send (void *arg, const uint8_t *bytes, size_t len)
{
    s_wire_t *wire = arg;
    Tutti__Envelope *envelope;
    if (wire->blocked)
        return false;
    assert_int_equal (tp_msg_unpack (bytes, len, &envelope, NULL), TUTTI_OK);
    assert_true (wire->n < SEEN_MAX);
    wire->kind[wire->n++] = (int) envelope->body_case;
    if (envelope->body_case == KIND (HEARTBEAT))
        wire->beat = envelope->heartbeat->sequence;
    if (envelope->body_case == KIND (HELLO))
        strncpy (wire->data_host, envelope->hello->data_host,
                 sizeof wire->data_host - 1);
    tp_msg_free (&envelope);
    return true;
}

static Tutti__Progress **
s_progress (void *arg, size_t *count_p)
{
    (void) arg;
    *count_p = 0;
    return NULL;
}

static int
s_setup (void **state)
{
    s_wire_t *wire = calloc (1, sizeof *wire);
    static const char *labels[] = { "rack=7" };
    ta_uplink_options_t options = { .node = "n1",
                                    .host = "h1",
                                    .version = "0.1.0",
                                    .labels = labels,
                                    .n_labels = 1,
                                    .arg = wire,
                                    .send = s_send,
                                    .progress = s_progress };
    *state = wire;
    return ta_uplink_new (&wire->uplink, &options, 0);
}

static int
s_teardown (void **state)
{
    s_wire_t *wire = *state;
    ta_uplink_destroy (&wire->uplink);
    assert_null (wire->uplink);
    free (wire);
    return 0;
}

static size_t
s_count (const s_wire_t *wire, int kind)
{
    size_t n = 0;
    for (size_t i = 0; i < wire->n; i++)
        n += wire->kind[i] == kind;
    return n;
}

//  ---------------------------------------------------- from the coordinator

static ta_uplink_news_t
s_welcome (s_wire_t *wire, uint64_t incarnation, int64_t now_ms)
{
    Tutti__Welcome welcome = TUTTI__WELCOME__INIT;
    welcome.heartbeat_ms = 200;
    Tutti__Envelope envelope = TUTTI__ENVELOPE__INIT;
    envelope.incarnation = incarnation;
    envelope.body_case = KIND (WELCOME);
    envelope.welcome = &welcome;
    return ta_uplink_receive (wire->uplink, &envelope, now_ms);
}

static ta_uplink_news_t
s_refuse (s_wire_t *wire, int code, char *job, int64_t now_ms)
{
    Tutti__Refuse refuse = TUTTI__REFUSE__INIT;
    refuse.code = code;
    refuse.text = "node n1: no";
    Tutti__Envelope envelope = TUTTI__ENVELOPE__INIT;
    envelope.incarnation = 7;
    envelope.job = job;
    envelope.body_case = KIND (REFUSE);
    envelope.refuse = &refuse;
    return ta_uplink_receive (wire->uplink, &envelope, now_ms);
}

static ta_uplink_news_t
s_forming (s_wire_t *wire, uint64_t incarnation, int64_t now_ms)
{
    Tutti__Forming forming = TUTTI__FORMING__INIT;
    Tutti__Envelope envelope = TUTTI__ENVELOPE__INIT;
    envelope.incarnation = incarnation;
    envelope.job = "j";
    envelope.body_case = KIND (FORMING);
    envelope.forming = &forming;
    return ta_uplink_receive (wire->uplink, &envelope, now_ms);
}

static tutti_err_t
s_leave (s_wire_t *wire)
{
    Tutti__Leave leave = TUTTI__LEAVE__INIT;
    Tutti__Envelope envelope = TUTTI__ENVELOPE__INIT;
    envelope.protocol = TP_PROTOCOL;
    envelope.job = "j";
    envelope.body_case = KIND (LEAVE);
    envelope.leave = &leave;
    uint8_t *bytes;
    size_t len;
    assert_int_equal (tp_msg_pack (&envelope, &bytes, &len), TUTTI_OK);
    tutti_err_t err = ta_uplink_send (wire->uplink, bytes, len);
    free (bytes);
    return err;
}

static void
s_up (s_wire_t *wire)
{
    ta_uplink_connected (wire->uplink, "10.0.0.1", 0);
    assert_int_equal (s_welcome (wire, 7, 1), TA_NEWS_WELCOME);
    assert_int_equal (ta_uplink_state (wire->uplink), TA_UPLINK_UP);
}

//  Run time from FROM to TO as the supervisor would.
static void
s_run (s_wire_t *wire, int64_t to)
{
    while (ta_uplink_deadline (wire->uplink) <= to)
        ta_uplink_tick (wire->uplink, ta_uplink_deadline (wire->uplink));
}

//  -------------------------------------------------------------------- tests

static void
test_hello_then_heartbeats (void **state)
{
    s_wire_t *wire = *state;
    assert_int_equal (ta_uplink_state (wire->uplink), TA_UPLINK_DOWN);
    s_run (wire, 5000);
    assert_int_equal (wire->n, 0);
    s_up (wire);
    assert_int_equal (wire->kind[0], KIND (HELLO));
    assert_string_equal (wire->data_host, "10.0.0.1");
    s_run (wire, 1001);
    assert_int_equal (s_count (wire, KIND (HEARTBEAT)), 6);
    assert_int_equal (wire->beat, 6);
    assert_int_equal (ta_uplink_incarnation (wire->uplink), 7);
}

static void
test_back_off (void **state)
{
    s_wire_t *wire = *state;
    ta_uplink_connected (wire->uplink, "10.0.0.1", 0);
    //  At 0, 100, 300, 700, 1500, 3100, 6300, 11300, 16300: 0.1 .. 5 s.
    s_run (wire, 6300);
    assert_int_equal (s_count (wire, KIND (HELLO)), 7);
    s_run (wire, 16300);
    assert_int_equal (s_count (wire, KIND (HELLO)), 9);
    assert_int_equal (wire->n, 9);
}

static void
test_silence_and_lateness (void **state)
{
    s_wire_t *wire = *state;
    s_up (wire);
    s_run (wire, 9000);
    //  Any word counts.
    assert_int_equal (s_forming (wire, 7, 9000), TA_NEWS_JOB);
    s_run (wire, 18000);
    assert_int_equal (ta_uplink_state (wire->uplink), TA_UPLINK_UP);
    //  What we slept ourselves does not.
    ta_uplink_late (wire->uplink, 30000);
    s_run (wire, 48000);
    assert_int_equal (ta_uplink_state (wire->uplink), TA_UPLINK_UP);
    s_run (wire, 49000);
    assert_int_equal (ta_uplink_state (wire->uplink), TA_UPLINK_SILENT);
    assert_int_equal (s_count (wire, KIND (HELLO)), 2);
    //  Jobs go on: heart and messages as before.
    size_t beats = s_count (wire, KIND (HEARTBEAT));
    s_run (wire, 50000);
    assert_true (s_count (wire, KIND (HEARTBEAT)) >= beats + 5);
    assert_true (s_count (wire, KIND (HELLO)) >= 4);
    assert_int_equal (s_leave (wire), TUTTI_OK);
    assert_int_equal (s_count (wire, KIND (LEAVE)), 1);
    //  The same coordinator on the same connection is no news.
    assert_int_equal (s_welcome (wire, 7, 50001), TA_NEWS_NONE);
    assert_int_equal (ta_uplink_state (wire->uplink), TA_UPLINK_UP);
}

static void
test_queue_while_down (void **state)
{
    s_wire_t *wire = *state;
    s_leave (wire);
    s_up (wire);
    assert_int_equal (s_count (wire, KIND (LEAVE)), 1);
    ta_uplink_broken (wire->uplink, "gone", 10);
    s_leave (wire);
    s_leave (wire);
    s_run (wire, 60000);
    assert_int_equal (s_count (wire, KIND (LEAVE)), 1);
    assert_string_equal (ta_uplink_text (wire->uplink), "gone");
    ta_uplink_connected (wire->uplink, "10.0.0.1", 60001);
    assert_int_equal (s_count (wire, KIND (LEAVE)), 1);
    assert_int_equal (s_welcome (wire, 7, 60002), TA_NEWS_WELCOME);
    assert_int_equal (s_count (wire, KIND (LEAVE)), 3);
    wire->blocked = true;
    s_leave (wire);
    assert_true (ta_uplink_queued (wire->uplink));
    wire->blocked = false;
    ta_uplink_flush (wire->uplink);
    assert_false (ta_uplink_queued (wire->uplink));
    assert_int_equal (s_count (wire, KIND (LEAVE)), 4);
}

static void
test_queue_is_bounded (void **state)
{
    s_wire_t *wire = *state;
    size_t n = 0;
    assert_false (ta_uplink_crowded (wire->uplink));
    while (s_leave (wire) == TUTTI_OK && n < 100000)
        n++;
    assert_int_equal (n, 8192);
    assert_true (ta_uplink_crowded (wire->uplink));
    s_up (wire);
    assert_int_equal (s_count (wire, KIND (LEAVE)), 8192);
    assert_false (ta_uplink_crowded (wire->uplink));
}

static void
test_another_coordinator (void **state)
{
    s_wire_t *wire = *state;
    s_up (wire);
    //  A WELCOME nobody asked for: greet, then it is news.
    assert_int_equal (s_welcome (wire, 8, 100), TA_NEWS_NONE);
    assert_int_equal (ta_uplink_state (wire->uplink), TA_UPLINK_HELLOING);
    assert_int_equal (s_count (wire, KIND (HELLO)), 2);
    assert_int_equal (s_welcome (wire, 8, 110), TA_NEWS_WELCOME);
    assert_int_equal (ta_uplink_state (wire->uplink), TA_UPLINK_UP);
    //  The old one's messages are nobody's.
    assert_int_equal (s_forming (wire, 7, 120), TA_NEWS_NONE);
    assert_int_equal (s_count (wire, KIND (HELLO)), 3);
    assert_int_equal (s_welcome (wire, 8, 130), TA_NEWS_WELCOME);
    assert_int_equal (s_forming (wire, 8, 140), TA_NEWS_JOB);
}

static void
test_refusals (void **state)
{
    s_wire_t *wire = *state;
    s_up (wire);
    //  One for a rank is its worker's.
    assert_int_equal (s_refuse (wire, TUTTI_EJOIN, "j", 10), TA_NEWS_JOB);
    assert_int_equal (s_refuse (wire, TUTTI_EPROTO, "", 20), TA_NEWS_NONE);
    assert_int_equal (ta_uplink_state (wire->uplink), TA_UPLINK_HELLOING);
    assert_int_equal (s_refuse (wire, TUTTI_EAGAIN, "", 30), TA_NEWS_NONE);
    assert_int_equal (s_refuse (wire, TUTTI_EPROTO, "", 40), TA_NEWS_REFUSED);
    assert_int_equal (ta_uplink_state (wire->uplink), TA_UPLINK_CLOSED);
    assert_string_equal (ta_uplink_text (wire->uplink), "node n1: no");
    //  Final.
    size_t n = wire->n;
    ta_uplink_connected (wire->uplink, "10.0.0.1", 50);
    assert_int_equal (s_welcome (wire, 7, 60), TA_NEWS_NONE);
    ta_uplink_goodbye (wire->uplink, 70);
    s_run (wire, 90000);
    assert_int_equal (wire->n, n);
}

static void
test_goodbye (void **state)
{
    s_wire_t *wire = *state;
    s_up (wire);
    wire->blocked = true;
    s_leave (wire);
    wire->blocked = false;
    ta_uplink_goodbye (wire->uplink, 10);
    assert_int_equal (wire->kind[wire->n - 2], KIND (LEAVE));
    assert_int_equal (wire->kind[wire->n - 1], KIND (GOODBYE));
    assert_int_equal (ta_uplink_deadline (wire->uplink), INT64_MAX);
}

int
main (void)
{
#define TEST(name) cmocka_unit_test_setup_teardown (name, s_setup, s_teardown)
    const struct CMUnitTest tests[] = {
        TEST (test_hello_then_heartbeats),
        TEST (test_back_off),
        TEST (test_silence_and_lateness),
        TEST (test_queue_while_down),
        TEST (test_queue_is_bounded),
        TEST (test_another_coordinator),
        TEST (test_refusals),
        TEST (test_goodbye),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
