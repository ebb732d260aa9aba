//  agent/channel_impl.h - inside of the channel thread: channel.c, op.c,
//  recipe.c, place.c and local.c share it, nobody else includes it
//
//  Owner of everything here: the channel thread.

#ifndef TA_CHANNEL_IMPL_H
#define TA_CHANNEL_IMPL_H

#include "agent/channel.h"
#include "kernels/work.h"

#include <pthread.h>

#define TA_WINDOW 4u  //  segments of one op in flight

//  A schedule with what the executor wants to know of it, kept per member.
//  That of an uneven op is for one segment of it.
typedef struct ta_recipe {
    uint32_t kind, algorithm, root, flags;  //  kind: the even one
    uint64_t len;                           //  elements of a piece
    bool once;
    tp_schedule_t schedule;
    uint32_t *senders;  //  comm nodes that put to us
    uint32_t n_senders;
    uint32_t uses;
    struct ta_recipe *next;
} ta_recipe_t;

struct ta_op;

//  One segment of one op on its way through the schedule.
typedef struct ta_seg {
    struct ta_op *op;
    bool active;
    uint32_t index;
    uint64_t len;      //  elements of a piece; the most, if uneven
    uint64_t *at;      //  per position: where its piece begins in WORK
    uint64_t message;  //  sendrecv: elements that came
    ta_recipe_t *recipe;
    uint8_t *work, *temp;
    size_t work_bytes, temp_bytes;
    bool work_ours;  //  from malloc, not a rank's output
    size_t pc;
    uint32_t sends;         //  payloads that the transport still reads
    uint32_t *got, *taken;  //  puts per comm node: landed, consumed
    uint32_t *sending;      //  of sends, per comm node
} ta_seg_t;

//  One op between nodes, from the moment all local ranks have deposited.
typedef struct ta_op {
    ta_member_t *member;
    uint64_t seq;
    uint64_t id;  //  the same on all nodes: seq, or the key of a named op
    tp_sig_t sig;
    tp_geo_t geo;
    uint32_t kind;  //  the even one
    uint32_t algorithm;
    uint32_t root_node;
    uint64_t received;  //  sendrecv: elements of the message so far
    bool eager, wide, resolved;
    bool told;            //  that it has stalled
    uint64_t mark;        //  how far it was when last looked at, and
    int64_t mark_ms;      //  since when
    tutti_dtype_t dtype;  //  of WORK (32 bits if wide)
    tutti_op_t by;        //  what combines: SUM for AVG and PREMUL_SUM
    size_t element;
    tp_deposit_t *deposit;  //  copies, per local rank
    uint64_t *words;        //  copies, if uneven
    tp_side_t *in, *out;
    uint32_t begun, written;
    uint64_t done;  //  bit i: segment written + i is done
    ta_seg_t seg[TA_WINDOW];
} ta_op_t;

//  Outputs that the worker makes on a comm of one node, for one op: those of
//  ranks that do not wait, and not at once, for they may be about to.
typedef struct ta_local {
    ta_member_t *member;
    uint64_t seq;
    int64_t due_ns;
    tp_geo_t geo;
    tp_deposit_t *deposit;
    uint64_t *words;  //  copies of counts, if uneven
    tp_side_t *in, *out;
    tk_work_t *work;  //  per local rank; board NULL: not ours
    uint32_t open;
    struct ta_local *next;
} ta_local_t;

struct ta_channel {
    pthread_t thread;
    const tx_ops_t *ops;
    tx_t *tx;
    ta_memory_t *memory;
    tp_wake_page_t *wake;
    int bell, epoll;
    int commands[2], events[2];
    int event_fd[TP_LOCAL_MAX];  //  ours
    _Atomic uint64_t wire_bytes;
    ta_member_t *members;
    tp_plan_t plan;
    uint32_t me, nodes, up;
    tx_ep_t **edge;      //  per node of the job
    ta_seg_t **landing;  //  per node: where its payload is being put
    char (*name)[TP_NAME_MAX];
    bool started, ready, stop;
};

//  recipe.c: the schedule of a segment. NULL: no memory.
ta_recipe_t *
ta_recipe_get (ta_op_t *op, const ta_seg_t *seg);
void
ta_recipe_release (ta_recipe_t *recipe);
void
ta_recipes_destroy (ta_member_t *member);
//  Elements that the next put of a node must have; UINT64_MAX: none is due.
uint64_t
ta_recipe_expects (const ta_recipe_t *recipe, uint32_t node, uint32_t nth);

//  message.c: sendrecv, whose length the receiver learns at its end. SEND and
//  RECV are the caller's room for the one item that there can be.
//  pieces.c: gather, scatter and alltoall, where pieces go from rank to rank.
bool
ta_pieces_kind (uint32_t kind);
//  Elements between two of them in WORK and TEMP.
uint64_t
ta_pieces_stride (const ta_op_t *op, const ta_seg_t *seg);
//  Elements of WORK and TEMP.
uint64_t
ta_pieces_room (const ta_op_t *op, const ta_seg_t *seg);
//  What this node sends and gets; lists are the caller's to free.
//  TUTTI_ENOMEM.
tutti_err_t
ta_pieces_items (const ta_op_t *op, const ta_seg_t *seg, tp_items_t *sends,
                 tp_items_t *recvs);
void
ta_message_items (const ta_op_t *op, const ta_seg_t *seg, tp_item_t *send,
                  tp_items_t *sends, tp_item_t *recv, tp_items_t *recvs);
//  A put of a message has COUNT elements; it has SEGMENTS, as its first tells.
void
ta_message_arrived (ta_op_t *op, ta_seg_t *seg, uint64_t count,
                    uint32_t segments);
void
ta_message_in (ta_op_t *op, ta_seg_t *seg);
void
ta_message_out (ta_op_t *op, ta_seg_t *seg);
void
ta_pieces_in (ta_op_t *op, ta_seg_t *seg);
void
ta_pieces_out (ta_op_t *op, ta_seg_t *seg);

//  op.c: start the op SEQ, all of whose deposits are in.
void
ta_op_start (ta_channel_t *self, ta_member_t *member, uint64_t seq);
//  Do what can be done; true if something moved. The op may be gone after.
bool
ta_op_run (ta_channel_t *self, ta_op_t *op);
//  Forget an op of a failed comm, unless the transport (if there is one still)
//  has its memory: call again after the next poll.
void
ta_op_drop (ta_channel_t *self, ta_op_t *op);

//  Whether it has not moved for a second, said once: NOW_MS, and a text that
//  names this node's ranks and their call (TP_TEXT_MAX).
bool
ta_op_stalled (ta_channel_t *self, ta_op_t *op, int64_t now_ms, char *text);

//  stage.c: between the ranks' memory and WORK.
//  TUTTI_EMISMATCH, EPROTO with a sentence in TEXT (TP_TEXT_MAX), ENOMEM.
tutti_err_t
ta_stage_resolve (ta_channel_t *self, ta_op_t *op, char *text);
//  Fill seg->at.
void
ta_stage_layout (const ta_op_t *op, ta_seg_t *seg);
void
ta_stage_release (ta_channel_t *self, ta_op_t *op);
tutti_err_t
ta_stage_in (ta_op_t *op, ta_seg_t *seg);
void
ta_stage_out (ta_op_t *op, ta_seg_t *seg);
//  The output of the first local rank, if WORK may be there; else NULL.
uint8_t *
ta_stage_work (ta_op_t *op, uint32_t g);

//  place.c: frames that arrive.
//  "rank 2,3 (node n1)".
void
ta_place_who (ta_channel_t *self, const ta_member_t *member, uint32_t node,
              char *text, size_t len);
extern const tx_handler_t ta_channel_handler;
//  Two signatures of one op differ: the comm ends, both sides are named.
void
ta_place_mismatch (ta_channel_t *self, ta_member_t *member, uint64_t seq,
                   uint32_t node, const tp_sig_t *mine,
                   const tp_sig_t *theirs);
//  The grant of op ID: its place if SELF has none; NULL: all places are taken.
ta_grant_t *
ta_place_grant (ta_credit_t *credit, uint64_t id);
//  A named op is over: its grants, too.
void
ta_place_forget (ta_op_t *op);
//  Frames for an op that has started just now.
void
ta_place_parcels (ta_channel_t *self, ta_op_t *op);
void
ta_place_return (ta_channel_t *self, ta_member_t *member, uint32_t node);

//  local.c: one node, ranks that do not wait.
void
ta_local_scan (ta_channel_t *self, ta_member_t *member);
bool
ta_local_run (ta_channel_t *self, ta_member_t *member);
void
ta_local_drop (ta_channel_t *self, ta_member_t *member);

//  channel.c
void
ta_channel_fail (ta_channel_t *self, ta_member_t *member, tutti_err_t err,
                 const char *text);
void
ta_channel_edge_down (ta_channel_t *self, uint32_t node, tutti_err_t err,
                      const char *text);
void
ta_channel_wake (ta_channel_t *self, ta_member_t *member, uint32_t local);

#endif
