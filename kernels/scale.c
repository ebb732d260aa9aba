//  kernels/scale.c - factors of PREMUL_SUM, and 8 bit integers in 32 bits

#include "kernels/tk.h"

#include "kernels/env.h"

#include <math.h>
#include <string.h>

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF  //  gcc: by option
#endif

#define BLOCK 512  //  elements

//  Reductions elsewhere need no such width, so one body serves.
#define EACH(from, to, what)                                                  \
    for (size_t i = 0; i < count; i++) {                                      \
        from x;                                                               \
        memcpy (&x, (const char *) src + i * sizeof x, sizeof x);             \
        to y = (to) (what);                                                   \
        memcpy ((char *) dst + i * sizeof y, &y, sizeof y);                   \
    }

static int32_t
s_clamp (int64_t x, int32_t low, int32_t high)
{
    return x < low ? low : x > high ? high : (int32_t) x;
}

static bool
s_pair (tutti_dtype_t a, tutti_dtype_t b, tutti_dtype_t x, tutti_dtype_t y)
{
    return a == x && b == y;
}

tutti_err_t
tk_resize (void *dst, tutti_dtype_t to, const void *src, tutti_dtype_t from,
           size_t count)
{
    if (from == to)
        tk_copy (dst, src, count * tp_dtype_size ((int) to), NULL);
    else if (s_pair (from, to, TUTTI_INT8, TUTTI_INT32))
        EACH (int8_t, int32_t, x)
    else if (s_pair (from, to, TUTTI_UINT8, TUTTI_UINT32))
        EACH (uint8_t, uint32_t, x)
    else if (s_pair (from, to, TUTTI_INT32, TUTTI_INT8))
        EACH (int32_t, int8_t, s_clamp (x, INT8_MIN, INT8_MAX))
    else if (s_pair (from, to, TUTTI_UINT32, TUTTI_UINT8))
        EACH (uint32_t, uint8_t, x > UINT8_MAX ? UINT8_MAX : x)
    else
        return tk_convert (dst, to, src, from, count, NULL);
    return TUTTI_OK;
}

tutti_dtype_t
tk_wide (const tp_sig_t *sig)
{
    switch (sig->dtype) {
    case TUTTI_FLOAT16:
    case TUTTI_BFLOAT16:
    case TUTTI_FLOAT8E4M3:
    case TUTTI_FLOAT8E5M2:
        return sig->flags & (TP_SIG_WIDE | TP_SIG_REPRODUCIBLE)
                   ? TUTTI_FLOAT32
                   : (tutti_dtype_t) sig->dtype;
    case TUTTI_INT8:
        return sig->flags & TP_SIG_WIDE ? TUTTI_INT32 : TUTTI_INT8;
    case TUTTI_UINT8:
        return sig->flags & TP_SIG_WIDE ? TUTTI_UINT32 : TUTTI_UINT8;
    default:
        return (tutti_dtype_t) sig->dtype;
    }
}

bool
tk_scale_ok (tutti_dtype_t dtype, double factor)
{
    if (!isfinite (factor))
        return false;
    bool integer = dtype <= TUTTI_UINT64;
    return !integer || (fabs (factor) < 9007199254740992.0 &&
                        factor == (double) (int64_t) factor);
}

static void
s_scale_integers (void *dst, const void *src, size_t count, size_t size,
                  int64_t factor)
{
    uint64_t f = (uint64_t) factor;  //  products wrap, so signs do not matter
    switch (size) {
    case 1:
        EACH (uint8_t, uint8_t, x * f)
        break;
    case 4:
        EACH (uint32_t, uint32_t, x * f)
        break;
    default:
        EACH (uint64_t, uint64_t, x * f)
    }
}

//  At most BLOCK floats of 8 or 16 bits.
static void
s_scale_narrow (void *dst, const void *src, size_t count, tutti_dtype_t dtype,
                float factor)
{
    float block[BLOCK];
    tk_convert (block, TUTTI_FLOAT32, src, dtype, count, NULL);
    for (size_t i = 0; i < count; i++)
        block[i] *= factor;
    tk_convert (dst, dtype, block, TUTTI_FLOAT32, count, NULL);
}

static void
s_scale_floats (void *dst, const void *src, size_t count, tutti_dtype_t dtype,
                double factor)
{
    size_t size = tp_dtype_size ((int) dtype), len = BLOCK;
    if (dtype == TUTTI_FLOAT32)
        EACH (float, float, x *(float) factor)
    else if (dtype == TUTTI_FLOAT64)
        EACH (double, double, x *factor)
    else
        for (size_t at = 0; at < count; at += len) {
            len = count - at < BLOCK ? count - at : BLOCK;
            s_scale_narrow ((char *) dst + at * size,
                            (const char *) src + at * size, len, dtype,
                            (float) factor);
        }
}

void
tk_scale (void *dst, const void *src, size_t count, tutti_dtype_t dtype,
          double factor)
{
    size_t size = tp_dtype_size ((int) dtype);
    if (dtype <= TUTTI_UINT64) {
        s_scale_integers (dst, src, count, size, (int64_t) factor);
        return;
    }
    tk_env_t saved = tk_env_enter ();
    s_scale_floats (dst, src, count, dtype, factor);
    tk_env_leave (saved);
}

void
tk_bring (void *dst, tutti_dtype_t to, const void *src, tutti_dtype_t from,
          size_t count, double factor)
{
    uint8_t block[BLOCK * 8];
    size_t from_size = tp_dtype_size ((int) from), len = BLOCK;
    size_t to_size = tp_dtype_size ((int) to);
    if (factor == 1.0) {
        tk_resize (dst, to, src, from, count);
        return;
    }
    for (size_t at = 0; at < count; at += len) {
        len = count - at < BLOCK ? count - at : BLOCK;
        tk_scale (block, (const char *) src + at * from_size, len, from,
                  factor);
        tk_resize ((char *) dst + at * to_size, to, block, from, len);
    }
}
