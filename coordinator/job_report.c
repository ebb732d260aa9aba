//  coordinator/job_report.c - what a job's workers say, and what is shown

#include "coordinator/job_impl.h"

#include <stdio.h>
#include <string.h>

#define WINDOW_MS 2000  //  ten heartbeats

//  ------------------------------------------------------------------ reports

static bool
s_any_waits (const Tutti__Progress *progress)
{
    for (size_t i = 0; i < progress->n_ranks; i++)
        if (progress->ranks[i]->waiting)
            return true;
    return false;
}

//  Time in operations by time that passed. Operations count when they end, so
//  a window stays open while its first one is still in flight.
static void
s_measure (tc_share_t *share, const Tutti__Progress *progress, int64_t now_ms)
{
    uint64_t us = 0, ops = 0;
    for (size_t i = 0; i < progress->n_kinds; i++) {
        us += progress->kinds[i]->total_us;
        ops += progress->kinds[i]->ops;
    }
    bool restarted = !share->begun || us < share->us || ops < share->ops;
    int64_t ms = now_ms - share->since_ms;
    if (!restarted &&
        (ms < WINDOW_MS || (ops == share->ops && s_any_waits (progress))))
        return;
    if (!restarted) {
        double value = (double) (us - share->us) / 1000.0 / (double) ms;
        share->value = value < 1.0 ? value : 1.0;
        share->known = true;
    }
    share->begun = true;
    share->since_ms = now_ms;
    share->us = us;
    share->ops = ops;
}

void
tc_job_progress (tc_job_t *self, const char *node,
                 const Tutti__Progress *progress, int64_t now_ms)
{
    tc_part_t *part = tc_job_part (self, node);
    if (!part)
        return;
    part->wire_bytes = progress->wire_bytes;
    part->cpu_us = progress->cpu_us;
    s_measure (&part->share, progress, now_ms);
    for (size_t i = 0; i < progress->n_ranks; i++) {
        const Tutti__RankProgress *p = progress->ranks[i];
        if (p->rank >= self->size ||
            strcmp (self->rank[p->rank].node, node) != 0)
            continue;
        tc_rank_t *rank = &self->rank[p->rank];
        rank->seq = p->seq;
        rank->waiting = p->waiting;
        snprintf (rank->op, sizeof rank->op, "%s", p->op);
        snprintf (rank->path, sizeof rank->path, "%.15s", p->path);
    }
}

//  ------------------------------------------------------------------ queries

const char *
tc_job_name (const tc_job_t *self)
{
    return self->name;
}

uint32_t
tc_job_attempt (const tc_job_t *self)
{
    return self->attempt;
}

tc_job_state_t
tc_job_state (const tc_job_t *self)
{
    return self->state;
}

int64_t
tc_job_epoch (const tc_job_t *self)
{
    return self->epoch;
}

uint32_t
tc_job_joined (const tc_job_t *self)
{
    return self->joined;
}

uint32_t
tc_job_size (const tc_job_t *self)
{
    return self->size;
}

const tc_rank_t *
tc_job_rank (const tc_job_t *self, uint32_t rank)
{
    return &self->rank[rank];
}

const tc_part_t *
tc_job_parts (const tc_job_t *self, size_t *n_p)
{
    *n_p = self->parts;
    return self->part;
}

const char *
tc_job_text (const tc_job_t *self)
{
    return self->text;
}

void
tc_job_missing (const tc_job_t *self, char *text, size_t len)
{
    size_t at = 0;
    text[0] = 0;
    for (uint32_t r = 0; r < self->size && at + 32 < len; r++) {
        uint32_t end = r;
        if (self->rank[r].joined)
            continue;
        while (end + 1 < self->size && !self->rank[end + 1].joined)
            end++;
        at += (size_t) snprintf (text + at, len - at,
                                 end > r ? "%s%u-%u" : "%s%u",
                                 at > 0 ? ", " : "", r, end);
        r = end;
    }
}

uint64_t
tc_job_plan (const tc_job_t *self)
{
    return self->plan;
}

const char *
tc_job_library (const tc_job_t *self)
{
    return self->library;
}

double
tc_job_comm_share (const tc_job_t *self)
{
    double sum = 0;
    size_t known = 0;
    for (size_t i = 0; self->state == TC_JOB_RUNNING && i < self->parts; i++)
        if (self->part[i].share.known) {
            sum += self->part[i].share.value;
            known++;
        }
    return known > 0 ? sum / (double) known : -1.0;
}
