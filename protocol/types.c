//  protocol/types.c - collectives, signatures and names

#include "protocol/types.h"

#include "protocol/schedule.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define NONE TP_FORM_NONE
#define ONE TP_FORM_ONE
#define EACH TP_FORM_EACH
#define ALL TP_WHO_ALL
#define ROOT TP_WHO_ROOT
#define OTHERS TP_WHO_OTHERS

static const tp_kind_info_t s_kinds[TP_KINDS] = {
    //  name, input, whose, output, whose, reduces, rooted, uneven, even kind
    [TP_BARRIER] = { "barrier", NONE, ALL, NONE, ALL, 0, 0, 0, TP_BARRIER },
    [TP_ALLREDUCE] = { "allreduce", ONE, ALL, ONE, ALL, 1, 0, 0,
                       TP_ALLREDUCE },
    [TP_ALLGATHER] = { "allgather", ONE, ALL, EACH, ALL, 0, 0, 0,
                       TP_ALLGATHER },
    [TP_REDUCE_SCATTER] = { "reduce_scatter", EACH, ALL, ONE, ALL, 1, 0, 0,
                            TP_REDUCE_SCATTER },
    [TP_BROADCAST] = { "broadcast", ONE, ROOT, ONE, OTHERS, 0, 1, 0,
                       TP_BROADCAST },
    [TP_REDUCE] = { "reduce", ONE, ALL, ONE, ROOT, 1, 1, 0, TP_REDUCE },
    [TP_GATHER] = { "gather", ONE, ALL, EACH, ROOT, 0, 1, 0, TP_GATHER },
    [TP_SCATTER] = { "scatter", EACH, ROOT, ONE, ALL, 0, 1, 0, TP_SCATTER },
    [TP_ALLTOALL] = { "alltoall", EACH, ALL, EACH, ALL, 0, 0, 0, TP_ALLTOALL },
    [TP_ALLGATHERV] = { "allgatherv", ONE, ALL, EACH, ALL, 0, 0, 1,
                        TP_ALLGATHER },
    [TP_REDUCE_SCATTERV] = { "reduce_scatterv", EACH, ALL, ONE, ALL, 1, 0, 1,
                             TP_REDUCE_SCATTER },
    [TP_GATHERV] = { "gatherv", ONE, ALL, EACH, ROOT, 0, 1, 1, TP_GATHER },
    [TP_SCATTERV] = { "scatterv", EACH, ROOT, ONE, ALL, 0, 1, 1, TP_SCATTER },
    [TP_ALLTOALLV] = { "alltoallv", EACH, ALL, EACH, ALL, 0, 0, 1,
                       TP_ALLTOALL },
    [TP_SENDRECV] = { "sendrecv", ONE, ROOT, ONE, OTHERS, 0, 1, 1,
                      TP_SENDRECV },
};

#undef NONE
#undef ONE
#undef EACH
#undef ALL
#undef ROOT
#undef OTHERS

static const struct {
    const char *name;
    size_t size;
} s_dtypes[TUTTI_DTYPES] = {
    [TUTTI_INT8] = { "int8", 1 },
    [TUTTI_UINT8] = { "uint8", 1 },
    [TUTTI_INT32] = { "int32", 4 },
    [TUTTI_UINT32] = { "uint32", 4 },
    [TUTTI_INT64] = { "int64", 8 },
    [TUTTI_UINT64] = { "uint64", 8 },
    [TUTTI_FLOAT16] = { "float16", 2 },
    [TUTTI_BFLOAT16] = { "bfloat16", 2 },
    [TUTTI_FLOAT32] = { "float32", 4 },
    [TUTTI_FLOAT64] = { "float64", 8 },
    [TUTTI_FLOAT8E4M3] = { "float8e4m3", 1 },
    [TUTTI_FLOAT8E5M2] = { "float8e5m2", 1 },
};

static const char *const s_ops[TUTTI_OPS] = {
    [TUTTI_SUM] = "sum",   [TUTTI_PROD] = "prod",
    [TUTTI_MIN] = "min",   [TUTTI_MAX] = "max",
    [TUTTI_AVG] = "avg",   [TUTTI_PREMUL_SUM] = "premul_sum",
    [TUTTI_BAND] = "band", [TUTTI_BOR] = "bor",
    [TUTTI_BXOR] = "bxor",
};

size_t
tp_dtype_size (int dtype)
{
    return dtype >= 0 && dtype < TUTTI_DTYPES ? s_dtypes[dtype].size : 0;
}

const char *
tp_kind_name (int kind)
{
    return kind >= 0 && kind < TP_KINDS ? s_kinds[kind].name : "?";
}

const tp_kind_info_t *
tp_kind_info (int kind)
{
    return &s_kinds[kind];
}

static tp_form_t
s_form (const tp_sig_t *sig, tp_form_t form, tp_who_t who, uint32_t rank)
{
    bool root = sig->root == (int32_t) rank;
    bool has = who == TP_WHO_ALL || (who == TP_WHO_ROOT ? root : !root);
    return has ? form : TP_FORM_NONE;
}

tp_form_t
tp_form_in (const tp_sig_t *sig, uint32_t rank)
{
    const tp_kind_info_t *info = &s_kinds[sig->kind];
    return s_form (sig, info->in, info->in_who, rank);
}

tp_form_t
tp_form_out (const tp_sig_t *sig, uint32_t rank)
{
    const tp_kind_info_t *info = &s_kinds[sig->kind];
    return s_form (sig, info->out, info->out_who, rank);
}

const char *
tp_dtype_name (int dtype)
{
    return dtype >= 0 && dtype < TUTTI_DTYPES ? s_dtypes[dtype].name : "?";
}

const char *
tp_op_name (int op)
{
    return op >= 0 && op < TUTTI_OPS ? s_ops[op] : "?";
}

//  The value below COUNT whose NAME_OF is NAME, or -1.
static int
s_value (const char *name, int count, const char *(*name_of) (int) )
{
    for (int i = 0; name && i < count; i++) {
        if (strcmp (name, name_of (i)) == 0)
            return i;
    }
    return -1;
}

int
tp_kind_value (const char *name)
{
    return s_value (name, TP_KINDS, tp_kind_name);
}

int
tp_dtype_value (const char *name)
{
    return s_value (name, TUTTI_DTYPES, tp_dtype_name);
}

int
tp_op_value (const char *name)
{
    return s_value (name, TUTTI_OPS, tp_op_name);
}

bool
tp_overwrites (const tp_sig_t *sig)
{
    return sig->kind == TP_ALLREDUCE || sig->kind == TP_ALLTOALL;
}

//  All ranks know all counts: the signature tells them apart.
static bool
s_counts_hashed (int kind)
{
    return kind == TP_ALLGATHERV || kind == TP_REDUCE_SCATTERV;
}

static bool
s_reduces (int kind)
{
    return kind >= 0 && kind < TP_KINDS && s_kinds[kind].reduces;
}

static bool
s_op_ok (const tp_sig_t *sig)
{
    if (!s_reduces (sig->kind))
        return sig->op == 0;
    if (sig->op == TUTTI_BAND || sig->op == TUTTI_BOR || sig->op == TUTTI_BXOR)
        return sig->dtype <= TUTTI_UINT64;
    return sig->op < TUTTI_OPS;
}

bool
tp_sig_ok (const tp_sig_t *sig, uint32_t size)
{
    if (sig->kind >= TP_KINDS || sig->dtype >= TUTTI_DTYPES ||
        !s_op_ok (sig) ||
        (sig->flags & ~(TP_SIG_WIDE | TP_SIG_REPRODUCIBLE)) != 0 ||
        sig->algorithm > TP_ALGORITHMS)
        return false;
    const tp_kind_info_t *info = &s_kinds[sig->kind];
    if (s_counts_hashed (sig->kind))
        return sig->root >= 0;
    if (info->uneven && sig->count != 0)
        return false;
    if (info->rooted)
        return sig->root >= 0 && (uint32_t) sig->root < size;
    return sig->root == -1;
}

//  Append to TEXT, of LEN bytes; what does not fit is cut.
__attribute__ ((format (printf, 3, 4))) static void
s_append (char *text, size_t len, const char *format, ...)
{
    size_t used = strlen (text);
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (text + used, len - used, format, arguments);
    va_end (arguments);
}

void
tp_sig_text (const tp_sig_t *sig, char *text, size_t len)
{
    if (len == 0)
        return;
    text[0] = 0;
    s_append (text, len, "%s", tp_kind_name (sig->kind));
    if (sig->kind != TP_BARRIER)
        s_append (text, len, " %s", tp_dtype_name (sig->dtype));
    bool told = sig->kind >= TP_KINDS || !s_kinds[sig->kind].uneven ||
                s_counts_hashed (sig->kind);
    if (sig->kind != TP_BARRIER && told)
        s_append (text, len, " x%llu", (unsigned long long) sig->count);
    if (s_reduces (sig->kind))
        s_append (text, len, " %s", tp_op_name (sig->op));
    if (s_counts_hashed (sig->kind))
        s_append (text, len, " counts #%08x", (unsigned) sig->root);
    else if (sig->root != -1)
        s_append (text, len, " root %d", (int) sig->root);
    if (sig->flags & TP_SIG_WIDE)
        s_append (text, len, " wide");
    if (sig->flags & TP_SIG_REPRODUCIBLE)
        s_append (text, len, " reproducible");
    if (sig->algorithm != 0)
        s_append (text, len, " algorithm %u", (unsigned) sig->algorithm - 1);
    if (sig->name != 0)
        s_append (text, len, " name #%08x", (unsigned) sig->name);
}

bool
tp_name_ok (const char *name)
{
    static const char legal[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "abcdefghijklmnopqrstuvwxyz"
                                "0123456789._-";
    //  memchr first: a name that is read from a peer may lack its zero.
    if (!name || !memchr (name, 0, TP_NAME_MAX))
        return false;
    size_t len = strlen (name);
    return len > 0 && strspn (name, legal) == len;
}
