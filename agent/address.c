//  agent/address.c - the address of the data plane

#include "agent/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

//  Bytes of an address, and how many; 0 for other families.
static size_t
s_bytes (const struct sockaddr *addr, const uint8_t **bytes_p)
{
    if (addr && addr->sa_family == AF_INET) {
        *bytes_p = (const uint8_t *) &(
                       (const struct sockaddr_in *) (const void *) addr)
                       ->sin_addr;
        return 4;
    }
    if (addr && addr->sa_family == AF_INET6) {
        *bytes_p = (const uint8_t *) &(
                       (const struct sockaddr_in6 *) (const void *) addr)
                       ->sin6_addr;
        return 16;
    }
    return 0;
}

static bool
s_text (const struct sockaddr *addr, char *address)
{
    const uint8_t *bytes = NULL;
    size_t n = s_bytes (addr, &bytes);
    static const uint8_t mapped[12] = { 0, 0, 0, 0, 0,    0,
                                        0, 0, 0, 0, 0xff, 0xff };
    //  IPv4 over an IPv6 socket: tell the IPv4 address.
    if (n == 16 && memcmp (bytes, mapped, sizeof mapped) == 0)
        return inet_ntop (AF_INET, bytes + 12, address, TA_ADDRESS_MAX);
    socklen_t len =
        n == 4 ? sizeof (struct sockaddr_in) : sizeof (struct sockaddr_in6);
    return n > 0 && getnameinfo (addr, len, address, TA_ADDRESS_MAX, NULL, 0,
                                 NI_NUMERICHOST) == 0;
}

typedef struct s_wish {
    const char *name;  //  of an interface, or NULL
    uint8_t net[16];   //  first BITS bits of an address, LEN bytes long
    size_t len;
    unsigned bits;
} s_wish_t;

//  Read "10.0.0.0/8", "fd00::/64" or a plain address; else a name.
static bool
s_parse (s_wish_t *wish, const char *spec)
{
    char host[TA_ADDRESS_MAX];
    *wish = (s_wish_t){ .name = NULL };
    snprintf (host, sizeof host, "%s", spec);
    char *slash = strchr (host, '/');
    if (slash)
        *slash = 0;
    if (inet_pton (AF_INET, host, wish->net) == 1)
        wish->len = 4;
    else if (inet_pton (AF_INET6, host, wish->net) == 1)
        wish->len = 16;
    else
        wish->name = spec;
    wish->bits = (unsigned) wish->len * 8;
    if (!slash)
        return true;
    char *end;
    unsigned long bits = strtoul (slash + 1, &end, 10);
    if (wish->name || !slash[1] || *end || bits > wish->bits)
        return false;
    wish->bits = (unsigned) bits;
    return true;
}

static bool
s_within (const s_wish_t *wish, const struct sockaddr *addr)
{
    const uint8_t *bytes = NULL;
    if (s_bytes (addr, &bytes) != wish->len)
        return false;
    for (unsigned bit = 0; bit < wish->bits; bit++) {
        unsigned mask = 0x80u >> bit % 8;
        if ((bytes[bit / 8] & mask) != (wish->net[bit / 8] & mask))
            return false;
    }
    return true;
}

static bool
s_link_local (const struct sockaddr *addr)
{
    const uint8_t *bytes = NULL;
    return s_bytes (addr, &bytes) == 16 && bytes[0] == 0xfe &&
           (bytes[1] & 0xc0) == 0x80;
}

//  How well an address answers the wish; 0: not at all.
static int
s_score (const s_wish_t *wish, const struct ifaddrs *item)
{
    if (!item->ifa_addr || !(item->ifa_flags & IFF_UP))
        return 0;
    if (!wish->name)
        return s_within (wish, item->ifa_addr) ? 1 : 0;
    if (strcmp (item->ifa_name, wish->name) != 0)
        return 0;
    if (item->ifa_addr->sa_family == AF_INET)
        return 3;
    if (item->ifa_addr->sa_family != AF_INET6)
        return 0;
    return s_link_local (item->ifa_addr) ? 1 : 2;
}

//  "lo 127.0.0.1, eth0 10.0.0.7", cut where it does not fit.
static void
s_list (const struct ifaddrs *all, char *text, size_t room)
{
    size_t used = 0;
    text[0] = 0;
    for (const struct ifaddrs *i = all; i && used < room; i = i->ifa_next) {
        char address[TA_ADDRESS_MAX];
        if (i->ifa_addr && s_text (i->ifa_addr, address))
            used += (size_t) snprintf (text + used, room - used, "%s%s %s",
                                       used ? ", " : "", i->ifa_name, address);
    }
}

tutti_err_t
ta_address_find (const char *spec, char *address, char *text)
{
    s_wish_t wish;
    struct ifaddrs *all = NULL;
    bool legal = s_parse (&wish, spec);
    if (legal && getifaddrs (&all) < 0)
        all = NULL;
    int best = 0;
    for (struct ifaddrs *i = all; i; i = i->ifa_next) {
        int score = s_score (&wish, i);
        if (score > best && s_text (i->ifa_addr, address))
            best = score;
    }
    if (best == 0) {
        char list[300];
        s_list (all, list, sizeof list);
        snprintf (text, TP_TEXT_MAX,
                  "--data-bind %.64s: no such address or interface on this "
                  "host; it has %s",
                  spec, list[0] ? list : "none that could be listed");
    }
    if (all)
        freeifaddrs (all);
    return best > 0 ? TUTTI_OK : TUTTI_EINVAL;
}

bool
ta_address_of (int fd, char *local, char *peer)
{
    struct sockaddr_storage addr;
    socklen_t len = sizeof addr;
    if (getsockname (fd, (struct sockaddr *) &addr, &len) < 0 ||
        !s_text ((struct sockaddr *) &addr, local))
        return false;
    len = sizeof addr;
    return getpeername (fd, (struct sockaddr *) &addr, &len) == 0 &&
           s_text ((struct sockaddr *) &addr, peer);
}

bool
ta_address_loopback (const char *address)
{
    return strncmp (address, "127.", 4) == 0 || strcmp (address, "::1") == 0;
}
