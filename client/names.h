//  client/names.h - how often an op of each name was submitted on a comm
//
//  The n-th op of a name on one rank meets the n-th on the others, so each
//  rank counts. Memory grows with the number of different names.

#ifndef TL_NAMES_H
#define TL_NAMES_H

#include <stddef.h>
#include <stdint.h>

typedef struct tl_name {
    uint64_t hash;  //  0: free
    uint64_t count;
} tl_name_t;

typedef struct tl_names {
    tl_name_t *table;  //  open addressing; a power of two
    size_t room, used;
} tl_names_t;

//  Where the count of NAME is kept, 0 at first; valid until the next call.
//  NULL: no memory.
uint64_t *
tl_names_count (tl_names_t *self, const char *name);

void
tl_names_clear (tl_names_t *self);

#endif
