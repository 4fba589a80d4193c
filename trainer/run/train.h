// SPDX-License-Identifier: Apache-2.0
// One training run, from the point of view of a rank: the request of the `train` command.
#ifndef SR_TRAINER_TRAIN_H
#define SR_TRAINER_TRAIN_H

#include <stdbool.h>

#include "trainer/engine/plugins.h"

#ifdef __cplusplus
extern "C" {
#endif

// The parsed command line of `train`.
typedef struct sr_train_request {
    const char *recipe;           // name or path, as typed
    const char *const *overrides; // "key=value", in order
    int override_count;
    const char *output;         // -o: the run folder itself; NULL: runs/RECIPE/STAMP
    const char *resume;         // --resume DIR: the run folder to resume; NULL: found by identity
    bool stored_recipe;         // 'recipe' is that of the run to resume
    bool fresh;                 // --fresh: never resume; an old folder at 'output' is moved aside
    bool dry_run;               // --dry-run: print the plan to stdout and train nothing
    int ranks;                  // --dry-run: ranks to plan for; 0: one
    bool json;                  // --json: the result as the last line of stdout, one JSON object
    bool allow_plugins;         // --allow-plugins
    bool allow_numerics_change; // --allow-numerics-change
    int argc;                   // the command line, for env.json
    char **argv;
} sr_train_request;

// Loads the recipe. That of a run to resume finds its data as that run did; SR_E_NOT_FOUND if the
// folder is no run's.
SR_NODISCARD sr_status sr_train_load_recipe(const sr_train_request *request, sr_recipe **out);
// Whether the recipe's plug-ins may be loaded: those of a run folder are not named by the user.
sr_plugins_trust sr_train_trust(const sr_train_request *request);
// Trains on this rank (collectively under mpirun or srun) and returns the process's exit code,
// after printing any error. run_folder.h says which run is resumed.
int sr_train_main(const sr_train_request *request);

#ifdef __cplusplus
}
#endif
#endif
