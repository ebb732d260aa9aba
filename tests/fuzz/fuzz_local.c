//  tests/fuzz/fuzz_local.c - bytes from a client: HELLO, and what it deposits
//
//  A deposit that passes the checks of the agent must be cut into segments
//  that lie inside the memory it names.

#include "agent/attach.h"
#include "protocol/board.h"

#include <assert.h>
#include <string.h>

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

static void
s_hello (const uint8_t *data, size_t size)
{
    //  A head that fits, so that the fuzzer gets to the body.
    static _Alignas(16)
        uint8_t copy[sizeof (tp_local_head_t) + sizeof (tp_local_hello_t)];
    tp_local_head_t head = { TP_LOCAL_MAGIC, TP_LOCAL_VERSION, TP_LOCAL_HELLO,
                             sizeof (tp_local_hello_t), 0 };
    tp_local_hello_t hello;
    char text[TP_TEXT_MAX];
    memset (copy, 0, sizeof copy);
    memcpy (copy, &head, sizeof head);
    size_t n = size < sizeof hello ? size : sizeof hello;
    memcpy (copy + sizeof head, data, n);
    if (ta_attach_check (data, size, "n", &hello, text) &&
        ta_attach_check (copy, sizeof copy, "n", &hello, text))
        return;
    assert (tp_name_ok (hello.job) && hello.rank < hello.size);
    assert (memchr (hello.host, 0, sizeof hello.host));
}

//  Segment G of piece P of a side, as bytes, inside the whole buffer.
static void
s_inside (const tp_geo_t *geo, const tp_side_t *side, uint32_t p, uint32_t g,
          const void *at)
{
    uint64_t len = tp_geo_len (geo, side, p, g) * geo->element;
    assert (len == 0 || (uintptr_t) at + len <=
                            (uintptr_t) side->base + tp_geo_bytes (geo, side));
}

//  Every segment of every piece inside the whole buffer, or the window.
static void
s_deposit (const tp_deposit_t *d, uint32_t size, uint64_t segment_bytes,
           const uint64_t *words)
{
    tp_geo_t geo;
    static uint8_t origin[1];
    char text[128];
    tp_sig_text (&d->sig, text, sizeof text);
    if (!tp_sig_ok (&d->sig, size) ||
        tp_geo_make (&geo, &d->sig, size, segment_bytes))
        return;
    assert (geo.segments > 0 && geo.slot <= segment_bytes + 64 * size * 8);
    tp_side_t in = { .base = origin, .where = TP_WHERE_DIRECT }, out = in;
    uint32_t r = size - 1;
    tp_geo_sides (&geo, &d->sig, r, geo.info->uneven ? words : NULL, &in,
                  &out);
    if (tp_geo_bytes (&geo, &in) == UINT64_MAX ||
        tp_geo_bytes (&geo, &out) == UINT64_MAX)
        return;
    uint64_t most = tp_geo_most (&in);
    if (geo.info->uneven &&
        tp_geo_stretch (&geo, most > d->most ? most : d->most))
        return;
    uint32_t g = geo.segments - 1;
    for (uint32_t p = 0; p < in.pieces; p++)
        s_inside (&geo, &in, p, g, tp_geo_in (&geo, &in, r, p, g));
    for (uint32_t p = 0; p < out.pieces; p++)
        s_inside (&geo, &out, p, g, tp_geo_out (&geo, &out, r, p, g));
    tp_side_t window = { .base = origin,
                         .where = TP_WHERE_WINDOW,
                         .window = 1 + d->window % TP_SLOTS,
                         .pieces = in.pieces,
                         .counts = in.counts,
                         .displs = in.displs };
    for (uint32_t p = 0; p < in.pieces; p++)
        assert ((uintptr_t) tp_geo_in (&geo, &window, r, p, g) +
                    tp_geo_len (&geo, &window, p, g) * geo.element <=
                (uintptr_t) origin + window.window * geo.slot);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    tp_deposit_t d;
    if (size < 1)
        return 0;
    s_hello (data, size);
    if (size < sizeof d + 8)
        return 0;
    memcpy (&d, data, sizeof d);
    uint32_t ranks = 1 + data[sizeof d] % TP_LOCAL_MAX;
    uint64_t segment = TP_INLINE_BYTES << data[sizeof d + 1] % 12;
    static uint64_t words[4 * TP_LOCAL_MAX];
    size_t more = size - sizeof d - 2;
    memset (words, 0, sizeof words);
    memcpy (words, data + sizeof d + 2,
            more < sizeof words ? more : sizeof words);
    s_deposit (&d, ranks, segment, words);
    return 0;
}
