//  client/calls.c - the collectives: check the arguments, submit, wait
//
//  Every call becomes a tl_call_t. Arguments are checked always, before
//  anything is touched; a bad one fails at once with a text that names it.

#include "client/comm.h"

#include "client/error.h"
#include "client/handle.h"
#include "kernels/tk.h"
#include "protocol/schedule.h"

#include <stdlib.h>
#include <string.h>

//  --------------------------------------------------------------- arguments

static tutti_err_t
s_bad (const tl_call_t *call, const char *what)
{
    char text[128];
    tp_sig_text (&call->sig, text, sizeof text);
    return tl_error (TUTTI_EINVAL, "%s: %s", text, what);
}

static tutti_err_t
s_check_sig (const tl_comm_t *comm, const tl_call_t *call)
{
    const tp_sig_t *sig = &call->sig;
    if (tp_sig_ok (sig, comm->size))
        return TUTTI_OK;
    if (tp_dtype_size (sig->dtype) == 0)
        return tl_error (TUTTI_EINVAL, "%s: there is no data type %u",
                         tp_kind_name (sig->kind), sig->dtype);
    if (sig->op >= TUTTI_OPS)
        return tl_error (TUTTI_EINVAL, "%s: there is no operation %u",
                         tp_kind_name (sig->kind), sig->op);
    if (tp_kind_info (sig->kind)->rooted &&
        (sig->root < 0 || (uint32_t) sig->root >= comm->size))
        return tl_error (TUTTI_EINVAL,
                         "%s: root %d is not a rank of a comm of %u",
                         tp_kind_name (sig->kind), sig->root, comm->size);
    return tl_error (TUTTI_EINVAL, "%s: operation %s is not defined for %s",
                     tp_kind_name (sig->kind), tp_op_name (sig->op),
                     tp_dtype_name (sig->dtype));
}

//  Bytes from the beginning of a buffer with a piece per rank to this rank's.
static uint64_t
s_own (const tl_comm_t *comm, const tp_geo_t *geo, const tp_side_t *side)
{
    return (side->displs ? side->displs[comm->rank]
                         : comm->rank * geo->count) *
           geo->element;
}

//  Where the input must be to be in place: the one allowed overlap.
static uint8_t *
s_in_place (const tl_comm_t *comm, const tp_geo_t *geo, const tp_side_t *in,
            const tp_side_t *out)
{
    tp_form_t from = geo->info->in, to = geo->info->out;
    if (from == TP_FORM_ONE && to == TP_FORM_EACH)
        return out->base + s_own (comm, geo, out);
    if (from == TP_FORM_EACH && to == TP_FORM_ONE)
        return out->base - s_own (comm, geo, in);
    return out->base;
}

//  TUTTI_IN_PLACE for the input or, where the root scatters, for the output.
static tutti_err_t
s_resolve_in_place (const tl_comm_t *comm, const tp_geo_t *geo,
                    tl_call_t *call, tp_side_t *in, tp_side_t *out)
{
    bool scatters =
        geo->info->in_who == TP_WHO_ROOT && geo->info->in == TP_FORM_EACH;
    bool both = in->pieces > 0 && out->pieces > 0;
    if (call->in != TUTTI_IN_PLACE && call->out != TUTTI_IN_PLACE)
        return TUTTI_OK;
    if (!both || call->sig.kind == TP_ALLTOALLV)
        return s_bad (call, "TUTTI_IN_PLACE is not possible here");
    if (call->out == TUTTI_IN_PLACE) {
        if (!scatters || call->in == TUTTI_IN_PLACE)
            return s_bad (call, "TUTTI_IN_PLACE stands for the input, only "
                                "in scatter for the output");
        out->base = in->base + s_own (comm, geo, in);
        call->out = out->base;
        return TUTTI_OK;
    }
    if (scatters)
        return s_bad (call, "TUTTI_IN_PLACE stands for the output here");
    in->base = s_in_place (comm, geo, in, out);
    call->in = in->base;
    return TUTTI_OK;
}

static tutti_err_t
s_check_overlap (const tl_comm_t *comm, const tp_geo_t *geo,
                 const tl_call_t *call, const tp_side_t *in,
                 const tp_side_t *out)
{
    uint64_t in_bytes = tp_geo_bytes (geo, in);
    uint64_t out_bytes = tp_geo_bytes (geo, out);
    if (in_bytes > 0 && !in->base)
        return s_bad (call, "the input is NULL");
    if (out_bytes > 0 && !out->base)
        return s_bad (call, "the output is NULL");
    if (in_bytes == 0 || out_bytes == 0)
        return TUTTI_OK;
    if (call->sig.kind != TP_ALLTOALLV &&
        in->base == s_in_place (comm, geo, in, out))
        return TUTTI_OK;
    uintptr_t a = (uintptr_t) in->base, b = (uintptr_t) out->base;
    if (a < b + out_bytes && b < a + in_bytes)
        return s_bad (call, "input and output overlap, but not in the way "
                            "that is in place (see tutti.h)");
    return TUTTI_OK;
}

static tutti_err_t
s_check_buffers (const tl_comm_t *comm, tl_call_t *call)
{
    tp_geo_t geo;
    tp_side_t in = { .base = (uint8_t *) (uintptr_t) call->in };
    tp_side_t out = { .base = call->out };
    if (tp_geo_make (&geo, &call->sig, comm->size, comm->board->segment_bytes))
        return s_bad (call, "too many elements");
    tp_geo_sides (&geo, &call->sig, comm->rank, call->words, &in, &out);
    if (tp_geo_bytes (&geo, &in) == UINT64_MAX ||
        tp_geo_bytes (&geo, &out) == UINT64_MAX)
        return s_bad (call, "a count or displacement is too large");
    if (in.pieces == 0)  //  what a rank has no use for may be anything
        call->in = in.base = NULL;
    if (out.pieces == 0)
        call->out = out.base = NULL;
    tutti_err_t err = s_resolve_in_place (comm, &geo, call, &in, &out);
    return err ? err : s_check_overlap (comm, &geo, call, &in, &out);
}

//  ------------------------------------------------------------------- counts

//  N words of counts, then N of displacements.
static bool
s_put_list (uint64_t *words, const tl_list_t *list, size_t n)
{
    uint64_t next = 0;
    if (n > 1 && !list->counts)
        return false;
    for (size_t i = 0; i < n; i++) {
        words[i] = list->counts ? list->counts[i] : list->one;
        words[n + i] = list->counts && list->displs ? list->displs[i] : next;
        if (words[i] > TP_COUNT_MAX || words[n + i] > TP_COUNT_MAX)
            words[i] = UINT64_MAX;  //  refused later, by name
        else
            next = words[n + i] + words[i];
    }
    return true;
}

static int
s_by_place (const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return x[0] < y[0] ? -1 : x[0] > y[0];
}

//  Whether no two pieces of an output share an element.
static bool
s_apart (const uint64_t *words, size_t n)
{
    bool ok = true;
    for (size_t i = 1; i < n && ok; i++)
        ok = words[n + i - 1] + words[i - 1] <= words[n + i];
    uint64_t (*pair)[2] = ok ? NULL : malloc (n * sizeof *pair);
    if (!pair)
        return ok;
    size_t used = 0;
    for (size_t i = 0; i < n; i++)
        if (words[i] > 0) {
            pair[used][0] = words[n + i];
            pair[used++][1] = words[i];
        }
    qsort (pair, used, sizeof *pair, s_by_place);
    ok = true;
    for (size_t i = 1; i < used && ok; i++)
        ok = pair[i - 1][0] + pair[i - 1][1] <= pair[i][0];
    free (pair);
    return ok;
}

//  Where all ranks know all counts their hash and sum are in the signature.
static void
s_hash_counts (tl_call_t *call, const uint64_t *counts, uint32_t n)
{
    uint64_t h = 0x9e3779b97f4a7c15u, sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        h = (h ^ counts[i]) * 0xbf58476d1ce4e5b9u;
        h ^= h >> 29;
        sum += counts[i];
    }
    call->sig.root = (int32_t) (h >> 33);
    call->sig.count = sum;
}

//  Make the words of an uneven call; they are the caller's to free.
static tutti_err_t
s_uneven (const tl_comm_t *comm, tl_call_t *call, const tl_list_t *in,
          const tl_list_t *out)
{
    uint32_t rank = comm->rank, n = comm->size;
    if (tp_kind_info (call->sig.kind)->rooted &&
        (call->sig.root < 0 || (uint32_t) call->sig.root >= n))
        return s_check_sig (comm, call);
    tp_form_t from = tp_form_in (&call->sig, rank);
    tp_form_t to = tp_form_out (&call->sig, rank);
    size_t ins = from == TP_FORM_EACH ? n : from == TP_FORM_ONE;
    size_t outs = to == TP_FORM_EACH ? n : to == TP_FORM_ONE;
    uint64_t *words = malloc ((2 * (ins + outs) + 1) * sizeof *words);
    if (!words)
        return tl_error (TUTTI_ENOMEM, "out of memory");
    call->words = words;
    tl_list_t own = *out;
    if (call->sig.kind == TP_REDUCE_SCATTERV && out->counts)
        own = (tl_list_t){ .one = out->counts[rank] };
    if ((from == TP_FORM_EACH && !in->counts) ||
        (to == TP_FORM_EACH && !out->counts) || !s_put_list (words, in, ins) ||
        !s_put_list (words + 2 * ins, &own, outs))
        return s_bad (call, "the list of counts is NULL");
    if (!s_apart (words + 2 * ins, outs))
        return s_bad (call, "pieces of the output overlap (displacements)");
    if (call->sig.kind == TP_ALLGATHERV) {
        if (words[0] != words[2 + rank])
            return s_bad (call, "send_count is not counts[own rank]");
        s_hash_counts (call, words + 2, n);
    }
    if (call->sig.kind == TP_REDUCE_SCATTERV)
        s_hash_counts (call, words, n);
    return TUTTI_OK;
}

//  Options of an asynchronous call.
static tutti_err_t
s_apply (tl_comm_t *comm, tl_call_t *call, const tutti_call_t *options)
{
    tl_session_t *session = comm->session;
    call->sig.flags =
        (session->flags & TP_LOCAL_REPRODUCIBLE ? TP_SIG_REPRODUCIBLE : 0) |
        (session->flags & TP_LOCAL_WIDE ? TP_SIG_WIDE : 0);
    int algorithm = session->algorithm;
    call->scale = session->scale;
    call->priority = session->priority;
    call->timeout_ms = session->timeout_ms;
    if (options) {
        if (options->struct_size != sizeof *options)
            return s_bad (call, "tutti_call_t.struct_size is not set; begin "
                                "with TUTTI_CALL_INIT");
        if (options->stream || options->compress || options->clip_norm > 0)
            return tl_error (TUTTI_ENOTSUP,
                             "stream, compress and clip_norm are not in this "
                             "version");
        if (options->algorithm) {
            algorithm = tp_algorithm_value (options->algorithm);
            if (algorithm < 0)
                return tl_error (TUTTI_EINVAL, "there is no algorithm \"%s\"",
                                 options->algorithm);
        }
        call->scale = options->scale;
        call->priority = options->priority;
        call->timeout_ms = options->timeout_ms;
        call->name = options->name && *options->name ? options->name : NULL;
        if (call->name)
            call->sig.name = (uint32_t) tp_board_key (call->name, 0) | 1;
        call->callback = options->callback;
        call->user = options->user;
    }
    if (algorithm >= 0 && tp_algorithm_ok (call->sig.kind, algorithm))
        call->sig.algorithm = (uint32_t) algorithm + 1;
    if (call->sig.op == TUTTI_PREMUL_SUM &&
        !tk_scale_ok ((tutti_dtype_t) call->sig.dtype, call->scale))
        return s_bad (call, "tutti_call_t.scale must be finite and, for "
                            "integers, a whole number");
    return TUTTI_OK;
}

static tutti_err_t
s_prepare (tl_comm_t *comm, tl_call_t *call, const tutti_call_t *options)
{
    tutti_err_t err = TUTTI_OK;
    if (call->sig.kind < TP_KINDS && tp_kind_info (call->sig.kind)->uneven)
        err = s_uneven (comm, call, &call->in_list, &call->out_list);
    if (!err)
        err = s_check_sig (comm, call);
    if (!err)
        err = s_check_buffers (comm, call);
    if (!err)
        err = s_apply (comm, call, options);
    return err;
}

//  ------------------------------------------------------------------ running

static tutti_err_t
s_blocking (tutti_comm_t *handle, tl_call_t *call)
{
    tutti_err_t err;
    tl_comm_t *comm = tl_comm_lock (handle, &err);
    if (!comm)
        return err;
    tl_request_t *request;
    err = tl_comm_may_wait (comm, tp_kind_name (call->sig.kind));
    if (!err)
        err = s_prepare (comm, call, NULL);
    if (!err)
        err = tl_request_submit (comm, call, &request);
    free (call->words);
    if (!err) {
        tl_request_wait (request, -1);
        tl_comm_collect (comm);
        err = tl_request_release (request);
    }
    tl_comm_unlock (comm);
    return err;
}

static tutti_err_t
s_async (tutti_comm_t *handle, tl_call_t *call, const tutti_call_t *options,
         tutti_request_t **request_p)
{
    tutti_err_t err;
    tl_comm_t *comm = tl_comm_lock (handle, &err);
    if (!comm)
        return err;
    call->async = true;
    err = s_prepare (comm, call, options);
    if (!err && !request_p && !call->callback)
        err = s_bad (call, "request_p may be NULL only with a callback");
    tl_request_t *request;
    if (!err)
        err = tl_request_submit (comm, call, &request);
    free (call->words);
    if (!err && request_p) {
        request->handle = tl_handle_new (TL_HANDLE_REQUEST, request);
        if (request->handle)
            *request_p = request->handle;
        else
            err = tl_error (TUTTI_ENOMEM, "too many requests are open");
    }
    tl_comm_unlock (comm);
    return err;
}

static tl_call_t
s_call (int kind, const void *in, void *out, size_t count, int dtype, int op,
        int root)
{
    tl_call_t call = { .in = in, .out = out };
    call.sig.kind = (uint8_t) kind;
    call.sig.dtype = (uint8_t) (dtype >= 0 && dtype < 255 ? dtype : 255);
    call.sig.op = (uint8_t) (op >= 0 && op < 255 ? op : 255);
    call.sig.root = root;
    call.sig.count = count;
    return call;
}

static tl_call_t
s_callv (int kind, const void *in, tl_list_t in_list, void *out,
         tl_list_t out_list, int dtype, int op, int root)
{
    tl_call_t call = s_call (kind, in, out, 0, dtype, op, root);
    call.in_list = in_list;
    call.out_list = out_list;
    return call;
}

static tl_list_t
s_one (size_t count)
{
    return (tl_list_t){ .one = count };
}

static tl_list_t
s_each (const size_t *counts, const size_t *displs)
{
    return (tl_list_t){ .counts = counts, .displs = displs };
}

//  ---------------------------------------------------------------- the calls

//  Both forms of a collective: CALL is made of the arguments that follow.
#define COLL(name, call_, ...)                                                \
    tutti_err_t tutti_##name (__VA_ARGS__, tutti_comm_t *comm)                \
    {                                                                         \
        tl_call_t call = call_;                                               \
        return s_blocking (comm, &call);                                      \
    }                                                                         \
    tutti_err_t tutti_##name##_async (__VA_ARGS__, tutti_comm_t *comm,        \
                                      const tutti_call_t *options,            \
                                      tutti_request_t **request_p)            \
    {                                                                         \
        tl_call_t call = call_;                                               \
        return s_async (comm, &call, options, request_p);                     \
    }

#define TYPE (int) dtype
#define OP (int) op

COLL (allreduce, s_call (TP_ALLREDUCE, send, recv, count, TYPE, OP, -1),
      const void *send, void *recv, size_t count, tutti_dtype_t dtype,
      tutti_op_t op)

COLL (allgather, s_call (TP_ALLGATHER, send, recv, send_count, TYPE, 0, -1),
      const void *send, void *recv, size_t send_count, tutti_dtype_t dtype)

COLL (reduce_scatter,
      s_call (TP_REDUCE_SCATTER, send, recv, recv_count, TYPE, OP, -1),
      const void *send, void *recv, size_t recv_count, tutti_dtype_t dtype,
      tutti_op_t op)

COLL (broadcast, s_call (TP_BROADCAST, buf, buf, count, TYPE, 0, root),
      void *buf, size_t count, tutti_dtype_t dtype, int root)

COLL (reduce, s_call (TP_REDUCE, send, recv, count, TYPE, OP, root),
      const void *send, void *recv, size_t count, tutti_dtype_t dtype,
      tutti_op_t op, int root)

COLL (gather, s_call (TP_GATHER, send, recv, send_count, TYPE, 0, root),
      const void *send, void *recv, size_t send_count, tutti_dtype_t dtype,
      int root)

COLL (scatter, s_call (TP_SCATTER, send, recv, recv_count, TYPE, 0, root),
      const void *send, void *recv, size_t recv_count, tutti_dtype_t dtype,
      int root)

COLL (alltoall, s_call (TP_ALLTOALL, send, recv, count_per_peer, TYPE, 0, -1),
      const void *send, void *recv, size_t count_per_peer, tutti_dtype_t dtype)

COLL (allgatherv,
      s_callv (TP_ALLGATHERV, send, s_one (send_count), recv,
               s_each (counts, displs), TYPE, 0, -1),
      const void *send, size_t send_count, void *recv, const size_t *counts,
      const size_t *displs, tutti_dtype_t dtype)

COLL (reduce_scatterv,
      s_callv (TP_REDUCE_SCATTERV, send, s_each (counts, NULL), recv,
               s_each (counts, NULL), TYPE, OP, -1),
      const void *send, void *recv, const size_t *counts, tutti_dtype_t dtype,
      tutti_op_t op)

COLL (gatherv,
      s_callv (TP_GATHERV, send, s_one (send_count), recv,
               s_each (counts, displs), TYPE, 0, root),
      const void *send, size_t send_count, void *recv, const size_t *counts,
      const size_t *displs, tutti_dtype_t dtype, int root)

COLL (scatterv,
      s_callv (TP_SCATTERV, send, s_each (counts, displs), recv,
               s_one (recv_count), TYPE, 0, root),
      const void *send, const size_t *counts, const size_t *displs, void *recv,
      size_t recv_count, tutti_dtype_t dtype, int root)

COLL (alltoallv,
      s_callv (TP_ALLTOALLV, send, s_each (send_counts, send_displs), recv,
               s_each (recv_counts, recv_displs), TYPE, 0, -1),
      const void *send, const size_t *send_counts, const size_t *send_displs,
      void *recv, const size_t *recv_counts, const size_t *recv_displs,
      tutti_dtype_t dtype)

//  Between begin and end ops are deposited, but nobody is woken for each.
tutti_err_t
tutti_batch_begin (tutti_comm_t *handle)
{
    tutti_err_t err;
    tl_comm_t *comm = tl_comm_lock (handle, &err);
    if (!comm)
        return err;
    err = tl_comm_may_wait (comm, "tutti_batch_begin");
    comm->batch = true;
    tl_comm_unlock (comm);
    return err;
}

tutti_err_t
tutti_batch_end (tutti_comm_t *handle)
{
    tutti_err_t err;
    tl_comm_t *comm = tl_comm_lock (handle, &err);
    if (!comm)
        return err;
    if (!comm->batch)
        err = tl_error (TUTTI_ESTATE, "tutti_batch_end without "
                                      "tutti_batch_begin");
    comm->batch = false;
    if (!err) {
        tl_comm_wake (comm);
        tp_bell_ring (comm->session->wake, comm->session->bell);
        tl_comm_progress (comm->session, false);
    }
    tl_comm_unlock (comm);
    return err;
}

//  A message, from ROOT; the other side is PEER.
static tutti_err_t
s_message (tutti_comm_t *handle, tl_call_t *call, int peer, uint32_t tag,
           bool sends)
{
    int rank = tutti_comm_rank (handle), size = tutti_comm_size (handle);
    if (rank < 0)
        return (tutti_err_t) rank;
    if (peer < 0 || peer >= size || peer == rank)
        return tl_error (TUTTI_EINVAL,
                         "%s: peer %d is no other rank of a comm of %d",
                         sends ? "send" : "recv", peer, size);
    call->sig.root = sends ? rank : peer;
    call->peer = (uint32_t) peer;
    call->tag = tag;
    return TUTTI_OK;
}

#define SEND                                                                  \
    s_callv (TP_SENDRECV, buf, s_one (count), NULL, s_one (0), TYPE, 0, -1)
#define RECV                                                                  \
    s_callv (TP_SENDRECV, NULL, s_one (0), buf, s_one (count), TYPE, 0, -1)

tutti_err_t
tutti_send (const void *buf, size_t count, tutti_dtype_t dtype, int peer,
            uint32_t tag, tutti_comm_t *comm)
{
    tl_call_t call = SEND;
    tutti_err_t err = s_message (comm, &call, peer, tag, true);
    return err ? err : s_blocking (comm, &call);
}

tutti_err_t
tutti_send_async (const void *buf, size_t count, tutti_dtype_t dtype, int peer,
                  uint32_t tag, tutti_comm_t *comm,
                  const tutti_call_t *options, tutti_request_t **request_p)
{
    tl_call_t call = SEND;
    tutti_err_t err = s_message (comm, &call, peer, tag, true);
    return err ? err : s_async (comm, &call, options, request_p);
}

tutti_err_t
tutti_recv (void *buf, size_t count, tutti_dtype_t dtype, int peer,
            uint32_t tag, tutti_comm_t *comm)
{
    tl_call_t call = RECV;
    tutti_err_t err = s_message (comm, &call, peer, tag, false);
    return err ? err : s_blocking (comm, &call);
}

tutti_err_t
tutti_recv_async (void *buf, size_t count, tutti_dtype_t dtype, int peer,
                  uint32_t tag, tutti_comm_t *comm,
                  const tutti_call_t *options, tutti_request_t **request_p)
{
    tl_call_t call = RECV;
    tutti_err_t err = s_message (comm, &call, peer, tag, false);
    return err ? err : s_async (comm, &call, options, request_p);
}

#define BARRIER s_call (TP_BARRIER, NULL, NULL, 0, TUTTI_UINT8, 0, -1)

tutti_err_t
tutti_barrier (tutti_comm_t *comm)
{
    tl_call_t call = BARRIER;
    return s_blocking (comm, &call);
}

tutti_err_t
tutti_barrier_async (tutti_comm_t *comm, const tutti_call_t *options,
                     tutti_request_t **request_p)
{
    tl_call_t call = BARRIER;
    return s_async (comm, &call, options, request_p);
}
