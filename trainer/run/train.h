// SPDX-License-Identifier: Apache-2.0
// One training run from the point of view of a rank: what the `train` command asks for, and how a
// running step learns that it shall stop.
#ifndef SR_TRAINER_TRAIN_H
#define SR_TRAINER_TRAIN_H

#include <stdbool.h>

#include "trainer/recipe/recipe.h"

#ifdef __cplusplus
extern "C" {
#endif

// The command line of `train`, taken apart.
typedef struct sr_train_request {
    const char *recipe;           // name or path, as typed
    const char *const *overrides; // "key=value", in order
    int override_count;
    const char *output; // -o: the run folder itself; NULL: runs/RECIPE/STAMP
    const char *resume; // --resume DIR: the run folder to go on with; NULL: found by identity
    bool fresh;         // --fresh: never resume; an old folder at 'output' is moved aside
    bool dry_run;       // --dry-run: print the plan to stdout and train nothing
    int ranks;          // --dry-run: ranks to plan for; 0: one
    bool json;          // --json: the result as the last line of stdout, one JSON object
    bool allow_plugins; // --allow-plugins
    bool allow_numerics_change; // --allow-numerics-change
    int argc;                   // the command line, for env.json
    char **argv;
} sr_train_request;

// Trains on this rank (collectively where started under mpirun or srun) and returns the process's
// exit code; messages have been written. Resuming and finished runs are users.md's rules.
int sr_train_main(const sr_train_request *request);

// Checks a loaded recipe against the tables of models, optimisers, schedules, losses, transforms
// and devices, and resolves their options (sr_recipe_options_parse for each section). SR_E_USAGE
// with all mistakes. `recipe check`, `recipe show`, `train` and `--dry-run` call it.
SR_NODISCARD sr_status sr_train_check(sr_recipe *recipe);

// Stop requests. The first SIGINT, SIGTERM, SIGHUP or SIGUSR1 asks for a checkpoint and exit code
// 75; a second one, but SIGUSR1, ends the process at once. Handlers only set an atomic flag.
SR_NODISCARD sr_status sr_stop_install(void);
// Until then SIGUSR1, which would end the process, waits.
SR_NODISCARD sr_status sr_stop_hold(void);
// Whether the process was started with this signal ignored, as under nohup.
bool sr_stop_is_ignored(int number);
// True once a stop was asked for. Any thread; costs one load, so each step may ask.
bool sr_stop_requested(void);
// Number of the signal that asked, 0 for none or for a call of sr_stop_request.
int sr_stop_signal(void);
// Asks from inside the program.
void sr_stop_request(void);

#ifdef __cplusplus
}
#endif
#endif
