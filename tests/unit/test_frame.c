//  tests/unit/test_frame.c - golden bytes, round trips, hostile bytes
//
//  The golden bytes are the protocol: they never change within a version.

#include "protocol/frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const tp_frame_t s_frame = {
    .type = TP_FRAME_PUT,
    .flags = TP_FRAME_HAS_SUM | TP_FRAME_IS_EAGER,
    .channel = 0x0102,
    .len = 0x00030405,
    .comm = 0x1112131415161718,
    .epoch = -2,
    .seq = 0x2122232425262728,
    .segment = 0x31323334,
    .buf = 1,
    .off = 0x4142434445464748,
    .grant = 0x51525354,
    .eager = 0x61626364,
    .sig = { .kind = 4,
             .dtype = 8,
             .op = 0,
             .flags = 2,
             .root = 0x71727374,
             .count = 0x8182838485868788,
             .algorithm = 3,
             .name = 0x91929394 },
    .number = 0xa1a2a3a4a5a6a7a8,
    .ack = 0xb1b2b3b4b5b6b7b8,
    .checksum = 0xc1c2c3c4,
    .key_phase = 0xd1d2d3d4,
    .work_base = 0xe1e2e3e4e5e6e7e8,
    .temp_base = 0xf1f2f3f4f5f6f7f8,
    .work_rkey = 0x01020304,
    .temp_rkey = 0x05060708,
};

static const uint8_t s_golden[TP_FRAME_BYTES] = {
    0x54, 0x01, 0x01, 0x03, 0x02, 0x01, 0x01, 0x00,  //  magic to buf, zero
    0x05, 0x04, 0x03, 0x00, 0x34, 0x33, 0x32, 0x31,  //  len, segment
    0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11,  //  comm
    0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,  //  epoch
    0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21,  //  seq
    0x48, 0x47, 0x46, 0x45, 0x44, 0x43, 0x42, 0x41,  //  off
    0x54, 0x53, 0x52, 0x51, 0x64, 0x63, 0x62, 0x61,  //  grant, eager
    0x04, 0x08, 0x00, 0x02, 0x74, 0x73, 0x72, 0x71,  //  kind to root
    0x88, 0x87, 0x86, 0x85, 0x84, 0x83, 0x82, 0x81,  //  count
    0x03, 0x00, 0x00, 0x00, 0x94, 0x93, 0x92, 0x91,  //  algorithm, name
    0xa8, 0xa7, 0xa6, 0xa5, 0xa4, 0xa3, 0xa2, 0xa1,  //  number
    0xb8, 0xb7, 0xb6, 0xb5, 0xb4, 0xb3, 0xb2, 0xb1,  //  ack
    0xc4, 0xc3, 0xc2, 0xc1, 0xd4, 0xd3, 0xd2, 0xd1,  //  checksum, key_phase
    0xe8, 0xe7, 0xe6, 0xe5, 0xe4, 0xe3, 0xe2, 0xe1,  //  work_base
    0xf8, 0xf7, 0xf6, 0xf5, 0xf4, 0xf3, 0xf2, 0xf1,  //  temp_base
    0x04, 0x03, 0x02, 0x01, 0x08, 0x07, 0x06, 0x05,  //  rkeys
};

static void
test_frame_golden (void **unused)
{
    (void) unused;
    uint8_t bytes[TP_FRAME_BYTES + 1];
    memset (bytes, 0x5a, sizeof bytes);
    tp_frame_encode (&s_frame, bytes);
    assert_memory_equal (bytes, s_golden, sizeof s_golden);
    assert_int_equal (bytes[TP_FRAME_BYTES], 0x5a);

    tp_frame_t frame;
    memset (&frame, 0, sizeof frame);
    assert_int_equal (tp_frame_decode (&frame, s_golden), TUTTI_OK);
    assert_memory_equal (&frame, &s_frame, sizeof frame);
}

//  The golden frame with one byte changed; the rest must decode to ERR and
//  leave the target alone.
static void
s_frame_refused (size_t at, uint8_t value, tutti_err_t err)
{
    uint8_t bytes[TP_FRAME_BYTES];
    memcpy (bytes, s_golden, sizeof bytes);
    bytes[at] = value;
    tp_frame_t frame, before;
    memset (&frame, 0x77, sizeof frame);
    before = frame;
    assert_int_equal (tp_frame_decode (&frame, bytes), err);
    assert_memory_equal (&frame, &before, sizeof frame);
}

static void
test_frame_refused (void **unused)
{
    (void) unused;
    s_frame_refused (0, 0x55, TUTTI_EPROTO);  //  magic
    s_frame_refused (1, 2, TUTTI_EVERSION);   //  version
    s_frame_refused (1, 0, TUTTI_EVERSION);
    s_frame_refused (2, 0, TUTTI_EPROTO);  //  type
    s_frame_refused (2, TP_FRAME_TYPES, TUTTI_EPROTO);
    s_frame_refused (2, 255, TUTTI_EPROTO);
    s_frame_refused (3, 4, TUTTI_EPROTO);  //  flags
    s_frame_refused (3, 0x80, TUTTI_EPROTO);
    s_frame_refused (6, 2, TUTTI_EPROTO);          //  buf
    s_frame_refused (7, 1, TUTTI_EPROTO);          //  zero
    s_frame_refused (11, 4, TUTTI_EPROTO);         //  len: 64 MiB and more
    s_frame_refused (56, TP_KINDS, TUTTI_EPROTO);  //  kind
    s_frame_refused (57, 12, TUTTI_EPROTO);        //  dtype
    s_frame_refused (58, 9, TUTTI_EPROTO);         //  op
    s_frame_refused (59, 4, TUTTI_EPROTO);         //  flags of the signature
    s_frame_refused (63, 0x80, TUTTI_EPROTO);      //  root below 0
    s_frame_refused (75, 1, TUTTI_EPROTO);         //  algorithm
    s_frame_refused (2, TP_FRAME_GRANT, TUTTI_EPROTO);   //  eager, payload
    s_frame_refused (2, TP_FRAME_NOTICE, TUTTI_EPROTO);  //  eager
}

static tutti_err_t
s_round_trip (const tp_frame_t *frame)
{
    uint8_t bytes[TP_FRAME_BYTES];
    tp_frame_t back;
    tp_frame_encode (frame, bytes);
    tutti_err_t err = tp_frame_decode (&back, bytes);
    if (!err) {
        uint8_t again[TP_FRAME_BYTES];
        tp_frame_encode (&back, again);
        assert_memory_equal (again, bytes, sizeof bytes);
    }
    return err;
}

static void
test_frame_kinds (void **unused)
{
    (void) unused;
    tp_frame_t frame = { .type = TP_FRAME_GRANT, .sig = { .root = -1 } };
    assert_int_equal (s_round_trip (&frame), TUTTI_OK);
    frame.len = 1;
    assert_int_equal (s_round_trip (&frame), TUTTI_EPROTO);
    frame = (tp_frame_t){ .type = TP_FRAME_EAGER, .eager = 7 };
    assert_int_equal (s_round_trip (&frame), TUTTI_OK);
    frame.flags = TP_FRAME_IS_EAGER;
    assert_int_equal (s_round_trip (&frame), TUTTI_EPROTO);
    frame = (tp_frame_t){ .type = TP_FRAME_NOTICE, .len = 1 };
    assert_int_equal (s_round_trip (&frame), TUTTI_OK);
    frame.len = 0;
    assert_int_equal (s_round_trip (&frame), TUTTI_EPROTO);
    frame = s_frame;
    frame.len = TP_PAYLOAD_MAX;
    assert_int_equal (s_round_trip (&frame), TUTTI_OK);
    frame.len = TP_PAYLOAD_MAX + 1;
    assert_int_equal (s_round_trip (&frame), TUTTI_EPROTO);
    frame = s_frame;
    frame.off = UINT64_MAX - frame.len;
    assert_int_equal (s_round_trip (&frame), TUTTI_OK);
    frame.off++;
    assert_int_equal (s_round_trip (&frame), TUTTI_EPROTO);
}

static tp_hello_t
s_hello (void)
{
    tp_hello_t hello = { .protocol = TP_PROTOCOL,
                         .channel = 0x0102,
                         .epoch = 0x1112131415161718,
                         .job = "job.1",
                         .from = 7,
                         .to = 0x0302,
                         .received = 0x2122232425262728 };
    for (int i = 0; i < 32; i++) {
        hello.random[i] = (uint8_t) (0x40 + i);
        hello.ephemeral[i] = (uint8_t) (0x80 + i);
    }
    return hello;
}

static void
s_golden_hello (uint8_t *bytes)
{
    static const uint8_t head[38] = {
        0x54, 0x01, 0x02, 0x01, 0x00, 0x00, 0x01, 0x00,  //  to protocol
        0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11,  //  epoch
        0x07, 0x00, 0x00, 0x00, 0x02, 0x03, 0x00, 0x00,  //  from, to
        0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21,  //  received
        'j',  'o',  'b',  '.',  '1',  0,                 //  job
    };
    memset (bytes, 0, TP_HELLO_BYTES);
    memcpy (bytes, head, sizeof head);
    for (int i = 0; i < 32; i++) {
        bytes[96 + i] = (uint8_t) (0x40 + i);
        bytes[128 + i] = (uint8_t) (0x80 + i);
    }
}

static void
test_hello_golden (void **unused)
{
    (void) unused;
    uint8_t golden[TP_HELLO_BYTES], bytes[TP_HELLO_BYTES + 1];
    memset (bytes, 0x5a, sizeof bytes);
    tp_hello_t hello = s_hello (), back;
    tp_hello_encode (&hello, bytes);
    s_golden_hello (golden);
    assert_memory_equal (bytes, golden, sizeof golden);
    assert_int_equal (bytes[TP_HELLO_BYTES], 0x5a);
    memset (&back, 0, sizeof back);
    assert_int_equal (tp_hello_decode (&back, golden), TUTTI_OK);
    assert_memory_equal (&back, &hello, sizeof back);
}

static void
s_hello_refused (size_t at, uint8_t value, tutti_err_t err)
{
    uint8_t bytes[TP_HELLO_BYTES];
    s_golden_hello (bytes);
    bytes[at] = value;
    tp_hello_t hello, before;
    memset (&hello, 0x77, sizeof hello);
    before = hello;
    assert_int_equal (tp_hello_decode (&hello, bytes), err);
    assert_memory_equal (&hello, &before, sizeof hello);
}

static void
test_hello_refused (void **unused)
{
    (void) unused;
    s_hello_refused (0, 0, TUTTI_EPROTO);
    s_hello_refused (1, 9, TUTTI_EVERSION);
    s_hello_refused (6, 2, TUTTI_EVERSION);    //  major
    s_hello_refused (17, 0x10, TUTTI_EPROTO);  //  from: 4096 and more
    s_hello_refused (23, 1, TUTTI_EPROTO);     //  to
    s_hello_refused (32, 0, TUTTI_EPROTO);     //  no name
    s_hello_refused (33, '/', TUTTI_EPROTO);
    s_hello_refused (33, ' ', TUTTI_EPROTO);
    s_hello_refused (40, 'x', TUTTI_EPROTO);  //  behind the name's zero
    s_hello_refused (95, 1, TUTTI_EPROTO);
    s_hello_refused (160, 1, TUTTI_EPROTO);  //  reserved
    s_hello_refused (255, 1, TUTTI_EPROTO);

    uint8_t bytes[TP_HELLO_BYTES];
    tp_hello_t hello;
    s_golden_hello (bytes);
    memset (bytes + 32, 'a', 64);  //  a name without end
    assert_int_equal (tp_hello_decode (&hello, bytes), TUTTI_EPROTO);
    s_golden_hello (bytes);
    memcpy (bytes + 20, bytes + 16, 4);  //  to itself
    assert_int_equal (tp_hello_decode (&hello, bytes), TUTTI_EPROTO);
    s_golden_hello (bytes);
    bytes[4] = 0xff;  //  a newer minor is welcome
    assert_int_equal (tp_hello_decode (&hello, bytes), TUTTI_OK);
}

static uint64_t
s_random (uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

//  Garbage, and golden bytes with a few bytes spoilt: whatever is accepted
//  keeps its limits and encodes to the same bytes again.
static void
test_random (void **unused)
{
    (void) unused;
    uint64_t seed = 42;
    uint8_t bytes[TP_HELLO_BYTES], again[TP_HELLO_BYTES];
    for (int k = 0; k < 200000; k++) {
        s_golden_hello (bytes);
        if (k % 2)
            memcpy (bytes, s_golden, sizeof s_golden);
        for (int i = 0; i < (k % 5 == 0 ? TP_HELLO_BYTES : 3); i++)
            bytes[s_random (&seed) % TP_HELLO_BYTES] =
                (uint8_t) s_random (&seed);
        tp_frame_t frame;
        if (!tp_frame_decode (&frame, bytes)) {
            assert_true (frame.len <= TP_PAYLOAD_MAX && frame.buf <= 1);
            tp_frame_encode (&frame, again);
            assert_memory_equal (again, bytes, TP_FRAME_BYTES);
        }
        tp_hello_t hello;
        if (!tp_hello_decode (&hello, bytes)) {
            assert_true (tp_name_ok (hello.job));
            tp_hello_encode (&hello, again);
            assert_memory_equal (again, bytes, TP_HELLO_BYTES);
        }
    }
}

int
main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_frame_golden),
        cmocka_unit_test (test_frame_refused),
        cmocka_unit_test (test_frame_kinds),
        cmocka_unit_test (test_hello_golden),
        cmocka_unit_test (test_hello_refused),
        cmocka_unit_test (test_random),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
