//  client/tool/relay.h - one output of one rank, line by line with its label

#ifndef TOOL_RELAY_H
#define TOOL_RELAY_H

#include <stdbool.h>
#include <stddef.h>

#define RELAY_LINE_MAX 8192  //  longer lines are broken

typedef struct relay {
    int fd;  //  to read from; -1: closed
    int to;  //  1 or 2
    int rank;
    size_t len;
    char line[RELAY_LINE_MAX];
} relay_t;

//  A pipe: *WRITE_FD_P is for the rank. False: errno says why.
bool
relay_open (relay_t *self, int to, int rank, int *write_fd_p);

//  Pass on what there is; never waits for more. At its end it closes.
void
relay_pump (relay_t *self);

//  Pass on what there is and close.
void
relay_close (relay_t *self);

#endif
