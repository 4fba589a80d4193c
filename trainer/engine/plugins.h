// SPDX-License-Identifier: Apache-2.0
// Plug-ins in use: their descriptors in the tables of this process (kernels/base/plugin.h says what
// a plug-in is).
//
// Before models are chosen and engines or pipelines are opened, on one thread. What was added stays
// until the process ends. A name that is taken is refused, naming both origins.
#ifndef SR_TRAINER_PLUGINS_H
#define SR_TRAINER_PLUGINS_H

#include "kernels/base/plugin.h"
#include "trainer/recipe/recipe.h"

#ifdef __cplusplus
extern "C" {
#endif

// Adds what this very program brings. A program with transforms of its own and data processes does
// so before it calls sr_data_process_main.
SR_NODISCARD sr_status sr_plugin_add(const sr_plugin *plugin);

// Adds what the plug-in at a path brings, unless it is there already. Statuses of a file that may
// not or cannot be used: SR_E_NOT_FOUND, SR_E_USAGE, SR_E_UNSUPPORTED, naming it and the cure.
SR_NODISCARD sr_status sr_plugin_add_file(const char *path);

// Where a recipe comes from, which decides whether its `plugins` may be loaded.
typedef enum sr_plugins_trust {
    SR_PLUGINS_NAMED = 0, // the user named it: its plug-ins where it is the user's or root's
    SR_PLUGINS_FOUND,     // found in a run folder or the like: none but those of overrides
    SR_PLUGINS_ALLOWED,   // --allow-plugins: all
    SR_PLUGINS_LOADED,    // those that this process has loaded already: no code runs
} sr_plugins_trust;

// Loads a recipe's `plugins` and makes their paths absolute in it. A path that is not is taken from
// beside the recipe that it is written in (an override's: from beside the recipe that was loaded).
// Their content becomes part of the recipe's identity. Loaded ones are not loaded again. Failures
// are mistakes of the recipe (SR_E_USAGE) with file, line and cure.
SR_NODISCARD sr_status sr_plugins_load(sr_recipe *recipe, sr_plugins_trust trust);

// Whether a recipe's plug-ins, where it names any, are there.
bool sr_plugins_loaded(const sr_recipe *recipe);

// Processor features that kernels of added operators ask for, as sr_providers_features.
uint32_t sr_plugins_features(void);

#ifdef __cplusplus
}
#endif
#endif
