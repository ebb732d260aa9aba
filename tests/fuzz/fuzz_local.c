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

//  Every segment of every piece inside the whole buffer, or the window.
static void
s_deposit (const tp_deposit_t *d, uint32_t size, uint64_t segment_bytes)
{
    tp_geo_t geo;
    char text[128];
    tp_sig_text (&d->sig, text, sizeof text);
    if (!tp_sig_ok (&d->sig, size) ||
        tp_geo_make (&geo, &d->sig, size, segment_bytes))
        return;
    assert (geo.segments > 0 && geo.slot <= segment_bytes + 64 * size * 8);
    uint64_t in = tp_geo_in_bytes (&geo, true), out = tp_geo_out_bytes (&geo);
    static uint8_t origin[1];
    tp_side_t whole = { origin, TP_WHERE_DIRECT, 0 };
    tp_side_t window = { origin, TP_WHERE_WINDOW, 1 + d->window % TP_SLOTS };
    uint32_t g = geo.segments - 1, r = size - 1;
    uint64_t len = tp_geo_len (&geo, g) * geo.element;
    uint32_t p = geo.pieces - 1;
    assert ((uintptr_t) tp_geo_in (&geo, &whole, r, p, g) + len <=
            (uintptr_t) origin + in);
    assert ((uintptr_t) tp_geo_out (&geo, &whole, r, p, g) + len <=
            (uintptr_t) origin + out);
    assert ((uintptr_t) tp_geo_in (&geo, &window, r, p, g) + len <=
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
    s_deposit (&d, ranks, segment);
    return 0;
}
