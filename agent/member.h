//  agent/member.h - this node's part in one communicator
//
//  Who is in it, where they live, and the board. Made by the worker's actor,
//  then handed to the channel thread, which owns the part below the line;
//  the rest does not change.

#ifndef TA_MEMBER_H
#define TA_MEMBER_H

#include "protocol/board.h"
#include "protocol/frame.h"
#include "protocol/schedule.h"

struct ta_op;
struct ta_recipe;
struct ta_local;

//  A GRANT that came before or during the op: what the peer takes.
typedef struct ta_grant {
    uint64_t seq;
    uint32_t segments;
    tp_sig_t sig;
} ta_grant_t;

//  By seq, peers being at most TP_SLOTS ahead; those of named ops by search.
#define TA_GRANTS (2 * TP_SLOTS)

//  An eager frame whose op has not started here.
typedef struct ta_parcel {
    bool full;
    tp_frame_t frame;
    uint8_t data[TP_EAGER_BYTES];
} ta_parcel_t;

//  Credits between this node and another one, for one comm.
typedef struct ta_credit {
    uint32_t eager_out, eager_acked;  //  frames sent, frames given back
    uint32_t eager_in, eager_told;    //  frames consumed, and told
    ta_parcel_t parcel[TP_EAGER_CREDITS];
    ta_grant_t grant[TA_GRANTS], named[TA_GRANTS];
} ta_credit_t;

typedef struct ta_member {
    uint64_t id;
    int64_t epoch;
    uint32_t size;  //  ranks
    uint32_t nodes;
    uint32_t me;  //  my index among the comm's nodes
    uint32_t n_local;
    uint32_t *world;     //  comm rank -> world rank
    uint32_t *node_of;   //  comm rank -> index among the comm's nodes
    uint32_t *job_node;  //  comm node -> node index of the job
    uint32_t *position;  //  comm rank -> place in node-major order
    uint32_t *at;        //  place in node-major order -> comm rank
    uint64_t *ranks_on;  //  comm node -> its ranks
    uint32_t *first_on;  //  comm node -> position of its first rank
    uint32_t *local;     //  local index -> comm rank
    uint32_t *session;   //  local index -> session
    tp_blocks_t blocks;  //  maximal subtrees
    tp_board_t *board;
    size_t board_bytes;
    int board_fd;
    uint32_t asked;             //  actor: local members that asked for it
    uint32_t closed;            //  actor: local members that closed it
    struct ta_member *leaving;  //  actor: next of those given up
    //  ------------------------------------------------- channel thread
    struct ta_op *ops[2 * TP_SLOTS];  //  between nodes, by slot
    uint64_t begun[TP_SLOTS];   //  named slot -> seq that was started last
    struct ta_local *locals;    //  on one node, for ranks that don't wait
    uint64_t next;              //  first op that has not been started
    ta_credit_t *credit;        //  per comm node
    struct ta_recipe *recipes;  //  schedules made before
    bool failed;
    struct ta_member *link;
} ta_member_t;

//  Ranks of the job: node (index in START) and session here, or -1.
typedef struct ta_roster {
    uint32_t size, nodes, me;
    int64_t epoch;
    const uint32_t *node_of;
    const int32_t *session_of;
    const uint32_t *pid_of;
} ta_roster_t;

//  Comm ID of the N world ranks RANKS, in that order. Makes the board.
//  TUTTI_EINVAL: a rank is out of range or twice, or none is here;
//  TUTTI_ENOMEM.
tutti_err_t
ta_member_new (ta_member_t **self_p, const ta_roster_t *roster, uint64_t id,
               const uint32_t *ranks, uint32_t n, uint64_t segment_bytes);

void
ta_member_destroy (ta_member_t **self_p);

//  Whether NODE of the job has ranks in it; its comm index by pointer.
bool
ta_member_has_node (const ta_member_t *self, uint32_t job_node,
                    uint32_t *index_p);

//  "ranks 2,3 (node n1)" needs names; this gives "ranks 2,3".
void
ta_member_ranks_text (const ta_member_t *self, uint32_t node, char *text,
                      size_t len);

#endif
