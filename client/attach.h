//  client/attach.h - becoming a rank: from the socket to the world's board

#ifndef TL_ATTACH_H
#define TL_ATTACH_H

#include "client/session.h"

//  Connect, say HELLO, wait for WELCOME and map what came with it, within
//  the join timeout of WHO. A socket that is not there, or where nobody
//  listens, is waited for if the folder of its name is there: the node's
//  agent may still be starting. On success SELF has all that the agent gave,
//  and *board_p is the world's board, the caller's; on an error SELF is to be
//  closed. TUTTI_EAGENTLOST, EJOIN, EDENIED, EVERSION, EINVAL, EPROTO, ENOMEM.
tutti_err_t
tl_attach (tl_session_t *self, const tl_whoami_t *who, tp_board_t **board_p);

#endif
