//  client/examples/train_options.c - command line of train_fashion

#include "train_options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char s_help[] =
    "train_fashion: data-parallel training of a 784-128-10 perceptron\n"
    "usage: tutti run -n RANKS [--nodes K] -- train_fashion [OPTION...]\n"
    "  --epochs N          passes over the data (5)\n"
    "  --batch N           samples of a step, all ranks together (256)\n"
    "  --rate R            learning rate (0.05); momentum is 0.9\n"
    "  --seed N            of the parameters and the order of samples (1)\n"
    "  --mode sync|async   one allreduce after the backward pass, or a\n"
    "                      bucket per layer during it (sync)\n"
    "  --sharded           reduce_scatter, update the own part, allgather\n"
    "  --algorithm A       star, ring, doubling, halving, direct\n"
    "  --slow RANK:PERCENT that rank computes so much longer\n"
    "  --shards K          one rank: add up K shards as K ranks would\n"
    "  --losses FILE       the loss of every step, exact (%a)\n"
    "  --steps N           stop after N steps\n"
    "  --data DIR          (/usr/share/datasets/fashion-mnist)\n";

enum {
    EPOCHS = 256,
    BATCH,
    RATE,
    SEED,
    MODE,
    SHARDED,
    ALGORITHM,
    SLOW,
    SHARDS,
    LOSSES,
    STEPS,
    DATA,
    HELP
};

static const struct option s_options[] = {
    { "epochs", required_argument, NULL, EPOCHS },
    { "batch", required_argument, NULL, BATCH },
    { "rate", required_argument, NULL, RATE },
    { "seed", required_argument, NULL, SEED },
    { "mode", required_argument, NULL, MODE },
    { "sharded", no_argument, NULL, SHARDED },
    { "algorithm", required_argument, NULL, ALGORITHM },
    { "slow", required_argument, NULL, SLOW },
    { "shards", required_argument, NULL, SHARDS },
    { "losses", required_argument, NULL, LOSSES },
    { "steps", required_argument, NULL, STEPS },
    { "data", required_argument, NULL, DATA },
    { "help", no_argument, NULL, HELP },
    { 0 },
};

static void
s_refuse (const char *what, const char *value)
{
    fprintf (stderr, "train_fashion: bad %s \"%s\"; see --help\n", what,
             value);
    exit (2);
}

static int
s_positive (const char *what, const char *value)
{
    char *end;
    long n = strtol (value, &end, 10);
    if (*end || n < 1 || n > 100000000)
        s_refuse (what, value);
    return (int) n;
}

static void
s_slow (train_options_t *self, const char *value)
{
    if (sscanf (value, "%d:%d", &self->slow_rank, &self->slow_percent) != 2 ||
        self->slow_rank < 0 || self->slow_percent < 0)
        s_refuse ("--slow", value);
}

static void
s_take (train_options_t *self, int option, char *value)
{
    switch (option) {
    case EPOCHS:
        self->epochs = s_positive ("--epochs", value);
        break;
    case BATCH:
        self->batch = s_positive ("--batch", value);
        break;
    case RATE:
        self->rate = strtof (value, NULL);
        break;
    case SEED:
        self->seed = strtol (value, NULL, 10);
        break;
    case MODE:
        self->async = strcmp (value, "async") == 0;
        if (!self->async && strcmp (value, "sync") != 0)
            s_refuse ("--mode", value);
        break;
    case SHARDED:
        self->sharded = true;
        break;
    case ALGORITHM:
        self->algorithm = value;
        break;
    case SLOW:
        s_slow (self, value);
        break;
    case SHARDS:
        self->shards = s_positive ("--shards", value);
        break;
    case LOSSES:
        self->losses = value;
        break;
    case STEPS:
        self->steps = s_positive ("--steps", value);
        break;
    case DATA:
        self->data = value;
        break;
    case HELP:
        fputs (s_help, stdout);
        exit (0);
    default:
        exit (2);
    }
}

void
train_options_parse (train_options_t *self, int argc, char **argv)
{
    *self = (train_options_t){ .epochs = 5,
                               .batch = 256,
                               .shards = 1,
                               .rate = 0.05f,
                               .momentum = 0.9f,
                               .seed = 1,
                               .slow_rank = -1,
                               .data = "/usr/share/datasets/fashion-mnist" };
    int option;
    while ((option = getopt_long (argc, argv, "", s_options, NULL)) != -1)
        s_take (self, option, optarg);
    if (optind < argc)
        s_refuse ("argument", argv[optind]);
}
