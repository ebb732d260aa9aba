//  coordinator/ring.c - the order of nodes in a ring

#include "coordinator/ring.h"

#include <string.h>

//  strverscmp is glibc's natural order: digits compare as numbers.
void
tc_ring_order (const char *const *names, size_t n, const tc_edges_t *edges,
               uint32_t *order)
{
    (void) edges;
    for (size_t i = 0; i < n; i++) {
        size_t at = i;
        while (at > 0 && strverscmp (names[order[at - 1]], names[i]) > 0) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = (uint32_t) i;
    }
}
