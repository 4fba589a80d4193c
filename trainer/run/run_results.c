// SPDX-License-Identifier: Apache-2.0
// The columns of a run folder (run_results.h).
#include "trainer/run/run_results.h"

#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "trainer/engine/plugins.h"
#include "trainer/run/run_columns.h"
#include "trainer/run/run_recipe.h"

static sr_status check_file(const char *folder, const char *name, sr_arena *arena,
                            const char **out) {
    char *path = sr_path_join(folder, name);
    *out = path ? sr_arena_strdup(arena, path) : NULL;
    sr_free(path);
    if (!*out)
        return SR_E_MEMORY;
    if (sr_path_exists(*out))
        return SR_OK;
    if (!sr_path_is_folder(folder))
        return SR_FAIL(SR_E_NOT_FOUND, "%s: no such folder", folder);
    return SR_FAIL(SR_E_NOT_FOUND, "%s: not a run folder: it has no %s", folder, name);
}

// *task is NULL for one of plug-ins that are not loaded.
static sr_status choose_task(sr_recipe *recipe, bool allow_plugins, const sr_task_desc **task) {
    *task = NULL;
    if (allow_plugins)
        SR_TRY(sr_plugins_load(recipe, SR_PLUGINS_ALLOWED));
    if (sr_plugins_loaded(recipe) || (recipe->task.name && sr_task_find(recipe->task.name)))
        return sr_choose_task(recipe, task);
    return SR_OK;
}

static sr_status use_task(sr_recipe *recipe, const sr_task_desc *task, sr_arena *arena,
                          sr_results *out) {
    sr_run_columns *c = sr_arena_alloc(arena, sizeof *c);
    if (!c)
        return SR_E_MEMORY;
    SR_TRY(sr_run_columns_make(recipe, task, arena, c));
    out->columns = c->list;
    out->count = c->count;
    out->fractions = task->fractions;
    out->best = c->of[SR_RUN_VAL] > 0 ? &c->list[c->at[SR_RUN_VAL] + c->main] : NULL;
    return SR_OK;
}

sr_status sr_run_results(const char *folder, bool allow_plugins, sr_arena *arena, sr_results *out) {
    const char *path, *metrics;
    const sr_task_desc *task;
    sr_recipe *recipe;
    *out = (sr_results){.folder = folder};
    SR_TRY(check_file(folder, "recipe.yaml", arena, &path));
    SR_TRY(check_file(folder, "metrics.csv", arena, &metrics));
    SR_TRY(sr_run_recipe_load(path, NULL, 0, &recipe));
    sr_status status = choose_task(recipe, allow_plugins, &task);
    if (status == SR_OK && task)
        status = use_task(recipe, task, arena, out);
    else if (status == SR_OK)
        SR_WARN("%s: its task is that of a plug-in, so columns are drawn as plain numbers; give "
                "--allow-plugins if you trust whoever made the folder",
                folder);
    sr_recipe_free(recipe);
    return status;
}
