//  client/request.h - one op of one rank, from submission to its result
//
//              submit          all in, equal     output complete
//  (nothing) --------> GATHERING -----> WORKING -----> DONE
//                          |               |            ^
//                          +---- the comm has failed ---+
//
//  Owner: its comm, under session.lock.

#ifndef TL_REQUEST_H
#define TL_REQUEST_H

#include "client/session.h"
#include "kernels/work.h"

typedef struct tl_request tl_request_t;

typedef enum tl_request_state {
    TL_GATHERING,  //  deposited; other local ranks are missing
    TL_WORKING,
    TL_DONE
} tl_request_state_t;

//  Pieces of different sizes as the program gives them: a list, or one.
typedef struct tl_list {
    const size_t *counts, *displs;  //  displs NULL: one behind the other
    size_t one;
} tl_list_t;

//  What to do, with all arguments checked.
typedef struct tl_call {
    tp_sig_t sig;
    const void *in;               //  NULL: none
    void *out;                    //  NULL: none
    tl_list_t in_list, out_list;  //  of an uneven op
    uint64_t *words;              //  made of them (geo.h), else NULL
    double scale;                 //  of a PREMUL_SUM
    uint32_t peer, tag;           //  of a send or recv
    bool async;
    int timeout_ms;  //  0: the session's
    int priority;
    const char *name;
    tutti_callback_t callback;
    void *user;
} tl_call_t;

struct tl_request {
    tl_comm_t *comm;
    tl_request_t *next;
    void *handle;  //  NULL: none was asked for
    tl_request_state_t state;
    tutti_err_t err;  //  result, once DONE
    char *text;       //  of a failed one; ours
    uint64_t seq;
    tp_sig_t sig;
    tp_geo_t geo;
    tp_cell_t *cell;
    tp_deposit_t deposit;
    tp_side_t in, out;  //  the caller's memory
    uint64_t *words;    //  in staging, if uneven
    uint64_t bytes;     //  of a piece; of an uneven op the larger buffer
    uint64_t in_bytes;  //  of the whole input
    uint64_t received;  //  elements that a recv got
    bool by_worker;     //  ranks do no work: many nodes, or a message
    bool learned;       //  how long the message is
    tp_side_t window;   //  my window, base NULL: none yet
    uint64_t window_bytes;
    uint32_t fed;    //  segments copied in
    uint32_t taken;  //  segments copied out
    tk_work_t work;
    bool working;      //  I hold the claim and work is set up
    tp_side_t *sides;  //  ours: inputs of all local ranks
    uint64_t *peers;   //  ours, while working: copies of their words
    tutti_callback_t callback;
    void *user;
    char name[32];
    int64_t deadline_ns, submitted_ns, started_ns, done_ns;
};

//  Deposit the op. *request_p is the comm's; it ends in comm->pending until
//  DONE. If the ring of slots is full, works until there is room.
//  TUTTI_EINVAL, ENOMEM, or the comm's error.
tutti_err_t
tl_request_submit (tl_comm_t *comm, const tl_call_t *call,
                   tl_request_t **request_p);

//  Do at most one segment. Returns whether something moved.
bool
tl_request_step (tl_request_t *self, bool waiting);

//  Block until SELF is done or the time is up (ms; < 0: the op's deadline).
//  The lock is released while sleeping. TUTTI_EAGAIN: time is up.
tutti_err_t
tl_request_wait (tl_request_t *self, int timeout_ms);

//  "allreduce float32 x8 sum #17", or with its name.
const char *
tl_request_text (const tl_request_t *self, char *text, size_t len);

//  Give a DONE request back to its comm; returns its error, text set.
tutti_err_t
tl_request_release (tl_request_t *self);

//  End with an error (text is copied).
void
tl_request_fail (tl_request_t *self, tutti_err_t err, const char *text);

#endif
