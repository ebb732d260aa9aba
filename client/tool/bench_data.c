//  client/tool/bench_data.c - input that gives exact results, and their check
//
//  Element i of rank r is a small whole number v (r, k), k = i mod 251: sums
//  of all ranks stay below the limit up to which the type counts exactly, so
//  every order of additions gives the same bits. 251 is prime: a block put in
//  the wrong place cannot look right. The second parity shifts k, so what the
//  op before has left cannot look right either.

#include "client/tool/bench.h"

#include <math.h>
#include <string.h>

#define PERIOD 251
#define REPEATS 16
#define SHIFT 97  //  of k, by the parity
#define LARGEST 120
#define FACTORS 3  //  of a product that are 2

//  One period of elements, repeated, so that any phase is contiguous.
typedef struct pattern {
    size_t size;
    uint8_t bytes[PERIOD * (REPEATS + 1) * 8];
} pattern_t;

//  Whole numbers up to here are exact.
static int64_t
s_limit (tutti_dtype_t dtype)
{
    switch (dtype) {
    case TUTTI_FLOAT8E5M2:
        return 8;
    case TUTTI_FLOAT8E4M3:
        return 16;
    case TUTTI_INT8:
        return 127;
    case TUTTI_UINT8:
        return 255;
    case TUTTI_BFLOAT16:
        return 256;
    case TUTTI_FLOAT16:
        return 2048;
    default:
        return 1 << 24;
    }
}

static bool
s_reduces (const bench_options_t *options)
{
    return tp_kind_info ((int) options->kind)->reduces;
}

bool
bench_data_ok (const bench_options_t *options, int size)
{
    return !s_reduces (options) || options->op != TUTTI_AVG ||
           size <= s_limit (options->dtype);
}

//  0 to MODULUS - 1, scattered (the finisher of MurmurHash3, A. Appleby).
static int64_t
s_hash (int64_t a, int64_t b, int64_t modulus)
{
    uint32_t h = (uint32_t) (a * PERIOD + b + 1);
    h = (h ^ (h >> 16)) * 0x85ebca6bu;
    h = (h ^ (h >> 13)) * 0xc2b2ae35u;
    h ^= h >> 16;
    return (int64_t) (h % (uint32_t) modulus);
}

static int64_t
s_least (int64_t a, int64_t b)
{
    return a < b ? a : b;
}

//  v (r, k).
static int64_t
s_value (const bench_t *self, int r, int k)
{
    const bench_options_t *o = self->options;
    int64_t n = self->size, limit = s_limit (o->dtype);
    int64_t largest = s_least (LARGEST, limit);
    if (!s_reduces (o))
        return 1 + s_hash (r, k, largest);
    switch (o->op) {
    case TUTTI_SUM:
        if (n > limit)
            return (r + k) % n < limit;
        return 1 + s_hash (r, k, s_least (LARGEST, limit / n));
    case TUTTI_AVG:
        //  Pairs of ranks stray from the average by one, up and down.
        if (r % 2 == 0)
            return 1 + s_hash (0, k, s_least (LARGEST, limit / n)) +
                   (r + 1 < n);
        return s_hash (0, k, s_least (LARGEST, limit / n));
    case TUTTI_PROD:
        return 1 + ((r + k) % n < FACTORS);
    default:
        return 1 + s_hash (r, k, largest);
    }
}

static int64_t
s_combine (tutti_op_t op, int64_t a, int64_t b)
{
    switch (op) {
    case TUTTI_PROD:
        return a * b;
    case TUTTI_MIN:
        return a < b ? a : b;
    case TUTTI_MAX:
        return a > b ? a : b;
    case TUTTI_BAND:
        return a & b;
    case TUTTI_BOR:
        return a | b;
    case TUTTI_BXOR:
        return a ^ b;
    default:
        return a + b;
    }
}

//  What all ranks together give.
static int64_t
s_result (const bench_t *self, int k)
{
    int64_t value = s_value (self, 0, k);
    for (int r = 1; r < self->size; r++)
        value = s_combine (self->options->op, value, s_value (self, r, k));
    return self->options->op == TUTTI_AVG ? value / self->size : value;
}

//  A whole number as a float of 8 or 16 bits; VALUE is exact in it.
static uint32_t
s_small_float (int64_t value, int mantissa_bits, int bias)
{
    int exponent;
    if (value == 0)
        return 0;
    float fraction = frexpf ((float) value, &exponent);
    uint32_t mantissa =
        (uint32_t) ((2.0f * fraction - 1.0f) * (float) (1 << mantissa_bits));
    return (uint32_t) (exponent - 1 + bias) << mantissa_bits | mantissa;
}

//  Little endian, as all machines that Tutti runs on.
static void
s_encode (uint8_t *to, int64_t value, tutti_dtype_t dtype)
{
    float single = (float) value;
    double twice = (double) value;
    uint32_t small = 0;
    switch (dtype) {
    case TUTTI_FLOAT32:
        memcpy (to, &single, sizeof single);
        return;
    case TUTTI_FLOAT64:
        memcpy (to, &twice, sizeof twice);
        return;
    case TUTTI_FLOAT16:
        small = s_small_float (value, 10, 15);
        break;
    case TUTTI_BFLOAT16:
        small = s_small_float (value, 7, 127);
        break;
    case TUTTI_FLOAT8E4M3:
        small = s_small_float (value, 3, 7);
        break;
    case TUTTI_FLOAT8E5M2:
        small = s_small_float (value, 2, 15);
        break;
    default:
        memcpy (to, &value, tp_dtype_size ((int) dtype));
        return;
    }
    memcpy (to, &small, tp_dtype_size ((int) dtype));
}

//  The period of rank R, or of the result if R is negative.
static void
s_pattern (const bench_t *self, int r, pattern_t *pattern)
{
    size_t size = tp_dtype_size ((int) self->options->dtype);
    pattern->size = size;
    for (int k = 0; k < PERIOD; k++)
        s_encode (pattern->bytes + (size_t) k * size,
                  r < 0 ? s_result (self, k) : s_value (self, r, k),
                  self->options->dtype);
    for (size_t i = 1; i <= REPEATS; i++)
        memcpy (pattern->bytes + i * PERIOD * size, pattern->bytes,
                PERIOD * size);
}

static size_t
s_run (size_t count, size_t at)
{
    size_t left = count - at;
    return left < PERIOD * REPEATS ? left : PERIOD * REPEATS;
}

static int64_t
s_count_wrong (const uint8_t *got, const uint8_t *want, size_t n, size_t size)
{
    int64_t wrong = 0;
    for (size_t i = 0; i < n; i++)
        wrong += memcmp (got + i * size, want + i * size, size) != 0;
    return wrong;
}

//  COUNT elements that begin with element FIRST of PATTERN.
static int64_t
s_wrong (const uint8_t *got, size_t count, size_t first,
         const pattern_t *pattern)
{
    const uint8_t *want = pattern->bytes + first % PERIOD * pattern->size;
    int64_t wrong = 0;
    for (size_t at = 0; at < count; at += PERIOD * REPEATS) {
        size_t n = s_run (count, at), size = pattern->size;
        if (memcmp (got + at * size, want, n * size) != 0)
            wrong += s_count_wrong (got + at * size, want, n, size);
    }
    return wrong;
}

size_t
bench_in_count (const bench_t *self, size_t count)
{
    size_t n = (size_t) self->size;
    bool each = tp_kind_info ((int) self->options->kind)->in == TP_FORM_EACH;
    return each ? count * n : count;
}

size_t
bench_out_count (const bench_t *self, size_t count)
{
    size_t n = (size_t) self->size;
    bool each = tp_kind_info ((int) self->options->kind)->out == TP_FORM_EACH;
    return each ? count * n : count;
}

void
bench_data_fill (const bench_t *self, void *send, size_t count, int parity)
{
    pattern_t pattern;
    s_pattern (self, self->rank, &pattern);
    size_t first = parity ? SHIFT : 0, n = bench_in_count (self, count);
    uint8_t *to = send;
    for (size_t at = 0; at < n; at += PERIOD * REPEATS)
        memcpy (to + at * pattern.size, pattern.bytes + first * pattern.size,
                s_run (n, at) * pattern.size);
}

static tp_sig_t
s_sig (const bench_t *self)
{
    return (tp_sig_t){ .kind = (uint8_t) self->options->kind,
                       .root = self->options->root };
}

bool
bench_has_input (const bench_t *self)
{
    tp_sig_t sig = s_sig (self);
    return tp_form_in (&sig, (uint32_t) self->rank) != TP_FORM_NONE;
}

//  Where an input has a piece for each rank, this rank gets the one of its
//  number.
int64_t
bench_data_wrong (const bench_t *self, const void *recv, size_t count,
                  int parity)
{
    const tp_kind_info_t *info = tp_kind_info ((int) self->options->kind);
    pattern_t pattern;
    tp_sig_t sig = s_sig (self);
    size_t first = parity ? SHIFT : 0;
    int64_t wrong = 0;
    tp_form_t out = tp_form_out (&sig, (uint32_t) self->rank);
    if (info->in == TP_FORM_EACH)
        first += (size_t) self->rank * count;
    //  A broadcast is checked at its root, too.
    if (out == TP_FORM_NONE && self->options->kind != TP_BROADCAST)
        return 0;
    if (out == TP_FORM_EACH) {
        for (int r = 0; r < self->size; r++) {
            s_pattern (self, r, &pattern);
            wrong += s_wrong ((const uint8_t *) recv +
                                  (size_t) r * count * pattern.size,
                              count, first, &pattern);
        }
        return wrong;
    }
    s_pattern (self, info->reduces ? -1 : self->options->root, &pattern);
    return s_wrong (recv, count, first, &pattern);
}
