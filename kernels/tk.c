//  kernels/tk.c - checks, the choice of bodies

#include "kernels/tk.h"

#include "kernels/cpu.h"
#include "kernels/env.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define COPY_AHEAD 4096  //  bytes that a large copy reads ahead

//  ------------------------------------------------------------------ bodies

static bool
s_always (void)
{
    return true;
}

#if defined(__x86_64__)
static bool
s_has_avx2 (void)
{
    unsigned a, b, c = 0, d;
    return __builtin_cpu_supports ("avx2") &&
           __get_cpuid (1, &a, &b, &c, &d) && (c & bit_F16C) != 0;
}

static bool
s_has_avx512 (void)
{
    return s_has_avx2 () && __builtin_cpu_supports ("avx512f") &&
           __builtin_cpu_supports ("avx512bw") &&
           __builtin_cpu_supports ("avx512vl") &&
           __builtin_cpu_supports ("avx512dq");
}
#endif

//  The best first.
static const struct {
    const tk_body_t *body;
    bool (*available) (void);
} s_bodies[] = {
#if defined(__x86_64__)
    { &tk_body_avx512, s_has_avx512 },
    { &tk_body_avx2, s_has_avx2 },
#elif defined(__aarch64__)
    { &tk_body_neon, s_always },
#endif
    { &tk_body_portable, s_always },
};

//  Threads that race to choose all choose the same.
static _Atomic (const tk_body_t *) s_chosen;

static const tk_body_t *
s_body (void)
{
    const tk_body_t *body =
        atomic_load_explicit (&s_chosen, memory_order_acquire);
    for (size_t i = 0; !body; i++) {
        if (!s_bodies[i].available ())
            continue;
        body = s_bodies[i].body;
        atomic_store_explicit (&s_chosen, body, memory_order_release);
    }
    return body;
}

const char *
tk_body (void)
{
    return s_body ()->name;
}

tutti_err_t
tk_use (const char *body)
{
    for (size_t i = 0; i < sizeof s_bodies / sizeof *s_bodies; i++) {
        if (strcmp (s_bodies[i].body->name, body) != 0 ||
            !s_bodies[i].available ())
            continue;
        atomic_store_explicit (&s_chosen, s_bodies[i].body,
                               memory_order_release);
        return TUTTI_OK;
    }
    return TUTTI_ENOTSUP;
}

//  ---------------------------------------------------------------- contract

static bool
s_dtype_ok (tutti_dtype_t dtype)
{
    return tk_size (dtype) > 0;
}

tutti_err_t
tk_reduce (void *const *dst, int m, const void *const *src, int n,
           size_t count, tutti_dtype_t dtype, tutti_op_t op, uint32_t divisor,
           void *stream)
{
    const tk_body_t *body = s_body ();
    tutti_op_t base = op == TUTTI_AVG ? TUTTI_SUM : op;
    if (n < 1 || n > TP_RANKS_MAX || m < 1 || !s_dtype_ok (dtype) ||
        (int) base < 0 || (int) base >= TUTTI_OPS ||
        !body->group[dtype][base] || (op == TUTTI_AVG && divisor == 0))
        return TUTTI_EINVAL;
    if (stream)
        return TUTTI_ENOTSUP;
    if (n == 1 && op != TUTTI_AVG) {
        for (int j = 0; j < m; j++) {
            if (dst[j] != src[0])
                tk_copy (dst[j], src[0], count * tk_size (dtype), NULL);
        }
        return TUTTI_OK;
    }
    const tk_pass_t pass = { .body = body,
                             .dtype = dtype,
                             .op = base,
                             .divisor = op == TUTTI_AVG ? divisor : 0,
                             .src = src,
                             .n = n };
    tk_env_t saved = tk_env_enter ();
    tk_pass_run (&pass, dst, m, count);
    tk_env_leave (saved);
    return TUTTI_OK;
}

tutti_err_t
tk_divide (void *x, size_t count, tutti_dtype_t dtype, uint32_t divisor,
           void *stream)
{
    const void *src = x;
    return tk_reduce (&x, 1, &src, 1, count, dtype, TUTTI_AVG, divisor,
                      stream);
}

void
tk_copy (void *dst, const void *src, size_t bytes, void *stream)
{
    assert (!stream);  //  no GPU body in this build
    if (bytes < TK_STREAM_BYTES) {
        if (bytes > 0)  //  pointers of an empty buffer may be NULL
            memcpy (dst, src, bytes);
        return;
    }
    uintptr_t ahead = (uintptr_t) src + COPY_AHEAD;
    tk_stream_copy (dst, src, bytes, &ahead, 1);
    tk_stream_end ();
}

static bool
s_float_type (tutti_dtype_t dtype)
{
    return s_dtype_ok (dtype) && dtype >= TUTTI_FLOAT16;
}

tutti_err_t
tk_convert (void *dst, tutti_dtype_t to, const void *src, tutti_dtype_t from,
            size_t count, void *stream)
{
    if (!s_float_type (to) || !s_float_type (from))
        return TUTTI_EINVAL;
    if (stream)
        return TUTTI_ENOTSUP;
    if (to == from) {
        tk_copy (dst, src, count * tk_size (to), NULL);
        return TUTTI_OK;
    }
    tk_env_t saved = tk_env_enter ();
    tk_float_convert (s_body (), dst, to, src, from, count);
    tk_env_leave (saved);
    return TUTTI_OK;
}
