//  kernels/cpu_neon.c - 128 bit vectors of AArch64

#if defined(__aarch64__)

#include "kernels/cpu.h"

#include <arm_neon.h>
#include <string.h>

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF  //  gcc: by option
#endif

#define TV_BYTES 16
#include "kernels/cpu_vector_types.h"

TK_INLINE s_vf32
s_half_widen (s_half_t x)
{
    return (s_vf32) vcvt_f32_f16 ((float16x4_t) x);
}

TK_INLINE s_half_t
s_half_narrow (s_vf32 x)
{
    return (s_half_t) vcvt_f16_f32 ((float32x4_t) x);
}

TK_INLINE s_vu32
s_half_to_u32 (s_half_t x)
{
    return __builtin_convertvector(x, s_vu32);
}

TK_INLINE s_half_t
s_half_from_u32 (s_vu32 x)
{
    return __builtin_convertvector(x, s_half_t);
}

TK_INLINE s_half_t
s_quarter_to_half (s_quarter_t x)
{
    return __builtin_convertvector(x, s_half_t);
}

TK_INLINE s_quarter_t
s_quarter_from_u32 (s_vu32 x)
{
    return __builtin_convertvector(x, s_quarter_t);
}

#define TK_BODY tk_body_neon
#define TK_BODY_NAME "neon"
#include "kernels/cpu_vector.h"

#else
typedef int tk_neon_not_here_t;
#endif
