//  client/tool/tool.c - words, numbers and complaints

#include "client/tool/tool.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WORD_MAX 64

void
tool_error (const char *format, ...)
{
    char line[2048];
    va_list args;
    va_start (args, format);
    vsnprintf (line, sizeof line, format, args);
    va_end (args);
    fflush (stdout);
    fprintf (stderr, "tutti: %s\n", line);
}

//  Levenshtein distance, two rows of the table at a time.
static size_t
s_distance (const char *a, const char *b)
{
    size_t row[WORD_MAX + 1], len = strnlen (b, WORD_MAX);
    for (size_t k = 0; k <= len; k++)
        row[k] = k;
    for (size_t i = 0; a[i] && i < WORD_MAX; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t k = 0; k < len; k++) {
            size_t best = diagonal + (a[i] != b[k]);
            best = row[k] + 1 < best ? row[k] + 1 : best;
            best = row[k + 1] + 1 < best ? row[k + 1] + 1 : best;
            diagonal = row[k + 1];
            row[k + 1] = best;
        }
    }
    return row[len];
}

const char *
tool_nearest (const char *word, const char *const *names, size_t n)
{
    const char *best = NULL;
    size_t least = SIZE_MAX;
    for (size_t i = 0; i < n; i++) {
        size_t distance = s_distance (word, names[i]);
        if (distance < least) {
            least = distance;
            best = names[i];
        }
    }
    return best;
}

int
tool_bad_option (const char *command, int found, char **argv,
                 const struct option *options)
{
    const char *names[WORD_MAX];
    size_t n = 0;
    for (; options[n].name && n < WORD_MAX; n++)
        names[n] = options[n].name;
    const char *word = argv[optind - 1];
    char letter[] = { '-', (char) optopt, 0 };
    bool is_long = strncmp (word, "--", 2) == 0;
    if (found == ':')
        tool_error ("%s: option %s needs a value; see tutti %s --help",
                    command, is_long || !optopt ? word : letter, command);
    else if (!is_long)
        tool_error ("%s: no option %s; see tutti %s --help", command,
                    optopt ? letter : word, command);
    else
        tool_error ("%s: no option %s; did you mean --%s? See tutti %s --help",
                    command, word, tool_nearest (word + 2, names, n), command);
    return TOOL_USAGE;
}

bool
tool_bad_value (const char *command, const char *name, const char *value,
                const char *expects)
{
    tool_error ("%s: %s %s: expected %s", command, name, value, expects);
    return false;
}

bool
tool_number (const char *text, long lo, long hi, int *value_p)
{
    char *end;
    errno = 0;
    long value = strtol (text, &end, 10);
    if (errno || end == text || *end || value < lo || value > hi)
        return false;
    *value_p = (int) value;
    return true;
}

bool
tool_size (const char *text, size_t *value_p)
{
    static const char units[] = "KMG";
    char *end;
    errno = 0;
    unsigned long long value = strtoull (text, &end, 10);
    if (errno || *text < '0' || *text > '9' || value > 1ull << 40)
        return false;
    const char *unit = isalpha (*end) ? strchr (units, toupper (*end)) : NULL;
    if (unit)
        end++;
    if (unit && strcmp (end, "iB") == 0)
        end += 2;
    if (unit && strcmp (end, "B") == 0)
        end++;
    if (*end)
        return false;
    *value_p = (size_t) value << (unit ? 10 * (unit - units + 1) : 0);
    return true;
}

int64_t
tool_now_ms (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
