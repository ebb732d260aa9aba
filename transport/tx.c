//  transport/tx.c - the registry, the accessors, the default bodies

#include "transport/tx_base.h"

#include <string.h>

#define FAULTY "faulty:"

static const tx_ops_t *const s_all[] = { &tx_tcp_ops, &tx_loopback_ops };

const tx_ops_t *
tx_find (const char *name)
{
    if (!name)
        return NULL;
    for (size_t i = 0; i < sizeof s_all / sizeof *s_all; i++)
        if (strcmp (name, s_all[i]->name) == 0)
            return s_all[i];
    if (strncmp (name, FAULTY, strlen (FAULTY)) == 0)
        return tx_faulty_find (name + strlen (FAULTY));
    return NULL;
}

void *
tx_ep_user (const tx_ep_t *ep)
{
    return ep->user;
}

void
tx_ep_set_user (tx_ep_t *ep, void *user)
{
    ep->user = user;
}

uint32_t
tx_ep_peer (const tx_ep_t *ep)
{
    return ep->peer;
}

tutti_err_t
tx_no_resume (tx_t *self, tx_ep_t *ep, const char *address)
{
    (void) self;
    (void) ep;
    (void) address;
    return TUTTI_ENOTSUP;
}

//  A region that needs no registration is its own handle.
tutti_err_t
tx_any_region_add (tx_t *self, void *ptr, size_t bytes, tx_region_t **region_p)
{
    (void) self;
    (void) bytes;
    *region_p = ptr;
    return TUTTI_OK;
}

void
tx_any_region_drop (tx_t *self, tx_region_t **region_p)
{
    (void) self;
    *region_p = NULL;
}
