//  agent/log.h - one line per event on stderr, key=value
//
//  "time=2026-01-31T12:00:00.123Z level=info event=ready node=n1". Values
//  that may hold spaces are written "%s" in quotes by the caller; bytes that
//  could break a line or a terminal become '?'. One write per line, so lines
//  of the supervisor and of workers do not mix.

#ifndef TA_LOG_H
#define TA_LOG_H

typedef enum ta_log_level {
    TA_LOG_INFO,
    TA_LOG_WARN,
    TA_LOG_ERROR
} ta_log_level_t;

//  EVENT is one word; FORMAT makes the key=value pairs and may be "".
__attribute__ ((format (printf, 3, 4))) void
ta_log (ta_log_level_t level, const char *event, const char *format, ...);

#endif
