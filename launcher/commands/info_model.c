// SPDX-License-Identifier: Apache-2.0
// serried info model: the layers of a model, their shapes, parameters and multiply-adds; serried
// info program: the operators of a lane of a step.
#include <stdio.h>
#include <string.h>

#include "graph/program_text.h"
#include "kernels/base/file.h"
#include "kernels/base/memory.h"
#include "launcher/commands/command.h"
#include "launcher/commands/info_internal.h"
#include "trainer/engine/plugins.h"
#include "trainer/models/model.h"
#include "trainer/run/plan_report.h"
#include "trainer/tasks/task.h"

// A recipe that trains the model, with the task that can, unless the words name another.
static sr_status load_model(const sr_info_subject *s, sr_recipe **out) {
    const sr_task_desc *task = sr_plan_task_of(s->words[0]);
    const char **overrides = sr_alloc_array((size_t)s->count, sizeof *overrides, "overrides");
    char text[160];
    int count = 0;
    if (!overrides)
        return SR_E_MEMORY;
    if (!task && s->count == 1) {
        sr_free(overrides);
        return SR_FAIL(
            SR_E_USAGE,
            "no task trains model %s alone with pictures of 224 pixels: add keys such as "
            "image=32, or name a recipe that has it ('serried recipe list')",
            s->words[0]);
    }
    if (task) {
        (void)snprintf(text, sizeof text, "task=%s", task->name);
        overrides[count++] = text;
    }
    for (int i = 1; i < s->count; i++)
        overrides[count++] = s->words[i];
    const sr_status status = sr_recipe_for_model(s->words[0], overrides, count, out);
    sr_free(overrides);
    return status;
}

sr_status sr_info_load(const sr_info_subject *s, sr_recipe **out) {
    sr_recipe *recipe = NULL;
    const char *const name = s->words[0];
    if (!s->recipe && sr_model_find(name)) {
        SR_TRY(load_model(s, &recipe));
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
    sr_recipe *recipe = NULL;
    sr_text text;
    SR_TRY(sr_info_load(subject, &recipe));
    sr_text_init(&text);
    const sr_status status = sr_command_print(sr_plan_summary(recipe, &options, &text), &text);
    sr_recipe_free(recipe);
    return status;
}

// ---- Programs ----

static const size_t most_bytes = (size_t)1 << 30;

static sr_status write_file(const char *path, bool drawing, sr_context *context, sr_arena *arena,
                            sr_text *out) {
    const sr_program_read_options options = {.name = path, .without_memory = true};
    sr_read_program read;
    void *text = NULL;
    size_t bytes = 0;
    SR_TRY(sr_file_read(path, most_bytes, &text, &bytes));
    sr_status status = sr_program_read(context, text, bytes, &options, arena, &read);
    sr_free(text);
    SR_TRY(status);
    return drawing ? sr_program_draw(context, read.targets, read.target_count, out)
                   : sr_program_write(context, read.targets, read.target_count, out);
}

static sr_status read_file(const char *path, bool drawing, sr_text *out) {
    static const sr_context_options options = {.device = "cpu", .threads = 1};
    sr_context *context;
    sr_arena arena;
    SR_TRY(sr_context_create(&options, &context));
    sr_arena_init(&arena);
    const sr_status status = write_file(path, drawing, context, &arena, out);
    sr_arena_release(&arena);
    sr_context_free(context);
    return status;
}

static sr_status write_recipe(const sr_info_subject *subject,
                              const sr_plan_program_options *options, sr_text *out) {
    sr_recipe *recipe = NULL;
    SR_TRY(sr_info_load(subject, &recipe));
    const sr_status status = sr_plan_program(recipe, options, out);
    sr_recipe_free(recipe);
    return status;
}

sr_status sr_info_program(const sr_info_subject *subject, const char *phase, bool inference,
                          bool drawing) {
    const sr_plan_program_options options = {
        .phase = phase, .inference = inference, .drawing = drawing, .classes = subject->classes};
    sr_text text;
    sr_text_init(&text);
    const sr_status status = sr_text_ends_with(subject->words[0], ".program")
                                 ? read_file(subject->words[0], drawing, &text)
                                 : write_recipe(subject, &options, &text);
    return sr_command_print(status, &text);
}
