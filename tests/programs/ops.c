//  tests/programs/ops.c - a rank that checks calls and requests; argv[1] names
//  the check. As api.c.

#include "tests/programs/check.h"

#include <pthread.h>

#define MAX_RANKS 16

//  ------------------------------------------------------------------- misuse

//  Bad counts, places and roots are refused at once and harm nobody.
static void
s_refused (void)
{
    int32_t in[64] = { 0 }, out[64];
    size_t n[MAX_RANKS], d[MAX_RANKS];
    for (int r = 0; r < s_size; r++) {
        n[r] = 2;
        d[r] = 2 * (size_t) r;
    }
    const tutti_err_t bad = TUTTI_EINVAL;
    SAYS (tutti_reduce (in, out, 4, TUTTI_INT32, TUTTI_SUM, s_size, s_world),
          bad, "root");
    SAYS (tutti_gather (in, out, 4, TUTTI_INT32, -1, s_world), bad, "root");
    SAYS (tutti_scatterv (in, n, d, out, 2, TUTTI_INT32, 99, s_world), bad,
          "root 99");
    SAYS (tutti_alltoall (NULL, out, 1, TUTTI_INT32, s_world), bad, "NULL");
    SAYS (tutti_alltoall (in, in + 1, 2, TUTTI_INT32, s_world), bad,
          "overlap");
    SAYS (tutti_allgatherv (in, 2, out, NULL, NULL, TUTTI_INT32, s_world), bad,
          "counts is NULL");
    SAYS (tutti_allgatherv (in, 3, out, n, d, TUTTI_INT32, s_world), bad,
          "send_count");
    SAYS (
        tutti_alltoallv (in, n, d, TUTTI_IN_PLACE, n, d, TUTTI_INT32, s_world),
        bad, "IN_PLACE");
    d[1] = 1;
    SAYS (tutti_alltoallv (in, n, NULL, out, n, d, TUTTI_INT32, s_world), bad,
          "overlap");
    n[0] = SIZE_MAX / 4;
    SAYS (tutti_reduce_scatterv (in, out, n, TUTTI_INT32, TUTTI_SUM, s_world),
          bad, "too large");
    SAYS (tutti_reduce (in, out, 1, TUTTI_FLOAT32, TUTTI_BOR, 0, s_world), bad,
          "not defined");
    if (s_rank != 0)
        SAYS (tutti_gather (TUTTI_IN_PLACE, out, 1, TUTTI_INT32, 0, s_world),
              bad, "IN_PLACE");
    SAYS (tutti_mem_register (s_world, in, sizeof in), TUTTI_ENOTSUP,
          "tutti_mem_alloc");
    tutti_call_t call = TUTTI_CALL_INIT;
    tutti_request_t *request = NULL;
    call.scale = 0.5;
    SAYS (tutti_allreduce_async (in, out, 1, TUTTI_INT32, TUTTI_PREMUL_SUM,
                                 s_world, &call, &request),
          bad, "scale");
    CHECK (request == NULL);
    OK (tutti_barrier (s_world));
}

//  Sender and receiver of a block say different counts: every rank hears both.
static void
s_counts_differ (void)
{
    static int32_t in[200000], out[200000];
    size_t n[MAX_RANKS], m[MAX_RANKS];
    for (int r = 0; r < s_size; r++)
        n[r] = m[r] = 1000;
    if (s_rank == 0)
        m[s_size - 1] = 999;
    tutti_err_t err =
        tutti_alltoallv (in, n, NULL, out, m, NULL, TUTTI_INT32, s_world);
    while (!err)
        err = tutti_barrier (s_world);
    CHECK (err == TUTTI_EMISMATCH);
    CHECK (strstr (tutti_last_error (), "alltoallv") != NULL);
    CHECK (strstr (tutti_last_error (), "1000") != NULL);
    CHECK (strstr (tutti_last_error (), "999") != NULL);
}

//  More than one segment, and the receiver expects more: no put is missing,
//  so the short one at the end must tell.
static void
s_counts_short (void)
{
    static int8_t in[8 << 20], out[8 << 20];
    size_t n[MAX_RANKS] = { 0 };
    int last = s_size - 1;
    size_t count = 5u << 20;
    for (int r = 0; r < s_size; r++)
        n[r] = r == last ? count + 100 : 0;
    tutti_err_t err = tutti_gatherv (in, s_rank == last ? count : 0, out, n,
                                     NULL, TUTTI_INT8, 0, s_world);
    while (!err)
        err = tutti_barrier (s_world);
    CHECK (err == TUTTI_EMISMATCH);
    CHECK (strstr (tutti_last_error (), "gatherv") != NULL);
}

//  Lists that all ranks give are compared before anything moves.
static void
s_lists_differ (void)
{
    int32_t in[64] = { 0 }, out[64];
    size_t n[MAX_RANKS];
    for (int r = 0; r < s_size; r++)
        n[r] = 2;
    if (s_rank == 1) {  //  the same sum
        n[2]++;
        n[3]--;
    }
    tutti_err_t err =
        tutti_reduce_scatterv (in, out, n, TUTTI_INT32, TUTTI_SUM, s_world);
    CHECK (err == TUTTI_EMISMATCH);
    CHECK (strstr (tutti_last_error (), "reduce_scatterv int32 x8 sum counts "
                                        "#") != NULL);
}

//  ----------------------------------------------------------------- requests

//  Rank 0 gives up an op that nobody else called.
static void
s_cancel (void)
{
    float x = 1;
    tutti_request_t *r = NULL;
    OK (tutti_allreduce_async (&x, &x, 1, TUTTI_FLOAT32, TUTTI_SUM, s_world,
                               NULL, &r));
    OK (tutti_request_cancel (&r, 10000));  //  it just finishes
    CHECK (r == NULL && x == (float) s_size);
    OK (tutti_request_cancel (&r, 0));
    tutti_err_t err = TUTTI_OK;
    if (s_rank == 0) {
        OK (tutti_broadcast_async (&x, 1, TUTTI_FLOAT32, 1, s_world, NULL,
                                   &r));
        err = tutti_request_cancel (&r, 100);
        CHECK (r == NULL);
    }
    else
        while (!tutti_comm_error (s_world))
            tutti_progress (s_world, 10, NULL);
    if (!err)
        err = tutti_barrier (s_world);
    CHECK (err == TUTTI_EABORTED);
    CHECK (strstr (tutti_last_error (), "rank 0 cancelled broadcast") != NULL);
}

//  Small ops among large ones, more than the ring has slots: the frames of
//  large ones wait, and those that give credit back overtake them.
static void
s_mixed (void)
{
    enum { N = 150, LARGE = 700000 };
    static float large[N / 10][LARGE];
    static int32_t small[N];
    for (int round = 0; round < 25; round++) {
        tutti_request_t *r[N] = { NULL };
        for (int i = 0; i < N; i++) {
            small[i] = s_rank + i;
            if (i % 10 == 9)
                OK (tutti_allreduce_async (large[i / 10], large[i / 10], LARGE,
                                           TUTTI_FLOAT32, TUTTI_MAX, s_world,
                                           NULL, &r[i]));
            else
                OK (tutti_allreduce_async (&small[i], &small[i], 1,
                                           TUTTI_INT32, TUTTI_SUM, s_world,
                                           NULL, &r[i]));
        }
        OK (tutti_wait_all (r, N, TUTTI_FOREVER));
        for (int i = 0; i < N; i++)
            CHECK (i % 10 == 9 ||
                   small[i] == s_size * (s_size - 1) / 2 + i * s_size);
    }
}

static void
s_batch (void)
{
    enum { N = 50 };
    static int32_t x[N];
    tutti_request_t *r[N] = { NULL };
    for (int round = 0; round < 20; round++) {
        OK (tutti_batch_begin (s_world));
        SAYS (tutti_batch_begin (s_world), TUTTI_ESTATE, "batch");
        for (int i = 0; i < N; i++) {
            x[i] = s_rank + i;
            OK (tutti_allreduce_async (&x[i], &x[i], 1, TUTTI_INT32, TUTTI_SUM,
                                       s_world, NULL, &r[i]));
        }
        SAYS (tutti_wait (&r[0], 0), TUTTI_ESTATE, "tutti_batch_end");
        SAYS (tutti_barrier (s_world), TUTTI_ESTATE, "tutti_batch_end");
        OK (tutti_batch_end (s_world));
        SAYS (tutti_batch_end (s_world), TUTTI_ESTATE, "tutti_batch_begin");
        OK (tutti_wait_all (r, N, TUTTI_FOREVER));
        for (int i = 0; i < N; i++)
            CHECK (x[i] == s_size * (s_size - 1) / 2 + i * s_size);
    }
}

//  A waits, or A and B wait, with priorities that turn the order.
static void
s_priorities (void)
{
    tutti_call_t low = TUTTI_CALL_INIT, high = TUTTI_CALL_INIT;
    high.priority = 5;
    for (int i = 0; i < 10000; i++) {
        int32_t a = s_rank, b = i;
        tutti_request_t *ra = NULL, *rb = NULL;
        OK (tutti_allreduce_async (&a, &a, 1, TUTTI_INT32, TUTTI_SUM, s_world,
                                   s_rank % 2 ? &low : &high, &ra));
        if ((i + s_rank) % 2)
            OK (tutti_wait (&ra, TUTTI_FOREVER));
        OK (tutti_allreduce_async (&b, &b, 1, TUTTI_INT32, TUTTI_SUM, s_world,
                                   s_rank % 2 ? &high : &low, &rb));
        OK (tutti_wait (&rb, TUTTI_FOREVER));
        OK (tutti_wait (&ra, TUTTI_FOREVER));
        CHECK (a == s_size * (s_size - 1) / 2 && b == i * s_size);
    }
}

//  Named ops in an order of each rank's own, among ops without a name; names
//  come again. Small ones and ones of many segments.
static void
s_names (void)
{
    enum { N = 12, LARGE = 300000 };
    static float large[N][LARGE];
    for (int round = 0; round < 60; round++) {
        int32_t x[N], plain = round;
        tutti_request_t *r[2 * N + 1] = { NULL };
        for (int k = 0; k < N; k++) {
            int i = (k * (s_rank % 2 ? 5 : 7) + s_rank + round) % N;
            char name[16];
            tutti_call_t call = TUTTI_CALL_INIT;
            snprintf (name, sizeof name, "layer%d", i);
            call.name = name;
            call.priority = s_rank % 3 * i;
            x[i] = s_rank + i;
            OK (tutti_allreduce_async (&x[i], &x[i], 1, TUTTI_INT32, TUTTI_SUM,
                                       s_world, &call, &r[i]));
            if (k == s_rank)
                OK (tutti_allreduce_async (&plain, &plain, 1, TUTTI_INT32,
                                           TUTTI_MAX, s_world, NULL,
                                           &r[2 * N]));
            if (round % 20 > 0)
                continue;
            snprintf (name, sizeof name, "large%d", i);
            for (int e = 0; e < LARGE; e++)
                large[i][e] = (float) (s_rank + i + e % 7);
            OK (tutti_allreduce_async (large[i], large[i], LARGE,
                                       TUTTI_FLOAT32, TUTTI_SUM, s_world,
                                       &call, &r[N + i]));
        }
        OK (tutti_wait_all (r, 2 * N + 1, TUTTI_FOREVER));
        int sum = s_size * (s_size - 1) / 2;
        CHECK (plain == round);
        for (int i = 0; i < N; i++)
            CHECK (x[i] == sum + i * s_size);
        for (int i = 0; i < N && round % 20 == 0; i++)
            for (int e = 0; e < LARGE; e += 1009)
                CHECK (large[i][e] == (float) (sum + (i + e % 7) * s_size));
    }
}

//  A and B by name: waited for in other orders, submitted in other orders.
static void
s_named_orders (void)
{
    tutti_call_t a = TUTTI_CALL_INIT, b = TUTTI_CALL_INIT;
    a.name = "A";
    b.name = "B";
    a.priority = s_rank % 2;
    for (int i = 0; i < 10000; i++) {
        int32_t x = s_rank, y = i;
        bool turn = (i + s_rank) % 3 == 0;
        tutti_request_t *ra = NULL, *rb = NULL;
        if (turn)
            OK (tutti_allreduce_async (&y, &y, 1, TUTTI_INT32, TUTTI_SUM,
                                       s_world, &b, &rb));
        OK (tutti_allreduce_async (&x, &x, 1, TUTTI_INT32, TUTTI_SUM, s_world,
                                   &a, &ra));
        if ((i + s_rank) % 2 && !turn)
            OK (tutti_wait (&ra, TUTTI_FOREVER));
        if (!turn)
            OK (tutti_allreduce_async (&y, &y, 1, TUTTI_INT32, TUTTI_SUM,
                                       s_world, &b, &rb));
        OK (tutti_wait (&rb, TUTTI_FOREVER));
        OK (tutti_wait (&ra, TUTTI_FOREVER));
        CHECK (x == s_size * (s_size - 1) / 2 && y == i * s_size);
    }
}

//  The same name with another type: both sides are told.
static void
s_named_mismatch (void)
{
    double x[2] = { 1, 2 };
    tutti_call_t call = TUTTI_CALL_INIT;
    tutti_request_t *r = NULL;
    call.name = "gradient";
    tutti_err_t err = tutti_allreduce_async (
        x, x, s_rank == 0 ? 1 : 2, s_rank == 0 ? TUTTI_FLOAT64 : TUTTI_FLOAT32,
        TUTTI_SUM, s_world, &call, &r);
    if (!err)  //  else the others have found out already
        err = tutti_wait (&r, TUTTI_FOREVER);
    CHECK (err == TUTTI_EMISMATCH);
    CHECK (strstr (tutti_last_error (), "float64") != NULL);
    CHECK (strstr (tutti_last_error (), "float32") != NULL);
}

//  Rank 0 submits many before the one that the others wait for first: what
//  they have not called must not be in its way.
static void
s_named_ahead (void)
{
    enum { N = 40 };
    int32_t x[N];
    tutti_request_t *r[N] = { NULL };
    for (int round = 0; round < 100; round++) {
        for (int k = 0; k < N; k++) {
            int i = s_rank == 0 ? N - 1 - k : k;
            char name[16];
            tutti_call_t call = TUTTI_CALL_INIT;
            snprintf (name, sizeof name, "n%d", i);
            call.name = name;
            x[i] = s_rank;
            OK (tutti_allreduce_async (&x[i], &x[i], 1, TUTTI_INT32, TUTTI_SUM,
                                       s_world, &call, &r[i]));
            if (s_rank > 0)
                OK (tutti_wait (&r[i], TUTTI_FOREVER));
        }
        OK (tutti_wait_all (r, N, TUTTI_FOREVER));
        for (int i = 0; i < N; i++)
            CHECK (x[i] == s_size * (s_size - 1) / 2);
    }
}

typedef struct job {
    tutti_comm_t *comm;
    int rounds;
} job_t;

static void *
s_thread (void *arg)
{
    job_t *job = arg;
    for (int i = 0; i < job->rounds; i++) {
        int32_t x = i;
        OK (tutti_allreduce (&x, &x, 1, TUTTI_INT32, TUTTI_MAX, job->comm));
        CHECK (x == i);
    }
    return NULL;
}

//  Two communicators, two threads on each rank, 10 000 ops; then one thread
//  uses them in an order that differs from rank to rank.
static void
s_opposite (void)
{
    job_t jobs[2] = { { NULL, 5000 }, { NULL, 5000 } };
    pthread_t threads[2];
    OK (tutti_comm_dup (s_world, &jobs[0].comm));
    OK (tutti_comm_dup (s_world, &jobs[1].comm));
    for (int i = 0; i < 2; i++)
        pthread_create (&threads[i], NULL, s_thread, &jobs[(i + s_rank) % 2]);
    for (int i = 0; i < 2; i++)
        pthread_join (threads[i], NULL);
    for (int i = 0; i < 1000; i++) {
        int32_t x[2] = { i, -i };
        tutti_request_t *r[2] = { NULL, NULL };
        for (int k = 0; k < 2; k++) {
            int c = (k + s_rank) % 2;
            OK (tutti_allreduce_async (&x[c], &x[c], 1, TUTTI_INT32, TUTTI_SUM,
                                       jobs[c].comm, NULL, &r[c]));
        }
        OK (tutti_wait_all (r, 2, TUTTI_FOREVER));
        CHECK (x[0] == i * s_size && x[1] == -i * s_size);
    }
}

//  --------------------------------------------------------------- properties

//  COUNT elements of a type, as bytes that are no NaN.
static void
s_random (uint8_t *x, size_t bytes, int dtype)
{
    for (size_t i = 0; i < bytes; i++)
        x[i] = (uint8_t) ((i * 131 + (size_t) s_rank * 29) % 61);
    for (size_t i = 0; dtype == TUTTI_FLOAT64 && i + 7 < bytes; i += 8)
        x[i + 7] = 0x3f;
}

//  allgather after reduce_scatter is allreduce, for every type and operation,
//  parts of the same size and of different ones. Bit for bit where the result
//  does not depend on the path (TUTTI_REPRODUCIBLE; or integers).
static void
s_property (void)
{
    static const size_t sizes[] = { 1, 1, 4, 4, 8, 8, 2, 2, 4, 8, 1, 1 };
    static uint8_t in[4096], whole[4096], part[4096], joined[4096];
    size_t counts[MAX_RANKS], total = 0;
    for (int r = 0; r < s_size; r++)
        total += counts[r] = (size_t) (r * 5 % 7);
    bool exact = getenv ("TUTTI_REPRODUCIBLE") != NULL;
    for (int t = 0; t < TUTTI_DTYPES; t++)
        for (int op = 0; op < TUTTI_OPS; op++) {
            if ((op >= TUTTI_BAND && t >= TUTTI_FLOAT16) ||
                (!exact && t >= TUTTI_FLOAT16))
                continue;
            tutti_dtype_t dtype = (tutti_dtype_t) t;
            tutti_op_t o = (tutti_op_t) op;
            size_t n = 9, all = n * (size_t) s_size;
            s_random (in, all * sizes[t], t);
            OK (tutti_allreduce (in, whole, all, dtype, o, s_world));
            OK (tutti_reduce_scatter (in, part, n, dtype, o, s_world));
            OK (tutti_allgather (part, joined, n, dtype, s_world));
            CHECK (memcmp (whole, joined, all * sizes[t]) == 0);
            OK (tutti_allreduce (in, whole, total, dtype, o, s_world));
            OK (tutti_reduce_scatterv (in, part, counts, dtype, o, s_world));
            OK (tutti_allgatherv (part, counts[s_rank], joined, counts, NULL,
                                  dtype, s_world));
            CHECK (memcmp (whole, joined, total * sizes[t]) == 0);
        }
}

static const check_t s_checks[] = {
    { "refused", s_refused },
    { "counts_differ", s_counts_differ },
    { "counts_short", s_counts_short },
    { "lists_differ", s_lists_differ },
    { "cancel", s_cancel },
    { "batch", s_batch },
    { "mixed", s_mixed },
    { "priorities", s_priorities },
    { "opposite", s_opposite },
    { "names", s_names },
    { "named_orders", s_named_orders },
    { "named_ahead", s_named_ahead },
    { "named_mismatch", s_named_mismatch },
    { "property", s_property },
};

//  Defaults of the session are those of the blocking calls.
static int
s_defaults (void)
{
    tutti_call_t call = TUTTI_CALL_INIT;
    tutti_config_t config = TUTTI_CONFIG_INIT;
    call.scale = 0.5;
    config.call = &call;
    OK (tutti_init (&config, &s_world));
    float x = 3;
    OK (tutti_allreduce (&x, &x, 1, TUTTI_FLOAT32, TUTTI_PREMUL_SUM, s_world));
    CHECK (x == 1.5f * (float) tutti_comm_size (s_world));
    OK (tutti_finalize (&s_world));
    printf ("ok\n");
    return 0;
}

int
main (int argc, char **argv)
{
    if (argc == 2 && strcmp (argv[1], "defaults") == 0)
        return s_defaults ();
    return s_main (argc, argv, s_checks, sizeof s_checks / sizeof *s_checks);
}
