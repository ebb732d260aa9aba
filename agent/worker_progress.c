//  agent/worker_progress.c - what the worker reports with every heartbeat

#include "agent/worker_impl.h"

#include <stdlib.h>
#include <sys/resource.h>

static uint64_t
s_cpu_us (void)
{
    struct rusage u;
    getrusage (RUSAGE_SELF, &u);
    return (uint64_t) (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 +
           (uint64_t) (u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

typedef struct report {
    Tutti__Progress progress;
    Tutti__RankProgress rank[TP_LOCAL_MAX], *ranks[TP_LOCAL_MAX];
    Tutti__KindCount kind[TP_KINDS], *kinds[TP_KINDS];
    uint64_t bucket[TP_KINDS][TP_BUCKETS];
    char op[TP_LOCAL_MAX][96];
} report_t;

static void
s_report_ranks (const ta_member_t *world, report_t *report)
{
    for (uint32_t i = 0; i < world->n_local; i++) {
        Tutti__RankProgress *r = &report->rank[i];
        tutti__rank_progress__init (r);
        tp_board_rank_t *rank = tp_board_rank (world->board, i);
        r->rank = rank->world_rank;
        r->seq = atomic_load (&rank->finished);
        tp_cell_t *cell = tp_board_cell (world->board, r->seq + 1, i);
        r->waiting = atomic_load (&cell->seq) == r->seq + 1;
        if (!r->waiting)
            cell = tp_board_cell (world->board, r->seq, i);
        if (r->waiting || r->seq > 0)
            tp_sig_text (&cell->deposit.sig, report->op[i],
                         sizeof report->op[i]);
        r->op = report->op[i];
        r->path = (char *) (cell->deposit.window > 0 ? "staged" : "shared");
        report->ranks[i] = r;
    }
    report->progress.n_ranks = world->n_local;
    report->progress.ranks = report->ranks;
}

static void
s_add_tally (Tutti__KindCount *to, const tp_tally_t *from)
{
    to->ops += from->ops;
    to->bytes += from->bytes;
    to->total_us += from->us;
    for (int b = 0; b < TP_BUCKETS; b++)
        to->buckets[b] += from->bucket[b];
}

static void
s_report_kinds (ta_worker_t *self, report_t *report)
{
    for (uint32_t k = 0; k < TP_KINDS; k++) {
        Tutti__KindCount *c = &report->kind[k];
        tutti__kind_count__init (c);
        c->kind = k;
        c->n_buckets = TP_BUCKETS;
        c->buckets = report->bucket[k];
        s_add_tally (c, &self->closed[k]);
        for (uint32_t i = 0; i < self->n_members; i++)
            s_add_tally (
                c, &tp_board_rank (self->members[i]->board, 0)->tally[k]);
        report->kinds[k] = c;
    }
    report->progress.n_kinds = TP_KINDS;
    report->progress.kinds = report->kinds;
}

void
ta_job_progress (ta_worker_t *self)
{
    ta_member_t *world = ta_job_member (self, TA_WORLD);
    report_t *report = calloc (1, sizeof *report);
    if (!report)
        return;
    tutti__progress__init (&report->progress);
    report->progress.job = self->setup.job;
    report->progress.epoch = self->roster.epoch;
    report->progress.wire_bytes = ta_channel_wire_bytes (self->channel);
    report->progress.cpu_us = s_cpu_us ();
    report->progress.transport = self->setup.transport;
    if (world)
        s_report_ranks (world, report);
    s_report_kinds (self, report);
    size_t len = tutti__progress__get_packed_size (&report->progress);
    uint8_t *bytes = malloc (len + 1);
    if (bytes) {
        tutti__progress__pack (&report->progress, bytes);
        ta_relay_send (&self->relay, TA_PROGRESS, bytes, len);
    }
    free (bytes);
    free (report);
}
