//  tests/unit/test_store.c - coordinator/store_sqlite.c on real files

#include "coordinator/store.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct s_place {
    char folder[64];
    char path[96];
    char url[112];
} s_place_t;

static int
s_setup (void **state)
{
    s_place_t *p = calloc (1, sizeof *p);
    snprintf (p->folder, sizeof p->folder, "/tmp/test_store.XXXXXX");
    if (!mkdtemp (p->folder))
        return -1;
    snprintf (p->path, sizeof p->path, "%s/state.db", p->folder);
    snprintf (p->url, sizeof p->url, "sqlite:%s", p->path);
    *state = p;
    return 0;
}

static int
s_teardown (void **state)
{
    static const char *const endings[] = { "", "-wal", "-shm", "-journal" };
    s_place_t *p = *state;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        char path[128];
        snprintf (path, sizeof path, "%s%s", p->path, endings[i]);
        unlink (path);
    }
    int rc = rmdir (p->folder);
    free (p);
    return rc;
}

static tc_store_t *
s_open (const s_place_t *p, int64_t *epoch)
{
    static uint64_t incarnation;
    tc_store_t *store = NULL;
    char text[TP_TEXT_MAX] = "";
    uint64_t mine = ++incarnation + ((uint64_t) getpid () << 32);
    if (tc_store_open (&store, p->url, mine, epoch, text))
        fail_msg ("%s", text);
    return store;
}

//  Run SQL on the closed file; the first column of the first row.
static int64_t
s_sql (const s_place_t *p, const char *sql)
{
    sqlite3 *db;
    sqlite3_stmt *s;
    int64_t value = -1;
    assert_int_equal (sqlite3_open (p->path, &db), SQLITE_OK);
    assert_int_equal (sqlite3_prepare_v2 (db, sql, -1, &s, NULL), SQLITE_OK);
    if (sqlite3_step (s) == SQLITE_ROW)
        value = sqlite3_column_int64 (s, 0);
    sqlite3_finalize (s);
    sqlite3_close (db);
    return value;
}

static void
s_job (tc_store_t *store, int64_t epoch, const char *state, const char *text)
{
    tc_store_job_t job = { .job = "j", .size = 2, .epoch = epoch };
    snprintf (job.state, sizeof job.state, "%s", state);
    snprintf (job.text, sizeof job.text, "%s", text);
    tc_store_job (store, &job);
}

static void
test_without_a_store (void **state)
{
    (void) state;
    tc_store_t *store = (tc_store_t *) 1;
    int64_t epoch = 7;
    size_t n = 7;
    assert_int_equal (tc_store_open (&store, NULL, 1, &epoch, NULL), TUTTI_OK);
    assert_null (store);
    assert_int_equal (epoch, 0);
    s_job (store, 1, "failed", "");
    tc_store_epoch (store, 1);
    tc_store_node (store, "n", "h", "ready");
    assert_null (tc_store_history (store, &n));
    assert_int_equal (n, 0);
    tc_store_close (&store);
}

static void
s_refused (const char *url, tutti_err_t want, const char *word)
{
    tc_store_t *store;
    int64_t epoch;
    char text[TP_TEXT_MAX] = "";
    assert_int_equal (tc_store_open (&store, url, 99, &epoch, text), want);
    assert_null (store);
    if (!strstr (text, word))
        fail_msg ("no \"%s\" in: %s", word, text);
}

static void
test_bad_places (void **state)
{
    const s_place_t *p = *state;
    char url[128];
    s_refused ("etcd:http://x", TUTTI_EINVAL, "only sqlite:PATH");
    s_refused ("sqlite:/nonexistent/x.db", TUTTI_EINVAL, "unable to open");
    snprintf (url, sizeof url, "sqlite:%s", p->folder);
    s_refused (url, TUTTI_EINVAL, "unable to open");
    FILE *file = fopen (p->path, "w");
    assert_non_null (file);
    for (int i = 0; i < 1000; i++)
        fputs ("this is no database\n", file);
    fclose (file);
    s_refused (p->url, TUTTI_EINVAL, "not a database");
}

//  A file of another version is left as it is.
static void
test_another_schema (void **state)
{
    const s_place_t *p = *state;
    s_sql (p, "CREATE TABLE meta(key TEXT PRIMARY KEY, value INTEGER)");
    s_sql (p, "INSERT INTO meta VALUES('schema', 99)");
    s_refused (p->url, TUTTI_EINVAL, "schema 99");
    assert_int_equal (s_sql (p, "SELECT count(*) FROM sqlite_master WHERE "
                                "type='table'"),
                      1);
}

//  No epoch twice: after an orderly end, and after none.
static void
test_epochs (void **state)
{
    const s_place_t *p = *state;
    int64_t epoch;
    tc_store_t *store = s_open (p, &epoch);
    assert_int_equal (epoch, 0);
    tc_store_epoch (store, 5000);
    tc_store_epoch (store, 4000);  //  never back
    tc_store_close (&store);
    assert_null (store);
    store = s_open (p, &epoch);
    assert_true (epoch >= 5000);
    tc_store_close (&store);
    int64_t before = epoch;
    pid_t child = fork ();
    if (child == 0) {
        s_open (p, &epoch);
        _exit (epoch > before ? 0 : 1);
    }
    int status;
    assert_int_equal (waitpid (child, &status, 0), child);
    assert_int_equal (status, 0);
    store = s_open (p, &epoch);
    assert_true (epoch >= before + 2 * TC_STORE_EPOCHS);
    tc_store_close (&store);
}

//  Two would give out the same epochs.
static void
test_one_coordinator_a_file (void **state)
{
    const s_place_t *p = *state;
    int64_t epoch;
    tc_store_t *store = s_open (p, &epoch);
    s_refused (p->url, TUTTI_ESTATE, "in use");
    tc_store_close (&store);
    store = s_open (p, &epoch);
    tc_store_close (&store);
}

static void
test_history (void **state)
{
    const s_place_t *p = *state;
    int64_t epoch;
    size_t n;
    tc_store_t *store = s_open (p, &epoch);
    tc_store_history (store, &n);
    assert_int_equal (n, 0);
    for (int64_t e = 1; e <= TC_STORE_HISTORY + 6; e++) {
        s_job (store, e, "forming", "");
        s_job (store, e, "running", "");
        s_job (store, e, e % 2 ? "finished" : "failed", "it's \"lost\"");
    }
    s_job (store, 1000, "running", "");  //  its end is not known
    tc_store_close (&store);
    store = s_open (p, &epoch);
    const tc_store_job_t *job = tc_store_history (store, &n);
    assert_int_equal (n, TC_STORE_HISTORY);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal (job[i].epoch, i + 7);
        assert_string_equal (job[i].job, "j");
        assert_int_equal (job[i].size, 2);
        assert_string_equal (job[i].state, i % 2 ? "failed" : "finished");
        assert_string_equal (job[i].text, "it's \"lost\"");
    }
    tc_store_close (&store);
}

static void
test_nodes_and_events (void **state)
{
    const s_place_t *p = *state;
    int64_t epoch;
    tc_store_t *store = s_open (p, &epoch);
    tc_store_node (store, "n1", "h1", "ready");
    tc_store_node (store, "n1", "h1", "lost");
    s_job (store, 1, "running", "");
    tc_store_close (&store);
    assert_int_equal (s_sql (p, "SELECT count(*) FROM nodes WHERE node='n1' "
                                "AND host='h1' AND state='lost'"),
                      1);
    assert_int_equal (s_sql (p, "SELECT count(*) FROM nodes"), 1);
    assert_int_equal (s_sql (p, "SELECT count(*) FROM events WHERE "
                                "kind='node' AND name='n1' AND text='h1'"),
                      2);
    assert_int_equal (s_sql (p, "SELECT epoch FROM events WHERE kind='job' "
                                "AND name='j' AND state='running'"),
                      1);
    assert_int_equal (s_sql (p, "SELECT count(*) FROM incarnations"), 1);
}

static void
test_old_events_go (void **state)
{
    const s_place_t *p = *state;
    int64_t epoch;
    tc_store_t *store = s_open (p, &epoch);
    tc_store_close (&store);
    s_sql (p, "INSERT INTO events(id, kind) WITH RECURSIVE n(i) AS (SELECT 1 "
              "UNION ALL SELECT i+1 FROM n WHERE i < 10200) SELECT i, 'x' "
              "FROM n");
    store = s_open (p, &epoch);
    tc_store_close (&store);
    assert_int_equal (s_sql (p, "SELECT count(*) FROM events"),
                      TC_STORE_EVENTS);
    assert_int_equal (s_sql (p, "SELECT min(id) FROM events"), 201);
}

//  More than the queue holds: the loop never waits, records may be lost, the
//  reservation of epochs may not.
static void
test_a_flood (void **state)
{
    const s_place_t *p = *state;
    int64_t epoch;
    tc_store_t *store = s_open (p, &epoch);
    for (int64_t e = 1; e <= 20000; e++)
        s_job (store, e, "finished", "");
    tc_store_epoch (store, 77777);
    tc_store_close (&store);
    int64_t kept = s_sql (p, "SELECT count(*) FROM jobs");
    assert_true (kept >= 4096 && kept <= 20000);
    assert_int_equal (s_sql (p, "SELECT count(*) FROM events"), kept);
    assert_int_equal (s_sql (p, "SELECT value FROM meta WHERE key='epoch'"),
                      77777);
}

#define TEST(f) cmocka_unit_test_setup_teardown (f, s_setup, s_teardown)

int
main (void)
{
    const struct CMUnitTest tests[] = {
        TEST (test_without_a_store),
        TEST (test_bad_places),
        TEST (test_another_schema),
        TEST (test_epochs),
        TEST (test_one_coordinator_a_file),
        TEST (test_history),
        TEST (test_nodes_and_events),
        TEST (test_old_events_go),
        TEST (test_a_flood),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
