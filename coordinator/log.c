//  coordinator/log.c - one line per event on stderr, key=value

#include "coordinator/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static const char *const s_levels[] = {
    [TC_LOG_INFO] = "info",
    [TC_LOG_WARN] = "warn",
    [TC_LOG_ERROR] = "error",
};

void
tc_log (tc_log_level_t level, const char *event, const char *format, ...)
{
    char line[1024], stamp[32];
    struct timespec now;
    struct tm tm;
    clock_gettime (CLOCK_REALTIME, &now);
    gmtime_r (&now.tv_sec, &tm);
    strftime (stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &tm);
    int at = snprintf (line, sizeof line, "time=%s.%03ldZ level=%s event=%s ",
                       stamp, now.tv_nsec / 1000000, s_levels[level], event);
    va_list args;
    va_start (args, format);
    int more =
        vsnprintf (line + at, sizeof line - 1 - (size_t) at, format, args);
    va_end (args);
    size_t len = (size_t) (at + (more > 0 ? more : 0));
    if (len > sizeof line - 2)
        len = sizeof line - 2;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char) line[i] < 32 || line[i] == 127)
            line[i] = '?';
    line[len++] = '\n';
    if (write (2, line, len) < 0)
        return;  //  nobody to tell
}
