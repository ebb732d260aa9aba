//  coordinator/store_sqlite.c - state in SQLite, written by its own thread
//
//  Tables: meta (schema version, highest epoch that may have been given out),
//  incarnations (one per start), jobs (the last state of every run that was
//  started), nodes, plans (by fingerprint of the cluster).

#include "coordinator/store.h"

#include "coordinator/log.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCHEMA 1
#define QUEUE 4096

typedef enum { JOB, EPOCH, NODE } kind_t;

typedef struct record {
    kind_t kind;
    tc_store_job_t job;  //  NODE: job is the node, text its host
    int64_t epoch;
} record_t;

//  A ring under a mutex; the loop only copies into it.
struct tc_store {  //  db is the thread's while it runs
    sqlite3 *db;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more;
    record_t *ring;
    size_t head, tail;
    bool ending;
};

static const char s_schema[] =
    "PRAGMA journal_mode=WAL;"
    "PRAGMA synchronous=NORMAL;"
    "CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value INTEGER);"
    "INSERT OR IGNORE INTO meta VALUES('schema', 1);"
    "INSERT OR IGNORE INTO meta VALUES('epoch', 0);"
    "CREATE TABLE IF NOT EXISTS incarnations(incarnation TEXT PRIMARY KEY, "
    "started TEXT);"
    "CREATE TABLE IF NOT EXISTS jobs(job TEXT, attempt INTEGER, size "
    "INTEGER, epoch INTEGER PRIMARY KEY, state TEXT, text TEXT, started "
    "TEXT, ended TEXT);"
    "CREATE TABLE IF NOT EXISTS nodes(node TEXT PRIMARY KEY, host TEXT, "
    "state TEXT, changed TEXT);"
    "CREATE TABLE IF NOT EXISTS plans(fingerprint TEXT PRIMARY KEY, id "
    "INTEGER, plan TEXT, changed TEXT);";

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

static void
s_run (sqlite3 *db, sqlite3_stmt *s)
{
    if (sqlite3_step (s) != SQLITE_DONE)
        tc_log ("store", "error=\"%s\"", sqlite3_errmsg (db));
    sqlite3_finalize (s);
}

static void
s_write_job (sqlite3 *db, const tc_store_job_t *job)
{
    sqlite3_stmt *s;
    sqlite3_prepare_v2 (db,
                        "INSERT INTO jobs VALUES(?1,?2,?3,?4,?5,?6,"
                        "datetime('now'),NULL) ON CONFLICT(epoch) DO UPDATE "
                        "SET state=?5, text=?6, ended=CASE WHEN ?5 IN "
                        "('finished','failed') THEN datetime('now') END",
                        -1, &s, NULL);
    sqlite3_bind_text (s, 1, job->job, -1, SQLITE_STATIC);
    sqlite3_bind_int64 (s, 2, job->attempt);
    sqlite3_bind_int64 (s, 3, job->size);
    sqlite3_bind_int64 (s, 4, job->epoch);
    sqlite3_bind_text (s, 5, job->state, -1, SQLITE_STATIC);
    sqlite3_bind_text (s, 6, job->text, -1, SQLITE_STATIC);
    s_run (db, s);
}

static void
s_write (sqlite3 *db, const record_t *r)
{
    sqlite3_stmt *s;
    if (r->kind == JOB) {
        s_write_job (db, &r->job);
    }
    else if (r->kind == EPOCH) {
        sqlite3_prepare_v2 (db, "UPDATE meta SET value=? WHERE key='epoch'",
                            -1, &s, NULL);
        sqlite3_bind_int64 (s, 1, r->epoch);
        s_run (db, s);
    }
    else if (r->kind == NODE) {
        sqlite3_prepare_v2 (
            db, "INSERT OR REPLACE INTO nodes VALUES(?,?,?,datetime('now'))",
            -1, &s, NULL);
        sqlite3_bind_text (s, 1, r->job.job, -1, SQLITE_STATIC);
        sqlite3_bind_text (s, 2, r->job.text, -1, SQLITE_STATIC);
        sqlite3_bind_text (s, 3, r->job.state, -1, SQLITE_STATIC);
        s_run (db, s);
    }
}

static void *
s_thread (void *arg)
{
    tc_store_t *self = arg;
    while (true) {
        pthread_mutex_lock (&self->lock);
        while (self->head == self->tail && !self->ending)
            pthread_cond_wait (&self->more, &self->lock);
        if (self->head == self->tail)
            break;
        record_t record = self->ring[self->tail++ % QUEUE];
        pthread_mutex_unlock (&self->lock);
        s_write (self->db, &record);
    }
    pthread_mutex_unlock (&self->lock);
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
    pthread_cond_signal (&self->more);
    pthread_mutex_unlock (&self->lock);
    if (full)
        tc_log ("store", "error=\"the disk is slow; a record was dropped\"");
}

//  --------------------------------------------------------------------- life

static tutti_err_t
s_open_db (tc_store_t *self, const char *path, char *text)
{
    char *error = NULL;
    if (sqlite3_open (path, &self->db) != SQLITE_OK ||
        sqlite3_exec (self->db, s_schema, NULL, NULL, &error) != SQLITE_OK) {
        snprintf (text, TP_TEXT_MAX, "cannot use the state file %s: %s", path,
                  error ? error : sqlite3_errmsg (self->db));
        sqlite3_free (error);
        return TUTTI_EINVAL;
    }
    if (s_meta (self->db, "schema") == SCHEMA)
        return TUTTI_OK;
    snprintf (text, TP_TEXT_MAX,
              "the state file %s has schema %lld, this program needs %d; use "
              "the program that wrote it, or another file",
              path, (long long) s_meta (self->db, "schema"), SCHEMA);
    return TUTTI_EINVAL;
}

//  What must be on disk before the first epoch is given out.
static tutti_err_t
s_begin (tc_store_t *self, uint64_t incarnation, int64_t *last_epoch_p,
         char *text)
{
    char sql[256];
    *last_epoch_p = s_meta (self->db, "epoch");
    snprintf (sql, sizeof sql,
              "BEGIN; UPDATE meta SET value=%lld WHERE key='epoch'; INSERT "
              "INTO incarnations VALUES('%016llx', datetime('now')); COMMIT;",
              (long long) *last_epoch_p + TC_STORE_EPOCHS,
              (unsigned long long) incarnation);
    if (sqlite3_exec (self->db, sql, NULL, NULL, NULL) == SQLITE_OK)
        return TUTTI_OK;
    snprintf (text, TP_TEXT_MAX, "cannot write the state file: %s",
              sqlite3_errmsg (self->db));
    return TUTTI_EINVAL;
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
        snprintf (text, TP_TEXT_MAX, "--state %s: only sqlite:PATH is known",
                  url);
        return TUTTI_EINVAL;
    }
    tc_store_t *self = calloc (1, sizeof *self);
    if (!self)
        return TUTTI_ENOMEM;
    pthread_mutex_init (&self->lock, NULL);
    pthread_cond_init (&self->more, NULL);
    self->ring = calloc (QUEUE, sizeof *self->ring);
    tutti_err_t err =
        self->ring ? s_open_db (self, url + 7, text) : TUTTI_ENOMEM;
    if (!err)
        err = s_begin (self, incarnation, last_epoch_p, text);
    if (!err && pthread_create (&self->thread, NULL, s_thread, self))
        err = TUTTI_ENOMEM;
    if (err) {
        sqlite3_close (self->db);
        free (self->ring);
        free (self);
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
    sqlite3_close (self->db);
    pthread_mutex_destroy (&self->lock);
    pthread_cond_destroy (&self->more);
    free (self->ring);
    free (self);
    *self_p = NULL;
}

void
tc_store_job (tc_store_t *self, const tc_store_job_t *job)
{
    s_queue (self, &(record_t){ .kind = JOB, .job = *job });
}

void
tc_store_epoch (tc_store_t *self, int64_t epoch)
{
    s_queue (self, &(record_t){ .kind = EPOCH, .epoch = epoch });
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
