//  client/examples/train_model.c - a perceptron, 784-128-10, in plain C

#include "train_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool
train_scratch_init (train_scratch_t *self, size_t batch)
{
    self->hidden = malloc (batch * TRAIN_HIDDEN * sizeof (float));
    self->delta_hidden = malloc (batch * TRAIN_HIDDEN * sizeof (float));
    self->delta_out = malloc (batch * TRAIN_CLASSES * sizeof (float));
    self->image = malloc (batch * sizeof *self->image);
    return self->hidden && self->delta_hidden && self->delta_out &&
           self->image;
}

void
train_scratch_destroy (train_scratch_t *self)
{
    free (self->hidden);
    free (self->delta_hidden);
    free (self->delta_out);
    free (self->image);
}

void
train_init (float *params, uint64_t seed)
{
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 7;
    float a = sqrtf (6.0f / TRAIN_PIXELS), b = sqrtf (6.0f / TRAIN_HIDDEN);
    memset (params, 0, TRAIN_PARAMS * sizeof *params);
    for (int i = TRAIN_W1; i < TRAIN_B1; i++)
        params[i] = a * (2.0f * train_random (&state) - 1.0f);
    for (int i = TRAIN_W2; i < TRAIN_B2; i++)
        params[i] = b * (2.0f * train_random (&state) - 1.0f);
}

//  hidden = relu (image * W1 + b1). Many pixels are 0, and 0 adds nothing.
static void
s_hidden (const float *params, const float *image, float *hidden)
{
    memcpy (hidden, params + TRAIN_B1, TRAIN_HIDDEN * sizeof *hidden);
    for (int p = 0; p < TRAIN_PIXELS; p++) {
        float x = image[p];
        if (x == 0.0f)
            continue;
        const float *row = params + TRAIN_W1 + p * TRAIN_HIDDEN;
        for (int h = 0; h < TRAIN_HIDDEN; h++)
            hidden[h] += x * row[h];
    }
    for (int h = 0; h < TRAIN_HIDDEN; h++)
        hidden[h] = hidden[h] > 0.0f ? hidden[h] : 0.0f;
}

static void
s_out (const float *params, const float *hidden, float *out)
{
    memcpy (out, params + TRAIN_B2, TRAIN_CLASSES * sizeof *out);
    for (int h = 0; h < TRAIN_HIDDEN; h++)
        for (int c = 0; c < TRAIN_CLASSES; c++)
            out[c] += hidden[h] * params[TRAIN_W2 + h * TRAIN_CLASSES + c];
}

//  out becomes probabilities; the cross-entropy of LABEL is returned.
static float
s_softmax (float *out, int label)
{
    float top = out[0], sum = 0.0f;
    for (int c = 1; c < TRAIN_CLASSES; c++)
        top = out[c] > top ? out[c] : top;
    for (int c = 0; c < TRAIN_CLASSES; c++) {
        out[c] = expf (out[c] - top);
        sum += out[c];
    }
    for (int c = 0; c < TRAIN_CLASSES; c++)
        out[c] /= sum;
    return -logf (out[label] > 1e-20f ? out[label] : 1e-20f);
}

void
train_backward_last (const float *params, const train_set_t *set,
                     const uint32_t *index, size_t n, float *grad,
                     train_scratch_t *s)
{
    float loss = 0.0f, scale = 1.0f / (float) n;
    memset (grad + TRAIN_W2, 0, (TRAIN_VECTOR - TRAIN_W2) * sizeof *grad);
    for (size_t i = 0; i < n; i++) {
        s->image[i] = set->images + (size_t) index[i] * TRAIN_PIXELS;
        int label = set->labels[index[i]];
        float *hidden = s->hidden + i * TRAIN_HIDDEN;
        float *delta = s->delta_out + i * TRAIN_CLASSES;
        s_hidden (params, s->image[i], hidden);
        s_out (params, hidden, delta);
        loss += s_softmax (delta, label);
        delta[label] -= 1.0f;
        for (int c = 0; c < TRAIN_CLASSES; c++) {
            delta[c] *= scale;
            grad[TRAIN_B2 + c] += delta[c];
        }
        for (int h = 0; h < TRAIN_HIDDEN; h++)
            for (int c = 0; c < TRAIN_CLASSES; c++)
                grad[TRAIN_W2 + h * TRAIN_CLASSES + c] += hidden[h] * delta[c];
    }
    grad[TRAIN_LOSS] = loss * scale;
}

void
train_backward_first (const float *params, size_t n, float *grad,
                      train_scratch_t *s)
{
    memset (grad + TRAIN_W1, 0, (TRAIN_W2 - TRAIN_W1) * sizeof *grad);
    for (size_t i = 0; i < n; i++) {
        const float *hidden = s->hidden + i * TRAIN_HIDDEN;
        const float *delta = s->delta_out + i * TRAIN_CLASSES;
        float *back = s->delta_hidden + i * TRAIN_HIDDEN;
        for (int h = 0; h < TRAIN_HIDDEN; h++) {
            float sum = 0.0f;
            for (int c = 0; c < TRAIN_CLASSES; c++)
                sum += params[TRAIN_W2 + h * TRAIN_CLASSES + c] * delta[c];
            back[h] = hidden[h] > 0.0f ? sum : 0.0f;
            grad[TRAIN_B1 + h] += back[h];
        }
        for (int p = 0; p < TRAIN_PIXELS; p++) {
            float x = s->image[i][p];
            float *row = grad + TRAIN_W1 + p * TRAIN_HIDDEN;
            if (x == 0.0f)
                continue;
            for (int h = 0; h < TRAIN_HIDDEN; h++)
                row[h] += x * back[h];
        }
    }
}

void
train_update (float *params, float *velocity, const float *grad, size_t len,
              float rate, float momentum)
{
    for (size_t i = 0; i < len; i++) {
        velocity[i] = momentum * velocity[i] + grad[i];
        params[i] -= rate * velocity[i];
    }
}

size_t
train_right (const float *params, const train_set_t *set, size_t first,
             size_t last)
{
    float hidden[TRAIN_HIDDEN], out[TRAIN_CLASSES];
    size_t right = 0;
    for (size_t i = first; i < last; i++) {
        s_hidden (params, set->images + i * TRAIN_PIXELS, hidden);
        s_out (params, hidden, out);
        int best = 0;
        for (int c = 1; c < TRAIN_CLASSES; c++)
            best = out[c] > out[best] ? c : best;
        right += best == set->labels[i];
    }
    return right;
}
