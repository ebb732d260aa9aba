//  tests/unit/test_types.c - names, signatures, error texts

#include "protocol/err.h"
#include "protocol/schedule.h"
#include "protocol/types.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void
test_errors (void **unused)
{
    (void) unused;
    assert_string_equal (tp_err_name (TUTTI_OK), "TUTTI_OK");
    assert_string_equal (tp_err_name (TUTTI_EPEERLOST), "TUTTI_EPEERLOST");
    assert_string_equal (tp_err_text (TUTTI_EDENIED), "access denied");
    assert_string_equal (tp_err_name ((tutti_err_t) -999), "?");
    assert_string_equal (tp_err_name ((tutti_err_t) 1), "?");
    assert_string_equal (tp_err_text ((tutti_err_t) -999), "unknown error");
    assert_int_equal (tp_err_scope (TUTTI_OK), TUTTI_SCOPE_CALL);
    assert_int_equal (tp_err_scope (TUTTI_EHANDLE), TUTTI_SCOPE_CALL);
    assert_int_equal (tp_err_scope (TUTTI_ECANCELED), TUTTI_SCOPE_OP);
    assert_int_equal (tp_err_scope (TUTTI_ETRUNC), TUTTI_SCOPE_OP);
    assert_int_equal (tp_err_scope (TUTTI_EPEERLOST), TUTTI_SCOPE_COMM);
    assert_int_equal (tp_err_scope (TUTTI_EAGENTLOST), TUTTI_SCOPE_SESSION);
    assert_int_equal (tp_err_scope (TUTTI_EDENIED), TUTTI_SCOPE_SESSION);
}

//  VALUE_OF and NAME_OF are inverse below COUNT, and refuse what is beyond.
static void
s_names (int count, const char *(*name_of) (int),
         int (*value_of) (const char *))
{
    for (int i = 0; i < count; i++)
        assert_int_equal (value_of (name_of (i)), i);
    assert_string_equal (name_of (-1), "?");
    assert_string_equal (name_of (count), "?");
    assert_int_equal (value_of ("?"), -1);
    assert_int_equal (value_of (""), -1);
    assert_int_equal (value_of (NULL), -1);
}

static void
test_names (void **unused)
{
    (void) unused;
    s_names (TP_KINDS, tp_kind_name, tp_kind_value);
    s_names (TUTTI_DTYPES, tp_dtype_name, tp_dtype_value);
    s_names (TUTTI_OPS, tp_op_name, tp_op_value);
    assert_int_equal (tp_dtype_value ("float8e4m3"), TUTTI_FLOAT8E4M3);
    assert_int_equal (tp_op_value ("avg"), TUTTI_AVG);
    assert_int_equal (tp_dtype_size (TUTTI_BFLOAT16), 2);
    assert_int_equal (tp_dtype_size (TUTTI_FLOAT64), 8);
    assert_int_equal (tp_dtype_size (-1), 0);
    assert_int_equal (tp_dtype_size (TUTTI_DTYPES), 0);
}

static const tp_sig_t s_good = { .kind = TP_ALLREDUCE,
                                 .dtype = TUTTI_FLOAT32,
                                 .op = TUTTI_SUM,
                                 .root = -1,
                                 .count = 1024 };

static void
test_signature (void **unused)
{
    (void) unused;
    assert_true (tp_sig_ok (&s_good, 4));
    tp_sig_t sig = s_good;
    sig.kind = TP_KINDS;
    assert_false (tp_sig_ok (&sig, 4));
    sig = s_good;
    sig.dtype = TUTTI_DTYPES;
    assert_false (tp_sig_ok (&sig, 4));
    sig = s_good;
    sig.op = TUTTI_OPS;
    assert_false (tp_sig_ok (&sig, 4));
    sig.op = TUTTI_BXOR;
    assert_false (tp_sig_ok (&sig, 4));
    sig.dtype = TUTTI_UINT8;
    assert_true (tp_sig_ok (&sig, 4));
    sig = s_good;
    sig.flags = 4;
    assert_false (tp_sig_ok (&sig, 4));
    sig = s_good;
    sig.root = 0;
    assert_false (tp_sig_ok (&sig, 4));
    sig = s_good;
    sig.algorithm = TP_ALGORITHMS;
    assert_true (tp_sig_ok (&sig, 4));
    sig.algorithm = TP_ALGORITHMS + 1;
    assert_false (tp_sig_ok (&sig, 4));
}

static void
test_signature_root (void **unused)
{
    (void) unused;
    tp_sig_t sig = { .kind = TP_BROADCAST, .root = 3, .count = 1 };
    assert_true (tp_sig_ok (&sig, 4));
    assert_false (tp_sig_ok (&sig, 3));
    sig.root = -1;
    assert_false (tp_sig_ok (&sig, 4));
    sig.root = INT32_MIN;
    assert_false (tp_sig_ok (&sig, UINT32_MAX));
    sig.root = 0;
    sig.op = TUTTI_MAX;  //  nothing is reduced
    assert_false (tp_sig_ok (&sig, 4));
}

static void
test_signature_text (void **unused)
{
    (void) unused;
    char text[128];
    tp_sig_text (&s_good, text, sizeof text);
    assert_string_equal (text, "allreduce float32 x1024 sum");
    tp_sig_t sig = { .kind = TP_BROADCAST,
                     .dtype = TUTTI_UINT8,
                     .flags = TP_SIG_WIDE | TP_SIG_REPRODUCIBLE,
                     .root = 2,
                     .count = UINT64_MAX,
                     .algorithm = 2,
                     .name = 0xabc };
    tp_sig_text (&sig, text, sizeof text);
    assert_string_equal (text, "broadcast uint8 x18446744073709551615 root 2 "
                               "wide reproducible algorithm 1 "
                               "name #00000abc");
    sig = (tp_sig_t){ .kind = TP_BARRIER, .root = -1 };
    tp_sig_text (&sig, text, sizeof text);
    assert_string_equal (text, "barrier");
    sig.kind = 200;
    sig.dtype = 200;
    tp_sig_text (&sig, text, sizeof text);
    assert_string_equal (text, "? ? x0");

    //  Cut to any length, always ended, never beyond.
    for (size_t len = 0; len < 40; len++) {
        memset (text, 'x', sizeof text);
        tp_sig_text (&s_good, text, len);
        assert_int_equal (text[len], 'x');
        if (len > 0)
            assert_int_equal (strlen (text), len <= 27 ? len - 1 : 27);
    }
}

static void
test_job_names (void **unused)
{
    (void) unused;
    char name[TP_NAME_MAX + 8];
    assert_true (tp_name_ok ("a"));
    assert_true (tp_name_ok ("Job-7_x.y"));
    assert_false (tp_name_ok (""));
    assert_false (tp_name_ok (NULL));
    assert_false (tp_name_ok ("a b"));
    assert_false (tp_name_ok ("a/b"));
    assert_false (tp_name_ok ("caf\xc3\xa9"));
    memset (name, 'a', sizeof name);
    name[TP_NAME_MAX - 1] = 0;
    assert_true (tp_name_ok (name));
    name[TP_NAME_MAX - 1] = 'a';
    name[TP_NAME_MAX] = 0;
    assert_false (tp_name_ok (name));
}

int
main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_errors),
        cmocka_unit_test (test_names),
        cmocka_unit_test (test_signature),
        cmocka_unit_test (test_signature_root),
        cmocka_unit_test (test_signature_text),
        cmocka_unit_test (test_job_names),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
