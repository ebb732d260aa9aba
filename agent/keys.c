//  agent/keys.c - CURVE keys of this agent and of its coordinator

#include "agent/keys.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#define FILE_MAX_BYTES 4096

//  The descriptor of SOURCE, ours to close.
static tutti_err_t
s_open (const char *source, int *fd_p, char *text)
{
    bool inherited = strncmp (source, "fd:", 3) == 0;
    char *end = NULL;
    long number = inherited ? strtol (source + 3, &end, 10) : 0;
    int fd = -1;
    if (!inherited)
        fd = open (source, O_RDONLY | O_CLOEXEC);
    else if (source[3] && !*end && number > 2 && number < 65536)
        fd = (int) number;

    struct stat info;
    if (fd < 0 || fstat (fd, &info) < 0) {
        snprintf (text, TP_TEXT_MAX,
                  "keys %s: %s; make them with tutti keys, or give --insecure "
                  "on a machine of your own",
                  source, inherited ? "no such descriptor" : strerror (errno));
        return TUTTI_EINVAL;
    }
    if (S_ISREG (info.st_mode) && (info.st_mode & 077) && !inherited) {
        snprintf (text, TP_TEXT_MAX,
                  "keys %s: others may read the file (mode %03o); say: "
                  "chmod 600 %s",
                  source, (unsigned) info.st_mode & 0777, source);
        close (fd);
        return TUTTI_EDENIED;
    }
    *fd_p = fd;
    return TUTTI_OK;
}

//  All of the file, at most FILE_MAX_BYTES - 1, as a string.
static bool
s_slurp (int fd, char *bytes)
{
    size_t used = 0;
    while (used < FILE_MAX_BYTES - 1) {
        ssize_t got = read (fd, bytes + used, FILE_MAX_BYTES - 1 - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return false;
        if (got == 0)
            break;
        used += (size_t) got;
    }
    bytes[used] = 0;
    return used < FILE_MAX_BYTES - 1;
}

static bool
s_line (ta_keys_t *self, const char *line)
{
    const struct {
        const char *name;
        char *value;
    } keys[] = { { "coordinator_public", self->coordinator_public },
                 { "agent_public", self->agent_public },
                 { "agent_secret", self->agent_secret } };
    char name[32], value[64];
    uint8_t raw[32];
    if (line[0] == '#' || line[strspn (line, " \t\r")] == 0)
        return true;
    bool ok = sscanf (line, "%31s %63s", name, value) == 2 &&
              strlen (value) == TA_KEY_TEXT - 1 &&
              zmq_z85_decode (raw, value) != NULL;
    bool known = false;
    for (size_t i = 0; ok && i < 3; i++) {
        if (strcmp (name, keys[i].name) != 0)
            continue;
        memcpy (keys[i].value, value, TA_KEY_TEXT);
        known = true;
    }
    sodium_memzero (raw, sizeof raw);
    sodium_memzero (value, sizeof value);
    return ok && known;
}

tutti_err_t
ta_keys_read (ta_keys_t *self, const char *source, char *text)
{
    memset (self, 0, sizeof *self);
    int fd;
    tutti_err_t err = s_open (source, &fd, text);
    if (err)
        return err;
    char bytes[FILE_MAX_BYTES];
    bool ok = s_slurp (fd, bytes);
    close (fd);

    int number = 0;
    char *rest = bytes;
    char *line;
    while (ok && (line = strsep (&rest, "\n")) != NULL) {
        number++;
        ok = s_line (self, line);
    }
    ok = ok && self->coordinator_public[0] && self->agent_public[0] &&
         self->agent_secret[0];
    sodium_memzero (bytes, sizeof bytes);
    if (ok)
        return TUTTI_OK;
    ta_keys_wipe (self);
    snprintf (text, TP_TEXT_MAX,
              "keys %s: not a key file (line %d); it needs the lines "
              "coordinator_public, agent_public and agent_secret, each with "
              "40 letters of Z85",
              source, number);
    return TUTTI_EINVAL;
}

void
ta_keys_wipe (ta_keys_t *self)
{
    sodium_memzero (self, sizeof *self);
}
