//  client/examples/hello.c - the three patterns, card by card
//
//    tutti run -n 4 --nodes 2 -- build/bin/examples/hello
//
//  Every rank is a "card". Cards hold 1, 2, 3, 4 ...; an allreduce gives all
//  of them the sum and the average, an allgather everybody's piece, and a
//  reduce-scatter one column of the sum to each. Reduce-scatter followed by
//  allgather is an allreduce, bit for bit.

#include <tutti.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int s_rank, s_size;

//  Ends the program with the library's own sentence: who, what, where, what
//  to do.
static void
s_check (tutti_err_t err)
{
    if (err == TUTTI_OK)
        return;
    fprintf (stderr, "card %d: %s: %s\n", s_rank, tutti_err_name (err),
             tutti_last_error ());
    exit (1);
}

static void
s_print (const char *what, const float *values, int n, tutti_comm_t *world)
{
    for (int turn = 0; turn < s_size; turn++) {
        if (turn == s_rank) {
            printf ("%s card %d: [", what, s_rank);
            for (int i = 0; i < n; i++)
                printf ("%s%g", i > 0 ? ", " : "", (double) values[i]);
            printf ("]\n");
            fflush (stdout);
        }
        s_check (tutti_barrier (world));
    }
}

static void
s_allreduce (tutti_comm_t *world)
{
    float mine = (float) s_rank + 1, sum, average;
    s_check (
        tutti_allreduce (&mine, &sum, 1, TUTTI_FLOAT32, TUTTI_SUM, world));
    s_check (
        tutti_allreduce (&mine, &average, 1, TUTTI_FLOAT32, TUTTI_AVG, world));
    s_print ("before         ", &mine, 1, world);
    s_print ("allreduce sum  ", &sum, 1, world);
    s_print ("allreduce avg  ", &average, 1, world);
}

static void
s_allgather (tutti_comm_t *world, float *all)
{
    float piece = (float) (10 * s_rank);  //  a0, a1, a2, a3
    s_check (tutti_allgather (&piece, all, 1, TUTTI_FLOAT32, world));
    s_print ("allgather      ", all, s_size, world);
}

//  Card r holds a_r, b_r, c_r, d_r; card 0 gets the sum of the a, card 1 of
//  the b, and so on.
static void
s_reduce_scatter (tutti_comm_t *world, float *row, float *whole, float *parts)
{
    for (int i = 0; i < s_size; i++)
        row[i] = (float) (100 * (i + 1) + s_rank) / 3.0f;
    float column;
    s_check (tutti_reduce_scatter (row, &column, 1, TUTTI_FLOAT32, TUTTI_SUM,
                                   world));
    s_print ("reduce_scatter ", &column, 1, world);
    s_check (tutti_allgather (&column, parts, 1, TUTTI_FLOAT32, world));
    s_print ("  + allgather  ", parts, s_size, world);
    s_check (tutti_allreduce (row, whole, (size_t) s_size, TUTTI_FLOAT32,
                              TUTTI_SUM, world));
    s_print ("= allreduce    ", whole, s_size, world);
}

int
main (void)
{
    tutti_comm_t *world = NULL;
    tutti_config_t config = TUTTI_CONFIG_INIT;  //  from the environment,
    config.reproducible = 1;  //  but one order of additions for all calls
    s_check (tutti_init (&config, &world));
    s_rank = tutti_comm_rank (world);
    s_size = tutti_comm_size (world);
    size_t n = (size_t) s_size;
    float *buffer = calloc (3 * n, sizeof *buffer);
    if (!buffer)
        return 1;
    s_allreduce (world);
    s_allgather (world, buffer);
    s_reduce_scatter (world, buffer, buffer + n, buffer + 2 * n);
    bool same = memcmp (buffer + n, buffer + 2 * n, n * sizeof *buffer) == 0;
    if (s_rank == 0)
        printf ("reduce_scatter then allgather equals allreduce: %s\n",
                same ? "bit for bit" : "NO");
    free (buffer);
    s_check (tutti_finalize (&world));
    return same ? 0 : 1;
}
