// SPDX-License-Identifier: Apache-2.0
// Finding a changed recipe.yaml (run_recipe.h).
//
// The file is for people and for `val` and `predict`, carries no checksum, and may be copied and
// edited. A flipped bit can leave it a recipe, but not one of the same identity, unless the option
// is neutral: then no result depends on it.
#include "trainer/run_recipe.h"

#include <stdio.h>
#include <string.h>

#include "trainer/plugins.h"
#include "trainer/recipe.h"
#include "trainer/train.h"

sr_status sr_run_recipe_check(const char *path, const char *data_identity, const char *identity) {
    sr_recipe *recipe = NULL;
    char found[65] = "";
    sr_status status = sr_recipe_load(path, NULL, 0, &recipe);
    if (status == SR_OK)
        status = sr_plugins_load(recipe, SR_PLUGINS_LOADED);
    if (status == SR_OK)
        status = sr_train_check(recipe);
    if (status == SR_OK) {
        sr_status told = sr_recipe_identity(recipe, data_identity, found);
        if (told == SR_E_MEMORY)
            status = told;
        else if (told != SR_OK) // weights that it names are not there
            (void)snprintf(found, sizeof found, "%s", identity);
    }
    sr_recipe_free(recipe);
    if (status == SR_E_MEMORY)
        return status;
    if (status != SR_OK)
        return SR_FAIL(SR_E_DATA, "%s: damaged or changed: it is no recipe any more", path);
    if (strcmp(found, identity) != 0)
        return SR_FAIL(SR_E_DATA,
                       "%s: damaged or changed: what it says is not what the run was started with",
                       path);
    return SR_OK;
}
