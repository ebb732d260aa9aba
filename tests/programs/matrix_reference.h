//  tests/programs/matrix_reference.h - what every element must become
//
//  Kinds, types and operations as tables, and results computed from the
//  inputs of all ranks, independent of the library: integers exactly, floats
//  in double.

#ifndef MATRIX_REFERENCE_H
#define MATRIX_REFERENCE_H

#include <tutti.h>

#include <math.h>
#include <stdbool.h>

typedef enum form { NONE, ONE, EACH } form_t;
typedef enum who { ALL, ROOT, OTHERS } who_t;
typedef enum kind {
    ALLREDUCE,
    ALLGATHER,
    REDUCE_SCATTER,
    BROADCAST,
    REDUCE,
    GATHER,
    SCATTER,
    ALLTOALL,
    ALLGATHERV,
    REDUCE_SCATTERV,
    GATHERV,
    SCATTERV,
    ALLTOALLV,
    KINDS
} kind_t;

static const struct {
    const char *name;
    form_t in;
    who_t in_who;
    form_t out;
    who_t out_who;
    bool reduces, rooted, uneven;
} s_kinds[KINDS] = {
    [ALLREDUCE] = { "allreduce", ONE, ALL, ONE, ALL, 1, 0, 0 },
    [ALLGATHER] = { "allgather", ONE, ALL, EACH, ALL, 0, 0, 0 },
    [REDUCE_SCATTER] = { "reduce_scatter", EACH, ALL, ONE, ALL, 1, 0, 0 },
    [BROADCAST] = { "broadcast", ONE, ROOT, ONE, OTHERS, 0, 1, 0 },
    [REDUCE] = { "reduce", ONE, ALL, ONE, ROOT, 1, 1, 0 },
    [GATHER] = { "gather", ONE, ALL, EACH, ROOT, 0, 1, 0 },
    [SCATTER] = { "scatter", EACH, ROOT, ONE, ALL, 0, 1, 0 },
    [ALLTOALL] = { "alltoall", EACH, ALL, EACH, ALL, 0, 0, 0 },
    [ALLGATHERV] = { "allgatherv", ONE, ALL, EACH, ALL, 0, 0, 1 },
    [REDUCE_SCATTERV] = { "reduce_scatterv", EACH, ALL, ONE, ALL, 1, 0, 1 },
    [GATHERV] = { "gatherv", ONE, ALL, EACH, ROOT, 0, 1, 1 },
    [SCATTERV] = { "scatterv", EACH, ROOT, ONE, ALL, 0, 1, 1 },
    [ALLTOALLV] = { "alltoallv", EACH, ALL, EACH, ALL, 0, 0, 1 },
};

//  Mantissa bits (0: an integer), exponent bias, size.
static const struct {
    const char *name;
    int size, mantissa, bias;
    bool sign;
} s_types[TUTTI_DTYPES] = {
    [TUTTI_INT8] = { "int8", 1, 0, 0, true },
    [TUTTI_UINT8] = { "uint8", 1, 0, 0, false },
    [TUTTI_INT32] = { "int32", 4, 0, 0, true },
    [TUTTI_UINT32] = { "uint32", 4, 0, 0, false },
    [TUTTI_INT64] = { "int64", 8, 0, 0, true },
    [TUTTI_UINT64] = { "uint64", 8, 0, 0, false },
    [TUTTI_FLOAT16] = { "float16", 2, 10, 15, true },
    [TUTTI_BFLOAT16] = { "bfloat16", 2, 7, 127, true },
    [TUTTI_FLOAT32] = { "float32", 4, 23, 127, true },
    [TUTTI_FLOAT64] = { "float64", 8, 52, 1023, true },
    [TUTTI_FLOAT8E4M3] = { "float8e4m3", 1, 3, 7, true },
    [TUTTI_FLOAT8E5M2] = { "float8e5m2", 1, 2, 15, true },
};

static const char *const s_ops[TUTTI_OPS] = { "sum",  "prod", "min",
                                              "max",  "avg",  "premul_sum",
                                              "band", "bor",  "bxor" };
typedef struct test {
    kind_t kind;
    tutti_dtype_t dtype;
    tutti_op_t op;
    size_t count;
    int root;
    bool in_place, gaps;
    int shift;  //  bytes that buffers are off an aligned place
    uint64_t seed;
} test_t;

static int s_rank, s_size;
static bool s_wide;  //  TUTTI_WIDE

static uint64_t
s_hash (uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

//  ------------------------------------------------------------------ numbers

//  Bits of element I of rank R's input. Floats: between 1/2 and 2.
static uint64_t
s_bits (const test_t *t, int r, uint64_t i)
{
    uint64_t h = s_hash (t->seed ^ s_hash ((uint64_t) r * 1000003 + i));
    int m = s_types[t->dtype].mantissa, bits = 8 * s_types[t->dtype].size;
    if (m == 0)
        return bits == 64 ? h : h & ((UINT64_C (1) << bits) - 1);
    uint64_t exponent = (uint64_t) s_types[t->dtype].bias - (h >> 63);
    uint64_t sign = t->op == TUTTI_PROD ? 0 : h >> 62 & 1;
    return sign << (bits - 1) | exponent << m |
           (h & ((UINT64_C (1) << m) - 1));
}

static double
s_float (tutti_dtype_t dtype, uint64_t bits)
{
    int m = s_types[dtype].mantissa, size = 8 * s_types[dtype].size;
    int exponent = (int) (bits << (65 - size) >> (65 - size) >> m);
    double fraction = (double) (bits & ((UINT64_C (1) << m) - 1));
    double value = ldexp (fraction, -m);
    if (exponent > 0)
        value = ldexp (1.0 + value, exponent - s_types[dtype].bias);
    else
        value = ldexp (value, 1 - s_types[dtype].bias);
    return bits >> (size - 1) ? -value : value;
}

static double
s_factor (const test_t *t, int r)
{
    return s_types[t->dtype].mantissa ? 0.25 * (r + 1) : r - 1;
}

static int64_t
s_signed (tutti_dtype_t dtype, uint64_t bits)
{
    int unused = 64 - 8 * s_types[dtype].size;
    return s_types[dtype].sign ? (int64_t) (bits << unused) >> unused
                               : (int64_t) bits;
}

static bool
s_less (tutti_dtype_t dtype, uint64_t a, uint64_t b)
{
    return s_types[dtype].sign ? s_signed (dtype, a) < s_signed (dtype, b)
                               : a < b;
}

static uint64_t
s_cut (tutti_dtype_t dtype, uint64_t bits)
{
    int size = 8 * s_types[dtype].size;
    return size == 64 ? bits : bits & ((UINT64_C (1) << size) - 1);
}

//  The type that sums are kept in: with TUTTI_WIDE 32 bits for 8 bit integers.
static tutti_dtype_t
s_kept_in (tutti_dtype_t dtype)
{
    if (!s_wide || s_types[dtype].size > 1 || s_types[dtype].mantissa)
        return dtype;
    return dtype == TUTTI_INT8 ? TUTTI_INT32 : TUTTI_UINT32;
}

//  Input of rank R as it goes into the reduction.
static uint64_t
s_term (const test_t *t, int r, uint64_t i)
{
    uint64_t x = s_bits (t, r, i);
    if (t->op == TUTTI_PREMUL_SUM)
        x = s_cut (t->dtype, x * (uint64_t) (int64_t) s_factor (t, r));
    return s_cut (s_kept_in (t->dtype), (uint64_t) s_signed (t->dtype, x));
}

static uint64_t
s_combine (tutti_op_t op, tutti_dtype_t dtype, uint64_t x, uint64_t y)
{
    switch (op) {
    case TUTTI_PROD:
        return s_cut (dtype, x * y);
    case TUTTI_MIN:
        return s_less (dtype, y, x) ? y : x;
    case TUTTI_MAX:
        return s_less (dtype, x, y) ? y : x;
    case TUTTI_BAND:
        return x & y;
    case TUTTI_BOR:
        return x | y;
    case TUTTI_BXOR:
        return x ^ y;
    default:
        return s_cut (dtype, x + y);
    }
}

//  Exact: integers wrap; those that were kept in more bits saturate.
static uint64_t
s_integer (const test_t *t, uint64_t i)
{
    tutti_dtype_t kept = s_kept_in (t->dtype);
    uint64_t x = s_term (t, 0, i);
    for (int r = 1; r < s_size; r++)
        x = s_combine (t->op, kept, x, s_term (t, r, i));
    bool sign = s_types[t->dtype].sign;
    if (t->op == TUTTI_AVG)
        x = sign ? (uint64_t) (s_signed (kept, x) / s_size)
                 : x / (uint64_t) s_size;
    if (kept != t->dtype && sign) {
        int64_t y = s_signed (kept, s_cut (kept, x));
        x = (uint64_t) (y < -128 ? -128 : y > 127 ? 127 : y);
    }
    else if (kept != t->dtype)
        x = x > 255 ? 255 : x;
    return s_cut (t->dtype, x);
}

//  The value, and how far a result may be from it.
static double
s_real (const test_t *t, uint64_t i, double *far_p)
{
    double x = s_float (t->dtype, s_bits (t, 0, i)), sum;
    double ulp = ldexp (1.0, -s_types[t->dtype].mantissa);
    if (t->op == TUTTI_PREMUL_SUM)
        x *= s_factor (t, 0);
    sum = fabs (x);
    for (int r = 1; r < s_size; r++) {
        double y = s_float (t->dtype, s_bits (t, r, i));
        if (t->op == TUTTI_PREMUL_SUM)
            y *= s_factor (t, r);
        sum += fabs (y);
        if (t->op == TUTTI_PROD)
            x *= y;
        else if (t->op == TUTTI_MIN)
            x = y < x ? y : x;
        else if (t->op == TUTTI_MAX)
            x = y > x ? y : x;
        else
            x += y;
    }
    if (t->op == TUTTI_AVG) {
        x /= s_size;
        sum /= s_size;
    }
    if (t->op == TUTTI_PROD)
        sum = 2 * fabs (x);
    //  Below the least normal number steps are as large as there.
    *far_p = (s_size + 2) * 0.5 * ulp *
             (sum + ldexp (2.0, -s_types[t->dtype].bias));
    if (t->op == TUTTI_MIN || t->op == TUTTI_MAX)
        *far_p = 0;
    return x;
}

#endif
