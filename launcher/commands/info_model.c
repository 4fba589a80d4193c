// SPDX-License-Identifier: Apache-2.0
// serried info model: the layers of a model, their shapes, parameters and multiply-adds.
#include "launcher/commands/command.h"
#include "launcher/commands/info_internal.h"
#include "trainer/engine/plugins.h"
#include "trainer/models/model.h"
#include "trainer/run/plan_report.h"

sr_status sr_info_load(const sr_info_subject *s, sr_recipe **out) {
    sr_recipe *recipe;
    const char *const name = s->words[0];
    if (!s->recipe && sr_model_find(name)) {
        SR_TRY(sr_recipe_for_model(name, s->words + 1, s->count - 1, &recipe));
    } else {
        const sr_status status = sr_recipe_load(name, s->words + 1, s->count - 1, &recipe);
        if (status == SR_E_NOT_FOUND && !s->recipe)
            sr_error_prefix("no model '%s' ('serried info models' lists them)", name);
        SR_TRY(status);
    }
    const sr_status status = sr_plugins_load(recipe, SR_PLUGINS_NAMED);
    if (status != SR_OK)
        sr_recipe_free(recipe);
    else
        *out = recipe;
    return status;
}

sr_status sr_info_model(const sr_info_subject *subject, int depth, bool json) {
    const sr_plan_summary_options options = {
        .depth = depth, .json = json, .classes = subject->classes};
    sr_recipe *recipe;
    sr_text text;
    SR_TRY(sr_info_load(subject, &recipe));
    sr_text_init(&text);
    const sr_status status = sr_command_print(sr_plan_summary(recipe, &options, &text), &text);
    sr_recipe_free(recipe);
    return status;
}
