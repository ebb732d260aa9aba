//  tests/programs/matrix.c - every collective against a reference
//
//  usage: matrix SEED CASES [KIND]: CASES random cases, the same on all ranks:
//  kind x type x operation x count x in place x memory x alignment; ranks call
//  some blocking and some asynchronously. CASES 0: every combination, once.
//  Integers and moved bytes must be exact, sums of floats within
//  (n + 2) / 2 ulp of the sum of the magnitudes (double). Bytes around and
//  between the pieces must stay. Prints "cases N" on rank 0.

#include "tests/programs/matrix_reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD 64
#define POISON 0xa5
#define MOST (5u << 20)              //  elements of a buffer
#define STRIDE (UINT64_C (1) << 32)  //  between pieces, of element numbers
#define MAX_RANKS 64

static const size_t s_counts[] = {
    0, 1, 7, 15, 16, 17, 500, 1023, (1u << 20) - 1, 1u << 20, (1u << 20) + 1
};
#define COUNTS (sizeof s_counts / sizeof *s_counts)

//  One side: pieces with counts and displacements, in elements.
typedef struct side {
    uint8_t *base;
    int pieces;
    size_t counts[MAX_RANKS], displs[MAX_RANKS];
} side_t;

static tutti_comm_t *s_world;
static uint8_t *s_shared[2], *s_private[2];
static uint64_t s_random;

static uint64_t
s_next (void)
{
    s_random += 0x9e3779b97f4a7c15u;
    return s_hash (s_random);
}

static void
s_die (const test_t *t, const char *what, long long at)
{
    fprintf (stderr,
             "matrix: rank %d of %d: %s %s %s x%zu root %d%s%s shift %d: %s "
             "(%lld) %s\n",
             s_rank, s_size, s_kinds[t->kind].name, s_types[t->dtype].name,
             s_ops[t->op], t->count, t->root, t->in_place ? " in place" : "",
             t->gaps ? " gaps" : "", t->shift, what, at, tutti_last_error ());
    exit (1);
}

//  ------------------------------------------------------------------- layout

static form_t
s_form (form_t form, who_t who, int root, int r)
{
    bool has = who == ALL || (who == ROOT ? r == root : r != root);
    return has ? form : NONE;
}

//  Elements that go from rank A to rank B (all-gather kinds: from A to all).
static size_t
s_flow (const test_t *t, int a, int b)
{
    kind_t k = t->kind;
    if (!s_kinds[k].uneven)
        return t->count;
    int key = k == ALLGATHERV || k == GATHERV         ? a
              : k == REDUCE_SCATTERV || k == SCATTERV ? b
                                                      : 3 * a + b;
    return key % 4 == 3 ? 0 : t->count / (size_t) (1 + key % 3);
}

static void
s_lay (const test_t *t, bool in, side_t *side)
{
    kind_t k = t->kind;
    form_t form =
        in ? s_form (s_kinds[k].in, s_kinds[k].in_who, t->root, s_rank)
           : s_form (s_kinds[k].out, s_kinds[k].out_who, t->root, s_rank);
    size_t at = 0;
    //  reduce_scatterv has no displacements, and even kinds have no gaps.
    bool gaps = t->gaps && s_kinds[k].uneven && k != REDUCE_SCATTERV;
    side->pieces = form == EACH ? s_size : form == ONE;
    for (int p = 0; p < side->pieces; p++) {
        int other = form == EACH ? p : s_rank;
        side->counts[p] =
            in ? s_flow (t, s_rank, other) : s_flow (t, other, s_rank);
        side->displs[p] = at;
        at += side->counts[p] + (gaps && form == EACH ? 3 : 0);
    }
}

static size_t
s_extent (const side_t *side)
{
    int last = side->pieces - 1;
    return last < 0 ? 0 : side->displs[last] + side->counts[last];
}

static uint8_t *
s_at (const test_t *t, const side_t *side, int p, size_t i)
{
    return side->base +
           (side->displs[p] + i) * (size_t) s_types[t->dtype].size;
}

//  Places of input and output; in place they share memory.
static void
s_allocate (const test_t *t, side_t *in, side_t *out)
{
    uint64_t h = s_hash (t->seed ^ (uint64_t) s_rank);
    uint8_t *a = h & 1 ? s_shared[0] : s_private[0];
    uint8_t *b = h & 2 ? s_shared[1] : s_private[1];
    size_t size = (size_t) s_types[t->dtype].size;
    in->base = a + GUARD + t->shift;
    out->base = b + GUARD + t->shift;
    if (t->kind == BROADCAST)
        in->base = out->base;
    if (!t->in_place || in->pieces == 0 || out->pieces == 0)
        return;
    if (s_kinds[t->kind].in == ONE && s_kinds[t->kind].out == EACH)
        in->base = out->base + out->displs[s_rank] * size;
    else if (s_kinds[t->kind].in == EACH && s_kinds[t->kind].out == ONE)
        out->base = in->base + in->displs[s_rank] * size;
    else
        out->base = in->base;
}

static void
s_fill (const test_t *t, const side_t *in)
{
    for (int p = 0; p < in->pieces; p++)
        for (size_t i = 0; i < in->counts[p]; i++) {
            uint64_t bits = s_bits (t, s_rank, (uint64_t) p * STRIDE + i);
            memcpy (s_at (t, in, p, i), &bits,
                    (size_t) s_types[t->dtype].size);
        }
}

//  ------------------------------------------------------------------ calling

static tutti_err_t
s_async (const test_t *t, const side_t *in, const side_t *out,
         const tutti_call_t *o, tutti_request_t **r)
{
    const void *send = in->pieces ? in->base : NULL;
    void *recv = out->pieces ? out->base : NULL;
    if (t->in_place && in->pieces && out->pieces && t->seed & 1) {
        if (t->kind == SCATTER || t->kind == SCATTERV)
            recv = TUTTI_IN_PLACE;
        else if (t->kind != BROADCAST)
            send = TUTTI_IN_PLACE;
    }
    switch (t->kind) {
    case ALLREDUCE:
        return tutti_allreduce_async (send, recv, t->count, t->dtype, t->op,
                                      s_world, o, r);
    case ALLGATHER:
        return tutti_allgather_async (send, recv, t->count, t->dtype, s_world,
                                      o, r);
    case REDUCE_SCATTER:
        return tutti_reduce_scatter_async (send, recv, t->count, t->dtype,
                                           t->op, s_world, o, r);
    case BROADCAST:
        return tutti_broadcast_async (out->base, t->count, t->dtype, t->root,
                                      s_world, o, r);
    case REDUCE:
        return tutti_reduce_async (send, recv, t->count, t->dtype, t->op,
                                   t->root, s_world, o, r);
    case GATHER:
        return tutti_gather_async (send, recv, t->count, t->dtype, t->root,
                                   s_world, o, r);
    case SCATTER:
        return tutti_scatter_async (send, recv, t->count, t->dtype, t->root,
                                    s_world, o, r);
    case ALLTOALL:
        return tutti_alltoall_async (send, recv, t->count, t->dtype, s_world,
                                     o, r);
    case ALLGATHERV:
        return tutti_allgatherv_async (send, in->counts[0], recv, out->counts,
                                       t->gaps ? out->displs : NULL, t->dtype,
                                       s_world, o, r);
    case REDUCE_SCATTERV:
        return tutti_reduce_scatterv_async (send, recv, in->counts, t->dtype,
                                            t->op, s_world, o, r);
    case GATHERV:
        return tutti_gatherv_async (send, in->counts[0], recv, out->counts,
                                    out->displs, t->dtype, t->root, s_world, o,
                                    r);
    case SCATTERV:
        return tutti_scatterv_async (send, in->counts, in->displs, recv,
                                     out->counts[0], t->dtype, t->root,
                                     s_world, o, r);
    default:
        return tutti_alltoallv_async (send, in->counts, in->displs, recv,
                                      out->counts, out->displs, t->dtype,
                                      s_world, o, r);
    }
}

//  ----------------------------------------------------------------- checking

static void
s_check_element (const test_t *t, const side_t *out, int p, size_t i)
{
    uint64_t bits = 0, q = s_kinds[t->kind].in == EACH ? (uint64_t) s_rank : 0;
    uint64_t index = q * STRIDE + i;
    memcpy (&bits, s_at (t, out, p, i), (size_t) s_types[t->dtype].size);
    if (!s_kinds[t->kind].reduces) {
        int from = s_kinds[t->kind].out == EACH ? p : t->root;
        if (bits != s_bits (t, from, index))
            s_die (t, "a wrong element", (long long) i);
    }
    else if (s_types[t->dtype].mantissa == 0) {
        if (bits != s_integer (t, index))
            s_die (t, "a wrong integer", (long long) i);
    }
    else {
        double far, want = s_real (t, index, &far);
        double got = s_float (t->dtype, bits);
        if (!(fabs (got - want) <= far)) {
            fprintf (stderr, "matrix: %.17g, not %.17g\n", got, want);
            s_die (t, "a wrong float", (long long) i);
        }
    }
}

//  Bytes that no piece covers must be as before.
static void
s_check_gaps (const test_t *t, const side_t *out)
{
    size_t size = (size_t) s_types[t->dtype].size;
    for (int p = 0; p + 1 < out->pieces; p++) {
        const uint8_t *at = s_at (t, out, p, out->counts[p]);
        size_t bytes =
            (out->displs[p + 1] - out->displs[p] - out->counts[p]) * size;
        for (size_t i = 0; i < bytes; i++)
            if (at[i] != POISON)
                s_die (t, "a gap was written", p);
    }
    const uint8_t *end = out->base + s_extent (out) * size;
    for (size_t i = 0; i < 16; i++)
        if (end[i] != POISON || out->base[-1 - (long) i] != POISON)
            s_die (t, "written beyond the buffer", (long long) i);
}

static void
s_check (const test_t *t, const side_t *in, const side_t *out)
{
    for (int p = 0; p < out->pieces; p++) {
        //  Of a long piece the ends and a sample.
        size_t n = out->counts[p], step = n > 4096 ? n / 1021 : 1;
        for (size_t i = 0; i < n; i += step)
            s_check_element (t, out, p, i);
        for (size_t i = n > 64 ? n - 64 : 0; i < n; i++)
            s_check_element (t, out, p, i);
    }
    if (!t->in_place && out->pieces > 0)
        s_check_gaps (t, out);
    bool kept = in->base != out->base && !t->in_place;
    for (int p = 0; kept && p < in->pieces; p++)
        for (size_t i = 0; i < in->counts[p]; i += 997) {
            uint64_t bits = 0;
            memcpy (&bits, s_at (t, in, p, i),
                    (size_t) s_types[t->dtype].size);
            if (bits != s_bits (t, s_rank, (uint64_t) p * STRIDE + i))
                s_die (t, "the input has changed", (long long) i);
        }
}

//  All ranks have the same bits.
static void
s_check_same (const test_t *t, const side_t *out)
{
    uint64_t h = 0, all[MAX_RANKS];
    for (size_t i = 0; i < out->counts[0]; i++) {
        uint64_t bits = 0;
        memcpy (&bits, s_at (t, out, 0, i), (size_t) s_types[t->dtype].size);
        h = s_hash (h ^ bits);
    }
    if (tutti_allgather (&h, all, 1, TUTTI_UINT64, s_world))
        s_die (t, "allgather", 0);
    for (int r = 0; r < s_size; r++)
        if (all[r] != h)
            s_die (t, "other bits than rank", r);
}

static void
s_run (const test_t *t)
{
    side_t in = { .base = NULL }, out = { .base = NULL };
    s_lay (t, true, &in);
    s_lay (t, false, &out);
    s_allocate (t, &in, &out);
    size_t bytes = s_extent (&out) * (size_t) s_types[t->dtype].size;
    size_t more = s_extent (&in) * (size_t) s_types[t->dtype].size;
    memset (out.base - GUARD, POISON, bytes + 2 * GUARD);
    if (!t->in_place && t->kind != BROADCAST)
        memset (in.base - GUARD, POISON, more + 2 * GUARD);
    s_fill (t, &in);
    tutti_call_t options = TUTTI_CALL_INIT;
    options.scale = s_factor (t, s_rank);
    tutti_request_t *request = NULL;
    tutti_err_t err = s_async (t, &in, &out, &options, &request);
    if (!err && s_hash (t->seed + (uint64_t) s_rank) & 4)
        err = tutti_progress (s_world, 0, NULL);
    if (!err)
        err = tutti_wait (&request, TUTTI_FOREVER);
    if (err)
        s_die (t, tutti_err_name (err), err);
    s_check (t, &in, &out);
    if (t->kind == ALLREDUCE && t->count <= 4096)
        s_check_same (t, &out);
}

//  ------------------------------------------------------------------- choose

static bool
s_possible (const test_t *t)
{
    size_t each = s_kinds[t->kind].in == EACH || s_kinds[t->kind].out == EACH
                      ? (size_t) s_size
                      : 1;
    if (t->count * each * (size_t) s_types[t->dtype].size > MOST * 4)
        return false;
    if (!s_kinds[t->kind].reduces)
        return t->op == TUTTI_SUM;
    if (t->in_place && t->kind == ALLTOALLV)
        return false;
    return t->op < TUTTI_BAND || s_types[t->dtype].mantissa == 0;
}

static void
s_random_case (test_t *t)
{
    do {
        *t = (test_t){ .kind = (kind_t) (s_next () % KINDS),
                       .dtype = (tutti_dtype_t) (s_next () % TUTTI_DTYPES),
                       .op = (tutti_op_t) (s_next () % TUTTI_OPS),
                       .root = (int) (s_next () % (uint64_t) s_size),
                       .in_place = s_next () % 2,
                       .gaps = s_next () % 2,
                       .shift = s_next () % 2 ? (int) (s_next () % 8) : 0 };
        //  Large ones now and then.
        t->count = s_counts[s_next () % (s_next () % 8 ? 8 : COUNTS)];
        t->seed = s_next ();
        if (!s_kinds[t->kind].reduces)
            t->op = TUTTI_SUM;
        if (t->kind == ALLTOALLV)
            t->in_place = false;
    } while (!s_possible (t));
}

static long
s_all (int only)
{
    long n = 0;
    test_t t = { .kind = ALLREDUCE };
    for (int k = 0; k < KINDS; k++)
        for (int d = 0; d < TUTTI_DTYPES; d++)
            for (int o = 0; o < TUTTI_OPS; o++)
                for (size_t c = 0; c < COUNTS; c++)
                    for (int v = 0; v < 4; v++) {
                        t.kind = (kind_t) k;
                        t.dtype = (tutti_dtype_t) d;
                        t.op = (tutti_op_t) o;
                        t.count = s_counts[c];
                        t.in_place = v & 1 && k != ALLTOALLV;
                        t.shift = v & 2 ? 1 + (int) (s_next () % 7) : 0;
                        t.gaps = s_next () % 2;
                        t.root = (int) (s_next () % (uint64_t) s_size);
                        t.seed = s_next ();
                        if ((only >= 0 && k != only) || !s_possible (&t))
                            continue;
                        s_run (&t);
                        n++;
                    }
    return n;
}

int
main (int argc, char **argv)
{
    if (argc < 3 || tutti_init (NULL, &s_world)) {
        fprintf (stderr, "matrix SEED CASES: %s\n", tutti_last_error ());
        return 2;
    }
    int only = -1;
    s_wide = getenv ("TUTTI_WIDE") != NULL;
    for (int k = 0; k < KINDS && argc > 3; k++)
        if (strcmp (argv[3], s_kinds[k].name) == 0)
            only = k;
    s_random = strtoull (argv[1], NULL, 10);
    s_rank = tutti_comm_rank (s_world);
    s_size = tutti_comm_size (s_world);
    for (int i = 0; i < 2; i++) {
        void *memory;
        if (tutti_mem_alloc (s_world, MOST * 4 + 4096, TUTTI_HOST, &memory))
            return 2;
        s_shared[i] = memory;
        s_private[i] = malloc (MOST * 4 + 4096);
    }
    long cases = strtol (argv[2], NULL, 10), n = 0;
    if (cases == 0)
        n = s_all (only);
    for (; n < cases; n++) {
        test_t t;
        s_random_case (&t);
        if (only < 0 || (int) t.kind == only)
            s_run (&t);
    }
    if (tutti_finalize (&s_world))
        return 2;
    if (s_rank == 0)
        printf ("cases %ld\n", n);
    return 0;
}
