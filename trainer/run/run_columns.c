// SPDX-License-Identifier: Apache-2.0
// Lays out the columns of a run (run_columns.h).
#include "trainer/run/run_columns.h"

#include <stdio.h>
#include <string.h>

// Who has a column.
typedef enum owner { RUN = 0, PHASE, TRAIN, VAL } owner;

static const struct {
    owner owner;
    sr_column column; // %s: the phase with a dot, where it has a name
} kinds[SR_RUN_COLUMNS] = {
    [SR_RUN_STEP] = {RUN, {.name = "step"}},
    [SR_RUN_SAMPLES] = {RUN, {.name = "samples"}},
    [SR_RUN_EPOCH] = {RUN, {.name = "epoch"}},
    [SR_RUN_LOSS] = {PHASE, {"train/%sloss", "loss", SR_UNIT_LOSS, SR_BETTER_LOWER}},
    [SR_RUN_TRAIN] = {TRAIN, {.name = "train/%s"}},
    [SR_RUN_LR] = {PHASE, {.name = "%slr"}},
    [SR_RUN_IMAGES_PER_S] = {RUN, {.name = "images_per_s"}},
    [SR_RUN_DATA_WAIT] = {RUN, {.name = "data_wait", .unit = SR_UNIT_FRACTION}},
    [SR_RUN_COMM_EXPOSED] = {RUN, {.name = "comm_exposed", .unit = SR_UNIT_FRACTION}},
    [SR_RUN_MEM_PEAK] = {RUN, {.name = "mem_peak"}},
    [SR_RUN_VAL] = {VAL, {.name = "val/%s"}},
    [SR_RUN_SECONDS] = {RUN, {.name = "seconds"}},
    [SR_RUN_GRADIENT_NORM] = {PHASE, {.name = "%sgradient_norm"}},
    [SR_RUN_LOSS_SCALE] = {PHASE, {.name = "%sloss_scale"}},
    [SR_RUN_SKIPPED_STEPS] = {PHASE, {.name = "%sskipped_steps"}},
};

// Text where 'format' has its first %s, in memory of the arena; NULL if it is out, or was before.
static const char *insert(const char *format, const char *text, sr_arena *arena) {
    if (!format || !text)
        return NULL;
    const char *at = strstr(format, "%s");
    const size_t before = at ? (size_t)(at - format) : strlen(format);
    const size_t bytes = strlen(format) + strlen(text) + 1;
    char *out = sr_arena_alloc(arena, bytes);
    if (out)
        (void)snprintf(out, bytes, "%.*s%s%s", (int)before, format, at ? text : "",
                       at ? at + 2 : "");
    return out;
}

static const char *name_of(const sr_recipe *recipe, const sr_task_desc *task,
                           const sr_choice_scalars *scalars, const sr_column *const *measured,
                           int kind, int i, sr_arena *arena) {
    const char *format = kinds[kind].column.name, *phase;
    switch (kinds[kind].owner) {
    case PHASE:
        phase = recipe->phases[i].name;
        return insert(format, *phase ? insert("%s.", phase, arena) : "", arena);
    case TRAIN:
        phase = task->phases[scalars->list[i].phase].name;
        return insert(*phase ? insert("train/%s.%s", phase, arena) : format,
                      scalars->list[i].mean.name, arena);
    case VAL:
        return insert(format, measured[i]->name, arena);
    case RUN:
    default:
        return format;
    }
}

static sr_column column_of(const sr_choice_scalars *scalars, const sr_column *const *measured,
                           int kind, int i) {
    return kinds[kind].owner == TRAIN ? scalars->list[i].mean
           : kinds[kind].owner == VAL ? *measured[i]
                                      : kinds[kind].column;
}

static int find_phase(const sr_recipe *recipe, const char *name) {
    int p = recipe->phase_count - 1;
    while (p >= 0 && strcmp(recipe->phases[p].name, name) != 0)
        p--;
    return p;
}

static const char *key_of(const char *name, sr_arena *arena) {
    char *key = sr_arena_strdup(arena, name);
    for (char *at = key; at && *at; at++)
        *at = *at == '/' ? '_' : *at;
    return key;
}

sr_status sr_run_columns_make(sr_recipe *recipe, const sr_task_desc *task, sr_arena *arena,
                              sr_run_columns *out) {
    const sr_column *measured[SR_TASK_COLUMNS];
    const sr_choice_scalars *scalars = &out->scalars;
    *out = (sr_run_columns){0};
    SR_TRY(sr_choose_scalars(recipe, task, arena, &out->scalars));
    const int counts[] = {[RUN] = 1,
                          [PHASE] = recipe->phase_count,
                          [TRAIN] = scalars->count,
                          [VAL] = sr_task_columns(task, measured)};
    for (int kind = 0; kind < SR_RUN_COLUMNS; kind++) {
        out->at[kind] = out->count;
        out->of[kind] = counts[kinds[kind].owner];
        for (int i = 0; i < out->of[kind]; i++) {
            sr_column *column = &out->list[out->count];
            *column = column_of(scalars, measured, kind, i);
            column->name = name_of(recipe, task, scalars, measured, kind, i, arena);
            out->names[out->count] = column->name;
            out->keys[out->count] = column->name ? key_of(column->name, arena) : NULL;
            if (!out->keys[out->count++])
                return SR_E_MEMORY;
        }
    }
    for (int i = 0; i < scalars->count; i++)
        out->phase_of[i] = find_phase(recipe, task->phases[scalars->list[i].phase].name);
    out->main = sr_task_best_column(task);
    return sr_choose_metrics(recipe, task, &out->chosen);
}
