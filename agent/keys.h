//  agent/keys.h - CURVE keys of this agent and of its coordinator
//
//  A key file has a line per key, "NAME Z85": coordinator_public,
//  agent_public, agent_secret. '#' begins a comment. It may be handed over as
//  an inherited descriptor, "fd:N", so private runs write no file.

#ifndef TA_KEYS_H
#define TA_KEYS_H

#include "protocol/types.h"

#define TA_KEY_TEXT 41  //  Z85 of 32 bytes, with the zero

typedef struct ta_keys {
    char coordinator_public[TA_KEY_TEXT];
    char agent_public[TA_KEY_TEXT];
    char agent_secret[TA_KEY_TEXT];
} ta_keys_t;

//  Read keys from SOURCE. On error TEXT (TP_TEXT_MAX bytes) says what to do:
//  TUTTI_EINVAL (no such file, or not a key file), TUTTI_EDENIED (others may
//  read the file).
tutti_err_t
ta_keys_read (ta_keys_t *self, const char *source, char *text);

//  Overwrite the keys.
void
ta_keys_wipe (ta_keys_t *self);

#endif
