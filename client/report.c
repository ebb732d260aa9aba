//  client/report.c - what a rank says of itself, if it was asked to

#include "client/report.h"

#include "client/error.h"
#include "client/session.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static tutti_err_t
s_level (tl_report_t *self)
{
    static const char *names[] = { "off", "warn", "info", "ops", "trace" };
    const char *value = getenv ("TUTTI_LOG");
    //  The report is the job's: rank 0 speaks for all.
    self->level = self->table && self->rank == 0 ? TL_LOG_WARN : TL_LOG_OFF;
    if (!value || !*value)
        return TUTTI_OK;
    for (int i = 0; i <= TL_LOG_TRACE; i++)
        if (strcasecmp (value, names[i]) == 0) {
            self->level = (tl_log_level_t) i;
            return TUTTI_OK;
        }
    return tl_error (TUTTI_EINVAL,
                     "TUTTI_LOG=%s: needs warn, info, ops or trace", value);
}

tutti_err_t
tl_report_open (tl_report_t *self, uint32_t rank, const char *job)
{
    const char *where = getenv ("TUTTI_REPORT");
    *self = (tl_report_t){ .fd = -1, .rank = rank };
    self->table = where && *where;
    self->begun_ns = tl_now_ns ();
    snprintf (self->job, sizeof self->job, "%s", job);
    tutti_err_t err = s_level (self);
    if (err || self->level == TL_LOG_OFF)
        return err;
    if (!self->table || strcmp (where, "stderr") == 0)
        self->fd = fcntl (2, F_DUPFD_CLOEXEC, 3);
    else
        self->fd =
            open (where, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (self->fd < 0 && self->table && strcmp (where, "stderr") != 0)
        return tl_error (TUTTI_EINVAL, "TUTTI_REPORT=%s: cannot write there",
                         where);
    return TUTTI_OK;
}

void
tl_report_close (tl_report_t *self)
{
    if (self->fd >= 0)
        close (self->fd);
    self->fd = -1;
}

void
tl_report_line (const tl_report_t *self, tl_log_level_t level,
                const char *format, ...)
{
    if (self->fd < 0 || level > self->level)
        return;
    char line[1024];
    int at = snprintf (line, sizeof line, "tutti: job %s rank %u: ", self->job,
                       self->rank);
    va_list args;
    va_start (args, format);
    int n = vsnprintf (line + at, sizeof line - 1 - (size_t) at, format, args);
    va_end (args);
    size_t len = (size_t) at + (n > 0 ? (size_t) n : 0);
    if (len > sizeof line - 2)
        len = sizeof line - 2;
    line[len++] = '\n';
    if (write (self->fd, line, len) < 0)
        return;  //  nobody to tell
}

void
tl_report_add (tl_report_t *self, const tp_board_rank_t *rank)
{
    for (int k = 0; k < TP_KINDS; k++) {
        self->tally[k].ops += rank->tally[k].ops;
        self->tally[k].bytes += rank->tally[k].bytes;
        self->tally[k].us += rank->tally[k].us;
        for (int b = 0; b < TP_BUCKETS; b++)
            self->tally[k].bucket[b] += rank->tally[k].bucket[b];
    }
}

//  The end of the bucket that holds the given share of ops.
static const char *
s_quantile (const tp_tally_t *t, double share)
{
    static const char *ends[TP_BUCKETS] = { "10us",  "100us", "1ms", "10ms",
                                            "100ms", "1s",    "10s", ">10s" };
    uint64_t seen = 0;
    int b = 0;
    while (b < TP_BUCKETS - 1 &&
           (double) (seen += t->bucket[b]) < share * (double) t->ops)
        b++;
    return ends[b];
}

void
tl_report_table (const tl_report_t *self)
{
    double seconds = (double) (tl_now_ns () - self->begun_ns) * 1e-9;
    double share = (double) self->blocked_ns * 1e-9 / seconds;
    if (!self->table || self->rank != 0)
        return;
    tl_report_line (self, TL_LOG_WARN, "%-15s %9s %12s %9s %7s %7s", "kind",
                    "calls", "MB", "seconds", "p50 <", "p99 <");
    for (int k = 0; k < TP_KINDS; k++) {
        const tp_tally_t *t = &self->tally[k];
        if (t->ops > 0)
            tl_report_line (self, TL_LOG_WARN,
                            "%-15s %9llu %12.3f %9.3f %7s %7s",
                            tp_kind_name (k), (unsigned long long) t->ops,
                            (double) t->bytes / 1e6, (double) t->us * 1e-6,
                            s_quantile (t, 0.50), s_quantile (t, 0.99));
    }
    tl_report_line (self, TL_LOG_WARN,
                    "waited for communication %.2f of %.2f s: %.0f %%%s",
                    (double) self->blocked_ns * 1e-9, seconds, 100 * share,
                    share > 0.30 ? " WARNING: more than 30 %" : "");
}
