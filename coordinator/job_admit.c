//  coordinator/job_admit.c - who may join a job, and the sentence if not
//
//  A sentence names both sides, so that whoever reads it knows which of the
//  two to mend.

#include "coordinator/job_impl.h"

#include <stdio.h>
#include <string.h>

//  A field of the configuration that differs from the first rank's, or NULL.
static const char *
s_config_differs (const Tutti__Config *a, const Tutti__Config *b)
{
    if (a->reproducible != b->reproducible)
        return "reproducible";
    if (a->wide != b->wide)
        return "wide";
    if (a->elastic_min != b->elastic_min || a->elastic_max != b->elastic_max)
        return "elastic";
    if (strcmp (a->algorithm, b->algorithm) != 0)
        return "algorithm";
    if (strcmp (a->transport, b->transport) != 0)
        return "transport";
    if (strcmp (a->library, b->library) != 0)
        return "library";
    if (strcmp (a->agent, b->agent) != 0)
        return "agent";
    return NULL;
}

static void
s_config_text (const Tutti__Config *c, char *text, size_t len)
{
    snprintf (text, len,
              "reproducible=%d wide=%d elastic=%u:%u algorithm=%s "
              "transport=%s library=%s agent=%s",
              c->reproducible, c->wide, c->elastic_min, c->elastic_max,
              c->algorithm[0] ? c->algorithm : "-", c->transport, c->library,
              c->agent);
}

static bool
s_sizes_agree (const tc_job_t *self, const Tutti__Join *join, char *text)
{
    const tc_rank_t *first = &self->rank[self->first];
    if (join->size == self->size)
        return true;
    snprintf (text, TP_TEXT_MAX,
              "job %s: rank %u (host %s, pid %u) says the world has %u ranks, "
              "rank %u (host %s, pid %u) says %u; start all with the same "
              "TUTTI_SIZE",
              self->name, join->rank, join->host, join->pid, join->size,
              self->first, first->host, first->pid, self->size);
    return false;
}

static bool
s_configs_agree (const tc_job_t *self, const Tutti__Join *join, char *text)
{
    const char *field = s_config_differs (&self->config, join->config);
    char mine[180], theirs[180];
    if (!field)
        return true;
    s_config_text (join->config, mine, sizeof mine);
    s_config_text (&self->config, theirs, sizeof theirs);
    snprintf (text, TP_TEXT_MAX,
              "job %s: %s must be the same on all ranks: rank %u has %s; rank "
              "%u has %s",
              self->name, field, join->rank, mine, self->first, theirs);
    return false;
}

bool
tc_job_admits (const tc_job_t *self, const char *node, const Tutti__Join *join,
               char *text)
{
    if (!s_sizes_agree (self, join, text))
        return false;
    if (join->rank >= self->size) {
        snprintf (text, TP_TEXT_MAX,
                  "job %s: rank %u of a world of %u; ranks go from 0 to %u",
                  self->name, join->rank, self->size, self->size - 1);
        return false;
    }
    const tc_rank_t *holder = &self->rank[join->rank];
    if (holder->left || holder->lost) {
        snprintf (text, TP_TEXT_MAX,
                  "job %s: rank %u (pid %u on host %s) has left this run, "
                  "which still goes on with the others; a new run needs "
                  "another TUTTI_JOB or a higher TUTTI_ATTEMPT",
                  self->name, join->rank, holder->pid, holder->host);
        return false;
    }
    if (holder->joined || self->state != TC_JOB_FORMING) {
        snprintf (text, TP_TEXT_MAX,
                  "job %s: rank %u is taken by pid %u on host %s (node %s); "
                  "pid %u on host %s (node %s) asks for it. A new run needs "
                  "another TUTTI_JOB or "
                  "a higher TUTTI_ATTEMPT",
                  self->name, join->rank, holder->pid, holder->host,
                  holder->node, join->pid, join->host, node);
        return false;
    }
    return s_configs_agree (self, join, text);
}
