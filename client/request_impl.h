//  client/request_impl.h - what request.c and request_submit.c share

#ifndef TL_REQUEST_IMPL_H
#define TL_REQUEST_IMPL_H

#include "client/request.h"

//  Whether input or output goes through a window of the staging area.
bool
tl_request_wants_window (const tl_request_t *self);

//  Take a window, smaller if the staging area is crowded. False: none now; the
//  next step tries again.
bool
tl_request_take_window (tl_request_t *self);

//  Bytes of the counts that a call of SIG shares with others; 0: it is even.
uint64_t
tl_request_words_bytes (const tl_comm_t *comm, const tp_sig_t *sig);
void
tl_request_give_words (tl_request_t *self);

//  Tell whoever can go on now. The last one in rings the bell for ranks that
//  called asynchronously; between nodes the worker must always know.
void
tl_request_announce (tl_request_t *self);

#endif
