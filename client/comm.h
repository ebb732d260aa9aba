//  client/comm.h - one communicator in this process
//
//  Owner: its session, under session.lock.

#ifndef TL_COMM_H
#define TL_COMM_H

#include "client/names.h"
#include "client/request.h"

struct tl_comm {
    tl_session_t *session;
    tl_comm_t *next;  //  in session->comms
    void *handle;
    tp_board_t *board;
    uint32_t rank, size;
    uint32_t local;         //  my index on the board
    bool single;            //  all ranks on this node: ranks do the work
    uint64_t seq;           //  last op submitted without a name
    tl_names_t names;       //  how often each was used
    uint64_t left;          //  every op up to this one is left
    uint64_t left_bits;     //  bit i: op left + 1 + i is left
    tl_request_t *pending;  //  in order of submission
    tl_request_t **pending_end;
    tl_request_t *finished;  //  with callbacks to run
    tl_request_t *spare;     //  kept for the next op
    bool told;               //  that it has failed
    bool batch;              //  between batch_begin and batch_end
    uint64_t ops, bytes, wait_ns, move_ns;
};

//  Wrap a mapped board; it becomes the comm's. TUTTI_ENOMEM, EPROTO.
tutti_err_t
tl_comm_new (tl_session_t *session, tp_board_t *board, uint32_t world_rank,
             tl_comm_t **self_p);

//  Unlink, unmap, free. Requests that are pending end with TUTTI_EABORTED and
//  their callbacks are dropped. Lock held.
void
tl_comm_destroy (tl_comm_t **self_p);

//  The comm behind a public handle, with its session's lock taken; or NULL,
//  text set (TUTTI_EHANDLE; a fork child: TUTTI_ESTATE) and *err_p.
tl_comm_t *
tl_comm_lock (const tutti_comm_t *handle, tutti_err_t *err_p);
void
tl_comm_unlock (tl_comm_t *self);

//  The comm's fatal error, with the text of this thread set; or OK.
tutti_err_t
tl_comm_error (tl_comm_t *self);

//  Tell the agent, and so the other nodes, that this comm has failed.
void
tl_comm_tell_abort (tl_comm_t *self, int code, const char *text);

//  Op SEQ is left: its slot may be used again when all say so.
void
tl_comm_leave (tl_comm_t *self, uint64_t seq);

//  TUTTI_ESTATE, text set: NAME would wait, but a batch is open.
tutti_err_t
tl_comm_may_wait (const tl_comm_t *self, const char *name);

//  Wake the other local ranks that sleep.
void
tl_comm_wake (tl_comm_t *self);

//  Do what can be done now for all pending ops of the session, at most one
//  segment each; WAITING: the caller has nothing else to do, so take work
//  that the worker could do as well. Returns whether anything moved.
bool
tl_comm_progress (tl_session_t *session, bool waiting);

//  Take finished ops off the pending list; those with a callback wait for
//  tl_comm_callbacks.
void
tl_comm_collect (tl_comm_t *self);

//  Run due callbacks of this comm, lock released meanwhile. Returns how many.
int
tl_comm_callbacks (tl_comm_t *self);

#endif
