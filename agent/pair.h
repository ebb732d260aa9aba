//  agent/pair.h - the supervisor's end of a worker's socketpair
//
//  Sends without ever blocking, through a bounded queue; puts the pieces of
//  long messages together (agent/worker.h). Descriptors travel from here
//  only; what a worker sends is dropped by the kernel.
//
//  Owner: the supervisor.

#ifndef TA_PAIR_H
#define TA_PAIR_H

#include "agent/worker.h"

typedef struct ta_pair ta_pair_t;

//  FD becomes ours. TUTTI_ENOMEM (FD stays the caller's).
tutti_err_t
ta_pair_new (ta_pair_t **self_p, int fd);
void
ta_pair_destroy (ta_pair_t **self_p);

int
ta_pair_fd (const ta_pair_t *self);

//  Queue a message, cut into pieces, and send what can be sent. FDS: two
//  descriptors that become ours on success, or NULL. TUTTI_EAGAIN: the queue
//  is full; TUTTI_ENOMEM; TUTTI_ESTATE: it is closed.
tutti_err_t
ta_pair_send (ta_pair_t *self, uint32_t type, const void *body, size_t len,
              const int *fds);

//  Send what is queued; to be called when the descriptor takes more.
void
ta_pair_flush (ta_pair_t *self);
bool
ta_pair_queued (const ta_pair_t *self);

//  Send nothing more: the worker reads the end once the queue is empty.
void
ta_pair_shut (ta_pair_t *self);

//  Next whole message; BYTES are valid until the next call. TUTTI_EAGAIN:
//  none (now); TUTTI_EAGENTLOST: the other end is closed; TUTTI_EPROTO.
tutti_err_t
ta_pair_receive (ta_pair_t *self, uint32_t *type_p, const uint8_t **bytes_p,
                 size_t *len_p);

#endif
