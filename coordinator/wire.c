//  coordinator/wire.c - the ROUTER socket, its options and who may connect
//
//  CURVE proves that a peer has a secret key; whether that key may come in is
//  asked of the handler of "inproc://zeromq.zap.01" (RFC 27/ZAP). Ours admits
//  the listed keys and answers with the key as User-Id.

#include "coordinator/wire.h"

#include "coordinator/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zmq.h>

#define Z85 TC_KEY_MAX
#define AGENTS_MAX 4096

typedef struct agent_key {
    char public[Z85];
    char node[TP_NAME_MAX];  //  whose it is; "": any
} agent_key_t;

//  Owned by the loop; the ZAP thread has zap and reads agents.
struct tc_wire {
    void *context, *socket, *zap;
    pthread_t zap_thread;
    bool zap_runs;
    char endpoint[256];
    char secret[Z85], public[Z85];
    agent_key_t *agents;
    size_t n_agents;
};

//  ----------------------------------------------------------------- the keys

//  A stream over the file or the inherited descriptor; closing it closes
//  the latter too, so that no child can read it.
static FILE *
s_open_keys (const char *keys, char *text)
{
    struct stat info;
    char *end = "";
    bool inherited = strncmp (keys, "fd:", 3) == 0;
    long number = inherited ? strtol (keys + 3, &end, 10) : -1;
    int fd = -1;
    if (!inherited)
        fd = open (keys, O_RDONLY | O_CLOEXEC);
    else if (keys[3] && !*end && number > 2 && number < 65536)
        fd = (int) number;
    FILE *file = fd >= 0 ? fdopen (fd, "r") : NULL;
    if (!file || fstat (fd, &info) != 0) {
        snprintf (text, TP_TEXT_MAX, "cannot read the keys from %.200s: %s",
                  keys, inherited ? "no such descriptor" : strerror (errno));
        if (file)
            fclose (file);
        return NULL;
    }
    if (!inherited && S_ISREG (info.st_mode) && (info.st_mode & 077)) {
        snprintf (text, TP_TEXT_MAX,
                  "keys %.200s: others may read the file (mode %03o); say: "
                  "chmod 600 %.200s",
                  keys, (unsigned) info.st_mode & 0777, keys);
        fclose (file);
        return NULL;
    }
    if (inherited)
        fseek (file, 0, SEEK_SET);  //  the writer's place; fails on a pipe
    return file;
}

static bool
s_add_agent (tc_wire_t *self, const char *key, const char *node)
{
    if (self->n_agents == AGENTS_MAX)
        return false;
    agent_key_t *agent = &self->agents[self->n_agents++];
    snprintf (agent->public, sizeof agent->public, "%s", key);
    snprintf (agent->node, sizeof agent->node, "%s", node);
    return true;
}

//  One line; false if it is none of ours.
static bool
s_take_key (tc_wire_t *self, const char *line)
{
    char name[32], value[64], node[TP_NAME_MAX] = "";
    uint8_t raw[32];
    if (line[0] == '#' || line[strspn (line, " \t\r\n")] == 0)
        return true;
    bool ok = sscanf (line, "%31s %63s %63s", name, value, node) >= 2 &&
              (!node[0] || tp_name_ok (node)) && strlen (value) == Z85 - 1 &&
              zmq_z85_decode (raw, value);
    if (!ok)
        return false;
    sodium_memzero (raw, sizeof raw);
    if (strcmp (name, "coordinator_secret") == 0)
        memcpy (self->secret, value, Z85);
    else if (strcmp (name, "coordinator_public") == 0)
        memcpy (self->public, value, Z85);
    else if (strcmp (name, "agent_public") == 0)
        ok = s_add_agent (self, value, node);
    else
        ok = strcmp (name, "agent_secret") == 0;  //  one file for both
    sodium_memzero (value, sizeof value);
    return ok;
}

static bool
s_keys_fit (const tc_wire_t *self)
{
    char derived[Z85];
    return self->secret[0] && self->public[0] && self->n_agents > 0 &&
           zmq_curve_public (derived, self->secret) == 0 &&
           strcmp (derived, self->public) == 0;
}

static tutti_err_t
s_read_keys (tc_wire_t *self, const char *keys, char *text)
{
    FILE *file = s_open_keys (keys, text);
    if (!file)
        return TUTTI_EINVAL;
    self->agents = calloc (AGENTS_MAX, sizeof *self->agents);
    char line[256];
    int number = 0, bad = 0;
    while (self->agents && !bad && fgets (line, sizeof line, file)) {
        number++;
        if (!s_take_key (self, line))
            bad = number;
    }
    fclose (file);
    sodium_memzero (line, sizeof line);
    if (!self->agents)
        return TUTTI_ENOMEM;
    if (!bad && s_keys_fit (self))
        return TUTTI_OK;
    if (bad)
        snprintf (text, TP_TEXT_MAX,
                  "keys %.200s: line %d is no NAME and key of 40 characters",
                  keys, bad);
    else
        snprintf (text, TP_TEXT_MAX,
                  "keys %.200s: needs coordinator_secret, coordinator_public "
                  "(that belongs to it) and agent_public; make them with "
                  "tutti keys",
                  keys);
    return TUTTI_EINVAL;
}

//  ---------------------------------------------------------------------- ZAP

static bool
s_allowed (const tc_wire_t *self, const uint8_t key[32])
{
    char z85[Z85];
    zmq_z85_encode (z85, key, 32);
    for (size_t i = 0; i < self->n_agents; i++)
        if (strcmp (self->agents[i].public, z85) == 0)
            return true;
    return false;
}

//  Frames of a request: version, id, domain, address, identity, mechanism,
//  key. -1: the socket was closed.
static int
s_zap_receive (void *zap, char frames[8][256], size_t *lens)
{
    int n = 0, more = 1;
    size_t size = sizeof more;
    while (more) {
        char spare[256];
        int got;
        do
            got = zmq_recv (zap, n < 8 ? frames[n] : spare, 256, 0);
        while (got < 0 && zmq_errno () == EINTR);
        if (got < 0)
            return -1;
        if (n < 8)
            lens[n] = (size_t) (got < 256 ? got : 256);
        n++;
        zmq_getsockopt (zap, ZMQ_RCVMORE, &more, &size);
    }
    return n;
}

static void *
s_zap_thread (void *arg)
{
    tc_wire_t *self = arg;
    char frames[8][256];
    size_t lens[8];
    int n;
    while ((n = s_zap_receive (self->zap, frames, lens)) >= 0) {
        if (n < 2)
            continue;
        bool ok = n >= 7 && lens[5] == 5 &&
                  memcmp (frames[5], "CURVE", 5) == 0 && lens[6] == 32 &&
                  s_allowed (self, (uint8_t *) frames[6]);
        char user[Z85] = "";
        if (ok)
            zmq_z85_encode (user, (uint8_t *) frames[6], 32);
        else
            tc_log (TC_LOG_WARN, "denied", "address=%.*s", (int) lens[3],
                    frames[3]);
        zmq_send (self->zap, "1.0", 3, ZMQ_SNDMORE);
        zmq_send (self->zap, frames[1], lens[1], ZMQ_SNDMORE);
        zmq_send (self->zap, ok ? "200" : "400", 3, ZMQ_SNDMORE);
        zmq_send (self->zap, ok ? "OK" : "denied", ok ? 2 : 6, ZMQ_SNDMORE);
        zmq_send (self->zap, user, strlen (user), ZMQ_SNDMORE);
        zmq_send (self->zap, "", 0, 0);
    }
    zmq_close (self->zap);
    return NULL;
}

static tutti_err_t
s_start_zap (tc_wire_t *self)
{
    int none = 0;
    self->zap = zmq_socket (self->context, ZMQ_REP);
    if (!self->zap)
        return TUTTI_ENOMEM;
    zmq_setsockopt (self->zap, ZMQ_LINGER, &none, sizeof none);
    if (zmq_bind (self->zap, "inproc://zeromq.zap.01") ||
        pthread_create (&self->zap_thread, NULL, s_zap_thread, self)) {
        zmq_close (self->zap);
        return TUTTI_ENOMEM;
    }
    self->zap_runs = true;
    return TUTTI_OK;
}

//  ------------------------------------------------------------------- socket

static void
s_option (void *socket, int option, int value)
{
    zmq_setsockopt (socket, option, &value, sizeof value);
}

//  All options in one place: a full queue is an error, never a wait; an
//  unknown peer is an error, not silence; nothing is kept for the dead.
static void
s_set_options (tc_wire_t *self, const char *endpoint)
{
    int64_t largest = TP_MSG_MAX;
    s_option (self->socket, ZMQ_LINGER, 0);
    s_option (self->socket, ZMQ_SNDTIMEO, 0);
    s_option (self->socket, ZMQ_SNDHWM, 10000);
    s_option (self->socket, ZMQ_RCVHWM, 100000);
    s_option (self->socket, ZMQ_ROUTER_MANDATORY, 1);
    s_option (self->socket, ZMQ_HANDSHAKE_IVL, 2000);
    s_option (self->socket, ZMQ_HEARTBEAT_IVL, 2000);
    s_option (self->socket, ZMQ_HEARTBEAT_TIMEOUT, 10000);
    s_option (self->socket, ZMQ_TCP_KEEPALIVE, 1);
    s_option (self->socket, ZMQ_BACKLOG, 4096);
    s_option (self->socket, ZMQ_IPV6, strchr (endpoint, '[') != NULL);
    zmq_setsockopt (self->socket, ZMQ_MAXMSGSIZE, &largest, sizeof largest);
    if (self->n_agents > 0) {
        s_option (self->socket, ZMQ_CURVE_SERVER, 1);
        zmq_setsockopt (self->socket, ZMQ_CURVE_SECRETKEY, self->secret, Z85);
        zmq_setsockopt (self->socket, ZMQ_ZAP_DOMAIN, "tutti", 5);
    }
}

static tutti_err_t
s_bind (tc_wire_t *self, const char *endpoint, char *text)
{
    size_t len = sizeof self->endpoint;
    self->socket = zmq_socket (self->context, ZMQ_ROUTER);
    if (!self->socket)
        return TUTTI_ENOMEM;
    s_set_options (self, endpoint);
    if (zmq_bind (self->socket, endpoint) == 0 &&
        zmq_getsockopt (self->socket, ZMQ_LAST_ENDPOINT, self->endpoint,
                        &len) == 0)
        return TUTTI_OK;
    int why = zmq_errno ();
    snprintf (text, TP_TEXT_MAX, "cannot bind %.200s: %s", endpoint,
              zmq_strerror (why));
    return why == EINVAL || why == EPROTONOSUPPORT ? TUTTI_EINVAL
                                                   : TUTTI_ESTATE;
}

tutti_err_t
tc_wire_open (tc_wire_t **self_p, const char *endpoint, const char *keys,
              char *text)
{
    tc_wire_t *self = calloc (1, sizeof *self);
    if (!self)
        return TUTTI_ENOMEM;
    tutti_err_t err = keys ? s_read_keys (self, keys, text) : TUTTI_OK;
    if (!err && strncmp (endpoint, "tcp://", 6) != 0) {
        snprintf (text, TP_TEXT_MAX, "--bind %.200s is not tcp://HOST:PORT",
                  endpoint);
        err = TUTTI_EINVAL;
    }
    if (!err) {
        self->context = zmq_ctx_new ();
        err = self->context ? TUTTI_OK : TUTTI_ENOMEM;
    }
    if (!err && keys)
        err = s_start_zap (self);
    if (!err)
        err = s_bind (self, endpoint, text);
    if (err) {
        tc_wire_close (&self);
        return err;
    }
    *self_p = self;
    return TUTTI_OK;
}

void
tc_wire_close (tc_wire_t **self_p)
{
    tc_wire_t *self = *self_p;
    if (!self)
        return;
    if (self->socket)
        zmq_close (self->socket);
    if (self->context)
        zmq_ctx_shutdown (self->context);
    if (self->zap_runs)
        pthread_join (self->zap_thread, NULL);
    if (self->context)
        zmq_ctx_term (self->context);
    sodium_memzero (self->secret, sizeof self->secret);
    free (self->agents);
    free (self);
    *self_p = NULL;
}

const char *
tc_wire_endpoint (const tc_wire_t *self)
{
    return self->endpoint;
}

const char *
tc_wire_key (const tc_wire_t *self)
{
    return self->public[0] ? self->public : "-";
}

bool
tc_wire_owns (const tc_wire_t *self, const char *key, const char *node,
              char *text)
{
    for (size_t i = 0; i < self->n_agents; i++) {
        const agent_key_t *agent = &self->agents[i];
        bool mine = strcmp (agent->public, key) == 0;
        if (!agent->node[0] || mine == (strcmp (agent->node, node) == 0))
            continue;
        if (mine)
            snprintf (text, TP_TEXT_MAX,
                      "the key of this agent is for node %s, but it says that "
                      "it is node %s; start it with --node %s, or change the "
                      "line of the key in the coordinator's --keys",
                      agent->node, node, agent->node);
        else
            snprintf (text, TP_TEXT_MAX,
                      "node %s has another key than this agent; use that "
                      "node's key, another --node, or change the line of the "
                      "key in the coordinator's --keys",
                      node);
        return false;
    }
    return true;
}

//  What ZAP answered for the connection of this message.
static void
s_take_user (tc_peer_t *peer, zmq_msg_t *frame)
{
    const char *user = zmq_msg_gets (frame, "User-Id");
    snprintf (peer->key, sizeof peer->key, "%s", user ? user : "");
}

//  The last frame of a message into BODY; the rest is dropped. How many
//  there were, -1 without a message.
static int
s_read_frames (tc_wire_t *self, tc_peer_t *peer, zmq_msg_t *body)
{
    int n = 0;
    bool more = true;
    while (more) {
        zmq_msg_t frame;
        zmq_msg_init (&frame);
        if (zmq_msg_recv (&frame, self->socket, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close (&frame);
            return -1;
        }
        more = zmq_msg_more (&frame);
        s_take_user (peer, &frame);
        if (n == 0 && zmq_msg_size (&frame) <= TC_PEER_MAX) {
            peer->len = zmq_msg_size (&frame);
            memcpy (peer->id, zmq_msg_data (&frame), peer->len);
        }
        zmq_msg_move (body, &frame);
        zmq_msg_close (&frame);
        n++;
    }
    return n;
}

tutti_err_t
tc_wire_receive (tc_wire_t *self, int timeout_ms, tc_peer_t *peer,
                 Tutti__Envelope **envelope_p, char *text)
{
    zmq_pollitem_t item = { self->socket, 0, ZMQ_POLLIN, 0 };
    if (zmq_poll (&item, 1, timeout_ms) <= 0)
        return TUTTI_EAGAIN;
    zmq_msg_t body;
    zmq_msg_init (&body);
    peer->len = 0;
    int frames = s_read_frames (self, peer, &body);
    tutti_err_t err = frames < 0 ? TUTTI_EAGAIN : TUTTI_EPROTO;
    if (frames == 2)
        err = tp_msg_unpack (zmq_msg_data (&body), zmq_msg_size (&body),
                             envelope_p, text);
    else
        snprintf (text, TP_TEXT_MAX, "a message of %d frames", frames);
    zmq_msg_close (&body);
    return err;
}

bool
tc_wire_send (tc_wire_t *self, const tc_peer_t *peer,
              const Tutti__Envelope *envelope)
{
    uint8_t *bytes;
    size_t len;
    if (tp_msg_pack (envelope, &bytes, &len))
        return false;
    bool ok = zmq_send (self->socket, peer->id, peer->len,
                        ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0 &&
              zmq_send (self->socket, bytes, len, ZMQ_DONTWAIT) >= 0;
    free (bytes);
    return ok;
}
