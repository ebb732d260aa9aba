//  client/calls.c - the collectives: check the arguments, submit, wait
//
//  Every call becomes a tl_call_t. Arguments are checked always, before
//  anything is touched; a bad one fails at once with a text that names it.

#include "client/comm.h"

#include "client/error.h"
#include "client/handle.h"
#include "protocol/schedule.h"

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
    if (sig->kind == TP_BROADCAST)
        return tl_error (TUTTI_EINVAL,
                         "%s: root %d is not a rank of a comm of %u",
                         tp_kind_name (sig->kind), sig->root, comm->size);
    return tl_error (TUTTI_EINVAL, "%s: operation %s is not defined for %s",
                     tp_kind_name (sig->kind), tp_op_name (sig->op),
                     tp_dtype_name (sig->dtype));
}

//  The one allowed overlap of input and output of each kind.
static const void *
s_in_place (const tl_comm_t *comm, const tl_call_t *call)
{
    uint64_t piece = call->sig.count * tp_dtype_size (call->sig.dtype);
    switch (call->sig.kind) {
    case TP_ALLGATHER:
        return (uint8_t *) call->out + comm->rank * piece;
    case TP_REDUCE_SCATTER:
        return (uint8_t *) call->out - comm->rank * piece;
    default:
        return call->out;
    }
}

static tutti_err_t
s_check_buffers (const tl_comm_t *comm, tl_call_t *call)
{
    tp_geo_t geo;
    if (tp_geo_make (&geo, &call->sig, comm->size, comm->board->segment_bytes))
        return s_bad (call, "too many elements");
    bool root = call->sig.kind != TP_BROADCAST ||
                call->sig.root == (int32_t) comm->rank;
    uint64_t in = tp_geo_in_bytes (&geo, root);
    uint64_t out = tp_geo_out_bytes (&geo);
    if (call->in == TUTTI_IN_PLACE)
        call->in = s_in_place (comm, call);
    if (in > 0 && !call->in)
        return s_bad (call, "the input is NULL");
    if (out > 0 && !call->out)
        return s_bad (call, "the output is NULL");
    if (call->sig.kind == TP_BROADCAST || in == 0 || out == 0 ||
        call->in == s_in_place (comm, call))
        return TUTTI_OK;
    uintptr_t a = (uintptr_t) call->in, b = (uintptr_t) call->out;
    if (a < b + out && b < a + in)
        return s_bad (call, "input and output overlap, but not in the way "
                            "that is in place (see tutti.h)");
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
        call->priority = options->priority;
        call->timeout_ms = options->timeout_ms;
        call->name = options->name;
        call->callback = options->callback;
        call->user = options->user;
    }
    if (algorithm >= 0 && tp_algorithm_ok (call->sig.kind, algorithm))
        call->sig.algorithm = (uint32_t) algorithm + 1;
    return TUTTI_OK;
}

static tutti_err_t
s_prepare (tl_comm_t *comm, tl_call_t *call, const tutti_call_t *options)
{
    tutti_err_t err = s_check_sig (comm, call);
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
    err = s_prepare (comm, call, NULL);
    if (!err)
        err = tl_request_submit (comm, call, &request);
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

#define ALLREDUCE                                                             \
    s_call (TP_ALLREDUCE, send, recv, count, (int) dtype, (int) op, -1)
#define ALLGATHER                                                             \
    s_call (TP_ALLGATHER, send, recv, send_count, (int) dtype, 0, -1)
#define REDUCE_SCATTER                                                        \
    s_call (TP_REDUCE_SCATTER, send, recv, recv_count, (int) dtype, (int) op, \
            -1)
#define BROADCAST s_call (TP_BROADCAST, buf, buf, count, (int) dtype, 0, root)
#define BARRIER s_call (TP_BARRIER, NULL, NULL, 0, TUTTI_UINT8, 0, -1)

tutti_err_t
tutti_allreduce (const void *send, void *recv, size_t count,
                 tutti_dtype_t dtype, tutti_op_t op, tutti_comm_t *comm)
{
    tl_call_t call = ALLREDUCE;
    return s_blocking (comm, &call);
}

tutti_err_t
tutti_allreduce_async (const void *send, void *recv, size_t count,
                       tutti_dtype_t dtype, tutti_op_t op, tutti_comm_t *comm,
                       const tutti_call_t *options,
                       tutti_request_t **request_p)
{
    tl_call_t call = ALLREDUCE;
    return s_async (comm, &call, options, request_p);
}

tutti_err_t
tutti_allgather (const void *send, void *recv, size_t send_count,
                 tutti_dtype_t dtype, tutti_comm_t *comm)
{
    tl_call_t call = ALLGATHER;
    return s_blocking (comm, &call);
}

tutti_err_t
tutti_allgather_async (const void *send, void *recv, size_t send_count,
                       tutti_dtype_t dtype, tutti_comm_t *comm,
                       const tutti_call_t *options,
                       tutti_request_t **request_p)
{
    tl_call_t call = ALLGATHER;
    return s_async (comm, &call, options, request_p);
}

tutti_err_t
tutti_reduce_scatter (const void *send, void *recv, size_t recv_count,
                      tutti_dtype_t dtype, tutti_op_t op, tutti_comm_t *comm)
{
    tl_call_t call = REDUCE_SCATTER;
    return s_blocking (comm, &call);
}

tutti_err_t
tutti_reduce_scatter_async (const void *send, void *recv, size_t recv_count,
                            tutti_dtype_t dtype, tutti_op_t op,
                            tutti_comm_t *comm, const tutti_call_t *options,
                            tutti_request_t **request_p)
{
    tl_call_t call = REDUCE_SCATTER;
    return s_async (comm, &call, options, request_p);
}

tutti_err_t
tutti_broadcast (void *buf, size_t count, tutti_dtype_t dtype, int root,
                 tutti_comm_t *comm)
{
    tl_call_t call = BROADCAST;
    return s_blocking (comm, &call);
}

tutti_err_t
tutti_broadcast_async (void *buf, size_t count, tutti_dtype_t dtype, int root,
                       tutti_comm_t *comm, const tutti_call_t *options,
                       tutti_request_t **request_p)
{
    tl_call_t call = BROADCAST;
    return s_async (comm, &call, options, request_p);
}

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
