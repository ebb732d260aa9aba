//  coordinator/coord_nodes.c - which connection is which node
//
//  A node's name belongs to one connection. A second one with the name is
//  refused while the first lives, else it takes its place, if it has the same
//  key: a listed key is no right to the name of any node that falls silent.

#include "coordinator/coord_impl.h"

#include "coordinator/log.h"

#include <czmq.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES_MAX 16384
#define RIVAL_MS 100  //  for a broken connection to be noticed
#define LOST_MAX 256  //  lost nodes that are still shown

//  A routing id as a string, for tables and logs.
void
tc_peer_key (const tc_peer_t *peer, char *key)
{
    for (size_t i = 0; i < peer->len; i++)
        snprintf (key + 2 * i, 3, "%02x", peer->id[i]);
    key[2 * peer->len] = 0;
}

bool
tc_coord_send (tc_coord_t *self, const tc_peer_t *peer, Tutti__Envelope *e)
{
    e->protocol = TP_PROTOCOL;
    e->incarnation = self->options.incarnation;
    return tc_wire_send (self->wire, peer, e);
}

tc_entry_t *
tc_coord_peer (tc_coord_t *self, const tc_peer_t *peer)
{
    char key[KEY_MAX];
    tc_peer_key (peer, key);
    return zhashx_lookup (self->by_peer, key);
}

void
tc_coord_refuse (tc_coord_t *self, const tc_peer_t *peer, tutti_err_t err,
                 const char *text)
{
    Tutti__Envelope e = TUTTI__ENVELOPE__INIT;
    Tutti__Refuse refuse = TUTTI__REFUSE__INIT;
    refuse.code = err;
    refuse.text = (char *) text;
    e.body_case = TUTTI__ENVELOPE__BODY_REFUSE;
    e.refuse = &refuse;
    tc_coord_send (self, peer, &e);
}

static bool
s_welcome (tc_coord_t *self, const tc_peer_t *peer)
{
    Tutti__Envelope e = TUTTI__ENVELOPE__INIT;
    Tutti__Welcome welcome = TUTTI__WELCOME__INIT;
    char version[32];
    snprintf (version, sizeof version, "%d.%d.%d", TUTTI_VERSION_MAJOR,
              TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH);
    welcome.heartbeat_ms = self->options.heartbeat_ms;
    welcome.version = version;
    e.body_case = TUTTI__ENVELOPE__BODY_WELCOME;
    e.welcome = &welcome;
    return tc_coord_send (self, peer, &e);
}

//  What was on that node is gone; so is its connection.
void
tc_coord_lose (tc_coord_t *self, tc_entry_t *entry, const char *cause)
{
    char key[KEY_MAX];
    const char *name = tc_node_name (entry->node);
    tc_peer_key (&entry->peer, key);
    zhashx_delete (self->by_peer, key);
    for (size_t i = 0; i < self->n_jobs; i++)
        tc_job_node_lost (self->jobs[i], name, cause, self->now_ms);
    tc_store_node (self->store, name, tc_node_host (entry->node), "lost");
}

void
tc_coord_forget (tc_coord_t *self, tc_entry_t *entry)
{
    char key[KEY_MAX];
    size_t i = 0;
    while (self->nodes[i] != entry)
        i++;
    memmove (&self->nodes[i], &self->nodes[i + 1],
             (--self->n_nodes - i) * sizeof (self->nodes[0]));
    tc_peer_key (&entry->peer, key);
    if (zhashx_lookup (self->by_peer, key) == entry)
        zhashx_delete (self->by_peer, key);
    zhashx_delete (self->by_name, tc_node_name (entry->node));
    tc_node_destroy (&entry->node);
    free (entry);
}

//  Room for one more; lost nodes beyond the limit are forgotten.
static bool
s_room (tc_coord_t *self)
{
    size_t lost = 0;
    tc_entry_t *oldest = NULL;
    for (size_t i = self->n_nodes; i > 0; i--)
        if (tc_node_state (self->nodes[i - 1]->node) == TC_NODE_LOST) {
            oldest = self->nodes[i - 1];
            lost++;
        }
    if (lost > LOST_MAX)
        tc_coord_forget (self, oldest);
    tc_entry_t **more =
        realloc (self->nodes, (self->n_nodes + 1) * sizeof *more);
    if (more)
        self->nodes = more;
    return more && self->n_nodes < NODES_MAX;
}

static void
s_add_node (tc_coord_t *self, const tc_peer_t *peer, const Tutti__Hello *hello)
{
    char key[KEY_MAX];
    tc_entry_t *entry = s_room (self) ? calloc (1, sizeof *entry) : NULL;
    if (!entry || tc_node_new (&entry->node, hello, self->options.patience,
                               self->now_ms)) {
        free (entry);
        tc_coord_refuse (self, peer, TUTTI_EAGAIN,
                         "the coordinator has no room for "
                         "one more node; try again");
        return;
    }
    entry->peer = *peer;
    self->nodes[self->n_nodes++] = entry;
    tc_peer_key (peer, key);
    zhashx_update (self->by_peer, key, entry);
    zhashx_update (self->by_name, hello->node, entry);
    tc_store_node (self->store, hello->node, hello->host, "ready");
    tc_log (TC_LOG_INFO, "hello",
            "node=%s host=\"%s\" data=\"%s\" version=\"%s\" peer=%s",
            hello->node, hello->host, hello->data_host, hello->version, key);
    s_welcome (self, peer);
}

static void
s_refuse_node (tc_coord_t *self, const tc_peer_t *peer,
               const tc_entry_t *entry, const Tutti__Hello *hello)
{
    char text[TP_TEXT_MAX];
    snprintf (text, sizeof text,
              "node %s is here already, from host %s; start this agent on "
              "host %s with another --node",
              hello->node, tc_node_host (entry->node), hello->host);
    tc_log (TC_LOG_WARN, "refuse", "node=%s text=\"%s\"", hello->node, text);
    tc_coord_refuse (self, peer, TUTTI_EJOIN, text);
}

//  The agent of ENTRY over a new connection, or another in its place. One
//  that knows our incarnation was welcomed before: its jobs go on.
static void
s_replace_node (tc_coord_t *self, const tc_peer_t *peer, tc_entry_t *entry,
                const Tutti__Envelope *e)
{
    if (tc_node_state (entry->node) != TC_NODE_LOST &&
        e->incarnation != self->options.incarnation) {
        char cause[128];
        snprintf (cause, sizeof cause, "the agent of node %s was restarted",
                  e->hello->node);
        tc_coord_lose (self, entry, cause);
    }
    tc_coord_forget (self, entry);
    s_add_node (self, peer, e->hello);
}

//  Keep a copy of the HELLO for later; false if there is no place.
static bool
s_defer (tc_coord_t *self, const tc_peer_t *peer, const Tutti__Envelope *e)
{
    uint8_t *bytes;
    size_t len;
    tc_rival_t *rival = self->rivals;
    while (rival < self->rivals + TC_RIVALS && rival->hello)
        rival++;
    if (rival == self->rivals + TC_RIVALS || tp_msg_pack (e, &bytes, &len))
        return false;
    tutti_err_t err = tp_msg_unpack (bytes, len, &rival->hello, NULL);
    free (bytes);
    rival->peer = *peer;
    rival->due_ms = self->now_ms + RIVAL_MS;
    return err == TUTTI_OK;
}

//  Whether the key of PEER has a right to the name in its HELLO.
static bool
s_rightful (tc_coord_t *self, const tc_peer_t *peer, const tc_entry_t *entry,
            const Tutti__Hello *hello)
{
    char text[TP_TEXT_MAX];
    bool ok = tc_wire_owns (self->wire, peer->key, hello->node, text);
    if (ok && entry && strcmp (entry->peer.key, peer->key) != 0) {
        ok = false;
        snprintf (text, sizeof text,
                  "node %s was here with another key (host %s); use that key, "
                  "another --node, or restart the coordinator if the node "
                  "has new keys",
                  hello->node, tc_node_host (entry->node));
    }
    if (ok)
        return true;
    tc_log (TC_LOG_WARN, "refuse", "node=%s text=\"%s\"", hello->node, text);
    tc_coord_refuse (self, peer, TUTTI_EDENIED, text);
    return false;
}

static void
s_decide (tc_coord_t *self, const tc_peer_t *peer, const Tutti__Envelope *e,
          bool at_last)
{
    tc_entry_t *entry = zhashx_lookup (self->by_name, e->hello->node);
    tc_entry_t *known = tc_coord_peer (self, peer);
    if (!s_rightful (self, peer, entry, e->hello))
        return;
    if (known && known != entry) {
        tc_coord_refuse (
            self, peer, TUTTI_EINVAL,
            "this connection said HELLO with another name before");
        return;
    }
    if (known) {
        tc_node_event (entry->node, TC_NODE_HEARD, self->now_ms);
        s_welcome (self, peer);
        return;
    }
    //  A WELCOME too many harms nobody, and shows whether the first
    //  connection is still there.
    if (entry && tc_node_state (entry->node) == TC_NODE_READY &&
        s_welcome (self, &entry->peer)) {
        if (at_last || !s_defer (self, peer, e))
            s_refuse_node (self, peer, entry, e->hello);
        return;
    }
    if (entry)
        s_replace_node (self, peer, entry, e);
    else
        s_add_node (self, peer, e->hello);
}

void
tc_coord_hello (tc_coord_t *self, const tc_peer_t *peer,
                const Tutti__Envelope *e)
{
    s_decide (self, peer, e, false);
}

void
tc_coord_rivals (tc_coord_t *self)
{
    for (size_t i = 0; i < TC_RIVALS; i++) {
        tc_rival_t *rival = &self->rivals[i];
        if (!rival->hello || self->now_ms < rival->due_ms)
            continue;
        s_decide (self, &rival->peer, rival->hello, true);
        tp_msg_free (&rival->hello);
        self->dirty = true;
    }
}

void
tc_coord_expire (tc_coord_t *self, tc_entry_t *entry)
{
    char cause[128];
    tc_node_event (entry->node, TC_NODE_EXPIRED, self->now_ms);
    self->dirty = true;
    if (tc_node_state (entry->node) != TC_NODE_LOST)
        return;
    snprintf (cause, sizeof cause, "node %s silent for %.1f s",
              tc_node_name (entry->node),
              (double) self->options.patience.lost / 1000.0);
    tc_coord_lose (self, entry, cause);
}
