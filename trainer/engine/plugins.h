// SPDX-License-Identifier: Apache-2.0
// Loads plug-ins: adds their descriptors to the tables of this process (kernels/base/plugin.h
// defines what a plug-in is).
//
// Call these on one thread, before models are chosen and engines or pipelines are opened.
// Descriptors stay until the process ends. A name that is already taken is refused with both
// origins.
#ifndef SR_TRAINER_PLUGINS_H
#define SR_TRAINER_PLUGINS_H

#include "kernels/base/plugin.h"
#include "trainer/recipe/recipe.h"

#ifdef __cplusplus
extern "C" {
#endif

// Adds descriptors of the calling program itself. A program with its own transforms and data
// processes must call this before sr_data_process_main.
SR_NODISCARD sr_status sr_plugin_add(const sr_plugin *plugin);

// Adds the descriptors of the plug-in at 'path', unless it is already loaded. SR_E_NOT_FOUND,
// SR_E_USAGE or SR_E_UNSUPPORTED, naming the file and the cure, if it is not allowed or cannot be
// used.
SR_NODISCARD sr_status sr_plugin_add_file(const char *path);

// Where a recipe comes from, which decides whether its `plugins` may be loaded.
typedef enum sr_plugins_trust {
    SR_PLUGINS_NAMED = 0, // named by the user: all, if the recipe file is the user's or root's
    SR_PLUGINS_FOUND,     // found in a run folder or the like: only those that overrides name
    SR_PLUGINS_ALLOWED,   // --allow-plugins: all
    SR_PLUGINS_LOADED,    // only those that this process has already loaded: no code runs
} sr_plugins_trust;

// Loads a recipe's `plugins` and makes their paths in it absolute. A relative path starts at the
// folder of the recipe file that contains it (an override's: of the recipe that was loaded). The
// files' content becomes part of the recipe's identity. A plug-in that is already loaded is not
// loaded again. Failures are reported as errors of the recipe (SR_E_USAGE) with file, line and
// cure.
SR_NODISCARD sr_status sr_plugins_load(sr_recipe *recipe, sr_plugins_trust trust);

// Whether the plug-ins that a recipe names are loaded; true if it names none.
bool sr_plugins_loaded(const sr_recipe *recipe);

// Processor features that kernels of added operators need, like sr_providers_features.
uint32_t sr_plugins_features(void);

#ifdef __cplusplus
}
#endif
#endif
