//  client/examples/train_data.h - Fashion-MNIST from Debian's package

#ifndef TRAIN_DATA_H
#define TRAIN_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRAIN_PIXELS 784
#define TRAIN_CLASSES 10

typedef struct train_set {
    float *images;  //  count x TRAIN_PIXELS, 0 to 1
    uint8_t *labels;
    size_t count;
} train_set_t;

//  Read NAME ("train" or "t10k") from DIR. False, and one line on stderr that
//  names the file and the package, if it cannot be read.
bool
train_set_load (train_set_t *self, const char *dir, const char *name);
void
train_set_destroy (train_set_t *self);

//  A permutation of 0..n-1 from a seed, the same on every rank.
void
train_shuffle (uint32_t *order, size_t n, uint64_t seed);

//  A number in [0, 1) and the next state.
float
train_random (uint64_t *state);

#endif
