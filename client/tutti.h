//  client/tutti.h - collectives for programs on many nodes: the public API
//
//  A program calls tutti_init, then collectives on the communicator that it
//  got, then tutti_finalize. All ranks of a communicator call the same
//  collectives in the same order, as with NCCL and MPI; a call that differs
//  is found before data moves and every rank gets TUTTI_EMISMATCH with both
//  sides in tutti_last_error ().
//
//  For users of NCCL      tutti_comm_t is ncclComm_t, born from the
//                         environment instead of a unique id; a call without
//                         _async has finished when it returns; in place is as
//                         in NCCL (below); there is no group call for one op
//  For users of MPI       a request must be waited for, but progress does not
//                         need it: the agent moves the bytes
//  For users of torch     NAME_async is async_op=True, tutti_wait is wait ()
//
//  Memory. Buffers from tutti_mem_alloc are used where they are. Any other
//  memory works too and is copied through a staging area inside the program's
//  own calls: an asynchronous op on it goes on, and finishes, only inside
//  tutti calls. From an asynchronous call until its wait, input and output
//  belong to the op: neither is read nor written. An op is done when the
//  output is ready and no peer will read the input again.
//
//  In place. allreduce, alltoall, reduce at the root: send == recv.
//  allgather(v), gather(v) at the root: send == recv + own offset.
//  reduce_scatter(v), scatter(v) at the root: recv == send + own offset.
//  TUTTI_IN_PLACE as the input (scatter(v): as the output) says the same.
//  alltoallv has none. Any other overlap is TUTTI_EINVAL, always.
//
//  Arithmetic. Within a node inputs are added along the balanced binary tree
//  over rank numbers, in float32 for 16-bit floats, rounded once. Between
//  nodes partial sums travel in the op's type, or in float32 with `wide` and
//  `reproducible`. All ranks get the same bits. With `reproducible` they do
//  not depend on nodes, ring order or algorithm either. Integers wrap; with
//  `wide` sums of 8 bit integers are kept in 32 bits and saturate at the end.
//  AVG is the sum, then one division (integers: towards zero); MIN and MAX:
//  NaN wins, -0 < +0. PREMUL_SUM multiplies each input by its rank's
//  tutti_call_t.scale (floats of 8 and 16 bits in float32, rounded once;
//  integers by a whole number) and adds. Bitwise operations are for integers.
//  Not offered: operations of your own (gather, then combine), MINLOC (a MIN
//  over value << 32 | rank), scan (allgather, then add up).
//
//  Errors. Every call returns a tutti_err_t; tutti_err_scope says what is
//  dead. tutti_last_error is one sentence: who, what, where, what to do. The
//  library prints nothing, makes no thread, installs no signal handler and
//  never ends the program.
//
//  Threads. One thread at a time submits on a communicator; wait, test and
//  progress may be called from any thread. Several ranks may live in one
//  process, each with its own tutti_init. A child made by fork gets
//  TUTTI_ESTATE from every call.

#ifndef TUTTI_H
#define TUTTI_H
#include <stddef.h>
#include <stdint.h>

#include "tutti_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tutti_comm tutti_comm_t;         /* pointer values are ids with a generation, never addresses: */
typedef struct tutti_request tutti_request_t;   /* a stale one gives TUTTI_EHANDLE */

#define TUTTI_FROM_ENV (-1)
#define TUTTI_FOREVER  (-1)               /* as a timeout: until the op's own deadline */
#define TUTTI_NO_COLOR (-1)
#define TUTTI_IN_PLACE ((void *) -1)      /* accepted as the input of every call that can work in place (scatter, scatterv at root: as recv) */
typedef struct tutti_config {            /* = TUTTI_CONFIG_INIT: struct_size set, pointers NULL, ints TUTTI_FROM_ENV */
    size_t struct_size;
    const char *job, *agent, *token;     /* NULL: environment; agent "@name" is an abstract socket */
    int rank, world_size, local_rank, attempt, device;
    int join_timeout_ms, op_timeout_ms;  /* environment, else 300 000 and 1 800 000 */
    int elastic_min, elastic_max;        /* environment, else 0, 0: not elastic */
    int reproducible, wide, debug;       /* environment, else 0 */
    const struct tutti_call *call;       /* defaults of every op: priority, timeout_ms, compress, algorithm, scale, clip_norm only; NULL: none */
} tutti_config_t;
#define TUTTI_CONFIG_INIT { sizeof (tutti_config_t), 0, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0 }
typedef struct tutti_stats {
    size_t struct_size;
    uint64_t ops, bytes, wait_us, move_us, steps;
    double comm_share;                   /* 0-1 of the last steps */
    int joining;                         /* newcomers that wait for a repair */
    int straggler_rank;                  /* -1: none */
    char straggler_kind[16], straggler_text[256];
    uint64_t wire_bytes;                 /* payload that this node has sent for the job, all ranks */
    uint64_t agent_cpu_us;               /* CPU time of this node's worker for the job */
    int nodes, local_rank, local_size;
    char transport[16];                  /* between nodes: "tcp"; "none" on one node */
    char algorithm[16];                  /* of the last finished op */
} tutti_stats_t;
typedef struct tutti_request_info {
    size_t struct_size;
    uint64_t seq, bytes, recv_count, queued_us, waited_us, moved_us;
    int64_t epoch;
    const char *kind, *name, *algorithm, *path;      /* path: shared, peeked, staged, device */
    tutti_err_t err;
} tutti_request_info_t;
#define TUTTI_STATS_INIT { .struct_size = sizeof (tutti_stats_t) }
#define TUTTI_REQUEST_INFO_INIT { .struct_size = sizeof (tutti_request_info_t) }
typedef void (*tutti_callback_t) (tutti_err_t err, const tutti_request_info_t *info, void *user);
typedef struct tutti_call {              /* = TUTTI_CALL_INIT */
    size_t struct_size;
    const char *name;                    /* NULL: matched by program order */
    int priority;                        /* higher first */
    int timeout_ms;                      /* 0: the comm's */
    void *stream;                        /* CUstream; NULL: none */
    const char *compress, *algorithm;    /* NULL: none, the plan's; part of the signature */
    double scale;                        /* PREMUL_SUM: this rank's factor, applied before the sum */
    double clip_norm;                    /* 0: none; by the global norm of the reduced result */
    tutti_callback_t callback;
    void *user;
} tutti_call_t;
#define TUTTI_CALL_INIT { sizeof (tutti_call_t), 0, 0, 0, 0, 0, 0, 1.0, 0.0, 0, 0 }

//  ------------------------------------------------------------------ errors

//  "TUTTI_EINVAL"; "invalid argument". Never NULL.
const char *tutti_err_name (tutti_err_t err);
const char *tutti_err_text (tutti_err_t err);

//  0 call, 1 operation, 2 communicator, 3 session (TUTTI_SCOPE_*).
int         tutti_err_scope (tutti_err_t err);

//  The sentence about this thread's last error; valid until its next call.
const char *tutti_last_error (void);

//  "MAJOR.MINOR.PATCH" of the library.
const char *tutti_version (void);

//  ------------------------------------------------- sessions, communicators

//  Join the job: wait for the node's agent, its coordinator and all ranks, at
//  most config->join_timeout_ms (for an agent 3 s only, if the folder of its
//  socket is not there, or the socket is abstract). CONFIG NULL: everything from the environment. Each
//  field that is not set comes from TUTTI_*, else from torchrun, Open MPI,
//  MPICH, Slurm, in this order. TUTTI_EAGENTLOST: no agent at the socket;
//  EJOIN: rank missing, taken twice, or options that differ; EINVAL; EVERSION.
tutti_err_t tutti_init (const tutti_config_t *config, tutti_comm_t **world_p);

//  Leave. Local and bounded: waits for no peer. Closes derived comms, frees
//  memory of tutti_mem_alloc, sets *world_p to NULL; NULL is fine.
tutti_err_t tutti_finalize (tutti_comm_t **world_p);

//  Own rank, number of ranks, version of the membership; or a negative
//  tutti_err_t.
int         tutti_comm_rank (const tutti_comm_t *comm);
int         tutti_comm_size (const tutti_comm_t *comm);
int64_t     tutti_comm_epoch (const tutti_comm_t *comm);

//  The error that has ended the comm, or TUTTI_OK. Never blocks.
tutti_err_t tutti_comm_error (const tutti_comm_t *comm);

//  Collective: ranks with the same color make a new comm, ordered by key, then
//  by rank. color < 0 (TUTTI_NO_COLOR): *new_p = NULL.
tutti_err_t tutti_comm_split (tutti_comm_t *comm, int color, int key, tutti_comm_t **new_p);

//  Collective: the same ranks in the same order, with a sequence of its own.
tutti_err_t tutti_comm_dup (tutti_comm_t *comm, tutti_comm_t **new_p);

//  Local, bounded. Open requests become stale. The world is closed by
//  tutti_finalize.
tutti_err_t tutti_comm_close (tutti_comm_t **comm_p);

//  End the comm for all ranks: their pending and later calls return
//  TUTTI_EABORTED with this rank, CODE and TEXT. Local: waits for nobody.
tutti_err_t tutti_comm_abort (tutti_comm_t *comm, int code, const char *text);

//  What this rank has done on the comm, and its node for the job. STATS begins
//  as TUTTI_STATS_INIT. Fields of this version: ops, bytes, wait_us, move_us
//  and all from wire_bytes on.
tutti_err_t tutti_comm_stats (tutti_comm_t *comm, tutti_stats_t *stats);

//  ------------------------------------------------------------------ memory

//  Page-aligned, zeroed memory that the agent shares: ops on it copy nothing.
//  Good for all comms of the session, freed at the latest by tutti_finalize. A
//  child made by fork shares its pages. TUTTI_ENOTSUP for TUTTI_DEVICE.
tutti_err_t tutti_mem_alloc (tutti_comm_t *comm, size_t bytes, tutti_space_t space, void **ptr_p);
tutti_err_t tutti_mem_free (tutti_comm_t *comm, void *ptr);

//  Announce memory of the program. TUTTI_ENOTSUP where it can only be staged:
//  always, in this version.
tutti_err_t tutti_mem_register (tutti_comm_t *comm, void *ptr, size_t bytes);
tutti_err_t tutti_mem_deregister (tutti_comm_t *comm, void *ptr);

//  How ops would use the memory at PTR. INFO begins as TUTTI_MEM_INFO_INIT.
typedef struct tutti_mem_info { size_t struct_size, bytes, page_bytes; tutti_space_t space; const char *path; } tutti_mem_info_t;
#define TUTTI_MEM_INFO_INIT { .struct_size = sizeof (tutti_mem_info_t) }
tutti_err_t tutti_mem_info (tutti_comm_t *comm, const void *ptr, tutti_mem_info_t *info);

//  ------------------------------------------------------------- collectives
//
//  Each call exists twice. NAME blocks. NAME_async takes the same arguments,
//  then const tutti_call_t *call (NULL: defaults) and tutti_request_t
//  **request_p, and returns at once. Bad arguments fail at once and leave
//  request_p alone; everything later is the result of the wait. request_p may
//  be NULL only with a callback. A count of 0 is legal everywhere.
//
//  Ops match in the order of the program; or, with tutti_call_t.name, by name:
//  the n-th op of a name on one rank meets the n-th on the others, whatever is
//  submitted before, between and after. A name must be used on all ranks. At
//  most 64 ops of each sort are in flight per comm; more wait for room.
//  priority: what is higher is sent first at the next chunk; each rank may
//  have its own.
//
//  A callback runs exactly once per op, whether it went well or not, inside a
//  tutti call (wait, test, progress) on that comm, on the thread that made the
//  call, with no lock held; it may start new ops, but not wait for them. With
//  a request, wait or test releases it after the callback.

#define TUTTI_COLL(name, ...) \
    tutti_err_t tutti_##name (__VA_ARGS__, tutti_comm_t *comm); \
    tutti_err_t tutti_##name##_async (__VA_ARGS__, tutti_comm_t *comm, const tutti_call_t *call, tutti_request_t **request_p)

//  Every rank gets the reduction of all inputs, COUNT elements.
TUTTI_COLL (allreduce, const void *send, void *recv, size_t count, tutti_dtype_t dtype, tutti_op_t op);

//  Every rank gets the inputs of all, SEND_COUNT elements each, in the order
//  of the ranks: recv has size * send_count elements.
TUTTI_COLL (allgather, const void *send, void *recv, size_t send_count, tutti_dtype_t dtype);

//  Rank r gets block r of the reduction: send has size * recv_count elements.
//  reduce_scatter followed by allgather is allreduce.
TUTTI_COLL (reduce_scatter, const void *send, void *recv, size_t recv_count, tutti_dtype_t dtype, tutti_op_t op);

//  BUF of rank ROOT goes to BUF of all others.
TUTTI_COLL (broadcast, void *buf, size_t count, tutti_dtype_t dtype, int root);

//  Rank ROOT gets the reduction; recv of the others is ignored.
TUTTI_COLL (reduce, const void *send, void *recv, size_t count, tutti_dtype_t dtype, tutti_op_t op, int root);

//  Rank ROOT gets the inputs of all, in the order of the ranks; or gives block
//  r of its input to rank r. What only the root uses is ignored elsewhere.
TUTTI_COLL (gather, const void *send, void *recv, size_t send_count, tutti_dtype_t dtype, int root);
TUTTI_COLL (scatter, const void *send, void *recv, size_t recv_count, tutti_dtype_t dtype, int root);

//  Block r of my input goes to rank r, whose block of my number it becomes.
TUTTI_COLL (alltoall, const void *send, void *recv, size_t count_per_peer, tutti_dtype_t dtype);

//  The same with blocks of different sizes: COUNTS elements, DISPLS elements
//  from the beginning of the buffer (NULL: one block behind the other), both
//  copied by the call. All ranks give the same counts to allgatherv and
//  reduce_scatterv; elsewhere sender and receiver of a block do, else the op
//  ends with TUTTI_EMISMATCH. Blocks of an output may not overlap.
TUTTI_COLL (allgatherv, const void *send, size_t send_count, void *recv, const size_t *counts, const size_t *displs, tutti_dtype_t dtype);
TUTTI_COLL (reduce_scatterv, const void *send, void *recv, const size_t *counts, tutti_dtype_t dtype, tutti_op_t op);
TUTTI_COLL (gatherv, const void *send, size_t send_count, void *recv, const size_t *counts, const size_t *displs, tutti_dtype_t dtype, int root);
TUTTI_COLL (scatterv, const void *send, const size_t *counts, const size_t *displs, void *recv, size_t recv_count, tutti_dtype_t dtype, int root);
TUTTI_COLL (alltoallv, const void *send, const size_t *send_counts, const size_t *send_displs, void *recv, const size_t *recv_counts, const size_t *recv_displs, tutti_dtype_t dtype);

//  A message to one other rank, and from it. Messages are numbered per sender,
//  receiver and tag, apart from the other calls. A send ends when the message
//  has been taken. What is longer than COUNT gives the receiver TUTTI_ETRUNC,
//  with the first COUNT elements; of a shorter one tutti_request_info and the
//  callback tell recv_count.
TUTTI_COLL (send, const void *buf, size_t count, tutti_dtype_t dtype, int peer, uint32_t tag);
TUTTI_COLL (recv, void *buf, size_t count, tutti_dtype_t dtype, int peer, uint32_t tag);

//  Nobody leaves before all have come.
tutti_err_t tutti_barrier (tutti_comm_t *comm);
tutti_err_t tutti_barrier_async (tutti_comm_t *comm, const tutti_call_t *call, tutti_request_t **request_p);

//  ---------------------------------------------------------------- requests
//
//  result of wait     the op       *request_p   buffers      other ranks
//  OK                 done         NULL         mine         done, or about to
//  EAGAIN             going on     kept         the op's     not affected
//  ETIMEDOUT          ended        NULL         mine, output undefined; the
//                                               comm is dead on every rank
//  EPEERLOST, EABORTED, EMISMATCH  as ETIMEDOUT, naming the same rank
//  EAGENTLOST         unknown      NULL         mine (the agent is gone)
//  EHANDLE            -            untouched    -            -

//  Block until the op is done, at most TIMEOUT_MS (TUTTI_FOREVER: until the
//  op's own deadline). Finished, well or not: freed, *request_p = NULL, the
//  op's result is returned. Time is up: TUTTI_EAGAIN. *request_p NULL: OK.
tutti_err_t tutti_wait (tutti_request_t **request_p, int timeout_ms);

//  Never blocks. *done_p = 1: as wait; 0: not done, TUTTI_OK.
tutti_err_t tutti_test (tutti_request_t **request_p, int *done_p);

//  All are waited for; the first error by index is returned.
tutti_err_t tutti_wait_all (tutti_request_t **requests, size_t n, int timeout_ms);

//  *index_p is one that finished. NULL entries are skipped; none left:
//  *index_p = n.
tutti_err_t tutti_wait_any (tutti_request_t **requests, size_t n, int timeout_ms, size_t *index_p);

//  Wait at most TIMEOUT_MS (< 0: not at all); if the op has not finished then,
//  end it: since others may have finished it, the comm dies, on all ranks,
//  with TUTTI_EABORTED. Returns the op's result; *request_p = NULL.
tutti_err_t tutti_request_cancel (tutti_request_t **request_p, int timeout_ms);

//  About an op in flight. INFO begins as TUTTI_REQUEST_INFO_INIT.
tutti_err_t tutti_request_info (tutti_request_t *request, tutti_request_info_t *info);

//  Do the copies and callbacks that are due; wait at most TIMEOUT_MS for some
//  (0: never). *events_p, if not NULL: callbacks that ran. From any thread,
//  also while another one submits.
tutti_err_t tutti_progress (tutti_comm_t *comm, int timeout_ms, int *events_p);

//  The asynchronous calls between belong together: other ranks and the agent
//  are told of all at once. Calls that wait: TUTTI_ESTATE.
tutti_err_t tutti_batch_begin (tutti_comm_t *comm);
tutti_err_t tutti_batch_end (tutti_comm_t *comm);

//  A descriptor for poll, epoll, libuv, asyncio: readable when tutti_progress
//  may have something to do. It stays the library's.
tutti_err_t tutti_comm_fd (tutti_comm_t *comm, int *fd_p);

#ifdef __cplusplus
}
#endif
#endif
