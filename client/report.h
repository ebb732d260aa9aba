//  client/report.h - what a rank says of itself, if it was asked to
//
//  TUTTI_REPORT=stderr|PATH: rank 0 says one line when an op stalls, a comm
//  ends or init waits, and at the end a table of the time spent in
//  communication. TUTTI_LOG=warn|info|ops|trace, on the same descriptor (else
//  stderr): info adds start and end, ops one line per op. Without either the
//  library prints nothing. Under the session's lock.

#ifndef TL_REPORT_H
#define TL_REPORT_H

#include "protocol/board.h"

typedef enum tl_log_level {
    TL_LOG_OFF,
    TL_LOG_WARN,
    TL_LOG_INFO,
    TL_LOG_OPS,
    TL_LOG_TRACE
} tl_log_level_t;

typedef struct tl_report {
    int fd;      //  -1: nothing is said
    bool table;  //  TUTTI_REPORT was given
    tl_log_level_t level;
    uint32_t rank;
    char job[TP_NAME_MAX];
    int64_t begun_ns;
    int64_t blocked_ns;          //  inside waits of this rank
    tp_tally_t tally[TP_KINDS];  //  of comms that are closed
} tl_report_t;

//  Read the environment. TUTTI_EINVAL names a variable that makes no sense.
tutti_err_t
tl_report_open (tl_report_t *self, uint32_t rank, const char *job);
void
tl_report_close (tl_report_t *self);

//  One line, "tutti: job J rank R: ...", if LEVEL is to be said.
void
tl_report_line (const tl_report_t *self, tl_log_level_t level,
                const char *format, ...)
    __attribute__ ((format (printf, 3, 4)));

//  Add the counts of one of my lines of a board.
void
tl_report_add (tl_report_t *self, const tp_board_rank_t *rank);

//  The table, from rank 0.
void
tl_report_table (const tl_report_t *self);

#endif
