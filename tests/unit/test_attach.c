//  tests/unit/test_attach.c - what the agent accepts as HELLO

#include "agent/attach.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

typedef struct s_hello {
    tp_local_head_t head;
    tp_local_hello_t hello;
    char more[16];
} s_hello_t;

#define SIZE (sizeof (tp_local_head_t) + sizeof (tp_local_hello_t))

static s_hello_t
s_good (void)
{
    s_hello_t self = { .head = { .magic = TP_LOCAL_MAGIC,
                                 .version = TP_LOCAL_VERSION,
                                 .type = TP_LOCAL_HELLO,
                                 .len = sizeof (tp_local_hello_t) },
                       .hello = { .job = "train",
                                  .rank = 3,
                                  .size = 4,
                                  .host = "pod-3",
                                  .library = "0.1.0" } };
    return self;
}

static tutti_err_t
s_check (const s_hello_t *self, size_t len, const char *word)
{
    tp_local_hello_t hello;
    char text[TP_TEXT_MAX] = "";
    tutti_err_t err = ta_attach_check (self, len, "n1", &hello, text);
    if (err && err != TUTTI_EPROTO) {
        assert_non_null (strstr (text, "n1"));
        assert_non_null (strstr (text, word));
    }
    else
        assert_string_equal (text, "");
    return err;
}

static void
test_good (void **state)
{
    (void) state;
    s_hello_t self = s_good ();
    tp_local_hello_t hello;
    char text[TP_TEXT_MAX];
    assert_int_equal (ta_attach_check (&self, SIZE, "n1", &hello, text),
                      TUTTI_OK);
    assert_memory_equal (&hello, &self.hello, sizeof hello);
    self.hello.size = TP_RANKS_MAX;
    self.hello.rank = TP_RANKS_MAX - 1;
    memset (self.hello.token, 'x', sizeof self.hello.token - 1);
    assert_int_equal (s_check (&self, SIZE, ""), TUTTI_OK);
}

static void
test_every_length (void **state)
{
    (void) state;
    s_hello_t self = s_good ();
    for (size_t len = 0; len <= sizeof self; len++) {
        tutti_err_t want = len == SIZE ? TUTTI_OK : TUTTI_EPROTO;
        assert_int_equal (s_check (&self, len, ""), want);
        if (len < sizeof self.head)
            continue;
        //  Also with a head that admits it.
        s_hello_t honest = self;
        honest.head.len = (uint32_t) (len - sizeof self.head);
        assert_int_equal (s_check (&honest, len, ""), want);
        honest.head.version++;
        want = len >= SIZE ? TUTTI_OK : TUTTI_EPROTO;
        assert_int_equal (s_check (&honest, len, ""), want);
    }
}

static void
test_heads (void **state)
{
    (void) state;
    s_hello_t self = s_good ();
    self.head.magic ^= 1;
    assert_int_equal (s_check (&self, SIZE, ""), TUTTI_EPROTO);
    self = s_good ();
    self.head.type = TP_LOCAL_ALLOC;
    assert_int_equal (s_check (&self, SIZE, ""), TUTTI_EPROTO);
    self = s_good ();
    self.head.version = 2u << 16 | 5;
    assert_int_equal (s_check (&self, SIZE, "2.5"), TUTTI_EVERSION);
    assert_int_equal (s_check (&self, SIZE, "1.0"), TUTTI_EVERSION);
}

static void
test_strings_end (void **state)
{
    (void) state;
    s_hello_t good = s_good ();
    const struct {
        size_t offset, size;
    } strings[] = {
#define STRING(name)                                                          \
    { offsetof (s_hello_t, hello.name), sizeof good.hello.name }
        STRING (job),   STRING (host),      STRING (library),
        STRING (build), STRING (algorithm), STRING (token)
    };
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) {
        s_hello_t self = good;
        memset ((char *) &self + strings[i].offset, 'a', strings[i].size);
        assert_int_equal (s_check (&self, SIZE, ""), TUTTI_EPROTO);
        if (i == 0)
            continue;
        self = good;
        ((char *) &self)[strings[i].offset] = '\n';
        assert_int_equal (s_check (&self, SIZE, ""), TUTTI_EPROTO);
    }
}

static void
test_meanings (void **state)
{
    (void) state;
    static const char *const jobs[] = { "", "a/b", "a b", "..\n", "\xff" };
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        s_hello_t self = s_good ();
        snprintf (self.hello.job, sizeof self.hello.job, "%s", jobs[i]);
        assert_int_equal (s_check (&self, SIZE, "TUTTI_JOB"), TUTTI_EINVAL);
    }
    static const uint32_t ranks[][2] = {
        { 0, 0 }, { 4, 4 }, { UINT32_MAX, 4 }, { 0, TP_RANKS_MAX + 1 }
    };
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        s_hello_t self = s_good ();
        self.hello.rank = ranks[i][0];
        self.hello.size = ranks[i][1];
        assert_int_equal (s_check (&self, SIZE, "TUTTI_SIZE"), TUTTI_EINVAL);
    }
    s_hello_t self = s_good ();
    self.hello.elastic_min = 3;
    self.hello.elastic_max = 2;
    assert_int_equal (s_check (&self, SIZE, "TUTTI_ELASTIC"), TUTTI_EINVAL);
}

int
main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_good),
        cmocka_unit_test (test_heads),
        cmocka_unit_test (test_every_length),
        cmocka_unit_test (test_strings_end),
        cmocka_unit_test (test_meanings),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
