//  tests/unit/tx_world.h - two or more sides that talk over a transport
//
//  Every wait has a deadline. What the handlers saw is recorded, and that
//  none is called for an endpoint after its close is checked by all tests.

#ifndef TX_WORLD_H
#define TX_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "transport/tx.h"

#define SIDES 9
#define SEQS 8192
#define MEMORY (9u << 20)
#define EPOCH 7
#define PATIENCE_MS 30000

//  Set by the main () of each transport's test.
static const char *world_transport;
static const char *world_bind = "127.0.0.1";

typedef struct side {
    const tx_ops_t *ops;
    tx_t *tx;
    tx_ep_t *ep;  //  the last one that came up or was accepted
    int accepted, up, down, places;
    uint64_t arrived, bytes, sent;
    uint64_t last_cookie, last_number;
    tutti_err_t err;  //  of the last down
    char text[TP_TEXT_MAX];
    uint64_t seqs[SEQS];  //  of the frames in order of arrival
    uint8_t *memory;      //  payloads go to memory + off
    void *payload;        //  of the last frame
    tp_hello_t hello;     //  of the last accepted
    bool refuse;          //  what accepted () answers
    bool no_place;        //  what place () answers
    bool echo;            //  send back what arrived
    uint64_t close_at;    //  close in arrived () number that
    const tx_ep_t *closed;
    int after_close;
} side_t;

static int64_t
world_ms (void)
{
    struct timespec ts;
    clock_gettime (CLOCK_MONOTONIC, &ts);
    return (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static tp_frame_t
world_frame (uint64_t seq, uint64_t off, uint32_t len)
{
    tp_frame_t frame = { .type = TP_FRAME_PUT,
                         .comm = 1,
                         .epoch = EPOCH,
                         .seq = seq,
                         .off = off,
                         .len = len };
    frame.sig = (tp_sig_t){ .kind = TP_ALLREDUCE,
                            .dtype = TUTTI_FLOAT32,
                            .op = TUTTI_SUM,
                            .root = -1,
                            .count = 1 };
    return frame;
}

static void
world_post (side_t *side, uint64_t seq, uint64_t off, uint32_t len,
            int priority)
{
    tp_frame_t frame = world_frame (seq, off, len);
    assert_int_equal (side->ops->post (side->tx, side->ep, &frame,
                                       len ? side->memory + off : NULL,
                                       priority, seq),
                      TUTTI_OK);
}

static void
world_alive (side_t *side, const tx_ep_t *ep)
{
    side->after_close += side->closed && ep == side->closed;
}

static bool
world_accepted (void *owner, tx_ep_t *ep, const tp_hello_t *hello,
                void **user_p)
{
    side_t *side = owner;
    side->accepted++;
    side->hello = *hello;
    *user_p = side;
    if (!side->refuse)
        side->ep = ep;
    return !side->refuse;
}

static void
world_up (void *owner, tx_ep_t *ep)
{
    side_t *side = owner;
    side->up++;
    side->ep = ep;
    world_alive (side, ep);
}

static void *
world_place (void *owner, tx_ep_t *ep, const tp_frame_t *frame)
{
    side_t *side = owner;
    side->places++;
    world_alive (side, ep);
    if (side->no_place || frame->off + frame->len > MEMORY)
        return NULL;
    return side->memory + frame->off;
}

static void
world_arrived (void *owner, tx_ep_t *ep, const tp_frame_t *frame,
               void *payload)
{
    side_t *side = owner;
    world_alive (side, ep);
    side->seqs[side->arrived++ % SEQS] = frame->seq;
    side->bytes += frame->len;
    side->payload = payload;
    side->last_number = frame->number;
    if (side->echo)
        world_post (side, frame->seq, frame->off, frame->len, 0);
    if (side->close_at && side->arrived == side->close_at) {
        side->closed = ep;
        side->ops->close (side->tx, &ep);
    }
}

static void
world_sent (void *owner, tx_ep_t *ep, uint64_t cookie)
{
    side_t *side = owner;
    world_alive (side, ep);
    side->sent++;
    side->last_cookie = cookie;
}

static void
world_down (void *owner, tx_ep_t *ep, tutti_err_t err, const char *text)
{
    side_t *side = owner;
    world_alive (side, ep);
    side->down++;
    side->err = err;
    snprintf (side->text, sizeof side->text, "%s", text);
    side->ep = NULL;
}

static const tx_handler_t world_handler = { .accepted = world_accepted,
                                            .up = world_up,
                                            .place = world_place,
                                            .arrived = world_arrived,
                                            .sent = world_sent,
                                            .down = world_down };

static tx_options_t
world_options (uint32_t node)
{
    tx_options_t options = { .bind = world_bind,
                             .job = "test",
                             .epoch = EPOCH,
                             .node = node,
                             .connect_timeout_ms = PATIENCE_MS };
    memset (options.key, 0x5a, sizeof options.key);
    return options;
}

static void
world_open_with (side_t *side, const tx_options_t *options)
{
    memset (side, 0, sizeof *side);
    side->memory = calloc (1, MEMORY);
    assert_non_null (side->memory);
    side->ops = tx_find (world_transport);
    assert_non_null (side->ops);
    assert_int_equal (
        side->ops->open (&side->tx, options, &world_handler, side), TUTTI_OK);
}

static void
world_open (side_t *side, uint32_t node)
{
    tx_options_t options = world_options (node);
    world_open_with (side, &options);
}

static void
world_close (side_t *side)
{
    if (side->tx)
        side->ops->destroy (&side->tx);
    assert_null (side->tx);
    assert_int_equal (side->after_close, 0);
    free (side->memory);
    side->memory = NULL;
}

static void
world_connect_to (side_t *side, const char *address, uint32_t peer)
{
    assert_int_equal (
        side->ops->connect (side->tx, address, peer, side, &side->ep),
        TUTTI_OK);
}

static void
world_connect (side_t *from, side_t *to, uint32_t peer)
{
    world_connect_to (from, to->ops->address (to->tx), peer);
}

static void
world_turn (side_t *sides, int n)
{
    int events = 0;
    for (int i = 0; i < n; i++)
        if (sides[i].tx)
            events += sides[i].ops->poll (sides[i].tx, 0);
    if (events == 0)
        nanosleep (&(struct timespec){ 0, 50000 }, NULL);
}

//  Poll N sides until CONDITION; fail after PATIENCE_MS.
#define WAIT(sides, n, condition)                                             \
    do {                                                                      \
        int64_t end_ms_ = world_ms () + PATIENCE_MS;                          \
        while (!(condition)) {                                                \
            if (world_ms () > end_ms_)                                        \
                fail_msg ("waited too long for %s", #condition);              \
            world_turn (sides, n);                                            \
        }                                                                     \
    } while (0)

static void
world_idle (side_t *sides, int n, int ms)
{
    int64_t end_ms = world_ms () + ms;
    while (world_ms () < end_ms)
        world_turn (sides, n);
}

//  Two sides, 0 connected to 1, both up.
static void
world_pair (side_t *pair)
{
    world_open (&pair[0], 0);
    world_open (&pair[1], 1);
    world_connect (&pair[0], &pair[1], 1);
    WAIT (pair, 2, pair[0].up == 1 && pair[1].accepted == 1);
}

static void
world_close_pair (side_t *pair)
{
    world_close (&pair[0]);
    world_close (&pair[1]);
}

static void
world_fill (side_t *side, unsigned seed)
{
    for (size_t i = 0; i < MEMORY; i++) {
        seed = seed * 1664525u + 1013904223u;
        side->memory[i] = (uint8_t) (seed >> 24);
    }
}

static tx_stats_t
world_stats (const side_t *side)
{
    tx_stats_t stats;
    side->ops->stats (side->tx, &stats);
    return stats;
}

#endif
