//  tests/unit/test_msg.c - protocol/msg.c against what a peer may send

#include "protocol/msg.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define KIND(name) TUTTI__ENVELOPE__BODY_##name

//  One of each message, legal; tests spoil one field.
typedef struct s_set {
    Tutti__Envelope e;
    Tutti__Hello hello;
    Tutti__Welcome welcome;
    Tutti__Heartbeat heartbeat;
    Tutti__Progress progress, *progresses[1];
    Tutti__RankProgress rank, *ranks[1];
    Tutti__KindCount kind, *kinds[1];
    Tutti__Refuse refuse;
    Tutti__Join join;
    Tutti__Config config;
    Tutti__Forming forming;
    Tutti__Start start;
    Tutti__Member member, *members[1];
    Tutti__Plan plan;
    Tutti__Lost lost;
    Tutti__Abort abort;
    uint8_t key[32];
    uint32_t member_ranks[300];
    char *data[1];
} s_set_t;

static void
s_init_node (s_set_t *s)
{
    tutti__hello__init (&s->hello);
    tutti__welcome__init (&s->welcome);
    tutti__heartbeat__init (&s->heartbeat);
    tutti__progress__init (&s->progress);
    tutti__rank_progress__init (&s->rank);
    tutti__kind_count__init (&s->kind);
    s->hello.node = "n1";
    s->welcome.heartbeat_ms = 200;
    s->progress.job = "j";
    s->ranks[0] = &s->rank;
    s->kinds[0] = &s->kind;
    s->progress.n_ranks = s->progress.n_kinds = 1;
    s->progress.ranks = s->ranks;
    s->progress.kinds = s->kinds;
    s->progresses[0] = &s->progress;
    s->heartbeat.n_progress = 1;
    s->heartbeat.progress = s->progresses;
}

static void
s_init_job (s_set_t *s)
{
    tutti__refuse__init (&s->refuse);
    tutti__join__init (&s->join);
    tutti__config__init (&s->config);
    tutti__forming__init (&s->forming);
    tutti__start__init (&s->start);
    tutti__member__init (&s->member);
    tutti__plan__init (&s->plan);
    tutti__lost__init (&s->lost);
    tutti__abort__init (&s->abort);
    s->refuse.code = s->abort.code = TUTTI_EJOIN;
    s->data[0] = "tcp://h:1";
    s->join.size = s->forming.size = s->start.size = 1;
    s->join.n_data = s->member.n_data = 1;
    s->join.data = s->member.data = s->data;
    s->join.config = s->start.config = &s->config;
    s->members[0] = &s->member;
    s->member.node = s->lost.node = "n1";
    s->member.n_ranks = 1;
    s->member.ranks = s->member_ranks;
    s->start.n_members = 1;
    s->start.members = s->members;
    s->start.plan = &s->plan;
    s->start.key = (ProtobufCBinaryData){ sizeof s->key, s->key };
}

static void
s_init (s_set_t *s)
{
    memset (s, 0, sizeof *s);
    s_init_node (s);
    s_init_job (s);
    tutti__envelope__init (&s->e);
    s->e.protocol = TP_PROTOCOL;
    s->e.job = "j";
}

static void
s_pick (s_set_t *s, int kind)
{
    ProtobufCMessage *body = NULL;
    switch (kind) {
    case KIND (HELLO):
        body = &s->hello.base;
        break;
    case KIND (WELCOME):
        body = &s->welcome.base;
        break;
    case KIND (HEARTBEAT):
        body = &s->heartbeat.base;
        break;
    case KIND (REFUSE):
        body = &s->refuse.base;
        break;
    case KIND (JOIN):
        body = &s->join.base;
        break;
    case KIND (FORMING):
        body = &s->forming.base;
        break;
    case KIND (START):
        body = &s->start.base;
        break;
    case KIND (LOST):
        body = &s->lost.base;
        break;
    case KIND (ABORT):
        body = &s->abort.base;
        break;
    }
    s->e.body_case = (Tutti__Envelope__BodyCase) kind;
    s->e.hello = (Tutti__Hello *) body;  //  a union of pointers
}

//  Pack, unpack: the verdict.
static tutti_err_t
s_verdict (s_set_t *s, int kind)
{
    uint8_t *bytes;
    size_t len;
    Tutti__Envelope *e = NULL;
    char text[TP_TEXT_MAX] = "";
    s_pick (s, kind);
    assert_int_equal (tp_msg_pack (&s->e, &bytes, &len), TUTTI_OK);
    tutti_err_t err = tp_msg_unpack (bytes, len, &e, text);
    free (bytes);
    assert_true ((err == TUTTI_OK) == (e != NULL));
    assert_true ((err == TUTTI_OK) == (text[0] == 0));
    tp_msg_free (&e);
    return err;
}

static void
test_legal (void **state)
{
    (void) state;
    s_set_t s;
    const int kinds[] = { KIND (HELLO),  KIND (WELCOME), KIND (HEARTBEAT),
                          KIND (REFUSE), KIND (JOIN),    KIND (FORMING),
                          KIND (START),  KIND (LOST),    KIND (ABORT) };
    s_init (&s);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        assert_int_equal (s_verdict (&s, kinds[i]), TUTTI_OK);
    assert_string_equal (tp_msg_name (&s.e), "ABORT");
}

#define BAD(kind, what)                                                       \
    do {                                                                      \
        s_set_t s;                                                            \
        s_init (&s);                                                          \
        what;                                                                 \
        assert_int_equal (s_verdict (&s, KIND (kind)), TUTTI_EPROTO);         \
    } while (0)

static char s_long[TP_TEXT_MAX + 1];

static void
test_bad_names_and_texts (void **state)
{
    (void) state;
    memset (s_long, 'a', TP_TEXT_MAX);
    BAD (HELLO, s.hello.node = "");
    BAD (HELLO, s.hello.node = "a b");
    BAD (HELLO, s.hello.host = s_long);
    BAD (HELLO, s.hello.data_host = s_long);
    BAD (HELLO, s.hello.version = "1\n2");
    BAD (HELLO,
         (s.hello.n_labels = 1, s.data[0] = s_long, s.hello.labels = s.data));
    BAD (WELCOME, s.e.job = "../x");
    BAD (HEARTBEAT, s.progress.job = "");
    BAD (HEARTBEAT, s.progress.transport = "\x1b[2J");
    BAD (HEARTBEAT, s.rank.op = s_long);
    BAD (REFUSE, s.refuse.text = s_long);
    BAD (JOIN, s.e.job = "");
    BAD (JOIN, s.join.host = s_long);
    BAD (JOIN, s.data[0] = s_long);
    BAD (JOIN, s.config.algorithm = s_long);
    BAD (JOIN, s.config.library = s_long);
    BAD (JOIN, s.config.agent = "\n");
    BAD (JOIN, s.join.build = "\x7f");
    BAD (START, s.member.node = "/");
    BAD (LOST, s.lost.node = "");
    BAD (LOST, s.lost.cause = s_long);
    BAD (ABORT, s.abort.text = s_long);
}

static void
test_bad_numbers (void **state)
{
    (void) state;
    BAD (WELCOME, s.welcome.heartbeat_ms = 0);
    BAD (WELCOME, s.welcome.heartbeat_ms = 1u << 30);
    BAD (HEARTBEAT, s.kind.kind = TP_KINDS);
    BAD (HEARTBEAT, s.rank.rank = TP_RANKS_MAX);
    BAD (REFUSE, s.refuse.code = 0);
    BAD (ABORT, s.abort.code = 5);
    BAD (ABORT, s.abort.rank = TP_RANKS_MAX);
    BAD (JOIN, s.join.rank = TP_RANKS_MAX);
    BAD (JOIN, s.join.size = 0);
    BAD (JOIN, s.join.size = TP_RANKS_MAX + 1);
    BAD (JOIN, s.join.local_rank = TP_LOCAL_MAX);
    BAD (FORMING, s.forming.present = 2);
    BAD (START, s.start.size = 2);
    BAD (START, s.start.key.len = 31);
    BAD (START, s.plan.alpha_us = NAN);
    BAD (START, s.plan.beta_us_per_mib = -1);
    BAD (START, s.plan.channels = 9);
    BAD (START, s.member_ranks[0] = 1);
    BAD (START, (s.member.n_ranks = 2, s.start.size = 2));  //  0 twice
    BAD (START, s.e.epoch = -1);
    BAD (HEARTBEAT, s.progress.epoch = -1);
    BAD (JOIN, (s.config.elastic_min = 2, s.config.elastic_max = 1));
    BAD (JOIN, s.config.elastic_max = TP_RANKS_MAX + 1);
    BAD (START, s.member.n_ranks = 0);
    BAD (START, (s.member.n_ranks = 300, s.start.size = 300));
}

//  Two ranks of one node, and an elastic job.
static void
test_good_numbers (void **state)
{
    (void) state;
    s_set_t s;
    s_init (&s);
    s.member.n_ranks = s.start.size = 2;
    s.member_ranks[0] = 1;
    s.config.elastic_min = 1;
    s.config.elastic_max = TP_RANKS_MAX;
    s.e.epoch = INT64_MAX;
    assert_int_equal (s_verdict (&s, KIND (START)), TUTTI_OK);
}

static void
test_missing_parts (void **state)
{
    (void) state;
    BAD (JOIN, s.join.config = NULL);
    BAD (JOIN, s.join.n_data = 0);
    BAD (START, s.start.config = NULL);
    BAD (START, s.start.plan = NULL);
    BAD (START, s.start.n_members = 0);
    BAD (START, s.member.n_data = 0);
    BAD (_NOT_SET, );
}

static void
test_versions (void **state)
{
    (void) state;
    s_set_t s;
    s_init (&s);
    s.e.protocol = (TP_PROTOCOL_MAJOR + 1) << 16;
    assert_int_equal (s_verdict (&s, KIND (HELLO)), TUTTI_EVERSION);
    s.e.protocol = TP_PROTOCOL + 1;  //  another minor
    assert_int_equal (s_verdict (&s, KIND (HELLO)), TUTTI_OK);
    s.e.protocol = 0;
    assert_int_equal (s_verdict (&s, KIND (HELLO)), TUTTI_EPROTO);
}

//  Every prefix, every flipped bit: a verdict, never a crash.
static void
test_broken_bytes (void **state)
{
    (void) state;
    s_set_t s;
    uint8_t *bytes;
    size_t len;
    s_init (&s);
    s_pick (&s, KIND (START));
    assert_int_equal (tp_msg_pack (&s.e, &bytes, &len), TUTTI_OK);
    for (size_t i = 0; i < len * 9; i++) {
        Tutti__Envelope *e = NULL;
        if (i >= len)
            bytes[i / 9] ^= (uint8_t) (1u << i % 8);
        tp_msg_unpack (bytes, i < len ? i : len, &e, NULL);
        tp_msg_free (&e);
    }
    free (bytes);
    assert_int_equal (tp_msg_unpack ((const uint8_t *) "", TP_MSG_MAX + 1,
                                     &(Tutti__Envelope *){ NULL }, NULL),
                      TUTTI_EPROTO);
}

int
main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_legal),
        cmocka_unit_test (test_bad_names_and_texts),
        cmocka_unit_test (test_bad_numbers),
        cmocka_unit_test (test_good_numbers),
        cmocka_unit_test (test_missing_parts),
        cmocka_unit_test (test_versions),
        cmocka_unit_test (test_broken_bytes),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
