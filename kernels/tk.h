//  kernels/tk.h - arithmetic on buffers
//
//  One contract for CPU and GPU bodies. Calls with stream NULL are done when
//  they return and work on host memory; a stream (CUstream) makes them
//  asynchronous on the device (bodies: kernels/*.cu). Any thread; no state but
//  the table picked once. They set the floating-point environment to the
//  default for their duration (rounding to nearest, no flush to zero), so a
//  caller built with -ffast-math gets the same bits.
//
//  Arithmetic:
//    order      inputs are combined along the balanced binary tree over their
//               index, the lower index left, split at the largest power of
//               two below the count. Every SIMD body equals the portable one
//               bit for bit, NaN payloads, denormals and -0 included
//    16, 8 bit floats   widened to float32, combined, rounded once to nearest
//               even; float8 results saturate (infinities of e5m2 too), NaN
//               stays NaN
//    integers   wrap; AVG is the exact wrapped sum divided, towards zero
//    min, max   NaN wins (IEEE 754-2019 minimum, maximum), -0 < +0
//    AVG        sum, then one division by divisor
//    PREMUL_SUM not here: the caller scales first (tk_scale), then SUM
//    scale      of 8 and 16 bit floats in float32, rounded once; integers wrap
//
//  Buffers need no alignment. COUNT 0 is legal and touches nothing.

#ifndef TK_H
#define TK_H

#include "protocol/types.h"

//  Every dst[i], i < m, = src[0] (op) ... (op) src[n-1], COUNT elements: one
//  pass, n reads and m writes. A dst may be exactly one of the src; any other
//  overlap is undefined. Large outputs are written with non-temporal stores.
//  n = 1 is a copy (AVG divides). DIVISOR: of AVG, >= 1; else ignored.
//  TUTTI_EINVAL: no such type or op, the op is not defined for the type,
//  n outside 1..TP_RANKS_MAX, m < 1, AVG by 0; TUTTI_ENOTSUP: stream given and
//  no GPU body.
tutti_err_t
tk_reduce (void *const *dst, int m, const void *const *src, int n,
           size_t count, tutti_dtype_t dtype, tutti_op_t op, uint32_t divisor,
           void *stream);

//  x[i] = x[i] / divisor (AVG of a sum that other nodes have completed).
tutti_err_t
tk_divide (void *x, size_t count, tutti_dtype_t dtype, uint32_t divisor,
           void *stream);

//  dst = src; no overlap. Non-temporal stores for large ones.
void
tk_copy (void *dst, const void *src, size_t bytes, void *stream);

//  dst[i] = (to) src[i] between float types, rounded to nearest even.
//  TUTTI_EINVAL for an integer type.
tutti_err_t
tk_convert (void *dst, tutti_dtype_t to, const void *src, tutti_dtype_t from,
            size_t count, void *stream);

//  tk_convert, and between 8 bit integers and 32 bit ones of the same sign; on
//  the way back they saturate.
tutti_err_t
tk_resize (void *dst, tutti_dtype_t to, const void *src, tutti_dtype_t from,
           size_t count);

//  dst[i] = src[i] * factor; dst may be src. FACTOR is finite and, for
//  integers, whole and below 2^53 (tk_scale_ok).
void
tk_scale (void *dst, const void *src, size_t count, tutti_dtype_t dtype,
          double factor);
bool
tk_scale_ok (tutti_dtype_t dtype, double factor);

//  Scale, then tk_resize: an input on its way into a sum. FROM may be TO.
void
tk_bring (void *dst, tutti_dtype_t to, const void *src, tutti_dtype_t from,
          size_t count, double factor);

//  The type in which sums of a signature are kept: DTYPE, or one of 32 bits
//  with TP_SIG_WIDE. Floats: between nodes only; within one pass they are
//  always float32.
tutti_dtype_t
tk_wide (const tp_sig_t *sig);

//  Name of the bodies in use: "avx512", "avx2", "neon", "portable".
const char *
tk_body (void);

//  For tests: use the named bodies from now on; TUTTI_ENOTSUP if this machine
//  has not got them. Not thread safe.
tutti_err_t
tk_use (const char *body);

#endif
