//  client/tool/tool.h - what the subcommands of `tutti` share

#ifndef TOOL_H
#define TOOL_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOOL_FAILED 1  //  exit status: it did not work
#define TOOL_USAGE 2   //  exit status: it was called wrongly

//  The subcommands. ARGV[0] is the name of the command; the value is the exit
//  status.
int
tool_run_main (int argc, char **argv);
int
tool_bench_main (int argc, char **argv);
int
tool_status_main (int argc, char **argv);

//  One line on stderr: "tutti: " and the text.
__attribute__ ((format (printf, 1, 2))) void
tool_error (const char *format, ...);

//  The name out of N that is nearest to WORD (edits of a letter).
const char *
tool_nearest (const char *word, const char *const *names, size_t n);

//  After getopt_long (opterr 0, ":" first) gave '?' or ':': says what is wrong
//  and which option of COMMAND is nearest. Value: TOOL_USAGE.
int
tool_bad_option (const char *command, int found, char **argv,
                 const struct option *options);

//  Says that the value of NAME is not what it EXPECTS. Value: false.
bool
tool_bad_value (const char *command, const char *name, const char *value,
                const char *expects);

//  Numbers: decimal, LO to HI; sizes with K, M or G (of 1024). False if TEXT
//  is none; *VALUE_P is then left alone.
bool
tool_number (const char *text, long lo, long hi, int *value_p);
bool
tool_size (const char *text, size_t *value_p);

//  Milliseconds of the monotonic clock.
int64_t
tool_now_ms (void);

#endif
