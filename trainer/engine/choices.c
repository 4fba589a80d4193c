// SPDX-License-Identifier: Apache-2.0
// Resolves a recipe's choices (choices.h); sr_recipe_check resolves all of them.
#include "trainer/engine/choices.h"

#include <stdio.h>
#include <string.h>

#include "dataio/transforms/transform.h"
#include "kernels/base/file.h"
#include "kernels/base/table.h"
#include "kernels/base/text.h"
#include "kernels/device/device.h"
#include "trainer/engine/plugins.h"

static sr_status parse_options(sr_recipe *recipe, const char *path, const sr_option_table *table,
                               sr_arena *arena, void **out) {
    *out = sr_arena_alloc(arena, table ? table->struct_size + 1 : 1);
    if (!*out)
        return SR_E_MEMORY;
    return table ? sr_recipe_options_parse(recipe, path, table, *out) : SR_OK;
}

// Turns an error of a descriptor into a mistake at this key of the recipe. SR_E_MEMORY is not a
// mistake of the recipe and is returned as it is.
static sr_status refuse(sr_recipe *recipe, const char *path, sr_status status) {
    char message[512];
    if (status == SR_OK || status == SR_E_MEMORY)
        return status;
    (void)snprintf(message, sizeof message, "%s", sr_error_message());
    return sr_recipe_fail(recipe, path, "%s", message);
}

// "D and G" of a task, and those that a recipe may leave out.
static void describe_phases(const sr_task_desc *task, sr_text *out) {
    const int count = sr_task_phases(task);
    const char *optional = ", and may have ";
    sr_text_add(out, "task %s has ", task->name);
    if (count == 1 && !task->phases[0].name[0]) {
        sr_text_add(out,
                    "a single phase; give model, optimizer, schedule and loss without 'phases'");
        return;
    }
    for (int i = 0; i < count; i++)
        if (!task->phases[i].optional)
            sr_text_add(out, "%s%s", i == 0 ? "the phases " : ", ", task->phases[i].name);
    sr_text_add(out, " in this order");
    for (int i = 0; i < count; i++) {
        if (!task->phases[i].optional)
            continue;
        sr_text_add(out, "%s%s (set: %s)", optional, task->phases[i].name,
                    task->sets[task->phases[i].set].name);
        optional = ", ";
    }
}

static sr_status refuse_phases(sr_recipe *recipe, const sr_task_desc *task) {
    sr_text text;
    sr_text_init(&text);
    describe_phases(task, &text);
    sr_text_add(&text, "; the recipe has ");
    for (int i = 0; i < recipe->phase_count; i++)
        sr_text_add(&text, "%s%s", i > 0 ? ", " : "",
                    recipe->phases[i].name[0] ? recipe->phases[i].name : "no 'phases'");
    const sr_status status = sr_recipe_fail(recipe, "phases", "%s", text.data);
    sr_text_release(&text);
    return status;
}

static sr_status check_set(sr_recipe *recipe, const sr_task_desc *task, int phase, int own) {
    const char *name = recipe->phases[phase].name, *set = task->sets[task->phases[own].set].name;
    char path[SR_NAME_BYTES];
    if (strcmp(recipe->phases[phase].set_name, set) == 0)
        return SR_OK;
    (void)snprintf(path, sizeof path, "phases.%s.set", name);
    return sr_recipe_fail(recipe, path, "phase %s of task %s trains set %s, not %s; give set: %s",
                          name, task->name, set, recipe->phases[phase].set_name, set);
}

sr_status sr_choose_phases(sr_recipe *recipe, const sr_task_desc *task, int out[SR_MAX_PHASES]) {
    const int count = sr_task_phases(task);
    int own = 0, always = 0;
    for (int i = 0; i < recipe->phase_count; i++, own++) {
        while (own < count && task->phases[own].optional &&
               strcmp(task->phases[own].name, recipe->phases[i].name) != 0)
            own++;
        if (own == count || strcmp(task->phases[own].name, recipe->phases[i].name) != 0)
            return refuse_phases(recipe, task);
        SR_TRY(check_set(recipe, task, i, own));
        out[i] = own;
        always += sr_choose_every(recipe, task, i, own) == 1;
    }
    for (; own < count; own++)
        if (!task->phases[own].optional)
            return refuse_phases(recipe, task);
    return always > 0 ? SR_OK
                      : sr_recipe_fail(recipe, "phases",
                                       "no phase runs in every step: give one of them every: 1");
}

int64_t sr_choose_every(const sr_recipe *recipe, const sr_task_desc *task, int phase, int own) {
    const int64_t every = recipe->phases[phase].every, usual = task->phases[own].every;
    return every > 0 ? every : usual > 0 ? usual : 1;
}

bool sr_choose_average(const sr_recipe *recipe, const sr_task_desc *task, int set) {
    if (!(recipe->ema.decay > 0))
        return false;
    for (size_t i = 0; i < recipe->ema.sets.count; i++)
        if (strcmp(recipe->ema.sets.items[i], task->sets[set].name) == 0)
            return true;
    return recipe->ema.sets.count == 0 && set == task->infers;
}

// Whether ema.sets names sets of the recipe.
static sr_status check_average(sr_recipe *recipe) {
    for (size_t i = 0; i < recipe->ema.sets.count; i++) {
        const char *name = recipe->ema.sets.items[i];
        int set = 0;
        while (set < recipe->set_count && strcmp(recipe->sets[set].name, name) != 0)
            set++;
        if (set == recipe->set_count)
            return sr_recipe_fail(
                recipe, "ema.sets", "the recipe has no parameter set '%s'%s", name,
                recipe->sets[0].name[0] ? "" : ", but a single one; remove ema.sets");
    }
    return SR_OK;
}

// Index of the chosen descriptor in a table (kernels/base/table.h); 0 where the recipe names none.
static sr_status choose(sr_recipe *recipe, const sr_recipe_choice *choice, const char *what,
                        const void *all, size_t count, sr_arena *arena, int *index) {
    const char **names = sr_arena_alloc(arena, count * sizeof *names);
    *index = 0;
    if (!names)
        return SR_E_MEMORY;
    if (!choice->name)
        return SR_OK;
    sr_table_names(all, count, names);
    return sr_recipe_choose(recipe, choice->path, what, names, (int)count, index);
}

sr_status sr_choose_task(sr_recipe *recipe, const sr_task_desc **out) {
    int phases[SR_MAX_PHASES], index;
    size_t count;
    sr_arena arena;
    const sr_task_desc *const *all = sr_tasks(&count);
    sr_arena_init(&arena);
    const sr_status status = choose(recipe, &recipe->task, "task", all, count, &arena, &index);
    sr_arena_release(&arena);
    SR_TRY(status);
    *out = all[index];
    SR_TRY(sr_choose_phases(recipe, *out, phases));
    SR_TRY(sr_recipe_use_whole_pictures(recipe, (*out)->whole_pictures, (*out)->name));
    return check_average(recipe);
}

sr_status sr_choose_task_options(sr_recipe *recipe, const sr_task_desc *task, sr_arena *arena,
                                 const void **out) {
    static const sr_option_table none = {.name = "task"};
    void *options;
    SR_TRY(parse_options(recipe, recipe->task.path, task->options ? task->options : &none, arena,
                         &options));
    *out = task->options ? options : NULL;
    return SR_OK;
}

sr_status sr_choose_model(sr_recipe *recipe, int set, sr_arena *arena, sr_choice_model *out) {
    const sr_recipe_choice *choice = &recipe->sets[set].model;
    size_t count;
    int index;
    const sr_model_desc *const *all = sr_models(&count);
    if (!choice->name)
        return sr_recipe_fail(recipe, "model", "the recipe names no model");
    SR_TRY(choose(recipe, choice, "model", all, count, arena, &index));
    out->desc = all[index];
    return parse_options(recipe, choice->path, out->desc->options, arena, &out->options);
}

// Checked after the optimizer's name, so that a wrong name is reported first.
static sr_status check_rate(sr_recipe *recipe, int set) {
    const sr_recipe_optimizer *optimizer = &recipe->sets[set].optimizer;
    char path[64];
    if (optimizer->lr_given > 0)
        return SR_OK;
    (void)snprintf(path, sizeof path, "%s.lr", optimizer->choice.path);
    if (!sr_recipe_get(recipe, path))
        return sr_recipe_fail(recipe, path, "'%s' is missing: there is no good default", path);
    return sr_recipe_fail(recipe, path, "'%s' is 0, so nothing would be learned", path);
}

// A group may choose elementwise updates if the optimizer also has updates of whole matrices.
static sr_status check_groups(sr_recipe *recipe, const sr_recipe_optimizer *settings,
                              const sr_optimizer_desc *desc) {
    for (int i = 0; i < settings->group_count && !desc->fill_matrix; i++) {
        char path[256];
        (void)snprintf(path, sizeof path, "%s.groups[%d].elementwise", settings->choice.path, i);
        if (settings->groups[i].elementwise)
            return sr_recipe_fail(recipe, path,
                                  "optimizer %s updates all parameters elementwise; remove it, or "
                                  "use muon",
                                  desc->name);
    }
    return SR_OK;
}

sr_status sr_choose_optimizer(sr_recipe *recipe, int set, sr_arena *arena,
                              sr_choice_optimizer *out) {
    const sr_recipe_choice *choice = &recipe->sets[set].optimizer.choice;
    size_t count;
    int index;
    const sr_optimizer_desc *const *all = sr_optimizers(&count);
    SR_TRY(choose(recipe, choice, "optimizer", all, count, arena, &index));
    SR_TRY(check_rate(recipe, set));
    out->desc = all[index];
    if (out->desc->reductions > 0 && recipe->sets[set].optimizer.clip_value > 0)
        return sr_recipe_fail(recipe, choice->path,
                              "optimizer %s needs the norms of gradients, which clip_value would "
                              "change; use clip_norm",
                              out->desc->name);
    SR_TRY(check_groups(recipe, &recipe->sets[set].optimizer, out->desc));
    SR_TRY(parse_options(recipe, choice->path, out->desc->options, arena, &out->options));
    return out->desc->check ? refuse(recipe, choice->path, out->desc->check(out->options)) : SR_OK;
}

// A loss that suits the task; classes 0: not known yet.
static sr_status choose_part(sr_recipe *recipe, const sr_task_desc *task, int64_t classes,
                             const sr_recipe_loss *from, sr_arena *arena, sr_loss_part *out) {
    size_t count;
    int index;
    void *options;
    const char *path = from->choice.path;
    const sr_loss_desc *const *all = sr_losses(&count);
    SR_TRY(choose(recipe, &from->choice, "loss", all, count, arena, &index));
    const sr_loss_desc *desc = all[index];
    if (task->maps && !desc->record_map)
        return sr_recipe_fail(recipe, path, "loss %s is not one of pixels, which task %s needs",
                              desc->name, task->name);
    if (!task->maps && !desc->record)
        return sr_recipe_fail(recipe, path, "loss %s is one of pixels, which task %s does not have",
                              desc->name, task->name);
    SR_TRY(parse_options(recipe, path, desc->options, arena, &options));
    *out = (sr_loss_part){
        .name = from->name, .weight = from->weight, .desc = desc, .options = options};
    if (!desc->check)
        return SR_OK;
    return refuse(recipe, path, desc->check(options, classes, task->maps));
}

sr_status sr_choose_loss(sr_recipe *recipe, const sr_task_desc *task, int64_t classes,
                         sr_arena *arena, sr_choice_loss *out) {
    const sr_recipe_phase *first = &recipe->phases[0];
    *out = (sr_choice_loss){0};
    for (int i = 0; i < recipe->phase_count && !task->uses_loss; i++)
        if (recipe->phases[i].losses[0].choice.name)
            return sr_recipe_fail(recipe, recipe->phases[i].losses[0].choice.path,
                                  "task %s has its own loss; remove this one", task->name);
    if (!task->uses_loss)
        return SR_OK;
    if (first->loss_count > SR_LOSS_PARTS)
        return sr_recipe_fail(recipe, first->losses[SR_LOSS_PARTS].choice.path,
                              "a loss has at most %d parts", SR_LOSS_PARTS);
    for (int i = 0; i < first->loss_count; i++)
        SR_TRY(choose_part(recipe, task, classes, &first->losses[i], arena, &out->parts[i]));
    out->count = first->loss_count;
    return SR_OK;
}

int64_t sr_choice_loss_classes(const sr_choice_loss *loss) {
    int64_t classes = 0;
    for (int i = 0; i < loss->count && classes == 0; i++)
        if (loss->parts[i].desc->classes)
            classes = loss->parts[i].desc->classes(loss->parts[i].options);
    return classes;
}

// The column of a part of the loss, "loss_dice".
static sr_status choose_part_scalar(sr_recipe *recipe, const sr_task_desc *task,
                                    const sr_recipe_loss *loss, sr_arena *arena,
                                    sr_task_scalar *out) {
    const size_t bytes = strlen(loss->name) + sizeof "loss_";
    char *name = sr_arena_alloc(arena, bytes), *label = sr_arena_alloc(arena, bytes);
    if (!name || !label)
        return SR_E_MEMORY;
    (void)snprintf(name, bytes, "loss_%s", loss->name);
    (void)snprintf(label, bytes, "%s loss", loss->name);
    for (int i = 0; i < task->scalar_count; i++)
        if (strcmp(task->scalars[i].mean.name, name) == 0)
            return sr_recipe_fail(recipe, loss->choice.path,
                                  "task %s itself logs %s; name the loss otherwise with 'as'",
                                  task->name, name);
    *out = (sr_task_scalar){.name = name, .mean = {name, label, SR_UNIT_LOSS, SR_BETTER_LOWER}};
    return SR_OK;
}

sr_status sr_choose_scalars(sr_recipe *recipe, const sr_task_desc *task, sr_arena *arena,
                            sr_choice_scalars *out) {
    const sr_recipe_phase *first = &recipe->phases[0];
    *out = (sr_choice_scalars){.count = task->scalar_count, .first_part = task->scalar_count};
    for (int i = 0; i < task->scalar_count; i++)
        out->list[i] = task->scalars[i];
    for (int i = 0; task->uses_loss && i < first->loss_count; i++) {
        if (!first->losses[i].name)
            continue;
        if (out->count == SR_MAX_SCALARS)
            return sr_recipe_fail(recipe, first->losses[i].choice.path,
                                  "at most %d numbers are logged of each step", SR_MAX_SCALARS);
        SR_TRY(choose_part_scalar(recipe, task, &first->losses[i], arena, &out->list[out->count]));
        out->count++;
    }
    return SR_OK;
}

sr_status sr_choose_schedule(sr_recipe *recipe, int set, sr_arena *arena,
                             const sr_schedule_lengths *lengths, sr_schedule *out) {
    const sr_recipe_schedule *from = &recipe->sets[set].schedule;
    size_t count;
    int index;
    void *options;
    const sr_schedule_desc *const *all = sr_schedules(&count);
    SR_TRY(choose(recipe, &from->choice, "schedule", all, count, arena, &index));
    SR_TRY(parse_options(recipe, from->choice.path, all[index]->options, arena, &options));
    if (!lengths)
        return SR_OK;
    return refuse(recipe, from->choice.path,
                  sr_schedule_init(out, all[index], options, recipe->sets[set].optimizer.lr,
                                   from->warmup, from->warmup_start, lengths));
}

sr_image_growth sr_choose_growth(const sr_recipe *recipe, const sr_schedule_lengths *lengths) {
    if (recipe->progressive.from == 0)
        return (sr_image_growth){0};
    const int64_t begin = sr_length_position(recipe->progressive.begin, lengths),
                  end = sr_length_position(recipe->progressive.end, lengths);
    return (sr_image_growth){.from = recipe->progressive.from,
                             .step = recipe->progressive.step,
                             .begin = begin,
                             .end = end > begin ? end : begin};
}

// The columns of which one value is better than another; returns their number.
static int comparable(const sr_task_desc *task, int out[SR_TASK_COLUMNS],
                      char names[SR_TASK_COLUMNS][64]) {
    const sr_column *columns[SR_TASK_COLUMNS];
    const int all = sr_task_columns(task, columns);
    int count = 0;
    for (int i = 0; i < all; i++) {
        if (columns[i]->better == SR_BETTER_NEITHER)
            continue;
        (void)snprintf(names[count], sizeof names[count], "val/%s", columns[i]->name);
        out[count++] = i;
    }
    return count;
}

// The column that a key of the recipe names; *out stays where it names none.
static sr_status choose_metric(sr_recipe *recipe, const sr_task_desc *task, const char *key,
                               const char *chosen, int *out) {
    char names[SR_TASK_COLUMNS][64];
    const char *choices[SR_TASK_COLUMNS];
    int columns[SR_TASK_COLUMNS], index = 0;
    const int count = comparable(task, columns, names);
    if (!chosen)
        return SR_OK;
    if (count == 0)
        return sr_recipe_fail(recipe, key, "task %s has no metrics", task->name);
    for (int i = 0; i < count; i++)
        choices[i] = names[i];
    SR_TRY(sr_recipe_choose(recipe, key, "metric", choices, count, &index));
    *out = columns[index];
    return SR_OK;
}

sr_status sr_choose_metrics(sr_recipe *recipe, const sr_task_desc *task, sr_choice_metrics *out) {
    out->best = sr_task_best_column(task);
    SR_TRY(choose_metric(recipe, task, "checkpoint.metric", recipe->checkpoint.metric, &out->best));
    out->stop = out->best;
    if (recipe->stop.patience > 0 && !task->metrics)
        return sr_recipe_fail(recipe, "stop.patience",
                              "task %s has no metrics that could get better", task->name);
    return choose_metric(recipe, task, "stop.metric", recipe->stop.metric, &out->stop);
}

sr_status sr_check_ranks(sr_recipe *recipe, int ranks) {
    if (ranks <= recipe->lanes)
        return SR_OK;
    return sr_recipe_fail(recipe, "lanes",
                          "%d ranks need at least %d lanes, but lanes is %lld; start fewer ranks, "
                          "or raise lanes (changes BatchNorm and results)",
                          ranks, ranks, (long long)recipe->lanes);
}

bool sr_weights_are_pytorch(const char *path) {
    static const char *const endings[] = {".pth", ".pt", ".ckpt", ".bin", ".pth.tar"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (sr_text_ends_with(path, endings[i]))
            return true;
    return false;
}

sr_status sr_check_weights(sr_recipe *recipe) {
    for (int i = 0; i < recipe->weights_count; i++) {
        const char *path = recipe->weights[i].path, *key = recipe->weights[i].key;
        if (sr_weights_are_pytorch(path))
            return sr_recipe_fail(recipe, key,
                                  "a PyTorch file may run code when it is opened; convert it with "
                                  "'serried-convert %s FILE.safetensors'",
                                  path);
        if (!sr_path_exists(path))
            return sr_recipe_fail(recipe, key, "%s does not exist", path);
    }
    return SR_OK;
}

void sr_choose_numerics(const sr_recipe *recipe) {
    sr_kernels_use_portable(recipe->numerics_portable);
    sr_kernels_use_tf32(recipe->numerics_tf32);
}

sr_status sr_choose_device(sr_recipe *recipe, int index, sr_device_properties *out) {
    const bool named = recipe->device && strcmp(recipe->device, "auto") != 0;
    char own[SR_DEVICE_TEXT + 16];
    sr_device_properties device;
    sr_status status = sr_device_describe(named ? recipe->device : NULL, &device);
    if (status == SR_OK && device.count > 1 && !strchr(device.name, ':')) {
        (void)snprintf(own, sizeof own, "%s:%d", device.name, index % device.count);
        status = sr_device_describe(own, &device);
    }
    if (status != SR_OK)
        return refuse(recipe, "device", status);
    *out = device;
    return SR_OK;
}

static sr_status check_device(sr_recipe *recipe) {
    sr_device_properties device;
    return sr_choose_device(recipe, 0, &device);
}

static sr_status check_lanes(sr_recipe *recipe) {
    if (recipe->lanes < 1 || recipe->batch % recipe->lanes != 0)
        return sr_recipe_fail(recipe, "lanes", "batch %lld cannot be divided into %lld equal lanes",
                              (long long)recipe->batch, (long long)recipe->lanes);
    return SR_OK;
}

static sr_status check_mix(sr_recipe *recipe, const sr_task_desc *task) {
    if ((recipe->mix.mixup > 0 || recipe->mix.cutmix > 0) && !task->mix)
        return sr_recipe_fail(recipe, recipe->mix.mixup > 0 ? "mix.mixup" : "mix.cutmix",
                              "task %s does not mix samples; remove 'mix'", task->name);
    return SR_OK;
}

static sr_status check_transforms(sr_recipe *recipe) {
    sr_transform_chain *chain;
    sr_status status = sr_transform_chain_create(recipe->augment, recipe->augment_count, &chain);
    if (status == SR_OK)
        sr_transform_chain_free(chain);
    return refuse(recipe, "augment", status);
}

static sr_status check_all(sr_recipe *recipe, sr_arena *arena) {
    const sr_task_desc *task;
    sr_choice_model model;
    sr_choice_optimizer optimizer;
    sr_choice_metrics metrics;
    sr_choice_loss loss;
    sr_choice_scalars scalars;
    const void *options;
    if (!sr_plugins_loaded(recipe))
        return SR_FAIL(SR_E_ARGUMENT, "the plug-ins of %s are not loaded (sr_plugins_load)",
                       recipe->name);
    SR_TRY(sr_choose_task(recipe, &task));
    SR_TRY(sr_choose_task_options(recipe, task, arena, &options));
    SR_TRY(check_lanes(recipe));
    SR_TRY(check_device(recipe));
    SR_TRY(check_mix(recipe, task));
    SR_TRY(sr_choose_metrics(recipe, task, &metrics));
    SR_TRY(sr_choose_loss(recipe, task, 0, arena, &loss));
    SR_TRY(sr_choose_scalars(recipe, task, arena, &scalars));
    for (int i = 0; i < recipe->set_count; i++) {
        SR_TRY(sr_choose_model(recipe, i, arena, &model));
        SR_TRY(sr_choose_optimizer(recipe, i, arena, &optimizer));
        SR_TRY(sr_choose_schedule(recipe, i, arena, NULL, NULL));
    }
    return check_transforms(recipe);
}

sr_status sr_recipe_check(sr_recipe *recipe) {
    sr_arena arena;
    sr_arena_init(&arena);
    sr_status status = check_all(recipe, &arena);
    sr_arena_release(&arena);
    return status;
}
