//  kernels/cpu_table.h - from one body's inline loops to its table
//
//  Included once by every body, after it has defined for each lane type L
//    s_run_L (dst, src, n, count, divisor, op)   u8 u32 u64 i8 i32 i64 f32 f64
//                                                f16 bf16 e4m3 e5m2
//    s_wide_L (same)  and  s_narrow_L (tk_narrow_t)    f16 bf16 e4m3 e5m2
//  all always inline, so that op is a constant in each kernel. TK_BODY is the
//  name of the table, TK_BODY_NAME its text. Signed lanes differ from
//  unsigned ones in MIN and MAX only.

#define TK_KERNEL(run, lane, op)                                              \
    static void s_##run##_##lane##_##op (void *dst, const void *const *src,   \
                                         int n, size_t count,                 \
                                         uint32_t divisor)                    \
    {                                                                         \
        s_##run##_##lane (dst, src, n, count, divisor, TUTTI_##op);           \
    }

#define TK_KERNELS_ORDER(run, lane)                                           \
    TK_KERNEL (run, lane, MIN)                                                \
    TK_KERNEL (run, lane, MAX)

#define TK_KERNELS_FLOAT(run, lane)                                           \
    TK_KERNELS_ORDER (run, lane)                                              \
    TK_KERNEL (run, lane, SUM)                                                \
    TK_KERNEL (run, lane, PROD)

#define TK_KERNELS_UNSIGNED(lane)                                             \
    TK_KERNELS_FLOAT (run, lane)                                              \
    TK_KERNEL (run, lane, BAND)                                               \
    TK_KERNEL (run, lane, BOR)                                                \
    TK_KERNEL (run, lane, BXOR)

TK_KERNELS_UNSIGNED (u8)
TK_KERNELS_UNSIGNED (u32)
TK_KERNELS_UNSIGNED (u64)
TK_KERNELS_ORDER (run, i8)
TK_KERNELS_ORDER (run, i32)
TK_KERNELS_ORDER (run, i64)
TK_KERNELS_FLOAT (run, f32)
TK_KERNELS_FLOAT (run, f64)
TK_KERNELS_FLOAT (run, f16)
TK_KERNELS_FLOAT (run, bf16)
TK_KERNELS_FLOAT (run, e4m3)
TK_KERNELS_FLOAT (run, e5m2)
TK_KERNELS_FLOAT (wide, f16)
TK_KERNELS_FLOAT (wide, bf16)
TK_KERNELS_FLOAT (wide, e4m3)
TK_KERNELS_FLOAT (wide, e5m2)

#define TK_ROW_INT(order, lane)                                               \
    {                                                                         \
        [TUTTI_SUM] = s_run_##lane##_SUM, [TUTTI_PROD] = s_run_##lane##_PROD, \
        [TUTTI_MIN] = s_run_##order##_MIN, [TUTTI_MAX] = s_run_##order##_MAX, \
        [TUTTI_BAND] = s_run_##lane##_BAND, [TUTTI_BOR] = s_run_##lane##_BOR, \
        [TUTTI_BXOR] = s_run_##lane##_BXOR,                                   \
    }

#define TK_ROW_FLOAT(run, lane)                                               \
    {                                                                         \
        [TUTTI_SUM] = s_##run##_##lane##_SUM,                                 \
        [TUTTI_PROD] = s_##run##_##lane##_PROD,                               \
        [TUTTI_MIN] = s_##run##_##lane##_MIN,                                 \
        [TUTTI_MAX] = s_##run##_##lane##_MAX,                                 \
    }

const tk_body_t TK_BODY = {
    .name = TK_BODY_NAME,
    .group = {
        [TUTTI_INT8] = TK_ROW_INT (i8, u8),
        [TUTTI_UINT8] = TK_ROW_INT (u8, u8),
        [TUTTI_INT32] = TK_ROW_INT (i32, u32),
        [TUTTI_UINT32] = TK_ROW_INT (u32, u32),
        [TUTTI_INT64] = TK_ROW_INT (i64, u64),
        [TUTTI_UINT64] = TK_ROW_INT (u64, u64),
        [TUTTI_FLOAT16] = TK_ROW_FLOAT (run, f16),
        [TUTTI_BFLOAT16] = TK_ROW_FLOAT (run, bf16),
        [TUTTI_FLOAT32] = TK_ROW_FLOAT (run, f32),
        [TUTTI_FLOAT64] = TK_ROW_FLOAT (run, f64),
        [TUTTI_FLOAT8E4M3] = TK_ROW_FLOAT (run, e4m3),
        [TUTTI_FLOAT8E5M2] = TK_ROW_FLOAT (run, e5m2),
    },
    .wide = {
        [TUTTI_FLOAT16] = TK_ROW_FLOAT (wide, f16),
        [TUTTI_BFLOAT16] = TK_ROW_FLOAT (wide, bf16),
        [TUTTI_FLOAT8E4M3] = TK_ROW_FLOAT (wide, e4m3),
        [TUTTI_FLOAT8E5M2] = TK_ROW_FLOAT (wide, e5m2),
    },
    .narrow = {
        [TUTTI_FLOAT16] = s_narrow_f16,
        [TUTTI_BFLOAT16] = s_narrow_bf16,
        [TUTTI_FLOAT8E4M3] = s_narrow_e4m3,
        [TUTTI_FLOAT8E5M2] = s_narrow_e5m2,
    },
};
