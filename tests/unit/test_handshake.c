//  tests/unit/test_handshake.c - keys and proofs of a data connection

#include "protocol/handshake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const uint8_t s_epoch_key[TP_KEY_BYTES] = { 1, 2, 3 };

static tp_hello_t
s_hello (uint32_t from, uint32_t to)
{
    tp_hello_t hello = { .protocol = TP_PROTOCOL,
                         .channel = 1,
                         .epoch = 5,
                         .job = "job",
                         .from = from,
                         .to = to };
    return hello;
}

//  Two sides that have each other's hello; A is node 3, B node 1.
static void
s_start (tp_handshake_t *a, tp_handshake_t *b)
{
    tp_hello_t from_a = s_hello (3, 1), from_b = s_hello (1, 3);
    assert_int_equal (tp_handshake_start (a, &from_a), TUTTI_OK);
    assert_int_equal (tp_handshake_start (b, &from_b), TUTTI_OK);
}

static void
s_finish (tp_handshake_t *a, tp_handshake_t *b)
{
    assert_int_equal (tp_handshake_finish (a, &b->mine, s_epoch_key), 0);
    assert_int_equal (tp_handshake_finish (b, &a->mine, s_epoch_key), 0);
}

static void
test_agree (void **unused)
{
    (void) unused;
    tp_handshake_t a, b;
    s_start (&a, &b);
    s_finish (&a, &b);
    assert_memory_equal (a.key_out, b.key_in, TP_KEY_BYTES);
    assert_memory_equal (a.key_in, b.key_out, TP_KEY_BYTES);
    assert_memory_not_equal (a.key_in, a.key_out, TP_KEY_BYTES);
    assert_memory_not_equal (a.proof_in, a.proof_out, TP_PROOF_BYTES);
    assert_memory_not_equal (a.proof_out, a.key_out, TP_PROOF_BYTES);
    assert_int_equal (tp_handshake_check (&a, b.proof_out), TUTTI_OK);
    assert_int_equal (tp_handshake_check (&b, a.proof_out), TUTTI_OK);
    //  One's own proof sent back proves nothing, nor does one with a flaw.
    assert_int_equal (tp_handshake_check (&a, a.proof_out), TUTTI_EDENIED);
    b.proof_out[31] ^= 1;
    assert_int_equal (tp_handshake_check (&a, b.proof_out), TUTTI_EDENIED);
    tp_handshake_destroy (&a);
    tp_handshake_t zero;
    memset (&zero, 0, sizeof zero);
    assert_memory_equal (&a, &zero, sizeof a);
}

static void
test_secret_is_wiped (void **unused)
{
    (void) unused;
    static const uint8_t zero[32] = { 0 };
    tp_handshake_t a, b;
    s_start (&a, &b);
    assert_memory_not_equal (a.secret, zero, 32);
    s_finish (&a, &b);
    assert_memory_equal (a.secret, zero, 32);
    //  Before finish nothing is a proof, zeros included.
    s_start (&a, &b);
    assert_int_equal (tp_handshake_check (&a, zero), TUTTI_EDENIED);
}

static void
test_keys_differ_per_connection (void **unused)
{
    (void) unused;
    tp_handshake_t a, b, c, d;
    s_start (&a, &b);
    s_finish (&a, &b);
    s_start (&c, &d);
    s_finish (&c, &d);
    assert_memory_not_equal (a.key_out, c.key_out, TP_KEY_BYTES);
    assert_memory_not_equal (a.key_in, c.key_in, TP_KEY_BYTES);
    assert_memory_not_equal (a.proof_out, c.proof_out, TP_PROOF_BYTES);
    //  A proof of an old connection is none of the new one.
    assert_int_equal (tp_handshake_check (&d, a.proof_out), TUTTI_EDENIED);
}

static void
test_wrong_epoch_key (void **unused)
{
    (void) unused;
    uint8_t other[TP_KEY_BYTES];
    memcpy (other, s_epoch_key, sizeof other);
    other[31] ^= 0x80;
    tp_handshake_t a, b;
    s_start (&a, &b);
    assert_int_equal (tp_handshake_finish (&a, &b.mine, s_epoch_key), 0);
    assert_int_equal (tp_handshake_finish (&b, &a.mine, other), 0);
    assert_int_equal (tp_handshake_check (&a, b.proof_out), TUTTI_EDENIED);
    assert_int_equal (tp_handshake_check (&b, a.proof_out), TUTTI_EDENIED);
    assert_memory_not_equal (a.key_out, b.key_in, TP_KEY_BYTES);
}

static tutti_err_t
s_finish_with (const tp_hello_t *theirs)
{
    tp_handshake_t a, b;
    s_start (&a, &b);
    return tp_handshake_finish (&a, theirs, s_epoch_key);
}

static void
test_wrong_hello (void **unused)
{
    (void) unused;
    tp_handshake_t a, b;
    s_start (&a, &b);
    assert_int_equal (s_finish_with (&b.mine), TUTTI_OK);
    tp_hello_t theirs = b.mine;
    theirs.job[1] = (char) 0x61;  //  "jab"
    assert_int_equal (s_finish_with (&theirs), TUTTI_EDENIED);
    theirs = b.mine;
    theirs.epoch--;
    assert_int_equal (s_finish_with (&theirs), TUTTI_EDENIED);
    theirs = b.mine;
    theirs.channel++;
    assert_int_equal (s_finish_with (&theirs), TUTTI_EPROTO);
    theirs = b.mine;
    theirs.to = 2;
    assert_int_equal (s_finish_with (&theirs), TUTTI_EPROTO);
    theirs = b.mine;
    theirs.from = 2;
    assert_int_equal (s_finish_with (&theirs), TUTTI_EPROTO);
    //  Our own hello, thrown back at us.
    assert_int_equal (s_finish_with (&a.mine), TUTTI_EPROTO);
    //  A point whose secret everybody knows.
    theirs = b.mine;
    memset (theirs.ephemeral, 0, sizeof theirs.ephemeral);
    assert_int_equal (s_finish_with (&theirs), TUTTI_EDENIED);
}

//  What somebody in the middle changes, the proofs show.
static void
test_changed_on_the_way (void **unused)
{
    (void) unused;
    tp_handshake_t a, b;
    s_start (&a, &b);
    tp_hello_t changed = b.mine;
    changed.received = 77;
    assert_int_equal (tp_handshake_finish (&a, &changed, s_epoch_key), 0);
    assert_int_equal (tp_handshake_finish (&b, &a.mine, s_epoch_key), 0);
    assert_int_equal (tp_handshake_check (&a, b.proof_out), TUTTI_EDENIED);

    s_start (&a, &b);
    changed = b.mine;
    changed.random[0] ^= 1;
    assert_int_equal (tp_handshake_finish (&a, &changed, s_epoch_key), 0);
    assert_int_equal (tp_handshake_finish (&b, &a.mine, s_epoch_key), 0);
    assert_int_equal (tp_handshake_check (&b, a.proof_out), TUTTI_EDENIED);
}

int
main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_agree),
        cmocka_unit_test (test_secret_is_wiped),
        cmocka_unit_test (test_keys_differ_per_connection),
        cmocka_unit_test (test_wrong_epoch_key),
        cmocka_unit_test (test_wrong_hello),
        cmocka_unit_test (test_changed_on_the_way),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
