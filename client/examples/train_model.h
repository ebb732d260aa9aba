//  client/examples/train_model.h - a perceptron, 784-128-10, in plain C
//
//  Parameters and gradients are one vector each, layer by layer, so that one
//  collective moves them all or one bucket each. Every loop has a fixed order
//  of additions: the same shard gives the same bits on any rank.

#ifndef TRAIN_MODEL_H
#define TRAIN_MODEL_H

#include "train_data.h"

#define TRAIN_HIDDEN 128
#define TRAIN_W1 0
#define TRAIN_B1 (TRAIN_W1 + TRAIN_PIXELS * TRAIN_HIDDEN)
#define TRAIN_W2 (TRAIN_B1 + TRAIN_HIDDEN)
#define TRAIN_B2 (TRAIN_W2 + TRAIN_HIDDEN * TRAIN_CLASSES)
#define TRAIN_PARAMS (TRAIN_B2 + TRAIN_CLASSES)
#define TRAIN_LOSS TRAIN_PARAMS  //  the loss travels with the gradient
#define TRAIN_VECTOR (TRAIN_PARAMS + 1)

//  What one batch needs; made once.
typedef struct train_scratch {
    float *hidden, *delta_hidden;  //  batch x TRAIN_HIDDEN
    float *delta_out;              //  batch x TRAIN_CLASSES
    const float **image;           //  batch
} train_scratch_t;

//  False: no memory.
bool
train_scratch_init (train_scratch_t *self, size_t batch);
void
train_scratch_destroy (train_scratch_t *self);

//  Fill the parameters from a seed (uniform, He et al. 2015 bound).
void
train_init (float *params, uint64_t seed);

//  Mean loss of N samples of SET into grad[TRAIN_LOSS], and the output
//  layer's gradient (TRAIN_W2 to the end): the first bucket of a backward
//  pass. train_backward_first adds the first layer's.
void
train_backward_last (const float *params, const train_set_t *set,
                     const uint32_t *index, size_t n, float *grad,
                     train_scratch_t *scratch);
void
train_backward_first (const float *params, size_t n, float *grad,
                      train_scratch_t *scratch);

//  params -= rate * velocity, velocity = momentum * velocity + grad, for
//  LEN of them.
void
train_update (float *params, float *velocity, const float *grad, size_t len,
              float rate, float momentum);

//  Right answers among samples [first, last).
size_t
train_right (const float *params, const train_set_t *set, size_t first,
             size_t last);

#endif
