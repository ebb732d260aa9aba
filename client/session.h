//  client/session.h - one attached rank: socket, segments, staging, wake word
//
//  Everything of one tutti_init. `lock` guards it and all its comms and
//  requests; it is never held while a callback runs or a thread sleeps.
//  Functions below are called with the lock held unless they say otherwise.
//
//  Lock order: session.lock, then the handle table's.

#ifndef TL_SESSION_H
#define TL_SESSION_H

#include "client/report.h"
#include "client/whoami.h"
#include "protocol/board.h"

#include <pthread.h>

#define TL_GRANULE (UINT64_C (64) << 10)  //  unit of the staging area

typedef struct tl_comm tl_comm_t;

//  Memory that the agent made and this process maps.
typedef struct tl_segment {
    uint32_t id;
    uint8_t *base;
    size_t bytes;
    bool mine;  //  from tutti_mem_alloc, writable
    struct tl_segment *next;
} tl_segment_t;

typedef struct tl_session {
    pthread_mutex_t lock;
    int sock, bell, event;
    uint64_t tag;              //  of the last request
    tp_local_welcome_t hello;  //  what the agent said
    tp_wake_page_t *wake;
    tp_wake_t *mine;         //  my line of it
    tl_segment_t *segments;  //  all mapped ones
    tl_segment_t *staging;
    uint8_t *staging_used;  //  one byte per granule
    uint32_t granules;
    uint32_t op_timeout_ms;
    uint32_t flags;     //  TP_LOCAL_*
    int32_t algorithm;  //  tp_algorithm_t, -1: the plan's
    double scale;       //  as the other defaults of a call
    int priority, timeout_ms;
    tl_report_t report;
    tutti_err_t dead;  //  session error, final
    tl_comm_t *comms;  //  the first is the world
    int cores;         //  that this process may use
} tl_session_t;

//  Connect, say hello, wait for the job to form; at most the join timeout.
//  On success the caller owns *self_p and *board_p is the world's board,
//  mapped. The lock is not held. TUTTI_EAGENTLOST, EJOIN, EDENIED, EVERSION.
tutti_err_t
tl_session_open (tl_session_t **self_p, const tl_whoami_t *who,
                 tp_board_t **board_p);

//  Say goodbye, unmap, free; never blocks. NULL is fine. Lock not held.
void
tl_session_close (tl_session_t **self_p);

//  One request and its answer. BODY of LEN bytes goes; the answer's body is
//  copied to REPLY (exactly ROOM bytes are expected of type WANT), its
//  descriptor to *fd_p if that is not NULL. A REPLY with an error becomes
//  that error, its text is set.
tutti_err_t
tl_session_ask (tl_session_t *self, uint32_t type, const void *body,
                size_t len, uint32_t want, void *reply, size_t room,
                int *fd_p);

//  Notice a dead agent: TUTTI_EAGENTLOST once its socket is closed.
tutti_err_t
tl_session_check (tl_session_t *self);

//  Put a mapping in the list. NULL, and it is unmapped, without memory.
tl_segment_t *
tl_segment_keep (tl_session_t *self, uint32_t id, void *base, size_t bytes,
                 bool mine);

//  New memory from the agent; its pages are touched here, so that they are
//  charged to this process. TUTTI_ENOMEM.
tutti_err_t
tl_segment_alloc (tl_session_t *self, size_t bytes, tl_segment_t **segment_p);
tutti_err_t
tl_segment_free (tl_session_t *self, tl_segment_t *segment);

//  My segment that holds [ptr, ptr + bytes), or NULL.
tl_segment_t *
tl_segment_find (tl_session_t *self, const void *ptr, size_t bytes);

//  Segment ID of any local rank, mapped read-only at first use.
tutti_err_t
tl_segment_map (tl_session_t *self, uint32_t id, tl_segment_t **segment_p);

//  BYTES of staging; UINT64_MAX if there is no room now.
uint64_t
tl_staging_take (tl_session_t *self, uint64_t bytes);
void
tl_staging_give (tl_session_t *self, uint64_t off, uint64_t bytes);

//  Map SHARED memory of a descriptor and close it. NULL on failure.
void *
tl_map_fd (int fd, size_t bytes, bool writable);

//  Monotonic nanoseconds.
int64_t
tl_now_ns (void);

#endif
