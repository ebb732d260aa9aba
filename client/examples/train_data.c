//  client/examples/train_data.c - Fashion-MNIST from Debian's package

#include "train_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

//  IDX format: two zero bytes, type, dimensions, then big-endian sizes
//  (yann.lecun.com/exdb/mnist).
static uint8_t *
s_read_idx (const char *path, unsigned item, size_t *count_p)
{
    gzFile file = gzopen (path, "rb");
    uint8_t head[16];
    int head_len = item > 1 ? 16 : 8;
    uint8_t *data = NULL;
    if (file && gzread (file, head, (unsigned) head_len) == head_len) {
        size_t count = (size_t) head[4] << 24 | (size_t) head[5] << 16 |
                       (size_t) head[6] << 8 | head[7];
        size_t bytes = count * item;
        data = bytes < (1u << 30) ? malloc (bytes + 1) : NULL;
        if (data && gzread (file, data, (unsigned) bytes) != (int) bytes) {
            free (data);
            data = NULL;
        }
        *count_p = count;
    }
    if (file)
        gzclose (file);
    if (!data)
        fprintf (stderr,
                 "train_fashion: cannot read %s; install Debian package "
                 "dataset-fashion-mnist or give --data DIR\n",
                 path);
    return data;
}

bool
train_set_load (train_set_t *self, const char *dir, const char *name)
{
    char path[512];
    size_t images = 0, labels = 0;
    snprintf (path, sizeof path, "%s/%s-images-idx3-ubyte.gz", dir, name);
    uint8_t *pixels = s_read_idx (path, TRAIN_PIXELS, &images);
    snprintf (path, sizeof path, "%s/%s-labels-idx1-ubyte.gz", dir, name);
    self->labels = pixels ? s_read_idx (path, 1, &labels) : NULL;
    self->images = NULL;
    self->count = images;
    if (self->labels && images == labels)
        self->images = malloc (images * TRAIN_PIXELS * sizeof (float));
    if (self->images)
        for (size_t i = 0; i < images * TRAIN_PIXELS; i++)
            self->images[i] = (float) pixels[i] / 255.0f;
    free (pixels);
    return self->images != NULL;
}

void
train_set_destroy (train_set_t *self)
{
    free (self->images);
    free (self->labels);
    *self = (train_set_t){ 0 };
}

//  xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift
//  generators, scrambled", ACM TOMS 42(4), 2016.
static uint64_t
s_next (uint64_t *state)
{
    uint64_t x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * 0x2545f4914f6cdd1du;
}

float
train_random (uint64_t *state)
{
    return (float) (s_next (state) >> 40) / 16777216.0f;
}

void
train_shuffle (uint32_t *order, size_t n, uint64_t seed)
{
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t) i;
    for (size_t i = n; i > 1; i--) {
        size_t k = (size_t) (s_next (&state) % i);
        uint32_t other = order[k];
        order[k] = order[i - 1];
        order[i - 1] = other;
    }
}
