//  client/tool/run.h - a program as N ranks, in a cluster of its own or ours
//
//  The tool starts a private cluster unless TUTTI_AGENT (or TUTTI_COORDINATOR:
//  then the agent of this machine) names one.

#ifndef TOOL_RUN_H
#define TOOL_RUN_H

#include "client/tool/cluster.h"

typedef struct run_options {
    int ranks;
    cluster_options_t cluster;  //  nodes 0: not said
    const char *elastic;        //  "MIN:MAX", or NULL
    int elastic_min;            //  0: not elastic
    const char *job;            //  NULL: made up
    int timeout_s;              //  0: none
    bool label;                 //  "[rank] " before every line
    bool keep;                  //  the cluster stays until a signal
    bool report;                //  ranks report on stderr (TUTTI_REPORT)
} run_options_t;

//  Run PROGRAM (argv, ends with NULL). The value is the exit status.
int
tool_run (const run_options_t *options, char **program);

//  Cut TEXT, "a,b,c", in place: *list_p ends with NULL. NAME is "--netns" or
//  "--addresses". False, and the reason on stderr, if it is no list.
bool
tool_run_list (const char *name, char *text, char ***list_p);

//  False, and the reason on stderr, if the options contradict each other or
//  the environment. COMMAND is named in the text. Fills in the nodes.
bool
tool_run_check (run_options_t *options, const char *command);

#endif
