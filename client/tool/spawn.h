//  client/tool/spawn.h - child processes that never outlive the tool
//
//  Every child leads a process group of its own and dies with the tool
//  (PR_SET_PDEATHSIG). What the child starts itself is in its group: a small
//  guard process, told of every group, kills them when the tool is gone, even
//  by kill -9. What leaves its group comes to the tool, which is their
//  subreaper, and ends in spawn_sweep.

#ifndef TOOL_SPAWN_H
#define TOOL_SPAWN_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct spawn {
    const char *program;       //  path
    char *const *argv;         //  ends with NULL
    char *const *environment;  //  "NAME=VALUE" to set, "NAME" to unset; NULL
    const char *netns;         //  name below /run/netns; NULL: this one
    int in, out, err;          //  descriptors; -1: inherit the tool's
    int pass;                  //  one more that stays open; -1: none
} spawn_t;

//  Become subreaper and start the guard. False: errno says why.
bool
spawn_open (void);

//  End the guard, then kill and reap whatever is left below the tool.
void
spawn_close (void);

//  Start one child. -1: errno says why. A child that cannot start its program
//  says so on its stderr and ends with status 127.
pid_t
spawn_child (const spawn_t *what);

//  Whether PID ended; if so its group is killed, the child reaped and its
//  wait status stored. Never blocks.
bool
spawn_ended (pid_t pid, int *status_p);

//  SIGNAL to the group of PID.
void
spawn_signal (pid_t pid, int signal);

//  Wait up to PATIENCE_MS for PID to end, then kill its group.
void
spawn_end (pid_t pid, int patience_ms);

//  The path of a program: NAME itself if it has a slash; else beside this
//  tool if BESIDE; else in PATH. False: there is none that can be executed.
bool
spawn_find (const char *name, bool beside, char path[PATH_MAX]);

#endif
