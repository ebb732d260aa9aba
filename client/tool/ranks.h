//  client/tool/ranks.h - the ranks of a run: start, watch, end
//
//            FAILED   SIGNAL   EXPIRED   patience over
//  RUNNING   PATIENT  PATIENT  ASKED     -
//  PATIENT   -        KILLED   ASKED     ASKED
//  ASKED     -        KILLED   -         KILLED
//  KILLED    -        -        -         -
//
//  A rank that fails leaves the others 5 s to end by themselves (RUNNING to
//  PATIENT), SIGTERM another 2 s, then SIGKILL. A signal to the tool goes to
//  the ranks; the second one kills. --timeout is EXPIRED.

#ifndef TOOL_RANKS_H
#define TOOL_RANKS_H

#include "client/tool/cluster.h"
#include "client/tool/run.h"

typedef struct ranks ranks_t;

//  Start all ranks: the program at PATH with the arguments PROGRAM. CLUSTER
//  NULL: somebody else's agent. SIGNAL_FD is a signalfd of SIGCHLD and the
//  signals to end. NULL: the reason is on stderr and nothing is left running.
ranks_t *
ranks_start (const run_options_t *options, const char *job, const char *path,
             char **program, cluster_t *cluster, int signal_fd);

//  Watch until the last one ended; the value is the exit status of the run.
int
ranks_watch (ranks_t *self);

void
ranks_destroy (ranks_t **self_p);

#endif
