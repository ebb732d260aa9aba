//  agent/options.c - how an agent was started

#include "agent/options.h"

#include "protocol/plan.h"
#include "transport/tx.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LABELS_BYTES 2048

//  Reads the value of one option. False: it is not legal.
typedef bool (s_reader_t) (ta_options_t *self, const char *value);

static bool
s_coordinator (ta_options_t *self, const char *value)
{
    const char *port = strrchr (value, ':');
    if (strncmp (value, "tcp://", 6) != 0 || port < value + 7)
        return false;
    char *end;
    long number = strtol (port + 1, &end, 10);
    self->coordinator = value;
    return port[1] && !*end && number > 0 && number < 65536;
}

static bool
s_socket (ta_options_t *self, const char *value)
{
    self->socket = value;
    return (value[0] == '/' || value[0] == '@') && value[1];
}

static bool
s_data_bind (ta_options_t *self, const char *value)
{
    self->data_bind = value;
    return value[0] && strlen (value) < TP_NAME_MAX;
}

static bool
s_data_ports (ta_options_t *self, const char *value)
{
    unsigned lo, hi;
    char more;
    if (sscanf (value, "%u-%u%c", &lo, &hi, &more) != 2 || lo < 1 || lo > hi ||
        hi > 65535)
        return false;
    self->port_lo = (uint16_t) lo;
    self->port_hi = (uint16_t) hi;
    return true;
}

static bool
s_node (ta_options_t *self, const char *value)
{
    snprintf (self->node, sizeof self->node, "%s", value);
    return strlen (value) < TP_NAME_MAX && tp_name_ok (self->node);
}

static bool
s_printable (const char *text)
{
    for (; *text; text++) {
        if (*text <= ' ' || *text > '~' || *text == '"')
            return false;
    }
    return true;
}

static bool
s_label (ta_options_t *self, const char *value)
{
    const char *equals = strchr (value, '=');
    if (!equals || equals == value || strlen (value) >= TP_NAME_MAX ||
        !s_printable (value) || self->n_labels == TA_LABELS_MAX)
        return false;
    self->labels[self->n_labels++] = value;
    return true;
}

//  From the environment: several labels, with commas between.
static bool
s_labels (ta_options_t *self, const char *value)
{
    static char copy[LABELS_BYTES];
    if (strlen (value) >= sizeof copy)
        return false;
    memcpy (copy, value, strlen (value) + 1);
    char *rest = copy;
    char *label;
    while ((label = strsep (&rest, ",")) != NULL) {
        if (*label && !s_label (self, label))
            return false;
    }
    return true;
}

static bool
s_keys (ta_options_t *self, const char *value)
{
    self->keys = value;
    return *value;
}

static bool
s_insecure (ta_options_t *self, const char *value)
{
    self->insecure = strcmp (value, "1") == 0;
    return self->insecure || strcmp (value, "0") == 0;
}

static bool
s_transport (ta_options_t *self, const char *value)
{
    self->transport = value;
    //  Loopback connects within one process only.
    return strlen (value) < TP_NAME_MAX && s_printable (value) &&
           strcmp (value, "loopback") != 0 && tx_find (value);
}

static bool
s_channels (ta_options_t *self, const char *value)
{
    char *end;
    unsigned long number = strtoul (value, &end, 10);
    if (*value < '0' || *value > '9' || *end || number > TP_CHANNELS_MAX)
        return false;
    self->channels = (uint32_t) number;
    return true;
}

//  "67108864", "64M", "1G".
static bool
s_staging (ta_options_t *self, const char *value)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull (value, &end, 10);
    static const char units[] = "KMG";
    const char *unit = *end ? strchr (units, *end) : NULL;
    if (*value < '0' || *value > '9' || errno || number > 1ull << 40 ||
        (*end && (!unit || end[1])))
        return false;
    self->staging_bytes = number << (unit ? 10 * (unit - units + 1) : 0);
    return self->staging_bytes >= TA_STAGING_MIN &&
           self->staging_bytes <= 1ull << 40;
}

static const struct {
    const char *option;
    const char *variable;
    s_reader_t *read;
    s_reader_t *read_variable;  //  NULL: as the option
    const char *expects;
} s_options[] = {
    { "--coordinator", "TUTTI_COORDINATOR", s_coordinator, NULL,
      "tcp://HOST:PORT" },
    { "--socket", "TUTTI_AGENT_SOCKET", s_socket, NULL,
      "an absolute path, or @NAME for an abstract socket" },
    { "--data-bind", "TUTTI_AGENT_DATA_BIND", s_data_bind, NULL,
      "an address, a network interface or a CIDR" },
    { "--data-ports", "TUTTI_AGENT_DATA_PORTS", s_data_ports, NULL,
      "LO-HI, from 1 to 65535" },
    { "--node", "TUTTI_AGENT_NODE", s_node, NULL,
      "1 to 63 of letters, digits, '.', '_', '-'" },
    { "--label", "TUTTI_AGENT_LABEL", s_label, s_labels,
      "KEY=VALUE without spaces, at most 63 bytes, at most 32 labels" },
    { "--keys", "TUTTI_AGENT_KEYS", s_keys, NULL, "a file, or fd:N" },
    { "--transport", "TUTTI_AGENT_TRANSPORT", s_transport, NULL,
      "tcp or faulty:MODE:ARG" },
    { "--channels", "TUTTI_AGENT_CHANNELS", s_channels, NULL,
      "a small number; 0 leaves it to the plan" },
    { "--staging", "TUTTI_AGENT_STAGING", s_staging, NULL,
      "bytes, or with K, M, G; at least 1M" },
    { "--insecure", "TUTTI_AGENT_INSECURE", s_insecure, NULL, "1 or 0" },
};

#define OPTIONS (sizeof s_options / sizeof *s_options)

const char *
ta_options_help (void)
{
    return "usage: tutti-agent --coordinator tcp://HOST:7070 [OPTION]...\n"
           "The agent of one node. Programs that use libtutti attach to it.\n"
           "\n"
           "  --coordinator tcp://HOST:PORT  [tcp://127.0.0.1:7070]\n"
           "  --socket PATH|@NAME    local socket [/run/tutti/agent.sock]\n"
           "  --data-bind ADDR|IFNAME|CIDR   of the data plane\n"
           "                         [address of the route to the "
           "coordinator]\n"
           "  --data-ports LO-HI     listen within these [any free port]\n"
           "  --node NAME            unique in the cluster [host name]\n"
           "  --label KEY=VALUE      \"rack=7\"; may be repeated\n"
           "  --keys FILE|fd:N       lines coordinator_public, agent_public,\n"
           "                         agent_secret, each with a Z85 key\n"
           "  --insecure             no keys; for one machine only\n"
           "  --transport NAME       tcp or faulty:MODE:ARG [tcp]\n"
           "  --channels N           per edge; 0: the plan decides [0]\n"
           "  --staging BYTES        per rank [64M]\n"
           "  --help, --version\n"
           "\n"
           "Each option is an environment variable too: --data-bind is\n"
           "TUTTI_AGENT_DATA_BIND; --coordinator is TUTTI_COORDINATOR.\n"
           "Prints \"ready socket=PATH node=NAME data=ADDR\" when it "
           "serves.\n";
}

static tutti_err_t
s_bad (size_t i, const char *name, const char *value, char *text)
{
    snprintf (text, TP_TEXT_MAX, "%s %.200s: expected %s", name, value,
              s_options[i].expects);
    return TUTTI_EINVAL;
}

static tutti_err_t
s_from_environment (ta_options_t *self, char *text)
{
    for (size_t i = 0; i < OPTIONS; i++) {
        const char *value = getenv (s_options[i].variable);
        s_reader_t *read = s_options[i].read_variable
                               ? s_options[i].read_variable
                               : s_options[i].read;
        if (value && *value && !read (self, value))
            return s_bad (i, s_options[i].variable, value, text);
    }
    return TUTTI_OK;
}

//  The option in ARGUMENT, "--name" or "--name=value"; OPTIONS: none.
static size_t
s_find (const char *argument, const char **value_p)
{
    for (size_t i = 0; i < OPTIONS; i++) {
        size_t len = strlen (s_options[i].option);
        if (strncmp (argument, s_options[i].option, len) != 0)
            continue;
        *value_p = argument[len] == '=' ? argument + len + 1 : NULL;
        if (*value_p || !argument[len])
            return i;
    }
    return OPTIONS;
}

//  Options that need no others.
static bool
s_action (ta_options_t *self, const char *argument)
{
    static const struct {
        const char *name;
        ta_action_t action;
    } actions[] = { { "--worker", TA_WORK },
                    { "--help", TA_HELP },
                    { "-h", TA_HELP },
                    { "--version", TA_VERSION } };
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        if (strcmp (argument, actions[i].name) != 0)
            continue;
        self->action = actions[i].action;
        return true;
    }
    return false;
}

static tutti_err_t
s_from_arguments (ta_options_t *self, int argc, char **argv, char *text)
{
    bool labels = false;
    for (int i = 1; i < argc; i++) {
        const char *value = NULL;
        size_t option = s_find (argv[i], &value);
        if (option == OPTIONS) {
            snprintf (text, TP_TEXT_MAX,
                      "%.200s: no such option; see tutti-agent --help",
                      argv[i]);
            return TUTTI_EINVAL;
        }
        if (s_options[option].read == s_insecure && !value)
            value = "1";
        else if (!value && i + 1 < argc)
            value = argv[++i];
        //  Labels of the command line replace those of the environment.
        if (s_options[option].read == s_label && !labels) {
            labels = true;
            self->n_labels = 0;
        }
        if (!value || !s_options[option].read (self, value))
            return s_bad (option, s_options[option].option, value ? value : "",
                          text);
    }
    return TUTTI_OK;
}

//  The host name up to its first dot or all of it, if it is a legal name.
static tutti_err_t
s_default_node (ta_options_t *self, char *text)
{
    char host[256] = "";
    gethostname (host, sizeof host - 1);
    if (s_node (self, host))
        return TUTTI_OK;
    host[strcspn (host, ".")] = 0;
    if (s_node (self, host))
        return TUTTI_OK;
    snprintf (
        text, TP_TEXT_MAX,
        "the host name \"%.64s\" cannot name this node; give --node NAME",
        host);
    return TUTTI_EINVAL;
}

tutti_err_t
ta_options_read (ta_options_t *self, int argc, char **argv, char *text)
{
    *self = (ta_options_t){ .coordinator = "tcp://127.0.0.1:7070",
                            .socket = "/run/tutti/agent.sock",
                            .transport = "tcp",
                            .staging_bytes = 64ull << 20 };
    for (int i = 1; i < argc; i++) {
        if (s_action (self, argv[i]))
            return TUTTI_OK;
    }
    tutti_err_t err = s_from_environment (self, text);
    if (!err)
        err = s_from_arguments (self, argc, argv, text);
    if (err)
        return err;
    if (!self->node[0])
        err = s_default_node (self, text);
    if (!err && !self->keys && !self->insecure) {
        snprintf (text, TP_TEXT_MAX,
                  "no keys: give --keys FILE (tutti keys makes one), or "
                  "--insecure on a machine of your own");
        err = TUTTI_EINVAL;
    }
    if (!err && self->keys && self->insecure) {
        snprintf (text, TP_TEXT_MAX,
                  "--keys and --insecure exclude one another; drop one "
                  "(command line or TUTTI_AGENT_KEYS, TUTTI_AGENT_INSECURE)");
        err = TUTTI_EINVAL;
    }
    return err;
}
