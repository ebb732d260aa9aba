//  kernels/cpu_avx2.c - 256 bit vectors (AVX2, F16C)
//
//  The target is set here, not by a compiler option: nothing outside this
//  file may be compiled for a processor that might not be there.

#if defined(__x86_64__)

#include "kernels/cpu.h"

#include <immintrin.h>
#include <string.h>

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,f16c"))),            \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,f16c")
#endif

#define TV_BYTES 32
#include "kernels/cpu_vector_types.h"

TK_INLINE s_vf32
s_half_widen (s_half_t x)
{
    return (s_vf32) _mm256_cvtph_ps ((__m128i) x);
}

TK_INLINE s_half_t
s_half_narrow (s_vf32 x)
{
    return (s_half_t) _mm256_cvtps_ph ((__m256) x, _MM_FROUND_TO_NEAREST_INT);
}

TK_INLINE s_vu32
s_half_to_u32 (s_half_t x)
{
    return (s_vu32) _mm256_cvtepu16_epi32 ((__m128i) x);
}

TK_INLINE s_half_t
s_half_from_u32 (s_vu32 x)
{
    __m256i pairs = _mm256_packus_epi32 ((__m256i) x, (__m256i) x);
    pairs = _mm256_permute4x64_epi64 (pairs, 0x08);  //  one of each half
    return (s_half_t) _mm256_castsi256_si128 (pairs);
}

TK_INLINE s_half_t
s_quarter_to_half (s_quarter_t x)
{
    long long bits;
    memcpy (&bits, &x, sizeof bits);
    return (s_half_t) _mm_cvtepu8_epi16 (_mm_cvtsi64_si128 (bits));
}

TK_INLINE s_quarter_t
s_quarter_from_u32 (s_vu32 x)
{
    __m128i half = (__m128i) s_half_from_u32 (x);
    long long bits = _mm_cvtsi128_si64 (_mm_packus_epi16 (half, half));
    s_quarter_t quarter;
    memcpy (&quarter, &bits, sizeof quarter);
    return quarter;
}

#define TK_BODY tk_body_avx2
#define TK_BODY_NAME "avx2"
#include "kernels/cpu_vector.h"

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#else
typedef int tk_avx2_not_here_t;
#endif
