//  coordinator/job_start.c - the START message

#include "coordinator/job_impl.h"

#include "coordinator/log.h"
#include "coordinator/ring.h"
#include "protocol/handshake.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

tutti_err_t
tc_job_order (tc_job_t *self)
{
    const char **names = calloc (self->parts, sizeof *names);
    uint32_t *order = calloc (self->parts, sizeof *order);
    uint32_t *place = calloc (self->parts, sizeof *place);
    tc_part_t *sorted = calloc (self->parts, sizeof *sorted);
    tutti_err_t err =
        names && order && place && sorted ? TUTTI_OK : TUTTI_ENOMEM;
    if (!err) {
        for (size_t i = 0; i < self->parts; i++)
            names[i] = self->part[i].node;
        tc_ring_order (names, self->parts, NULL, order);
        for (size_t i = 0; i < self->parts; i++) {
            sorted[i] = self->part[order[i]];
            place[order[i]] = (uint32_t) i;
        }
        for (uint32_t r = 0; r < self->size; r++)
            self->rank[r].part = place[self->rank[r].part];
        memcpy (self->part, sorted, self->parts * sizeof *sorted);
    }
    free (names);
    free (order);
    free (place);
    free (sorted);
    return err;
}

typedef struct start {
    Tutti__Start start;
    Tutti__Plan plan;
    Tutti__Member *member, **members;
    uint32_t *ranks;
    uint32_t *counts;  //  of ranks, per member
    char **data;
    uint8_t key[TP_KEY_BYTES];
} start_t;

//  Members with their ranks; one array holds the ranks of all.
static void
s_fill_members (tc_job_t *self, start_t *s)
{
    uint32_t at = 0;
    for (size_t i = 0; i < self->parts; i++) {
        Tutti__Member *m = &s->member[i];
        tutti__member__init (m);
        m->node = self->part[i].node;
        s->data[i] = self->part[i].data;
        m->data = &s->data[i];
        m->n_data = 1;
        m->ranks = s->ranks + at;
        at += self->part[i].ranks;
        s->members[i] = m;
    }
    for (uint32_t r = 0; r < self->size; r++) {
        Tutti__Member *m = &s->member[self->rank[r].part];
        m->ranks[m->n_ranks++] = r;
    }
}

static void
s_fill_plan (tc_job_t *self, start_t *s)
{
    tc_shape_t shape = { self->transport, self->agent, s->counts,
                         self->parts };
    for (size_t i = 0; i < self->parts; i++)
        s->counts[i] = self->part[i].ranks;
    bool made;
    const tc_store_plan_t *kept =
        self->context->plan (self->context->arg, &shape, &made);
    const tp_plan_t *plan = &kept->plan;
    tutti__plan__init (&s->plan);
    s->plan.id = plan->id;
    s->plan.alpha_us = plan->alpha_us;
    s->plan.beta_us_per_mib = plan->beta_us_per_mib;
    s->plan.gamma_us_per_mib = plan->gamma_us_per_mib;
    s->plan.segment_bytes = plan->segment_bytes;
    s->plan.channels = plan->channels;
    self->plan = plan->id;
    tc_log (TC_LOG_INFO, "plan", "job=%s plan=%llu reason=%s for=\"%s\"",
            self->name, (unsigned long long) plan->id,
            made ? "new-shape" : "stored", kept->fingerprint);
}

static void
s_tell_start (tc_job_t *self, start_t *s)
{
    Tutti__Envelope e = TUTTI__ENVELOPE__INIT;
    tutti__start__init (&s->start);
    s_fill_plan (self, s);
    randombytes_buf (s->key, sizeof s->key);
    s_fill_members (self, s);
    s->start.size = self->size;
    s->start.members = s->members;
    s->start.n_members = self->parts;
    s->start.plan = &s->plan;
    s->start.key = (ProtobufCBinaryData){ sizeof s->key, s->key };
    s->start.config = &self->config;
    e.body_case = TUTTI__ENVELOPE__BODY_START;
    e.start = &s->start;
    tc_job_tell (self, NULL, &e);
    sodium_memzero (s->key, sizeof s->key);
}

tutti_err_t
tc_job_tell_start (tc_job_t *self)
{
    start_t s = { .member = calloc (self->parts, sizeof *s.member),
                  .members = calloc (self->parts, sizeof *s.members),
                  .data = calloc (self->parts, sizeof *s.data),
                  .ranks = calloc (self->size, sizeof *s.ranks),
                  .counts = calloc (self->parts, sizeof *s.counts) };
    tutti_err_t err = TUTTI_ENOMEM;
    if (s.member && s.members && s.data && s.ranks && s.counts) {
        err = TUTTI_OK;
        s_tell_start (self, &s);
    }
    free (s.member);
    free (s.members);
    free (s.data);
    free (s.ranks);
    free (s.counts);
    return err;
}
