//  agent/log.c - one line per event on stderr, key=value

#include "agent/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES 2048

static const char *const s_levels[] = {
    [TA_LOG_INFO] = "info",
    [TA_LOG_WARN] = "warn",
    [TA_LOG_ERROR] = "error",
};

void
ta_log (ta_log_level_t level, const char *event, const char *format, ...)
{
    struct timespec now;
    struct tm utc;
    clock_gettime (CLOCK_REALTIME, &now);
    gmtime_r (&now.tv_sec, &utc);

    char line[LINE_MAX_BYTES];
    size_t used = strftime (line, sizeof line, "time=%FT%T", &utc);
    used +=
        (size_t) snprintf (line + used, 128, ".%03ldZ level=%s event=%.64s ",
                           now.tv_nsec / 1000000, s_levels[level], event);
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (line + used, sizeof line - used - 1, format, arguments);
    va_end (arguments);

    size_t len = strlen (line);
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char) line[i] < ' ' || line[i] == 0x7f)
            line[i] = '?';
    }
    if (line[len - 1] == ' ')
        len--;
    line[len++] = '\n';
    //  Nobody can be told that the log is full or gone.
    if (write (STDERR_FILENO, line, len) < 0)
        return;
}
