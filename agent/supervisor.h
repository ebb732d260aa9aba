//  agent/supervisor.h - the agent process of a node
//
//  Owns the door (clients), the crew (workers) and the uplink (coordinator),
//  and moves messages between them. No collective's bytes pass here.

#ifndef TA_SUPERVISOR_H
#define TA_SUPERVISOR_H

#include "agent/options.h"

//  Serve until SIGTERM or SIGINT (TUTTI_OK), or until it cannot: TEXT
//  (TP_TEXT_MAX bytes) then says why. READY is called once, when clients are
//  served, with the address of the data plane.
tutti_err_t
ta_supervisor_run (const ta_options_t *options,
                   void (*ready) (const ta_options_t *options,
                                  const char *data),
                   char *text);

#endif
