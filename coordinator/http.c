//  coordinator/http.c - the status endpoint: read only, snapshots only

#include "coordinator/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <microhttpd.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS 256u
#define IDLE_S 10u

//  Opened and fed by the loop, read by the thread of the daemon.
struct tc_http {
    struct MHD_Daemon *daemon;
    pthread_mutex_t lock;  //  guards pages; held for a copy only
    tc_pages_t pages;
    char url[300];
};

//  -------------------------------------------------------------------- reply

static enum MHD_Result
s_reply (struct MHD_Connection *c, unsigned status, const char *type,
         const char *body)
{
    struct MHD_Response *r = MHD_create_response_from_buffer (
        strlen (body), (void *) body, MHD_RESPMEM_MUST_COPY);
    if (!r)
        return MHD_NO;
    MHD_add_response_header (r, "Content-Type", type);
    MHD_add_response_header (r, "Cache-Control", "no-store");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header (r, "Allow", "GET, HEAD");
    MHD_add_response_header (r, "X-Content-Type-Options", "nosniff");
    enum MHD_Result result = MHD_queue_response (c, status, r);
    MHD_destroy_response (r);
    return result;
}

static enum MHD_Result
s_error (struct MHD_Connection *c, unsigned status, const char *text)
{
    char body[256];
    snprintf (body, sizeof body, "{\"error\": \"%s\"}\n", text);
    return s_reply (c, status, "application/json", body);
}

//  A copy of one page; NULL before the first was published.
static char *
s_page (tc_http_t *self, char *const *which)
{
    pthread_mutex_lock (&self->lock);
    char *copy = *which ? strdup (*which) : NULL;
    pthread_mutex_unlock (&self->lock);
    return copy;
}

static enum MHD_Result
s_reply_page (tc_http_t *self, struct MHD_Connection *c, char *const *which,
              const char *type)
{
    char *page = s_page (self, which);
    enum MHD_Result result =
        page ? s_reply (c, 200, type, page)
             : s_error (c, 503, "not ready yet; try again");
    free (page);
    return result;
}

static enum MHD_Result
s_ready (tc_http_t *self, struct MHD_Connection *c)
{
    pthread_mutex_lock (&self->lock);
    bool ready = self->pages.status != NULL;
    pthread_mutex_unlock (&self->lock);
    return ready ? s_reply (c, 200, "text/plain", "ready\n")
                 : s_error (c, 503, "not ready yet; try again");
}

static enum MHD_Result
s_metrics (tc_http_t *self, struct MHD_Connection *c)
{
    const char *accept =
        MHD_lookup_connection_value (c, MHD_HEADER_KIND, "Accept");
    if (accept && strstr (accept, "application/openmetrics-text"))
        return s_reply_page (
            self, c, &self->pages.open,
            "application/openmetrics-text; version=1.0.0; charset=utf-8");
    return s_reply_page (self, c, &self->pages.text,
                         "text/plain; version=0.0.4; charset=utf-8");
}

//  The last of a name is the latest run.
static enum MHD_Result
s_job (tc_http_t *self, struct MHD_Connection *c, const char *name)
{
    char *page = s_page (self, &self->pages.status);
    json_t *status = page ? json_loads (page, 0, NULL) : NULL;
    json_t *found = NULL, *job;
    size_t i;
    json_array_foreach (json_object_get (status, "jobs"), i, job)
    {
        const char *is = json_string_value (json_object_get (job, "job"));
        if (is && strcmp (is, name) == 0)
            found = job;
    }
    char *text = found ? json_dumps (found, JSON_INDENT (1)) : NULL;
    enum MHD_Result result = text ? s_reply (c, 200, "application/json", text)
                                  : s_error (c, 404, "there is no such job");
    free (text);
    json_decref (status);
    free (page);
    return result;
}

static enum MHD_Result
s_handle (void *arg, struct MHD_Connection *c, const char *url,
          const char *method, const char *version, const char *data,
          size_t *size, void **state)
{
    tc_http_t *self = arg;
    static int seen;
    (void) version;
    (void) data;
    if (!*state) {  //  first call: headers only
        *state = &seen;
        return MHD_YES;
    }
    if (*size > 0) {  //  a body: read past it
        *size = 0;
        return MHD_YES;
    }
    if (strcmp (method, "GET") != 0 && strcmp (method, "HEAD") != 0)
        return s_error (c, 405,
                        "only GET and HEAD: this endpoint is read "
                        "only");
    if (strcmp (url, "/healthz") == 0)
        return s_reply (c, 200, "text/plain", "ok\n");
    if (strcmp (url, "/readyz") == 0)
        return s_ready (self, c);
    if (strcmp (url, "/status") == 0)
        return s_reply_page (self, c, &self->pages.status, "application/json");
    if (strcmp (url, "/metrics") == 0)
        return s_metrics (self, c);
    if (strncmp (url, "/jobs/", 6) == 0)
        return s_job (self, c, url + 6);
    return s_error (c, 404,
                    "there are /healthz /readyz /status /metrics "
                    "/jobs/NAME");
}

//  ------------------------------------------------------------------- socket

//  "HOST:PORT" or "[HOST]:PORT" in two strings.
static bool
s_split (const char *address, char *host, size_t len, const char **port_p)
{
    const char *colon = strrchr (address, ':');
    if (!colon || (size_t) (colon - address) >= len)
        return false;
    size_t n = (size_t) (colon - address);
    memcpy (host, address, n);
    host[n] = 0;
    if (n > 1 && host[0] == '[' && host[n - 1] == ']') {
        memmove (host, host + 1, n - 2);
        host[n - 2] = 0;
    }
    *port_p = colon + 1;
    return true;
}

static int
s_bind (const struct addrinfo *info)
{
    int one = 1;
    int fd = socket (info->ai_family,
                     SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    setsockopt (fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind (fd, info->ai_addr, info->ai_addrlen) == 0 &&
        listen (fd, 128) == 0)
        return fd;
    close (fd);
    return -1;
}

static void
s_set_url (tc_http_t *self, int fd, const char *host)
{
    struct sockaddr_storage at;
    socklen_t len = sizeof at;
    unsigned port = 0;
    getsockname (fd, (struct sockaddr *) &at, &len);
    if (at.ss_family == AF_INET)
        port = ntohs (((struct sockaddr_in *) &at)->sin_port);
    else
        port = ntohs (((struct sockaddr_in6 *) &at)->sin6_port);
    bool v6 = strchr (host, ':') != NULL;
    snprintf (self->url, sizeof self->url, "http://%s%s%s:%u", v6 ? "[" : "",
              host, v6 ? "]" : "", port);
}

static tutti_err_t
s_listen (tc_http_t *self, const char *address, int *fd_p, char *text)
{
    char host[256];
    const char *port;
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
                              .ai_flags = AI_PASSIVE };
    struct addrinfo *list = NULL;
    if (!s_split (address, host, sizeof host, &port)) {
        snprintf (text, TP_TEXT_MAX, "--http %.200s is not HOST:PORT",
                  address);
        return TUTTI_EINVAL;
    }
    int error = getaddrinfo (host, port, &hints, &list);
    int fd = -1;
    for (struct addrinfo *i = list; fd < 0 && i; i = i->ai_next)
        fd = s_bind (i);
    if (fd < 0)
        snprintf (text, TP_TEXT_MAX, "--http %.200s: %s", address,
                  error ? gai_strerror (error) : strerror (errno));
    else
        s_set_url (self, fd, host);
    if (list)
        freeaddrinfo (list);
    *fd_p = fd;
    if (fd >= 0)
        return TUTTI_OK;
    return error ? TUTTI_EINVAL : TUTTI_ESTATE;
}

tutti_err_t
tc_http_open (tc_http_t **self_p, const char *address, char *text)
{
    int fd = -1;
    tc_http_t *self = calloc (1, sizeof *self);
    if (!self)
        return TUTTI_ENOMEM;
    pthread_mutex_init (&self->lock, NULL);
    tutti_err_t err = s_listen (self, address, &fd, text);
    if (!err) {
        self->daemon = MHD_start_daemon (
            MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, s_handle, self,
            MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
            CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S,
            MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t) 32768,
            MHD_OPTION_END);
        if (!self->daemon) {
            snprintf (text, TP_TEXT_MAX, "cannot start the web server");
            close (fd);
            err = TUTTI_ESTATE;
        }
    }
    if (err) {
        tc_http_close (&self);
        return err;
    }
    *self_p = self;
    return TUTTI_OK;
}

static void
s_free_pages (tc_pages_t *pages)
{
    free (pages->status);
    free (pages->text);
    free (pages->open);
}

void
tc_http_close (tc_http_t **self_p)
{
    tc_http_t *self = *self_p;
    if (!self)
        return;
    if (self->daemon)
        MHD_stop_daemon (self->daemon);
    s_free_pages (&self->pages);
    pthread_mutex_destroy (&self->lock);
    free (self);
    *self_p = NULL;
}

const char *
tc_http_url (const tc_http_t *self)
{
    return self->url;
}

void
tc_http_publish (tc_http_t *self, const tc_pages_t *pages)
{
    pthread_mutex_lock (&self->lock);
    tc_pages_t old = self->pages;
    self->pages = *pages;
    pthread_mutex_unlock (&self->lock);
    s_free_pages (&old);
}
