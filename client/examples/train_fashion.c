//  client/examples/train_fashion.c - data-parallel training on real data
//
//    tutti run -n 4 --nodes 2 -- build/bin/examples/train_fashion
//
//  Every rank computes the gradient of its part of each batch; the parts are
//  averaged through Tutti. In the reproducible mode (TUTTI_REPRODUCIBLE=1) n
//  ranks give the same losses, bit for bit, as one rank that adds up n shards
//  itself (--shards n): both add along the same balanced tree.

#include "train_model.h"
#include "train_options.h"

#include <tutti.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct trainer {
    train_options_t options;
    tutti_comm_t *world;
    int rank, size;
    size_t part;      //  --sharded: elements of a rank's part
    float *params;    //  TRAIN_VECTOR, padded to size parts; all from
    float *grad;      //  tutti_mem_alloc, so nothing is copied
    float *velocity;  //  of the own part only when sharded
    float *shard;     //  --shards: one gradient per shard
    train_set_t train, test;
    train_scratch_t scratch;
    uint32_t *order;
    FILE *losses;
    double compute, waiting;  //  seconds of this epoch
} trainer_t;

static double
s_now (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + (double) now.tv_nsec * 1e-9;
}

static void
s_check (const trainer_t *self, tutti_err_t err)
{
    if (err == TUTTI_OK)
        return;
    fprintf (stderr, "train_fashion: rank %d: %s: %s\n", self->rank,
             tutti_err_name (err), tutti_last_error ());
    exit (1);
}

//  --------------------------------------------------------------- one step

//  Computing takes PERCENT longer on the rank that is to be slow.
static void
s_drag (trainer_t *self, double start)
{
    double took = s_now () - start;
    if (self->rank == self->options.slow_rank) {
        double more = took * self->options.slow_percent / 100.0;
        nanosleep (
            &(struct timespec){
                (time_t) more,
                (long) ((more - (double) (time_t) more) * 1e9) },
            NULL);
    }
    self->compute += s_now () - start;
}

//  The tree of the reproducible mode: range [first, first + n), split at the
//  largest power of two below n; the sum ends in the first shard.
static void
s_add_tree (float *shards, size_t first, size_t n)
{
    if (n < 2)
        return;
    size_t half = 1;
    while (half * 2 < n)
        half *= 2;
    s_add_tree (shards, first, half);
    s_add_tree (shards, first + half, n - half);
    float *a = shards + first * TRAIN_VECTOR;
    const float *b = a + half * TRAIN_VECTOR;
    for (size_t i = 0; i < TRAIN_VECTOR; i++)
        a[i] = a[i] + b[i];
}

//  One rank that stands for K: the average of K shards in self->grad.
static void
s_shards (trainer_t *self, const uint32_t *index, size_t n)
{
    size_t k = (size_t) self->options.shards;
    for (size_t s = 0; s < k; s++) {
        float *grad = self->shard + s * TRAIN_VECTOR;
        train_backward_last (self->params, &self->train, index + s * n, n,
                             grad, &self->scratch);
        train_backward_first (self->params, n, grad, &self->scratch);
    }
    s_add_tree (self->shard, 0, k);
    for (size_t i = 0; i < TRAIN_VECTOR; i++)
        self->grad[i] = self->shard[i] / (float) k;
}

static void
s_sync (trainer_t *self, const uint32_t *index, size_t n)
{
    double start = s_now ();
    train_backward_last (self->params, &self->train, index, n, self->grad,
                         &self->scratch);
    train_backward_first (self->params, n, self->grad, &self->scratch);
    s_drag (self, start);
    start = s_now ();
    s_check (self, tutti_allreduce (self->grad, self->grad, TRAIN_VECTOR,
                                    TUTTI_FLOAT32, TUTTI_AVG, self->world));
    self->waiting += s_now () - start;
}

//  The last layer's bucket travels while the first layer's is computed.
static void
s_async (trainer_t *self, const uint32_t *index, size_t n)
{
    tutti_request_t *request[2] = { NULL, NULL };
    double start = s_now ();
    train_backward_last (self->params, &self->train, index, n, self->grad,
                         &self->scratch);
    s_check (self, tutti_allreduce_async (
                       self->grad + TRAIN_W2, self->grad + TRAIN_W2,
                       TRAIN_VECTOR - TRAIN_W2, TUTTI_FLOAT32, TUTTI_AVG,
                       self->world, NULL, &request[0]));
    train_backward_first (self->params, n, self->grad, &self->scratch);
    s_check (self, tutti_allreduce_async (self->grad, self->grad, TRAIN_W2,
                                          TUTTI_FLOAT32, TUTTI_AVG,
                                          self->world, NULL, &request[1]));
    s_drag (self, start);
    start = s_now ();
    s_check (self, tutti_wait_all (request, 2, TUTTI_FOREVER));
    self->waiting += s_now () - start;
}

//  Each rank averages, keeps and updates its own part only; the loss element
//  is carried over so that every rank has it.
static void
s_sharded (trainer_t *self, const uint32_t *index, size_t n)
{
    double start = s_now ();
    size_t first = (size_t) self->rank * self->part;
    train_backward_last (self->params, &self->train, index, n, self->grad,
                         &self->scratch);
    train_backward_first (self->params, n, self->grad, &self->scratch);
    s_drag (self, start);
    start = s_now ();
    s_check (self,
             tutti_reduce_scatter (self->grad, self->grad + first, self->part,
                                   TUTTI_FLOAT32, TUTTI_AVG, self->world));
    self->waiting += s_now () - start;
    train_update (self->params + first, self->velocity, self->grad + first,
                  self->part, self->options.rate, self->options.momentum);
    if (TRAIN_LOSS >= first && TRAIN_LOSS < first + self->part)
        self->params[TRAIN_LOSS] = self->grad[TRAIN_LOSS];
    start = s_now ();
    s_check (self, tutti_allgather (self->params + first, self->params,
                                    self->part, TUTTI_FLOAT32, self->world));
    self->waiting += s_now () - start;
}

//  Returns the loss of the whole batch.
static float
s_step (trainer_t *self, size_t at)
{
    size_t ranks = (size_t) (self->size * self->options.shards);
    size_t n = (size_t) self->options.batch / ranks;
    const uint32_t *index =
        self->order + at +
        (size_t) self->rank * n * (size_t) self->options.shards;
    float loss;
    if (self->options.sharded) {
        s_sharded (self, index, n);
        loss = self->params[TRAIN_LOSS];
    }
    else {
        if (self->options.shards > 1)
            s_shards (self, index, n);
        else if (self->options.async)
            s_async (self, index, n);
        else
            s_sync (self, index, n);
        loss = self->grad[TRAIN_LOSS];
        train_update (self->params, self->velocity, self->grad, TRAIN_PARAMS,
                      self->options.rate, self->options.momentum);
    }
    if (self->losses)
        fprintf (self->losses, "%a\n", (double) loss);
    return loss;
}

//  ------------------------------------------------------------------ epochs

//  Every rank tests its part.
static double
s_accuracy (trainer_t *self)
{
    size_t n = self->test.count, size = (size_t) self->size;
    int64_t right = (int64_t) train_right (
        self->params, &self->test, n * (size_t) self->rank / size,
        n * (size_t) (self->rank + 1) / size);
    s_check (self, tutti_allreduce (&right, &right, 1, TUTTI_INT64, TUTTI_SUM,
                                    self->world));
    return (double) right / (double) n;
}

//  Who waited, and for whom: the barrel's shortest stave waits least.
static void
s_report (trainer_t *self, int epoch, float loss, double accuracy,
          double seconds)
{
    double share = self->waiting / seconds;
    double most = self->waiting;
    s_check (self, tutti_allreduce (&most, &most, 1, TUTTI_FLOAT64, TUTTI_MAX,
                                    self->world));
    if (self->rank != 0)
        return;
    printf ("epoch %d loss %.5f accuracy %.4f seconds %.2f "
            "communicating %.0f %%\n",
            epoch, (double) loss, accuracy, seconds, 100.0 * share);
    if (share > 0.30)
        printf ("  note: more than 30 %% of the step is communication; "
                "larger batches, --mode async or fewer ranks may pay\n");
    if (self->options.slow_rank >= 0)
        printf ("  rank %d is slow by %d %%: others waited up to %.2f s\n",
                self->options.slow_rank, self->options.slow_percent, most);
    fflush (stdout);
}

static void
s_train (trainer_t *self)
{
    int done = 0, limit = self->options.steps;
    float loss = 0;
    double accuracy = 0, begun = s_now (), waited = 0;
    size_t batch = (size_t) self->options.batch;
    for (int epoch = 1;
         epoch <= self->options.epochs && (limit == 0 || done < limit);
         epoch++) {
        double start = s_now ();
        float sum = 0;
        int steps = 0;
        self->compute = self->waiting = 0;
        train_shuffle (self->order, self->train.count,
                       (uint64_t) (self->options.seed * 1000 + epoch));
        for (size_t at = 0;
             at + batch <= self->train.count && (limit == 0 || done < limit);
             at += batch, done++, steps++)
            sum += s_step (self, at);
        loss = sum / (float) steps;
        double seconds = s_now () - start;
        waited += self->waiting;
        accuracy = s_accuracy (self);
        s_report (self, epoch, loss, accuracy, seconds);
    }
    double seconds = s_now () - begun;
    if (self->rank == 0)
        printf ("result accuracy=%.4f loss=%.5f seconds=%.1f "
                "comm_share=%.3f\n",
                accuracy, (double) loss, seconds, waited / seconds);
}

//  ------------------------------------------------------------------- set-up

static void
s_require (const trainer_t *self, bool ok, const char *text)
{
    if (ok)
        return;
    fprintf (stderr, "train_fashion: rank %d: %s\n", self->rank, text);
    exit (2);
}

static float *
s_memory (trainer_t *self, size_t floats)
{
    void *memory;
    s_check (self, tutti_mem_alloc (self->world, floats * sizeof (float),
                                    TUTTI_HOST, &memory));
    return memory;
}

static void
s_open (trainer_t *self)
{
    const train_options_t *o = &self->options;
    if (o->algorithm)
        setenv ("TUTTI_ALGORITHM", o->algorithm, 1);
    s_check (self, tutti_init (NULL, &self->world));
    self->rank = tutti_comm_rank (self->world);
    self->size = tutti_comm_size (self->world);
    s_require (self, o->batch % (self->size * o->shards) == 0,
               "--batch must be a multiple of the ranks (and shards)");
    s_require (self, o->shards == 1 || self->size == 1,
               "--shards is for a run with one rank");
    if (!train_set_load (&self->train, o->data, "train") ||
        !train_set_load (&self->test, o->data, "t10k"))
        exit (2);
    size_t size = (size_t) self->size;
    self->part = (TRAIN_VECTOR + size - 1) / size;
    self->params = s_memory (self, self->part * size);
    self->grad = s_memory (self, self->part * size);
    size_t kept = o->sharded ? self->part : TRAIN_VECTOR;
    self->velocity = calloc (kept, sizeof (float));
    self->shard = calloc ((size_t) o->shards, TRAIN_VECTOR * sizeof (float));
    self->order = malloc (self->train.count * sizeof *self->order);
    if (o->losses && self->rank == 0)
        self->losses = fopen (o->losses, "w");
    s_require (self,
               self->velocity && self->shard && self->order &&
                   train_scratch_init (&self->scratch, (size_t) o->batch),
               "no memory");
    s_require (self, !o->losses || self->rank > 0 || self->losses,
               "cannot write the file of --losses");
    if (o->sharded && self->rank == 0)
        printf ("sharded: every rank keeps %zu of %d momenta (%zu KiB)\n",
                self->part, TRAIN_PARAMS, self->part * sizeof (float) / 1024);
    train_init (self->params, (uint64_t) o->seed);
}

int
main (int argc, char **argv)
{
    trainer_t self = { .rank = -1 };
    train_options_parse (&self.options, argc, argv);
    s_open (&self);
    s_train (&self);
    if (self.losses)
        fclose (self.losses);
    train_set_destroy (&self.train);
    train_set_destroy (&self.test);
    train_scratch_destroy (&self.scratch);
    free (self.velocity);
    free (self.shard);
    free (self.order);
    s_check (&self, tutti_finalize (&self.world));
    return 0;
}
