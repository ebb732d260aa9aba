//  coordinator/tally.c - sums over all jobs of past and present

#include "coordinator/tally.h"

#include <czmq.h>

#define SEEN_MAX 65536
#define FORGET_MS 600000  //  a report this old is of a worker that has ended

//  The last report of a node about a job.
typedef struct seen {
    uint64_t ops[TP_KINDS], bytes[TP_KINDS], us[TP_KINDS];
    uint64_t bucket[TP_KINDS][TC_BUCKETS];
    uint64_t wire_bytes;
    int64_t at_ms;
} seen_t;

//  Owned by the coordinator's loop.
struct tc_tally {
    zhashx_t *seen;  //  "node/job/epoch" -> seen_t
    tc_totals_t totals;
};

static void
s_free_seen (void **item_p)
{
    free (*item_p);
    *item_p = NULL;
}

tutti_err_t
tc_tally_new (tc_tally_t **self_p)
{
    tc_tally_t *self = calloc (1, sizeof *self);
    if (!self)
        return TUTTI_ENOMEM;
    self->seen = zhashx_new ();
    if (!self->seen) {
        free (self);
        return TUTTI_ENOMEM;
    }
    zhashx_set_destructor (self->seen, s_free_seen);
    *self_p = self;
    return TUTTI_OK;
}

void
tc_tally_destroy (tc_tally_t **self_p)
{
    if (!*self_p)
        return;
    zhashx_destroy (&(*self_p)->seen);
    free (*self_p);
    *self_p = NULL;
}

static void
s_forget_old (tc_tally_t *self, int64_t now_ms)
{
    zlistx_t *keys = zhashx_keys (self->seen);
    for (char *key = zlistx_first (keys); key; key = zlistx_next (keys)) {
        seen_t *seen = zhashx_lookup (self->seen, key);
        if (now_ms - seen->at_ms > FORGET_MS)
            zhashx_delete (self->seen, key);
    }
    zlistx_destroy (&keys);
}

static seen_t *
s_seen (tc_tally_t *self, const char *node, const Tutti__Progress *progress,
        int64_t now_ms)
{
    char key[2 * TP_NAME_MAX + 24];
    snprintf (key, sizeof key, "%.63s/%.63s/%lld", node, progress->job,
              (long long) progress->epoch);
    seen_t *seen = zhashx_lookup (self->seen, key);
    if (seen)
        return seen;
    if (zhashx_size (self->seen) >= SEEN_MAX)
        s_forget_old (self, now_ms);
    seen = calloc (1, sizeof *seen);
    if (seen && zhashx_insert (self->seen, key, seen) != 0) {
        free (seen);
        seen = NULL;
    }
    return seen;
}

//  A counter that fell belongs to a new worker: all of it is new. Where the
//  epoch is told this is not needed.
static void
s_grow (uint64_t *total, uint64_t *last, uint64_t now)
{
    *total += now >= *last ? now - *last : now;
    *last = now;
}

//  The sum of a transport; names beyond the limit go to the last.
static uint64_t *
s_wire (tc_totals_t *totals, const char *transport)
{
    size_t i = 0;
    while (i < TC_TRANSPORTS - 1 && totals->transport[i][0] &&
           strncmp (totals->transport[i], transport,
                    sizeof totals->transport[i] - 1) != 0)
        i++;
    if (!totals->transport[i][0])
        snprintf (totals->transport[i], sizeof totals->transport[i], "%.15s",
                  i < TC_TRANSPORTS - 1 ? transport : "other");
    return &totals->wire_bytes[i];
}

void
tc_tally_add (tc_tally_t *self, const char *node,
              const Tutti__Progress *progress, int64_t now_ms)
{
    seen_t *seen = s_seen (self, node, progress, now_ms);
    if (!seen)
        return;
    seen->at_ms = now_ms;
    tc_totals_t *t = &self->totals;
    const char *transport = progress->transport;
    s_grow (s_wire (t, transport[0] ? transport : "tcp"), &seen->wire_bytes,
            progress->wire_bytes);
    for (size_t i = 0; i < progress->n_kinds; i++) {
        const Tutti__KindCount *c = progress->kinds[i];
        uint32_t k = c->kind;
        s_grow (&t->ops[k], &seen->ops[k], c->ops);
        s_grow (&t->bytes[k], &seen->bytes[k], c->bytes);
        s_grow (&t->us[k], &seen->us[k], c->total_us);
        for (size_t b = 0; b < c->n_buckets && b < TC_BUCKETS; b++)
            s_grow (&t->bucket[k][b], &seen->bucket[k][b], c->buckets[b]);
    }
}

const tc_totals_t *
tc_tally_totals (const tc_tally_t *self)
{
    return &self->totals;
}
