//  kernels/cpu_portable.c - the reference body: plain C, element by element
//
//  Every other body is compared with this one, bit for bit. Elements are read
//  and written by memcpy, so buffers need no alignment.

#include "kernels/cpu.h"

#include <string.h>

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF  //  gcc: by option
#endif

TK_INLINE uint32_t
s_bits (float x)
{
    uint32_t bits;
    memcpy (&bits, &x, sizeof bits);
    return bits;
}

TK_INLINE float
s_float (uint32_t bits)
{
    float x;
    memcpy (&x, &bits, sizeof x);
    return x;
}

TK_INLINE uint64_t
s_bits64 (double x)
{
    uint64_t bits;
    memcpy (&bits, &x, sizeof bits);
    return bits;
}

TK_INLINE double
s_double (uint64_t bits)
{
    double x;
    memcpy (&x, &bits, sizeof x);
    return x;
}

//  ----------------------------------------------------- widening, narrowing

//  A small float: an explicit exponent EXP bits wide with BIAS, MANT bits of
//  mantissa. The value of a subnormal is its bits times 2^(1 - bias - mant).
TK_INLINE float
s_widen (uint32_t x, int exp, int mant, int bias, bool infinite)
{
    uint32_t top = 1u << (exp + mant);
    uint32_t sign = x & top ? 0x80000000u : 0;
    uint32_t mag = x & (top - 1);
    uint32_t special = ((1u << exp) - 1) << mant;
    if (infinite ? mag > special : mag == top - 1) {
        uint32_t payload = infinite ? (mag ^ special) << (23 - mant) : 0;
        return s_float (sign | 0x7fc00000u | payload);
    }
    if (infinite && mag == special)
        return s_float (sign | 0x7f800000u);
    if (mag < 1u << mant) {  //  exact: an integer times a power of two
        float unit = s_float ((uint32_t) (127 + 1 - bias - mant) << 23);
        return s_float (sign | s_bits ((float) mag * unit));
    }
    return s_float (sign |
                    ((mag << (23 - mant)) + ((uint32_t) (127 - bias) << 23)));
}

//  The way back, to nearest even; LIMIT is the largest float32 to let through
//  (2^16 for float16, which then is its infinity).
TK_INLINE uint32_t
s_narrow (float x, int exp, int mant, int bias, float limit)
{
    uint32_t sign = s_bits (x) >> 31 << (exp + mant);
    uint32_t mag = s_bits (x) & 0x7fffffffu;
    int shift = 23 - mant;
    if (mag > s_bits (limit))
        mag = s_bits (limit);
    if (mag < (uint32_t) (127 + 1 - bias) << 23) {
        //  The sum's last bit is worth the smallest subnormal: it rounds.
        float magic = s_float ((uint32_t) (127 + 24 - bias - mant) << 23);
        return sign | (s_bits (s_float (mag) + magic) - s_bits (magic));
    }
    mag += (1u << (shift - 1)) - 1 + (mag >> shift & 1);
    return sign | ((mag >> shift) - ((uint32_t) (127 - bias) << mant));
}

TK_INLINE float
s_load_f16 (const void *p, size_t i)
{
    uint16_t x;
    memcpy (&x, (const char *) p + i * sizeof x, sizeof x);
    return s_widen (x, 5, 10, 15, true);
}

TK_INLINE void
s_store_f16 (void *p, size_t i, float x)
{
    uint32_t bits = s_bits (x);
    uint32_t nan = (bits >> 16 & 0x8000u) | 0x7e00u | (bits >> 13 & 0x3ffu);
    uint16_t y = (uint16_t) (x != x ? nan : s_narrow (x, 5, 10, 15, 65536.0f));
    memcpy ((char *) p + i * sizeof y, &y, sizeof y);
}

TK_INLINE float
s_load_bf16 (const void *p, size_t i)
{
    uint16_t x;
    memcpy (&x, (const char *) p + i * sizeof x, sizeof x);
    return s_float ((uint32_t) x << 16);
}

TK_INLINE void
s_store_bf16 (void *p, size_t i, float x)
{
    uint32_t bits = s_bits (x);
    if (x != x)
        bits |= 0x400000u;
    else
        bits += 0x7fffu + (bits >> 16 & 1);
    uint16_t y = (uint16_t) (bits >> 16);
    memcpy ((char *) p + i * sizeof y, &y, sizeof y);
}

TK_INLINE float
s_load_e4m3 (const void *p, size_t i)
{
    return s_widen (((const uint8_t *) p)[i], 4, 3, 7, false);
}

TK_INLINE void
s_store_e4m3 (void *p, size_t i, float x)
{
    ((uint8_t *) p)[i] = (uint8_t) (x != x ? (s_bits (x) >> 24 & 0x80u) | 0x7fu
                                           : s_narrow (x, 4, 3, 7, 448.0f));
}

TK_INLINE float
s_load_e5m2 (const void *p, size_t i)
{
    return s_widen (((const uint8_t *) p)[i], 5, 2, 15, true);
}

TK_INLINE void
s_store_e5m2 (void *p, size_t i, float x)
{
    uint32_t bits = s_bits (x);
    ((uint8_t *) p)[i] =
        (uint8_t) (x != x ? (bits >> 24 & 0x80u) | 0x7eu | (bits >> 21 & 1)
                          : s_narrow (x, 5, 2, 15, 57344.0f));
}

#define PLAIN(lane, type)                                                     \
    TK_INLINE type s_load_##lane (const void *p, size_t i)                    \
    {                                                                         \
        type x;                                                               \
        memcpy (&x, (const char *) p + i * sizeof x, sizeof x);               \
        return x;                                                             \
    }                                                                         \
    TK_INLINE void s_store_##lane (void *p, size_t i, type x)                 \
    {                                                                         \
        memcpy ((char *) p + i * sizeof x, &x, sizeof x);                     \
    }
PLAIN (u8, uint8_t)
PLAIN (u32, uint32_t)
PLAIN (u64, uint64_t)
PLAIN (i8, int8_t)
PLAIN (i32, int32_t)
PLAIN (i64, int64_t)
PLAIN (f32, float)
PLAIN (f64, double)

//  --------------------------------------------------------------- combining

//  A product of two uint8_t is computed as int, which cannot overflow; one of
//  wider types is unsigned, and wraps.
#define UNSIGNED(lane, type)                                                  \
    TK_INLINE type s_combine_##lane (int op, type a, type b)                  \
    {                                                                         \
        switch (op) {                                                         \
        case TUTTI_SUM:                                                       \
            return (type) (a + b);                                            \
        case TUTTI_PROD:                                                      \
            return (type) (a * b);                                            \
        case TUTTI_MIN:                                                       \
            return a < b ? a : b;                                             \
        case TUTTI_MAX:                                                       \
            return a > b ? a : b;                                             \
        case TUTTI_BAND:                                                      \
            return a & b;                                                     \
        case TUTTI_BOR:                                                       \
            return a | b;                                                     \
        default:                                                              \
            return a ^ b;                                                     \
        }                                                                     \
    }
UNSIGNED (u8, uint8_t)
UNSIGNED (u32, uint32_t)
UNSIGNED (u64, uint64_t)

#define SIGNED(lane, type)                                                    \
    TK_INLINE type s_combine_##lane (int op, type a, type b)                  \
    {                                                                         \
        return (op == TUTTI_MIN) == (a < b) ? a : b;                          \
    }
SIGNED (i8, int8_t)
SIGNED (i32, int32_t)
SIGNED (i64, int64_t)

//  Equal operands of MIN and MAX have equal bits, or are zeros whose signs
//  decide: or keeps a minus, and drops it.
#define FLOATS(lane, type, BITS, FLOAT, quiet)                                \
    TK_INLINE type s_combine_##lane (int op, type a, type b)                  \
    {                                                                         \
        if (a != a)                                                           \
            return FLOAT (BITS (a) | (quiet));                                \
        if (b != b)                                                           \
            return FLOAT (BITS (b) | (quiet));                                \
        switch (op) {                                                         \
        case TUTTI_SUM:                                                       \
            return a + b;                                                     \
        case TUTTI_PROD:                                                      \
            return a * b;                                                     \
        case TUTTI_MIN:                                                       \
            return a < b ? a : b < a ? b : FLOAT (BITS (a) | BITS (b));       \
        default:                                                              \
            return a > b ? a : b > a ? b : FLOAT (BITS (a) & BITS (b));       \
        }                                                                     \
    }
FLOATS (f32, float, s_bits, s_float, 0x400000u)
FLOATS (f64, double, s_bits64, s_double, UINT64_C (1) << 51)

//  ------------------------------------------------------------------- loops

#define RUN(run, in, out, lane, type, DIVIDE)                                 \
    TK_INLINE void run (void *dst, const void *const *src, int n,             \
                        size_t count, uint32_t divisor, int op)               \
    {                                                                         \
        for (size_t i = 0; i < count; i++) {                                  \
            type x = s_load_##in (src[0], i);                                 \
            if (n > 1)                                                        \
                x = s_combine_##lane (op, x, s_load_##in (src[1], i));        \
            if (n == 3)                                                       \
                x = s_combine_##lane (op, x, s_load_##in (src[2], i));        \
            if (n == 4)                                                       \
                x = s_combine_##lane (                                        \
                    op, x,                                                    \
                    s_combine_##lane (op, s_load_##in (src[2], i),            \
                                      s_load_##in (src[3], i)));              \
            if (op == TUTTI_SUM && divisor != 0)                              \
                x = DIVIDE (x, divisor);                                      \
            s_store_##out (dst, i, x);                                        \
        }                                                                     \
    }

#define NO_DIVIDE(x, divisor) (x)
#define F32_DIVIDE(x, divisor) ((x) / (float) (divisor))
#define F64_DIVIDE(x, divisor) ((x) / (double) (divisor))

#define RUN_INTEGER(lane, type)                                               \
    RUN (s_run_##lane, lane, lane, lane, type, NO_DIVIDE)
RUN_INTEGER (u8, uint8_t)
RUN_INTEGER (u32, uint32_t)
RUN_INTEGER (u64, uint64_t)
RUN_INTEGER (i8, int8_t)
RUN_INTEGER (i32, int32_t)
RUN_INTEGER (i64, int64_t)
RUN (s_run_f32, f32, f32, f32, float, F32_DIVIDE)
RUN (s_run_f64, f64, f64, f64, double, F64_DIVIDE)

#define RUN_SMALL(lane)                                                       \
    RUN (s_run_##lane, lane, lane, f32, float, F32_DIVIDE)                    \
    RUN (s_wide_##lane, lane, f32, f32, float, F32_DIVIDE)                    \
    static void s_narrow_##lane (void *dst, const float *src, size_t count,   \
                                 uint32_t divisor)                            \
    {                                                                         \
        for (size_t i = 0; i < count; i++)                                    \
            s_store_##lane (dst, i,                                           \
                            divisor ? src[i] / (float) divisor : src[i]);     \
    }
RUN_SMALL (f16)
RUN_SMALL (bf16)
RUN_SMALL (e4m3)
RUN_SMALL (e5m2)

#define TK_BODY tk_body_portable
#define TK_BODY_NAME "portable"
#include "kernels/cpu_table.h"
