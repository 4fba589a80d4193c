// SPDX-License-Identifier: Apache-2.0
// Detects a changed recipe.yaml (run_recipe.h).
//
// The file is read by people and by `val` and `predict`, has no checksum, and may be copied and
// edited. After a flipped bit it may still be a valid recipe, but not one of the same identity,
// unless the option is neutral: then no result depends on it.
#include "trainer/run/run_recipe.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "trainer/engine/choices.h"
#include "trainer/engine/plugins.h"
#include "trainer/recipe/recipe.h"
#include "trainer/run/run_folder.h"

// Whether it is the current folder, in which relative paths stay what they are.
static bool is_current(const char *folder) {
    struct stat own, other;
    return stat(".", &own) == 0 && stat(folder, &other) == 0 && own.st_dev == other.st_dev &&
           own.st_ino == other.st_ino;
}

sr_status sr_run_recipe_load(const char *path, const char *const *overrides, int override_count,
                             sr_recipe **out) {
    const char *slash = strrchr(path, '/');
    sr_recipe *recipe;
    sr_text run, start;
    SR_TRY(sr_recipe_load(path, overrides, override_count, &recipe));
    sr_text_init(&run);
    sr_text_init(&start);
    sr_text_add(&run, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    sr_status status = sr_text_check(&run);
    if (status == SR_OK)
        status = sr_run_start_folder(run.data, &start);
    if (status == SR_OK && start.length > 0 && !is_current(start.data))
        status = sr_recipe_use_folder(recipe, start.data);
    sr_text_release(&run);
    sr_text_release(&start);
    if (status == SR_OK)
        *out = recipe;
    else
        sr_recipe_free(recipe);
    return status;
}

// As computed now and formerly; "" where the weights that the recipe names are missing.
static sr_status identities_of(const sr_recipe *recipe, const char *data_identity,
                               char out[2][65]) {
    out[0][0] = out[1][0] = '\0';
    sr_status status = sr_recipe_identity(recipe, data_identity, out[0]);
    if (status == SR_OK)
        status = sr_recipe_identity_with_eval(recipe, data_identity, out[1]);
    return status == SR_E_MEMORY ? status : SR_OK;
}

sr_status sr_run_recipe_check(const char *path, const char *data_identity, const char *identity) {
    sr_recipe *recipe = NULL;
    char found[2][65];
    sr_status status = sr_run_recipe_load(path, NULL, 0, &recipe);
    if (status == SR_OK)
        status = sr_plugins_load(recipe, SR_PLUGINS_LOADED);
    if (status == SR_OK)
        status = sr_recipe_check(recipe);
    if (status == SR_OK)
        status = identities_of(recipe, data_identity, found);
    sr_recipe_free(recipe);
    if (status == SR_E_MEMORY)
        return status;
    if (status != SR_OK)
        return SR_FAIL(SR_E_DATA, "%s: damaged or changed: it is no longer a valid recipe", path);
    // None is known if the weights that it names are missing.
    if (found[0][0] && strcmp(found[0], identity) != 0 && strcmp(found[1], identity) != 0)
        return SR_FAIL(SR_E_DATA,
                       "%s: damaged or changed: it is not the recipe that the run was started with",
                       path);
    return SR_OK;
}

// Lengths in different units cannot be compared and are accepted.
static sr_status check_longer(sr_recipe *now, const sr_recipe *before) {
    if (now->steps && before->steps && now->steps <= before->steps)
        return sr_recipe_fail(now, "steps", "the run has steps=%lld; give more to extend it",
                              (long long)before->steps);
    if (!now->steps && !before->steps && now->epochs <= before->epochs)
        return sr_recipe_fail(now, "epochs", "the run has epochs=%g; give more to extend it",
                              before->epochs);
    return SR_OK;
}

// The stored recipe with an override, which may be NULL; *out is NULL if the result is invalid.
static sr_status load_stored(const char *path, const char *override, sr_recipe **out) {
    const char *const overrides[] = {override};
    *out = NULL;
    sr_status status = sr_run_recipe_load(path, overrides, override ? 1 : 0, out);
    if (status == SR_OK)
        status = sr_plugins_load(*out, SR_PLUGINS_LOADED);
    if (status == SR_OK)
        status = sr_recipe_check(*out);
    if (status != SR_OK) {
        sr_recipe_free(*out);
        *out = NULL;
    }
    return status == SR_E_MEMORY ? status : SR_OK;
}

sr_status sr_run_recipe_extends(const char *path, sr_recipe *now, const char *data_identity,
                                const char *identity, char before_identities[2][65], bool *out) {
    const char *key = now->steps ? "steps" : "epochs";
    char override[128], found[2][65] = {"", ""};
    sr_recipe *before = NULL, *longer = NULL;
    *out = false;
    (void)snprintf(override, sizeof override, "%s=%s", key, sr_recipe_get(now, key));
    sr_status status = load_stored(path, override, &longer);
    if (status == SR_OK && longer)
        status = identities_of(longer, data_identity, found);
    if (status == SR_OK && strcmp(found[0], identity) == 0) {
        status = load_stored(path, NULL, &before);
        if (status == SR_OK && before)
            status = identities_of(before, data_identity, before_identities);
        if (status == SR_OK && before && strcmp(before_identities[0], identity) != 0)
            status = check_longer(now, before);
        *out = status == SR_OK && before;
    }
    sr_recipe_free(before);
    sr_recipe_free(longer);
    return status;
}
