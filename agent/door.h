//  agent/door.h - where clients come in
//
//  Accepts connections, waits a limited time for HELLO, checks it, and offers
//  the client to its owner. A client that sends garbage loses its connection
//  and nothing else happens. The number of clients at the door is bounded;
//  beyond it, connections wait in the kernel.
//
//  Owner: the supervisor.

#ifndef TA_DOOR_H
#define TA_DOOR_H

#include "agent/attach.h"

typedef struct ta_door ta_door_t;

//  Take CLIENT. TUTTI_OK: its descriptors are no longer the door's.
//  TUTTI_EAGAIN: not yet, it will be offered again (ta_door_retry), and TEXT
//  (TP_TEXT_MAX bytes) tells it what it waits for. Else it is refused with
//  TEXT.
typedef tutti_err_t (ta_door_admit_t) (void *arg, ta_client_t *client,
                                       char *text);

//  Listen at PATH or @NAME. NODE stays the caller's. Errors as
//  ta_listener_open, and TUTTI_ENOMEM.
tutti_err_t
ta_door_open (ta_door_t **self_p, const char *path, const char *node,
              ta_door_admit_t *admit, void *arg, char *text);

//  Refuse who is still at the door with TEXT, stop listening, remove the
//  socket's file.
void
ta_door_close (ta_door_t **self_p, const char *text);

//  Poll this for input, and call turn then and at the deadline.
int
ta_door_fd (const ta_door_t *self);
int64_t
ta_door_deadline (const ta_door_t *self);
void
ta_door_turn (ta_door_t *self, int64_t now_ms);

//  The owner slept LATE_MS too long: clients get that much longer.
void
ta_door_late (ta_door_t *self, int64_t late_ms);

//  Offer the clients that are waiting once more.
void
ta_door_retry (ta_door_t *self);

#endif
