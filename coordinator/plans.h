//  coordinator/plans.h - which plan a job gets: one per shape of a cluster
//
//  The choice of algorithm and segment, and with it the bits of a sum, is a
//  function of the plan. So that a program gives the same bits tomorrow, a
//  plan that was made once is kept under a fingerprint of what it was made
//  for, and given to every later job of that shape.
//
//  Owner: the coordinator's loop. Not thread safe.

#ifndef TC_PLANS_H
#define TC_PLANS_H

#include "coordinator/store.h"

typedef struct tc_plans tc_plans_t;

#define TC_PLANS_MAX 1024  //  kept in memory; the oldest goes

//  What a plan is made for.
typedef struct tc_shape {
    const char *transport;
    const char *version;    //  of the agents
    const uint32_t *ranks;  //  per node, in ring order
    size_t nodes;
} tc_shape_t;

//  "2 nodes 4 ranks tcp 0.1.0 3f0c...": the end is a hash (BLAKE2b, 64 bit) of
//  the ranks per node.
void
tc_plans_fingerprint (const tc_shape_t *shape, char *text);

//  With the plans that STORE (or NULL) has; it stays the caller's and must
//  live as long. TUTTI_ENOMEM.
tutti_err_t
tc_plans_new (tc_plans_t **self_p, tc_store_t *store);
void
tc_plans_destroy (tc_plans_t **self_p);

//  The id of the plan made last; 0: none.
uint64_t
tc_plans_last (const tc_plans_t *self);

//  The plan of a shape; a new one is made of the built-in costs and stored.
//  *made_p: whether it is new. Valid until the next call.
const tc_store_plan_t *
tc_plans_get (tc_plans_t *self, const tc_shape_t *shape, bool *made_p);

#endif
