//  kernels/cpu_stream.c - stores that go past the caches
//
//  Half the memory traffic of writing a large output is reading the lines
//  that are then overwritten; non-temporal stores save it. Below the size of
//  the last cache they are slower than plain ones.

#include "kernels/cpu.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

void
tk_stream_copy (void *dst, const void *src, size_t bytes,
                const uintptr_t *ahead, int n)
{
    uint8_t *to = dst;
    const uint8_t *from = src;
    size_t head = (64 - (uintptr_t) to % 64) % 64;
    if (head > bytes)
        head = bytes;
    memcpy (to, from, head);
    size_t done = head;
    for (; bytes - done >= 64; done += 64) {
        for (int k = 0; k < n; k++)
            _mm_prefetch ((const char *) (ahead[k] + done), _MM_HINT_T0);
        //  Whole lines, so that write combining never flushes a part.
        for (size_t i = done; i < done + 64; i += sizeof (__m128i)) {
            __m128i x = _mm_loadu_si128 ((const __m128i *) (from + i));
            _mm_stream_si128 ((__m128i *) (to + i), x);
        }
    }
    memcpy (to + done, from + done, bytes - done);
}

//  Streaming stores are weakly ordered: without the fence a flag written
//  after them could be seen first.
void
tk_stream_end (void)
{
    _mm_sfence ();
}

#else

void
tk_stream_copy (void *dst, const void *src, size_t bytes,
                const uintptr_t *ahead, int n)
{
    (void) ahead;
    (void) n;
    memcpy (dst, src, bytes);
}

void
tk_stream_end (void)
{
}

#endif
