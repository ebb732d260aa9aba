//  coordinator/node.c - liveness of one agent
//
//              HEARD      EXPIRED    GOODBYE
//  READY       READY      SUSPECT    LOST
//  SUSPECT     READY      LOST       LOST
//  LOST        -          -          -
//
//  s_rules is this picture; change both or neither. LOST is final: an agent
//  that comes back says HELLO and becomes a new node.

#include "coordinator/node.h"

#include "coordinator/log.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define ILLEGAL TC_NODE_STATES  //  no such transition

struct tc_node {
    char *name, *host, *address;  //  ours
    tc_patience_t patience;
    tc_node_state_t state;  //  written by s_enter only
    int64_t deadline;       //  monotonic ms
};

static const struct {
    const char *name;
    tc_node_state_t next[TC_NODE_EVENTS];
} s_rules[TC_NODE_STATES] = {
    { "ready", { TC_NODE_READY, TC_NODE_SUSPECT, TC_NODE_LOST } },
    { "suspect", { TC_NODE_READY, TC_NODE_LOST, TC_NODE_LOST } },
    { "lost", { ILLEGAL, ILLEGAL, ILLEGAL } },
};

//  The only writer of state, so the log shows every change.
static void
s_enter (tc_node_t *self, tc_node_state_t state, int64_t now_ms)
{
    if (state != self->state)
        tc_log (state == TC_NODE_READY ? TC_LOG_INFO : TC_LOG_WARN, "node",
                "node=%s state=%s was=%s", self->name, s_rules[state].name,
                s_rules[self->state].name);
    self->deadline = INT64_MAX;
    if (state == TC_NODE_READY)
        self->deadline = now_ms + self->patience.suspect;
    if (state == TC_NODE_SUSPECT)
        self->deadline = now_ms + self->patience.lost - self->patience.suspect;
    self->state = state;
}

tutti_err_t
tc_node_new (tc_node_t **self_p, const Tutti__Hello *hello,
             tc_patience_t patience, int64_t now_ms)
{
    assert (self_p && hello);
    tc_node_t *self = calloc (1, sizeof *self);
    if (self) {
        self->name = strdup (hello->node);
        self->host = strdup (hello->host);
        self->address = strdup (hello->data_host);
    }
    if (!self || !self->name || !self->host || !self->address) {
        tc_node_destroy (&self);  //  copes with half a node, or none
        return TUTTI_ENOMEM;
    }
    self->patience = patience;
    s_enter (self, TC_NODE_READY, now_ms);
    *self_p = self;
    return TUTTI_OK;
}

void
tc_node_destroy (tc_node_t **self_p)
{
    assert (self_p);
    if (!*self_p)
        return;
    tc_node_t *self = *self_p;
    free (self->name);
    free (self->host);
    free (self->address);
    free (self);
    *self_p = NULL;
}

tutti_err_t
tc_node_event (tc_node_t *self, tc_node_event_t event, int64_t now_ms)
{
    assert (self && event < TC_NODE_EVENTS);
    tc_node_state_t next = s_rules[self->state].next[event];
    if (next == ILLEGAL)
        return TUTTI_ESTATE;
    s_enter (self, next, now_ms);
    return TUTTI_OK;
}

void
tc_node_late (tc_node_t *self, int64_t late_ms)
{
    if (self->deadline != INT64_MAX)
        self->deadline += late_ms;
}

tc_node_state_t
tc_node_state (const tc_node_t *self)
{
    return self->state;
}

int64_t
tc_node_deadline (const tc_node_t *self)
{
    return self->deadline;
}

const char *
tc_node_name (const tc_node_t *self)
{
    return self->name;
}

const char *
tc_node_host (const tc_node_t *self)
{
    return self->host;
}

const char *
tc_node_address (const tc_node_t *self)
{
    return self->address;
}

const char *
tc_node_state_name (tc_node_state_t state)
{
    return s_rules[state].name;
}
