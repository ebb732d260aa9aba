//  agent/memory.h - segments: memory that clients and the worker share
//
//  Every segment is a memfd that the worker makes and seals, so a client can
//  neither shrink it nor grow it; the first to touch a page pays for it.
//
//  Threads: make, drop and destroy belong to the worker's actor. use and
//  unuse may be called by the channel thread at the same time: a segment
//  that is in use stays mapped until it is let go.

#ifndef TA_MEMORY_H
#define TA_MEMORY_H

#include "protocol/local.h"

typedef struct ta_memory ta_memory_t;

typedef struct ta_segment {
    uint32_t id;       //  never used again in this worker
    uint32_t session;  //  owner
    size_t bytes;
    uint8_t *base;
    int fd;
    _Atomic uint32_t state;  //  uses, and a bit once it is dropped
} ta_segment_t;

//  TUTTI_ENOMEM.
tutti_err_t
ta_memory_new (ta_memory_t **self_p);
void
ta_memory_destroy (ta_memory_t **self_p);

//  A sealed, zeroed, mapped segment. TUTTI_ENOMEM.
tutti_err_t
ta_memory_make (ta_memory_t *self, uint32_t session, uint64_t bytes,
                ta_segment_t **segment_p);

//  The segment of that id that is not dropped, or NULL (actor only).
ta_segment_t *
ta_memory_find (ta_memory_t *self, uint32_t id);

//  No new use; unmapped when the last use ends.
void
ta_memory_drop (ta_memory_t *self, uint32_t id);

//  Drop all segments of a session.
void
ta_memory_drop_session (ta_memory_t *self, uint32_t session);

//  Base of [off, off + bytes) of segment ID, which stays mapped until
//  ta_memory_unuse (ID); NULL if there is no such range.
uint8_t *
ta_memory_use (ta_memory_t *self, uint32_t id, uint64_t off, uint64_t bytes);
void
ta_memory_unuse (ta_memory_t *self, uint32_t id);

//  Bytes of all segments that are not dropped.
uint64_t
ta_memory_total (const ta_memory_t *self);

//  A memfd of BYTES, sealed against resizing; -1 with errno.
int
ta_memfd (const char *name, size_t bytes);

//  A descriptor of the same memory that cannot be mapped for writing.
int
ta_memfd_read_only (int fd);

#endif
