//  tests/unit/test_job.c - coordinator/job.c, with no network and no clock

#include "coordinator/job.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIND(name) TUTTI__ENVELOPE__BODY_##name
#define SENT_MAX 256

typedef struct s_sent {
    char node[TP_NAME_MAX];
    int kind;
    int64_t epoch;
    uint32_t rank;
    char text[TP_TEXT_MAX];  //  of REFUSE, FORMING, LOST, ABORT
    char ring[64];           //  of START: nodes with their ranks
} s_sent_t;

typedef struct s_world {
    s_sent_t sent[SENT_MAX];
    size_t n;
    int64_t epoch, changes;
    tc_job_context_t context;
    tc_job_t *job;
} s_world_t;

static void
s_take_start (s_sent_t *sent, const Tutti__Start *start)
{
    size_t at = 0;
    assert_int_equal (start->key.len, 32);
    assert_int_equal (start->plan->id, 1);
    for (size_t i = 0; i < start->n_members; i++) {
        const Tutti__Member *m = start->members[i];
        at += (size_t) snprintf (sent->ring + at, sizeof sent->ring - at,
                                 "%s:", m->node);
        for (size_t k = 0; k < m->n_ranks; k++)
            at += (size_t) snprintf (sent->ring + at, sizeof sent->ring - at,
                                     "%u,", m->ranks[k]);
    }
}

static const tc_store_plan_t *
s_plan (void *arg, const tc_shape_t *shape, bool *made_p)
{
    static tc_store_plan_t plan;
    (void) arg;
    tc_plans_fingerprint (shape, plan.fingerprint);
    TP_PLAN_DEFAULT (&plan.plan);
    plan.plan.id = 1;
    *made_p = true;
    return &plan;
}

static void
s_send (void *arg, const char *node, Tutti__Envelope *e)
{
    s_world_t *w = arg;
    assert_true (w->n < SENT_MAX);
    s_sent_t *s = &w->sent[w->n++];
    *s = (s_sent_t){ .kind = (int) e->body_case, .epoch = e->epoch };
    snprintf (s->node, sizeof s->node, "%s", node);
    assert_string_equal (e->job, "j");
    if (e->body_case == KIND (REFUSE)) {
        //  A rank that has left may ask again until the others have, too.
        assert_int_equal (e->refuse->code,
                          strstr (e->refuse->text, "has left this run")
                              ? TUTTI_EAGAIN
                              : TUTTI_EJOIN);
        assert_true (e->refuse->has_rank);
        s->rank = e->refuse->rank;
        snprintf (s->text, sizeof s->text, "%s", e->refuse->text);
    }
    else if (e->body_case == KIND (FORMING))
        snprintf (s->text, sizeof s->text, "%s", e->forming->missing);
    else if (e->body_case == KIND (LOST)) {
        s->rank = e->lost->rank;
        snprintf (s->text, sizeof s->text, "%s", e->lost->cause);
    }
    else if (e->body_case == KIND (ABORT))
        snprintf (s->text, sizeof s->text, "%s", e->abort->text);
    else if (e->body_case == KIND (START))
        s_take_start (s, e->start);
}

static int64_t
s_epoch (void *arg)
{
    return ++((s_world_t *) arg)->epoch;
}

static void
s_changed (void *arg, const tc_job_t *job)
{
    (void) job;
    ((s_world_t *) arg)->changes++;
}

typedef struct s_join {
    uint32_t rank, size, pid;
    bool wide, reproducible;
    uint32_t elastic_min, elastic_max;
    const char *algorithm, *transport, *library, *agent;
} s_join_t;

static void
s_join (s_world_t *w, const char *node, s_join_t j, int64_t now_ms)
{
    Tutti__Join join = TUTTI__JOIN__INIT;
    Tutti__Config config = TUTTI__CONFIG__INIT;
    char address[TP_NAME_MAX + 8], *data[] = { address };
    snprintf (address, sizeof address, "tcp://%s:1", node);
    config.transport = (char *) (j.transport ? j.transport : "tcp");
    config.algorithm = (char *) (j.algorithm ? j.algorithm : "");
    config.library = (char *) (j.library ? j.library : "1.0.0");
    config.agent = (char *) (j.agent ? j.agent : "1.0.0");
    config.wide = j.wide;
    config.reproducible = j.reproducible;
    config.elastic_min = j.elastic_min;
    config.elastic_max = j.elastic_max;
    join.rank = j.rank;
    join.size = j.size;
    join.pid = j.pid ? j.pid : 100 + j.rank;
    join.host = (char *) node;
    join.n_data = 1;
    join.data = data;
    join.config = &config;
    if (!w->job)
        assert_int_equal (
            tc_job_new (&w->job, "j", 0, &join, &w->context, now_ms),
            TUTTI_OK);
    tc_job_join (w->job, node, &join, now_ms);
}

//  How many of KIND went to NODE (NULL: to anybody) since the last call.
static size_t
s_count (s_world_t *w, int kind, const char *node)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n; i++)
        n += w->sent[i].kind == kind &&
             (!node || strcmp (w->sent[i].node, node) == 0);
    return n;
}

static const s_sent_t *
s_last (const s_world_t *w)
{
    assert_true (w->n > 0);
    return &w->sent[w->n - 1];
}

static int
s_setup (void **state)
{
    s_world_t *w = calloc (1, sizeof *w);
    w->context = (tc_job_context_t){ w, s_send, s_epoch, s_plan, s_changed };
    *state = w;
    return 0;
}

static int
s_teardown (void **state)
{
    s_world_t *w = *state;
    tc_job_destroy (&w->job);
    assert_null (w->job);
    free (w);
    return 0;
}

//  Four ranks: 0 and 3 on n10, 1 and 2 on n2.
static void
s_start (s_world_t *w)
{
    s_join (w, "n10", (s_join_t){ .rank = 0, .size = 4 }, 0);
    s_join (w, "n2", (s_join_t){ .rank = 2, .size = 4 }, 0);
    s_join (w, "n10", (s_join_t){ .rank = 3, .size = 4 }, 0);
    s_join (w, "n2", (s_join_t){ .rank = 1, .size = 4 }, 0);
    assert_int_equal (tc_job_state (w->job), TC_JOB_STARTING);
}

static void
s_run (s_world_t *w)
{
    s_start (w);
    tc_job_ready (w->job, "n2");
    tc_job_ready (w->job, "n10");
    assert_int_equal (tc_job_state (w->job), TC_JOB_RUNNING);
    w->n = 0;
}

static void
test_course (void **state)
{
    s_world_t *w = *state;
    s_start (w);
    assert_int_equal (s_count (w, KIND (START), "n2"), 1);
    assert_int_equal (s_count (w, KIND (START), "n10"), 1);
    assert_string_equal (s_last (w)->ring, "n2:1,2,n10:0,3,");
    assert_int_equal (s_last (w)->epoch, 1);
    tc_job_ready (w->job, "n2");
    tc_job_ready (w->job, "n2");
    tc_job_ready (w->job, "stranger");
    assert_int_equal (s_count (w, KIND (GO), NULL), 0);
    tc_job_ready (w->job, "n10");
    assert_int_equal (s_count (w, KIND (GO), NULL), 2);
    for (uint32_t r = 0; r < 4; r++) {
        assert_int_equal (s_count (w, KIND (FINISHED), NULL), 0);
        tc_job_leave (w->job, r, 0);
        tc_job_leave (w->job, r, 0);
    }
    assert_int_equal (s_count (w, KIND (FINISHED), NULL), 2);
    assert_int_equal (tc_job_state (w->job), TC_JOB_FINISHED);
    assert_int_equal (w->changes, 3);
}

static void
test_forming (void **state)
{
    s_world_t *w = *state;
    s_join (w, "a", (s_join_t){ .rank = 3, .size = 8 }, 0);
    assert_string_equal (s_last (w)->text, "0-2, 4-7");
    s_join (w, "b", (s_join_t){ .rank = 0, .size = 8 }, 50);
    assert_int_equal (w->n, 1);  //  hushed
    tc_job_tick (w->job, 99);
    assert_int_equal (w->n, 1);
    tc_job_tick (w->job, 100);
    assert_int_equal (s_count (w, KIND (FORMING), NULL), 3);
    assert_string_equal (s_last (w)->text, "1-2, 4-7");
    tc_job_tick (w->job, 2099);
    assert_int_equal (w->n, 3);
    tc_job_tick (w->job, 2100);
    assert_int_equal (w->n, 5);
}

static void
s_refused (s_world_t *w, s_join_t join, const char *const *words)
{
    w->n = 0;
    s_join (w, "b", join, 0);
    assert_int_equal (w->n, 1);
    assert_int_equal (s_last (w)->kind, KIND (REFUSE));
    assert_string_equal (s_last (w)->node, "b");
    assert_int_equal (s_last (w)->rank, join.rank);
    for (; *words; words++)
        if (!strstr (s_last (w)->text, *words))
            fail_msg ("no \"%s\" in: %s", *words, s_last (w)->text);
}

static void
test_refusals (void **state)
{
    s_world_t *w = *state;
    s_join (w, "a", (s_join_t){ .rank = 0, .size = 2 }, 0);
    s_refused (w, (s_join_t){ .rank = 1, .size = 3 },
               (const char *[]){ "rank 1 (host b, pid 101)", "3 ranks",
                                 "rank 0 (host a, pid 100)", "says 2", NULL });
    s_refused (w, (s_join_t){ .rank = 2, .size = 2 },
               (const char *[]){ "rank 2", "from 0 to 1", NULL });
    s_refused (
        w, (s_join_t){ .rank = 0, .size = 2, .pid = 7 },
        (const char *[]){ "pid 100 on host a", "pid 7 on host b", NULL });
    s_refused (w, (s_join_t){ .rank = 1, .size = 2, .wide = true },
               (const char *[]){ "wide must be", "wide=1", "wide=0", NULL });
    w->n = 0;
    s_join (w, "a", (s_join_t){ .rank = 0, .size = 2 }, 0);  //  again
    assert_int_equal (w->n, 0);
    s_join (w, "b", (s_join_t){ .rank = 1, .size = 2 }, 0);
    assert_int_equal (tc_job_state (w->job), TC_JOB_STARTING);
    tc_job_leave (w->job, 1, 0);
    s_refused (w, (s_join_t){ .rank = 1, .size = 2 },
               (const char *[]){ "has left this run", NULL });
}

//  Every option that must be equal, with both sides in the sentence.
static void
test_configs_that_differ (void **state)
{
    s_world_t *w = *state;
    s_join (w, "a", (s_join_t){ .rank = 0, .size = 2 }, 0);
    s_refused (w, (s_join_t){ .rank = 1, .size = 2, .reproducible = true },
               (const char *[]){ "reproducible must be", "rank 1 has",
                                 "reproducible=1", "rank 0 has",
                                 "reproducible=0", NULL });
    s_refused (w, (s_join_t){ .rank = 1, .size = 2, .elastic_max = 2 },
               (const char *[]){ "elastic must be", "elastic=0:2",
                                 "elastic=0:0", NULL });
    s_refused (
        w,
        (s_join_t){ .rank = 1, .size = 2, .elastic_min = 1, .elastic_max = 1 },
        (const char *[]){ "elastic must be", "elastic=1:1", NULL });
    s_refused (w, (s_join_t){ .rank = 1, .size = 2, .algorithm = "ring" },
               (const char *[]){ "algorithm must be", "algorithm=ring",
                                 "algorithm=-", NULL });
    s_refused (w, (s_join_t){ .rank = 1, .size = 2, .transport = "rdma" },
               (const char *[]){ "transport must be", "transport=rdma",
                                 "transport=tcp", NULL });
    s_refused (w, (s_join_t){ .rank = 1, .size = 2, .library = "1.0.1" },
               (const char *[]){ "library must be", "library=1.0.1",
                                 "library=1.0.0", NULL });
    s_refused (w, (s_join_t){ .rank = 1, .size = 2, .agent = "1.0.1" },
               (const char *[]){ "agent must be", "agent=1.0.1", "agent=1.0.0",
                                 NULL });
    assert_int_equal (tc_job_joined (w->job), 1);
    assert_int_equal (tc_job_state (w->job), TC_JOB_FORMING);
}

//  Nodes come and go while the job forms: START has the right ranks.
static void
test_nodes_change_while_forming (void **state)
{
    s_world_t *w = *state;
    s_join (w, "c", (s_join_t){ .rank = 0, .size = 4 }, 0);
    s_join (w, "b", (s_join_t){ .rank = 1, .size = 4 }, 0);
    s_join (w, "a", (s_join_t){ .rank = 2, .size = 4 }, 0);
    tc_job_leave (w->job, 0, 0);  //  the last node takes the place of c
    s_join (w, "b", (s_join_t){ .rank = 0, .size = 4 }, 0);
    s_join (w, "a", (s_join_t){ .rank = 3, .size = 4 }, 0);
    assert_int_equal (tc_job_state (w->job), TC_JOB_STARTING);
    assert_string_equal (s_last (w)->ring, "a:2,3,b:0,1,");
    assert_int_equal (s_count (w, KIND (START), "c"), 0);
}

static void
test_going_while_forming (void **state)
{
    s_world_t *w = *state;
    Tutti__Lost lost = TUTTI__LOST__INIT;
    s_join (w, "a", (s_join_t){ .rank = 0, .size = 4 }, 0);
    s_join (w, "b", (s_join_t){ .rank = 1, .size = 4 }, 0);
    s_join (w, "b", (s_join_t){ .rank = 2, .size = 4 }, 0);
    tc_job_leave (w->job, 0, 1000);
    assert_string_equal (s_last (w)->text, "0, 3");
    assert_string_equal (s_last (w)->node, "b");
    lost.rank = 1;
    tc_job_lost (w->job, "a", &lost, 2000);  //  not its own
    assert_int_equal (tc_job_joined (w->job), 2);
    tc_job_lost (w->job, "b", &lost, 2000);
    assert_string_equal (s_last (w)->text, "0-1, 3");
    w->n = 0;
    s_join (w, "c", (s_join_t){ .rank = 0, .size = 5 }, 2000);
    assert_non_null (strstr (s_last (w)->text, "rank 2 (host b"));
    tc_job_node_lost (w->job, "b", "silent", 3000);
    assert_int_equal (tc_job_state (w->job), TC_JOB_FINISHED);
}

static void
test_lost (void **state)
{
    s_world_t *w = *state;
    Tutti__Lost lost = TUTTI__LOST__INIT;
    s_run (w);
    lost.rank = 1;
    lost.cause = "killed by signal 9";
    tc_job_lost (w->job, "n10", &lost, 0);  //  not its own
    assert_int_equal (w->n, 0);
    lost.rank = 99;
    tc_job_lost (w->job, "n2", &lost, 0);
    assert_int_equal (w->n, 0);
    lost.rank = 1;
    tc_job_lost (w->job, "n2", &lost, 0);
    assert_int_equal (w->n, 1);
    assert_string_equal (s_last (w)->node, "n10");
    assert_string_equal (s_last (w)->text, "killed by signal 9");
    assert_int_equal (tc_job_state (w->job), TC_JOB_FAILED);
    assert_string_equal (
        tc_job_text (w->job),
        "rank 1 (node n2, pid 101) was lost: killed by signal 9");
    tc_job_leave (w->job, 0, 0);
    tc_job_leave (w->job, 2, 0);
    assert_int_equal (s_count (w, KIND (FINISHED), NULL), 0);
    tc_job_leave (w->job, 3, 0);
    assert_int_equal (s_count (w, KIND (FINISHED), NULL), 2);
    assert_int_equal (tc_job_state (w->job), TC_JOB_FAILED);
}

static void
test_node_lost (void **state)
{
    s_world_t *w = *state;
    s_run (w);
    tc_job_node_lost (w->job, "n2", "node n2 silent for 5.0 s", 0);
    assert_int_equal (s_count (w, KIND (LOST), "n10"), 2);
    assert_int_equal (s_count (w, KIND (LOST), "n2"), 0);
    assert_int_equal (tc_job_state (w->job), TC_JOB_FAILED);
    tc_job_node_lost (w->job, "n2", "again", 0);
    assert_int_equal (w->n, 2);
}

static void
test_abort_and_supersede (void **state)
{
    s_world_t *w = *state;
    Tutti__Abort abort = TUTTI__ABORT__INIT;
    s_run (w);
    abort.comm = 7;
    abort.text = "enough";
    tc_job_abort (w->job, "stranger", &abort);
    assert_int_equal (w->n, 0);
    tc_job_abort (w->job, "n2", &abort);
    assert_int_equal (w->n, 1);
    assert_string_equal (s_last (w)->node, "n10");
    tc_job_supersede (w->job, 1);
    assert_int_equal (s_count (w, KIND (ABORT), NULL), 3);
    assert_int_equal (tc_job_state (w->job), TC_JOB_FAILED);
    tc_job_mute (w->job);
    w->n = 0;
    tc_job_node_lost (w->job, "n2", "silent", 0);
    assert_int_equal (w->n, 0);
}

static void
test_progress (void **state)
{
    s_world_t *w = *state;
    Tutti__Progress p = TUTTI__PROGRESS__INIT;
    Tutti__RankProgress mine = TUTTI__RANK_PROGRESS__INIT;
    Tutti__RankProgress foreign = TUTTI__RANK_PROGRESS__INIT;
    Tutti__RankProgress *ranks[] = { &mine, &foreign };
    size_t n;
    s_run (w);
    mine.rank = 1;
    mine.seq = 42;
    mine.op = "barrier";
    mine.path = "a path that is much too long";
    foreign.rank = 0;
    foreign.seq = 43;
    p.job = "j";
    p.wire_bytes = 9;
    p.n_ranks = 2;
    p.ranks = ranks;
    tc_job_progress (w->job, "n2", &p, 0);
    assert_int_equal (tc_job_rank (w->job, 1)->seq, 42);
    assert_string_equal (tc_job_rank (w->job, 1)->path, "a path that is ");
    assert_int_equal (tc_job_rank (w->job, 0)->seq, 0);
    assert_int_equal (tc_job_parts (w->job, &n)[0].wire_bytes, 9);
    assert_int_equal (n, 2);
}

static void
s_stall (s_world_t *w, const char *node, uint64_t seq, uint8_t kind)
{
    Tutti__Stall stall = TUTTI__STALL__INIT;
    tp_sig_t sig = { .kind = kind };
    char text[64];
    snprintf (text, sizeof text, "%s called kind %d", node, kind);
    stall.comm = 5;
    stall.seq = seq;
    stall.sig = (ProtobufCBinaryData){ sizeof sig, (uint8_t *) &sig };
    stall.text = text;
    tc_job_stall (w->job, node, &stall);
}

static void
test_stalls_that_differ (void **state)
{
    s_world_t *w = *state;
    s_run (w);
    s_stall (w, "stranger", 3, TP_ALLREDUCE);
    s_stall (w, "n2", 3, TP_ALLREDUCE);
    s_stall (w, "n10", 4, TP_BARRIER);  //  of another op
    s_stall (w, "n10", 3, TP_ALLREDUCE);
    assert_int_equal (w->n, 0);
    s_stall (w, "n10", 3, TP_BARRIER);
    assert_int_equal (s_count (w, KIND (ABORT), "n2"), 1);
    assert_int_equal (s_count (w, KIND (ABORT), "n10"), 1);
    assert_non_null (strstr (s_last (w)->text, "op #3: n2 called kind 1"));
    assert_non_null (strstr (s_last (w)->text, "n10 called kind 0"));
}

static void
s_report (s_world_t *w, uint64_t us, uint64_t ops, bool waiting,
          int64_t now_ms)
{
    Tutti__Progress p = TUTTI__PROGRESS__INIT;
    Tutti__RankProgress rank = TUTTI__RANK_PROGRESS__INIT;
    Tutti__RankProgress *ranks[] = { &rank };
    Tutti__KindCount kind = TUTTI__KIND_COUNT__INIT, *kinds[] = { &kind };
    rank.rank = 1;
    rank.waiting = waiting;
    kind.total_us = us;
    kind.ops = ops;
    p.job = "j";
    p.n_ranks = p.n_kinds = 1;
    p.ranks = ranks;
    p.kinds = kinds;
    tc_job_progress (w->job, "n2", &p, now_ms);
}

static bool
s_share_is (const s_world_t *w, double want)
{
    double share = tc_job_comm_share (w->job);
    return share > want - 1e-9 && share < want + 1e-9;
}

static void
test_comm_share (void **state)
{
    s_world_t *w = *state;
    s_run (w);
    assert_true (s_share_is (w, -1));
    s_report (w, 1000, 1, false, 1000);
    s_report (w, 501000, 3, false, 2000);
    assert_true (s_share_is (w, -1));  //  the window is open
    s_report (w, 501000, 3, false, 3000);
    assert_true (s_share_is (w, 0.25));
    s_report (w, 501000, 3, true, 9000);  //  in flight: time not known yet
    assert_true (s_share_is (w, 0.25));
    s_report (w, 9501000, 4, false, 13000);
    assert_true (s_share_is (w, 0.9));
    s_report (w, 99999000, 9, false, 15000);  //  many at a time
    assert_true (s_share_is (w, 1));
    s_report (w, 10, 1, false, 16000);  //  another worker
    s_report (w, 10, 1, false, 18000);
    assert_true (s_share_is (w, 0));
    for (uint32_t r = 0; r < 4; r++)
        tc_job_leave (w->job, r, 0);
    assert_true (s_share_is (w, -1));
}

static void
test_restored (void **state)
{
    s_world_t *w = *state;
    tc_store_job_t record = { .job = "j",
                              .attempt = 2,
                              .size = 3,
                              .epoch = 9,
                              .state = "failed",
                              .text = "why" };
    assert_int_equal (tc_job_restore (&w->job, &record, &w->context),
                      TUTTI_OK);
    assert_int_equal (tc_job_state (w->job), TC_JOB_FAILED);
    assert_int_equal (tc_job_attempt (w->job), 2);
    assert_int_equal (tc_job_size (w->job), 3);
    assert_int_equal (tc_job_epoch (w->job), 9);
    assert_string_equal (tc_job_text (w->job), "why");
    tc_job_ready (w->job, "n");  //  nothing wakes it
    tc_job_leave (w->job, 0, 0);
    tc_job_node_lost (w->job, "n", "silent", 0);
    tc_job_tick (w->job, 99999);
    assert_int_equal (w->n, 0);
    assert_int_equal (w->changes, 0);
}

static void
test_bad_records (void **state)
{
    s_world_t *w = *state;
    const tc_store_job_t good = { .job = "j", .size = 1, .state = "finished" };
    tc_store_job_t bad[4] = { good, good, good, good };
    snprintf (bad[0].state, sizeof bad[0].state, "running");
    bad[1].size = 0;
    bad[2].size = TP_RANKS_MAX + 1;
    bad[3].job[0] = '/';
    for (size_t i = 0; i < 4; i++)
        assert_int_equal (tc_job_restore (&w->job, &bad[i], &w->context),
                          TUTTI_EINVAL);
    assert_null (w->job);
    assert_int_equal (tc_job_restore (&w->job, &good, &w->context), TUTTI_OK);
}

#define TEST(f) cmocka_unit_test_setup_teardown (f, s_setup, s_teardown)

int
main (void)
{
    const struct CMUnitTest tests[] = {
        TEST (test_course),
        TEST (test_forming),
        TEST (test_refusals),
        TEST (test_going_while_forming),
        TEST (test_lost),
        TEST (test_node_lost),
        TEST (test_progress),
        TEST (test_abort_and_supersede),
        TEST (test_configs_that_differ),
        TEST (test_nodes_change_while_forming),
        TEST (test_stalls_that_differ),
        TEST (test_comm_share),
        TEST (test_restored),
        TEST (test_bad_records),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
