//  protocol/local.c - waking and sleeping through the wake page

#include "protocol/local.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

//  Both sides use sequentially consistent operations: either the sleeper sees
//  the change, or the waker sees the sleeper. Fences would do as well, but
//  thread sanitizers do not understand them.

void
tp_wake (tp_wake_t *self)
{
    if (!atomic_load (&self->asleep))
        return;
    atomic_fetch_add (&self->word, 1);
    syscall (SYS_futex, &self->word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

uint32_t
tp_wake_seen (const tp_wake_t *self)
{
    return atomic_load (&self->word);
}

//  A count, because threads of one rank may sleep at the same time.
void
tp_wake_arm (tp_wake_t *self)
{
    atomic_fetch_add (&self->asleep, 1);
}

void
tp_wake_sleep (tp_wake_t *self, uint32_t seen, int timeout_ms)
{
    struct timespec limit = { timeout_ms / 1000,
                              (long) (timeout_ms % 1000) * 1000000 };
    syscall (SYS_futex, &self->word, FUTEX_WAIT, seen, &limit, NULL, 0);
}

void
tp_wake_disarm (tp_wake_t *self)
{
    atomic_fetch_sub (&self->asleep, 1);
}

void
tp_bell_ring (tp_wake_page_t *page, int bell)
{
    if (!atomic_load (&page->worker.asleep))
        return;
    uint64_t one = 1;
    //  The only failure is a full counter, which is a rung bell as well.
    if (write (bell, &one, sizeof one) < 0)
        return;
}
