//  transport/tcp_addr.c - literals, listening, socket options

#include "transport/tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BACKLOG 4096
#define LOCAL_SEND_BYTES (512 << 10)  //  of a socket to the same host

//  getaddrinfo reads scopes ("fe80::1%eth0") too, and asks nobody.
static tutti_err_t
s_resolve (const char *host, const char *port, struct sockaddr_storage *to,
           socklen_t *len)
{
    struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                              .ai_socktype = SOCK_STREAM };
    struct addrinfo *found = NULL;
    if (getaddrinfo (host, port, &hints, &found) != 0)
        return TUTTI_EINVAL;
    memcpy (to, found->ai_addr, found->ai_addrlen);
    *len = found->ai_addrlen;
    freeaddrinfo (found);
    return TUTTI_OK;
}

tutti_err_t
tx_tcp_parse (const char *text, struct sockaddr_storage *to, socklen_t *len)
{
    char host[TCP_ADDRESS_MAX];
    const char *colon = text ? strrchr (text, ':') : NULL;
    if (!colon || colon[1] == 0)
        return TUTTI_EINVAL;
    const char *start = text;
    const char *end = colon;
    if (*text == '[') {
        start++;
        end--;
        if (end <= start || *end != ']')
            return TUTTI_EINVAL;
    }
    else if (memchr (text, ':', (size_t) (colon - text)))
        return TUTTI_EINVAL;  //  IPv6 without its brackets
    size_t n = (size_t) (end - start);
    if (n == 0 || n >= sizeof host)
        return TUTTI_EINVAL;
    memcpy (host, start, n);
    host[n] = 0;
    return s_resolve (host, colon + 1, to, len);
}

static void
s_format (const struct sockaddr_storage *of, socklen_t of_len, char *text,
          size_t len)
{
    char host[INET6_ADDRSTRLEN + 16], port[8];
    if (getnameinfo ((const struct sockaddr *) of, of_len, host, sizeof host,
                     port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        snprintf (text, len, "an unknown address");
    else if (of->ss_family == AF_INET6)
        snprintf (text, len, "[%s]:%s", host, port);
    else
        snprintf (text, len, "%s:%s", host, port);
}

void
tx_tcp_peer_text (int fd, char *text, size_t len)
{
    struct sockaddr_storage peer;
    socklen_t peer_len = sizeof peer;
    if (getpeername (fd, (struct sockaddr *) &peer, &peer_len) < 0)
        snprintf (text, len, "an unknown address");
    else
        s_format (&peer, peer_len, text, len);
}

static void
s_set_port (struct sockaddr_storage *at, uint16_t port)
{
    if (at->ss_family == AF_INET6)
        ((struct sockaddr_in6 *) at)->sin6_port = htons (port);
    else
        ((struct sockaddr_in *) at)->sin_port = htons (port);
}

//  Two processes may both bind a port with SO_REUSEADDR as long as neither
//  listens, so listen () is part of the attempt.
static int
s_listen_at (const struct sockaddr_storage *at, socklen_t len)
{
    int fd =
        socket (at->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    int on = 1, off = 0;
    setsockopt (fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (at->ss_family == AF_INET6)
        setsockopt (fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind (fd, (const struct sockaddr *) at, len) == 0 &&
        listen (fd, BACKLOG) == 0)
        return fd;
    int err = errno;
    close (fd);
    errno = err;
    return -1;
}

static tutti_err_t
s_listen_error (void)
{
    switch (errno) {
    case EADDRINUSE:
        return TUTTI_EAGAIN;
    case EACCES:
    case EPERM:
        return TUTTI_EPERM;
    case ENOMEM:
    case ENOBUFS:
    case EMFILE:
    case ENFILE:
        return TUTTI_ENOMEM;
    default:
        return TUTTI_EINVAL;
    }
}

//  What peers can connect to. A wildcard is no destination, so it becomes the
//  loopback of its family: right on one host, and a caller with several hosts
//  binds to the address it wants to be known by.
static void
s_listen_text (int fd, char *text, size_t len)
{
    struct sockaddr_storage at;
    socklen_t at_len = sizeof at;
    memset (&at, 0, sizeof at);
    getsockname (fd, (struct sockaddr *) &at, &at_len);
    struct sockaddr_in *v4 = (struct sockaddr_in *) &at;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *) &at;
    if (at.ss_family == AF_INET && v4->sin_addr.s_addr == INADDR_ANY)
        v4->sin_addr.s_addr = htonl (INADDR_LOOPBACK);
    else if (at.ss_family == AF_INET6 &&
             IN6_IS_ADDR_UNSPECIFIED (&v6->sin6_addr))
        v6->sin6_addr = in6addr_loopback;
    s_format (&at, at_len, text, len);
}

tutti_err_t
tx_tcp_listen (int *fd_p, const char *bind, uint16_t lo, uint16_t hi,
               char *text, size_t len)
{
    struct sockaddr_storage at;
    socklen_t at_len;
    if (!bind || lo > hi || s_resolve (bind, "0", &at, &at_len)) {
        errno = EINVAL;
        return TUTTI_EINVAL;
    }
    //  Start anywhere in the range: jobs that start together seldom collide.
    uint32_t ports = (uint32_t) hi - lo + 1;
    uint32_t first = (uint32_t) tx_now_ns () % ports;
    int fd = -1;
    for (uint32_t i = 0; i < ports && fd < 0; i++) {
        s_set_port (&at, (uint16_t) (lo + (first + i) % ports));
        fd = s_listen_at (&at, at_len);
        if (fd < 0 && errno != EADDRINUSE)
            break;
    }
    if (fd < 0)
        return s_listen_error ();
    s_listen_text (fd, text, len);
    *fd_p = fd;
    return TUTTI_OK;
}

//  Both ends of a socket; false if it has not got both.
static bool
s_ends (int fd, struct sockaddr_storage *here, struct sockaddr_storage *there)
{
    socklen_t here_len = sizeof *here, there_len = sizeof *there;
    memset (here, 0, sizeof *here);
    memset (there, 0, sizeof *there);
    return getsockname (fd, (struct sockaddr *) here, &here_len) == 0 &&
           getpeername (fd, (struct sockaddr *) there, &there_len) == 0;
}

static bool
s_equal (const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    if (a->ss_family == AF_INET6)
        return IN6_ARE_ADDR_EQUAL (
            &((const struct sockaddr_in6 *) a)->sin6_addr,
            &((const struct sockaddr_in6 *) b)->sin6_addr);
    return ((const struct sockaddr_in *) a)->sin_addr.s_addr ==
           ((const struct sockaddr_in *) b)->sin_addr.s_addr;
}

static bool
s_is_loopback (const struct sockaddr_storage *a)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *) a;
    return a->ss_family == AF_INET &&
           ntohl (v4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

static bool
s_is_bbr (int fd)
{
    char name[16] = "";
    socklen_t len = sizeof name;
    return getsockopt (fd, IPPROTO_TCP, TCP_CONGESTION, name, &len) == 0 &&
           strncmp (name, "bbr", sizeof name) == 0;
}

//  BBR paces, which on the loopback device only costs: 2.5-2.7 GB/s each way
//  with it, 4.6-5.1 with reno (PERF 2, 256 MiB, both directions); reno needs
//  no privilege. A send buffer that grows to its 4 MiB limit falls out of the
//  cache before it is received: README.md has the figures. Between hosts the
//  kernel and the administrator choose.
static void
s_tune_local (int fd)
{
    int bytes = LOCAL_SEND_BYTES;
    setsockopt (fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    if (s_is_bbr (fd))
        setsockopt (fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
}

//  Nagle's algorithm and the delayed ACK together cost 40 ms a small frame
//  (PERF 4), hence TCP_NODELAY.
void
tx_tcp_tune (int fd)
{
    int on = 1;
    setsockopt (fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct sockaddr_storage here, there;
    if (s_ends (fd, &here, &there) &&
        (s_equal (&here, &there) || s_is_loopback (&there)))
        s_tune_local (fd);
}

bool
tx_tcp_is_self (int fd)
{
    struct sockaddr_storage here, there;
    if (!s_ends (fd, &here, &there) || !s_equal (&here, &there))
        return false;
    in_port_t left = ((struct sockaddr_in *) &here)->sin_port;
    in_port_t right = ((struct sockaddr_in *) &there)->sin_port;
    return left == right;  //  sin6_port lies at the same place
}
