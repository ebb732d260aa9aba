//  coordinator/http.h - the status endpoint: read only, snapshots only
//
//  A thread of libmicrohttpd serves what the loop published last. No request
//  can make the loop wait.

#ifndef TC_HTTP_H
#define TC_HTTP_H

#include "protocol/types.h"

typedef struct tc_http tc_http_t;

//  One version of what is served; strings are malloc'ed and become the
//  server's.
typedef struct tc_pages {
    char *status;  //  JSON
    char *text;    //  metrics, text format 0.0.4
    char *open;    //  metrics, OpenMetrics 1.0.0
} tc_pages_t;

//  Serve on "HOST:PORT" ("127.0.0.1:0", "[::1]:7071"). TUTTI_EINVAL,
//  TUTTI_ESTATE (the address cannot be used now), with one sentence in TEXT
//  (TP_TEXT_MAX); TUTTI_ENOMEM.
tutti_err_t
tc_http_open (tc_http_t **self_p, const char *address, char *text);
void
tc_http_close (tc_http_t **self_p);

//  "http://127.0.0.1:40123".
const char *
tc_http_url (const tc_http_t *self);

//  Replace what is served.
void
tc_http_publish (tc_http_t *self, const tc_pages_t *pages);

#endif
