//  coordinator/plans.c - which plan a job gets: one per shape of a cluster

#include "coordinator/plans.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HASH_BYTES 16  //  the least of crypto_generichash; half of it is shown

struct tc_plans {
    tc_store_t *store;
    uint64_t last;  //  id
    size_t n;
    tc_store_plan_t plan[TC_PLANS_MAX];  //  the oldest first
};

void
tc_plans_fingerprint (const tc_shape_t *shape, char *text)
{
    uint8_t hash[HASH_BYTES];
    char hex[HASH_BYTES + 1];
    unsigned long long ranks = 0;
    for (size_t i = 0; i < shape->nodes; i++)
        ranks += shape->ranks[i];
    crypto_generichash (hash, sizeof hash, (const uint8_t *) shape->ranks,
                        shape->nodes * sizeof *shape->ranks, NULL, 0);
    sodium_bin2hex (hex, sizeof hex, hash, sizeof hash / 2);
    snprintf (text, TC_FINGERPRINT_MAX, "%zu nodes %llu ranks %.15s %.31s %s",
              shape->nodes, ranks, shape->transport, shape->version, hex);
}

tutti_err_t
tc_plans_new (tc_plans_t **self_p, tc_store_t *store)
{
    tc_plans_t *self = calloc (1, sizeof *self);
    if (!self)
        return TUTTI_ENOMEM;
    size_t n;
    const tc_store_plan_t *past = tc_store_plans (store, &n);
    self->store = store;
    if (n > 0) {
        size_t skip = n > TC_PLANS_MAX ? n - TC_PLANS_MAX : 0;
        self->n = n - skip;
        memcpy (self->plan, past + skip, self->n * sizeof *past);
        self->last = past[n - 1].plan.id;
    }
    *self_p = self;
    return TUTTI_OK;
}

void
tc_plans_destroy (tc_plans_t **self_p)
{
    free (*self_p);
    *self_p = NULL;
}

uint64_t
tc_plans_last (const tc_plans_t *self)
{
    return self->last;
}

static tc_store_plan_t *
s_place (tc_plans_t *self)
{
    if (self->n == TC_PLANS_MAX)
        memmove (self->plan, self->plan + 1, --self->n * sizeof self->plan[0]);
    return &self->plan[self->n++];
}

const tc_store_plan_t *
tc_plans_get (tc_plans_t *self, const tc_shape_t *shape, bool *made_p)
{
    char fingerprint[TC_FINGERPRINT_MAX];
    tc_plans_fingerprint (shape, fingerprint);
    *made_p = false;
    for (size_t i = 0; i < self->n; i++)
        if (strcmp (self->plan[i].fingerprint, fingerprint) == 0)
            return &self->plan[i];
    tc_store_plan_t *made = s_place (self);
    memcpy (made->fingerprint, fingerprint, sizeof fingerprint);
    TP_PLAN_DEFAULT (&made->plan);
    made->plan.id = ++self->last;
    tc_store_plan (self->store, made);
    *made_p = true;
    return made;
}
