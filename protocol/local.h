//  protocol/local.h - between a client and its agent: messages and memory
//
//  Layout is ABI: a library of one minor version meets an agent of another.
//  Fixed structs in native byte order (one machine), no pointers. libtutti
//  links this and libc only.
//
//  A rank connects to the agent's AF_UNIX SOCK_SEQPACKET socket and says
//  HELLO, with a pidfd of itself by SCM_RIGHTS. While the job forms it
//  hears WAITING, then WELCOME with descriptors, or REFUSE. From then on the
//  socket carries requests (ALLOC, MAP, GROUP ...), each answered by one
//  message with the same tag; ops never use it. All segments are memfds made
//  and sealed by the agent.
//
//  Ops go through the board (protocol/board.h). Wake-ups: towards the worker
//  the bell (an eventfd, written only while `asleep` is set); towards a rank
//  its futex word in the wake page.

#ifndef TP_LOCAL_H
#define TP_LOCAL_H

#include "protocol/types.h"

#include <stdatomic.h>

#define TP_LOCAL_MAGIC 0x49545554u  //  "TUTI"
#define TP_LOCAL_VERSION ((1u << 16) | 0u)
#define TP_LOCAL_MSG_MAX (300u << 10)
#define TP_TOKEN_MAX 1024
#define TP_SEGMENTS_MAX 65536

typedef enum tp_local_type {
    TP_LOCAL_HELLO = 1,
    TP_LOCAL_WAITING,  //  agent: tp_local_waiting_t; may repeat
    TP_LOCAL_WELCOME,  //  agent: with TP_WELCOME_FDS descriptors
    TP_LOCAL_REFUSE,   //  agent: tp_local_reply_t; then it closes
    TP_LOCAL_REPLY,    //  agent: tp_local_reply_t, the answer to most requests
    TP_LOCAL_ALLOC,    //  client: tp_local_segment_t.bytes -> SEGMENT + fd
    TP_LOCAL_FREE,     //  client: tp_local_segment_t.id -> REPLY
    TP_LOCAL_MAP,      //  client: a peer's segment -> SEGMENT + read-only fd
    TP_LOCAL_SEGMENT,
    TP_LOCAL_GROUP,  //  client: tp_local_group_t -> COMM + board fd, when
                     //  every local member asked
    TP_LOCAL_COMM,
    TP_LOCAL_CLOSE,    //  client: tp_local_comm_t.comm -> REPLY
    TP_LOCAL_STATS,    //  client: -> STATS, tp_local_stats_t
    TP_LOCAL_ABORT,    //  client: tp_local_abort_t -> REPLY
    TP_LOCAL_GOODBYE,  //  client: leaves on purpose; no answer
    TP_LOCAL_TYPES
} tp_local_type_t;

typedef struct tp_local_head {
    uint32_t magic;
    uint32_t version;
    uint32_t type;
    uint32_t len;  //  bytes after this head, equal to the rest of the message
    uint64_t tag;  //  an answer repeats its request's
} tp_local_head_t;

#define TP_LOCAL_REPRODUCIBLE 1u
#define TP_LOCAL_WIDE 2u
#define TP_LOCAL_DEBUG 4u

typedef struct tp_local_hello {
    char job[TP_NAME_MAX];
    uint32_t attempt;
    uint32_t rank, size, local_rank;
    int32_t device;
    uint32_t pid;  //  as the client sees itself; 0 proves nothing
    char host[TP_NAME_MAX];
    char library[TP_VERSION_MAX];  //  tutti_version ()
    char build[TP_BUILD_MAX];  //  of the library that is loaded; "" unknown
    uint32_t flags;            //  TP_LOCAL_*
    uint32_t elastic_min, elastic_max;
    uint32_t join_timeout_ms;
    char algorithm[32];  //  empty: the plan chooses
    char token[TP_TOKEN_MAX];
} tp_local_hello_t;

//  Descriptors of WELCOME, in this order.
enum {
    TP_FD_WAKE,     //  memfd: tp_wake_page_t, read-write
    TP_FD_BELL,     //  eventfd: wakes the worker
    TP_FD_EVENT,    //  eventfd: tutti_comm_fd of this rank
    TP_FD_STAGING,  //  memfd: this rank's staging segment
    TP_FD_BOARD,    //  memfd: board of the world
    TP_WELCOME_FDS
};

typedef struct tp_local_welcome {
    uint32_t rank, size;
    int64_t epoch;
    char node[TP_NAME_MAX];
    uint32_t nodes;
    uint32_t n_local;          //  ranks of the job on this node
    uint32_t session;          //  my index in the wake page
    uint32_t staging_segment;  //  segment id
    uint64_t staging_bytes;
    uint64_t board_bytes;
    uint64_t world;  //  comm id
} tp_local_welcome_t;

typedef struct tp_local_reply {
    int32_t err;  //  tutti_err_t
    uint32_t pad;
    char text[TP_TEXT_MAX];
} tp_local_reply_t;

//  What a rank waits for, in this order.
typedef enum tp_stage {
    TP_STAGE_AGENT,        //  the socket; no agent, no message
    TP_STAGE_COORDINATOR,  //  the agent's connection to it
    TP_STAGE_RANKS,        //  the others of the job
    TP_STAGE_NODES,        //  connections between the nodes
    TP_STAGES
} tp_stage_t;

typedef struct tp_local_waiting {
    uint32_t stage;  //  tp_stage_t
    uint32_t pad;
    char text[TP_TEXT_MAX];
} tp_local_waiting_t;

typedef struct tp_local_segment {
    uint32_t id;
    uint32_t pad;
    uint64_t bytes;
} tp_local_segment_t;

typedef struct tp_local_group {
    uint64_t comm;  //  same on all members
    uint32_t n;
    uint32_t pad;
    uint32_t ranks[];  //  world ranks in the order of the new comm
} tp_local_group_t;

typedef struct tp_local_comm {
    uint64_t comm;
    uint64_t board_bytes;
} tp_local_comm_t;

typedef struct tp_local_abort {
    uint64_t comm;
    int32_t code;
    uint32_t pad;
    char text[TP_TEXT_MAX];
} tp_local_abort_t;

typedef struct tp_local_stats {
    uint64_t wire_bytes;     //  payload this node has sent for the job
    uint64_t cpu_us;         //  CPU time of the worker
    uint64_t segment_bytes;  //  memory held for this job on this node
    char transport[16];      //  "tcp", as tx_find knows it
} tp_local_stats_t;

//  The wake page: one line per session, one per channel of the worker. All
//  local ranks of the job and the worker map it read-write; it steers nothing
//  but sleeping.
typedef struct tp_wake {
    _Alignas(64) _Atomic uint32_t word;  //  futex: grows at every wake-up
    _Atomic uint32_t asleep;             //  1: a thread sleeps on word
    _Atomic uint32_t want_event;         //  1: also write my event descriptor
    _Atomic uint32_t present;            //  threads that wait, and so work
} tp_wake_t;

typedef struct tp_wake_page {
    tp_wake_t worker;  //  asleep only; woken by the bell
    tp_wake_t session[TP_LOCAL_MAX];
} tp_wake_page_t;

//  Wake a session if it sleeps. Call after the change that it waits for, made
//  with memory_order_seq_cst. A system call only if somebody sleeps.
void
tp_wake (tp_wake_t *self);

//  Sleep until woken, at most TIMEOUT_MS. Protocol: seen = tp_wake_seen,
//  tp_wake_arm, look at the condition once more, tp_wake_sleep (or nothing),
//  tp_wake_disarm.
uint32_t
tp_wake_seen (const tp_wake_t *self);
void
tp_wake_arm (tp_wake_t *self);
void
tp_wake_sleep (tp_wake_t *self, uint32_t seen, int timeout_ms);
void
tp_wake_disarm (tp_wake_t *self);

//  Ring the worker's bell if it sleeps.
void
tp_bell_ring (tp_wake_page_t *page, int bell);

#endif
