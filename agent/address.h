//  agent/address.h - the address of the data plane
//
//  Peers must be able to reach what we tell. Guessing an interface picks
//  docker0; the address of the route to the coordinator is one that the
//  cluster's network knows. An administrator may say better.

#ifndef TA_ADDRESS_H
#define TA_ADDRESS_H

#include "protocol/types.h"

#define TA_ADDRESS_MAX TP_NAME_MAX

//  The address that SPEC names: a literal that this host has, an interface,
//  or a CIDR that one of our addresses lies in. TUTTI_EINVAL with a sentence
//  in TEXT (TP_TEXT_MAX bytes).
tutti_err_t
ta_address_find (const char *spec, char *address, char *text);

//  Both ends of the connected socket FD; false if it has none (any more).
bool
ta_address_of (int fd, char *local, char *peer);

//  127.0.0.0/8 or ::1.
bool
ta_address_loopback (const char *address);

#endif
