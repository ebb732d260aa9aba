//  kernels/cpu.h - the CPU bodies, private to this folder
//
//  A body is a table of group kernels: each combines up to TK_GROUP inputs in
//  one pass, as a tree: ((0 1) 2), ((0 1) (2 3)). cpu_pass.c builds every
//  reduction from them, in blocks that stay in the first cache.
//
//  Arithmetic that every body must share, bit for bit:
//    NaN      of two NaNs the left one wins, quieted (what SSE and AVX do by
//             operand order, but compilers may swap operands of + and *, so
//             bodies say it themselves); min and max likewise
//    float16, bfloat16   a NaN keeps sign and the upper bits of its payload
//    float8   e4m3 is OCP E4M3 (no infinities), e5m2 OCP E5M2; results beyond
//             448 and 57344, infinities included, saturate; NaN: e4m3 has
//             one, e5m2 keeps the upper bit below the quiet bit
//  No kernel may be contracted to FMA: build with -ffp-contract=off.

#ifndef TK_CPU_H
#define TK_CPU_H

#include "protocol/types.h"

#define TK_GROUP 4
#define TK_LEVELS 16  //  of a tree of groups: 4 * 2^14 = TP_RANKS_MAX leaves

//  Outputs of a call of at least this many bytes are written past the caches.
#define TK_STREAM_BYTES ((size_t) 4 << 20)

#define TK_INLINE static inline __attribute__ ((always_inline, unused))

TK_INLINE size_t
tk_size (tutti_dtype_t dtype)
{
    return tp_dtype_size ((int) dtype);
}

//  dst[i] = src[0][i] (op) ... (op) src[n-1][i], 2 <= n <= TK_GROUP, and 1 for
//  SUM; dst may be one of the src. A SUM of floats is then divided by DIVISOR,
//  if it is not 0.
typedef void
tk_group_t (void *dst, const void *const *src, int n, size_t count,
            uint32_t divisor);

//  dst[i] = src[i] / divisor (if not 0), rounded from float32.
typedef void
tk_narrow_t (void *dst, const float *src, size_t count, uint32_t divisor);

typedef struct tk_body {
    const char *name;
    tk_group_t *group[TUTTI_DTYPES][TUTTI_OPS];  //  NULL: no such op
    //  16 and 8 bit floats: the same with a float32 result (n = 1 may leave a
    //  NaN signalling), and the way back.
    tk_group_t *wide[TUTTI_DTYPES][TUTTI_OPS];
    tk_narrow_t *narrow[TUTTI_DTYPES];
} tk_body_t;

extern const tk_body_t tk_body_portable;
#if defined(__x86_64__)
extern const tk_body_t tk_body_avx2;
extern const tk_body_t tk_body_avx512;
#elif defined(__aarch64__)
extern const tk_body_t tk_body_neon;
#endif

//  One reduction; all arguments are checked.
typedef struct tk_pass {
    const tk_body_t *body;
    tutti_dtype_t dtype;
    tutti_op_t op;     //  AVG is SUM with a divisor
    uint32_t divisor;  //  0: none
    const void *const *src;
    int n;
} tk_pass_t;

//  Run it over COUNT elements into the M outputs.
void
tk_pass_run (const tk_pass_t *self, void *const *dst, int m, size_t count);

//  x[i] /= divisor, of an integer type, towards zero.
void
tk_integer_divide (void *x, size_t count, tutti_dtype_t dtype,
                   uint32_t divisor);

//  Copy past the caches, and meanwhile bring the BYTES at each of AHEAD[0] to
//  AHEAD[n - 1] near; those are hints and may lie beyond the buffers. The
//  caller ends with tk_stream_end.
void
tk_stream_copy (void *dst, const void *src, size_t bytes,
                const uintptr_t *ahead, int n);
void
tk_stream_end (void);

//  Both are float types.
void
tk_float_convert (const tk_body_t *body, void *dst, tutti_dtype_t to,
                  const void *src, tutti_dtype_t from, size_t count);

#endif
