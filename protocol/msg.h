//  protocol/msg.h - control messages: pack, unpack, check (protobuf-c)
//
//  Daemons only. An unpacked Envelope has been checked: body present, names
//  legal, numbers in range, lists bounded, strings short and printable. So
//  the rest of the code may trust lengths and ranges, never meaning.

#ifndef TP_MSG_H
#define TP_MSG_H

#include "protocol/types.h"
#include "protocol/tutti.pb-c.h"

#define TP_MSG_MAX (4u << 20)  //  bytes of one packed Envelope

//  Pack into a new buffer that the caller frees with free ().
//  TUTTI_ENOMEM.
tutti_err_t
tp_msg_pack (const Tutti__Envelope *envelope, uint8_t **bytes_p,
             size_t *len_p);

//  Unpack and check. On success the caller owns *envelope_p and frees it with
//  tp_msg_free. TUTTI_EPROTO (text says what was wrong, if TEXT is not NULL:
//  TP_TEXT_MAX bytes), TUTTI_EVERSION (other major; text names both).
tutti_err_t
tp_msg_unpack (const uint8_t *bytes, size_t len, Tutti__Envelope **envelope_p,
               char *text);

void
tp_msg_free (Tutti__Envelope **envelope_p);

//  "JOIN", for logs.
const char *
tp_msg_name (const Tutti__Envelope *envelope);

#endif
