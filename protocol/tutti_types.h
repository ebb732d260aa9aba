//  protocol/tutti_types.h - words shared by the library and the daemons
//
//  Installed beside tutti.h. Values travel on the wire and live in shared
//  memory: they are never renumbered.

#ifndef TUTTI_TYPES_H
#define TUTTI_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TUTTI_VERSION_MAJOR 0
#define TUTTI_VERSION_MINOR 1
#define TUTTI_VERSION_PATCH 0

//  Every error: identifier, value, sentence. The value's range is its scope
//  (tutti_err_scope): -1..-19 the call, -20..-39 the operation, -40..-59 the
//  communicator, -60..-79 the session.
#define TUTTI_ERR_MAP(X)                                                      \
    X (OK, 0, "success")                                                      \
    X (EINVAL, -1, "invalid argument")                                        \
    X (ENOMEM, -2, "out of memory")                                           \
    X (ESTATE, -3, "not allowed in this state")                               \
    X (ENOTSUP, -4, "not supported")                                          \
    X (EPERM, -5, "operation not permitted")                                  \
    X (EAGAIN, -6, "not yet; try again")                                      \
    X (EPROTO, -7, "malformed message")                                       \
    X (EHANDLE, -8, "stale or foreign handle")                                \
    X (ECANCELED, -20, "operation cancelled")                                 \
    X (ETRUNC, -21, "message longer than the buffer")                         \
    X (EPEERLOST, -40, "a rank of the communicator was lost")                 \
    X (EABORTED, -41, "communicator aborted")                                 \
    X (EMISMATCH, -42, "ranks called different operations")                   \
    X (ETIMEDOUT, -43, "operation passed its deadline")                       \
    X (EDEVICE, -44, "device error")                                          \
    X (ECORRUPT, -45, "data corrupted on the way")                            \
    X (EAGENTLOST, -60, "the agent is gone")                                  \
    X (EVERSION, -61, "incompatible versions")                                \
    X (EJOIN, -62, "the job could not be joined")                             \
    X (EDENIED, -63, "access denied")

typedef enum tutti_err {
#define TUTTI_ERR_ENUM(name, value, text) TUTTI_##name = (value),
    TUTTI_ERR_MAP (TUTTI_ERR_ENUM)
#undef TUTTI_ERR_ENUM
} tutti_err_t;

//  What an error kills; tutti_err_scope () returns one of these.
#define TUTTI_SCOPE_CALL 0
#define TUTTI_SCOPE_OP 1
#define TUTTI_SCOPE_COMM 2
#define TUTTI_SCOPE_SESSION 3

typedef enum tutti_dtype {
    TUTTI_INT8,
    TUTTI_UINT8,
    TUTTI_INT32,
    TUTTI_UINT32,
    TUTTI_INT64,
    TUTTI_UINT64,
    TUTTI_FLOAT16,
    TUTTI_BFLOAT16,
    TUTTI_FLOAT32,
    TUTTI_FLOAT64,
    TUTTI_FLOAT8E4M3,
    TUTTI_FLOAT8E5M2
} tutti_dtype_t;
#define TUTTI_DTYPES 12

typedef enum tutti_op {
    TUTTI_SUM,
    TUTTI_PROD,
    TUTTI_MIN,
    TUTTI_MAX,
    TUTTI_AVG,
    TUTTI_PREMUL_SUM,
    TUTTI_BAND,
    TUTTI_BOR,
    TUTTI_BXOR
} tutti_op_t;
#define TUTTI_OPS 9

typedef enum tutti_space { TUTTI_HOST, TUTTI_DEVICE } tutti_space_t;

#ifdef __cplusplus
}
#endif
#endif
