//  kernels/env.h - the float environment: round to nearest, keep denormals
//
//  A program may have been built with -ffast-math, or have set flush to zero
//  on one rank only; results must not depend on it. Enter before arithmetic,
//  leave with what enter returned. Private to this folder.

#ifndef TK_ENV_H
#define TK_ENV_H

#include <stdint.h>

#if defined(__x86_64__)
typedef uint32_t tk_env_t;

#define ENV_FLAGS 0x3fu    //  exceptions that have happened
#define ENV_PLAIN 0x1f80u  //  to nearest, denormals kept, all masked

//  Returns what leave restores. Loading the register costs ten times what
//  reading it does, so it is loaded only where it would change.
static inline tk_env_t
tk_env_enter (void)
{
    uint32_t saved, plain = ENV_PLAIN;
    __asm__ volatile("stmxcsr %0" : "=m"(saved) : : "memory");
    if ((saved & ~ENV_FLAGS) != ENV_PLAIN)
        __asm__ volatile("ldmxcsr %0" : : "m"(plain) : "memory");
    return saved;
}

//  Restore.
static inline void
tk_env_leave (tk_env_t saved)
{
    uint32_t now;
    __asm__ volatile("stmxcsr %0" : "=m"(now) : : "memory");
    if (now != saved)
        __asm__ volatile("ldmxcsr %0" : : "m"(saved) : "memory");
}

#elif defined(__aarch64__)
typedef uint64_t tk_env_t;

//  Returns what leave restores.
static inline tk_env_t
tk_env_enter (void)
{
    uint64_t saved, plain = 0;
    __asm__ volatile("mrs %0, fpcr" : "=r"(saved) : : "memory");
    __asm__ volatile("msr fpcr, %0" : : "r"(plain) : "memory");
    return saved;
}

//  Restore.
static inline void
tk_env_leave (tk_env_t saved)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(saved) : "memory");
}

#else
#error "kernels/env.h: say how this processor's float environment is set"
#endif

#endif
