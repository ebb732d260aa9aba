//  agent/supervisor.c - the agent process of a node
//
//  One loop around poll (2). The parts bring descriptors of their own: the
//  door and the crew an epoll set each, the dealer two of ZeroMQ, and signals
//  come through a signalfd. A zloop would do the same with a callback per
//  descriptor; but ZeroMQ's descriptors are edge-triggered and must be looked
//  at after every send, deadlines move with the loop's own lateness,
//  and an idle agent should wake for its heartbeat only. All of that is one
//  place here.
//
//  A turn: wait for the earliest deadline or an event; what it slept too long
//  is added to the patience with others; then each part takes its turn.
//
//  STARTING --first WELCOME--> SERVING --signal, refused--> STOPPING --> end

#include "agent/supervisor.h"

#include "agent/address.h"
#include "agent/crew.h"
#include "agent/dealer.h"
#include "agent/door.h"
#include "agent/log.h"
#include "agent/uplink.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#define LATE_MS 50  //  less is no lateness
#define LATE_LOG_MS 500
#define STOP_MS 5000   //  for workers to end
#define LINGER_MS 500  //  for GOODBYE to leave
#define TURN_MESSAGES 256

typedef enum s_phase { STARTING, SERVING, STOPPING } s_phase_t;

typedef struct s_supervisor {
    const ta_options_t *options;
    void (*ready) (const ta_options_t *options, const char *data);
    s_phase_t phase;
    char host[TP_NAME_MAX];
    char data[TA_ADDRESS_MAX];  //  address of the data plane
    char *text;                 //  the caller's: why it ended
    tutti_err_t err;            //  with what
    int signals;
    ta_dealer_t *dealer;
    ta_uplink_t *uplink;
    ta_crew_t *crew;
    ta_door_t *door;
    int64_t stop_at;  //  STOPPING: not later
    int64_t woke;     //  when the last wait ended
} s_supervisor_t;

static int64_t
s_now_ms (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void
s_stop (s_supervisor_t *self, tutti_err_t err, const char *why)
{
    int64_t now_ms = s_now_ms ();
    if (self->phase == STOPPING) {  //  asked twice: now
        self->stop_at = now_ms;
        return;
    }
    self->phase = STOPPING;
    self->err = err;
    snprintf (self->text, TP_TEXT_MAX, "%s", why);
    ta_log (err ? TA_LOG_ERROR : TA_LOG_INFO, "stopping", "text=\"%s\"", why);
    char text[TP_TEXT_MAX];
    snprintf (text, sizeof text, "the agent of node %s is stopping: %.300s",
              self->options->node, why);
    ta_door_close (&self->door, text);
    ta_crew_drain (self->crew);
    self->stop_at = now_ms + STOP_MS;
}

//  ---------------------------------------------------- between the parts

static bool
s_uplink_send (void *arg, const uint8_t *bytes, size_t len)
{
    s_supervisor_t *self = arg;
    return ta_dealer_send (self->dealer, bytes, len);
}

static Tutti__Progress **
s_uplink_progress (void *arg, size_t *count_p)
{
    s_supervisor_t *self = arg;
    return ta_crew_progress (self->crew, count_p);
}

static void
s_crew_relay (void *arg, const uint8_t *bytes, size_t len)
{
    s_supervisor_t *self = arg;
    ta_uplink_send (self->uplink, bytes, len);
}

static void
s_crew_speak (void *arg, Tutti__Envelope *envelope)
{
    s_supervisor_t *self = arg;
    envelope->protocol = TP_PROTOCOL;
    envelope->incarnation = ta_uplink_incarnation (self->uplink);
    uint8_t *bytes;
    size_t len;
    if (tp_msg_pack (envelope, &bytes, &len) != TUTTI_OK) {
        ta_log (TA_LOG_ERROR, "pack-failed", "message=%s job=%s",
                tp_msg_name (envelope), envelope->job);
        return;
    }
    ta_uplink_send (self->uplink, bytes, len);
    free (bytes);
}

static tutti_err_t
s_admit (void *arg, ta_client_t *client, char *text)
{
    s_supervisor_t *self = arg;
    const char *node = self->options->node;
    if (self->phase == STARTING) {
        snprintf (text, TP_TEXT_MAX, "the agent of node %s waits for %.300s",
                  node, ta_uplink_text (self->uplink));
        return TUTTI_EAGAIN;
    }
    if (ta_uplink_crowded (self->uplink)) {
        snprintf (text, TP_TEXT_MAX,
                  "job %s, rank %u: the agent of node %s has waited too long "
                  "for %.300s",
                  client->hello.job, client->hello.rank, node,
                  ta_uplink_text (self->uplink));
        return TUTTI_EJOIN;
    }
    if (ta_uplink_state (self->uplink) != TA_UPLINK_UP) {
        char waiting[TP_TEXT_MAX];
        snprintf (waiting, sizeof waiting,
                  "the agent of node %s waits for %.300s", node,
                  ta_uplink_text (self->uplink));
        ta_attach_waiting (client->sock, waiting);
    }
    return ta_crew_admit (self->crew, client, text);
}

//  ------------------------------------------------------------------- uplink

//  Once, at the first connection: what we tell must be reachable from others.
static bool
s_settle_address (s_supervisor_t *self)
{
    char text[TP_TEXT_MAX];
    const char *peer = ta_dealer_peer (self->dealer);
    if (!self->data[0])
        snprintf (self->data, sizeof self->data, "%s",
                  ta_dealer_local (self->dealer));
    if (!self->data[0])
        return false;  //  the connection is gone again
    if (ta_address_loopback (self->data) && peer[0] &&
        !ta_address_loopback (peer)) {
        snprintf (text, sizeof text,
                  "data plane address %s of node %s: a loopback address, but "
                  "the coordinator is at %s, on another host; give "
                  "--data-bind an address, interface or CIDR that other "
                  "nodes can reach",
                  self->data, self->options->node, peer);
        s_stop (self, TUTTI_EINVAL, text);
        return false;
    }
    ta_crew_bind (self->crew, self->data);
    return true;
}

static void
s_connection (s_supervisor_t *self)
{
    ta_dealer_event_t event;
    while ((event = ta_dealer_next (self->dealer)) != TA_DEALER_NOTHING) {
        int64_t now_ms = s_now_ms ();
        if (event == TA_DEALER_BROKEN)
            ta_uplink_broken (self->uplink, ta_dealer_why (self->dealer),
                              now_ms);
        else if (s_settle_address (self))
            ta_uplink_connected (self->uplink, self->data, now_ms);
    }
}

static void
s_welcome (s_supervisor_t *self, const Tutti__Envelope *envelope)
{
    if (self->phase == SERVING)
        ta_crew_welcome (self->crew, envelope);
    if (self->phase != STARTING)
        return;
    self->phase = SERVING;
    const ta_options_t *options = self->options;
    ta_log (TA_LOG_INFO, "ready",
            "socket=%s node=%s data=%s coordinator=%s version=%s insecure=%d",
            options->socket, options->node, self->data, options->coordinator,
            envelope->welcome->version, options->insecure);
    self->ready (options, self->data);
    ta_door_retry (self->door);
}

static void
s_message (s_supervisor_t *self, const uint8_t *bytes, size_t len)
{
    Tutti__Envelope *envelope;
    char text[TP_TEXT_MAX];
    tutti_err_t err = tp_msg_unpack (bytes, len, &envelope, text);
    if (err) {
        ta_log (TA_LOG_ERROR, "garbage", "from=coordinator text=\"%s\"", text);
        //  Two major versions cannot come to terms by waiting.
        if (err == TUTTI_EVERSION)
            s_stop (self, err, text);
        return;
    }
    switch (ta_uplink_receive (self->uplink, envelope, s_now_ms ())) {
    case TA_NEWS_JOB:
        ta_crew_deliver (self->crew, envelope, bytes, len);
        break;
    case TA_NEWS_WELCOME:
        s_welcome (self, envelope);
        break;
    case TA_NEWS_REFUSED:
        s_stop (self, (tutti_err_t) envelope->refuse->code,
                ta_uplink_text (self->uplink));
        break;
    case TA_NEWS_NONE:
        break;
    }
    tp_msg_free (&envelope);
}

static void
s_messages (s_supervisor_t *self)
{
    s_connection (self);
    for (int i = 0; i < TURN_MESSAGES; i++) {
        uint8_t *bytes;
        size_t len;
        tutti_err_t err = ta_dealer_receive (self->dealer, &bytes, &len);
        if (err == TUTTI_EAGAIN)
            break;
        if (err) {
            ta_log (TA_LOG_ERROR, "garbage", "from=coordinator code=%d",
                    (int) err);
            continue;
        }
        s_message (self, bytes, len);
        free (bytes);
    }
    ta_uplink_flush (self->uplink);
}

//  --------------------------------------------------------------------- loop

static int64_t
s_min (int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t
s_deadline (const s_supervisor_t *self)
{
    int64_t next = s_min (ta_uplink_deadline (self->uplink),
                          ta_crew_deadline (self->crew));
    if (self->door)
        next = s_min (next, ta_door_deadline (self->door));
    return self->phase == STOPPING ? s_min (next, self->stop_at) : next;
}

//  What this loop slept too long is nobody else's fault.
static void
s_forgive (s_supervisor_t *self, int64_t due)
{
    int64_t now_ms = s_now_ms ();
    //  What is overdue since before the last turn was forgiven then.
    int64_t late_ms = now_ms - (due > self->woke ? due : self->woke);
    self->woke = now_ms;
    if (due > now_ms || late_ms < LATE_MS)
        return;
    if (late_ms >= LATE_LOG_MS)
        ta_log (TA_LOG_WARN, "late", "ms=%lld", (long long) late_ms);
    ta_uplink_late (self->uplink, late_ms);
    if (self->door)
        ta_door_late (self->door, late_ms);
}

static void
s_signals (s_supervisor_t *self)
{
    struct signalfd_siginfo info;
    while (read (self->signals, &info, sizeof info) == sizeof info) {
        char why[64];
        if (info.ssi_signo == SIGCHLD)
            continue;  //  the crew looks at every turn
        snprintf (why, sizeof why, "signal %u", info.ssi_signo);
        s_stop (self, TUTTI_OK, why);
    }
}

static void
s_wait (s_supervisor_t *self)
{
    int64_t due = s_deadline (self);
    int64_t wait = due - s_now_ms ();
    int timeout = due == INT64_MAX ? -1 : wait < 0 ? 0 : (int) wait;
    if (ta_dealer_readable (self->dealer))
        timeout = 0;
    struct pollfd fds[] = {
        { .fd = self->signals, .events = POLLIN },
        { .fd = ta_dealer_fd (self->dealer), .events = POLLIN },
        { .fd = ta_dealer_monitor_fd (self->dealer), .events = POLLIN },
        { .fd = ta_crew_fd (self->crew), .events = POLLIN },
        { .fd = self->door ? ta_door_fd (self->door) : -1, .events = POLLIN },
    };
    if (poll (fds, sizeof fds / sizeof *fds, timeout) < 0 && errno != EINTR)
        ta_log (TA_LOG_ERROR, "poll", "text=\"%s\"", strerror (errno));
    s_forgive (self, due);
}

static void
s_loop (s_supervisor_t *self)
{
    while (self->phase != STOPPING ||
           (ta_crew_count (self->crew) > 0 && s_now_ms () < self->stop_at)) {
        s_wait (self);
        s_signals (self);
        s_messages (self);
        ta_crew_turn (self->crew, s_now_ms ());
        if (self->door)
            ta_door_turn (self->door, s_now_ms ());
        ta_uplink_tick (self->uplink, s_now_ms ());
    }
}

//  --------------------------------------------------------------------- life

//  Clients, segments and connections are descriptors: take what we may have.
static void
s_raise_limit (void)
{
    struct rlimit limit;
    if (getrlimit (RLIMIT_NOFILE, &limit) < 0 ||
        limit.rlim_cur == limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit (RLIMIT_NOFILE, &limit) < 0)
        ta_log (TA_LOG_WARN, "rlimit", "text=\"RLIMIT_NOFILE: %s\"",
                strerror (errno));
}

static tutti_err_t
s_open_signals (s_supervisor_t *self)
{
    sigset_t set;
    sigemptyset (&set);
    sigaddset (&set, SIGTERM);
    sigaddset (&set, SIGINT);
    sigaddset (&set, SIGCHLD);
    signal (SIGPIPE, SIG_IGN);
    //  Before ZeroMQ makes threads, which inherit the mask.
    sigprocmask (SIG_BLOCK, &set, NULL);
    self->signals = signalfd (-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (self->signals >= 0)
        return TUTTI_OK;
    snprintf (self->text, TP_TEXT_MAX, "signalfd: %s", strerror (errno));
    return TUTTI_ENOMEM;
}

static tutti_err_t
s_open_uplink (s_supervisor_t *self)
{
    const ta_options_t *options = self->options;
    ta_uplink_options_t uplink = { .node = options->node,
                                   .host = self->host,
                                   .version = TA_VERSION_TEXT,
                                   .labels = options->labels,
                                   .n_labels = options->n_labels,
                                   .arg = self,
                                   .send = s_uplink_send,
                                   .progress = s_uplink_progress };
    if (ta_uplink_new (&self->uplink, &uplink, s_now_ms ()) != TUTTI_OK) {
        snprintf (self->text, TP_TEXT_MAX, "no memory for the uplink");
        return TUTTI_ENOMEM;
    }
    if (!options->keys)
        return ta_dealer_open (&self->dealer, options->coordinator, NULL,
                               self->text);
    ta_keys_t keys;
    tutti_err_t err = ta_keys_read (&keys, options->keys, self->text);
    if (!err)
        err = ta_dealer_open (&self->dealer, options->coordinator, &keys,
                              self->text);
    ta_keys_wipe (&keys);
    return err;
}

static tutti_err_t
s_open_crew (s_supervisor_t *self)
{
    const ta_options_t *options = self->options;
    ta_crew_options_t crew = { .setup = { .port_lo = options->port_lo,
                                          .port_hi = options->port_hi,
                                          .channels = options->channels,
                                          .staging_bytes =
                                              options->staging_bytes },
                               .arg = self,
                               .relay = s_crew_relay,
                               .speak = s_crew_speak };
    snprintf (crew.setup.node, sizeof crew.setup.node, "%s", options->node);
    snprintf (crew.setup.transport, sizeof crew.setup.transport, "%s",
              options->transport);
    if (ta_crew_new (&self->crew, &crew) == TUTTI_OK)
        return TUTTI_OK;
    snprintf (self->text, TP_TEXT_MAX, "no memory for workers");
    return TUTTI_ENOMEM;
}

static tutti_err_t
s_open (s_supervisor_t *self)
{
    const ta_options_t *options = self->options;
    s_raise_limit ();
    tutti_err_t err = s_open_signals (self);
    if (!err && options->data_bind)
        err = ta_address_find (options->data_bind, self->data, self->text);
    if (!err)
        err = s_open_crew (self);
    if (!err)
        err = s_open_uplink (self);
    if (!err)
        err = ta_door_open (&self->door, options->socket, options->node,
                            s_admit, self, self->text);
    return err;
}

static void
s_close (s_supervisor_t *self)
{
    if (self->uplink && self->dealer)
        ta_uplink_goodbye (self->uplink, s_now_ms ());
    ta_door_close (&self->door, "");
    if (self->crew) {
        ta_crew_kill (self->crew);
        ta_crew_destroy (&self->crew);
    }
    ta_dealer_close (&self->dealer, LINGER_MS);
    ta_uplink_destroy (&self->uplink);
    if (self->signals >= 0)
        close (self->signals);
}

tutti_err_t
ta_supervisor_run (const ta_options_t *options,
                   void (*ready) (const ta_options_t *options,
                                  const char *data),
                   char *text)
{
    s_supervisor_t self = { .options = options,
                            .ready = ready,
                            .text = text,
                            .signals = -1,
                            .woke = s_now_ms () };
    gethostname (self.host, sizeof self.host - 1);
    if (options->insecure)
        ta_log (TA_LOG_WARN, "insecure",
                "text=\"anybody who reaches the coordinator or this agent's "
                "data ports is trusted; use it on one machine only\"");
    self.err = s_open (&self);
    if (!self.err) {
        ta_log (TA_LOG_INFO, "starting", "node=%s socket=%s coordinator=%s",
                options->node, options->socket, options->coordinator);
        s_loop (&self);
    }
    s_close (&self);
    return self.err;
}
