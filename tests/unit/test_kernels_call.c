//  tests/unit/test_kernels_call.c - what is not arithmetic about the kernels:
//  arguments, large buffers that are streamed, the float environment

#include "kernels/tk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

static const char *const s_bodies[] = { "portable", "avx2", "avx512", "neon" };
#define BODIES (sizeof s_bodies / sizeof *s_bodies)

static void
test_arguments (void **unused)
{
    (void) unused;
    float a = 1, b = 2, x = 7;
    void *dst[1] = { &x };
    const void *src[2] = { &a, &b };
    static const struct {
        int m, n, dtype, op;
        uint32_t divisor;
    } bad[] = {
        { 0, 2, TUTTI_FLOAT32, TUTTI_SUM, 1 },
        { 1, 0, TUTTI_FLOAT32, TUTTI_SUM, 1 },
        { 1, TP_RANKS_MAX + 1, TUTTI_FLOAT32, TUTTI_SUM, 1 },
        { 1, 2, TUTTI_DTYPES, TUTTI_SUM, 1 },
        { 1, 2, -1, TUTTI_SUM, 1 },
        { 1, 2, TUTTI_FLOAT32, TUTTI_OPS, 1 },
        { 1, 2, TUTTI_FLOAT32, -1, 1 },
        { 1, 2, TUTTI_FLOAT32, TUTTI_PREMUL_SUM, 1 },
        { 1, 2, TUTTI_FLOAT32, TUTTI_BAND, 1 },
        { 1, 2, TUTTI_FLOAT8E5M2, TUTTI_BXOR, 1 },
        { 1, 2, TUTTI_FLOAT32, TUTTI_AVG, 0 },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal (tk_reduce (dst, bad[i].m, src, bad[i].n, 1,
                                     (tutti_dtype_t) bad[i].dtype,
                                     (tutti_op_t) bad[i].op, bad[i].divisor,
                                     NULL),
                          TUTTI_EINVAL);
    assert_int_equal (
        tk_reduce (dst, 1, src, 2, 1, TUTTI_FLOAT32, TUTTI_SUM, 1, &x),
        TUTTI_ENOTSUP);
    assert_true (x == 7);
    assert_int_equal (tk_convert (&x, TUTTI_INT32, &a, TUTTI_FLOAT32, 1, NULL),
                      TUTTI_EINVAL);
    assert_int_equal (tk_convert (&x, TUTTI_FLOAT32, &a, TUTTI_UINT8, 1, NULL),
                      TUTTI_EINVAL);
    assert_int_equal (tk_use ("sse9"), TUTTI_ENOTSUP);
}

static void
test_empty (void **unused)
{
    (void) unused;
    void *dst[1] = { NULL };
    const void *src[5] = { NULL };
    for (int n = 1; n <= 5; n++)
        assert_int_equal (
            tk_reduce (dst, 1, src, n, 0, TUTTI_BFLOAT16, TUTTI_AVG, 2, NULL),
            TUTTI_OK);
    assert_int_equal (tk_divide (NULL, 0, TUTTI_INT32, 3, NULL), TUTTI_OK);
    tk_copy (NULL, NULL, 0, NULL);
}

static void
test_divide (void **unused)
{
    (void) unused;
    int32_t whole[3] = { -7, 7, INT32_MIN };
    assert_int_equal (tk_divide (whole, 3, TUTTI_INT32, 2, NULL), TUTTI_OK);
    assert_int_equal (whole[0], -3);
    assert_int_equal (whole[1], 3);
    assert_int_equal (whole[2], INT32_MIN / 2);
    uint8_t byte = 200;
    assert_int_equal (tk_divide (&byte, 1, TUTTI_UINT8, 300, NULL), TUTTI_OK);
    assert_int_equal (byte, 0);
    uint64_t large = UINT64_MAX;
    assert_int_equal (tk_divide (&large, 1, TUTTI_UINT64, 5, NULL), TUTTI_OK);
    assert_true (large == UINT64_MAX / 5);
    float x = 1;
    assert_int_equal (tk_divide (&x, 1, TUTTI_FLOAT32, 3, NULL), TUTTI_OK);
    assert_true (x == 1.0f / 3.0f);
    uint16_t half = 0x3c00;  //  1
    assert_int_equal (tk_divide (&half, 1, TUTTI_FLOAT16, 4, NULL), TUTTI_OK);
    assert_int_equal (half, 0x3400);
}

//  NaN wins from either side, -0 is less than +0, float8 saturates.
static void
test_special_values (void **unused)
{
    (void) unused;
    static const struct {
        tutti_dtype_t dtype;
        tutti_op_t op;
        uint32_t a, b, want;
    } cases[] = {
        { TUTTI_FLOAT32, TUTTI_MIN, 0x80000000, 0, 0x80000000 },
        { TUTTI_FLOAT32, TUTTI_MIN, 0, 0x80000000, 0x80000000 },
        { TUTTI_FLOAT32, TUTTI_MAX, 0x80000000, 0, 0 },
        { TUTTI_FLOAT32, TUTTI_MAX, 0, 0x80000000, 0 },
        { TUTTI_FLOAT32, TUTTI_MAX, 0x7fc00007, 0x7fc00009, 0x7fc00007 },
        { TUTTI_FLOAT32, TUTTI_MIN, 0x3f800000, 0xffc00009, 0xffc00009 },
        { TUTTI_FLOAT32, TUTTI_MIN, 0x7f800001, 0x3f800000, 0x7fc00001 },
        { TUTTI_FLOAT32, TUTTI_SUM, 0x7fc00001, 0x7fc00002, 0x7fc00001 },
        { TUTTI_FLOAT32, TUTTI_SUM, 0x7f800001, 0x7fc00002, 0x7fc00001 },
        { TUTTI_FLOAT32, TUTTI_PROD, 0xff800005, 0x7fc00002, 0xffc00005 },
        { TUTTI_FLOAT32, TUTTI_SUM, 1, 2, 3 },
        { TUTTI_FLOAT16, TUTTI_SUM, 0x7bff, 0x7bff, 0x7c00 },
        { TUTTI_BFLOAT16, TUTTI_SUM, 1, 1, 2 },
        { TUTTI_FLOAT8E4M3, TUTTI_SUM, 0x7e, 0x7e, 0x7e },
        { TUTTI_FLOAT8E4M3, TUTTI_SUM, 0xfe, 0xfe, 0xfe },
        { TUTTI_FLOAT8E4M3, TUTTI_MAX, 0x7e, 0xff, 0xff },
        { TUTTI_FLOAT8E5M2, TUTTI_SUM, 0x7b, 0x7b, 0x7b },
        { TUTTI_FLOAT8E5M2, TUTTI_MAX, 0x7c, 0x00, 0x7b },
        { TUTTI_FLOAT8E5M2, TUTTI_MIN, 0x7d, 0x00, 0x7f },
    };
    for (size_t b = 0; b < BODIES; b++) {
        if (tk_use (s_bodies[b]) != TUTTI_OK)
            continue;
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            uint32_t x = 0;
            void *dst[1] = { &x };
            const void *src[2] = { &cases[i].a, &cases[i].b };
            tk_reduce (dst, 1, src, 2, 1, cases[i].dtype, cases[i].op, 1,
                       NULL);
            assert_int_equal (x, cases[i].want);
        }
    }
}

//  ------------------------------------------------------------ large buffers

#define LARGE ((size_t) 5 << 20)
#define EDGE 64

//  A large buffer whose first and last EDGE bytes must stay 0x5a; the part in
//  between begins OFF bytes off a line.
static uint8_t *
s_large (size_t off)
{
    uint8_t *memory = aligned_alloc (EDGE, LARGE + 4 * EDGE);
    assert_non_null (memory);
    memset (memory, 0x5a, LARGE + 4 * EDGE);
    return memory + EDGE + off;
}

static void
s_large_free (uint8_t *at, size_t off, size_t bytes)
{
    for (size_t i = 1; i <= EDGE; i++)
        assert_int_equal (at[-(ptrdiff_t) i], 0x5a);
    for (size_t i = 0; i < EDGE; i++)
        assert_int_equal (at[bytes + i], 0x5a);
    free (at - EDGE - off);
}

//  N inputs of float32 or bfloat16, whose sums are exact and known.
static void
s_try_large (tutti_dtype_t dtype, int n, int m, size_t off, bool in_place)
{
    size_t size = tp_dtype_size ((int) dtype);
    size_t bytes = LARGE - 2 * EDGE + size, count = bytes / size;
    uint8_t *in[9], *out[2];
    const void *src[9];
    void *dst[2];
    for (int k = 0; k < n; k++) {
        in[k] = s_large ((off + (size_t) k) % 32);
        src[k] = in[k];
        for (size_t i = 0; i < count; i++) {
            float x = (float) ((i + (size_t) k) % 16);
            memcpy (in[k] + i * size, (char *) &x + 4 - size, size);
        }
    }
    for (int j = 0; j < m; j++) {
        out[j] = s_large (off + (size_t) j * size);
        dst[j] = out[j];
    }
    if (in_place)
        dst[0] = in[n - 1];
    assert_int_equal (
        tk_reduce (dst, m, src, n, count, dtype, TUTTI_SUM, 1, NULL),
        TUTTI_OK);
    for (size_t i = 0; i < count; i++) {
        float want = 0;
        for (int k = 0; k < n; k++)
            want += (float) ((i + (size_t) k) % 16);
        for (int j = 0; j < m; j++) {
            float x = 0;
            memcpy ((char *) &x + 4 - size, (char *) dst[j] + i * size, size);
            if (x != want)
                assert_int_equal (i, -1);
        }
    }
    for (int k = 0; k < n; k++)
        s_large_free (in[k], (off + (size_t) k) % 32, bytes);
    for (int j = 0; j < m; j++)
        s_large_free (out[j], off + (size_t) j * size, bytes);
}

static void
test_streamed (void **unused)
{
    (void) unused;
    for (size_t b = 0; b < BODIES; b++) {
        if (tk_use (s_bodies[b]) != TUTTI_OK)
            continue;
        s_try_large (TUTTI_FLOAT32, 2, 1, 0, false);
        s_try_large (TUTTI_FLOAT32, 2, 1, 20, true);
        s_try_large (TUTTI_FLOAT32, 3, 2, 7, false);
        s_try_large (TUTTI_FLOAT32, 9, 1, 3, false);
        s_try_large (TUTTI_BFLOAT16, 4, 1, 2, true);
        s_try_large (TUTTI_BFLOAT16, 9, 2, 1, false);
    }
}

static void
test_copy (void **unused)
{
    (void) unused;
    static const size_t sizes[] = { 1, 63, 4096, LARGE - 2 * EDGE - 1 };
    for (size_t i = 0; i < 4 * 4; i++) {
        size_t off = (i % 4) * 9, bytes = sizes[i / 4];
        uint8_t *from = s_large (off % 5), *to = s_large (off);
        for (size_t k = 0; k < bytes; k++)
            from[k] = (uint8_t) (k * 31 + (k >> 8));
        tk_copy (to, from, bytes, NULL);
        assert_memory_equal (to, from, bytes);
        s_large_free (from, off % 5, bytes);
        s_large_free (to, off, bytes);
    }
}

//  A caller built with -ffast-math flushes denormals, and may round another
//  way; the result is the same and the caller's setting is back afterwards.
static void
test_float_environment (void **unused)
{
    (void) unused;
#if defined(__x86_64__)
    const uint32_t a = 0x000ae398, b = 0x0015c731;  //  denormals
    const uint32_t settings[] = { 0x1f80 | 0x8040, 0x1f80 | 0x4000, 0x1f80,
                                  0x1fa0 };
    uint32_t saved = _mm_getcsr ();
    for (size_t k = 0; k < BODIES * 4; k++) {
        if (tk_use (s_bodies[k / 4]) != TUTTI_OK)
            continue;
        uint32_t x = 0, y = 0x0020aac9;
        float third = 1;
        void *dst[1] = { &x };
        const void *src[2] = { &a, &b };
        _mm_setcsr (settings[k % 4]);
        tk_reduce (dst, 1, src, 2, 1, TUTTI_FLOAT32, TUTTI_SUM, 1, NULL);
        tk_divide (&third, 1, TUTTI_FLOAT32, 3, NULL);
        uint16_t half = 0;
        tk_convert (&half, TUTTI_BFLOAT16, &y, TUTTI_FLOAT32, 1, NULL);
        uint32_t after = _mm_getcsr ();
        _mm_setcsr (saved);
        assert_int_equal (after, settings[k % 4]);
        assert_int_equal (x, 0x0020aac9);
        assert_int_equal (half, 0x0021);
        assert_true (third == 1.0f / 3.0f);
    }
#else
    skip ();
#endif
}

static void
test_best_body (void **unused)
{
    (void) unused;
    //  Before anybody has chosen, the best one this machine has is chosen.
    const char *body = tk_body ();
    size_t best = 0;
    for (size_t b = 0; b < BODIES; b++) {
        if (tk_use (s_bodies[b]) == TUTTI_OK)
            best = b;
    }
    assert_string_equal (body, s_bodies[best]);
    print_message ("bodies up to %s\n", body);
}

int
main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_best_body),
        cmocka_unit_test (test_arguments),
        cmocka_unit_test (test_empty),
        cmocka_unit_test (test_divide),
        cmocka_unit_test (test_special_values),
        cmocka_unit_test (test_streamed),
        cmocka_unit_test (test_copy),
        cmocka_unit_test (test_float_environment),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
