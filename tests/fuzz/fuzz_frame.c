//  tests/fuzz/fuzz_frame.c - bytes from the network: frames and hellos
//
//  What decodes must encode to the same bytes again: nothing is guessed.

#include "protocol/frame.h"

#include <assert.h>
#include <string.h>

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    tp_frame_t frame;
    tp_hello_t hello;
    uint8_t again[TP_HELLO_BYTES];
    if (size >= TP_FRAME_BYTES && tp_frame_decode (&frame, data) == TUTTI_OK) {
        tp_frame_encode (&frame, again);
        assert (memcmp (again, data, TP_FRAME_BYTES) == 0);
        assert (frame.len <= TP_PAYLOAD_MAX);
    }
    if (size >= TP_HELLO_BYTES && tp_hello_decode (&hello, data) == TUTTI_OK) {
        tp_hello_encode (&hello, again);
        assert (memcmp (again, data, TP_HELLO_BYTES) == 0);
        assert (tp_name_ok (hello.job));
    }
    return 0;
}
