//  protocol/schedule_dissemination.c - barrier in ceil (log2 n) rounds
//
//  In round k a node notifies the one 2^k ahead and waits for the one 2^k
//  behind.

#include "protocol/schedule_build.h"

void
tp_make_dissemination (tp_build_t *self)
{
    uint32_t n = self->what->n, node = self->what->node;
    for (uint64_t ahead = 1; ahead < n; ahead *= 2) {
        uint32_t step = (uint32_t) ahead;
        tp_send (self, (node + step) % n, 0, tp_work (0), tp_work (0));
        tp_recv (self, (node + n - step) % n, 0);
    }
}
