//  kernels/cpu_avx512.c - 512 bit vectors (AVX-512 F, BW, VL, DQ)
//
//  Not AVX512-BF16: its conversions flush denormals. The target is
//  set here, not by a compiler option, see cpu_avx2.c.

#if defined(__x86_64__)

#include "kernels/cpu.h"

#include <immintrin.h>
#include <string.h>

#ifdef __clang__
#pragma clang attribute push(                                                 \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq"))),            \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq")
#endif

#define TV_BYTES 64
#include "kernels/cpu_vector_types.h"

TK_INLINE s_vf32
s_half_widen (s_half_t x)
{
    return (s_vf32) _mm512_cvtph_ps ((__m256i) x);
}

TK_INLINE s_half_t
s_half_narrow (s_vf32 x)
{
    return (s_half_t) _mm512_cvtps_ph ((__m512) x, _MM_FROUND_TO_NEAREST_INT);
}

TK_INLINE s_vu32
s_half_to_u32 (s_half_t x)
{
    return (s_vu32) _mm512_cvtepu16_epi32 ((__m256i) x);
}

TK_INLINE s_half_t
s_half_from_u32 (s_vu32 x)
{
    return (s_half_t) _mm512_cvtepi32_epi16 ((__m512i) x);
}

TK_INLINE s_half_t
s_quarter_to_half (s_quarter_t x)
{
    return (s_half_t) _mm256_cvtepu8_epi16 ((__m128i) x);
}

TK_INLINE s_quarter_t
s_quarter_from_u32 (s_vu32 x)
{
    return (s_quarter_t) _mm512_cvtepi32_epi8 ((__m512i) x);
}

#define TK_BODY tk_body_avx512
#define TK_BODY_NAME "avx512"
#include "kernels/cpu_vector.h"

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#else
typedef int tk_avx512_not_here_t;
#endif
