//  client/handle.h - public handles: index and generation, never addresses
//
//  A stale or invented handle gives NULL, not a crash. The table also knows
//  whether this process is a fork child of the one that made the handles.
//  Any thread; the table's lock is held for a few instructions only, and no
//  other lock is taken under it.

#ifndef TL_HANDLE_H
#define TL_HANDLE_H

#include <stdbool.h>

typedef enum tl_handle_kind {
    TL_HANDLE_COMM = 1,
    TL_HANDLE_REQUEST
} tl_handle_kind_t;

//  A new handle for OBJECT; NULL if there is no memory or no room.
void *
tl_handle_new (tl_handle_kind_t kind, void *object);

//  The object, or NULL.
void *
tl_handle_get (tl_handle_kind_t kind, const void *handle);

void
tl_handle_drop (const void *handle);

//  True in a child that was forked after tutti_init: nothing works there.
bool
tl_forked (void);

#endif
