// SPDX-License-Identifier: Apache-2.0
// Pictures of a run: examples of predictions, what metrics draw after the last evaluation, and what
// a task generates. A picture that cannot be drawn is a warning and never ends a run.
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "trainer/run/training_internal.h"

void sr_training_finish_metric(void *training, const sr_metric_desc *metric, const void *state) {
    sr_training *t = training;
    if (!t->run || sr_run_folder_check(t->run) != SR_OK) // the next checkpoint reports it
        return;
    if (metric->write && metric->write(state, t->location.folder) != SR_OK)
        SR_WARN("%s", sr_error_message());
    if (metric->draw)
        metric->draw(state, t->drawing, t->location.folder);
}

// Has a sheet drawn to samples/NAME of the run folder. 'compose' fills it.
static sr_status draw_sheet(sr_training *t, const char *name,
                            sr_status (*compose)(sr_training *t, const void *from,
                                                 const char *path),
                            const void *from) {
    char *folder = sr_run_folder_file(t->run, "samples");
    char *path = folder ? sr_path_join(folder, name) : NULL;
    sr_status status = path ? sr_run_folder_check(t->run) : SR_E_MEMORY;
    if (status == SR_OK)
        status = sr_make_folders(folder);
    if (status == SR_OK)
        status = compose(t, from, path);
    sr_free(path);
    sr_free(folder);
    return status;
}

// -- examples of an evaluation ---------------------------------------------------------------

static sr_status compose_examples(sr_training *t, const void *examples, const char *path) {
    const sr_column *column = &t->columns.list[t->columns.at[SR_RUN_VAL] + t->columns.main];
    char title[160], value[SR_COLUMN_TEXT];
    (void)snprintf(title, sizeof title, "val samples after step %lld (%s %s), %s",
                   (long long)t->step, column->label,
                   sr_column_text(column, t->val[t->columns.main], value), t->task->examples->what);
    const sr_metric_setting setting = {.classes = t->inputs.class_count,
                                       .class_names = t->inputs.class_names};
    sr_examples_draw(examples, &setting, title, path, t->drawing);
    return SR_OK;
}

void sr_training_draw_examples(sr_training *t, const sr_examples *examples) {
    if (t->run && draw_sheet(t, "val.png", compose_examples, examples) != SR_OK)
        SR_WARN("examples of predictions were not drawn: %s", sr_error_message());
}

// -- generated pictures ------------------------------------------------------------------------

enum { GENERATED = 36 };

// Eight bits of each value, for a sheet; what is not finite is black.
static void to_pixels(const float *values, int64_t count, uint8_t *out) {
    for (int64_t i = 0; i < count; i++) {
        const float v = 255 * values[i] + 0.5f;
        out[i] = (uint8_t)(v > 0 ? v < 255 ? v : 255 : 0);
    }
}

static sr_status compose_generated(sr_training *t, const void *generated, const char *path) {
    const sr_task_output *pictures = generated;
    const int64_t *dim = pictures->info.dim, bytes = dim[1] * dim[2] * dim[3];
    sr_tile tiles[GENERATED];
    char title[96];
    uint8_t *pixels = sr_alloc_array((size_t)dim[0], (size_t)bytes, "generated pictures");
    if (!pixels)
        return SR_E_MEMORY;
    to_pixels(pictures->data, dim[0] * bytes, pixels);
    for (int i = 0; i < GENERATED; i++)
        tiles[i] =
            (sr_tile){.rgb = pixels + (ptrdiff_t)i * bytes, .width = dim[2], .height = dim[1]};
    (void)snprintf(title, sizeof title, "generated after step %lld, from the same noise each time",
                   (long long)t->step);
    const sr_samples sheet = {.title = title, .tiles = tiles, .count = GENERATED};
    sr_drawing_samples(t->drawing, &sheet, path);
    sr_free(pixels);
    return SR_OK;
}

static sr_status generate(sr_training *t) {
    const sr_slot slot = {.valid = GENERATED};
    const sr_task_output *pictures;
    sr_task_outputs outputs;
    SR_TRY(sr_engine_infer(t->engine, &slot, &outputs));
    SR_TRY(sr_task_outputs_get(&outputs, t->task->generates, &pictures));
    if (pictures->info.dtype != SR_F32 || pictures->info.rank != 4 ||
        pictures->info.dim[0] != GENERATED || pictures->info.dim[3] != 3) {
        char text[96];
        return SR_FAIL(SR_E_SHAPE, "output '%s' of task %s is %s and no pictures", pictures->name,
                       t->task->name, sr_info_text(&pictures->info, text));
    }
    return draw_sheet(t, "generated.png", compose_generated, pictures);
}

sr_status sr_training_draw_generated(sr_training *t) {
    if (!t->task->generates)
        return SR_OK;
    SR_TRY(sr_engine_use_average(t->engine, t->recipe->ema.decay > 0));
    if (t->run && generate(t) != SR_OK)
        SR_WARN("samples/generated.png was not drawn: %s", sr_error_message());
    return sr_engine_use_average(t->engine, false);
}

// -- TensorBoard -------------------------------------------------------------------------------

void sr_training_add_picture(void *training, const char *folder, const char *name, int64_t step) {
    const sr_training *t = training;
    char *path = sr_path_join(folder, name), tag[64];
    (void)snprintf(tag, sizeof tag, "%.*s", (int)strcspn(name, "."), name);
    if (path)
        sr_event_file_add_picture(t->events, step, tag, path);
    sr_free(path);
}
