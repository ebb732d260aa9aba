//  client/segment.c - memory that the agent made: segments and staging

#include "client/session.h"

#include "client/error.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

tl_segment_t *
tl_segment_keep (tl_session_t *self, uint32_t id, void *base, size_t bytes,
                 bool mine)
{
    tl_segment_t *segment = calloc (1, sizeof *segment);
    if (!segment) {
        munmap (base, bytes);
        return NULL;
    }
    *segment = (tl_segment_t){ id, base, bytes, mine, self->segments };
    self->segments = segment;
    return segment;
}

//  Touch the pages: the first to touch a page pays for it in its memory
//  cgroup. Older kernels have no MADV_POPULATE_WRITE: write instead.
static void
s_touch (uint8_t *base, size_t bytes)
{
#ifdef MADV_POPULATE_WRITE
    if (madvise (base, bytes, MADV_POPULATE_WRITE) == 0)
        return;
#endif
    for (size_t off = 0; off < bytes; off += 4096)
        ((volatile uint8_t *) base)[off] = 0;
}

tutti_err_t
tl_segment_alloc (tl_session_t *self, size_t bytes, tl_segment_t **segment_p)
{
    tp_local_segment_t want = { .bytes = (bytes + 4095) & ~(size_t) 4095 };
    tp_local_segment_t got;
    int fd;
    tutti_err_t err = tl_session_ask (self, TP_LOCAL_ALLOC, &want, sizeof want,
                                      TP_LOCAL_SEGMENT, &got, sizeof got, &fd);
    if (err)
        return err;
    void *base = tl_map_fd (fd, got.bytes, true);
    tl_segment_t *segment =
        base ? tl_segment_keep (self, got.id, base, got.bytes, true) : NULL;
    if (!segment)
        return tl_error (TUTTI_ENOMEM, "no memory to map %zu bytes", bytes);
    s_touch (segment->base, segment->bytes);
    *segment_p = segment;
    return TUTTI_OK;
}

tutti_err_t
tl_segment_free (tl_session_t *self, tl_segment_t *segment)
{
    tp_local_segment_t which = { .id = segment->id };
    for (tl_segment_t **p = &self->segments; *p; p = &(*p)->next)
        if (*p == segment) {
            *p = segment->next;
            break;
        }
    munmap (segment->base, segment->bytes);
    free (segment);
    return tl_session_ask (self, TP_LOCAL_FREE, &which, sizeof which,
                           TP_LOCAL_REPLY, NULL, 0, NULL);
}

tl_segment_t *
tl_segment_find (tl_session_t *self, const void *ptr, size_t bytes)
{
    uintptr_t at = (uintptr_t) ptr;
    for (tl_segment_t *s = self->segments; s; s = s->next) {
        uintptr_t base = (uintptr_t) s->base;
        if (s->mine && at >= base && at - base <= s->bytes &&
            bytes <= s->bytes - (at - base))
            return s;
    }
    return NULL;
}

tutti_err_t
tl_segment_map (tl_session_t *self, uint32_t id, tl_segment_t **segment_p)
{
    for (tl_segment_t *s = self->segments; s; s = s->next)
        if (s->id == id) {
            *segment_p = s;
            return TUTTI_OK;
        }
    tp_local_segment_t want = { .id = id }, got;
    int fd;
    tutti_err_t err = tl_session_ask (self, TP_LOCAL_MAP, &want, sizeof want,
                                      TP_LOCAL_SEGMENT, &got, sizeof got, &fd);
    if (err)
        return err;
    void *base = tl_map_fd (fd, got.bytes, false);
    tl_segment_t *segment =
        base ? tl_segment_keep (self, id, base, got.bytes, false) : NULL;
    if (!segment)
        return tl_error (TUTTI_ENOMEM, "no memory to map a peer's segment");
    *segment_p = segment;
    return TUTTI_OK;
}

uint64_t
tl_staging_take (tl_session_t *self, uint64_t bytes)
{
    uint32_t need = (uint32_t) ((bytes + TL_GRANULE - 1) / TL_GRANULE);
    uint32_t run = 0;
    for (uint32_t i = 0; i < self->granules; i++) {
        run = self->staging_used[i] ? 0 : run + 1;
        if (run < need)
            continue;
        uint32_t first = i + 1 - need;
        memset (self->staging_used + first, 1, need);
        return first * TL_GRANULE;
    }
    return UINT64_MAX;
}

void
tl_staging_give (tl_session_t *self, uint64_t off, uint64_t bytes)
{
    uint32_t need = (uint32_t) ((bytes + TL_GRANULE - 1) / TL_GRANULE);
    memset (self->staging_used + off / TL_GRANULE, 0, need);
}
