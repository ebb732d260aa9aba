//  agent/uplink.c - the agent's standing with the coordinator
//
//             CONNECTED BROKEN HEARD    WELCOME STRANGER EXPIRED  CLOSE
//  DOWN       HELLOING  DOWN   DOWN     DOWN    DOWN     DOWN     CLOSED
//  HELLOING   HELLOING  DOWN   HELLOING UP      HELLOING HELLOING CLOSED
//  UP         HELLOING  DOWN   UP       UP      HELLOING SILENT   CLOSED
//  SILENT     HELLOING  DOWN   UP       UP      HELLOING SILENT   CLOSED
//  CLOSED     -         -      -        -       -        -        -
//
//  s_rules is this picture; change both or neither. Entering HELLOING or
//  SILENT, or staying there by EXPIRED, says HELLO. STRANGER is a sign that
//  the coordinator is another one than the one that knows us: an incarnation
//  we do not know, or a refusal that says so.

#include "agent/uplink.h"

#include "agent/log.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SILENCE_MS 10000
#define BACKOFF_MIN_MS 100
#define BACKOFF_MAX_MS 5000
#define HEARTBEAT_MS 200  //  until WELCOME says otherwise
#define HEARTBEAT_MIN_MS 20
#define HEARTBEAT_MAX_MS 10000
#define REPORT_MS 2000  //  how often to log what it waits for
#define QUEUE_MESSAGES 8192
#define QUEUE_BYTES (64u << 20)

typedef enum s_event {
    CONNECTED,
    BROKEN,
    HEARD,
    WELCOME,
    STRANGER,
    EXPIRED,
    CLOSE,
    EVENTS
} s_event_t;

#define DOWN TA_UPLINK_DOWN
#define HELLOING TA_UPLINK_HELLOING
#define UP TA_UPLINK_UP
#define SILENT TA_UPLINK_SILENT
#define CLOSED TA_UPLINK_CLOSED

static const struct {
    const char *name;
    bool hello;  //  says HELLO on entry and with a back-off
    bool work;   //  carries heartbeats and messages of workers
    ta_uplink_state_t next[EVENTS];
} s_rules[TA_UPLINK_STATES] = {
    { "down",
      false,
      false,
      { HELLOING, DOWN, DOWN, DOWN, DOWN, DOWN, CLOSED } },
    { "helloing",
      true,
      false,
      { HELLOING, DOWN, HELLOING, UP, HELLOING, HELLOING, CLOSED } },
    { "up",
      false,
      true,
      { HELLOING, DOWN, UP, UP, HELLOING, SILENT, CLOSED } },
    { "silent",
      true,
      true,
      { HELLOING, DOWN, UP, UP, HELLOING, SILENT, CLOSED } },
    { "closed",
      false,
      false,
      { CLOSED, CLOSED, CLOSED, CLOSED, CLOSED, CLOSED, CLOSED } },
};

typedef struct s_message {
    struct s_message *next;
    size_t len;
    uint8_t bytes[];
} s_message_t;

struct ta_uplink {
    ta_uplink_options_t options;
    ta_uplink_state_t state;      //  written by s_enter only
    char data_host[TP_NAME_MAX];  //  told in HELLO
    char text[TP_TEXT_MAX];       //  what it waits for
    uint64_t incarnation;         //  of the coordinator that knows us
    uint64_t sequence;            //  of heartbeats
    int64_t heartbeat_ms;
    int64_t beat_at;             //  next heartbeat
    int64_t deadline;            //  EXPIRED
    int64_t backoff_ms;          //  until the next HELLO
    int64_t since;               //  out of UP since then
    int64_t report_at;           //  next log line about it
    bool served;                 //  has been UP
    s_message_t *first, **last;  //  queue, ours
    size_t n_queued, queued_bytes;
    uint64_t dropped;
};

//  ------------------------------------------------------------------ sending

static bool
s_send_envelope (ta_uplink_t *self, Tutti__Envelope *envelope)
{
    envelope->protocol = TP_PROTOCOL;
    envelope->incarnation = self->incarnation;
    uint8_t *bytes;
    size_t len;
    if (tp_msg_pack (envelope, &bytes, &len) != TUTTI_OK) {
        ta_log (TA_LOG_ERROR, "pack-failed", "message=%s",
                tp_msg_name (envelope));
        return false;
    }
    bool sent = self->options.send (self->options.arg, bytes, len);
    free (bytes);
    return sent;
}

static void
s_say_hello (ta_uplink_t *self)
{
    Tutti__Hello hello = TUTTI__HELLO__INIT;
    hello.node = (char *) self->options.node;
    hello.host = (char *) self->options.host;
    hello.version = (char *) self->options.version;
    hello.labels = (char **) self->options.labels;
    hello.n_labels = self->options.n_labels;
    hello.data_host = self->data_host;
    Tutti__Envelope envelope = TUTTI__ENVELOPE__INIT;
    envelope.body_case = TUTTI__ENVELOPE__BODY_HELLO;
    envelope.hello = &hello;
    s_send_envelope (self, &envelope);
}

static void
s_say_heartbeat (ta_uplink_t *self)
{
    Tutti__Heartbeat heartbeat = TUTTI__HEARTBEAT__INIT;
    heartbeat.sequence = ++self->sequence;
    heartbeat.progress =
        self->options.progress (self->options.arg, &heartbeat.n_progress);
    Tutti__Envelope envelope = TUTTI__ENVELOPE__INIT;
    envelope.body_case = TUTTI__ENVELOPE__BODY_HEARTBEAT;
    envelope.heartbeat = &heartbeat;
    s_send_envelope (self, &envelope);
}

//  ------------------------------------------------------------------- states

//  The only writer of state, so the log shows every change.
static void
s_enter (ta_uplink_t *self, ta_uplink_state_t state, int64_t now_ms)
{
    bool changed = state != self->state;
    if (changed && self->state == UP)
        self->since = now_ms;
    if (changed) {
        ta_log (TA_LOG_INFO, "uplink", "state=%s was=%s text=\"%s\"",
                s_rules[state].name, s_rules[self->state].name, self->text);
        self->backoff_ms = BACKOFF_MIN_MS;
        self->report_at = now_ms + REPORT_MS;
    }
    self->state = state;
    if (state == UP) {
        self->served = true;
        self->deadline = now_ms + SILENCE_MS;
        snprintf (self->text, sizeof self->text, "nothing");
    }
}

static void
s_apply (ta_uplink_t *self, s_event_t event, int64_t now_ms)
{
    ta_uplink_state_t was = self->state;
    ta_uplink_state_t state = s_rules[was].next[event];
    s_enter (self, state, now_ms);
    bool asks = event == CONNECTED || event == EXPIRED || event == STRANGER;
    if (s_rules[state].hello && (asks || state != was)) {
        s_say_hello (self);
        self->deadline = now_ms + self->backoff_ms;
        self->backoff_ms *= 2;
        if (self->backoff_ms > BACKOFF_MAX_MS)
            self->backoff_ms = BACKOFF_MAX_MS;
    }
    if (s_rules[state].work && !s_rules[was].work) {
        self->beat_at = now_ms;
        ta_uplink_flush (self);
    }
}

//  ----------------------------------------------------------------- messages

static ta_uplink_news_t
s_on_welcome (ta_uplink_t *self, const Tutti__Envelope *envelope,
              int64_t now_ms)
{
    bool stranger = envelope->incarnation != self->incarnation;
    bool asked = s_rules[self->state].hello;
    bool news = self->state == HELLOING || stranger;
    if (stranger && self->incarnation != 0)
        ta_log (TA_LOG_WARN, "coordinator-restarted",
                "incarnation=%016llx was=%016llx",
                (unsigned long long) envelope->incarnation,
                (unsigned long long) self->incarnation);
    int64_t beat = envelope->welcome->heartbeat_ms;
    if (beat != 0)
        self->heartbeat_ms = beat < HEARTBEAT_MIN_MS   ? HEARTBEAT_MIN_MS
                             : beat > HEARTBEAT_MAX_MS ? HEARTBEAT_MAX_MS
                                                       : beat;
    self->incarnation = envelope->incarnation;
    //  A WELCOME of another coordinator that we did not greet: greet it.
    s_apply (self, stranger && !asked ? STRANGER : WELCOME, now_ms);
    return news && self->state == UP ? TA_NEWS_WELCOME : TA_NEWS_NONE;
}

//  A refusal to a HELLO is final. Later ones may only say that we are not
//  known (any more) or that a message was not understood.
static ta_uplink_news_t
s_on_refuse (ta_uplink_t *self, const Tutti__Envelope *envelope,
             int64_t now_ms)
{
    int code = envelope->refuse->code;
    bool passing = code == TUTTI_EAGAIN || code == TUTTI_ESTATE ||
                   (code == TUTTI_EPROTO && self->state != HELLOING);
    snprintf (self->text, sizeof self->text, "%s", envelope->refuse->text);
    if (!passing) {
        s_apply (self, CLOSE, now_ms);
        return TA_NEWS_REFUSED;
    }
    ta_log (TA_LOG_WARN, "refused-for-now", "code=%d text=\"%s\"", code,
            self->text);
    if (self->state != HELLOING)
        s_apply (self, STRANGER, now_ms);
    return TA_NEWS_NONE;
}

ta_uplink_news_t
ta_uplink_receive (ta_uplink_t *self, const Tutti__Envelope *envelope,
                   int64_t now_ms)
{
    if (self->state == DOWN || self->state == CLOSED)
        return TA_NEWS_NONE;
    bool node = !envelope->job || !*envelope->job;
    if (node && envelope->body_case == TUTTI__ENVELOPE__BODY_WELCOME)
        return s_on_welcome (self, envelope, now_ms);
    if (node && envelope->body_case == TUTTI__ENVELOPE__BODY_REFUSE)
        return s_on_refuse (self, envelope, now_ms);
    if (envelope->incarnation != self->incarnation) {
        ta_log (TA_LOG_WARN, "stale", "message=%s incarnation=%016llx",
                tp_msg_name (envelope),
                (unsigned long long) envelope->incarnation);
        if (self->state != HELLOING)
            s_apply (self, STRANGER, now_ms);
        return TA_NEWS_NONE;
    }
    s_apply (self, HEARD, now_ms);
    if (!node)
        return TA_NEWS_JOB;
    ta_log (TA_LOG_WARN, "ignored", "message=%s from=coordinator",
            tp_msg_name (envelope));
    return TA_NEWS_NONE;
}

void
ta_uplink_connected (ta_uplink_t *self, const char *data_host, int64_t now_ms)
{
    snprintf (self->data_host, sizeof self->data_host, "%s", data_host);
    snprintf (self->text, sizeof self->text,
              "the coordinator's answer to HELLO");
    s_apply (self, CONNECTED, now_ms);
}

void
ta_uplink_broken (ta_uplink_t *self, const char *why, int64_t now_ms)
{
    if (self->state != CLOSED)
        snprintf (self->text, sizeof self->text, "%s", why);
    s_apply (self, BROKEN, now_ms);
}

//  --------------------------------------------------------------------- time

static void
s_report (ta_uplink_t *self, int64_t now_ms)
{
    if (self->state == UP || self->state == CLOSED || now_ms < self->report_at)
        return;
    //  Before the first WELCOME somebody is watching; later it is background.
    self->report_at = now_ms + (self->served ? 15 * REPORT_MS : REPORT_MS);
    ta_log (TA_LOG_WARN, "waiting", "state=%s seconds=%.1f for=\"%s\"",
            s_rules[self->state].name, (double) (now_ms - self->since) / 1000,
            self->text);
}

void
ta_uplink_tick (ta_uplink_t *self, int64_t now_ms)
{
    if (self->state != DOWN && self->state != CLOSED &&
        now_ms >= self->deadline) {
        if (self->state == UP)
            snprintf (self->text, sizeof self->text,
                      "a word from the coordinator, silent for %d s",
                      SILENCE_MS / 1000);
        s_apply (self, EXPIRED, now_ms);
    }
    if (s_rules[self->state].work && now_ms >= self->beat_at) {
        s_say_heartbeat (self);
        self->beat_at = now_ms + self->heartbeat_ms;
    }
    s_report (self, now_ms);
}

static int64_t
s_min (int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t
ta_uplink_deadline (const ta_uplink_t *self)
{
    int64_t next = INT64_MAX;
    if (self->state == CLOSED)
        return next;
    if (self->state != DOWN)
        next = self->deadline;
    if (s_rules[self->state].work)
        next = s_min (next, self->beat_at);
    if (self->state != UP)
        next = s_min (next, self->report_at);
    return next;
}

void
ta_uplink_late (ta_uplink_t *self, int64_t late_ms)
{
    if (self->state == UP)
        self->deadline += late_ms;
}

//  -------------------------------------------------------------------- queue

static void
s_pop (ta_uplink_t *self)
{
    s_message_t *message = self->first;
    self->first = message->next;
    if (!self->first)
        self->last = &self->first;
    self->n_queued--;
    self->queued_bytes -= message->len;
    free (message);
}

void
ta_uplink_flush (ta_uplink_t *self)
{
    while (self->first && s_rules[self->state].work &&
           self->options.send (self->options.arg, self->first->bytes,
                               self->first->len))
        s_pop (self);
}

tutti_err_t
ta_uplink_send (ta_uplink_t *self, const uint8_t *bytes, size_t len)
{
    if (self->n_queued >= QUEUE_MESSAGES ||
        self->queued_bytes + len > QUEUE_BYTES) {
        if (self->dropped++ % 1000 == 0)
            ta_log (TA_LOG_ERROR, "uplink-full", "dropped=%llu for=\"%s\"",
                    (unsigned long long) self->dropped, self->text);
        return TUTTI_EAGAIN;
    }
    s_message_t *message = malloc (sizeof *message + len);
    if (!message)
        return TUTTI_ENOMEM;
    message->next = NULL;
    message->len = len;
    memcpy (message->bytes, bytes, len);
    *self->last = message;
    self->last = &message->next;
    self->n_queued++;
    self->queued_bytes += len;
    ta_uplink_flush (self);
    return TUTTI_OK;
}

bool
ta_uplink_queued (const ta_uplink_t *self)
{
    return self->first != NULL && s_rules[self->state].work;
}

bool
ta_uplink_crowded (const ta_uplink_t *self)
{
    return self->n_queued >= QUEUE_MESSAGES / 2 ||
           self->queued_bytes >= QUEUE_BYTES / 2;
}

//  --------------------------------------------------------------------- life

tutti_err_t
ta_uplink_new (ta_uplink_t **self_p, const ta_uplink_options_t *options,
               int64_t now_ms)
{
    assert (self_p && options && options->send && options->progress);
    ta_uplink_t *self = calloc (1, sizeof *self);
    if (!self)
        return TUTTI_ENOMEM;
    self->options = *options;
    self->last = &self->first;
    self->heartbeat_ms = HEARTBEAT_MS;
    self->backoff_ms = BACKOFF_MIN_MS;
    self->since = now_ms;
    self->report_at = now_ms + REPORT_MS;
    snprintf (self->text, sizeof self->text,
              "a connection to the coordinator");
    *self_p = self;
    return TUTTI_OK;
}

void
ta_uplink_destroy (ta_uplink_t **self_p)
{
    ta_uplink_t *self = *self_p;
    if (!self)
        return;
    while (self->first)
        s_pop (self);
    free (self);
    *self_p = NULL;
}

void
ta_uplink_goodbye (ta_uplink_t *self, int64_t now_ms)
{
    if (s_rules[self->state].work) {
        ta_uplink_flush (self);
        Tutti__Goodbye goodbye = TUTTI__GOODBYE__INIT;
        Tutti__Envelope envelope = TUTTI__ENVELOPE__INIT;
        envelope.body_case = TUTTI__ENVELOPE__BODY_GOODBYE;
        envelope.goodbye = &goodbye;
        s_send_envelope (self, &envelope);
    }
    snprintf (self->text, sizeof self->text, "said GOODBYE");
    s_apply (self, CLOSE, now_ms);
}

ta_uplink_state_t
ta_uplink_state (const ta_uplink_t *self)
{
    return self->state;
}

uint64_t
ta_uplink_incarnation (const ta_uplink_t *self)
{
    return self->incarnation;
}

const char *
ta_uplink_text (const ta_uplink_t *self)
{
    return self->text;
}
