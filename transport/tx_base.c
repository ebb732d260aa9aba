//  transport/tx_base.c - queues of posts, time, and what each tx_t starts with

#include "transport/tx_base.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static bool
s_handler_ok (const tx_handler_t *h)
{
    return h && h->accepted && h->up && h->place && h->arrived && h->sent &&
           h->down;
}

tutti_err_t
tx_base_init (tx_t *self, const tx_options_t *options,
              const tx_handler_t *handler, void *owner)
{
    if (!options || !s_handler_ok (handler) || !options->job ||
        !tp_name_ok (options->job))
        return TUTTI_EINVAL;
    self->handler = *handler;
    self->owner = owner;
    memcpy (self->job, options->job, strlen (options->job) + 1);
    self->epoch = options->epoch;
    self->node = options->node;
    self->channel = options->channel;
    memcpy (self->key, options->key, sizeof self->key);
    int ms = options->connect_timeout_ms;
    self->connect_ns = (ms > 0 ? ms : TX_CONNECT_MS) * TX_MS;
    self->dice = (uint32_t) tx_now_ns () | 1;
    return TUTTI_OK;
}

void
tx_base_identity (tx_t *self, int64_t epoch, uint32_t node,
                  const uint8_t key[TP_KEY_BYTES])
{
    self->epoch = epoch;
    self->node = node;
    memcpy (self->key, key, sizeof self->key);
}

void
tx_base_done (tx_t *self)
{
    explicit_bzero (self->key, sizeof self->key);
    while (self->spare) {
        tx_post_t *post = self->spare;
        self->spare = post->next;
        free (post);
    }
}

void
tx_base_hello (const tx_t *self, uint32_t to, uint64_t received,
               tp_hello_t *hello)
{
    memset (hello, 0, sizeof *hello);
    hello->protocol = TP_PROTOCOL;
    hello->channel = self->channel;
    hello->epoch = self->epoch;
    memcpy (hello->job, self->job, sizeof hello->job);
    hello->from = self->node;
    hello->to = to;
    hello->received = received;
}

bool
tx_base_knows (const tx_t *self, const tp_hello_t *theirs)
{
    return self->epoch != 0 && theirs->epoch <= self->epoch;
}

static tx_post_t *
s_post_new (tx_t *tx)
{
    tx_post_t *post = tx->spare;
    if (post)
        tx->spare = post->next;
    else
        post = malloc (sizeof *post);
    return post;
}

void
tx_post_free (tx_t *tx, tx_post_t *post)
{
    post->next = tx->spare;
    tx->spare = post;
}

//  Whether POST, which is queued, keeps its place before a new FRAME.
static bool
s_before (const tx_post_t *post, const tp_frame_t *frame, int priority)
{
    return post->priority >= priority || post->moved > 0 ||
           (post->frame.comm == frame->comm && post->frame.seq == frame->seq);
}

tutti_err_t
tx_queue_put (tx_queue_t *self, tx_t *tx, const tp_frame_t *frame,
              const void *payload, int priority, uint64_t cookie)
{
    if (frame->len > TP_PAYLOAD_MAX || (frame->len && !payload))
        return TUTTI_EINVAL;
    tx_post_t *post = s_post_new (tx);
    if (!post)
        return TUTTI_ENOMEM;
    post->frame = *frame;
    post->payload = payload;
    post->priority = priority;
    post->cookie = cookie;
    post->moved = 0;
    tx_post_t *prev = self->tail;
    while (prev && !s_before (prev, frame, priority))
        prev = prev->prev;
    post->prev = prev;
    post->next = prev ? prev->next : self->head;
    *(post->prev ? &post->prev->next : &self->head) = post;
    *(post->next ? &post->next->prev : &self->tail) = post;
    return TUTTI_OK;
}

tx_post_t *
tx_queue_take (tx_queue_t *self)
{
    tx_post_t *post = self->head;
    if (post) {
        self->head = post->next;
        *(post->next ? &post->next->prev : &self->tail) = NULL;
        post->next = NULL;
    }
    return post;
}

void
tx_queue_clear (tx_queue_t *self, tx_t *tx)
{
    tx_post_t *post;
    while ((post = tx_queue_take (self)))
        tx_post_free (tx, post);
}

int64_t
tx_now_ns (void)
{
    struct timespec ts;
    clock_gettime (CLOCK_MONOTONIC, &ts);
    return (int64_t) ts.tv_sec * 1000 * TX_MS + ts.tv_nsec;
}

//  Half of the pause is fixed and half is drawn, so that the nodes of a job
//  which start together do not knock together.
int64_t
tx_pause_ns (tx_t *self, uint32_t attempt)
{
    int64_t ms = TX_RETRY_MIN_MS;
    while (--attempt > 0 && ms < TX_RETRY_MAX_MS)
        ms *= 2;
    if (ms > TX_RETRY_MAX_MS)
        ms = TX_RETRY_MAX_MS;
    self->dice = self->dice * 1664525u + 1013904223u;
    int64_t half = ms * TX_MS / 2;
    return half + half * (self->dice >> 16) / 65536;
}

void
tx_timer_arm (int timer_fd, int64_t at_ns)
{
    struct itimerspec when = { .it_value = { 0, 0 } };
    if (at_ns != TX_NEVER) {
        if (at_ns < 1)
            at_ns = 1;  //  0 would disarm
        when.it_value.tv_sec = at_ns / (1000 * TX_MS);
        when.it_value.tv_nsec = at_ns % (1000 * TX_MS);
    }
    timerfd_settime (timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

tutti_err_t
tx_wait_open (int *epoll_fd, int *timer_fd, void *timer_data)
{
    *epoll_fd = epoll_create1 (EPOLL_CLOEXEC);
    *timer_fd = timerfd_create (CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    struct epoll_event event = { .events = EPOLLIN };
    event.data.ptr = timer_data;
    if (*epoll_fd < 0 || *timer_fd < 0 ||
        epoll_ctl (*epoll_fd, EPOLL_CTL_ADD, *timer_fd, &event) < 0)
        return TUTTI_ENOMEM;
    return TUTTI_OK;
}

//  Kernels before 5.11 have no epoll_pwait2: there a wait is rounded up to
//  whole milliseconds.
int
tx_wait (int epoll_fd, struct epoll_event *events, int max, int64_t timeout_us)
{
    if (timeout_us <= 0) {
        int ready = epoll_wait (epoll_fd, events, max, 0);
        return ready < 0 ? 0 : ready;
    }
    struct timespec ts = { timeout_us / 1000000, timeout_us % 1000000 * 1000 };
    int n = epoll_pwait2 (epoll_fd, events, max, &ts, NULL);
    if (n < 0 && errno == ENOSYS) {
        int64_t ms = (timeout_us + 999) / 1000;
        n = epoll_wait (epoll_fd, events, max, ms > 60000 ? 60000 : (int) ms);
    }
    return n < 0 ? 0 : n;
}
