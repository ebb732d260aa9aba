//  protocol/frame.c - the bytes of frames and hellos, little endian
//
//  frame, 128 bytes                       hello, 256 bytes
//    0 magic     1   64 sig, continued      0 magic       1
//    1 version   1      56 kind      1      1 version     1
//    2 type      1      57 dtype     1      2 channel     2
//    3 flags     1      58 op        1      4 protocol    4
//    4 channel   2      59 flags     1      8 epoch       8
//    6 buf       1      60 root      4     16 from        4
//    7 zero      1      64 count     8     20 to          4
//    8 len       4      72 algorithm 4     24 received    8
//   12 segment   4      76 name      4     32 job        64
//   16 comm      8   80 number       8     96 random     32
//   24 epoch     8   88 ack          8    128 ephemeral  32
//   32 seq       8   96 checksum     4    160 zero       96
//   40 off       8  100 key_phase    4
//   48 grant     4  104 work_base    8
//   52 eager     4  112 temp_base    8
//   56 sig      24  120 work_rkey    4
//                   124 temp_rkey    4

#include "protocol/frame.h"

#include "protocol/schedule.h"

#include <assert.h>
#include <string.h>

#define HELLO_JOB 32
#define HELLO_RANDOM 96
#define HELLO_EPHEMERAL 128
#define HELLO_ZERO 160

static void
s_put (uint8_t *bytes, size_t at, int len, uint64_t value)
{
    for (int i = 0; i < len; i++)
        bytes[at + (size_t) i] = (uint8_t) (value >> (8 * i));
}

static uint64_t
s_get (const uint8_t *bytes, size_t at, int len)
{
    uint64_t value = 0;
    for (int i = 0; i < len; i++)
        value |= (uint64_t) bytes[at + (size_t) i] << (8 * i);
    return value;
}

static uint32_t
s_get32 (const uint8_t *bytes, size_t at)
{
    return (uint32_t) s_get (bytes, at, 4);
}

//  ------------------------------------------------------------------ frames

static void
s_sig_encode (const tp_sig_t *sig, uint8_t *bytes)
{
    bytes[56] = sig->kind;
    bytes[57] = sig->dtype;
    bytes[58] = sig->op;
    bytes[59] = sig->flags;
    s_put (bytes, 60, 4, (uint32_t) sig->root);
    s_put (bytes, 64, 8, sig->count);
    s_put (bytes, 72, 4, sig->algorithm);
    s_put (bytes, 76, 4, sig->name);
}

static void
s_sig_decode (tp_sig_t *sig, const uint8_t *bytes)
{
    sig->kind = bytes[56];
    sig->dtype = bytes[57];
    sig->op = bytes[58];
    sig->flags = bytes[59];
    sig->root = (int32_t) s_get32 (bytes, 60);
    sig->count = s_get (bytes, 64, 8);
    sig->algorithm = s_get32 (bytes, 72);
    sig->name = s_get32 (bytes, 76);
}

void
tp_frame_encode (const tp_frame_t *self, uint8_t *bytes)
{
    assert (self->buf <= TP_TEMP);
    bytes[0] = TP_FRAME_MAGIC;
    bytes[1] = TP_FRAME_VERSION;
    bytes[2] = self->type;
    bytes[3] = self->flags;
    s_put (bytes, 4, 2, self->channel);
    bytes[6] = (uint8_t) self->buf;
    bytes[7] = 0;
    s_put (bytes, 8, 4, self->len);
    s_put (bytes, 12, 4, self->segment);
    s_put (bytes, 16, 8, self->comm);
    s_put (bytes, 24, 8, (uint64_t) self->epoch);
    s_put (bytes, 32, 8, self->seq);
    s_put (bytes, 40, 8, self->off);
    s_put (bytes, 48, 4, self->grant);
    s_put (bytes, 52, 4, self->eager);
    s_sig_encode (&self->sig, bytes);
    s_put (bytes, 80, 8, self->number);
    s_put (bytes, 88, 8, self->ack);
    s_put (bytes, 96, 4, self->checksum);
    s_put (bytes, 100, 4, self->key_phase);
    s_put (bytes, 104, 8, self->work_base);
    s_put (bytes, 112, 8, self->temp_base);
    s_put (bytes, 120, 4, self->work_rkey);
    s_put (bytes, 124, 4, self->temp_rkey);
}

static void
s_frame_read (tp_frame_t *frame, const uint8_t *bytes)
{
    frame->type = bytes[2];
    frame->flags = bytes[3];
    frame->channel = (uint16_t) s_get (bytes, 4, 2);
    frame->buf = bytes[6];
    frame->len = s_get32 (bytes, 8);
    frame->segment = s_get32 (bytes, 12);
    frame->comm = s_get (bytes, 16, 8);
    frame->epoch = (int64_t) s_get (bytes, 24, 8);
    frame->seq = s_get (bytes, 32, 8);
    frame->off = s_get (bytes, 40, 8);
    frame->grant = s_get32 (bytes, 48);
    frame->eager = s_get32 (bytes, 52);
    s_sig_decode (&frame->sig, bytes);
    frame->number = s_get (bytes, 80, 8);
    frame->ack = s_get (bytes, 88, 8);
    frame->checksum = s_get32 (bytes, 96);
    frame->key_phase = s_get32 (bytes, 100);
    frame->work_base = s_get (bytes, 104, 8);
    frame->temp_base = s_get (bytes, 112, 8);
    frame->work_rkey = s_get32 (bytes, 120);
    frame->temp_rkey = s_get32 (bytes, 124);
}

static bool
s_frame_ok (const tp_frame_t *frame)
{
    bool put = frame->type == TP_FRAME_PUT;
    bool grant = frame->type == TP_FRAME_GRANT;
    if (frame->type < TP_FRAME_PUT || frame->type >= TP_FRAME_TYPES ||
        (frame->flags & ~(TP_FRAME_HAS_SUM | TP_FRAME_IS_EAGER)) != 0 ||
        ((frame->flags & TP_FRAME_IS_EAGER) && !put) || frame->buf > TP_TEMP ||
        frame->len > TP_PAYLOAD_MAX || frame->off > UINT64_MAX - frame->len)
        return false;
    if ((put || grant) && !tp_sig_ok (&frame->sig, UINT32_MAX))
        return false;
    if (frame->type == TP_FRAME_NOTICE)
        return frame->len > 0;
    return put || frame->len == 0;
}

tutti_err_t
tp_frame_decode (tp_frame_t *self, const uint8_t *bytes)
{
    if (bytes[0] != TP_FRAME_MAGIC)
        return TUTTI_EPROTO;
    if (bytes[1] != TP_FRAME_VERSION)
        return TUTTI_EVERSION;
    if (bytes[7] != 0)
        return TUTTI_EPROTO;
    tp_frame_t frame;
    s_frame_read (&frame, bytes);
    if (!s_frame_ok (&frame))
        return TUTTI_EPROTO;
    *self = frame;
    return TUTTI_OK;
}

//  ------------------------------------------------------------------ hellos

void
tp_hello_encode (const tp_hello_t *self, uint8_t *bytes)
{
    assert (tp_name_ok (self->job));
    memset (bytes, 0, TP_HELLO_BYTES);
    bytes[0] = TP_FRAME_MAGIC;
    bytes[1] = TP_FRAME_VERSION;
    s_put (bytes, 2, 2, self->channel);
    s_put (bytes, 4, 4, self->protocol);
    s_put (bytes, 8, 8, (uint64_t) self->epoch);
    s_put (bytes, 16, 4, self->from);
    s_put (bytes, 20, 4, self->to);
    s_put (bytes, 24, 8, self->received);
    memcpy (bytes + HELLO_JOB, self->job, strlen (self->job));
    memcpy (bytes + HELLO_RANDOM, self->random, sizeof self->random);
    memcpy (bytes + HELLO_EPHEMERAL, self->ephemeral, sizeof self->ephemeral);
}

static bool
s_zero (const uint8_t *bytes, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        if (bytes[i] != 0)
            return false;
    }
    return true;
}

static bool
s_hello_ok (const tp_hello_t *hello, const uint8_t *bytes)
{
    return tp_name_ok (hello->job) && hello->from < TP_NODES_MAX &&
           hello->to < TP_NODES_MAX && hello->from != hello->to &&
           s_zero (bytes, HELLO_JOB + strlen (hello->job), HELLO_RANDOM) &&
           s_zero (bytes, HELLO_ZERO, TP_HELLO_BYTES);
}

tutti_err_t
tp_hello_decode (tp_hello_t *self, const uint8_t *bytes)
{
    if (bytes[0] != TP_FRAME_MAGIC)
        return TUTTI_EPROTO;
    uint32_t protocol = s_get32 (bytes, 4);
    if (bytes[1] != TP_FRAME_VERSION || protocol >> 16 != TP_PROTOCOL_MAJOR)
        return TUTTI_EVERSION;
    tp_hello_t hello = { .protocol = protocol,
                         .channel = (uint16_t) s_get (bytes, 2, 2),
                         .epoch = (int64_t) s_get (bytes, 8, 8),
                         .from = s_get32 (bytes, 16),
                         .to = s_get32 (bytes, 20),
                         .received = s_get (bytes, 24, 8) };
    memcpy (hello.job, bytes + HELLO_JOB, sizeof hello.job);
    memcpy (hello.random, bytes + HELLO_RANDOM, sizeof hello.random);
    memcpy (hello.ephemeral, bytes + HELLO_EPHEMERAL, sizeof hello.ephemeral);
    if (!s_hello_ok (&hello, bytes))
        return TUTTI_EPROTO;
    *self = hello;
    return TUTTI_OK;
}
