// SPDX-License-Identifier: Apache-2.0
// Opens and runs trained models (inference.h): the engine of a run with its weights.
#include "trainer/run/inference.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataio/image/picture.h"
#include "dataio/record/dataset.h"
#include "dataio/transforms/transform.h"
#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "kernels/base/math.h"
#include "kernels/base/watch.h"
#include "trainer/engine/choices.h"
#include "trainer/engine/fingerprint.h"
#include "trainer/engine/from_recipe.h"
#include "trainer/engine/placement.h"
#include "trainer/engine/plugins.h"
#include "trainer/run/inputs.h"
#include "trainer/run/picture_reader.h"
#include "trainer/run/run_recipe.h"
#include "trainer/run/training_internal.h"
#include "trainer/tasks/eval_view.h"

// ---- Opening ----

// The recipe.yaml of a run folder, which may be one or two levels above the given folder (last/).
// That folder itself need not exist any more.
static sr_status find_recipe(const char *folder, char out[PATH_MAX]) {
    char real[PATH_MAX];
    int attempts = 0;
    while (!realpath(folder, real)) // 'last' of a running job may change at any moment
        if (errno != ENOENT || ++attempts == 10)
            return SR_FAIL(SR_E_NOT_FOUND, "%s: %s", folder, strerror(errno));
    for (int level = 0; level < 3; level++) {
        int n = snprintf(out, PATH_MAX, "%s/recipe.yaml", real);
        if (n > 0 && n < PATH_MAX && sr_path_exists(out))
            return SR_OK;
        char *slash = strrchr(real, '/');
        if (slash)
            *slash = '\0';
    }
    return SR_FAIL(SR_E_NOT_FOUND, "%s has no recipe.yaml: give the run folder", folder);
}

static sr_status copy_classes(sr_inference *in, const char *const *names, int count) {
    in->class_count = count;
    in->class_names = sr_arena_alloc(&in->arena, ((size_t)count + 1) * sizeof(char *));
    if (!in->class_names)
        return SR_E_MEMORY;
    for (int i = 0; i < count; i++) {
        in->class_names[i] = sr_arena_strdup(&in->arena, names[i]);
        if (!in->class_names[i])
            return SR_E_MEMORY;
    }
    return SR_OK;
}

// Without a checkpoint, the class names are those of the data set.
static sr_status classes_of_data(sr_inference *in) {
    const sr_recipe *r = in->recipe;
    const char *path = r->data.val ? r->data.val : r->data.train;
    sr_dataset *data;
    if (!path)
        return sr_recipe_fail(in->recipe, "data.val",
                              "data.val is missing: the names of the classes are read from it");
    SR_TRY(sr_dataset_open(path, sr_dataset_has_split(path, "val") ? "val" : "train", &data));
    int count = sr_dataset_class_count(data);
    sr_status status = SR_OK;
    const char **names = sr_alloc_array((size_t)count + 1, sizeof *names, "class names");
    for (int i = 0; names && i < count; i++)
        names[i] = sr_dataset_class_name(data, i);
    status = names ? copy_classes(in, names, count) : SR_E_MEMORY;
    sr_free(names);
    sr_dataset_free(data);
    return status;
}

static sr_status create_engine(sr_inference *in, int threads) {
    const sr_recipe *r = in->recipe;
    sr_device_properties device;
    SR_TRY(sr_choose_task(in->recipe, &in->task));
    SR_TRY(sr_inputs_check_eval_batch(in->recipe));
    const sr_comm_options comm = {.report_seconds = r->deadline_report,
                                  .act_seconds = r->deadline_act,
                                  .patience = SR_PATIENCE};
    SR_TRY(sr_comm_create(&comm, &in->comm));
    sr_log_set_rank(sr_comm_rank(in->comm), sr_comm_size(in->comm));
    sr_choose_numerics(r);
    SR_TRY(sr_choose_device(in->recipe, sr_placement_index(in->comm), &device));
    SR_TRY(sr_fingerprint_agree(in->comm, &device, r->numerics_strict));
    sr_engine_options options = sr_engine_options_of(in->recipe, in->task);
    options.comm = in->comm;
    options.device = device.name;
    options.threads = threads;
    options.one_executor = true;
    options.classes = in->class_count;
    return sr_engine_create(&options, &in->engine);
}

// A changed recipe is still used, because the change may be intended, but with a warning.
static sr_status compare_recipe(const sr_inference *in, const char *path, const sr_manifest *m) {
    if (sr_comm_rank(in->comm) != 0)
        return SR_OK;
    sr_status status = sr_run_recipe_check(path, m->data_identity, m->recipe_identity);
    if (status == SR_E_MEMORY)
        return status;
    if (status != SR_OK)
        SR_WARN("%s; results may differ from the run's own evaluation", sr_error_message());
    return SR_OK;
}

static sr_status copy_data_identity(sr_inference *in, const sr_manifest *m) {
    const char *identity = sr_manifest_extra(m, SR_EXTRA_VAL_DATA);
    if (!identity)
        return SR_OK;
    in->val_identity = sr_arena_strdup(&in->arena, identity);
    return in->val_identity ? SR_OK : SR_E_MEMORY;
}

static sr_status open_checkpoint(sr_inference *in, const sr_inference_options *o) {
    char path[PATH_MAX];
    sr_checkpoint *checkpoint;
    sr_safetensors *file;
    SR_TRY(find_recipe(o->source, path));
    SR_TRY(sr_run_recipe_load(path, o->overrides, o->override_count, &in->recipe));
    SR_TRY(sr_plugins_load(in->recipe, o->allow_plugins ? SR_PLUGINS_ALLOWED : SR_PLUGINS_FOUND));
    SR_TRY(sr_checkpoint_open(o->source, NULL, &checkpoint));
    const sr_manifest *m = sr_checkpoint_manifest(checkpoint);
    sr_status status = copy_classes(in, m->classes, m->class_count);
    sr_weights_kind kind = !o->raw && sr_checkpoint_has_weights(checkpoint, SR_WEIGHTS_EMA)
                               ? SR_WEIGHTS_EMA
                               : SR_WEIGHTS_MODEL;
    if (status == SR_OK)
        status = copy_data_identity(in, m);
    if (status == SR_OK)
        status = create_engine(in, o->threads);
    if (status == SR_OK)
        status = compare_recipe(in, path, m);
    if (status == SR_OK)
        status = sr_checkpoint_weights(checkpoint, kind, &file);
    if (status == SR_OK)
        status = sr_state_load_weights(in->engine, file, NULL, NULL);
    sr_checkpoint_free(checkpoint);
    return status;
}

static sr_status open_recipe(sr_inference *in, const sr_inference_options *o) {
    const sr_status status =
        sr_recipe_load(o->source, o->overrides, o->override_count, &in->recipe);
    if (status == SR_E_NOT_FOUND)
        return SR_FAIL(status, "'%s' is not a run folder, a checkpoint or a recipe: %s", o->source,
                       sr_error_message());
    SR_TRY(status);
    SR_TRY(sr_plugins_load(in->recipe, o->allow_plugins ? SR_PLUGINS_ALLOWED : SR_PLUGINS_NAMED));
    const sr_recipe *r = in->recipe;
    if (r->weights_count != 1 || r->weights[0].part) {
        return sr_recipe_fail(in->recipe, "weights",
                              "%sgive weights=FILE.safetensors, or a run "
                              "folder instead of a recipe",
                              r->weights_count > 0 ? "these are weights of a part of the model; "
                                                   : "");
    }
    SR_TRY(sr_check_weights(in->recipe));
    SR_TRY(classes_of_data(in));
    SR_TRY(create_engine(in, o->threads));
    return sr_inputs_load_weights(in->recipe, in->engine, in->class_names, in->class_count);
}

sr_status sr_inference_open(const sr_inference_options *options, sr_inference **out) {
    sr_inference *in = sr_alloc(sizeof *in, "inference");
    if (!in)
        return SR_E_MEMORY;
    sr_arena_init(&in->arena);
    sr_status status = SR_OK;
    if (sr_checkpoint_is(options->source)) {
        status = open_checkpoint(in, options);
    } else if (sr_path_is_folder(options->source)) {
        status = SR_FAIL(SR_E_USAGE,
                         "%s is neither a run folder nor a checkpoint; give runs/RECIPE/STAMP, its "
                         "last or best, or a recipe with weights=FILE.safetensors",
                         options->source);
    } else if (sr_text_ends_with(options->source, ".safetensors")) {
        status = SR_FAIL(SR_E_USAGE,
                         "%s has weights only, without the model's options: give its run folder, "
                         "or a recipe with weights=%s and data.val (for the class names)",
                         options->source, options->source);
    } else if (sr_weights_are_pytorch(options->source)) {
        status =
            SR_FAIL(SR_E_USAGE,
                    "%s is a PyTorch file; convert it with serried-convert %s FILE.safetensors, "
                    "then give a recipe with weights=FILE.safetensors and data.val (for the "
                    "class names)",
                    options->source, options->source);
    } else {
        status = open_recipe(in, options);
    }
    if (status != SR_OK) {
        sr_inference_free(in);
        return status;
    }
    *out = in;
    return SR_OK;
}

void sr_inference_free(sr_inference *in) {
    if (!in)
        return;
    sr_picture_reader_free(in->reader);
    sr_engine_free(in->engine);
    sr_comm_free(in->comm);
    sr_recipe_free(in->recipe);
    sr_arena_release(&in->arena);
    sr_free(in);
}

// ---- Use ----

// Data that the user has not named must be those of the run: its recipe has their path alone.
static sr_status check_data_of_run(const sr_inference *in, const sr_dataset *data,
                                   const char *path) {
    if (!in->val_identity || strcmp(in->val_identity, sr_dataset_identity(data)) == 0)
        return SR_OK;
    return SR_FAIL(SR_E_USAGE,
                   "%s does not have the val split that the run was evaluated on%s: give a data "
                   "set with --data DATA, which may also be this one",
                   path, in->val_identity[0] ? " (its content differs)" : " (the run had none)");
}

// Where metrics write, on rank 0; the first failure is kept.
typedef struct written_files {
    const char *folder;
    sr_kept_error first;
} written_files;

static void write_metric(void *user, const sr_metric_desc *metric, const void *state) {
    written_files *w = user;
    if (w->folder && metric->write)
        sr_error_keep(&w->first, metric->write(state, w->folder));
}

sr_status sr_inference_evaluate(sr_inference *in, const char *dataset, const char *folder,
                                sr_measures *out) {
    const sr_recipe *r = in->recipe;
    const char *key = r->data.val ? "data.val" : "data.train";
    const char *path = dataset ? dataset : r->data.val ? r->data.val : r->data.train;
    sr_dataset *data;
    if (!in->task->metrics)
        return SR_FAIL(SR_E_UNSUPPORTED, "task %s has no metric, so there is nothing to evaluate",
                       in->task->name);
    if (!path)
        return sr_recipe_fail(in->recipe, "data.val",
                              "data.val is missing: give a packed data set");
    sr_status status = sr_dataset_open(path, "val", &data);
    if (status == SR_E_NOT_FOUND && !dataset)
        return SR_FAIL(status, "%s; name the data set to evaluate with --data DATA",
                       sr_error_message());
    SR_TRY(status);
    if (!dataset && !sr_recipe_is_override(r, key))
        status = check_data_of_run(in, data, path);
    if (status == SR_OK)
        status = sr_inputs_check_classes(data, path, in->class_names, in->class_count, "the model");
    if (status == SR_OK)
        status = sr_inputs_agree_on_val(in->comm, sr_dataset_identity(data));
    char identity[SR_SHA256_HEX];
    (void)snprintf(identity, sizeof identity, "%s", sr_dataset_identity(data));
    written_files files = {.folder = sr_comm_rank(in->comm) == 0 ? folder : NULL,
                           .first = {.status = SR_OK}};
    sr_eval_extent extent = {0};
    if (status == SR_OK)
        status = sr_inputs_measure(in->recipe, in->task, data, &extent);
    const sr_evaluation evaluation = {.dataset = path,
                                      .extent = extent,
                                      .identity = identity,
                                      .classes = in->class_count,
                                      .class_names = in->class_names,
                                      .samples = sr_dataset_count(data),
                                      .finish = folder ? write_metric : NULL,
                                      .user = &files};
    sr_dataset_free(data);
    SR_TRY(status);
    if (files.folder)
        SR_TRY(sr_make_folders(files.folder));
    SR_TRY(sr_evaluate_split(in->engine, in->comm, &evaluation, out));
    return sr_error_restore(&files.first);
}

static bool is_of_picture(sr_status status) {
    return status >= SR_E_DATA && status < SR_E_PEER;
}

// Softmax of one row in double, with sr_exp: its bits do not depend on the C library. False where
// it is not finite.
static bool softmax(const float *logits, int classes, float *out) {
    double most = (double)logits[0], sum = 0;
    for (int i = 1; i < classes; i++)
        most = (double)logits[i] > most ? (double)logits[i] : most;
    for (int i = 0; i < classes; i++)
        sum += sr_exp((double)logits[i] - most);
    for (int i = 0; i < classes; i++)
        out[i] = (float)(sr_exp((double)logits[i] - most) / sum);
    return isfinite(sum) && isfinite(most);
}

// The row of a picture, zero for one without a result.
static void write_row(const sr_inference *in, const sr_picture_file *file, const float *logits,
                      float *row, sr_status *status) {
    const size_t classes = (size_t)in->class_count;
    if (*status == SR_OK && !softmax(logits, in->class_count, row)) {
        *status = SR_FAIL(SR_E_NON_FINITE,
                          "%s: the model's result is not finite, although its weights are: a "
                          "value in it overflows, or a running variance is negative",
                          file->name);
        SR_WARN("%s", sr_error_message());
    }
    if (*status != SR_OK)
        memset(row, 0, classes * sizeof *row);
}

typedef struct batch_buffers {
    void *image; // 64-byte aligned, for kernels
    int64_t samples;
} batch_buffers;

// The logits of a task whose outputs have one for each class: f32 [N,class_count].
static sr_status infer_classes(sr_inference *in, const sr_slot *slot, const float **out) {
    sr_task_outputs outputs;
    const sr_task_output *logits;
    SR_TRY(sr_engine_infer(in->engine, slot, &outputs));
    SR_TRY(sr_task_outputs_get(&outputs, "logits", &logits));
    if (logits->info.dtype != SR_F32 || logits->info.rank != 2 ||
        logits->info.dim[1] != in->class_count) {
        char text[96];
        return SR_FAIL(SR_E_UNSUPPORTED,
                       "task %s does not classify pictures: its logits are %s, and there are %d "
                       "classes",
                       in->task->name, sr_info_text(&logits->info, text), in->class_count);
    }
    *out = logits->data;
    return SR_OK;
}

static sr_status predict_batch(sr_inference *in, const sr_picture_reader *from,
                               const batch_buffers *m, const sr_picture_file *files, int count,
                               float *probabilities, uint8_t *pixels, sr_status *statuses) {
    const int64_t height = sr_picture_reader_view(from)->height,
                  width = sr_picture_reader_view(from)->width;
    const size_t size = (size_t)(height * width * 3), classes = (size_t)in->class_count;
    memset(m->image, 0, size * (size_t)m->samples);
    for (int i = 0; i < count; i++) {
        uint8_t *at = (uint8_t *)m->image + (size_t)i * size;
        statuses[i] = sr_picture_reader_decode(from, &files[i], at);
        if (statuses[i] != SR_OK && !is_of_picture(statuses[i]))
            return statuses[i];
        if (statuses[i] != SR_OK)
            SR_WARN("%s: %s", files[i].name, sr_error_message());
    }
    const sr_slot slot = {.valid = count,
                          .arrays = 1,
                          .array = {{.name = "image",
                                     .dtype = SR_U8,
                                     .rank = 4,
                                     .shape = {m->samples, height, width, 3},
                                     .data = m->image}}};
    const float *logits = NULL;
    SR_TRY(infer_classes(in, &slot, &logits));
    if (pixels)
        memcpy(pixels, m->image, size * (size_t)count);
    for (int i = 0; i < count; i++)
        write_row(in, &files[i], logits + (size_t)i * classes, probabilities + (size_t)i * classes,
                  &statuses[i]);
    return SR_OK;
}

static sr_status predict_all(sr_inference *in, const sr_picture_reader *from,
                             const sr_picture_file *files, int count, float *probabilities,
                             uint8_t *pixels, sr_status *statuses) {
    const sr_recipe *r = in->recipe;
    int64_t most = r->eval.batch / sr_engine_get_info(in->engine).lanes;
    batch_buffers m = {.samples = count < most ? count : most};
    const size_t size =
        (size_t)(sr_picture_reader_view(from)->height * sr_picture_reader_view(from)->width * 3);
    const size_t classes = (size_t)in->class_count;
    m.image = sr_alloc_array((size_t)m.samples, size, "pictures");
    sr_status status = m.image ? SR_OK : SR_E_MEMORY;
    for (int i = 0; i < count && status == SR_OK; i += (int)m.samples) {
        int now = count - i < m.samples ? count - i : (int)m.samples;
        status = predict_batch(in, from, &m, files + i, now, probabilities + (size_t)i * classes,
                               pixels ? pixels + (size_t)i * size : NULL, statuses + i);
    }
    sr_free(m.image);
    return status;
}

sr_status sr_inference_predict(sr_inference *in, const sr_picture_file *files, int count,
                               float *probabilities, uint8_t *pixels, sr_status *statuses) {
    sr_picture_reader *from;
    if (!sr_task_has_classes(in->task) || in->task->whole_pictures)
        return SR_FAIL(SR_E_UNSUPPORTED, "task %s does not classify pictures", in->task->name);
    SR_TRY(sr_picture_reader_create(in->task, in->recipe,
                                    sr_engine_get_info(in->engine).task_options, &from));
    const sr_status status = predict_all(in, from, files, count, probabilities, pixels, statuses);
    sr_picture_reader_free(from);
    return status;
}

sr_status sr_inference_infer(sr_inference *in, const sr_picture_file *file, sr_slot *picture,
                             sr_task_outputs *outputs) {
    const sr_engine_info info = sr_engine_get_info(in->engine);
    if (!in->reader)
        SR_TRY(sr_picture_reader_create(in->task, in->recipe, info.task_options, &in->reader));
    SR_TRY(sr_picture_reader_read(in->reader, file, picture));
    return sr_engine_infer(in->engine, picture, outputs);
}
