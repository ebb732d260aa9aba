//  tests/fuzz/fuzz_msg.c - bytes from the control network: Envelopes
//
//  What is accepted packs, and means the same when it is read again.

#include "protocol/msg.h"

#include <assert.h>
#include <stdlib.h>

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    Tutti__Envelope *envelope, *again;
    char text[TP_TEXT_MAX];
    if (tp_msg_unpack (data, size, &envelope, text))
        return 0;
    uint8_t *bytes;
    size_t len;
    if (tp_msg_pack (envelope, &bytes, &len) == TUTTI_OK) {
        //  protobuf-c packs some unknown fields so that they cannot be read
        //  again; we never send what we received as it is.
        if (tp_msg_unpack (bytes, len, &again, text) == TUTTI_OK) {
            assert (again->body_case == envelope->body_case);
            assert (*tp_msg_name (again));
            tp_msg_free (&again);
        }
        free (bytes);
    }
    tp_msg_free (&envelope);
    return 0;
}
