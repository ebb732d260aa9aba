//  agent/memory.c - segments: memory that clients and the worker share

#include "agent/memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHUNK 1024u
#define CHUNKS 1024u
#define DROPPED 0x80000000u

//  A table of chunks that only grows: the channel thread reads it without a
//  lock. A dropped segment leaves its small struct behind.
struct ta_memory {
    _Atomic (ta_segment_t *) chunk[CHUNKS];
    _Atomic uint32_t used;
    uint64_t total;
};

tutti_err_t
ta_memory_new (ta_memory_t **self_p)
{
    *self_p = calloc (1, sizeof **self_p);
    return *self_p ? TUTTI_OK : TUTTI_ENOMEM;
}

static ta_segment_t *
s_at (ta_memory_t *self, uint32_t id)
{
    if (id >= atomic_load_explicit (&self->used, memory_order_acquire))
        return NULL;
    return atomic_load_explicit (&self->chunk[id / CHUNK],
                                 memory_order_acquire) +
           id % CHUNK;
}

static void
s_unmap (ta_segment_t *segment)
{
    munmap (segment->base, segment->bytes);
    close (segment->fd);
    segment->fd = -1;
}

void
ta_memory_destroy (ta_memory_t **self_p)
{
    ta_memory_t *self = *self_p;
    if (!self)
        return;
    for (uint32_t id = 0; id < self->used; id++)
        if (s_at (self, id)->fd >= 0)
            s_unmap (s_at (self, id));
    for (uint32_t i = 0; i < CHUNKS; i++)
        free (self->chunk[i]);
    free (self);
    *self_p = NULL;
}

int
ta_memfd (const char *name, size_t bytes)
{
    int fd = memfd_create (name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    if (ftruncate (fd, (off_t) bytes) < 0 ||
        fcntl (fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) <
            0) {
        close (fd);
        return -1;
    }
    return fd;
}

int
ta_memfd_read_only (int fd)
{
    char path[64];
    snprintf (path, sizeof path, "/proc/self/fd/%d", fd);
    return open (path, O_RDONLY | O_CLOEXEC);
}

static ta_segment_t *
s_new_entry (ta_memory_t *self)
{
    uint32_t id = self->used;
    if (id >= CHUNK * CHUNKS)
        return NULL;
    if (!self->chunk[id / CHUNK]) {
        ta_segment_t *chunk = calloc (CHUNK, sizeof *chunk);
        if (!chunk)
            return NULL;
        atomic_store_explicit (&self->chunk[id / CHUNK], chunk,
                               memory_order_release);
    }
    return self->chunk[id / CHUNK] + id % CHUNK;
}

tutti_err_t
ta_memory_make (ta_memory_t *self, uint32_t session, uint64_t bytes,
                ta_segment_t **segment_p)
{
    ta_segment_t *segment = s_new_entry (self);
    if (!segment || bytes == 0 || bytes > (UINT64_C (1) << 46))
        return TUTTI_ENOMEM;
    int fd = ta_memfd ("tutti", bytes);
    if (fd < 0)
        return TUTTI_ENOMEM;
    void *base = mmap (NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        close (fd);
        return TUTTI_ENOMEM;
    }
    segment->id = self->used;
    segment->session = session;
    segment->bytes = bytes;
    segment->base = base;
    segment->fd = fd;
    self->total += bytes;
    atomic_store_explicit (&self->used, segment->id + 1, memory_order_release);
    *segment_p = segment;
    return TUTTI_OK;
}

ta_segment_t *
ta_memory_find (ta_memory_t *self, uint32_t id)
{
    ta_segment_t *segment = s_at (self, id);
    return segment && !(atomic_load (&segment->state) & DROPPED) ? segment
                                                                 : NULL;
}

void
ta_memory_drop (ta_memory_t *self, uint32_t id)
{
    ta_segment_t *segment = ta_memory_find (self, id);
    if (!segment)
        return;
    self->total -= segment->bytes;
    if (atomic_fetch_or (&segment->state, DROPPED) == 0)
        s_unmap (segment);
}

void
ta_memory_drop_session (ta_memory_t *self, uint32_t session)
{
    for (uint32_t id = 0; id < self->used; id++)
        if (s_at (self, id)->session == session)
            ta_memory_drop (self, id);
}

uint8_t *
ta_memory_use (ta_memory_t *self, uint32_t id, uint64_t off, uint64_t bytes)
{
    ta_segment_t *segment = s_at (self, id);
    if (!segment || off > segment->bytes || bytes > segment->bytes - off)
        return NULL;
    uint32_t state = atomic_load (&segment->state);
    do {
        if (state & DROPPED)
            return NULL;
    } while (
        !atomic_compare_exchange_weak (&segment->state, &state, state + 1));
    return segment->base + off;
}

void
ta_memory_unuse (ta_memory_t *self, uint32_t id)
{
    ta_segment_t *segment = s_at (self, id);
    if (segment && atomic_fetch_sub (&segment->state, 1) == (DROPPED | 1))
        s_unmap (segment);
}

uint64_t
ta_memory_total (const ta_memory_t *self)
{
    return self->total;
}
