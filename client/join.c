//  client/join.c - what tutti_init waits for, and how long that took

#include "client/join.h"

#include <stdio.h>
#include <string.h>

static const char *const s_names[TP_STAGES] = { "agent", "coordinator",
                                                "ranks", "nodes" };

void
tl_join_begin (tl_join_t *self, const tl_report_t *report, int64_t timeout_ms,
               int64_t now_ns)
{
    *self = (tl_join_t){ .report = report,
                         .begun_ns = now_ns,
                         .since_ns = now_ns,
                         .limit_ns = now_ns + timeout_ms * 1000000,
                         .remind_ns = now_ns + TL_REMIND_NS };
}

void
tl_join_enter (tl_join_t *self, tp_stage_t stage, const char *text,
               int64_t now_ns)
{
    self->ns[self->stage] += now_ns - self->since_ns;
    self->since_ns = now_ns;
    self->stage = stage;
    snprintf (self->text, sizeof self->text, "%s", text);
}

int64_t
tl_join_remind (tl_join_t *self, int64_t now_ns)
{
    if (now_ns >= self->remind_ns) {
        char times[128];
        tl_join_times (self, now_ns, times, sizeof times);
        tl_report_line (self->report, TL_LOG_WARN,
                        "tutti_init waits since %.0f s for %s (%s): %s",
                        (double) (now_ns - self->begun_ns) * 1e-9,
                        s_names[self->stage], times, self->text);
        self->remind_ns = now_ns + TL_REMIND_NS;
    }
    return self->remind_ns < self->limit_ns ? self->remind_ns : self->limit_ns;
}

void
tl_join_times (const tl_join_t *self, int64_t now_ns, char *text, size_t len)
{
    size_t at = 0;
    text[0] = 0;
    for (tp_stage_t s = 0; s <= self->stage && at < len; s++) {
        int64_t ns = self->ns[s];
        if (s == self->stage)
            ns += now_ns - self->since_ns;
        int n = snprintf (text + at, len - at, "%s%s %.1f s", s ? ", " : "",
                          s_names[s], (double) ns * 1e-9);
        at += (size_t) n;
    }
}
