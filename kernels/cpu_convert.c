//  kernels/cpu_convert.c - conversions of floats, division of integers

#include "kernels/cpu.h"

#include <string.h>

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF  //  gcc: by option
#endif

#define BLOCK 512  //  elements

#define DIVIDE(type, wide)                                                    \
    for (size_t i = 0; i < count; i++) {                                      \
        type value;                                                           \
        memcpy (&value, (char *) x + i * sizeof value, sizeof value);         \
        value = (type) ((wide) value / (wide) divisor);                       \
        memcpy ((char *) x + i * sizeof value, &value, sizeof value);         \
    }

void
tk_integer_divide (void *x, size_t count, tutti_dtype_t dtype,
                   uint32_t divisor)
{
    switch (dtype) {
    case TUTTI_INT8:
        DIVIDE (int8_t, int64_t)
        break;
    case TUTTI_UINT8:
        DIVIDE (uint8_t, uint32_t)
        break;
    case TUTTI_INT32:
        DIVIDE (int32_t, int64_t)
        break;
    case TUTTI_UINT32:
        DIVIDE (uint32_t, uint32_t)
        break;
    case TUTTI_INT64:
        DIVIDE (int64_t, int64_t)
        break;
    default:
        DIVIDE (uint64_t, uint64_t)
        break;
    }
}

//  To float32 by rounding to odd: towards zero, then the last bit is set if
//  anything was lost. A second rounding to a much shorter type then gives
//  what one rounding from the double would have given.
static float
s_odd (double x)
{
    float y = (float) x;
    if (x != x || (double) y == x)
        return y;
    uint32_t bits;
    memcpy (&bits, &y, sizeof bits);
    double size = x < 0 ? -x : x;
    double got = x < 0 ? -(double) y : (double) y;
    if (got > size)
        bits--;
    bits |= 1;
    memcpy (&y, &bits, sizeof y);
    return y;
}

//  A conversion quiets a NaN. Widening a bfloat16 is a shift, which does not,
//  and reductions need not care, since their arithmetic does.
static void
s_quiet (float *x, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy (&bits, &x[i], sizeof bits);
        if ((bits & 0x7fffffffu) > 0x7f800000u)
            bits |= 0x400000u;
        memcpy (&x[i], &bits, sizeof bits);
    }
}

//  COUNT <= BLOCK elements to float32; ODD where they go on to a smaller type.
static void
s_widen (const tk_body_t *body, float *to, const void *from,
         tutti_dtype_t dtype, size_t count, bool odd)
{
    if (dtype == TUTTI_FLOAT32)
        memcpy (to, from, count * sizeof *to);
    else if (dtype != TUTTI_FLOAT64) {
        const void *list[1] = { from };
        body->wide[dtype][TUTTI_SUM](to, list, 1, count, 0);
        s_quiet (to, count);
    }
    else {
        double x[BLOCK];
        memcpy (x, from, count * sizeof *x);
        for (size_t i = 0; i < count; i++)
            to[i] = odd ? s_odd (x[i]) : (float) x[i];
    }
}

static void
s_narrow (const tk_body_t *body, void *to, tutti_dtype_t dtype,
          const float *from, size_t count)
{
    if (dtype == TUTTI_FLOAT32)
        memcpy (to, from, count * sizeof *from);
    else if (dtype != TUTTI_FLOAT64)
        body->narrow[dtype](to, from, count, 0);
    else {
        double x[BLOCK];
        for (size_t i = 0; i < count; i++)
            x[i] = (double) from[i];
        memcpy (to, x, count * sizeof *x);
    }
}

void
tk_float_convert (const tk_body_t *body, void *dst, tutti_dtype_t to,
                  const void *src, tutti_dtype_t from, size_t count)
{
    size_t to_size = tk_size (to), from_size = tk_size (from);
    size_t len = BLOCK;
    for (size_t at = 0; at < count; at += len) {
        if (len > count - at)
            len = count - at;
        float block[BLOCK];
        s_widen (body, block, (const char *) src + at * from_size, from, len,
                 to != TUTTI_FLOAT32);
        s_narrow (body, (char *) dst + at * to_size, to, block, len);
    }
}
