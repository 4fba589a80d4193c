// SPDX-License-Identifier: Apache-2.0
// The table of commands, and what commands share.
#ifndef SR_LAUNCHER_COMMAND_H
#define SR_LAUNCHER_COMMAND_H

#include <stddef.h>

#include "dataio/pipeline/pipeline.h"
#include "kernels/base/status.h"
#include "kernels/base/text.h"

struct argp_state;

#ifdef __cplusplus
extern "C" {
#endif

// A command gets its own part of the command line, argv[0] being "serried NAME", and returns the
// process's exit code. Results go to stdout, messages to stderr.
typedef int (*sr_command_fn)(int argc, char **argv);

typedef struct sr_command {
    const char *name; // NULL in a row that begins a group
    sr_command_fn run;
    const char *words; // that may follow, for completion
    const char *help;  // one line; in a group's row its title
} sr_command;

// All rows in the order of command_list.def.
const sr_command *sr_commands(size_t *count);

// Runs the command line of a whole process: finds the command and calls it.
int sr_command_main(int argc, char **argv);

// Prints the current error as users see it and returns its exit code.
int sr_command_fail(sr_status status);
// Puts a result on stdout where 'status', of its making, and the text itself are good; releases it.
SR_NODISCARD sr_status sr_command_print(sr_status status, sr_text *text);
// A whole number of the command line within [low, high]; anything else ends the program as argp's
// own mistakes do, with 'name' (NULL: none) before it.
long sr_command_number(struct argp_state *state, const char *name, const char *text, long low,
                       long high);

// "NAME KEY=VALUE ..." of the command line; the name is cut off in place, all is borrowed.
sr_transform_spec sr_command_transform(char *text);

// Commands, one file cmd_NAME.c each.
#define SR_COMMAND_GROUP(title)
#define SR_COMMAND(name, function, words, help) int function(int argc, char **argv);
#include "launcher/commands/command_list.def"
#undef SR_COMMAND
#undef SR_COMMAND_GROUP

#ifdef __cplusplus
}
#endif
#endif
