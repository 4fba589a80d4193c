// SPDX-License-Identifier: Apache-2.0
// The section `eval` of tasks that evaluate whole pictures, once the task is known.
#include "trainer/recipe/recipe_internal.h"

static bool is_written(const sr_recipe_internal *in, const char *path) {
    return sr_recipe_node_find(in->written, path) != NULL;
}

static sr_status refuse_zero(sr_recipe *recipe, const char *path, int64_t side, const char *task) {
    if (side > 0)
        return SR_OK;
    return sr_recipe_fail(recipe, path,
                          "task %s evaluates pictures of one size: %s 0 has no meaning for it",
                          task, path);
}

// The default of a size.
static void derive_none(sr_recipe_internal *in, const char *path) {
    sr_recipe_node *node = sr_recipe_node_find(in->resolved, path);
    node->text = "0";
    node->note = "default (whole pictures)";
}

sr_status sr_recipe_use_whole_pictures(sr_recipe *recipe, bool whole, const char *task) {
    sr_recipe_internal *in = recipe->internal;
    if (!whole) {
        SR_TRY(refuse_zero(recipe, "eval.crop", recipe->eval.crop_height, task));
        return refuse_zero(recipe, "eval.resize", recipe->eval.resize_height, task);
    }
    if (is_written(in, "eval.crop") && recipe->eval.crop_height > 0)
        return sr_recipe_fail(recipe, "eval.crop",
                              "task %s evaluates whole pictures: remove eval.crop", task);
    if (recipe->eval.shift > 0)
        return sr_recipe_fail(recipe, "eval.shift",
                              "task %s evaluates whole pictures: remove eval.shift", task);
    if (!is_written(in, "eval.crop"))
        derive_none(in, "eval.crop");
    if (!is_written(in, "eval.resize")) {
        derive_none(in, "eval.resize");
        recipe->eval.resize_height = recipe->eval.resize_width = 0;
    }
    recipe->eval.crop_height = recipe->eval.crop_width = 0;
    return SR_OK;
}
