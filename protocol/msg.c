//  protocol/msg.c - control messages: pack, unpack, check

#include "protocol/msg.h"

#include "protocol/handshake.h"
#include "protocol/plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LABELS_MAX 64
#define JOBS_MAX 4096
#define BUCKETS_MAX 64
#define HEARTBEAT_MAX_MS 60000
#define CODE_MIN (-79)  //  the lowest scope of tutti_err_t

tutti_err_t
tp_msg_pack (const Tutti__Envelope *envelope, uint8_t **bytes_p, size_t *len_p)
{
    size_t len = tutti__envelope__get_packed_size (envelope);
    uint8_t *bytes = malloc (len + 1);
    if (!bytes)
        return TUTTI_ENOMEM;
    tutti__envelope__pack (envelope, bytes);
    *bytes_p = bytes;
    *len_p = len;
    return TUTTI_OK;
}

//  ------------------------------------------------------------------ checks
//
//  Each returns what is wrong, or NULL.

static const char *
s_text (const char *text, size_t max)
{
    size_t len = strnlen (text, max);
    if (len >= max)
        return "a string is too long";
    for (size_t i = 0; i < len; i++)
        if ((unsigned char) text[i] < 32 || text[i] == 127)
            return "a string has control characters";
    return NULL;
}

static const char *
s_texts (size_t n, char **texts, size_t n_max, size_t max)
{
    const char *wrong = n > n_max ? "a list is too long" : NULL;
    for (size_t i = 0; !wrong && i < n; i++)
        wrong = s_text (texts[i], max);
    return wrong;
}

static const char *
s_name (const char *name)
{
    return tp_name_ok (name) ? NULL : "a name is not [A-Za-z0-9._-]{1,63}";
}

static const char *
s_rank (uint32_t rank)
{
    return rank < TP_RANKS_MAX ? NULL : "a rank is out of range";
}

static const char *
s_hello (const Tutti__Hello *m)
{
    const char *wrong = s_name (m->node);
    if (!wrong)
        wrong = s_text (m->host, TP_NAME_MAX);
    if (!wrong)
        wrong = s_text (m->version, TP_NAME_MAX);
    if (!wrong)
        wrong = s_text (m->data_host, TP_TEXT_MAX);
    return wrong ? wrong
                 : s_texts (m->n_labels, m->labels, LABELS_MAX, TP_TEXT_MAX);
}

static const char *
s_progress (const Tutti__Progress *m)
{
    const char *wrong = s_name (m->job);
    if (!wrong)
        wrong = s_text (m->transport, TP_NAME_MAX);
    if (!wrong && m->epoch < 0)
        wrong = "an epoch is negative";
    if (!wrong && (m->n_ranks > TP_LOCAL_MAX || m->n_kinds > TP_KINDS))
        wrong = "a list is too long";
    for (size_t i = 0; !wrong && i < m->n_ranks; i++) {
        wrong = s_rank (m->ranks[i]->rank);
        if (!wrong)
            wrong = s_text (m->ranks[i]->op, TP_TEXT_MAX);
        if (!wrong)
            wrong = s_text (m->ranks[i]->path, TP_NAME_MAX);
    }
    for (size_t i = 0; !wrong && i < m->n_kinds; i++)
        if (m->kinds[i]->n_buckets > BUCKETS_MAX)
            wrong = "a list is too long";
        else if (m->kinds[i]->kind >= TP_KINDS)
            wrong = "a kind is out of range";
    return wrong;
}

static const char *
s_heartbeat (const Tutti__Heartbeat *m)
{
    const char *wrong = m->n_progress > JOBS_MAX ? "a list is too long" : NULL;
    for (size_t i = 0; !wrong && i < m->n_progress; i++)
        wrong = s_progress (m->progress[i]);
    return wrong;
}

static const char *
s_config (const Tutti__Config *m)
{
    if (!m)
        return "a config is missing";
    if (m->elastic_min > m->elastic_max || m->elastic_max > TP_RANKS_MAX)
        return "an elastic range is none";
    const char *wrong = s_text (m->algorithm, TP_NAME_MAX);
    if (!wrong)
        wrong = s_text (m->transport, TP_NAME_MAX);
    if (!wrong)
        wrong = s_text (m->library, TP_VERSION_MAX);
    return wrong ? wrong : s_text (m->agent, TP_VERSION_MAX);
}

static const char *
s_data (size_t n, char **data)
{
    if (n == 0)
        return "a data address is missing";
    return s_texts (n, data, TP_CHANNELS_MAX, TP_TEXT_MAX);
}

static const char *
s_join (const Tutti__Join *m)
{
    const char *wrong = s_rank (m->rank);
    if (!wrong && (m->size == 0 || m->size > TP_RANKS_MAX))
        wrong = "a job's size is out of range";
    if (!wrong && m->local_rank >= TP_LOCAL_MAX)
        wrong = "a local rank is out of range";
    if (!wrong)
        wrong = s_text (m->host, TP_NAME_MAX);
    if (!wrong)
        wrong = s_data (m->n_data, m->data);
    if (!wrong)
        wrong = s_config (m->config);
    return wrong ? wrong : s_text (m->build, TP_BUILD_MAX);
}

static bool
s_cost (double value)
{
    return isfinite (value) && value >= 0;
}

static const char *
s_plan (const Tutti__Plan *m)
{
    if (!m)
        return "a plan is missing";
    if (!s_cost (m->alpha_us) || !s_cost (m->beta_us_per_mib) ||
        !s_cost (m->gamma_us_per_mib))
        return "a cost is no number";
    return m->channels <= TP_CHANNELS_MAX ? NULL : "too many channels";
}

//  SEEN has a bit for every rank: each belongs to one node.
static const char *
s_member (const Tutti__Member *m, uint32_t size, uint8_t *seen)
{
    const char *wrong = s_name (m->node);
    if (!wrong)
        wrong = s_data (m->n_data, m->data);
    if (!wrong && (m->n_ranks == 0 || m->n_ranks > TP_LOCAL_MAX))
        wrong = "a node's ranks are too few or too many";
    for (size_t k = 0; !wrong && k < m->n_ranks; k++) {
        uint32_t rank = m->ranks[k];
        if (rank >= size)
            return "a rank is out of range";
        uint8_t bit = (uint8_t) (1u << rank % 8);
        if (seen[rank / 8] & bit)
            return "a rank is there twice";
        seen[rank / 8] |= bit;
    }
    return wrong;
}

static const char *
s_members (const Tutti__Start *m)
{
    uint8_t seen[TP_RANKS_MAX / 8] = { 0 };
    const char *wrong = NULL;
    size_t ranks = 0;
    for (size_t i = 0; !wrong && i < m->n_members; i++) {
        wrong = s_member (m->members[i], m->size, seen);
        ranks += m->members[i]->n_ranks;
    }
    return wrong || ranks == m->size ? wrong : "ranks do not add up";
}

static const char *
s_start (const Tutti__Start *m)
{
    const char *wrong = s_config (m->config);
    if (!wrong)
        wrong = s_plan (m->plan);
    if (!wrong && m->key.len != TP_KEY_BYTES)
        wrong = "a key has the wrong length";
    if (!wrong && (m->size == 0 || m->size > TP_RANKS_MAX ||
                   m->n_members == 0 || m->n_members > TP_NODES_MAX))
        wrong = "a job's size is out of range";
    return wrong ? wrong : s_members (m);
}

static const char *
s_lost (const Tutti__Lost *m)
{
    const char *wrong = s_rank (m->rank);
    if (!wrong)
        wrong = s_name (m->node);
    return wrong ? wrong : s_text (m->cause, TP_TEXT_MAX);
}

//  A refusal or an abort: who, why, and one sentence.
static const char *
s_verdict (uint32_t rank, int32_t code, const char *text)
{
    if (code >= 0 || code < CODE_MIN)
        return "an error code is out of range";
    const char *wrong = s_rank (rank);
    return wrong ? wrong : s_text (text, TP_TEXT_MAX);
}

static const char *
s_welcome (const Tutti__Welcome *m)
{
    if (m->heartbeat_ms == 0 || m->heartbeat_ms > HEARTBEAT_MAX_MS)
        return "heartbeat_ms is out of range";
    return s_text (m->version, TP_NAME_MAX);
}

static const char *
s_forming (const Tutti__Forming *m)
{
    if (m->size == 0 || m->size > TP_RANKS_MAX || m->present > m->size)
        return "a job's size is out of range";
    return s_text (m->missing, TP_TEXT_MAX);
}

static const char *
s_body (const Tutti__Envelope *e)
{
    switch (e->body_case) {
    case TUTTI__ENVELOPE__BODY_HELLO:
        return s_hello (e->hello);
    case TUTTI__ENVELOPE__BODY_WELCOME:
        return s_welcome (e->welcome);
    case TUTTI__ENVELOPE__BODY_HEARTBEAT:
        return s_heartbeat (e->heartbeat);
    case TUTTI__ENVELOPE__BODY_REFUSE:
        return s_verdict (e->refuse->rank, e->refuse->code, e->refuse->text);
    case TUTTI__ENVELOPE__BODY_JOIN:
        return s_join (e->join);
    case TUTTI__ENVELOPE__BODY_FORMING:
        return s_forming (e->forming);
    case TUTTI__ENVELOPE__BODY_START:
        return s_start (e->start);
    case TUTTI__ENVELOPE__BODY_LOST:
        return s_lost (e->lost);
    case TUTTI__ENVELOPE__BODY_LEAVE:
        return s_rank (e->leave->rank);
    case TUTTI__ENVELOPE__BODY_ABORT:
        return s_verdict (e->abort->rank, e->abort->code, e->abort->text);
    case TUTTI__ENVELOPE__BODY_FINISHED:
        return s_text (e->finished->reason, TP_TEXT_MAX);
    case TUTTI__ENVELOPE__BODY_STALL:
        return e->stall->sig.len != sizeof (tp_sig_t)
                   ? "a signature has the wrong size"
                   : s_text (e->stall->text, TP_TEXT_MAX);
    case TUTTI__ENVELOPE__BODY_READY:
    case TUTTI__ENVELOPE__BODY_GO:
    case TUTTI__ENVELOPE__BODY_GOODBYE:
        return NULL;
    default:
        return "no body";
    }
}

//  Messages about a job name it; those about the node name none.
static const char *
s_job (const Tutti__Envelope *e)
{
    bool node = e->body_case == TUTTI__ENVELOPE__BODY_HELLO ||
                e->body_case == TUTTI__ENVELOPE__BODY_HEARTBEAT ||
                e->body_case == TUTTI__ENVELOPE__BODY_GOODBYE;
    bool either = e->body_case == TUTTI__ENVELOPE__BODY_REFUSE ||
                  e->body_case == TUTTI__ENVELOPE__BODY_WELCOME;
    if (node || (either && e->job[0] == 0))
        return NULL;
    return s_name (e->job);
}

tutti_err_t
tp_msg_unpack (const uint8_t *bytes, size_t len, Tutti__Envelope **envelope_p,
               char *text)
{
    const char *wrong = len > TP_MSG_MAX ? "too long" : NULL;
    Tutti__Envelope *e =
        wrong ? NULL : tutti__envelope__unpack (NULL, len, bytes);
    if (!wrong && !e)
        wrong = "not a protobuf message of tutti.proto";
    if (!wrong && e->protocol >> 16 == 0)
        wrong = "no protocol version";
    if (!wrong && e->protocol >> 16 != TP_PROTOCOL_MAJOR) {
        if (text)
            snprintf (text, TP_TEXT_MAX,
                      "protocol %u.%u, but this side speaks %d.%d",
                      e->protocol >> 16, e->protocol & 0xffff,
                      TP_PROTOCOL_MAJOR, TP_PROTOCOL_MINOR);
        tp_msg_free (&e);
        return TUTTI_EVERSION;
    }
    if (!wrong && e->epoch < 0)
        wrong = "an epoch is negative";
    if (!wrong)
        wrong = s_job (e);
    if (!wrong)
        wrong = s_body (e);
    if (!wrong) {
        *envelope_p = e;
        return TUTTI_OK;
    }
    if (text)
        snprintf (text, TP_TEXT_MAX, "%s%s%s", e ? tp_msg_name (e) : "",
                  e ? ": " : "", wrong);
    tp_msg_free (&e);
    return TUTTI_EPROTO;
}

void
tp_msg_free (Tutti__Envelope **envelope_p)
{
    if (*envelope_p)
        tutti__envelope__free_unpacked (*envelope_p, NULL);
    *envelope_p = NULL;
}

const char *
tp_msg_name (const Tutti__Envelope *envelope)
{
    static const struct {
        int body;
        const char *name;
    } names[] = {
        { TUTTI__ENVELOPE__BODY_HELLO, "HELLO" },
        { TUTTI__ENVELOPE__BODY_WELCOME, "WELCOME" },
        { TUTTI__ENVELOPE__BODY_HEARTBEAT, "HEARTBEAT" },
        { TUTTI__ENVELOPE__BODY_GOODBYE, "GOODBYE" },
        { TUTTI__ENVELOPE__BODY_REFUSE, "REFUSE" },
        { TUTTI__ENVELOPE__BODY_JOIN, "JOIN" },
        { TUTTI__ENVELOPE__BODY_FORMING, "FORMING" },
        { TUTTI__ENVELOPE__BODY_START, "START" },
        { TUTTI__ENVELOPE__BODY_READY, "READY" },
        { TUTTI__ENVELOPE__BODY_GO, "GO" },
        { TUTTI__ENVELOPE__BODY_LOST, "LOST" },
        { TUTTI__ENVELOPE__BODY_LEAVE, "LEAVE" },
        { TUTTI__ENVELOPE__BODY_ABORT, "ABORT" },
        { TUTTI__ENVELOPE__BODY_FINISHED, "FINISHED" },
        { TUTTI__ENVELOPE__BODY_STALL, "STALL" },
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].body == (int) envelope->body_case)
            return names[i].name;
    return "EMPTY";
}
