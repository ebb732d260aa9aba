//  coordinator/main.c - options, signals, exit codes; nothing else

#include "coordinator/coord.h"
#include "coordinator/log.h"

#include <getopt.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile sig_atomic_t s_stop;

static const char s_help[] =
    "tutti-coordinator: rendezvous, ring order, health and status of a "
    "cluster\n"
    "usage: tutti-coordinator [OPTION...]\n"
    "  --bind ENDPOINT     control messages (tcp://*:7070; with --insecure\n"
    "                      tcp://127.0.0.1:7070)\n"
    "  --http HOST:PORT    status endpoint (127.0.0.1:7071)\n"
    "  --state sqlite:PATH what survives a restart (none: kept in memory)\n"
    "  --keys FILE|fd:N    lines coordinator_secret, coordinator_public,\n"
    "                      agent_public, each with a Z85 key; agent_public "
    "KEY\n"
    "                      NODE: the key of that node only\n"
    "  --insecure          no keys: for one machine, never a network\n"
    "  --heartbeat-ms N    how often agents report (200)\n"
    "  --suspect-ms N      silence until an agent is suspect (1000)\n"
    "  --lost-ms N         silence until it is lost (5000)\n"
    "  --help, --version\n"
    "Port 0 takes any free port; the ready line tells. Each option has an\n"
    "environment variable: --lost-ms is TUTTI_COORDINATOR_LOST_MS.\n"
    "Exit status: 0 stopped by a signal, 1 cannot serve, 2 bad options.\n";

typedef struct options {
    const char *bind, *http, *state, *keys;
    tc_coord_options_t coord;
} options_t;

enum {
    BIND = 256,
    HTTP,
    STATE,
    KEYS,
    INSECURE,
    HEARTBEAT,
    SUSPECT,
    LOST,
    HELP,
    VERSION
};

static const struct option s_options[] = {
    { "bind", required_argument, NULL, BIND },
    { "http", required_argument, NULL, HTTP },
    { "state", required_argument, NULL, STATE },
    { "keys", required_argument, NULL, KEYS },
    { "insecure", no_argument, NULL, INSECURE },
    { "heartbeat-ms", required_argument, NULL, HEARTBEAT },
    { "suspect-ms", required_argument, NULL, SUSPECT },
    { "lost-ms", required_argument, NULL, LOST },
    { "help", no_argument, NULL, HELP },
    { "version", no_argument, NULL, VERSION },
    { 0 },
};

static void
s_refuse (const char *text, const char *value)
{
    fprintf (stderr, "tutti-coordinator: %s%s; see --help\n", text, value);
    exit (2);
}

static uint32_t
s_ms (const char *value)
{
    char *end;
    long n = strtol (value, &end, 10);
    if (*end || n < 10 || n > 3600000)
        s_refuse ("not a number of milliseconds from 10 to 3600000: ", value);
    return (uint32_t) n;
}

static void
s_take (options_t *o, int option, const char *value)
{
    switch (option) {
    case BIND:
        o->bind = value;
        break;
    case HTTP:
        o->http = value;
        break;
    case STATE:
        o->state = value;
        break;
    case KEYS:
        o->keys = value;
        break;
    case INSECURE:
        o->coord.insecure = !value || strcmp (value, "0") != 0;
        break;
    case HEARTBEAT:
        o->coord.heartbeat_ms = s_ms (value);
        break;
    case SUSPECT:
        o->coord.patience.suspect = s_ms (value);
        break;
    case LOST:
        o->coord.patience.lost = s_ms (value);
        break;
    case HELP:
        fputs (s_help, stdout);
        exit (0);
    case VERSION:
        printf ("tutti-coordinator %d.%d.%d\n", TUTTI_VERSION_MAJOR,
                TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH);
        exit (0);
    default:
        exit (2);
    }
}

static void
s_from_environment (options_t *o)
{
    for (const struct option *p = s_options; p->val != HELP; p++) {
        char name[64] = "TUTTI_COORDINATOR_";
        size_t at = strlen (name);
        for (const char *c = p->name; *c; c++)
            name[at++] = *c == '-'   ? '_'
                         : *c >= 'a' ? (char) (*c - 'a' + 'A')
                                     : *c;
        name[at] = 0;
        if (getenv (name))
            s_take (o, p->val, getenv (name));
    }
}

//  A watchdog that fires before anything can recover is refused.
static void
s_check (const options_t *o)
{
    const tc_coord_options_t *c = &o->coord;
    if (!o->keys && !c->insecure)
        s_refuse ("no keys: give --keys FILE, or --insecure on a machine of "
                  "your own",
                  "");
    if (o->keys && c->insecure)
        s_refuse ("--keys and --insecure exclude each other", "");
    if (c->heartbeat_ms * 2 > c->patience.suspect ||
        c->patience.suspect >= c->patience.lost)
        s_refuse ("needs 2 x heartbeat-ms <= suspect-ms < lost-ms", "");
}

static void
s_on_signal (int number)
{
    (void) number;
    s_stop = 1;
}

//  No SA_RESTART: a signal ends the wait of the loop.
static void
s_set_signals (void)
{
    struct sigaction action = { .sa_handler = s_on_signal };
    sigaction (SIGTERM, &action, NULL);
    sigaction (SIGINT, &action, NULL);
    signal (SIGPIPE, SIG_IGN);
}

//  Threads must not take our signals: one would not end the wait.
static void
s_mask_signals (int how)
{
    sigset_t set;
    sigemptyset (&set);
    sigaddset (&set, SIGTERM);
    sigaddset (&set, SIGINT);
    sigprocmask (how, &set, NULL);
}

static int
s_fail (tutti_err_t err, const char *text)
{
    fprintf (stderr, "tutti-coordinator: %s\n", text);
    return err == TUTTI_EINVAL ? 2 : 1;
}

//  Without a store no epoch is known, so they start at a random place: agents
//  may still run jobs of our forerunner. Below 2^53, for readers of JSON.
static int64_t
s_first_epoch (uint64_t incarnation)
{
    return (int64_t) (incarnation >> 33) << 20;
}

static int
s_serve (options_t *o)
{
    char text[TP_TEXT_MAX] = "out of memory";
    tc_wire_t *wire = NULL;
    tc_http_t *http = NULL;
    tc_store_t *store = NULL;
    tc_coord_t *coord = NULL;
    tc_coord_options_t *c = &o->coord;
    randombytes_buf (&c->incarnation, sizeof c->incarnation);
    c->incarnation |= 1;
    s_mask_signals (SIG_BLOCK);
    tutti_err_t err =
        tc_store_open (&store, o->state, c->incarnation, &c->epoch, text);
    if (!o->state)
        c->epoch = s_first_epoch (c->incarnation);
    if (!err)
        err = tc_http_open (&http, o->http, text);
    if (!err)
        err = tc_wire_open (&wire, o->bind, o->keys, text);
    if (!err)
        err = tc_coord_new (&coord, c, wire, http, store);
    s_mask_signals (SIG_UNBLOCK);
    if (!err) {
        printf ("ready control=%s http=%s key=%s\n", tc_wire_endpoint (wire),
                tc_http_url (http), tc_wire_key (wire));
        fflush (stdout);
        if (c->insecure)
            tc_log (TC_LOG_WARN, "insecure",
                    "text=\"anybody who reaches %s may join\"",
                    tc_wire_endpoint (wire));
        tc_coord_run (coord, &s_stop);
    }
    tc_coord_destroy (&coord);
    tc_wire_close (&wire);
    tc_http_close (&http);
    tc_store_close (&store);
    return err ? s_fail (err, text) : 0;
}

int
main (int argc, char **argv)
{
    options_t o = { .http = "127.0.0.1:7071",
                    .coord = { .heartbeat_ms = 200,
                               .patience = { 1000, 5000 } } };
    int option;
    s_from_environment (&o);
    while ((option = getopt_long (argc, argv, "", s_options, NULL)) != -1)
        s_take (&o, option, optarg);
    if (optind < argc)
        s_refuse ("unknown argument ", argv[optind]);
    s_check (&o);
    if (!o.bind)  //  all addresses only where keys decide who comes in
        o.bind = o.coord.insecure ? "tcp://127.0.0.1:7070" : "tcp://*:7070";
    if (sodium_init () < 0)
        return s_fail (TUTTI_ESTATE, "libsodium cannot start");
    s_set_signals ();
    return s_serve (&o);
}
