//  tests/unit/test_tool.c - the benchmark's check is exact, and can fail

#include "client/tool/bench.h"
#include "client/tool/tool.h"
#include "kernels/tk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT 5000
#define RANKS_MOST 9

static bench_options_t
s_options (tp_kind_t kind, int dtype, int op)
{
    return (bench_options_t){ .kind = kind,
                              .dtype = (tutti_dtype_t) dtype,
                              .op = (tutti_op_t) op,
                              .check = true };
}

//  What RANKS ranks deposit, reduced by the library's kernels.
static void
s_reduce (const bench_options_t *options, int ranks, uint8_t *out, int parity)
{
    size_t size = tp_dtype_size ((int) options->dtype);
    const void *in[RANKS_MOST];
    for (int r = 0; r < ranks; r++) {
        bench_t bench = { .options = options, .rank = r, .size = ranks };
        void *send = malloc (COUNT * size);
        assert_non_null (send);
        bench_data_fill (&bench, send, COUNT, parity);
        in[r] = send;
    }
    assert_int_equal (tk_reduce ((void *const *) &out, 1, in, ranks, COUNT,
                                 options->dtype, options->op, (uint32_t) ranks,
                                 NULL),
                      TUTTI_OK);
    for (int r = 0; r < ranks; r++)
        free ((void *) in[r]);
}

static void
s_try (int dtype, int op, int ranks)
{
    static uint8_t out[COUNT * 8];
    tp_sig_t sig = { .kind = TP_ALLREDUCE,
                     .dtype = (uint8_t) dtype,
                     .op = (uint8_t) op,
                     .root = -1,
                     .count = COUNT };
    bench_options_t options = s_options (TP_ALLREDUCE, dtype, op);
    bench_t bench = { .options = &options, .rank = 0, .size = ranks };
    if (op == TUTTI_PREMUL_SUM || !tp_sig_ok (&sig, (uint32_t) ranks) ||
        !bench_data_ok (&options, ranks))
        return;
    for (int parity = 0; parity < 2; parity++) {
        s_reduce (&options, ranks, out, parity);
        assert_int_equal (bench_data_wrong (&bench, out, COUNT, parity), 0);
    }
    out[3 * tp_dtype_size (dtype)] ^= 1;
    assert_int_equal (bench_data_wrong (&bench, out, COUNT, 1), 1);
}

static void
test_reductions_are_exact (void **state)
{
    (void) state;
    for (int dtype = 0; dtype < TUTTI_DTYPES; dtype++)
        for (int op = 0; op < TUTTI_OPS; op++)
            for (int ranks = 1; ranks <= RANKS_MOST; ranks++)
                s_try (dtype, op, ranks);
}

//  The result of the op before, and a neighbour's block, must look wrong.
static void
test_old_and_misplaced_look_wrong (void **state)
{
    (void) state;
    static uint8_t all[RANKS_MOST * COUNT * 4];
    bench_options_t options =
        s_options (TP_ALLGATHER, TUTTI_FLOAT32, TUTTI_SUM);
    bench_t bench = { .options = &options, .size = RANKS_MOST };
    for (int r = 0; r < RANKS_MOST; r++) {
        bench.rank = r;
        bench_data_fill (&bench, all + (size_t) r * COUNT * 4, COUNT, 0);
    }
    assert_int_equal (bench_data_wrong (&bench, all, COUNT, 0), 0);
    assert_true (bench_data_wrong (&bench, all, COUNT, 1) > COUNT * 8);
    memmove (all, all + COUNT * 4, COUNT * 4);
    assert_true (bench_data_wrong (&bench, all, COUNT, 0) > COUNT / 2);
}

static void
test_sizes_and_numbers (void **state)
{
    (void) state;
    size_t size = 7;
    int number = 7;
    assert_true (tool_size ("16", &size) && size == 16);
    assert_true (tool_size ("4K", &size) && size == 4096);
    assert_true (tool_size ("64m", &size) && size == 64u << 20);
    assert_true (tool_size ("1GiB", &size) && size == 1u << 30);
    const char *bad[] = { "", "K", "-1", "4X", "4K4", "1 ", "4KX" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false (tool_size (bad[i], &size));
    assert_true (size == 1u << 30);
    assert_true (tool_number ("12", 0, 12, &number) && number == 12);
    assert_false (tool_number ("13", 0, 12, &number));
    assert_false (tool_number ("1x", 0, 12, &number));
    assert_false (tool_number ("", 0, 12, &number));
}

static void
test_nearest_word (void **state)
{
    (void) state;
    const char *names[] = { "run", "bench", "status", "version" };
    assert_string_equal (tool_nearest ("rnu", names, 4), "run");
    assert_string_equal (tool_nearest ("stats", names, 4), "status");
    assert_string_equal (tool_nearest ("benchmark", names, 4), "bench");
}

int
main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_reductions_are_exact),
        cmocka_unit_test (test_old_and_misplaced_look_wrong),
        cmocka_unit_test (test_sizes_and_numbers),
        cmocka_unit_test (test_nearest_word),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
