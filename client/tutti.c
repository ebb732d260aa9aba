//  client/tutti.c - sessions and communicators: init, finalize, split, stats

#include "client/comm.h"

#include "client/error.h"
#include "client/handle.h"
#include "protocol/schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

tutti_err_t
tutti_init (const tutti_config_t *config, tutti_comm_t **world_p)
{
    if (!world_p)
        return tl_error (TUTTI_EINVAL, "tutti_init: world_p is NULL");
    if (config && config->struct_size != sizeof *config)
        return tl_error (TUTTI_EINVAL, "tutti_config_t.struct_size is not "
                                       "set; begin with TUTTI_CONFIG_INIT");
    if (tl_forked ())
        return tl_error (TUTTI_ESTATE, "this process was forked from one that "
                                       "uses Tutti; exec a new program");
    tl_whoami_t who;
    tutti_err_t err = tl_whoami (&who, config);
    tl_session_t *session = NULL;
    tp_board_t *board = NULL;
    if (!err)
        err = tl_session_open (&session, &who, &board);
    if (err)
        return err;
    tl_comm_t *world;
    err = tl_comm_new (session, board, who.hello.rank, &world);
    if (err) {
        munmap (board, board->bytes);
        tl_session_close (&session);
        return err;
    }
    *world_p = world->handle;
    return TUTTI_OK;
}

tutti_err_t
tutti_finalize (tutti_comm_t **world_p)
{
    if (!world_p || !*world_p)
        return TUTTI_OK;
    tutti_err_t err;
    tl_comm_t *comm = tl_comm_lock (*world_p, &err);
    if (!comm)
        return err;
    tl_session_t *session = comm->session;
    while (session->comms) {
        comm = session->comms;
        tl_comm_destroy (&comm);
    }
    tl_report_table (&session->report);
    pthread_mutex_unlock (&session->lock);
    tl_session_close (&session);
    *world_p = NULL;
    return TUTTI_OK;
}

//  ----------------------------------------------------------------- queries

int
tutti_comm_rank (const tutti_comm_t *handle)
{
    tutti_err_t err;
    tl_comm_t *comm = tl_comm_lock (handle, &err);
    if (!comm)
        return (int) err;
    int rank = (int) comm->rank;
    tl_comm_unlock (comm);
    return rank;
}

int
tutti_comm_size (const tutti_comm_t *handle)
{
    tutti_err_t err;
    tl_comm_t *comm = tl_comm_lock (handle, &err);
    if (!comm)
        return (int) err;
    int size = (int) comm->size;
    tl_comm_unlock (comm);
    return size;
}

int64_t
tutti_comm_epoch (const tutti_comm_t *handle)
{
    tutti_err_t err;
    tl_comm_t *comm = tl_comm_lock (handle, &err);
    if (!comm)
        return (int64_t) err;
    int64_t epoch = comm->board->epoch;
    tl_comm_unlock (comm);
    return epoch;
}

tutti_err_t
tutti_comm_error (const tutti_comm_t *handle)
{
    tutti_err_t err;
    tl_comm_t *comm = tl_comm_lock (handle, &err);
    if (!comm)
        return err;
    tl_session_check (comm->session);
    err = tl_comm_error (comm);
    tl_comm_unlock (comm);
    return err;
}

static void
s_fill_stats (tl_comm_t *comm, const tp_local_stats_t *local,
              tutti_stats_t *stats)
{
    *stats = (tutti_stats_t) TUTTI_STATS_INIT;
    stats->ops = comm->ops;
    stats->bytes = comm->bytes;
    stats->wait_us = comm->wait_ns / 1000;
    stats->move_us = comm->move_ns / 1000;
    stats->straggler_rank = -1;
    stats->wire_bytes = local->wire_bytes;
    stats->agent_cpu_us = local->cpu_us;
    stats->nodes = (int) comm->board->nodes;
    stats->local_rank = (int) comm->local;
    stats->local_size = (int) comm->board->n_local;
    snprintf (stats->transport, sizeof stats->transport, "%s",
              comm->single ? "none" : local->transport);
    snprintf (stats->algorithm, sizeof stats->algorithm, "%s",
              comm->single ? "board"
                           : tp_algorithm_name (
                                 (int) atomic_load (&comm->board->algorithm)));
}

tutti_err_t
tutti_comm_stats (tutti_comm_t *handle, tutti_stats_t *stats)
{
    if (!stats || stats->struct_size != sizeof *stats)
        return tl_error (TUTTI_EINVAL,
                         "tutti_comm_stats: begin with TUTTI_STATS_INIT");
    tutti_err_t err;
    tl_comm_t *comm = tl_comm_lock (handle, &err);
    if (!comm)
        return err;
    tp_local_stats_t local;
    err = tl_session_ask (comm->session, TP_LOCAL_STATS, NULL, 0,
                          TP_LOCAL_STATS, &local, sizeof local, NULL);
    if (!err)
        s_fill_stats (comm, &local, stats);
    tl_comm_unlock (comm);
    return err;
}

//  --------------------------------------------------------- groups of ranks

typedef struct member {
    int32_t color, key, rank, world;
} member_t;

static int
s_by_key (const void *a, const void *b)
{
    const member_t *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

//  The same on all members and, but for 2^-64, on no other group.
static uint64_t
s_group_id (const tl_comm_t *parent, int color)
{
    uint64_t h = parent->board->comm ^ (parent->seq * 0x9e3779b97f4a7c15u);
    h ^= (uint64_t) (uint32_t) color + 0x7f4a7c15u;
    for (int i = 0; i < 3; i++) {  //  splitmix64's finaliser
        h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
        h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
        h ^= h >> 31;
    }
    return h | 1;
}

//  Ask the agent for the board of the N members, in order.
static tutti_err_t
s_make_group (tl_comm_t *parent, const member_t *members, uint32_t n,
              uint64_t id, tl_comm_t **new_p)
{
    size_t len = sizeof (tp_local_group_t) + n * sizeof (uint32_t);
    tp_local_group_t *group = calloc (1, len);
    if (!group)
        return tl_error (TUTTI_ENOMEM, "out of memory");
    group->comm = id;
    group->n = n;
    for (uint32_t i = 0; i < n; i++)
        group->ranks[i] = (uint32_t) members[i].world;
    tp_local_comm_t got;
    int fd;
    tl_session_t *session = parent->session;
    tutti_err_t err = tl_session_ask (session, TP_LOCAL_GROUP, group, len,
                                      TP_LOCAL_COMM, &got, sizeof got, &fd);
    free (group);
    if (err)
        return err;
    tp_board_t *board = tl_map_fd (fd, got.board_bytes, true);
    if (!board || !tp_board_ok (board, got.board_bytes))
        return tl_error (TUTTI_ENOMEM, "no memory to map a board");
    err = tl_comm_new (session, board, session->hello.rank, new_p);
    if (err)
        munmap (board, got.board_bytes);
    return err;
}

//  From the gathered list keep those of my color, in the new order.
static uint32_t
s_select (member_t *all, int size, int color)
{
    uint32_t n = 0;
    for (int i = 0; i < size; i++)
        if (all[i].color == color) {
            all[n] = all[i];
            all[n++].rank = i;
        }
    qsort (all, n, sizeof *all, s_by_key);
    return n;
}

static tutti_err_t
s_split (tutti_comm_t *handle, member_t *all, int color, tl_comm_t **new_p)
{
    tutti_err_t err;
    tl_comm_t *parent = tl_comm_lock (handle, &err);
    if (!parent)
        return err;
    uint64_t id = s_group_id (parent, color);
    int size = (int) parent->size;
    if (color >= 0) {
        uint32_t n = s_select (all, size, color);
        err = s_make_group (parent, all, n, id, new_p);
    }
    if (err)
        tl_comm_tell_abort (parent, err, tl_error_text ());
    tl_comm_unlock (parent);
    return err;
}

//  The barrier at the end makes sure that no rank uses the new comm before
//  every node has its board.
tutti_err_t
tutti_comm_split (tutti_comm_t *handle, int color, int key,
                  tutti_comm_t **new_p)
{
    int size = tutti_comm_size (handle);
    if (size < 0)
        return (tutti_err_t) size;
    if (!new_p)
        return tl_error (TUTTI_EINVAL, "tutti_comm_split: new_p is NULL");
    member_t *all = calloc ((size_t) size, sizeof *all);
    if (!all)
        return tl_error (TUTTI_ENOMEM, "out of memory");
    tutti_err_t err;
    tl_comm_t *parent = tl_comm_lock (handle, &err);
    if (parent) {
        all[parent->rank] =
            (member_t){ color, key, (int32_t) parent->rank,
                        (int32_t) parent->session->hello.rank };
        tl_comm_unlock (parent);
        err = tutti_allgather (TUTTI_IN_PLACE, all, 4, TUTTI_INT32, handle);
    }
    tl_comm_t *made = NULL;
    if (!err)
        err = s_split (handle, all, color, &made);
    free (all);
    if (!err)
        err = tutti_barrier (handle);
    if (!err)
        *new_p = made ? made->handle : NULL;
    return err;
}

tutti_err_t
tutti_comm_dup (tutti_comm_t *handle, tutti_comm_t **new_p)
{
    int rank = tutti_comm_rank (handle);
    if (rank < 0)
        return (tutti_err_t) rank;
    return tutti_comm_split (handle, 0, rank, new_p);
}

tutti_err_t
tutti_comm_close (tutti_comm_t **comm_p)
{
    if (!comm_p || !*comm_p)
        return TUTTI_OK;
    tutti_err_t err;
    tl_comm_t *comm = tl_comm_lock (*comm_p, &err);
    if (!comm)
        return err;
    tl_session_t *session = comm->session;
    if (comm == session->comms)
        err = tl_error (TUTTI_ESTATE, "the world is closed by tutti_finalize");
    if (!err) {
        tp_local_comm_t which = { .comm = comm->board->comm };
        tl_session_ask (session, TP_LOCAL_CLOSE, &which, sizeof which,
                        TP_LOCAL_REPLY, NULL, 0, NULL);
        tl_comm_destroy (&comm);
        *comm_p = NULL;
    }
    pthread_mutex_unlock (&session->lock);
    return err;
}

tutti_err_t
tutti_comm_abort (tutti_comm_t *handle, int code, const char *text)
{
    tutti_err_t err;
    tl_comm_t *comm = tl_comm_lock (handle, &err);
    if (!comm)
        return err;
    char reason[TP_TEXT_MAX];
    snprintf (reason, sizeof reason, "rank %u aborted with code %d: %s",
              comm->rank, code, text ? text : "no reason given");
    tp_board_fail (comm->board, TUTTI_EABORTED, reason);
    tl_comm_tell_abort (comm, TUTTI_EABORTED, reason);
    tl_comm_wake (comm);
    tl_comm_unlock (comm);
    return TUTTI_OK;
}

//  ------------------------------------------------------------------ memory

tutti_err_t
tutti_mem_alloc (tutti_comm_t *handle, size_t bytes, tutti_space_t space,
                 void **ptr_p)
{
    if (!ptr_p || bytes == 0)
        return tl_error (TUTTI_EINVAL, "tutti_mem_alloc: %s",
                         ptr_p ? "0 bytes" : "ptr_p is NULL");
    if (space != TUTTI_HOST)
        return tl_error (TUTTI_ENOTSUP, "tutti_mem_alloc: device memory is "
                                        "not in this version");
    tutti_err_t err;
    tl_comm_t *comm = tl_comm_lock (handle, &err);
    if (!comm)
        return err;
    tl_segment_t *segment;
    err = tl_segment_alloc (comm->session, bytes, &segment);
    if (!err)
        *ptr_p = segment->base;
    tl_comm_unlock (comm);
    return err;
}

tutti_err_t
tutti_mem_free (tutti_comm_t *handle, void *ptr)
{
    if (!ptr)
        return TUTTI_OK;
    tutti_err_t err;
    tl_comm_t *comm = tl_comm_lock (handle, &err);
    if (!comm)
        return err;
    tl_segment_t *segment = tl_segment_find (comm->session, ptr, 1);
    if (segment && segment->base == ptr)
        err = tl_segment_free (comm->session, segment);
    else
        err = tl_error (TUTTI_EINVAL, "%p is not from tutti_mem_alloc", ptr);
    tl_comm_unlock (comm);
    return err;
}

//  Ordinary memory is copied through the staging area wherever it lies, so
//  there is nothing that knowing it ahead could save.
tutti_err_t
tutti_mem_register (tutti_comm_t *handle, void *ptr, size_t bytes)
{
    (void) ptr;
    (void) bytes;
    int rank = tutti_comm_rank (handle);
    if (rank < 0)
        return (tutti_err_t) rank;
    return tl_error (TUTTI_ENOTSUP,
                     "memory of the program is staged here, not shared; use "
                     "tutti_mem_alloc for memory that is not copied");
}

tutti_err_t
tutti_mem_deregister (tutti_comm_t *handle, void *ptr)
{
    return tutti_mem_register (handle, ptr, 0);
}

tutti_err_t
tutti_mem_info (tutti_comm_t *handle, const void *ptr, tutti_mem_info_t *info)
{
    if (!info || info->struct_size != sizeof *info)
        return tl_error (TUTTI_EINVAL,
                         "tutti_mem_info: begin with TUTTI_MEM_INFO_INIT");
    tutti_err_t err;
    tl_comm_t *comm = tl_comm_lock (handle, &err);
    if (!comm)
        return err;
    tl_segment_t *segment = tl_segment_find (comm->session, ptr, 1);
    info->bytes = segment ? segment->bytes : 0;
    info->page_bytes = 4096;
    info->space = TUTTI_HOST;
    info->path = segment ? "shared" : "staged";
    tl_comm_unlock (comm);
    return TUTTI_OK;
}
