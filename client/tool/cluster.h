//  client/tool/cluster.h - a private coordinator and its agents
//
//  All on this machine, with CURVE keys made for the occasion and handed over
//  by inherited descriptors. Nothing has a name in the file system: sockets
//  are abstract, logs are unlinked files.

#ifndef TOOL_CLUSTER_H
#define TOOL_CLUSTER_H

#include <stdbool.h>

typedef struct cluster_options {
    int nodes;
    const char *http;       //  ADDR:PORT of the status page; NULL: any port
    const char *transport;  //  of the agents; NULL: theirs
    const char *channels;   //  of the agents; NULL: theirs
    char **netns;           //  per node, or NULL
    char **addresses;       //  per node, or NULL: 127.0.0.1
    bool verbose;           //  logs go to stderr
} cluster_options_t;

typedef struct cluster cluster_t;

//  Start everything and wait until it serves. OPTIONS must outlive it.
//  STOP_FD is a signalfd: a signal to end, read from it, ends the start. NULL,
//  with everything stopped and the reason on stderr, on failure.
cluster_t *
cluster_start (const cluster_options_t *options, int stop_fd);

//  Stop everything, within seconds, and free. NULL is fine.
void
cluster_stop (cluster_t **self_p);

//  A daemon that ended meanwhile is reported once, with its last words.
void
cluster_check (cluster_t *self);

//  The local socket and the name of a node; the status address.
const char *
cluster_agent (const cluster_t *self, int node);
const char *
cluster_node (const cluster_t *self, int node);
const char *
cluster_url (const cluster_t *self);

//  The network namespace of a node; NULL: this one.
const char *
cluster_netns (const cluster_t *self, int node);

#endif
