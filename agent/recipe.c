//  agent/recipe.c - schedules of a comm, made once and kept

#include "agent/channel_impl.h"

#include <stdlib.h>

#define KEEP 64  //  per member; more are made anew

static bool
s_find_senders (ta_recipe_t *self, uint32_t nodes)
{
    uint8_t *seen = calloc (nodes, 1);
    self->senders = calloc (nodes, sizeof *self->senders);
    bool ok = seen && self->senders;
    for (size_t i = 0; ok && i < self->schedule.length; i++) {
        const tp_step_t *step = &self->schedule.steps[i];
        if (step->op == TP_RECV && !seen[step->peer]) {
            seen[step->peer] = 1;
            self->senders[self->n_senders++] = step->peer;
        }
    }
    free (seen);
    return ok;
}

static void
s_destroy (ta_recipe_t *self)
{
    tp_schedule_destroy (&self->schedule);
    free (self->senders);
    free (self);
}

static ta_recipe_t *
s_make (ta_member_t *member, const ta_recipe_t *key)
{
    ta_recipe_t *self = calloc (1, sizeof *self);
    uint64_t *parts = calloc (member->nodes, sizeof *parts);
    if (!self || !parts) {
        free (self);
        free (parts);
        return NULL;
    }
    *self = *key;
    for (uint32_t i = 0; i < member->nodes; i++)
        parts[i] = member->ranks_on[i] * key->len;
    bool parted = key->kind == TP_ALLGATHER || key->kind == TP_REDUCE_SCATTER;
    bool reduces = key->kind == TP_ALLREDUCE || key->kind == TP_REDUCE_SCATTER;
    tp_case_t what = {
        .kind = key->kind,
        .algorithm = key->algorithm,
        .node = member->me,
        .n = member->nodes,
        .root = key->root,
        .count = parted ? 0 : key->len,
        .parts = parted ? parts : NULL,
        .blocks = reduces && key->flags & TP_SIG_REPRODUCIBLE ? &member->blocks
                                                              : NULL,
    };
    tutti_err_t err = tp_schedule_make (&self->schedule, &what);
    free (parts);
    if (err || !s_find_senders (self, member->nodes)) {
        s_destroy (self);
        return NULL;
    }
    return self;
}

//  Drop the oldest unused ones beyond KEEP.
static void
s_trim (ta_member_t *member)
{
    int n = 0;
    for (ta_recipe_t **p = &member->recipes; *p;) {
        ta_recipe_t *recipe = *p;
        if (++n > KEEP && recipe->uses == 0) {
            *p = recipe->next;
            s_destroy (recipe);
        }
        else
            p = &recipe->next;
    }
}

ta_recipe_t *
ta_recipe_get (ta_member_t *member, uint32_t kind, uint32_t algorithm,
               uint32_t root, uint32_t flags, uint64_t len)
{
    ta_recipe_t key = { .kind = kind,
                        .algorithm = algorithm,
                        .root = root,
                        .flags = flags & TP_SIG_REPRODUCIBLE,
                        .len = len };
    for (ta_recipe_t *r = member->recipes; r; r = r->next)
        if (r->kind == kind && r->algorithm == algorithm && r->root == root &&
            r->flags == key.flags && r->len == len) {
            r->uses++;
            return r;
        }
    ta_recipe_t *made = s_make (member, &key);
    if (!made)
        return NULL;
    made->uses = 1;
    made->next = member->recipes;
    member->recipes = made;
    s_trim (member);
    return made;
}

void
ta_recipes_destroy (ta_member_t *member)
{
    while (member->recipes) {
        ta_recipe_t *recipe = member->recipes;
        member->recipes = recipe->next;
        s_destroy (recipe);
    }
}
