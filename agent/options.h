//  agent/options.h - how an agent was started
//
//  Command line first, then the environment: TUTTI_COORDINATOR, and
//  TUTTI_AGENT_<OPTION> for the others ("--data-bind" is
//  TUTTI_AGENT_DATA_BIND), then the default.

#ifndef TA_OPTIONS_H
#define TA_OPTIONS_H

#include "protocol/types.h"

#define TA_TEXT_OF_(x) #x
#define TA_TEXT_OF(x) TA_TEXT_OF_ (x)
#define TA_VERSION_TEXT                                                       \
    TA_TEXT_OF (TUTTI_VERSION_MAJOR)                                          \
    "." TA_TEXT_OF (TUTTI_VERSION_MINOR) "." TA_TEXT_OF (TUTTI_VERSION_PATCH)

#define TA_LABELS_MAX 32
#define TA_STAGING_MIN (1u << 20)

typedef enum ta_action {
    TA_SERVE,  //  be a supervisor
    TA_WORK,   //  be a worker (--worker)
    TA_HELP,
    TA_VERSION
} ta_action_t;

//  Strings are the caller's (argv, environment) unless said.
typedef struct ta_options {
    ta_action_t action;
    const char *coordinator;
    const char *socket;
    const char *data_bind;  //  NULL: the route to the coordinator
    const char *keys;       //  NULL: none
    const char *transport;
    char node[TP_NAME_MAX];  //  ours
    const char *labels[TA_LABELS_MAX];
    uint32_t n_labels;
    uint16_t port_lo, port_hi;  //  0, 0: any
    uint32_t channels;          //  0: the plan's
    uint64_t staging_bytes;
    bool insecure;
} ta_options_t;

//  TUTTI_EINVAL: TEXT (TP_TEXT_MAX bytes) says which argument and why.
tutti_err_t
ta_options_read (ta_options_t *self, int argc, char **argv, char *text);

//  The text of --help.
const char *
ta_options_help (void);

#endif
