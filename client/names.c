//  client/names.c - how often an op of each name was submitted on a comm

#include "client/names.h"

#include "protocol/board.h"

#include <stdlib.h>

#define ROOM_MIN 64

static tl_name_t *
s_find (const tl_names_t *self, uint64_t hash)
{
    size_t i = hash & (self->room - 1);
    while (self->table[i].hash != 0 && self->table[i].hash != hash)
        i = (i + 1) & (self->room - 1);
    return &self->table[i];
}

static bool
s_grow (tl_names_t *self)
{
    tl_names_t more = { .room = self->room ? 2 * self->room : ROOM_MIN };
    more.table = calloc (more.room, sizeof *more.table);
    if (!more.table)
        return false;
    for (size_t i = 0; i < self->room; i++)
        if (self->table[i].hash != 0)
            *s_find (&more, self->table[i].hash) = self->table[i];
    more.used = self->used;
    free (self->table);
    *self = more;
    return true;
}

uint64_t *
tl_names_count (tl_names_t *self, const char *name)
{
    uint64_t hash = tp_board_key (name, 0);
    if (2 * (self->used + 1) > self->room && !s_grow (self))
        return NULL;
    tl_name_t *found = s_find (self, hash);
    if (found->hash == 0) {
        found->hash = hash;
        self->used++;
    }
    return &found->count;
}

void
tl_names_clear (tl_names_t *self)
{
    free (self->table);
    *self = (tl_names_t){ 0 };
}
