//  coordinator/log.h - one line per event on stderr, key=value

#ifndef TC_LOG_H
#define TC_LOG_H

//  EVENT is one word; FORMAT makes the pairs. Bytes that could break a line
//  become '?'. Any thread; one write per line.
__attribute__ ((format (printf, 2, 3))) void
tc_log (const char *event, const char *format, ...);

#endif
