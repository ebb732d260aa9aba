//  kernels/cpu_pass.c - a reduction of any number of inputs, in one pass
//
//  The range is cut into blocks small enough for the first cache. In a block
//  the inputs are taken in groups of TK_GROUP, which are subtrees of the
//  balanced tree; their results go on a stack, where two subtrees of equal
//  size become one as soon as the next group needs room:
//
//      inputs  0 1 2 3   4 5 6 7   8 9 10 11   12 13 14
//      stack   A         A B       AB C        AB C D    ->  AB (C D)
//
//  What is left at the end is combined from the right, which is the split at
//  the largest power of two below the count.

#include "kernels/cpu.h"

#include <string.h>

#define BLOCK_BYTES 16384  //  of output, where one group does it all
#define STREAM_BYTES 2048  //  the same if it is streamed
#define LEVEL_BYTES 2048   //  of accumulator, one for each level of the stack
#define AHEAD 16           //  inputs to prefetch: what the first cache holds

typedef struct s_stack {
    _Alignas(64) uint8_t level[TK_LEVELS][LEVEL_BYTES];
    int top;
} s_stack_t;

static bool
s_small_float (const tk_pass_t *self)
{
    return self->body->narrow[self->dtype] != NULL;
}

//  Set INPUT to the inputs FIRST, FIRST + 1 ... at element AT; how many.
static int
s_inputs (const tk_pass_t *self, const void **input, int first, size_t at)
{
    size_t offset = at * tk_size (self->dtype);
    int n = self->n - first < TK_GROUP ? self->n - first : TK_GROUP;
    for (int i = 0; i < n; i++)
        input[i] = (const uint8_t *) self->src[first + i] + offset;
    return n;
}

//  Combine the two uppermost levels of the stack into DST.
static void
s_merge (const tk_pass_t *self, s_stack_t *stack, void *dst, size_t len,
         uint32_t divisor)
{
    const void *pair[2] = { stack->level[stack->top - 2],
                            stack->level[stack->top - 1] };
    tutti_dtype_t dtype = s_small_float (self) ? TUTTI_FLOAT32 : self->dtype;
    self->body->group[dtype][self->op](dst, pair, 2, len, divisor);
    stack->top--;
}

//  One block of more inputs than a group.
static void
s_tree (const tk_pass_t *self, void *dst, size_t at, size_t len)
{
    bool small = s_small_float (self);
    tk_group_t *const *kernels =
        (small ? self->body->wide : self->body->group)[self->dtype];
    s_stack_t stack;
    stack.top = 0;
    for (int first = 0; first < self->n; first += TK_GROUP) {
        for (int k = first / TK_GROUP; k > 0 && k % 2 == 0; k /= 2)
            s_merge (self, &stack, stack.level[stack.top - 2], len, 0);
        const void *input[TK_GROUP];
        int n = s_inputs (self, input, first, at);
        kernels[n == 1 ? TUTTI_SUM : self->op](stack.level[stack.top++], input,
                                               n, len, 0);
    }
    while (stack.top > 2)
        s_merge (self, &stack, stack.level[stack.top - 2], len, 0);
    if (!small)
        s_merge (self, &stack, dst, len, self->divisor);
    else {
        s_merge (self, &stack, stack.level[0], len, 0);
        self->body->narrow[self->dtype](dst, (const float *) stack.level[0],
                                        len, self->divisor);
    }
}

//  LEN elements at AT of the result.
static void
s_block (const tk_pass_t *self, void *dst, size_t at, size_t len)
{
    if (self->n > TK_GROUP)
        s_tree (self, dst, at, len);
    else {
        const void *input[TK_GROUP];
        int n = s_inputs (self, input, 0, at);
        self->body->group[self->dtype][self->op](dst, input, n, len,
                                                 self->divisor);
    }
    if (self->divisor != 0 && self->dtype <= TUTTI_UINT64)
        tk_integer_divide (dst, len, self->dtype, self->divisor);
}

//  Elements of a block.
static size_t
s_block_len (const tk_pass_t *self, size_t element, bool stream)
{
    if (self->n <= TK_GROUP)
        return (stream ? STREAM_BYTES : BLOCK_BYTES) / element;
    return LEVEL_BYTES / (s_small_float (self) ? sizeof (float) : element);
}

//  Elements of the first streamed block: the others should begin where a line
//  of cache begins, or the edges of all blocks would be written twice.
static size_t
s_first_len (const void *dst, size_t len, size_t element)
{
    size_t head = (64 - (uintptr_t) dst % 64) % 64;
    return head % element == 0 && head > 0 ? head / element : len;
}

static void
s_run_plain (const tk_pass_t *self, void *const *dst, int m, size_t count)
{
    size_t element = tk_size (self->dtype);
    size_t len = s_block_len (self, element, false);
    for (size_t at = 0; at < count; at += len) {
        if (len > count - at)
            len = count - at;
        uint8_t *first = (uint8_t *) dst[0] + at * element;
        s_block (self, first, at, len);
        for (int j = 1; j < m; j++)
            memcpy ((uint8_t *) dst[j] + at * element, first, len * element);
    }
}

//  While a block is streamed out, the inputs of the next come in.
static void
s_run_stream (const tk_pass_t *self, void *const *dst, int m, size_t count)
{
    _Alignas(64) uint8_t block[STREAM_BYTES];
    size_t element = tk_size (self->dtype);
    size_t full = s_block_len (self, element, true);
    size_t len = s_first_len (dst[0], full, element);
    for (size_t at = 0; at < count; at += len, len = full) {
        if (len > count - at)
            len = count - at;
        s_block (self, block, at, len);
        uintptr_t ahead[AHEAD];
        int n = self->n <= AHEAD ? self->n : 0;
        for (int k = 0; k < n; k++)
            ahead[k] = (uintptr_t) self->src[k] + (at + len) * element;
        for (int j = 0; j < m; j++)
            tk_stream_copy ((uint8_t *) dst[j] + at * element, block,
                            len * element, ahead, j == 0 ? n : 0);
    }
    tk_stream_end ();
}

void
tk_pass_run (const tk_pass_t *self, void *const *dst, int m, size_t count)
{
    if (count >= TK_STREAM_BYTES / tk_size (self->dtype) / (size_t) m)
        s_run_stream (self, dst, m, count);
    else
        s_run_plain (self, dst, m, count);
}
