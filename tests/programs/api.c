//  tests/programs/api.c - a rank that checks the API; argv[1] names the check
//
//  Run by tests/integration/test_api.py under tutti run. Prints "ok" and ends
//  with 0, or says what was wrong.

#include "tests/programs/check.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static int
s_sum (tutti_comm_t *comm, int value)
{
    int32_t x = value;
    OK (tutti_allreduce (&x, &x, 1, TUTTI_INT32, TUTTI_SUM, comm));
    return x;
}

//  Halves, odd and even, one rank left out, a split of a split, many of them.
static void
s_split (void)
{
    tutti_comm_t *half, *parity, *some, *copy, *quarter;
    OK (tutti_comm_split (s_world, s_rank * 2 / s_size, -s_rank, &half));
    int n = tutti_comm_size (half);
    CHECK (s_sum (half, 1) == n);
    int32_t order[64];
    int32_t me = s_rank;
    OK (tutti_allgather (&me, order, 1, TUTTI_INT32, half));
    for (int i = 1; i < n; i++)
        CHECK (order[i] == order[i - 1] - 1);  //  the key turns the order
    OK (tutti_comm_split (s_world, s_rank % 2, 0, &parity));
    int want = 0;
    for (int r = s_rank % 2; r < s_size; r += 2)
        want += r;
    CHECK (s_sum (parity, s_rank) == want);
    OK (tutti_comm_split (s_world, s_rank == 1 ? TUTTI_NO_COLOR : 7, s_rank,
                          &some));
    CHECK ((some == NULL) == (s_rank == 1));
    if (some)
        CHECK (s_sum (some, 1) == s_size - 1);
    OK (tutti_comm_split (half, tutti_comm_rank (half) % 2, 0, &quarter));
    CHECK (s_sum (quarter, 1) == tutti_comm_size (quarter));
    OK (tutti_comm_dup (s_world, &copy));
    CHECK (s_sum (copy, 1) == s_size && s_sum (s_world, 2) == 2 * s_size);
    OK (tutti_comm_close (&half));
    CHECK (half == NULL && s_sum (quarter, 1) > 0);
    for (int i = 0; i < 50; i++) {
        tutti_comm_t *more;
        OK (tutti_comm_split (s_world, i % 3 == s_rank % 3, 0, &more));
        CHECK (s_sum (more, 1) == tutti_comm_size (more));
        OK (tutti_comm_close (&more));
    }
}

static void
s_misuse (void)
{
    float a[64] = { 0 }, b[64];
    tutti_comm_t *w = s_world;
    CHECK (tutti_allreduce (NULL, b, 4, TUTTI_FLOAT32, TUTTI_SUM, w) ==
           TUTTI_EINVAL);
    CHECK (strstr (tutti_last_error (), "input is NULL"));
    CHECK (tutti_allreduce (a, NULL, 4, TUTTI_FLOAT32, TUTTI_SUM, w) ==
           TUTTI_EINVAL);
    CHECK (tutti_allreduce (a, b, 4, (tutti_dtype_t) 99, TUTTI_SUM, w) ==
           TUTTI_EINVAL);
    CHECK (strstr (tutti_last_error (), "data type 99"));
    CHECK (tutti_allreduce (a, b, 4, TUTTI_FLOAT32, (tutti_op_t) 77, w) ==
           TUTTI_EINVAL);
    CHECK (tutti_allreduce (a, b, 4, TUTTI_FLOAT32, TUTTI_BAND, w) ==
           TUTTI_EINVAL);
    CHECK (tutti_allreduce (a, a + 1, 4, TUTTI_FLOAT32, TUTTI_SUM, w) ==
           TUTTI_EINVAL);
    CHECK (strstr (tutti_last_error (), "overlap"));
    CHECK (tutti_broadcast (a, 4, TUTTI_FLOAT32, s_size, w) == TUTTI_EINVAL);
    CHECK (tutti_broadcast (a, 4, TUTTI_FLOAT32, -1, w) == TUTTI_EINVAL);
    CHECK (tutti_allreduce (a, b, SIZE_MAX / 2, TUTTI_FLOAT32, TUTTI_SUM, w) ==
           TUTTI_EINVAL);
    CHECK (tutti_allreduce (a, b, 4, TUTTI_FLOAT32, TUTTI_SUM,
                            (tutti_comm_t *) a) == TUTTI_EHANDLE);
    CHECK (tutti_allreduce_async (a, b, 4, TUTTI_FLOAT32, TUTTI_SUM, w, NULL,
                                  NULL) == TUTTI_EINVAL);
    CHECK (tutti_comm_close (&w) == TUTTI_ESTATE && w == s_world);
    CHECK (tutti_mem_free (s_world, a) == TUTTI_EINVAL);
    CHECK (s_sum (s_world, 1) == s_size);  //  nothing was harmed
}

static void
s_requests (void)
{
    enum { N = 20 };
    int32_t x[N], y[N];
    tutti_request_t *r[N] = { NULL }, *stale, *none = NULL;
    size_t index;
    int done;
    for (int i = 0; i < N; i++) {
        x[i] = s_rank + i;
        OK (tutti_allreduce_async (&x[i], &y[i], 1, TUTTI_INT32, TUTTI_SUM,
                                   s_world, NULL, &r[i]));
    }
    tutti_request_info_t info = TUTTI_REQUEST_INFO_INIT;
    OK (tutti_request_info (r[3], &info));
    CHECK (strcmp (info.kind, "allreduce") == 0 && info.bytes == 4);
    stale = r[N - 1];
    OK (tutti_wait (&r[N - 1], TUTTI_FOREVER));  //  out of order
    CHECK (r[N - 1] == NULL && tutti_wait (&stale, 0) == TUTTI_EHANDLE);
    for (int i = 0; i < 5; i++) {
        OK (tutti_wait_any (r, N, TUTTI_FOREVER, &index));
        CHECK (index < N && r[index] == NULL);
    }
    OK (tutti_wait_all (r, N, TUTTI_FOREVER));
    OK (tutti_wait_any (r, N, 0, &index));
    CHECK (index == N);
    for (int i = 0; i < N; i++)
        CHECK (y[i] == s_size * (s_size - 1) / 2 + i * s_size);
    OK (tutti_wait (&none, 0));
    OK (tutti_test (&none, &done));
    CHECK (done == 1);
    if (s_rank == 0)
        usleep (300000);  //  the others lose their patience, not the op
    OK (tutti_barrier_async (s_world, NULL, &none));
    tutti_err_t err = tutti_wait (&none, 50);
    CHECK (s_rank == 0 || (err == TUTTI_EAGAIN && none != NULL));
    OK (tutti_wait (&none, TUTTI_FOREVER));
}

//  Every slot of the ring in flight, twice over, in ordinary memory.
static void
s_many (void)
{
    enum { N = 150, COUNT = 3000 };
    static float x[N][COUNT];
    tutti_request_t *r[N] = { NULL };
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < COUNT; k++)
            x[i][k] = (float) (s_rank + i + k % 7);
        OK (tutti_allreduce_async (x[i], x[i], COUNT, TUTTI_FLOAT32, TUTTI_SUM,
                                   s_world, NULL, &r[i]));
    }
    OK (tutti_wait_all (r, N, TUTTI_FOREVER));
    for (int i = 0; i < N; i++)
        for (int k = 0; k < COUNT; k++)
            CHECK (x[i][k] ==
                   (float) (s_size * (i + k % 7) + s_size * (s_size - 1) / 2));
}

//  Counts around every border, unaligned, in and out of place, empty.
static void
s_counts (void)
{
    static const size_t counts[] = { 0, 1, 7, 15, 16, 17, 1023, 1025, 70001 };
    uint8_t *in = malloc (1u << 20), *out = malloc (4u << 20);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (size_t shift = 0; shift < 2; shift++) {
            size_t n = counts[i];
            int32_t *x = (int32_t *) (void *) (in + shift);
            for (size_t k = 0; k < n; k++)
                memcpy (x + k, &(int32_t){ s_rank + (int32_t) k }, 4);
            OK (tutti_allreduce (x, out + shift, n, TUTTI_INT32, TUTTI_MAX,
                                 s_world));
            OK (tutti_allreduce (x, x, n, TUTTI_INT32, TUTTI_MAX, s_world));
            CHECK (memcmp (x, out + shift, n * 4) == 0);
            for (size_t k = 0; k < n; k++) {
                int32_t v;
                memcpy (&v, x + k, 4);
                CHECK (v == s_size - 1 + (int32_t) k);
            }
            OK (tutti_allgather (x, out, n, TUTTI_INT32, s_world));
            CHECK (memcmp (out + n * 4 * (size_t) (s_size - 1), x, n * 4) ==
                   0);
            OK (tutti_broadcast (x, n, TUTTI_INT32, s_size - 1, s_world));
        }
    free (in);
    free (out);
}

static void
s_abort (void)
{
    if (s_rank == 1) {
        usleep (200000);
        OK (tutti_comm_abort (s_world, 7, "loss is NaN"));
    }
    float x = 0;
    tutti_err_t err =
        tutti_allreduce (&x, &x, 1, TUTTI_FLOAT32, TUTTI_SUM, s_world);
    CHECK (err == TUTTI_EABORTED);
    CHECK (strstr (tutti_last_error (), "rank 1 aborted with code 7"));
    CHECK (strstr (tutti_last_error (), "loss is NaN"));
    CHECK (tutti_comm_error (s_world) == TUTTI_EABORTED);
}

static void
s_deadline (void)
{
    float x = 0;
    tutti_call_t call = TUTTI_CALL_INIT;
    tutti_request_t *r = NULL;
    call.timeout_ms = 400;
    if (s_rank == 1) {
        sleep (1);  //  too late: the op has ended on the others
        CHECK (tutti_comm_error (s_world) == TUTTI_ETIMEDOUT);
        return;
    }
    OK (tutti_allreduce_async (&x, &x, 1, TUTTI_FLOAT32, TUTTI_SUM, s_world,
                               &call, &r));
    CHECK (tutti_wait (&r, TUTTI_FOREVER) == TUTTI_ETIMEDOUT && r == NULL);
    CHECK (strstr (tutti_last_error (), "deadline"));
    sleep (1);
}

//  A program that is executed gets none of our descriptors.
static void
s_exec (void)
{
    char line[512];
    int seen = 0;
    FILE *list = popen ("ls -l /proc/self/fd", "r");
    CHECK (list != NULL);
    while (list && fgets (line, sizeof line, list)) {
        const char *to = strstr (line, " -> ");
        seen += to != NULL;
        CHECK (!to || !(strstr (to, "memfd:") || strstr (to, "eventfd") ||
                        strstr (to, "pidfd")));
    }
    CHECK (list && pclose (list) == 0);
    CHECK (seen >= 3);
    OK (tutti_barrier (s_world));
}

//  The last rank returns from main without tutti_finalize: the others learn
//  who, and how.
static void
s_vanish (void)
{
    if (s_rank == s_size - 1) {
        OK (tutti_barrier (s_world));
        printf ("ok\n");
        exit (0);
    }
    //  Already in the first: who is late may find it ended.
    tutti_err_t err = TUTTI_OK;
    while (!err)
        err = tutti_barrier (s_world);
    CHECK (err == TUTTI_EPEERLOST);
    const char *text = tutti_last_error ();
    char who[32];
    snprintf (who, sizeof who, "rank %d (", s_size - 1);
    CHECK (strncmp (text, who, strlen (who)) == 0);
    CHECK (strstr (text, "without tutti_finalize") != NULL);
}

static void
s_fork (void)
{
    pid_t pid = fork ();
    if (pid == 0)
        _exit (tutti_barrier (s_world) == TUTTI_ESTATE &&
                       tutti_comm_rank (s_world) == TUTTI_ESTATE
                   ? 0
                   : 1);
    int status = 1;
    waitpid (pid, &status, 0);
    CHECK (status == 0);
    CHECK (s_sum (s_world, 1) == s_size);
}

typedef struct job {
    tutti_comm_t *comm;
    int seed;
} job_t;

static void *
s_thread (void *arg)
{
    job_t *job = arg;
    for (int i = 0; i < 500; i++)
        CHECK (s_sum (job->comm, job->seed + i) == s_size * (job->seed + i));
    return NULL;
}

//  Two comms, two threads, started in opposite order on odd ranks.
static void
s_threads (void)
{
    job_t jobs[2] = { { NULL, 3 }, { NULL, 1000 } };
    pthread_t threads[2];
    OK (tutti_comm_dup (s_world, &jobs[0].comm));
    OK (tutti_comm_dup (s_world, &jobs[1].comm));
    for (int i = 0; i < 2; i++)
        pthread_create (&threads[i], NULL, s_thread, &jobs[(i + s_rank) % 2]);
    for (int i = 0; i < 2; i++)
        pthread_join (threads[i], NULL);
}

//  Memory comes and goes; what is freed is gone, what is kept is right.
static void
s_memory (void)
{
    for (int i = 0; i < 30; i++) {
        void *p, *q;
        size_t n = 1000 + (size_t) i * 977;
        tutti_mem_info_t info = TUTTI_MEM_INFO_INIT;
        OK (tutti_mem_alloc (s_world, n * 4, TUTTI_HOST, &p));
        OK (tutti_mem_alloc (s_world, n * 4, TUTTI_HOST, &q));
        OK (tutti_mem_info (s_world, p, &info));
        CHECK (strcmp (info.path, "shared") == 0 && info.bytes >= n * 4);
        for (size_t k = 0; k < n; k++)
            ((int32_t *) p)[k] = (int32_t) k + s_rank;
        OK (tutti_allreduce (p, q, n, TUTTI_INT32, TUTTI_MIN, s_world));
        for (size_t k = 0; k < n; k++)
            CHECK (((int32_t *) q)[k] == (int32_t) k);
        OK (tutti_mem_free (s_world, p));
        OK (tutti_mem_free (s_world, q));
    }
}

//  The last rank waits as a leaf of a broadcast, the others in a ring that
//  never needs it: no frame shows the mismatch, the coordinator finds it.
static void
s_hidden (void)
{
    static float x[100000];
    tutti_err_t err;
    if (s_rank == s_size - 1)
        err = tutti_broadcast (x, 100000, TUTTI_FLOAT32, 0, s_world);
    else
        err =
            tutti_allreduce (x, x, 100000, TUTTI_FLOAT32, TUTTI_SUM, s_world);
    CHECK (err == TUTTI_EMISMATCH);
    CHECK (strstr (tutti_last_error (), "allreduce float32"));
    CHECK (strstr (tutti_last_error (), "broadcast float32"));
}

//  100 comms over the same connections, each in turn the late one: a comm
//  whose rank is late keeps no credit that another needs.
static void
s_late (void)
{
    enum { N = 100 };
    static tutti_comm_t *comm[N];
    static int32_t x[N];
    tutti_request_t *r[N] = { NULL };
    for (int i = 0; i < N; i++)
        OK (tutti_comm_dup (s_world, &comm[i]));
    for (int late = 0; late < N; late++) {
        for (int k = 0; k < N; k++) {
            int i = s_rank == 0 ? (late + 1 + k) % N : (late + k) % N;
            x[i] = s_rank + i;
            OK (tutti_allreduce_async (&x[i], &x[i], 1, TUTTI_INT32, TUTTI_SUM,
                                       comm[i], NULL, &r[i]));
            if (s_rank == 0 && k == N - 2)  //  all but the late one
                for (int w = 0; w < N; w++)
                    OK (tutti_wait (w == late ? &(tutti_request_t *){ NULL }
                                              : &r[w],
                                    TUTTI_FOREVER));
        }
        OK (tutti_wait_all (r, N, TUTTI_FOREVER));
        for (int i = 0; i < N; i++)
            CHECK (x[i] == s_size * i + s_size * (s_size - 1) / 2);
    }
}

//  A, B, wait A, wait B against A, wait A, B, wait B: legal, and no op may
//  wait for what another rank has not submitted.
static void
s_orders (void)
{
    for (int i = 0; i < 3000; i++) {
        int32_t a = s_rank, b = i;
        tutti_request_t *ra = NULL, *rb = NULL;
        OK (tutti_allreduce_async (&a, &a, 1, TUTTI_INT32, TUTTI_SUM, s_world,
                                   NULL, &ra));
        if ((i + s_rank) % 2)
            OK (tutti_wait (&ra, TUTTI_FOREVER));
        OK (tutti_allreduce_async (&b, &b, 1, TUTTI_INT32, TUTTI_SUM, s_world,
                                   NULL, &rb));
        OK (tutti_wait (&ra, TUTTI_FOREVER));
        OK (tutti_wait (&rb, TUTTI_FOREVER));
        CHECK (a == s_size * (s_size - 1) / 2 && b == i * s_size);
    }
}

//  One rank is late by more than the patience of the report.
static void
s_stall (void)
{
    if (s_rank == 1)
        sleep (12);
    OK (tutti_barrier (s_world));
}

static int
s_fds (void)
{
    int n = 0;
    for (int fd = 0; fd < 1024; fd++)
        n += fcntl (fd, F_GETFD) >= 0;
    return n;
}

//  Join and leave again and again, under the same name: nothing is left.
static void
s_rounds (void)
{
    const char *text = getenv ("ROUNDS");
    long rounds = text ? strtol (text, NULL, 10) : 100;
    int before = s_fds ();
    for (long i = 0; i < rounds; i++) {
        OK (tutti_finalize (&s_world));
        OK (tutti_init (NULL, &s_world));
        CHECK (s_sum (s_world, 1) == s_size);
    }
    CHECK (s_fds () == before);
}

static const check_t s_checks[] = {
    { "split", s_split },       { "misuse", s_misuse },
    { "requests", s_requests }, { "many", s_many },
    { "counts", s_counts },     { "abort", s_abort },
    { "deadline", s_deadline }, { "fork", s_fork },
    { "exec", s_exec },         { "vanish", s_vanish },
    { "threads", s_threads },   { "memory", s_memory },
    { "hidden", s_hidden },     { "late", s_late },
    { "orders", s_orders },     { "stall", s_stall },
    { "rounds", s_rounds },
};

int
main (int argc, char **argv)
{
    return s_main (argc, argv, s_checks, sizeof s_checks / sizeof *s_checks);
}
