//  agent/member.c - this node's part in one communicator

#include "agent/member.h"

#include "agent/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

//  On one node a segment should stay in the core's own cache while n inputs
//  are combined; between nodes it is the unit on the wire.
#define SEGMENT_ONE_NODE (UINT64_C (256) << 10)

static bool
s_arrays (ta_member_t *self, uint32_t n, uint32_t nodes)
{
    self->world = calloc (n, sizeof *self->world);
    self->node_of = calloc (n, sizeof *self->node_of);
    self->position = calloc (n, sizeof *self->position);
    self->at = calloc (n, sizeof *self->at);
    self->local = calloc (n, sizeof *self->local);
    self->session = calloc (n, sizeof *self->session);
    self->job_node = calloc (nodes, sizeof *self->job_node);
    self->ranks_on = calloc (nodes, sizeof *self->ranks_on);
    self->first_on = calloc (nodes, sizeof *self->first_on);
    return self->world && self->node_of && self->position && self->at &&
           self->local && self->session && self->job_node && self->ranks_on &&
           self->first_on;
}

//  Nodes keep the job's (ring) order; only those with a rank are in.
static tutti_err_t
s_place_ranks (ta_member_t *self, const ta_roster_t *roster,
               const uint32_t *ranks)
{
    uint32_t *index = malloc (roster->nodes * sizeof *index);
    if (!index)
        return TUTTI_ENOMEM;
    memset (index, 0xff, roster->nodes * sizeof *index);
    for (uint32_t r = 0; r < self->size; r++)
        index[roster->node_of[ranks[r]]] = 0;
    for (uint32_t i = 0; i < roster->nodes; i++)
        if (index[i] == 0) {
            index[i] = self->nodes;
            self->job_node[self->nodes++] = i;
        }
    self->me = index[roster->me];
    for (uint32_t r = 0; r < self->size; r++) {
        self->world[r] = ranks[r];
        self->node_of[r] = index[roster->node_of[ranks[r]]];
        self->ranks_on[self->node_of[r]]++;
    }
    free (index);
    return self->me == UINT32_MAX ? TUTTI_EINVAL : TUTTI_OK;
}

static void
s_order_ranks (ta_member_t *self, const ta_roster_t *roster)
{
    uint32_t place = 0;
    for (uint32_t node = 0; node < self->nodes; node++) {
        self->first_on[node] = place;
        for (uint32_t r = 0; r < self->size; r++) {
            if (self->node_of[r] != node)
                continue;
            self->position[r] = place;
            self->at[place++] = r;
            if (node != self->me)
                continue;
            self->local[self->n_local] = r;
            self->session[self->n_local++] =
                (uint32_t) roster->session_of[self->world[r]];
        }
    }
}

static tutti_err_t
s_make_board (ta_member_t *self, const ta_roster_t *roster,
              uint64_t segment_bytes)
{
    self->board_bytes = tp_board_bytes (self->n_local);
    self->board_fd = ta_memfd ("tutti-board", self->board_bytes);
    if (self->board_fd < 0)
        return TUTTI_ENOMEM;
    void *base = mmap (NULL, self->board_bytes, PROT_READ | PROT_WRITE,
                       MAP_SHARED, self->board_fd, 0);
    if (base == MAP_FAILED)
        return TUTTI_ENOMEM;
    self->board = base;
    tp_board_init (self->board, self->id, self->epoch, self->size,
                   self->n_local, self->nodes,
                   self->nodes == 1 ? SEGMENT_ONE_NODE : segment_bytes);
    for (uint32_t i = 0; i < self->n_local; i++) {
        tp_board_rank_t *rank = tp_board_rank (self->board, i);
        rank->rank = self->local[i];
        rank->world_rank = self->world[self->local[i]];
        rank->session = self->session[i];
        rank->pid = roster->pid_of[rank->world_rank];
    }
    return TUTTI_OK;
}

static bool
s_ranks_ok (const ta_roster_t *roster, const uint32_t *ranks, uint32_t n)
{
    uint8_t *seen = calloc (roster->size, 1);
    bool ok = seen != NULL && n > 0 && n <= roster->size;
    for (uint32_t i = 0; ok && i < n; i++)
        ok = ranks[i] < roster->size && !seen[ranks[i]]++;
    free (seen);
    return ok;
}

tutti_err_t
ta_member_new (ta_member_t **self_p, const ta_roster_t *roster, uint64_t id,
               const uint32_t *ranks, uint32_t n, uint64_t segment_bytes)
{
    if (!s_ranks_ok (roster, ranks, n))
        return TUTTI_EINVAL;
    ta_member_t *self = calloc (1, sizeof *self);
    if (!self)
        return TUTTI_ENOMEM;
    self->board_fd = -1;
    self->id = id;
    self->epoch = roster->epoch;
    self->size = n;
    self->next = 1;
    tutti_err_t err = s_arrays (self, n, roster->nodes)
                          ? s_place_ranks (self, roster, ranks)
                          : TUTTI_ENOMEM;
    if (!err) {
        s_order_ranks (self, roster);
        err = s_make_board (self, roster, segment_bytes);
    }
    if (!err)
        err = tp_blocks_make (&self->blocks, self->node_of, n);
    if (!err) {
        self->credit = calloc (self->nodes, sizeof *self->credit);
        err = self->credit ? TUTTI_OK : TUTTI_ENOMEM;
    }
    if (err) {
        ta_member_destroy (&self);
        return err;
    }
    *self_p = self;
    return TUTTI_OK;
}

void
ta_member_destroy (ta_member_t **self_p)
{
    ta_member_t *self = *self_p;
    if (!self)
        return;
    if (self->board)
        munmap (self->board, self->board_bytes);
    if (self->board_fd >= 0)
        close (self->board_fd);
    tp_blocks_destroy (&self->blocks);
    free (self->credit);
    free (self->world);
    free (self->node_of);
    free (self->position);
    free (self->at);
    free (self->local);
    free (self->session);
    free (self->job_node);
    free (self->ranks_on);
    free (self->first_on);
    free (self);
    *self_p = NULL;
}

bool
ta_member_has_node (const ta_member_t *self, uint32_t job_node,
                    uint32_t *index_p)
{
    for (uint32_t i = 0; i < self->nodes; i++)
        if (self->job_node[i] == job_node) {
            *index_p = i;
            return true;
        }
    return false;
}

void
ta_member_ranks_text (const ta_member_t *self, uint32_t node, char *text,
                      size_t len)
{
    size_t at = 0;
    for (uint32_t r = 0; r < self->size && at + 16 < len; r++)
        if (self->node_of[r] == node)
            at += (size_t) snprintf (text + at, len - at, "%s%u",
                                     at == 0 ? "rank " : ",", r);
}
