//  coordinator/store_sqlite.c - state in SQLite, written by its own thread
//
//  Tables: meta (schema version, highest epoch that may have been given out),
//  incarnations (one per start), jobs (the last state of every run that was
//  started), nodes, plans (by fingerprint of the cluster), events (every
//  change of a job or node).
//
//  The thread takes what waits and writes it in one transaction that is
//  synced: many records cost one wait for the disk.

#include "coordinator/store.h"

#include "coordinator/log.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SCHEMA 2
#define QUEUE 4096
#define BUSY_MS 2000  //  for a coordinator that is just ending
#define RETRY_MS 1000

typedef enum { JOB, NODE, PLAN, KINDS } kind_t;

typedef struct record {
    kind_t kind;
    tc_store_job_t job;  //  NODE: job is the node, text its host
    tc_store_plan_t plan;
} record_t;

//  A ring under a mutex; the loop only copies into it.
struct tc_store {  //  db is the thread's while it runs
    sqlite3 *db;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more;
    record_t *ring;     //  QUEUE of them
    size_t head, tail;  //  tail moves when it is on disk
    int64_t epoch;      //  to be written; 0: nothing new
    uint64_t dropped;   //  since the queue was full
    bool ending;
    tc_store_job_t *history;
    size_t n_history;
    tc_store_plan_t *plans;
    size_t n_plans;
};

static const char s_schema[] =
    "CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value INTEGER);"
    "INSERT OR IGNORE INTO meta VALUES('schema', 2);"
    "INSERT OR IGNORE INTO meta VALUES('epoch', 0);"
    "CREATE TABLE IF NOT EXISTS incarnations(incarnation TEXT PRIMARY KEY, "
    "started TEXT);"
    "CREATE TABLE IF NOT EXISTS jobs(job TEXT, attempt INTEGER, size "
    "INTEGER, epoch INTEGER PRIMARY KEY, state TEXT, text TEXT, started "
    "TEXT, ended TEXT);"
    "CREATE TABLE IF NOT EXISTS nodes(node TEXT PRIMARY KEY, host TEXT, "
    "state TEXT, changed TEXT);"
    "CREATE TABLE IF NOT EXISTS plans(fingerprint TEXT PRIMARY KEY, id "
    "INTEGER, alpha_us REAL, beta_us_per_mib REAL, gamma_us_per_mib REAL, "
    "segment_bytes INTEGER, channels INTEGER, made TEXT);"
    "CREATE TABLE IF NOT EXISTS events(id INTEGER PRIMARY KEY, time TEXT, "
    "kind TEXT, name TEXT, epoch INTEGER, state TEXT, text TEXT);";

//  The parameters of jobs and nodes: ?1 name, ?2 attempt, ?3 size, ?4 epoch,
//  ?5 state, ?6 text; of plans: ?11 fingerprint, then the columns.
static const char *const s_sql[KINDS] = {
    [JOB] = "INSERT INTO jobs VALUES(?1,?2,?3,?4,?5,?6,datetime('now'),NULL) "
            "ON CONFLICT(epoch) DO UPDATE SET state=?5, text=?6, ended=CASE "
            "WHEN ?5 IN ('finished','failed') THEN datetime('now') END",
    [NODE] = "INSERT OR REPLACE INTO nodes VALUES(?1,?6,?5,datetime('now'))",
    [PLAN] = ("INSERT OR REPLACE INTO plans "
              "VALUES(?11,?12,?13,?14,?15,?16,?17,datetime('now'))"),
};
static const char *const s_event_sql[KINDS] = {
    [JOB] =
        "INSERT INTO events VALUES(NULL,datetime('now'),'job',?1,?4,?5,?6)",
    [NODE] =
        "INSERT INTO events VALUES(NULL,datetime('now'),'node',?1,NULL,?5,?6)",
    [PLAN] = ("INSERT INTO events "
              "VALUES(NULL,datetime('now'),'plan',?12,NULL,'made',?11)"),
};

//  -1: there is none.
static int64_t
s_meta (sqlite3 *db, const char *key)
{
    sqlite3_stmt *s;
    int64_t value = -1;
    sqlite3_prepare_v2 (db, "SELECT value FROM meta WHERE key=?", -1, &s,
                        NULL);
    sqlite3_bind_text (s, 1, key, -1, SQLITE_STATIC);
    if (sqlite3_step (s) == SQLITE_ROW)
        value = sqlite3_column_int64 (s, 0);
    sqlite3_finalize (s);
    return value;
}

//  ------------------------------------------------------------------- writing

static bool
s_run (sqlite3 *db, const char *sql, const record_t *record)
{
    const tc_store_job_t *job = &record->job;
    const tp_plan_t *plan = &record->plan.plan;
    sqlite3_stmt *s;
    sqlite3_prepare_v2 (db, sql, -1, &s, NULL);
    //  Binding what a statement does not name is an error without effect.
    sqlite3_bind_text (s, 1, job->job, -1, SQLITE_STATIC);
    sqlite3_bind_int64 (s, 2, job->attempt);
    sqlite3_bind_int64 (s, 3, job->size);
    sqlite3_bind_int64 (s, 4, job->epoch);
    sqlite3_bind_text (s, 5, job->state, -1, SQLITE_STATIC);
    sqlite3_bind_text (s, 6, job->text, -1, SQLITE_STATIC);
    sqlite3_bind_text (s, 11, record->plan.fingerprint, -1, SQLITE_STATIC);
    sqlite3_bind_int64 (s, 12, (int64_t) plan->id);
    sqlite3_bind_double (s, 13, plan->alpha_us);
    sqlite3_bind_double (s, 14, plan->beta_us_per_mib);
    sqlite3_bind_double (s, 15, plan->gamma_us_per_mib);
    sqlite3_bind_int64 (s, 16, (int64_t) plan->segment_bytes);
    sqlite3_bind_int64 (s, 17, plan->channels);
    bool ok = sqlite3_step (s) == SQLITE_DONE;
    sqlite3_finalize (s);
    return ok;
}

static bool
s_write_epoch (sqlite3 *db, int64_t epoch)
{
    char sql[128];
    snprintf (sql, sizeof sql,
              "UPDATE meta SET value=max(value, %lld) WHERE key='epoch'",
              (long long) epoch);
    return epoch == 0 || sqlite3_exec (db, sql, NULL, NULL, NULL) == SQLITE_OK;
}

//  All or nothing.
static bool
s_write (tc_store_t *self, int64_t epoch, size_t from, size_t to)
{
    bool ok =
        sqlite3_exec (self->db, "BEGIN", NULL, NULL, NULL) == SQLITE_OK &&
        s_write_epoch (self->db, epoch);
    for (size_t i = from; ok && i < to; i++) {
        const record_t *r = &self->ring[i % QUEUE];
        ok = s_run (self->db, s_sql[r->kind], r) &&
             s_run (self->db, s_event_sql[r->kind], r);
    }
    ok =
        ok && sqlite3_exec (self->db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK;
    if (!ok) {
        tc_log (TC_LOG_ERROR, "store", "error=\"%s\"",
                sqlite3_errmsg (self->db));
        sqlite3_exec (self->db, "ROLLBACK", NULL, NULL, NULL);
    }
    return ok;
}

//  Under the lock: until there is something to write, or the end; after a
//  failure not at once.
static void
s_wait (tc_store_t *self, bool failed)
{
    struct timespec until;
    clock_gettime (CLOCK_REALTIME, &until);
    until.tv_sec += RETRY_MS / 1000;
    bool in_time = true;
    while (!self->ending &&
           (failed ? in_time : self->head == self->tail && self->epoch == 0))
        if (failed)
            in_time =
                pthread_cond_timedwait (&self->more, &self->lock, &until) == 0;
        else
            pthread_cond_wait (&self->more, &self->lock);
}

static void *
s_thread (void *arg)
{
    tc_store_t *self = arg;
    bool ok = true, ending = false;
    while (!ending) {
        pthread_mutex_lock (&self->lock);
        s_wait (self, !ok);
        size_t from = self->tail, to = self->head;
        int64_t epoch = self->epoch;
        ending = self->ending;
        pthread_mutex_unlock (&self->lock);
        ok = (from == to && epoch == 0) || s_write (self, epoch, from, to);
        if (!ok)
            continue;
        pthread_mutex_lock (&self->lock);
        self->tail = to;
        if (self->epoch == epoch)
            self->epoch = 0;
        uint64_t dropped = self->dropped;
        self->dropped = 0;
        pthread_mutex_unlock (&self->lock);
        if (dropped > 0)
            tc_log (TC_LOG_WARN, "store", "dropped=%llu",
                    (unsigned long long) dropped);
    }
    return NULL;
}

static void
s_queue (tc_store_t *self, const record_t *record)
{
    if (!self)
        return;
    pthread_mutex_lock (&self->lock);
    bool full = self->head - self->tail >= QUEUE;
    if (!full)
        self->ring[self->head++ % QUEUE] = *record;
    bool first = full && self->dropped++ == 0;
    pthread_cond_signal (&self->more);
    pthread_mutex_unlock (&self->lock);
    if (first)
        tc_log (TC_LOG_ERROR, "store",
                "error=\"the disk is slow; records are dropped\"");
}

//  --------------------------------------------------------------------- life

static void
s_close_db (tc_store_t *self)
{
    sqlite3_close (self->db);
    free (self->history);
    free (self->plans);
    free (self->ring);
    free (self);
}

//  The exclusive lock is taken by the first write and ends with the process,
//  however it ends.
static tutti_err_t
s_open_db (tc_store_t *self, const char *path, char *text)
{
    int rc = sqlite3_open (path, &self->db);
    sqlite3_busy_timeout (self->db, BUSY_MS);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec (self->db,
                           "PRAGMA locking_mode=EXCLUSIVE;"
                           "PRAGMA journal_mode=WAL;"
                           "PRAGMA synchronous=FULL;",
                           NULL, NULL, NULL);
    int64_t schema = rc == SQLITE_OK ? s_meta (self->db, "schema") : -1;
    if (rc == SQLITE_OK && schema != -1 && schema != SCHEMA) {
        snprintf (text, TP_TEXT_MAX,
                  "the state file %.200s has schema %lld, this program needs "
                  "%d; use the program that wrote it, or another file",
                  path, (long long) schema, SCHEMA);
        return TUTTI_EINVAL;
    }
    if (rc == SQLITE_OK)
        rc = sqlite3_exec (self->db, s_schema, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        return TUTTI_OK;
    if (rc == SQLITE_BUSY || rc == SQLITE_LOCKED) {
        snprintf (text, TP_TEXT_MAX,
                  "the state file %.200s is in use by another process; stop "
                  "that coordinator, or use another file",
                  path);
        return TUTTI_ESTATE;
    }
    snprintf (text, TP_TEXT_MAX, "cannot use the state file %.200s: %s", path,
              sqlite3_errmsg (self->db));
    return TUTTI_EINVAL;
}

//  What must be on disk before the first epoch is given out.
static tutti_err_t
s_begin (tc_store_t *self, uint64_t incarnation, int64_t *last_epoch_p,
         char *text)
{
    char sql[512];
    *last_epoch_p = s_meta (self->db, "epoch");
    snprintf (sql, sizeof sql,
              "BEGIN; UPDATE meta SET value=%lld WHERE key='epoch'; INSERT "
              "INTO incarnations VALUES('%016llx', datetime('now')); DELETE "
              "FROM events WHERE id <= (SELECT max(id) FROM events) - %d; "
              "COMMIT;",
              (long long) *last_epoch_p + TC_STORE_EPOCHS,
              (unsigned long long) incarnation, TC_STORE_EVENTS);
    if (sqlite3_exec (self->db, sql, NULL, NULL, NULL) == SQLITE_OK)
        return TUTTI_OK;
    snprintf (text, TP_TEXT_MAX, "cannot write the state file: %s",
              sqlite3_errmsg (self->db));
    return TUTTI_EINVAL;
}

static void
s_take_text (sqlite3_stmt *s, int column, char *text, size_t len)
{
    const char *value = (const char *) sqlite3_column_text (s, column);
    snprintf (text, len, "%s", value ? value : "");
}

static void
s_take_plan (sqlite3_stmt *s, tc_store_plan_t *plan)
{
    TP_PLAN_DEFAULT (&plan->plan);
    s_take_text (s, 0, plan->fingerprint, sizeof plan->fingerprint);
    plan->plan.id = (uint64_t) sqlite3_column_int64 (s, 1);
    plan->plan.alpha_us = sqlite3_column_double (s, 2);
    plan->plan.beta_us_per_mib = sqlite3_column_double (s, 3);
    plan->plan.gamma_us_per_mib = sqlite3_column_double (s, 4);
    plan->plan.segment_bytes = (uint64_t) sqlite3_column_int64 (s, 5);
    plan->plan.channels = (uint32_t) sqlite3_column_int64 (s, 6);
}

static tutti_err_t
s_load_plans (tc_store_t *self)
{
    sqlite3_stmt *s;
    tutti_err_t err = TUTTI_OK;
    sqlite3_prepare_v2 (
        self->db,
        "SELECT fingerprint, id, alpha_us, beta_us_per_mib, gamma_us_per_mib, "
        "segment_bytes, channels FROM plans ORDER BY id",
        -1, &s, NULL);
    while (!err && sqlite3_step (s) == SQLITE_ROW) {
        tc_store_plan_t *more =
            realloc (self->plans, (self->n_plans + 1) * sizeof *more);
        if (more) {
            self->plans = more;
            s_take_plan (s, &more[self->n_plans++]);
        }
        else
            err = TUTTI_ENOMEM;
    }
    sqlite3_finalize (s);
    return err;
}

static tutti_err_t
s_load (tc_store_t *self)
{
    sqlite3_stmt *s;
    self->history = calloc (TC_STORE_HISTORY, sizeof *self->history);
    if (!self->history)
        return TUTTI_ENOMEM;
    sqlite3_prepare_v2 (
        self->db,
        "SELECT * FROM (SELECT job, attempt, size, epoch, state, text FROM "
        "jobs WHERE state IN ('finished','failed') ORDER BY epoch DESC LIMIT "
        "?) ORDER BY epoch",
        -1, &s, NULL);
    sqlite3_bind_int (s, 1, TC_STORE_HISTORY);
    while (sqlite3_step (s) == SQLITE_ROW) {
        tc_store_job_t *job = &self->history[self->n_history++];
        s_take_text (s, 0, job->job, sizeof job->job);
        job->attempt = (uint32_t) sqlite3_column_int64 (s, 1);
        job->size = (uint32_t) sqlite3_column_int64 (s, 2);
        job->epoch = sqlite3_column_int64 (s, 3);
        s_take_text (s, 4, job->state, sizeof job->state);
        s_take_text (s, 5, job->text, sizeof job->text);
    }
    sqlite3_finalize (s);
    return TUTTI_OK;
}

static tutti_err_t
s_start (tc_store_t *self)
{
    pthread_mutex_init (&self->lock, NULL);
    pthread_cond_init (&self->more, NULL);
    self->ring = calloc (QUEUE, sizeof *self->ring);
    if (self->ring &&
        pthread_create (&self->thread, NULL, s_thread, self) == 0)
        return TUTTI_OK;
    return TUTTI_ENOMEM;
}

tutti_err_t
tc_store_open (tc_store_t **self_p, const char *url, uint64_t incarnation,
               int64_t *last_epoch_p, char *text)
{
    *last_epoch_p = 0;
    *self_p = NULL;
    if (!url)
        return TUTTI_OK;
    if (strncmp (url, "sqlite:", 7) != 0) {
        snprintf (text, TP_TEXT_MAX,
                  "--state %.200s: only sqlite:PATH is known", url);
        return TUTTI_EINVAL;
    }
    tc_store_t *self = calloc (1, sizeof *self);
    if (!self)
        return TUTTI_ENOMEM;
    tutti_err_t err = s_open_db (self, url + 7, text);
    if (!err)
        err = s_begin (self, incarnation, last_epoch_p, text);
    if (!err)
        err = s_load (self);
    if (!err)
        err = s_load_plans (self);
    if (!err)
        err = s_start (self);
    if (err) {
        s_close_db (self);
        return err;
    }
    *self_p = self;
    return TUTTI_OK;
}

void
tc_store_close (tc_store_t **self_p)
{
    tc_store_t *self = *self_p;
    if (!self)
        return;
    pthread_mutex_lock (&self->lock);
    self->ending = true;
    pthread_cond_signal (&self->more);
    pthread_mutex_unlock (&self->lock);
    pthread_join (self->thread, NULL);
    pthread_mutex_destroy (&self->lock);
    pthread_cond_destroy (&self->more);
    s_close_db (self);
    *self_p = NULL;
}

const tc_store_job_t *
tc_store_history (const tc_store_t *self, size_t *n_p)
{
    *n_p = self ? self->n_history : 0;
    return self ? self->history : NULL;
}

const tc_store_plan_t *
tc_store_plans (const tc_store_t *self, size_t *n_p)
{
    *n_p = self ? self->n_plans : 0;
    return self ? self->plans : NULL;
}

void
tc_store_plan (tc_store_t *self, const tc_store_plan_t *plan)
{
    s_queue (self, &(record_t){ .kind = PLAN, .plan = *plan });
}

void
tc_store_job (tc_store_t *self, const tc_store_job_t *job)
{
    s_queue (self, &(record_t){ .kind = JOB, .job = *job });
}

void
tc_store_node (tc_store_t *self, const char *node, const char *host,
               const char *state)
{
    record_t record = { .kind = NODE };
    snprintf (record.job.job, sizeof record.job.job, "%s", node);
    snprintf (record.job.text, sizeof record.job.text, "%s", host);
    snprintf (record.job.state, sizeof record.job.state, "%.15s", state);
    s_queue (self, &record);
}

void
tc_store_epoch (tc_store_t *self, int64_t epoch)
{
    if (!self)
        return;
    pthread_mutex_lock (&self->lock);
    if (epoch > self->epoch)
        self->epoch = epoch;
    pthread_cond_signal (&self->more);
    pthread_mutex_unlock (&self->lock);
}
