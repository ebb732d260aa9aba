//  kernels/cpu_vector.h - template of the vector bodies
//
//  Included once by every vector body, in a region that is compiled for its
//  instruction set. The body defines
//    TV_BYTES             of a vector register
//  then includes cpu_vector_types.h, then defines
//    s_half_widen         float16 lanes to float32
//    s_half_narrow        the way back, to nearest even
//    s_half_to_u32, s_half_from_u32, s_quarter_to_half, s_quarter_from_u32:
//                         integer lanes, zero extended or known to fit
//  Everything else is the vector extension of gcc and clang. A rest shorter
//  than a vector goes by zero padded copies through the same code.

#include <string.h>

#define LANES(type) (TV_BYTES / sizeof (type))

#define SELECT(vec, mask, yes, no)                                            \
    ((vec) (((s_vu32) (mask) & (s_vu32) (yes)) |                              \
            (~(s_vu32) (mask) & (s_vu32) (no))))

//  ------------------------------------------------------- loads and stores

#define PLAIN(lane)                                                           \
    TK_INLINE s_v##lane s_load_##lane (const char *p)                         \
    {                                                                         \
        s_v##lane x;                                                          \
        memcpy (&x, p, sizeof x);                                             \
        return x;                                                             \
    }                                                                         \
    TK_INLINE void s_store_##lane (char *p, s_v##lane x)                      \
    {                                                                         \
        memcpy (p, &x, sizeof x);                                             \
    }
PLAIN (u8)
PLAIN (u32)
PLAIN (u64)
PLAIN (i8)
PLAIN (i32)
PLAIN (i64)
PLAIN (f32)
PLAIN (f64)

TK_INLINE s_half_t
s_load_half (const char *p)
{
    s_half_t x;
    memcpy (&x, p, sizeof x);
    return x;
}

TK_INLINE void
s_store_half (char *p, s_vu32 bits)
{
    s_half_t x = s_half_from_u32 (bits);
    memcpy (p, &x, sizeof x);
}

TK_INLINE s_quarter_t
s_load_quarter (const char *p)
{
    s_quarter_t x;
    memcpy (&x, p, sizeof x);
    return x;
}

TK_INLINE void
s_store_quarter (char *p, s_vu32 bits)
{
    s_quarter_t x = s_quarter_from_u32 (bits);
    memcpy (p, &x, sizeof x);
}

TK_INLINE s_vf32
s_load_f16 (const char *p)
{
    return s_half_widen (s_load_half (p));
}

TK_INLINE void
s_store_f16 (char *p, s_vf32 x)
{
    s_half_t half = s_half_narrow (x);
    memcpy (p, &half, sizeof half);
}

TK_INLINE s_vf32
s_load_bf16 (const char *p)
{
    return (s_vf32) (s_half_to_u32 (s_load_half (p)) << 16);
}

TK_INLINE void
s_store_bf16 (char *p, s_vf32 x)
{
    s_vu32 bits = (s_vu32) x;
    s_vu32 rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    s_store_half (p, SELECT (s_vu32, x != x, bits | 0x400000u, rounded) >> 16);
}

//  Seen as float16 an e4m3 is 2^8 times too small, and its NaN is 480.
TK_INLINE s_vf32
s_load_e4m3 (const char *p)
{
    s_half_t x = s_quarter_to_half (s_load_quarter (p));
    s_half_t half = (s_half_t) ((x & 0x7f) << 7 | (x & 0x80) << 8);
    s_vf32 value = s_half_widen (half) * 256.0f;
    s_vu32 bits = (s_vu32) value;
    return SELECT (s_vf32, (bits & 0x7fffffffu) == 0x43f00000u,
                   (bits & 0x80000000u) | 0x7fc00000u, value);
}

//  Bits, without the sign, of a float that is no NaN, rounded to nearest even
//  into MANT bits of mantissa with exponent BIAS; LIMIT: bits of the largest.
TK_INLINE s_vu32
s_narrow (s_vf32 x, int mant, int bias, uint32_t limit)
{
    uint32_t smallest = (uint32_t) (127 + 1 - bias) << 23;  //  normal number
    uint32_t magic = (uint32_t) (127 + 24 - bias - mant) << 23;
    s_vu32 zero = { 0 };
    s_vu32 mag = (s_vu32) x & 0x7fffffffu;
    mag = SELECT (s_vu32, mag > limit, zero + limit, mag);
    s_vu32 tiny = (s_vu32) ((s_vf32) mag + (s_vf32) (zero + magic)) - magic;
    s_vu32 even = mag >> (23 - mant) & 1u;
    s_vu32 normal = (mag + ((1u << (22 - mant)) - 1u) + even) >> (23 - mant);
    normal -= (uint32_t) (127 - bias) << mant;
    return SELECT (s_vu32, mag < smallest, tiny, normal);
}

TK_INLINE void
s_store_e4m3 (char *p, s_vf32 x)
{
    s_vu32 sign = (s_vu32) x >> 24 & 0x80u;
    s_vu32 value = s_narrow (x, 3, 7, 0x43e00000u);  //  448
    s_store_quarter (p, sign | (value | ((s_vu32) (x != x) & 0x7fu)));
}

TK_INLINE s_vf32
s_load_e5m2 (const char *p)
{
    s_half_t x = s_quarter_to_half (s_load_quarter (p));
    return s_half_widen ((s_half_t) (x << 8));
}

TK_INLINE void
s_store_e5m2 (char *p, s_vf32 x)
{
    s_vu32 bits = (s_vu32) x;
    s_vu32 value = s_narrow (x, 2, 15, 0x47600000u);  //  57344
    value = SELECT (s_vu32, x != x, (bits >> 21 & 1u) | 0x7eu, value);
    s_store_quarter (p, (bits >> 24 & 0x80u) | value);
}

//  --------------------------------------------------------------- combining

#define UNSIGNED(lane)                                                        \
    TK_INLINE s_v##lane s_combine_##lane (int op, s_v##lane a, s_v##lane b)   \
    {                                                                         \
        switch (op) {                                                         \
        case TUTTI_SUM:                                                       \
            return a + b;                                                     \
        case TUTTI_PROD:                                                      \
            return a * b;                                                     \
        case TUTTI_MIN:                                                       \
            return SELECT (s_v##lane, a < b, a, b);                           \
        case TUTTI_MAX:                                                       \
            return SELECT (s_v##lane, a > b, a, b);                           \
        case TUTTI_BAND:                                                      \
            return a & b;                                                     \
        case TUTTI_BOR:                                                       \
            return a | b;                                                     \
        default:                                                              \
            return a ^ b;                                                     \
        }                                                                     \
    }
UNSIGNED (u8)
UNSIGNED (u32)
UNSIGNED (u64)

#define SIGNED(lane)                                                          \
    TK_INLINE s_v##lane s_combine_##lane (int op, s_v##lane a, s_v##lane b)   \
    {                                                                         \
        return op == TUTTI_MIN ? SELECT (s_v##lane, a < b, a, b)              \
                               : SELECT (s_v##lane, a > b, a, b);             \
    }
SIGNED (i8)
SIGNED (i32)
SIGNED (i64)

//  The left NaN must win. x86 does that by the order of operands, which a
//  compiler may swap for + and *: so the instruction is named. Its minimum
//  returns the second operand for NaNs and zeros: both orders together have
//  the sign of either zero, and a NaN if there was one.
#if defined(__x86_64__)
#define ORDERED(name, vec, instruction)                                       \
    TK_INLINE vec name (vec a, vec b)                                         \
    {                                                                         \
        vec x;                                                                \
        __asm__(instruction " %2, %1, %0" : "=v"(x) : "v"(a), "v"(b));        \
        return x;                                                             \
    }
#define ORDERED_FLOAT(lane, vec, uint, quiet, suffix)                         \
    ORDERED (s_add_##lane, vec, "vadd" suffix)                                \
    ORDERED (s_mul_##lane, vec, "vmul" suffix)                                \
    ORDERED (s_least_##lane, vec, "vmin" suffix)                              \
    ORDERED (s_most_##lane, vec, "vmax" suffix)                               \
    TK_INLINE vec s_min_##lane (vec a, vec b)                                 \
    {                                                                         \
        uint x = (uint) s_least_##lane (a, b);                                \
        vec both = (vec) (x | (uint) s_least_##lane (b, a));                  \
        return SELECT (vec, both != both, s_add_##lane (a, b), both);         \
    }                                                                         \
    TK_INLINE vec s_max_##lane (vec a, vec b)                                 \
    {                                                                         \
        uint x = (uint) s_most_##lane (a, b);                                 \
        uint y = (uint) s_most_##lane (b, a);                                 \
        vec nan = (vec) (x | y);                                              \
        return SELECT (vec, nan != nan, s_add_##lane (a, b), x & y);          \
    }
#else
#define ORDERED_FLOAT(lane, vec, uint, quiet, suffix)                         \
    TK_INLINE vec s_add_##lane (vec a, vec b)                                 \
    {                                                                         \
        vec x = SELECT (vec, b != b, (uint) b | (quiet), a + b);              \
        return SELECT (vec, a != a, (uint) a | (quiet), x);                   \
    }                                                                         \
    TK_INLINE vec s_mul_##lane (vec a, vec b)                                 \
    {                                                                         \
        vec x = SELECT (vec, b != b, (uint) b | (quiet), a * b);              \
        return SELECT (vec, a != a, (uint) a | (quiet), x);                   \
    }                                                                         \
    TK_INLINE vec s_min_##lane (vec a, vec b)                                 \
    {                                                                         \
        vec x = SELECT (vec, b < a, b, (uint) a | (uint) b);                  \
        x = SELECT (vec, a < b, a, x);                                        \
        return SELECT (vec, (a != a) | (b != b), s_add_##lane (a, b), x);     \
    }                                                                         \
    TK_INLINE vec s_max_##lane (vec a, vec b)                                 \
    {                                                                         \
        vec x = SELECT (vec, b > a, b, (uint) a & (uint) b);                  \
        x = SELECT (vec, a > b, a, x);                                        \
        return SELECT (vec, (a != a) | (b != b), s_add_##lane (a, b), x);     \
    }
#endif

#define FLOATS(lane, vec, uint, quiet, suffix)                                \
    ORDERED_FLOAT (lane, vec, uint, quiet, suffix)                            \
    TK_INLINE vec s_combine_##lane (int op, vec a, vec b)                     \
    {                                                                         \
        switch (op) {                                                         \
        case TUTTI_SUM:                                                       \
            return s_add_##lane (a, b);                                       \
        case TUTTI_PROD:                                                      \
            return s_mul_##lane (a, b);                                       \
        case TUTTI_MIN:                                                       \
            return s_min_##lane (a, b);                                       \
        default:                                                              \
            return s_max_##lane (a, b);                                       \
        }                                                                     \
    }
FLOATS (f32, s_vf32, s_vu32, 0x400000u, "ps")
FLOATS (f64, s_vf64, s_vu64, UINT64_C (1) << 51, "pd")

//  ------------------------------------------------------------------- loops

#define NO_DIVIDE(x, divisor) ((void) (divisor), (x))
#define F32_DIVIDE(x, divisor) ((divisor) != 0 ? (x) / (float) (divisor) : (x))
#define F64_DIVIDE(x, divisor)                                                \
    ((divisor) != 0 ? (x) / (double) (divisor) : (x))

//  WHOLE vectors of N inputs; N, OP and whether DIVISOR is 0 are constants
//  where it is called, so the loop has no branch.
#define WHOLE(run, in, out, lane, in_step, out_step, DIVIDE)                  \
    TK_INLINE void run##_whole (char *to, const char *const *p, int n,        \
                                size_t whole, uint32_t divisor, int op)       \
    {                                                                         \
        for (size_t i = 0; i < whole; i++) {                                  \
            size_t at = i * (in_step);                                        \
            s_v##lane x = s_load_##in (p[0] + at);                            \
            if (n > 1)                                                        \
                x = s_combine_##lane (op, x, s_load_##in (p[1] + at));        \
            if (n == 3)                                                       \
                x = s_combine_##lane (op, x, s_load_##in (p[2] + at));        \
            if (n == 4)                                                       \
                x = s_combine_##lane (                                        \
                    op, x,                                                    \
                    s_combine_##lane (op, s_load_##in (p[2] + at),            \
                                      s_load_##in (p[3] + at)));              \
            s_store_##out (to + i * (out_step), DIVIDE (x, divisor));         \
        }                                                                     \
    }

#define EVERY_N(run, divisor)                                                 \
    do {                                                                      \
        if (op == TUTTI_SUM && n == 1)                                        \
            run##_whole (to, p, 1, whole, divisor, op);                       \
        else if (n == 2)                                                      \
            run##_whole (to, p, 2, whole, divisor, op);                       \
        else if (n == 3)                                                      \
            run##_whole (to, p, 3, whole, divisor, op);                       \
        else                                                                  \
            run##_whole (to, p, 4, whole, divisor, op);                       \
    } while (0)

//  Twice around: the whole vectors, then one that holds the rest.
#define RUN(run, in, out, lane, lanes, in_size, out_size, DIVIDE)             \
    WHOLE (run, in, out, lane, (lanes) * (in_size), (lanes) * (out_size),     \
           DIVIDE)                                                            \
    TK_INLINE void run (void *dst, const void *const *src, int n,             \
                        size_t count, uint32_t divisor, int op)               \
    {                                                                         \
        char pad[TK_GROUP][TV_BYTES], result[TV_BYTES];                       \
        const char *p[TK_GROUP] = { src[0], src[n > 1], src[n > 2 ? 2 : 0],   \
                                    src[n > 3 ? 3 : 0] };                     \
        char *to = dst;                                                       \
        size_t whole = count / (lanes), rest = count % (lanes);               \
        for (;;) {                                                            \
            if (op == TUTTI_SUM && divisor != 0)                              \
                EVERY_N (run, divisor);                                       \
            else                                                              \
                EVERY_N (run, 0);                                             \
            if (rest == 0 || to == result)                                    \
                break;                                                        \
            for (int k = 0; k < n; k++) {                                     \
                memset (pad[k], 0, TV_BYTES);                                 \
                memcpy (pad[k], p[k] + (count - rest) * (in_size),            \
                        rest * (in_size));                                    \
                p[k] = pad[k];                                                \
            }                                                                 \
            to = result;                                                      \
            whole = 1;                                                        \
        }                                                                     \
        if (rest > 0)                                                         \
            memcpy ((char *) dst + (count - rest) * (out_size), result,       \
                    rest * (out_size));                                       \
    }

#define RUN_PLAIN(lane, type, DIVIDE)                                         \
    RUN (s_run_##lane, lane, lane, lane, LANES (type), sizeof (type),         \
         sizeof (type), DIVIDE)
RUN_PLAIN (u8, uint8_t, NO_DIVIDE)
RUN_PLAIN (u32, uint32_t, NO_DIVIDE)
RUN_PLAIN (u64, uint64_t, NO_DIVIDE)
RUN_PLAIN (i8, int8_t, NO_DIVIDE)
RUN_PLAIN (i32, int32_t, NO_DIVIDE)
RUN_PLAIN (i64, int64_t, NO_DIVIDE)
RUN_PLAIN (f32, float, F32_DIVIDE)
RUN_PLAIN (f64, double, F64_DIVIDE)

#define RUN_SMALL(lane, size)                                                 \
    RUN (s_run_##lane, lane, lane, f32, LANES (float), size, size,            \
         F32_DIVIDE)                                                          \
    RUN (s_wide_##lane, lane, f32, f32, LANES (float), size, sizeof (float),  \
         F32_DIVIDE)                                                          \
    RUN (s_back_##lane, f32, lane, f32, LANES (float), sizeof (float), size,  \
         F32_DIVIDE)                                                          \
    static void s_narrow_##lane (void *dst, const float *src, size_t count,   \
                                 uint32_t divisor)                            \
    {                                                                         \
        const void *list[1] = { src };                                        \
        s_back_##lane (dst, list, 1, count, divisor, TUTTI_SUM);              \
    }
RUN_SMALL (f16, 2)
RUN_SMALL (bf16, 2)
RUN_SMALL (e4m3, 1)
RUN_SMALL (e5m2, 1)

#include "kernels/cpu_table.h"
