//  client/tutti.h - collectives for programs on many nodes: the public API

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
typedef struct tutti_repair { size_t struct_size; int min_size, max_size, wait_ms; } tutti_repair_t;
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
#define TUTTI_REPAIR_INIT { sizeof (tutti_repair_t), 0, 0, 0 }
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
typedef struct tutti_state { const char *name; void *ptr; size_t bytes; } tutti_state_t;

const char *tutti_err_name (tutti_err_t err);
const char *tutti_err_text (tutti_err_t err);
int         tutti_err_scope (tutti_err_t err);       /* 0 call, 1 operation, 2 communicator, 3 session */
const char *tutti_last_error (void);                 /* valid until this thread's next tutti call */
const char *tutti_version (void);                    /* "MAJOR.MINOR.PATCH" */

tutti_err_t tutti_init (const tutti_config_t *config, tutti_comm_t **world_p);   /* config NULL: all from the environment */
tutti_err_t tutti_finalize (tutti_comm_t **world_p);                             /* local, bounded; closes derived comms, frees memory; NULL is fine */
int         tutti_comm_rank (const tutti_comm_t *comm);                          /* or a negative tutti_err_t */
int         tutti_comm_size (const tutti_comm_t *comm);
int64_t     tutti_comm_epoch (const tutti_comm_t *comm);
tutti_err_t tutti_comm_error (const tutti_comm_t *comm);                         /* first fatal error, or OK; never blocks */
tutti_err_t tutti_comm_split (tutti_comm_t *comm, int color, int key, tutti_comm_t **new_p);   /* color < 0: *new_p = NULL */
tutti_err_t tutti_comm_dup (tutti_comm_t *comm, tutti_comm_t **new_p);
tutti_err_t tutti_comm_create (tutti_comm_t *comm, const int *ranks, int n, tutti_comm_t **new_p);   /* called by the listed ranks only */
tutti_err_t tutti_comm_close (tutti_comm_t **comm_p);                            /* local, bounded */
tutti_err_t tutti_comm_abort (tutti_comm_t *comm, int code, const char *text);
tutti_err_t tutti_comm_repair (tutti_comm_t *comm, const tutti_repair_t *repair, int *new_size_p);
tutti_err_t tutti_comm_stats (tutti_comm_t *comm, tutti_stats_t *stats);
typedef struct tutti_change { size_t struct_size; int any, joining, leaving, i_leave; } tutti_change_t;
#define TUTTI_CHANGE_INIT { sizeof (tutti_change_t), 0, 0, 0, 0 }
tutti_err_t tutti_step (tutti_comm_t *comm, tutti_change_t *change);             /* end of a training step. change NULL: local, never waits. change given: an op of the comm that all ranks call, the same answer on every rank */
tutti_err_t tutti_pause (tutti_comm_t *comm, const char *reason, int max_ms);    /* a checkpoint, an evaluation: neither stall nor straggler; the others' deadlines move */
tutti_err_t tutti_resume (tutti_comm_t *comm);
tutti_err_t tutti_comm_leave (tutti_comm_t *comm);                               /* announces: this rank goes at the step that tutti_step names to all */
tutti_err_t tutti_join (tutti_comm_t *comm, int *last_rank_p);                   /* no more data here: take part with the identity until all have joined */
tutti_err_t tutti_state_sync (tutti_comm_t *comm, const tutti_state_t *states, size_t n, int from_rank);   /* -1: the majority's */

tutti_err_t tutti_mem_alloc (tutti_comm_t *comm, size_t bytes, tutti_space_t space, void **ptr_p);   /* page aligned; of the session: good for all its comms */
tutti_err_t tutti_mem_free (tutti_comm_t *comm, void *ptr);
typedef struct tutti_mem_info { size_t struct_size, bytes, page_bytes; tutti_space_t space; const char *path; } tutti_mem_info_t;
#define TUTTI_MEM_INFO_INIT { .struct_size = sizeof (tutti_mem_info_t) }
tutti_err_t tutti_mem_info (tutti_comm_t *comm, const void *ptr, tutti_mem_info_t *info);
tutti_err_t tutti_mem_register (tutti_comm_t *comm, void *ptr, size_t bytes);
tutti_err_t tutti_mem_deregister (tutti_comm_t *comm, void *ptr);

/* NAME_async (same arguments, const tutti_call_t *call, tutti_request_t **request_p): call may be NULL. Bad arguments fail at once and leave
   *request_p alone; everything later is the result of the wait. request_p may be NULL only with a callback or a stream. */
#define TUTTI_COLL(name, ...) \
    tutti_err_t tutti_##name (__VA_ARGS__, tutti_comm_t *comm); \
    tutti_err_t tutti_##name##_async (__VA_ARGS__, tutti_comm_t *comm, const tutti_call_t *call, tutti_request_t **request_p)
TUTTI_COLL (allreduce, const void *send, void *recv, size_t count, tutti_dtype_t dtype, tutti_op_t op);
TUTTI_COLL (allgather, const void *send, void *recv, size_t send_count, tutti_dtype_t dtype);
TUTTI_COLL (allgatherv, const void *send, size_t send_count, void *recv, const size_t *counts, const size_t *displs, tutti_dtype_t dtype);
TUTTI_COLL (reduce_scatter, const void *send, void *recv, size_t recv_count, tutti_dtype_t dtype, tutti_op_t op);
TUTTI_COLL (reduce_scatterv, const void *send, void *recv, const size_t *counts, tutti_dtype_t dtype, tutti_op_t op);
TUTTI_COLL (broadcast, void *buf, size_t count, tutti_dtype_t dtype, int root);
TUTTI_COLL (reduce, const void *send, void *recv, size_t count, tutti_dtype_t dtype, tutti_op_t op, int root);
TUTTI_COLL (gather, const void *send, void *recv, size_t send_count, tutti_dtype_t dtype, int root);
TUTTI_COLL (gatherv, const void *send, size_t send_count, void *recv, const size_t *counts, const size_t *displs, tutti_dtype_t dtype, int root);
TUTTI_COLL (scatter, const void *send, void *recv, size_t recv_count, tutti_dtype_t dtype, int root);
TUTTI_COLL (scatterv, const void *send, const size_t *counts, const size_t *displs, void *recv, size_t recv_count, tutti_dtype_t dtype, int root);
TUTTI_COLL (alltoall, const void *send, void *recv, size_t count_per_peer, tutti_dtype_t dtype);
TUTTI_COLL (alltoallv, const void *send, const size_t *send_counts, const size_t *send_displs, void *recv, const size_t *recv_counts, const size_t *recv_displs, tutti_dtype_t dtype);
TUTTI_COLL (send, const void *buf, size_t count, tutti_dtype_t dtype, int peer, uint32_t tag);   /* numbered per (from, to, tag), not in the comm's seq */
TUTTI_COLL (recv, void *buf, size_t count, tutti_dtype_t dtype, int peer, uint32_t tag);         /* longer message: ETRUNC; shorter: info.recv_count */
tutti_err_t tutti_barrier (tutti_comm_t *comm);
tutti_err_t tutti_barrier_async (tutti_comm_t *comm, const tutti_call_t *call, tutti_request_t **request_p);

typedef struct tutti_shared tutti_shared_t;                                        /* issue 9 */
typedef struct tutti_shared_options {
    size_t struct_size;
    const char *rule;                    /* "sgd", "momentum", "adam" */
    double rate, beta1, beta2, epsilon, clip, lambda;
    int adaptive, staleness, replicas;   /* staleness 0: synchronous; replicas 1 or 2 */
} tutti_shared_options_t;
tutti_err_t tutti_shared_open (tutti_comm_t *comm, const char *name, size_t count, tutti_dtype_t dtype, const tutti_shared_options_t *options, tutti_shared_t **shared_p);
tutti_err_t tutti_shared_push (tutti_shared_t *shared, const void *grad, uint64_t read_version, const tutti_call_t *call, tutti_request_t **request_p);
tutti_err_t tutti_shared_pull (tutti_shared_t *shared, void *params, uint64_t *version_p, const tutti_call_t *call, tutti_request_t **request_p);
tutti_err_t tutti_shared_close (tutti_shared_t **shared_p);

tutti_err_t tutti_wait (tutti_request_t **request_p, int timeout_ms);    /* -1: until the op's deadline. Finished, well or not: freed, *request_p = NULL, the op's
                                                                            result returned. Time is up: TUTTI_EAGAIN, the request lives. *request_p NULL: OK */
tutti_err_t tutti_test (tutti_request_t **request_p, int *done_p);       /* done: as wait; not done: OK */
tutti_err_t tutti_wait_all (tutti_request_t **requests, size_t n, int timeout_ms);                     /* all are waited for; first error by index */
tutti_err_t tutti_wait_any (tutti_request_t **requests, size_t n, int timeout_ms, size_t *index_p);    /* NULL entries skipped; none left: *index_p = n */
tutti_err_t tutti_request_cancel (tutti_request_t **request_p, int timeout_ms);
tutti_err_t tutti_request_info (tutti_request_t *request, tutti_request_info_t *info);
tutti_err_t tutti_progress (tutti_comm_t *comm, int timeout_ms, int *events_p);   /* copies and callbacks; any thread: the place for a thread of the program's own */
tutti_err_t tutti_comm_fd (tutti_comm_t *comm, int *fd_p);                         /* readable when tutti_progress has something to do */
tutti_err_t tutti_batch_begin (tutti_comm_t *comm);
tutti_err_t tutti_batch_end (tutti_comm_t *comm);                                  /* blocking calls between: TUTTI_ESTATE */
#ifdef __cplusplus
}
#endif
#endif
