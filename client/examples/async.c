//  client/examples/async.c - gradients averaged while the program computes
//
//    tutti run -n 4 -- build/bin/examples/async [--epoll]
//
//  The loop of every text on asynchronous communication:
//
//      forward (); backward (); allreduce_async (grad, callback = update);
//
//  with what such texts leave out: a gradient buffer belongs to its op until
//  the op is done, so each layer waits for its own last op just before it
//  writes the buffer again. Parameters are therefore at most one step old.
//  With --epoll a file descriptor tells when tutti_progress has work.

#include <tutti.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define LAYERS 4
#define WEIGHTS 10000
#define STEPS 20
#define RATE 0.25f

typedef struct layer {
    float *w, *grad;
    tutti_request_t *request;
    int updates;
} layer_t;

static int s_rank, s_size;

static void
s_check (tutti_err_t err)
{
    if (err == TUTTI_OK)
        return;
    fprintf (stderr, "rank %d: %s: %s\n", s_rank, tutti_err_name (err),
             tutti_last_error ());
    exit (1);
}

//  Runs once per op, inside a tutti call of this thread, no lock held.
static void
s_update (tutti_err_t err, const tutti_request_info_t *info, void *user)
{
    layer_t *layer = user;
    if (err != TUTTI_OK) {
        fprintf (stderr, "op %llu: %s\n", (unsigned long long) info->seq,
                 tutti_last_error ());
        return;
    }
    for (int i = 0; i < WEIGHTS; i++)
        layer->w[i] -= RATE * layer->grad[i];
    layer->updates++;
}

//  A made-up gradient, different on every rank; its average is 1.
static void
s_backward (layer_t *layer)
{
    float mine = 2.0f * (float) (s_rank + 1) / (float) (s_size + 1);
    for (int i = 0; i < WEIGHTS; i++)
        layer->grad[i] = mine;
}

static void
s_start (layer_t *layer, int priority, tutti_comm_t *world)
{
    tutti_call_t call = TUTTI_CALL_INIT;
    call.callback = s_update;
    call.user = layer;
    call.priority = priority;  //  what the next forward needs first
    s_check (tutti_allreduce_async (layer->grad, layer->grad, WEIGHTS,
                                    TUTTI_FLOAT32, TUTTI_AVG, world, &call,
                                    &layer->request));
}

//  Callbacks by a descriptor in the program's own event loop.
static void
s_wait_epoll (layer_t *layer, int wanted, int epoll, tutti_comm_t *world)
{
    while (layer->updates < wanted) {
        struct epoll_event event;
        int ran = 0;
        epoll_wait (epoll, &event, 1, 100);
        s_check (tutti_progress (world, 0, &ran));
    }
    s_check (tutti_wait (&layer->request, TUTTI_FOREVER));
}

static void
s_train (layer_t *layers, int epoll, tutti_comm_t *world)
{
    for (int step = 0; step < STEPS; step++) {
        s_check (tutti_progress (world, 0, NULL));  //  due callbacks
        for (int i = LAYERS - 1; i >= 0; i--) {
            if (epoll >= 0 && step > 0)
                s_wait_epoll (&layers[i], step, epoll, world);
            s_check (tutti_wait (&layers[i].request, TUTTI_FOREVER));
            s_backward (&layers[i]);
            s_start (&layers[i], LAYERS - i, world);
        }
    }
    for (int i = 0; i < LAYERS; i++)
        s_check (tutti_wait (&layers[i].request, TUTTI_FOREVER));
}

static int
s_watch (tutti_comm_t *world)
{
    int fd;
    s_check (tutti_comm_fd (world, &fd));
    int epoll = epoll_create1 (EPOLL_CLOEXEC);
    struct epoll_event event = { .events = EPOLLIN };
    if (epoll < 0 || epoll_ctl (epoll, EPOLL_CTL_ADD, fd, &event) < 0) {
        perror ("epoll");
        exit (1);
    }
    return epoll;
}

int
main (int argc, char **argv)
{
    bool by_epoll = argc > 1 && strcmp (argv[1], "--epoll") == 0;
    tutti_comm_t *world = NULL;
    layer_t layers[LAYERS] = { 0 };
    s_check (tutti_init (NULL, &world));
    s_rank = tutti_comm_rank (world);
    s_size = tutti_comm_size (world);
    for (int i = 0; i < LAYERS; i++) {
        void *memory;
        s_check (tutti_mem_alloc (world, 2 * WEIGHTS * sizeof (float),
                                  TUTTI_HOST, &memory));
        layers[i].w = memory;
        layers[i].grad = layers[i].w + WEIGHTS;
    }
    s_train (layers, by_epoll ? s_watch (world) : -1, world);
    bool right = true;
    for (int i = 0; i < LAYERS; i++)
        for (int k = 0; k < WEIGHTS; k++)
            right &= fabsf (layers[i].w[k] + RATE * STEPS) < 1e-3f;
    printf ("rank %d: %d updates of %d layers, %s\n", s_rank,
            layers[0].updates, LAYERS, right ? "as computed" : "WRONG");
    s_check (tutti_finalize (&world));
    return right ? 0 : 1;
}
