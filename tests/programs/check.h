//  tests/programs/check.h - a rank that checks from inside; argv[1] names what
//
//  Run by tests/integration/test_api.py under tutti run. Prints "ok" and ends
//  with 0, or says on stderr what was wrong.

#ifndef CHECK_H
#define CHECK_H

#include <tutti.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int s_rank, s_size;
static tutti_comm_t *s_world;

#define CHECK(what)                                                           \
    do {                                                                      \
        if (!(what)) {                                                        \
            fprintf (stderr, "rank %d line %d: %s (%s)\n", s_rank, __LINE__,  \
                     #what, tutti_last_error ());                             \
            exit (1);                                                         \
        }                                                                     \
    } while (0)
#define OK(call) CHECK ((call) == TUTTI_OK)
#define SAYS(call, err, words)                                                \
    do {                                                                      \
        CHECK ((call) == (err));                                              \
        CHECK (strstr (tutti_last_error (), words) != NULL);                  \
    } while (0)

typedef struct check {
    const char *name;
    void (*run) (void);
} check_t;

//  Join, run the check that is asked for, leave.
static int
s_main (int argc, char **argv, const check_t *checks, size_t n)
{
    OK (tutti_init (NULL, &s_world));
    s_rank = tutti_comm_rank (s_world);
    s_size = tutti_comm_size (s_world);
    for (size_t i = 0; i < n; i++)
        if (argc == 2 && strcmp (argv[1], checks[i].name) == 0) {
            checks[i].run ();
            OK (tutti_finalize (&s_world));
            CHECK (s_world == NULL);
            printf ("ok\n");
            return 0;
        }
    fprintf (stderr, "%s: which check?\n", argv[0]);
    return 2;
}

#endif
