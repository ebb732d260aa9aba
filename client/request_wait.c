//  client/request_wait.c - waiting for one op: look, then sleep

#include "client/comm.h"

#include "client/error.h"

#include <sched.h>
#include <stdio.h>

//  Rounds of looking before sleeping. A wake-up costs some 25 us where this
//  was measured (a virtual machine), a look at a cell less than 0.1 us. With
//  more ranks than cores, or a worker that needs the core, give it away.
#define LOOKS 2000
#define YIELDS 40
#define SLEEP_MS 100

static void
s_pause (void)
{
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause ();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
}

//  Look for a while. Returns whether SELF is done.
static bool
s_spin (tl_request_t *self)
{
    tl_comm_t *comm = self->comm;
    bool crowded =
        !comm->single || (int) comm->board->n_local > comm->session->cores;
    int looks = crowded ? YIELDS : LOOKS;
    for (int i = 0; i < looks; i++) {
        if (tl_request_step (self, true))
            i = 0;
        if (self->state == TL_DONE)
            return true;
        if ((i & 15) == 15 && tl_comm_progress (comm->session, true))
            i = 0;
        if (crowded)
            sched_yield ();
        else
            s_pause ();
    }
    return false;
}

//  Sleep until woken, lock released. The step after arming closes the gap
//  between the last look and the sleep.
static void
s_sleep (tl_request_t *self, int64_t limit_ns)
{
    tl_session_t *session = self->comm->session;
    int64_t left_ms = (limit_ns - tl_now_ns ()) / 1000000 + 1;
    int ms = left_ms < SLEEP_MS ? (int) left_ms : SLEEP_MS;
    uint32_t seen = tp_wake_seen (session->mine);
    tp_wake_arm (session->mine);
    if (!tl_comm_progress (session, true) && self->state != TL_DONE &&
        ms > 0) {
        pthread_mutex_unlock (&session->lock);
        tp_wake_sleep (session->mine, seen, ms);
        pthread_mutex_lock (&session->lock);
    }
    tp_wake_disarm (session->mine);
}

//  Ranks of this node that have not called the op: "rank 3 (pid 17)".
static void
s_absent (const tl_request_t *self, char *text, size_t len)
{
    tp_board_t *board = self->comm->board;
    size_t at = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < board->n_local && at + 32 < len; i++) {
        const tp_board_rank_t *rank = tp_board_rank (board, i);
        if (atomic_load (&tp_board_cell (board, self->seq, i)->seq) <
            self->seq)
            at +=
                (size_t) snprintf (text + at, len - at, "%srank %u (pid %u)",
                                   at > 0 ? ", " : "", rank->rank, rank->pid);
    }
    if (at == 0)
        snprintf (text, len, "ranks of other nodes");
}

//  The op's own deadline has passed: the comm ends, everywhere.
static void
s_expire (tl_request_t *self)
{
    tl_comm_t *comm = self->comm;
    char what[160], absent[200], text[TP_TEXT_MAX];
    tl_request_text (self, what, sizeof what);
    s_absent (self, absent, sizeof absent);
    snprintf (text, sizeof text,
              "%s passed its deadline of %lld ms on rank %u; waited for "
              "%s. TUTTI_TIMEOUT_MS or tutti_call_t.timeout_ms sets it",
              what,
              (long long) (self->deadline_ns - self->submitted_ns) / 1000000,
              comm->rank, absent);
    tp_board_fail (comm->board, TUTTI_ETIMEDOUT, text);
    tl_comm_tell_abort (comm, TUTTI_ETIMEDOUT, text);
    tl_comm_wake (comm);
}

//  Who is late, in the job's own log: once at 10 s, then 1, 5, 15 minutes.
static void
s_report_stall (tl_request_t *self, int64_t begun_ns, int *said)
{
    static const int64_t after_s[] = { 10, 60, 300, 900 };
    int64_t waited_s = (tl_now_ns () - begun_ns) / 1000000000;
    char what[160], absent[200];
    if (*said > 3 || waited_s < after_s[*said])
        return;
    ++*said;
    s_absent (self, absent, sizeof absent);
    tl_report_line (&self->comm->session->report, TL_LOG_WARN,
                    "%s waits since %lld s for %s",
                    tl_request_text (self, what, sizeof what),
                    (long long) waited_s, absent);
}

//  Block; TUTTI_EAGAIN: the time is up.
static tutti_err_t
s_block (tl_request_t *self, int timeout_ms)
{
    tl_session_t *session = self->comm->session;
    int64_t begun = tl_now_ns ();
    int said = 0;
    int64_t limit = timeout_ms < 0
                        ? INT64_MAX
                        : tl_now_ns () + (int64_t) timeout_ms * 1000000;
    while (self->state != TL_DONE) {
        int64_t now = tl_now_ns ();
        if (now >= self->deadline_ns)
            s_expire (self);
        else if (now >= limit)
            return tl_error (TUTTI_EAGAIN, "not finished after %d ms",
                             timeout_ms);
        s_report_stall (self, begun, &said);
        tl_session_check (session);
        while (tl_comm_progress (session, true))
            ;
        if (self->state != TL_DONE)
            s_sleep (self,
                     limit < self->deadline_ns ? limit : self->deadline_ns);
    }
    return TUTTI_OK;
}

tutti_err_t
tl_request_wait (tl_request_t *self, int timeout_ms)
{
    tl_session_t *session = self->comm->session;
    if (self->state == TL_DONE)
        return TUTTI_OK;
    int64_t begun = tl_now_ns ();
    atomic_fetch_add (&session->mine->present, 1);
    tutti_err_t err = s_spin (self) ? TUTTI_OK : s_block (self, timeout_ms);
    atomic_fetch_sub (&session->mine->present, 1);
    session->report.blocked_ns += tl_now_ns () - begun;
    return err;
}
