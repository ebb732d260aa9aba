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
        if (step->op == TP_STEP_RECV && !seen[step->peer]) {
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

//  Elements that each node owns in the segment.
static uint64_t *
s_parts (const ta_member_t *m, const ta_seg_t *seg)
{
    uint64_t *parts = calloc (m->nodes, sizeof *parts);
    for (uint32_t i = 0; parts && i < m->nodes; i++) {
        uint32_t first = m->first_on[i];
        parts[i] = seg->at[first + m->ranks_on[i]] - seg->at[first];
    }
    return parts;
}

static tutti_err_t
s_fill (ta_recipe_t *self, const ta_op_t *op, const ta_seg_t *seg)
{
    const ta_member_t *m = op->member;
    tp_case_t what = { .kind = op->kind,
                       .algorithm = op->algorithm,
                       .node = m->me,
                       .n = m->nodes,
                       .root = op->root_node };
    if (self->flags & TP_SIG_REPRODUCIBLE)
        what.blocks = &m->blocks;
    uint64_t *parts = NULL;
    tutti_err_t err = TUTTI_OK;
    if (op->kind == TP_SENDRECV) {
        tp_item_t send, recv;
        what.count = seg->len;
        ta_message_items (op, seg, &send, &what.sends, &recv, &what.recvs);
        return tp_schedule_make (&self->schedule, &what);
    }
    if (ta_pieces_kind (op->kind)) {
        what.count = what.temp = ta_pieces_room (op, seg);
        err = ta_pieces_items (op, seg, &what.sends, &what.recvs);
    }
    else if (op->geo.pieces > 1) {
        what.parts = parts = s_parts (m, seg);
        err = parts ? TUTTI_OK : TUTTI_ENOMEM;
    }
    else
        what.count = seg->len;
    if (!err)
        err = tp_schedule_make (&self->schedule, &what);
    free (parts);
    free ((void *) what.sends.list);
    free ((void *) what.recvs.list);
    return err;
}

static ta_recipe_t *
s_make (const ta_op_t *op, const ta_seg_t *seg, const ta_recipe_t *key)
{
    ta_recipe_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    *self = *key;
    if (s_fill (self, op, seg) || !s_find_senders (self, op->member->nodes)) {
        s_destroy (self);
        return NULL;
    }
    self->uses = 1;
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

static bool
s_same (const ta_recipe_t *a, const ta_recipe_t *b)
{
    return a->kind == b->kind && a->algorithm == b->algorithm &&
           a->root == b->root && a->flags == b->flags && a->len == b->len;
}

ta_recipe_t *
ta_recipe_get (ta_op_t *op, const ta_seg_t *seg)
{
    ta_member_t *member = op->member;
    bool tree = op->geo.info->reduces && op->sig.flags & TP_SIG_REPRODUCIBLE;
    ta_recipe_t key = { .kind = op->kind,
                        .algorithm = op->algorithm,
                        .root = (uint32_t) op->sig.root,
                        .flags = tree ? TP_SIG_REPRODUCIBLE : 0,
                        .len = seg->len,
                        .once = op->geo.info->uneven };
    if (key.once)
        return s_make (op, seg, &key);
    for (ta_recipe_t *r = member->recipes; r; r = r->next)
        if (s_same (r, &key)) {
            r->uses++;
            return r;
        }
    ta_recipe_t *made = s_make (op, seg, &key);
    if (!made)
        return NULL;
    made->next = member->recipes;
    member->recipes = made;
    s_trim (member);
    return made;
}

void
ta_recipe_release (ta_recipe_t *recipe)
{
    recipe->uses--;
    if (recipe->once)
        s_destroy (recipe);
}

uint64_t
ta_recipe_expects (const ta_recipe_t *self, uint32_t node, uint32_t nth)
{
    for (size_t i = 0; i < self->schedule.length; i++) {
        const tp_step_t *step = &self->schedule.steps[i];
        if (step->op == TP_STEP_RECV && step->peer == node && nth-- == 0)
            return step->count;
    }
    return UINT64_MAX;
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
