//  tests/programs/messages.c - send and recv between ranks

#include "tests/programs/check.h"

static void
s_fill (int32_t *x, size_t n, int seed)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (int32_t) (i * 7 + (size_t) seed);
}

static bool
s_is (const int32_t *x, size_t n, int seed)
{
    for (size_t i = 0; i < n; i++)
        if (x[i] != (int32_t) (i * 7 + (size_t) seed))
            return false;
    return true;
}

//  Around the ring, all sizes, both kinds of memory.
static void
s_ring (void)
{
    static const size_t counts[] = {
        0, 1, 1000, 65536, 65537, 524288, 1500000
    };
    enum { MOST = 1500000 };
    static int32_t mine[MOST], theirs[MOST + 1];
    int next = (s_rank + 1) % s_size, last = (s_rank + s_size - 1) % s_size;
    void *shared;
    OK (tutti_mem_alloc (s_world, MOST * 4 + 4, TUTTI_HOST, &shared));
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (int way = 0; way < 4; way++) {
            size_t n = counts[c];
            int32_t *in = way & 1 ? shared : theirs;
            int32_t *out = way & 2 && !(way & 1) ? shared : mine;
            tutti_request_t *r[2] = { NULL, NULL };
            s_fill (out, n, s_rank);
            memset (in, 0, n * 4);
            in[n] = -1;
            OK (tutti_recv_async (in, n, TUTTI_INT32, last, 3, s_world, NULL,
                                  &r[0]));
            OK (tutti_send_async (out, n, TUTTI_INT32, next, 3, s_world, NULL,
                                  &r[1]));
            OK (tutti_wait_all (r, 2, TUTTI_FOREVER));
            CHECK (s_is (in, n, last) && in[n] == -1);
        }
    OK (tutti_barrier (s_world));
}

//  Blocking, both at once with another tag, in another order than they came.
static void
s_tags (void)
{
    int32_t x[2] = { s_rank, s_rank + 100 }, y[2];
    int peer = s_rank ^ 1;
    for (int round = 0; round < 500; round++) {
        tutti_request_t *r[2] = { NULL, NULL };
        for (int k = 0; k < 2; k++) {
            int t = (k + round) % 2;
            OK (tutti_send_async (&x[t], 1, TUTTI_INT32, peer, (uint32_t) t,
                                  s_world, NULL, &r[t]));
        }
        for (int k = 0; k < 2; k++) {
            int t = (k + round / 2 + s_rank) % 2;
            OK (tutti_recv (&y[t], 1, TUTTI_INT32, peer, (uint32_t) t,
                            s_world));
        }
        OK (tutti_wait_all (r, 2, TUTTI_FOREVER));
        CHECK (y[0] == peer && y[1] == peer + 100);
    }
    //  Messages of one tag come in order.
    for (int i = 0; i < 200; i++) {
        int32_t z = i;
        tutti_request_t *r = NULL;
        OK (tutti_send_async (&z, 1, TUTTI_INT32, peer, 9, s_world, NULL, &r));
        int32_t got = -1;
        OK (tutti_recv (&got, 1, TUTTI_INT32, peer, 9, s_world));
        CHECK (got == i);
        OK (tutti_wait (&r, TUTTI_FOREVER));
    }
}

//  Shorter and longer than what the receiver has room for; the comm lives.
static void
s_lengths (void)
{
    enum { N = 700000 };
    static int32_t x[N], y[N + 1];
    static const size_t sent[] = { 0, 1, 65536, 131072, 300000, N, N };
    static const size_t room[] = { 5, 1, 65536, N, 131072, 100, 0 };
    int peer = s_rank ^ 1;
    for (size_t c = 0; c < sizeof sent / sizeof *sent; c++) {
        size_t got = sent[c] < room[c] ? sent[c] : room[c];
        tutti_request_info_t info = TUTTI_REQUEST_INFO_INIT;
        tutti_request_t *r = NULL, *s = NULL;
        s_fill (x, sent[c], s_rank);
        for (size_t i = 0; i <= room[c]; i++)
            y[i] = -2;
        OK (tutti_recv_async (y, room[c], TUTTI_INT32, peer, 1, s_world, NULL,
                              &r));
        OK (tutti_send_async (x, sent[c], TUTTI_INT32, peer, 1, s_world, NULL,
                              &s));
        OK (tutti_wait (&s, TUTTI_FOREVER));
        while (info.recv_count != sent[c] || !info.moved_us) {
            OK (tutti_progress (s_world, 1, NULL));
            OK (tutti_request_info (r, &info));
            if (info.err || info.recv_count == sent[c])
                break;
        }
        CHECK (info.recv_count == sent[c]);
        tutti_err_t err = tutti_wait (&r, TUTTI_FOREVER);
        CHECK (err == (sent[c] > room[c] ? TUTTI_ETRUNC : TUTTI_OK));
        if (err)
            CHECK (strstr (tutti_last_error (), "has room for") != NULL);
        CHECK (s_is (y, got, peer));
        for (size_t i = got; i <= room[c]; i++)
            CHECK (y[i] == -2);
    }
    SAYS (tutti_send (x, 1, TUTTI_INT32, s_rank, 0, s_world), TUTTI_EINVAL,
          "peer");
    SAYS (tutti_recv (x, 1, TUTTI_INT32, 99, 0, s_world), TUTTI_EINVAL,
          "peer 99");
    OK (tutti_barrier (s_world));
}

//  Other types on both sides.
static void
s_message_mismatch (void)
{
    double x[2] = { 0 };
    int peer = s_rank ^ 1;
    tutti_err_t err = s_rank % 2
                          ? tutti_send (x, 2, TUTTI_FLOAT32, peer, 0, s_world)
                          : tutti_recv (x, 2, TUTTI_FLOAT64, peer, 0, s_world);
    while (!err)
        err = tutti_barrier (s_world);
    CHECK (err == TUTTI_EMISMATCH);
    CHECK (strstr (tutti_last_error (), "sendrecv float64") != NULL);
    CHECK (strstr (tutti_last_error (), "sendrecv float32") != NULL);
}

static const check_t s_checks[] = {
    { "ring", s_ring },
    { "tags", s_tags },
    { "lengths", s_lengths },
    { "mismatch", s_message_mismatch },
};

int
main (int argc, char **argv)
{
    return s_main (argc, argv, s_checks, sizeof s_checks / sizeof *s_checks);
}
