//  coordinator/log.h - one line per event on stderr, key=value

#ifndef TC_LOG_H
#define TC_LOG_H

typedef enum { TC_LOG_INFO, TC_LOG_WARN, TC_LOG_ERROR } tc_log_level_t;

//  EVENT is one word; FORMAT makes the pairs. Bytes that could break a line
//  become '?'. Any thread; one write per line.
__attribute__ ((format (printf, 3, 4))) void
tc_log (tc_log_level_t level, const char *event, const char *format, ...);

#endif
