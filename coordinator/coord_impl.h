//  coordinator/coord_impl.h - what the sources of the loop share

#ifndef TC_COORD_IMPL_H
#define TC_COORD_IMPL_H

#include "coordinator/coord.h"

#define KEY_MAX (2 * TC_PEER_MAX + 1)

//  A routing id as a string of at most KEY_MAX bytes, for tables and logs.
void
tc_peer_key (const tc_peer_t *peer, char *key);

//  The node of a connection, or NULL.
tc_entry_t *
tc_coord_peer (tc_coord_t *self, const tc_peer_t *peer);

//  Send to a connection, or not at all. False: it is gone, or does not read.
bool
tc_coord_send (tc_coord_t *self, const tc_peer_t *peer,
               Tutti__Envelope *envelope);

//  Tell a connection that its node is not let in.
void
tc_coord_refuse (tc_coord_t *self, const tc_peer_t *peer, tutti_err_t err,
                 const char *text);

//  What was on that node is gone, and so is its connection.
void
tc_coord_lose (tc_coord_t *self, tc_entry_t *entry, const char *cause);

//  Drop and free the entry; its jobs are not told.
void
tc_coord_forget (tc_coord_t *self, tc_entry_t *entry);

//  PEER said HELLO: welcome it, or refuse.
void
tc_coord_hello (tc_coord_t *self, const tc_peer_t *peer,
                const Tutti__Envelope *envelope);

//  Decide about the HELLOs whose time has come.
void
tc_coord_rivals (tc_coord_t *self);

//  The deadline of a node has passed.
void
tc_coord_expire (tc_coord_t *self, tc_entry_t *entry);

#endif
