//  client/examples/train_options.h - command line of train_fashion

#ifndef TRAIN_OPTIONS_H
#define TRAIN_OPTIONS_H

#include <stdbool.h>

typedef struct train_options {
    int epochs, batch, steps, shards;
    float rate, momentum;
    long seed;
    bool async, sharded;
    int slow_rank, slow_percent;
    const char *algorithm, *losses, *data;
} train_options_t;

//  Fill from the arguments. Ends the program after --help (0) or a bad
//  option (2, with one line that names it).
void
train_options_parse (train_options_t *self, int argc, char **argv);

#endif
