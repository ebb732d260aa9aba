//  coordinator/ring.h - the order of nodes in a ring
//
//  Now by name, natural order (n2 before n10). With measured edges the order
//  will be one that makes the slowest edge fastest; callers need not change.

#ifndef TC_RING_H
#define TC_RING_H

#include <stddef.h>
#include <stdint.h>

//  What is known of the edges: gbps[i * n + j] from node i to node j, 0 where
//  it was not measured; NULL: nothing.
typedef struct tc_edges {
    size_t n;
    const double *gbps;
} tc_edges_t;

//  Order N nodes: ORDER[k] becomes the index of the node at place k. EDGES
//  may be NULL.
void
tc_ring_order (const char *const *names, size_t n, const tc_edges_t *edges,
               uint32_t *order);

#endif
