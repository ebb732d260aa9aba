//  coordinator/ring.c - the order of nodes in a ring

#include "coordinator/ring.h"

#include <stdlib.h>
#include <string.h>

//  strverscmp is glibc's natural order: digits compare as numbers. Equal
//  names keep their order, so that the result is always the same.
static int
s_compare (const void *left, const void *right, void *arg)
{
    const char *const *names = arg;
    uint32_t a = *(const uint32_t *) left, b = *(const uint32_t *) right;
    int order = strverscmp (names[a], names[b]);
    return order ? order : (a > b) - (a < b);
}

void
tc_ring_order (const char *const *names, size_t n, const tc_edges_t *edges,
               uint32_t *order)
{
    (void) edges;
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t) i;
    qsort_r (order, n, sizeof *order, s_compare, (void *) names);
}
