//  client/whoami.c - which rank am I, by configuration or launcher

#include "client/whoami.h"

#include "client/build_id.h"
#include "client/error.h"
#include "protocol/schedule.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JOIN_TIMEOUT_MS 300000
#define OP_TIMEOUT_MS 1800000
#define DEFAULT_AGENT "/run/tutti/agent.sock"

//  A launcher is in charge when its rank variable is set.
static const struct launcher {
    const char *name, *rank, *size, *local_rank, *job, *attempt;
} s_launchers[] = {
    { "TUTTI_*", "TUTTI_RANK", "TUTTI_SIZE", "TUTTI_LOCAL_RANK", "TUTTI_JOB",
      "TUTTI_ATTEMPT" },
    { "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_RUN_ID",
      "TORCHELASTIC_RESTART_COUNT" },
    { "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
      "OMPI_COMM_WORLD_LOCAL_RANK", "PMIX_NAMESPACE", NULL },
    { "MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", NULL, NULL },
    { "Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
      "SLURM_JOB_ID", "SLURM_RESTART_COUNT" },
};
#define LAUNCHERS (sizeof s_launchers / sizeof *s_launchers)

//  An integer variable; *value_p is left alone if it is not set.
static tutti_err_t
s_number (const char *name, int *value_p)
{
    const char *text = name ? getenv (name) : NULL;
    if (!text || !*text)
        return TUTTI_OK;
    char *end;
    errno = 0;
    long value = strtol (text, &end, 10);
    if (errno || *end || value < 0 || value > INT_MAX)
        return tl_error (TUTTI_EINVAL,
                         "environment variable %s=%s is not a number from 0 "
                         "to %d",
                         name, text, INT_MAX);
    *value_p = (int) value;
    return TUTTI_OK;
}

//  A field given by the configuration, else by the variable, else FALLBACK.
static tutti_err_t
s_pick (int given, const char *name, int fallback, int *value_p)
{
    *value_p = fallback;
    if (given >= 0) {
        *value_p = given;
        return TUTTI_OK;
    }
    return s_number (name, value_p);
}

static const struct launcher *
s_find_launcher (void)
{
    for (size_t i = 0; i < LAUNCHERS; i++)
        if (getenv (s_launchers[i].rank))
            return &s_launchers[i];
    return NULL;
}

static tutti_err_t
s_string (char *to, size_t room, const char *what, const char *text)
{
    if (strlen (text) >= room)
        return tl_error (TUTTI_EINVAL, "%s \"%.40s...\" is longer than %zu",
                         what, text, room - 1);
    memset (to, 0, room);
    memcpy (to, text, strlen (text));
    return TUTTI_OK;
}

//  Job names of launchers may hold characters that names may not.
static void
s_clean_name (char *name)
{
    for (; *name; name++)
        if (!strchr ("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                     "0123456789._-",
                     *name))
            *name = '-';
}

static tutti_err_t
s_job (tl_whoami_t *self, const tutti_config_t *config,
       const struct launcher *launcher)
{
    const char *job = config->job;
    if (!job)
        job = getenv ("TUTTI_JOB");
    if (!job && launcher && launcher->job)
        job = getenv (launcher->job);
    if (!job)
        return tl_error (TUTTI_EINVAL,
                         "no job name: set TUTTI_JOB or tutti_config_t.job, "
                         "or start the program with: tutti run -n RANKS -- "
                         "PROGRAM");
    tutti_err_t err =
        s_string (self->hello.job, sizeof self->hello.job, "job name", job);
    if (err == TUTTI_OK)
        s_clean_name (self->hello.job);
    return err;
}

static tutti_err_t
s_ranks (tl_whoami_t *self, const tutti_config_t *config,
         const struct launcher *launcher)
{
    static const struct launcher none = { .name = "configuration" };
    const struct launcher *from = launcher ? launcher : &none;
    self->source = from->name;
    int rank, size, local, attempt, device;
    tutti_err_t err = s_pick (config->rank, from->rank, -1, &rank);
    if (!err)
        err = s_pick (config->world_size, from->size, -1, &size);
    if (!err)
        err = s_pick (config->local_rank, from->local_rank, 0, &local);
    if (!err)
        err = s_pick (config->attempt, from->attempt, 0, &attempt);
    if (!err)
        err = s_pick (config->device, "TUTTI_DEVICE", -1, &device);
    if (err)
        return err;
    if (rank < 0 || size < 1)
        return tl_error (TUTTI_EINVAL,
                         "rank and world size are not known: set TUTTI_RANK "
                         "and TUTTI_SIZE, fill tutti_config_t, or start the "
                         "program with: tutti run -n RANKS -- PROGRAM");
    if (rank >= size || size > TP_RANKS_MAX)
        return tl_error (TUTTI_EINVAL,
                         "rank %d of a world of %d (from %s): ranks go from 0 "
                         "to size - 1, size is at most %d",
                         rank, size, from->name, TP_RANKS_MAX);
    self->hello.rank = (uint32_t) rank;
    self->hello.size = (uint32_t) size;
    self->hello.local_rank = (uint32_t) local;
    self->hello.attempt = (uint32_t) attempt;
    self->hello.device = device;
    return TUTTI_OK;
}

static tutti_err_t
s_elastic (tl_whoami_t *self, const tutti_config_t *config)
{
    int low = config->elastic_min, high = config->elastic_max;
    const char *text = getenv ("TUTTI_ELASTIC");
    if (low < 0 && high < 0 && text && *text &&
        sscanf (text, "%d:%d", &low, &high) != 2)
        return tl_error (TUTTI_EINVAL, "TUTTI_ELASTIC=%s is not MIN:MAX",
                         text);
    self->hello.elastic_min = low > 0 ? (uint32_t) low : 0;
    self->hello.elastic_max = high > 0 ? (uint32_t) high : 0;
    return TUTTI_OK;
}

static tutti_err_t
s_options (tl_whoami_t *self, const tutti_config_t *config)
{
    int reproducible, wide, debug, join;
    tutti_err_t err =
        s_pick (config->reproducible, "TUTTI_REPRODUCIBLE", 0, &reproducible);
    if (!err)
        err = s_pick (config->wide, "TUTTI_WIDE", 0, &wide);
    if (!err)
        err = s_pick (config->debug, "TUTTI_DEBUG", 0, &debug);
    if (!err)
        err = s_pick (config->join_timeout_ms, "TUTTI_INIT_TIMEOUT_MS",
                      JOIN_TIMEOUT_MS, &join);
    if (!err)
        err = s_pick (config->op_timeout_ms, "TUTTI_TIMEOUT_MS", OP_TIMEOUT_MS,
                      &self->op_timeout_ms);
    if (err)
        return err;
    self->hello.flags = (reproducible ? TP_LOCAL_REPRODUCIBLE : 0) |
                        (wide ? TP_LOCAL_WIDE : 0) |
                        (debug ? TP_LOCAL_DEBUG : 0);
    self->hello.join_timeout_ms = (uint32_t) join;
    const char *algorithm = getenv ("TUTTI_ALGORITHM");
    if (config->call && config->call->algorithm)
        algorithm = config->call->algorithm;
    if (algorithm && *algorithm && tp_algorithm_value (algorithm) < 0)
        return tl_error (TUTTI_EINVAL,
                         "TUTTI_ALGORITHM=%s: no such algorithm; there are "
                         "star, ring, doubling, halving, tree, direct",
                         algorithm);
    return s_string (self->hello.algorithm, sizeof self->hello.algorithm,
                     "algorithm", algorithm ? algorithm : "");
}

static tutti_err_t
s_token (tl_whoami_t *self, const tutti_config_t *config)
{
    const char *token = config->token ? config->token : getenv ("TUTTI_TOKEN");
    return s_string (self->hello.token, sizeof self->hello.token, "token",
                     token ? token : "");
}

tutti_err_t
tl_whoami (tl_whoami_t *self, const tutti_config_t *config)
{
    static const tutti_config_t defaults = TUTTI_CONFIG_INIT;
    if (!config)
        config = &defaults;
    memset (self, 0, sizeof *self);
    const struct launcher *launcher = s_find_launcher ();
    const char *agent = config->agent ? config->agent : getenv ("TUTTI_AGENT");
    tutti_err_t err = s_string (self->agent, sizeof self->agent,
                                "agent socket", agent ? agent : DEFAULT_AGENT);
    if (!err)
        err = s_ranks (self, config, launcher);
    if (!err)
        err = s_job (self, config, launcher);
    if (!err)
        err = s_elastic (self, config);
    if (!err)
        err = s_options (self, config);
    if (!err)
        err = s_token (self, config);
    if (err)
        return err;
    self->scale = config->call ? config->call->scale : 1.0;
    self->priority = config->call ? config->call->priority : 0;
    self->timeout_ms = config->call ? config->call->timeout_ms : 0;
    self->hello.pid = (uint32_t) getpid ();
    snprintf (self->hello.library, sizeof self->hello.library, "%s",
              tutti_version ());
    tl_build_id (self->hello.build, sizeof self->hello.build);
    gethostname (self->hello.host, sizeof self->hello.host - 1);
    return TUTTI_OK;
}
