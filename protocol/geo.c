//  protocol/geo.c - how an op is cut, and where its parts lie

#include "protocol/geo.h"

#define MAX_SEGMENTS (UINT32_MAX - 64u)

static uint64_t
s_segment_elements (uint64_t segment_bytes, size_t element, uint32_t pieces)
{
    uint64_t seg = segment_bytes / element / pieces;
    if (seg >= 64)
        seg &= ~UINT64_C (63);  //  cache lines stay whole
    return seg > 0 ? seg : 1;
}

tutti_err_t
tp_geo_make (tp_geo_t *self, const tp_sig_t *sig, uint32_t size,
             uint64_t segment_bytes)
{
    const tp_kind_info_t *info = tp_kind_info (sig->kind);
    *self = (tp_geo_t){ .info = info, .size = size, .segments = 1 };
    bool each = info->in == TP_FORM_EACH || info->out == TP_FORM_EACH;
    self->pieces = each ? size : 1;
    self->element = tp_dtype_size (sig->dtype);
    bool even = !info->uneven && sig->kind != TP_BARRIER;
    self->count = even ? sig->count : 0;
    uint64_t bytes;
    if (__builtin_mul_overflow (self->count, self->element, &bytes) ||
        __builtin_mul_overflow (bytes, self->pieces, &bytes) ||
        bytes > (UINT64_C (1) << 62))
        return TUTTI_EINVAL;
    self->small = !info->uneven && bytes <= TP_EAGER_BYTES;
    self->seg =
        s_segment_elements (segment_bytes, self->element, self->pieces);
    if (self->small)
        self->seg = self->count;
    else if (even) {
        uint64_t segments = (self->count + self->seg - 1) / self->seg;
        if (segments > MAX_SEGMENTS)
            return TUTTI_EINVAL;
        self->segments = (uint32_t) segments;
    }
    self->slot =
        (self->seg * self->pieces * self->element + 63) & ~UINT64_C (63);
    return TUTTI_OK;
}

tutti_err_t
tp_geo_stretch (tp_geo_t *self, uint64_t most)
{
    if (most > TP_COUNT_MAX || most / self->seg >= MAX_SEGMENTS)
        return TUTTI_EINVAL;
    self->segments = (uint32_t) (most / self->seg) + 1;
    return TUTTI_OK;
}

uint64_t
tp_geo_count (const tp_geo_t *self, const tp_side_t *side, uint32_t p)
{
    return side->counts ? side->counts[p] : self->count;
}

uint64_t
tp_geo_len (const tp_geo_t *self, const tp_side_t *side, uint32_t p,
            uint32_t g)
{
    uint64_t count = tp_geo_count (self, side, p), start = g * self->seg;
    if (start >= count)
        return 0;
    return count - start < self->seg ? count - start : self->seg;
}

bool
tp_geo_has (const tp_geo_t *self, const tp_side_t *side, uint32_t p,
            uint32_t g)
{
    return !side->counts || g <= side->counts[p] / self->seg;
}

//  Whole buffers keep the caller's layout; windows and inline areas hold one
//  segment of every piece (pieces SEG apart).
static void *
s_place (const tp_geo_t *self, const tp_side_t *side, uint32_t piece,
         uint32_t slot_piece, uint32_t g)
{
    if (side->where == TP_WHERE_DIRECT || side->where == TP_WHERE_PRIVATE) {
        uint64_t first =
            side->displs ? side->displs[piece] : piece * self->count;
        return side->base + (first + g * self->seg) * self->element;
    }
    uint64_t slot =
        side->where == TP_WHERE_WINDOW ? (g % side->window) * self->slot : 0;
    return side->base + slot + slot_piece * self->seg * self->element;
}

//  In a window the one piece of an all-gather's input lies where the rank's
//  own piece of the output will be, and the output of a reduce-scatter on its
//  own piece of the input, so that neither overwrites what others still read.
void *
tp_geo_in (const tp_geo_t *self, const tp_side_t *side, uint32_t r, uint32_t p,
           uint32_t g)
{
    bool one = self->info->in == TP_FORM_ONE && self->pieces > 1;
    return s_place (self, side, p, one ? r : p, g);
}

void *
tp_geo_out (const tp_geo_t *self, const tp_side_t *side, uint32_t r,
            uint32_t p, uint32_t g)
{
    bool one = self->info->out == TP_FORM_ONE && self->pieces > 1;
    return s_place (self, side, p, one ? r : p, g);
}

uint64_t
tp_geo_bytes (const tp_geo_t *self, const tp_side_t *side)
{
    uint64_t end = 0;
    if (!side->counts)
        return side->pieces * self->count * self->element;
    for (uint32_t p = 0; p < side->pieces; p++) {
        if (side->counts[p] > TP_COUNT_MAX || side->displs[p] > TP_COUNT_MAX)
            return UINT64_MAX;
        uint64_t last = side->counts[p] + side->displs[p];
        if (side->counts[p] > 0 && last > end)
            end = last;
    }
    return end * self->element;  //  at most 2^61 elements of 8 bytes
}

static uint32_t
s_pieces (tp_form_t form, uint32_t size)
{
    return form == TP_FORM_EACH ? size : form == TP_FORM_ONE;
}

size_t
tp_geo_words (const tp_sig_t *sig, uint32_t size, uint32_t r)
{
    if (!tp_kind_info (sig->kind)->uneven)
        return 0;
    return 2 * ((size_t) s_pieces (tp_form_in (sig, r), size) +
                s_pieces (tp_form_out (sig, r), size));
}

void
tp_geo_sides (const tp_geo_t *self, const tp_sig_t *sig, uint32_t r,
              const uint64_t *words, tp_side_t *in, tp_side_t *out)
{
    in->pieces = s_pieces (tp_form_in (sig, r), self->size);
    out->pieces = s_pieces (tp_form_out (sig, r), self->size);
    in->counts = words;
    in->displs = words ? words + in->pieces : NULL;
    out->counts = words ? words + 2 * in->pieces : NULL;
    out->displs = words ? words + 2 * in->pieces + out->pieces : NULL;
}

uint64_t
tp_geo_most (const tp_side_t *side)
{
    uint64_t most = 0;
    for (uint32_t p = 0; side->counts && p < side->pieces; p++)
        most = side->counts[p] > most ? side->counts[p] : most;
    return most;
}

uint32_t
tp_geo_source (const tp_geo_t *self, const tp_sig_t *sig, uint32_t r,
               uint32_t p, uint32_t *q_p)
{
    *q_p = self->info->in == TP_FORM_EACH ? r : 0;
    if (self->info->out == TP_FORM_EACH)
        return p;
    return self->info->in_who == TP_WHO_ROOT ? (uint32_t) sig->root : r;
}
