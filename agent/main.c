//  agent/main.c - tutti-agent: arguments and exit codes
//
//  Exit status: 0 after SIGTERM or SIGINT, --help and --version; 1 when it
//  cannot serve, with one line on stderr that says why; 2 for bad arguments.

#include "agent/options.h"
#include "agent/supervisor.h"
#include "agent/worker.h"

#include <stdio.h>

//  The only line on stdout: scripts wait for it.
static void
s_ready (const ta_options_t *options, const char *data)
{
    printf ("ready socket=%s node=%s data=%s\n", options->socket,
            options->node, data);
    fflush (stdout);
}

int
main (int argc, char **argv)
{
    ta_options_t options;
    char text[TP_TEXT_MAX] = "";
    tutti_err_t err = ta_options_read (&options, argc, argv, text);
    if (err) {
        fprintf (stderr, "tutti-agent: %s\n", text);
        return 2;
    }
    switch (options.action) {
    case TA_WORK:
        return ta_worker_main (TA_WORKER_FD);
    case TA_HELP:
        fputs (ta_options_help (), stdout);
        return 0;
    case TA_VERSION:
        puts ("tutti-agent " TA_VERSION_TEXT);
        return 0;
    case TA_SERVE:
        break;
    }
    err = ta_supervisor_run (&options, s_ready, text);
    if (err)
        fprintf (stderr, "tutti-agent: %s\n", text);
    return err ? 1 : 0;
}
