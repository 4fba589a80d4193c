// SPDX-License-Identifier: Apache-2.0
// The table of commands, and functions that commands share.
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

// A command gets its part of the command line, where argv[0] is "serried NAME", and returns the
// exit code of the process. Results go to stdout, messages to stderr.
typedef int (*sr_command_fn)(int argc, char **argv);

typedef struct sr_command {
    const char *name; // NULL in a row that begins a group
    sr_command_fn run;
    const char *words; // what may follow, for completion
    const char *help;  // one line; in a row that begins a group, its title
} sr_command;

// All rows in the order of command_list.def.
const sr_command *sr_commands(size_t *count);

// Runs the command line of the process: finds the command and calls it.
int sr_command_main(int argc, char **argv);

// Prints the current error to stderr and returns its exit code.
int sr_command_fail(sr_status status);
// Prints a result to stdout unless 'status' or the text records a failure; releases the text.
// Control characters other than line breaks and tabs are printed as \xNN.
SR_NODISCARD sr_status sr_command_print(sr_status status, sr_text *text);
// Parses a whole number within [low, high]. Anything else ends the program with a message, as
// argp's own errors do, that begins with 'name' (NULL: none).
long sr_command_number(struct argp_state *state, const char *name, const char *text, long low,
                       long high);

// Parses "NAME KEY=VALUE ..."; the result points into 'text', which is changed.
struct sr_transform_spec sr_command_transform(char *text);

// The commands, each in its own file cmd_NAME.c.
#define SR_COMMAND_GROUP(title)
#define SR_COMMAND(name, function, words, help) int function(int argc, char **argv);
#include "launcher/commands/command_list.def"
#undef SR_COMMAND
#undef SR_COMMAND_GROUP

#ifdef __cplusplus
}
#endif
#endif
