//  agent/worker.h - between the supervisor and one worker
//
//  tutti-agent is a supervisor: it owns the local socket, the uplink to the
//  coordinator and the status. For every (job, attempt) it starts one worker:
//  the same binary, "tutti-agent --worker", which inherits one end of a
//  SOCK_SEQPACKET socketpair as descriptor 3. The worker owns the job's
//  boards, memory and data connections. If the worker dies its clients see
//  their sockets close; if the supervisor dies the worker sees the pair close,
//  fails the comms of its clients and ends.
//
//  Messages: head, then len bytes. Descriptors travel with ADOPT only.

#ifndef TA_WORKER_H
#define TA_WORKER_H

#include "protocol/local.h"

#define TA_WORKER_FD 3
//  Bytes of one message; larger Envelopes travel in CONTROL pieces.
#define TA_WORKER_MSG_MAX (64u << 10)

typedef enum ta_worker_type {
    TA_SETUP = 1,  //  supervisor -> worker, first: ta_setup_t
    TA_ADOPT,      //  supervisor -> worker: tp_local_hello_t and two fds, the
                   //  client's socket and its pidfd
    TA_CONTROL,    //  both ways: a piece of a packed Envelope (tutti.proto)
    TA_PROGRESS,   //  worker -> supervisor: packed Progress, for HEARTBEAT
    TA_EMPTY,      //  worker -> supervisor: no client is left; uint32_t, the
                   //  ADOPTs that it has seen. It exits when the pair closes
    TA_DRAIN       //  supervisor -> worker: end as soon as possible
} ta_worker_type_t;

typedef struct ta_worker_head {
    uint32_t type;
    uint32_t len;   //  bytes that follow in this message
    uint32_t more;  //  CONTROL, PROGRESS: 1 if the next message goes on
    uint32_t pad;
} ta_worker_head_t;

typedef struct ta_setup {
    char job[TP_NAME_MAX];
    uint32_t attempt;
    char node[TP_NAME_MAX];
    char bind[TP_NAME_MAX];  //  data plane: address to listen on and tell
    uint16_t port_lo, port_hi;
    char transport[TP_NAME_MAX];  //  for tx_find: "tcp", "faulty:flip:100"
    uint32_t channels;
    uint64_t staging_bytes;  //  per rank
} ta_setup_t;

//  Body of the worker process; FD is the socketpair. Returns its exit status.
int
ta_worker_main (int fd);

#endif
