//  tests/unit/test_kernels.c - every body against the portable one, bit for
//  bit, and the portable one against a reference that is written differently:
//  small floats are decoded by their formula in double and encoded by a
//  search for the nearest value

#include "kernels/tk.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAX_N 16
#define MAX_COUNT 4097
#define MARGIN 64  //  bytes around every output that must stay as they are

static const char *const s_bodies[] = { "portable", "avx2", "avx512", "neon" };
#define BODIES (sizeof s_bodies / sizeof *s_bodies)

static uint64_t s_seed = 88172645463325252u;

static uint64_t
s_random (void)
{
    s_seed ^= s_seed << 13;
    s_seed ^= s_seed >> 7;
    s_seed ^= s_seed << 17;
    return s_seed * UINT64_C (0x2545f4914f6cdd1d);
}

//  --------------------------------------------------------------- reference

//  Exponent bits, mantissa bits, bias; infinities or not.
typedef struct s_format {
    int exp, mant, bias;
    bool infinite;  //  the highest exponent is infinity and NaN
    bool saturates;
} s_format_t;

static const s_format_t s_formats[TUTTI_DTYPES] = {
    [TUTTI_FLOAT16] = { 5, 10, 15, true, false },
    [TUTTI_BFLOAT16] = { 8, 7, 127, true, false },
    [TUTTI_FLOAT8E4M3] = { 4, 3, 7, false, true },
    [TUTTI_FLOAT8E5M2] = { 5, 2, 15, true, true },
};

static bool
s_small (tutti_dtype_t dtype)
{
    return s_formats[dtype].exp > 0;
}

static unsigned
s_top (const s_format_t *format)
{
    return 1u << (format->exp + format->mant);
}

//  The largest magnitude that is a number.
static unsigned
s_largest (const s_format_t *format)
{
    return format->infinite ? s_top (format) - (1u << format->mant) - 1
                            : s_top (format) - 2;
}

static double
s_decode (tutti_dtype_t dtype, unsigned bits)
{
    const s_format_t *format = &s_formats[dtype];
    unsigned mag = bits & (s_top (format) - 1);
    double sign = bits & s_top (format) ? -1.0 : 1.0;
    if (mag > s_largest (format)) {
        if (format->infinite && mag == s_largest (format) + 1)
            return sign * (double) INFINITY;
        return (double) NAN;
    }
    int exp = (int) (mag >> format->mant);
    double mant = mag & ((1u << format->mant) - 1);
    if (exp > 0)
        mant += 1 << format->mant;
    return sign *
           ldexp (mant, (exp > 0 ? exp : 1) - format->bias - format->mant);
}

//  Value of a magnitude, where the one above the largest is what it would be
//  if exponents went on.
static double
s_step (tutti_dtype_t dtype, unsigned mag)
{
    const s_format_t *format = &s_formats[dtype];
    if (mag <= s_largest (format))
        return s_decode (dtype, mag);
    double last = s_decode (dtype, mag - 1);
    return last + (last - s_decode (dtype, mag - 2));
}

//  Nearest, ties to even bits; not for NaN.
static unsigned
s_encode (tutti_dtype_t dtype, double x)
{
    const s_format_t *format = &s_formats[dtype];
    unsigned low = 0, high = s_largest (format) + 1;
    double size = fabs (x);
    while (high - low > 1) {
        unsigned middle = (low + high) / 2;
        if (s_step (dtype, middle) <= size)
            low = middle;
        else
            high = middle;
    }
    double under = size - s_step (dtype, low);
    double over = s_step (dtype, high) - size;
    if (over < under || (!(under < over) && high % 2 == 0))
        low = high;
    if (low > s_largest (format) && format->saturates)
        low = s_largest (format);
    return low | (signbit (x) ? s_top (format) : 0);
}

static uint64_t
s_get (const void *buffer, tutti_dtype_t dtype, size_t i)
{
    size_t size = tp_dtype_size ((int) dtype);
    uint64_t bits = 0;
    memcpy (&bits, (const char *) buffer + i * size, size);
    return bits;
}

static float
s_float (uint64_t bits)
{
    uint32_t low = (uint32_t) bits;
    float x;
    memcpy (&x, &low, sizeof x);
    return x;
}

static double
s_double (uint64_t bits)
{
    double x;
    memcpy (&x, &bits, sizeof x);
    return x;
}

//  Any float type; exact.
static double
s_value (tutti_dtype_t dtype, uint64_t bits)
{
    if (dtype == TUTTI_FLOAT32)
        return (double) s_float (bits);
    return dtype == TUTTI_FLOAT64 ? s_double (bits)
                                  : s_decode (dtype, (unsigned) bits);
}

static double
s_float_op (tutti_op_t op, double a, double b, bool wide)
{
    if (op == TUTTI_SUM || op == TUTTI_AVG)
        return wide ? a + b : (double) ((float) a + (float) b);
    if (op == TUTTI_PROD)
        return wide ? a * b : (double) ((float) a * (float) b);
    if (isnan (a) || isnan (b))
        return (double) NAN;
    if (a == b)
        return (op == TUTTI_MIN) == (signbit (a) != 0) ? a : b;
    return (op == TUTTI_MIN) == (a < b) ? a : b;
}

//  The tree over inputs FIRST .. FIRST + N - 1 at element I.
static double
s_float_tree (const void *const *src, tutti_dtype_t dtype, tutti_op_t op,
              int first, int n, size_t i)
{
    if (n == 1)
        return s_value (dtype, s_get (src[first], dtype, i));
    int left = 1;
    while (left * 2 < n)
        left *= 2;
    double a = s_float_tree (src, dtype, op, first, left, i);
    double b = s_float_tree (src, dtype, op, first + left, n - left, i);
    return s_float_op (op, a, b, dtype == TUTTI_FLOAT64);
}

static bool
s_signed (tutti_dtype_t dtype)
{
    return dtype == TUTTI_INT8 || dtype == TUTTI_INT32 || dtype == TUTTI_INT64;
}

static int64_t
s_extend (tutti_dtype_t dtype, uint64_t bits)
{
    return dtype == TUTTI_INT8    ? (int8_t) bits
           : dtype == TUTTI_INT32 ? (int32_t) bits
                                  : (int64_t) bits;
}

static uint64_t
s_integer_op (tutti_dtype_t dtype, tutti_op_t op, uint64_t a, uint64_t b)
{
    bool less =
        s_signed (dtype) ? s_extend (dtype, a) < s_extend (dtype, b) : a < b;
    switch (op) {
    case TUTTI_PROD:
        return a * b;
    case TUTTI_MIN:
        return less ? a : b;
    case TUTTI_MAX:
        return less ? b : a;
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

static uint64_t
s_integer_reference (const void *const *src, int n, tutti_dtype_t dtype,
                     tutti_op_t op, uint32_t divisor, size_t i)
{
    int shift = 64 - 8 * (int) tp_dtype_size ((int) dtype);
    uint64_t x = s_get (src[0], dtype, i);
    for (int k = 1; k < n; k++) {  //  order does not matter
        x = s_integer_op (dtype, op, x, s_get (src[k], dtype, i));
        x = x << shift >> shift;
    }
    if (op == TUTTI_AVG && s_signed (dtype))
        x = (uint64_t) (s_extend (dtype, x) / (int64_t) divisor);
    else if (op == TUTTI_AVG)
        x /= divisor;
    return x << shift >> shift;
}

//  Whether element I of RESULT is right; NaNs are compared as such, since
//  which one it is, is the business of the comparison between bodies.
static bool
s_right (const void *result, const void *const *src, int n,
         tutti_dtype_t dtype, tutti_op_t op, uint32_t divisor, size_t i)
{
    uint64_t got = s_get (result, dtype, i);
    if (dtype <= TUTTI_UINT64)
        return got == s_integer_reference (src, n, dtype, op, divisor, i);
    if (n == 1 && op != TUTTI_AVG)
        return got == s_get (src[0], dtype, i);
    double x = s_float_tree (src, dtype, op, 0, n, i);
    if (op == TUTTI_AVG)
        x = dtype == TUTTI_FLOAT64 ? x / (double) divisor
                                   : (double) ((float) x / (float) divisor);
    if (isnan (x))
        return isnan (s_value (dtype, got));
    if (s_small (dtype))
        return got == s_encode (dtype, x);
    double value = s_value (dtype, got);
    return value == x && signbit (value) == signbit (x);
}

//  ------------------------------------------------------------------ inputs

static void
s_fill (void *buffer, size_t count, tutti_dtype_t dtype)
{
    static const uint32_t special[] = {
        0,          0x80000000, 0x7f800000, 0xff800000, 0x7fc00001,
        0xffc00002, 0x7f800001, 0xff812345, 0x00000001, 0x807fffff,
        0x00800000, 0x7f7fffff, 0x3f800000, 0xbf800000, 0x477fe000,
    };
    size_t size = tp_dtype_size ((int) dtype);
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = s_random ();
        unsigned kind = (unsigned) (s_random () % 8);
        uint32_t pick = special[bits % (sizeof special / sizeof *special)];
        if (dtype == TUTTI_FLOAT32 && kind == 0)
            bits = pick;
        else if (dtype == TUTTI_FLOAT32 && kind < 6)  //  near 1
            bits = (bits & 0x83ffffff) | 0x3c000000;
        else if (dtype == TUTTI_FLOAT64 && kind == 0)
            bits = (uint64_t) pick << 32 | (pick & 1);
        else if (dtype == TUTTI_FLOAT64 && kind < 6)
            bits = (bits & UINT64_C (0x807fffffffffffff)) | 0x3f8ull << 52;
        memcpy ((char *) buffer + i * size, &bits, size);
    }
}

//  A buffer with a margin on either side; OFF bytes off an aligned address.
typedef struct s_buffer {
    char *memory;
    char *at;
    size_t bytes;
} s_buffer_t;

static s_buffer_t
s_buffer (size_t bytes, size_t off)
{
    s_buffer_t self = { .bytes = bytes };
    size_t all = (bytes + 4 * MARGIN) & ~(size_t) (MARGIN - 1);
    self.memory = aligned_alloc (MARGIN, all);
    assert_non_null (self.memory);
    memset (self.memory, 0x5a, all);
    self.at = self.memory + MARGIN + off;
    return self;
}

static void
s_release (s_buffer_t *self)
{
    for (char *p = self->memory; p < self->at; p++)
        assert_int_equal (*p, 0x5a);
    for (int i = 0; i < MARGIN; i++)
        assert_int_equal (self->at[self->bytes + (size_t) i], 0x5a);
    free (self->memory);
}

//  ------------------------------------------------------------------- tests

typedef struct s_case {
    tutti_dtype_t dtype;
    tutti_op_t op;
    int n, m;
    size_t count;
    size_t off;  //  of the outputs; input k lies k + off off
    int place;   //  -1, or the input that is output 0
    uint32_t divisor;
} s_case_t;

static void
s_fail (const s_case_t *c, const char *body, size_t i)
{
    print_error ("%s: %s %s n %d m %d count %zu off %zu place %d: element "
                 "%zu\n",
                 body, tp_dtype_name ((int) c->dtype),
                 tp_op_name ((int) c->op), c->n, c->m, c->count, c->off,
                 c->place, i);
    fail ();
}

//  Run the case on fresh copies of MASTER; the output must be EXPECTED.
static void
s_run_case (const s_case_t *c, const char *body, void *const *master,
            const void *expected)
{
    size_t bytes = c->count * tp_dtype_size ((int) c->dtype);
    s_buffer_t in[MAX_N], out[2];
    const void *src[MAX_N];
    void *dst[2];
    for (int k = 0; k < c->n; k++) {
        in[k] = s_buffer (bytes, ((size_t) k + c->off) % 16);
        memcpy (in[k].at, master[k], bytes);
        src[k] = in[k].at;
    }
    for (int j = 0; j < c->m; j++) {
        out[j] = s_buffer (bytes, c->off);
        dst[j] = out[j].at;
    }
    if (c->place >= 0)
        dst[0] = in[c->place].at;
    assert_int_equal (tk_use (body), TUTTI_OK);
    assert_int_equal (tk_reduce (dst, c->m, src, c->n, c->count, c->dtype,
                                 c->op, c->divisor, NULL),
                      TUTTI_OK);
    for (int j = 0; j < c->m; j++) {
        if (memcmp (dst[j], expected, bytes) == 0)
            continue;
        size_t i = 0;
        while (s_get (dst[j], c->dtype, i) == s_get (expected, c->dtype, i))
            i++;
        s_fail (c, body, i);
    }
    for (int k = 0; k < c->n; k++) {
        if (k != c->place)
            assert_memory_equal (in[k].at, master[k], bytes);
        s_release (&in[k]);
    }
    for (int j = 0; j < c->m; j++)
        s_release (&out[j]);
}

//  The portable result is checked against the reference, then every body in
//  every position against it.
static void
s_try (s_case_t c, void *const *master, void *expected)
{
    void *dst[1] = { expected };
    const void *src[MAX_N];
    for (int k = 0; k < c.n; k++)
        src[k] = master[k];
    assert_int_equal (tk_use ("portable"), TUTTI_OK);
    assert_int_equal (
        tk_reduce (dst, 1, src, c.n, c.count, c.dtype, c.op, c.divisor, NULL),
        TUTTI_OK);
    for (size_t i = 0; i < c.count; i++) {
        if (!s_right (expected, src, c.n, c.dtype, c.op, c.divisor, i))
            s_fail (&c, "portable, reference", i);
    }
    for (size_t b = 0; b < BODIES; b++) {
        if (tk_use (s_bodies[b]) != TUTTI_OK)
            continue;
        c.m = 1;
        c.place = -1;
        c.off = 0;
        s_run_case (&c, s_bodies[b], master, expected);
        c.off = 1 + s_random () % 15;
        s_run_case (&c, s_bodies[b], master, expected);
        c.m = 2;
        c.place = (int) (s_random () % (uint64_t) c.n);
        s_run_case (&c, s_bodies[b], master, expected);
    }
}

static bool
s_op_exists (tutti_dtype_t dtype, tutti_op_t op)
{
    tp_sig_t sig = { .kind = TP_ALLREDUCE,
                     .dtype = (uint8_t) dtype,
                     .op = (uint8_t) op,
                     .root = -1 };
    return op != TUTTI_PREMUL_SUM && tp_sig_ok (&sig, 2);
}

static void
test_all (void **unused)
{
    (void) unused;
    static const int ns[] = { 1, 2, 3, 4, 5, 7, 8, 16 };
    static const size_t counts[] = { 0, 1, 7, 15, 16, 17, 1023, MAX_COUNT };
    static uint64_t expected[MAX_COUNT];
    void *master[MAX_N];
    for (int k = 0; k < MAX_N; k++)
        master[k] = malloc (MAX_COUNT * sizeof (uint64_t));
    for (unsigned t = 0; t < TUTTI_DTYPES * TUTTI_OPS; t++) {
        s_case_t c = { .dtype = (tutti_dtype_t) (t / TUTTI_OPS),
                       .op = (tutti_op_t) (t % TUTTI_OPS) };
        if (!s_op_exists (c.dtype, c.op))
            continue;
        for (int k = 0; k < MAX_N; k++)
            s_fill (master[k], MAX_COUNT, c.dtype);
        for (size_t k = 0; k < 64; k++) {
            c.n = ns[k / 8];
            c.count = counts[k % 8];
            c.divisor = k % 3 == 0 ? (uint32_t) c.n : 300;
            s_try (c, master, expected);
        }
    }
    for (int k = 0; k < MAX_N; k++)
        free (master[k]);
}

//  One conversion by every body; the result must be WANT, but for NaNs the
//  bodies must only agree.
static void
s_convert (tutti_dtype_t to, tutti_dtype_t from, uint64_t bits, double x,
           uint64_t want)
{
    uint64_t first = 0;
    for (size_t b = 0; b < BODIES; b++) {
        if (tk_use (s_bodies[b]) != TUTTI_OK)
            continue;
        uint64_t got = 0;
        assert_int_equal (tk_convert (&got, to, &bits, from, 1, NULL), 0);
        if (b == 0)
            first = got;
        assert_int_equal (got, first);
        if (isnan (x))
            assert_true (isnan (s_value (to, got)));
        else if (got != want) {
            print_error ("%s: %a to %s\n", s_bodies[b], x,
                         tp_dtype_name ((int) to));
            assert_int_equal (got, want);
        }
    }
}

static uint64_t
s_bits_of_float (double x)
{
    float y = (float) x;
    uint32_t bits;
    memcpy (&bits, &y, sizeof bits);
    return bits;
}

static uint64_t
s_bits_of_double (double x)
{
    uint64_t bits;
    memcpy (&bits, &x, sizeof bits);
    return bits;
}

//  All values of the small types, and the points between neighbours where
//  rounding changes its mind, from float32 and from float64.
static void
test_small_floats (void **unused)
{
    (void) unused;
    for (unsigned t = 0; t < TUTTI_DTYPES; t++) {
        tutti_dtype_t dtype = (tutti_dtype_t) t;
        if (!s_small (dtype))
            continue;
        const s_format_t *format = &s_formats[dtype];
        for (unsigned bits = 0; bits < 2 * s_top (format); bits++) {
            double x = s_decode (dtype, bits);
            s_convert (TUTTI_FLOAT32, dtype, bits, x, s_bits_of_float (x));
            if (isnan (x)) {
                s_convert (dtype, TUTTI_FLOAT32, s_bits_of_float (x), x, 0);
                continue;
            }
            double next = s_step (dtype, (bits & (s_top (format) - 1)) + 1);
            double middle = isinf (x) ? x : (fabs (x) + next) / 2;
            double points[] = { x, copysign (middle, x),
                                copysign (nextafter (middle, 0), x),
                                copysign (nextafter (middle, INFINITY), x) };
            for (size_t p = 0; p < 4; p++) {
                double y = points[p];
                double z = (double) (float) y;
                s_convert (dtype, TUTTI_FLOAT64, s_bits_of_double (y), y,
                           s_encode (dtype, y));
                s_convert (dtype, TUTTI_FLOAT32, s_bits_of_float (z), z,
                           s_encode (dtype, z));
            }
        }
    }
}

int
main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_all),
        cmocka_unit_test (test_small_floats),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
