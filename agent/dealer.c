//  agent/dealer.c - the ZeroMQ socket towards the coordinator
//
//  ZeroMQ resolves a host name to one address of one family. A name may have
//  both and only one may answer, so while nobody does we dial again with the
//  other family, ever more slowly.

#include "agent/dealer.h"

#include "agent/log.h"
#include "protocol/msg.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#define MONITOR "inproc://tutti-agent-monitor"
#define RECONNECT_MIN_MS 100
#define RECONNECT_MAX_MS 5000
#define TRIES 2  //  of one family

struct ta_dealer {
    void *context;  //  ours, as are the sockets
    void *socket;
    void *monitor;
    const char *url;
    bool curve;
    bool named;      //  url has a host name, not an address
    int ipv6;        //  family that we dial
    unsigned tries;  //  in vain, of this dialling
    unsigned dials;  //  since the last connection
    bool connected;
    char local[TA_ADDRESS_MAX], peer[TA_ADDRESS_MAX];
    char why[TP_TEXT_MAX];
};

//  Every option, in one place. No routing id: the ROUTER makes one per
//  connection, so a second agent can never take the place of a first.
static bool
s_configure (void *socket, const ta_keys_t *keys)
{
    static const struct {
        int option;
        int value;
    } numbers[] = {
        { ZMQ_LINGER, 0 },
        { ZMQ_SNDTIMEO, 0 },  //  a full queue is an error, never a wait
        { ZMQ_RCVTIMEO, 0 },
        { ZMQ_SNDHWM, 4096 },
        { ZMQ_RCVHWM, 4096 },
        { ZMQ_HANDSHAKE_IVL, 2000 },
        { ZMQ_HEARTBEAT_IVL, 1000 },
        { ZMQ_HEARTBEAT_TIMEOUT, 5000 },
        { ZMQ_IMMEDIATE, 1 },  //  nothing is queued for nobody
        { ZMQ_RECONNECT_IVL, RECONNECT_MIN_MS },
        { ZMQ_RECONNECT_IVL_MAX, RECONNECT_MAX_MS },
        { ZMQ_CONNECT_TIMEOUT, 3000 },
        { ZMQ_TCP_KEEPALIVE, 1 },
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (zmq_setsockopt (socket, numbers[i].option, &numbers[i].value,
                            sizeof (int)) != 0)
            return false;
    }
    int64_t max = TP_MSG_MAX;
    if (zmq_setsockopt (socket, ZMQ_MAXMSGSIZE, &max, sizeof max) != 0)
        return false;
    if (!keys)
        return true;
    return zmq_setsockopt (socket, ZMQ_CURVE_SERVERKEY,
                           keys->coordinator_public, TA_KEY_TEXT) == 0 &&
           zmq_setsockopt (socket, ZMQ_CURVE_PUBLICKEY, keys->agent_public,
                           TA_KEY_TEXT) == 0 &&
           zmq_setsockopt (socket, ZMQ_CURVE_SECRETKEY, keys->agent_secret,
                           TA_KEY_TEXT) == 0;
}

static bool
s_watch (ta_dealer_t *self)
{
    int events =
        ZMQ_EVENT_CONNECTED | ZMQ_EVENT_CONNECT_RETRIED |
        ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
        ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
        ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
    if (zmq_socket_monitor (self->socket, MONITOR, events) != 0)
        return false;
    int none = 0;
    self->monitor = zmq_socket (self->context, ZMQ_PAIR);
    return self->monitor &&
           zmq_setsockopt (self->monitor, ZMQ_LINGER, &none, sizeof none) ==
               0 &&
           zmq_connect (self->monitor, MONITOR) == 0;
}

//  An IPv6 literal has brackets; an IPv4 one has digits and dots only.
static void
s_look_at_url (ta_dealer_t *self)
{
    const char *host = strstr (self->url, "://");
    host = host ? host + 3 : self->url;
    self->ipv6 = *host == '[';
    self->named = !self->ipv6 && host[strspn (host, "0123456789.")] != ':';
}

static bool
s_dial (ta_dealer_t *self)
{
    return zmq_setsockopt (self->socket, ZMQ_IPV6, &self->ipv6,
                           sizeof self->ipv6) == 0 &&
           zmq_connect (self->socket, self->url) == 0;
}

//  Nobody answered: after some tries dial with the other family.
static void
s_redial (ta_dealer_t *self)
{
    if (!self->named || ++self->tries < TRIES)
        return;
    self->tries = 0;
    self->dials++;
    self->ipv6 = !self->ipv6;
    int pause = RECONNECT_MAX_MS;
    if (self->dials < 12)
        pause = RECONNECT_MIN_MS << self->dials / 2;
    if (pause > RECONNECT_MAX_MS)
        pause = RECONNECT_MAX_MS;
    zmq_disconnect (self->socket, self->url);
    zmq_setsockopt (self->socket, ZMQ_RECONNECT_IVL, &pause, sizeof pause);
    if (!s_dial (self))
        ta_log (TA_LOG_WARN, "dial-failed", "text=\"zmq_connect: %s\"",
                zmq_strerror (zmq_errno ()));
}

tutti_err_t
ta_dealer_open (ta_dealer_t **self_p, const char *url, const ta_keys_t *keys,
                char *text)
{
    ta_dealer_t *self = calloc (1, sizeof *self);
    if (!self) {
        snprintf (text, TP_TEXT_MAX, "no memory for the uplink");
        return TUTTI_ENOMEM;
    }
    self->url = url;
    self->curve = keys != NULL;
    s_look_at_url (self);
    self->context = zmq_ctx_new ();
    if (self->context)
        self->socket = zmq_socket (self->context, ZMQ_DEALER);
    bool ok = self->socket && s_configure (self->socket, keys) &&
              s_watch (self) && s_dial (self);
    if (ok) {
        *self_p = self;
        return TUTTI_OK;
    }
    snprintf (text, TP_TEXT_MAX, "coordinator %.200s: %s", url,
              zmq_strerror (zmq_errno ()));
    ta_dealer_close (&self, 0);
    return TUTTI_EINVAL;
}

void
ta_dealer_close (ta_dealer_t **self_p, int linger_ms)
{
    ta_dealer_t *self = *self_p;
    if (!self)
        return;
    if (self->monitor)
        zmq_close (self->monitor);
    if (self->socket) {
        zmq_setsockopt (self->socket, ZMQ_LINGER, &linger_ms,
                        sizeof linger_ms);
        zmq_close (self->socket);
    }
    if (self->context)
        zmq_ctx_term (self->context);
    free (self);
    *self_p = NULL;
}

static int
s_number (void *socket, int option)
{
    int value = 0;
    size_t size = sizeof value;
    if (zmq_getsockopt (socket, option, &value, &size) != 0)
        return -1;
    return value;
}

int
ta_dealer_fd (const ta_dealer_t *self)
{
    return s_number (self->socket, ZMQ_FD);
}

int
ta_dealer_monitor_fd (const ta_dealer_t *self)
{
    return s_number (self->monitor, ZMQ_FD);
}

//  ------------------------------------------------------------------- events

static ta_dealer_event_t
s_broken (ta_dealer_t *self, const char *what, const char *advice)
{
    snprintf (self->why, sizeof self->why, "the coordinator at %.100s: %s; %s",
              self->url, what, advice);
    self->connected = false;
    return TA_DEALER_BROKEN;
}

static ta_dealer_event_t
s_event (ta_dealer_t *self, uint16_t event, uint32_t value)
{
    switch (event) {
    case ZMQ_EVENT_CONNECTED:
        //  The address that the coordinator sees, not a guess.
        if (!ta_address_of ((int) value, self->local, self->peer))
            self->local[0] = self->peer[0] = 0;
        return TA_DEALER_NOTHING;
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        self->connected = true;
        self->tries = self->dials = 0;
        return TA_DEALER_CONNECTED;
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
        return s_broken (self, "the handshake failed",
                         self->curve
                             ? "check that --keys holds its public key "
                               "and that it knows ours"
                             : "check that both sides run --insecure");
    case ZMQ_EVENT_CONNECT_RETRIED:
        if (self->connected)
            return TA_DEALER_NOTHING;
        s_redial (self);
        return self->why[0] ? TA_DEALER_NOTHING
                            : s_broken (self, "no connection yet",
                                        "is it running, and is the address "
                                        "right?");
    default:
        return self->connected ? s_broken (self, "the connection broke",
                                           "trying again; running jobs go on")
                               : TA_DEALER_NOTHING;
    }
}

ta_dealer_event_t
ta_dealer_next (ta_dealer_t *self)
{
    ta_dealer_event_t news = TA_DEALER_NOTHING;
    while (news == TA_DEALER_NOTHING) {
        struct {
            uint8_t bytes[6];
        } frame;
        int got = zmq_recv (self->monitor, &frame, sizeof frame, ZMQ_DONTWAIT);
        if (got < 0)
            return TA_DEALER_NOTHING;
        char endpoint[256];
        while (s_number (self->monitor, ZMQ_RCVMORE) == 1)
            zmq_recv (self->monitor, endpoint, sizeof endpoint, ZMQ_DONTWAIT);
        if (got != sizeof frame)
            continue;
        uint16_t event;
        uint32_t value;
        memcpy (&event, frame.bytes, sizeof event);
        memcpy (&value, frame.bytes + sizeof event, sizeof value);
        news = s_event (self, event, value);
    }
    return news;
}

const char *
ta_dealer_why (const ta_dealer_t *self)
{
    return self->why;
}

const char *
ta_dealer_local (const ta_dealer_t *self)
{
    return self->local;
}

const char *
ta_dealer_peer (const ta_dealer_t *self)
{
    return self->peer;
}

//  ----------------------------------------------------------------- messages

static tutti_err_t
s_copy (zmq_msg_t *message, uint8_t **bytes_p, size_t *len_p)
{
    size_t len = zmq_msg_size (message);
    uint8_t *bytes = malloc (len + 1);
    if (!bytes)
        return TUTTI_ENOMEM;
    memcpy (bytes, zmq_msg_data (message), len);
    *bytes_p = bytes;
    *len_p = len;
    return TUTTI_OK;
}

tutti_err_t
ta_dealer_receive (ta_dealer_t *self, uint8_t **bytes_p, size_t *len_p)
{
    zmq_msg_t message;
    zmq_msg_init (&message);
    tutti_err_t err = TUTTI_EAGAIN;
    if (zmq_msg_recv (&message, self->socket, ZMQ_DONTWAIT) >= 0) {
        bool more = zmq_msg_more (&message);
        err = more ? TUTTI_EPROTO : s_copy (&message, bytes_p, len_p);
        while (more &&
               zmq_msg_recv (&message, self->socket, ZMQ_DONTWAIT) >= 0)
            more = zmq_msg_more (&message);
    }
    zmq_msg_close (&message);
    return err;
}

bool
ta_dealer_send (ta_dealer_t *self, const uint8_t *bytes, size_t len)
{
    if (!self->connected)
        return false;
    if (zmq_send (self->socket, bytes, len, ZMQ_DONTWAIT) >= 0)
        return true;
    if (zmq_errno () != EAGAIN)
        ta_log (TA_LOG_WARN, "send-failed", "text=\"zmq_send: %s\"",
                zmq_strerror (zmq_errno ()));
    return false;
}

bool
ta_dealer_readable (ta_dealer_t *self)
{
    return (s_number (self->socket, ZMQ_EVENTS) & ZMQ_POLLIN) != 0 ||
           (s_number (self->monitor, ZMQ_EVENTS) & ZMQ_POLLIN) != 0;
}
