//  client/tool/main.c - the tutti command: finds the subcommand
//
//  Exit status: the subcommand's; 2 for a command that does not exist.

#include "client/tool/tool.h"
#include "client/tutti.h"

#include <stdio.h>
#include <string.h>

static int
s_version (int argc, char **argv)
{
    if (argc == 2 && strcmp (argv[1], "--help") == 0) {
        printf ("usage: tutti version\nPrints the version of this tool.\n");
        return 0;
    }
    if (argc > 1) {
        tool_error ("version: takes no arguments");
        return TOOL_USAGE;
    }
    printf ("tutti %s\n", tutti_version ());
    return 0;
}

static const struct {
    const char *name;
    int (*run) (int argc, char **argv);
    const char *about;
} s_commands[] = {
    { "run", tool_run_main, "start a program as N ranks" },
    { "bench", tool_bench_main, "measure and check a collective" },
    { "status", tool_status_main, "what the coordinator knows" },
    { "version", s_version, "the version of this tool" },
};

#define COMMANDS (sizeof s_commands / sizeof *s_commands)

static void
s_help (FILE *out)
{
    fprintf (out, "usage: tutti COMMAND [OPTION]...\n"
                  "Collectives between the ranks of a program, on this "
                  "machine or many.\n\n");
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf (out, "  %-8s %s\n", s_commands[i].name, s_commands[i].about);
    fprintf (out, "\nEach has its own: tutti COMMAND --help\n"
                  "First try: tutti bench allreduce --ranks 4 --nodes 2\n");
}

int
main (int argc, char **argv)
{
    const char *names[COMMANDS];
    for (size_t i = 0; i < COMMANDS; i++)
        names[i] = s_commands[i].name;
    if (argc < 2) {
        s_help (stderr);
        return TOOL_USAGE;
    }
    const char *word = argv[1];
    if (strcmp (word, "--help") == 0 || strcmp (word, "-h") == 0 ||
        strcmp (word, "help") == 0) {
        s_help (stdout);
        return 0;
    }
    if (strcmp (word, "--version") == 0)
        word = "version";
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp (word, s_commands[i].name) == 0)
            return s_commands[i].run (argc - 1, argv + 1);
    tool_error ("no command \"%s\"; did you mean %s? See tutti --help", word,
                tool_nearest (word, names, COMMANDS));
    return TOOL_USAGE;
}
