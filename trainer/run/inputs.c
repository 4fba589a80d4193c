// SPDX-License-Identifier: Apache-2.0
// Opens and checks the inputs of a run (inputs.h).
#include "trainer/run/inputs.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "dataio/pipeline/sampler.h"
#include "dataio/pipeline/transformer.h"
#include "dataio/transforms/transform.h"
#include "kernels/base/file.h"
#include "kernels/base/text.h"
#include "kernels/device/device.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/checkpoint_state.h"
#include "trainer/engine/from_recipe.h"
#include "trainer/engine/resident.h"
#include "trainer/engine/state.h"

enum { LABELS_AT_ONCE = 4096, RECORDS_TO_ASK = 16 };

// ---- Data sets ----

// Whether the records are of the kind that the task reads, by the first ones. Damaged records are
// left to the run, which may skip them.
static sr_status check_kind(const sr_task_desc *task, const char *path, sr_dataset *data) {
    const sr_transformer *transformer;
    char name[300];
    SR_TRY(sr_transformer_find(task->transformer, &transformer));
    sr_kept_error refused = {.status = SR_OK};
    for (int64_t i = 0; i < RECORDS_TO_ASK && i < sr_dataset_count(data); i++) {
        const void *record;
        size_t bytes;
        if (!transformer->check || sr_dataset_read(data, i, &record, &bytes) != SR_OK)
            continue;
        const sr_status status = transformer->check(record, bytes);
        if (status == SR_OK)
            return SR_OK;
        if (refused.status == SR_OK) {
            sr_error_prefix("%s: task %s cannot be trained on it: %s", path, task->name,
                            sr_dataset_sample_name(data, i, name));
            sr_error_keep(&refused, status);
        }
    }
    return sr_error_restore(&refused);
}

// Opens the split of a packed data set that 'key' of the recipe names.
static sr_status open_split(sr_recipe *recipe, const sr_task_desc *task, const char *key,
                            const char *path, const char *split, sr_dataset **out) {
    if (!sr_path_exists(path))
        return sr_recipe_fail(
            recipe, key, "%s does not exist; pack your pictures first: serried pack PICTURES %s",
            path, path);
    sr_dataset *data;
    SR_TRY(sr_dataset_open(path, split, &data));
    const sr_status status = check_kind(task, path, data);
    if (status == SR_OK)
        *out = data;
    else
        sr_dataset_free(data);
    return status;
}

static sr_status take_class_names(sr_inputs *in) {
    in->class_count = sr_dataset_class_count(in->train);
    const char **names = sr_alloc_array((size_t)in->class_count + 1, sizeof *names, "class names");
    if (!names)
        return SR_E_MEMORY;
    for (int i = 0; i < in->class_count; i++)
        names[i] = sr_dataset_class_name(in->train, i);
    in->class_names = names;
    SR_TRY(sr_checkpoint_check_classes(names, in->class_count)); // not hours later
    in->class_sizes =
        sr_alloc_array((size_t)in->class_count + 1, sizeof *in->class_sizes, "class sizes");
    if (!in->class_sizes)
        return SR_E_MEMORY;
    sr_dataset_class_sizes(in->train, in->class_sizes);
    return SR_OK;
}

// Rank 0 reads in pieces that take less time than the other ranks' deadline.
static sr_status read_piece(sr_comm *comm, sr_inputs *in, int64_t first, int64_t count) {
    sr_kept_error kept = {.status = SR_OK};
    if (sr_comm_rank(comm) == 0)
        sr_error_keep(&kept, sr_dataset_read_labels(in->train, first, count, in->labels + first));
    int32_t failed = kept.status != SR_OK;
    SR_TRY(sr_comm_broadcast(comm, 0, &failed, sizeof failed, "rank 0 to read labels"));
    SR_TRY(sr_error_restore(&kept));
    if (failed)
        return SR_FAIL(SR_E_DATA, "rank 0 cannot read the classes of all samples");
    return sr_comm_broadcast(comm, 0, in->labels + first, (size_t)count * sizeof *in->labels,
                             "labels");
}

sr_status sr_inputs_read_labels(const sr_recipe *recipe, sr_comm *comm, sr_inputs *in) {
    if (!(recipe->data.balance > 0))
        return SR_OK;
    in->labels = sr_alloc_array((size_t)in->count, sizeof *in->labels, "labels");
    if (!in->labels)
        return SR_E_MEMORY;
    for (int64_t first = 0; first < in->count; first += LABELS_AT_ONCE) {
        const int64_t left = in->count - first;
        SR_TRY(read_piece(comm, in, first, left < LABELS_AT_ONCE ? left : LABELS_AT_ONCE));
    }
    return SR_OK;
}

void sr_inputs_describe_draws(const sr_recipe *recipe, const sr_inputs *in, sr_text *out) {
    double *shares = sr_alloc_array((size_t)in->class_count + 1, sizeof *shares, "class sizes");
    if (!shares || !in->class_sizes || !(recipe->data.balance > 0)) {
        sr_free(shares);
        return;
    }
    sr_class_shares(in->class_sizes, in->class_count, recipe->data.balance, shares);
    sr_text_add(out, "samples of a class     data set     an epoch\n");
    for (int c = 0; c < in->class_count; c++) {
        sr_text name;
        sr_text_init(&name);
        sr_text_add_visible(&name, in->class_names[c]);
        sr_text_add(out, "  %-20s %10lld %12.1f\n", name.data, (long long)in->class_sizes[c],
                    shares[c] * (double)in->count);
        sr_text_release(&name);
    }
    sr_free(shares);
}

sr_status sr_inputs_check_classes(const sr_dataset *data, const char *path,
                                  const char *const *names, int count, const char *whose) {
    const int classes = sr_dataset_class_count(data);
    for (int i = 0; i < classes && i < count; i++) {
        const char *theirs = sr_dataset_class_name(data, i);
        if (strcmp(theirs, names[i]) != 0)
            return SR_FAIL(SR_E_USAGE, "%s: class %d is '%s', in %s it is '%s'", path, i, theirs,
                           whose, names[i]);
    }
    if (classes == count)
        return SR_OK;
    return SR_FAIL(SR_E_USAGE, "%s has %d class%s, %s %d", path, classes, classes == 1 ? "" : "es",
                   whose, count);
}

sr_status sr_inputs_agree_on_val(sr_comm *comm, const char *identity) {
    typedef char identity_text[sizeof((sr_inputs *)0)->val_identity];
    const int ranks = sr_comm_size(comm);
    identity_text own = "", *all = sr_alloc_array((size_t)ranks, sizeof *all, "val splits");
    if (!all)
        return SR_E_MEMORY;
    (void)snprintf(own, sizeof own, "%s", identity);
    sr_status status =
        sr_comm_all_gather(comm, own, sizeof own, all, "all ranks to compare their val splits");
    for (int r = 1; r < ranks && status == SR_OK; r++) {
        const bool has = all[r][0] != '\0', first_has = all[0][0] != '\0';
        if (strcmp(all[r], all[0]) != 0) {
            status = SR_FAIL(SR_E_USAGE, "rank %d (%s) has %s; give all ranks the same data", r,
                             sr_comm_peer_name(comm, r),
                             !has         ? "no val split, and rank 0 has one"
                             : !first_has ? "a val split, and rank 0 has none"
                                          : "a different val split from rank 0's");
        }
    }
    sr_free(all);
    return status;
}

sr_status sr_inputs_measure(sr_recipe *recipe, const sr_task_desc *task, sr_dataset *data,
                            sr_eval_extent *out) {
    sr_eval_view view;
    sr_arena arena;
    const void *options;
    sr_arena_init(&arena);
    sr_status status = sr_choose_task_options(recipe, task, &arena, &options);
    if (status == SR_OK) {
        task->view(recipe, options, &view);
        status = sr_eval_view_measure(&view, data, out);
    }
    sr_arena_release(&arena);
    return status;
}

static sr_status open_val(sr_recipe *recipe, const sr_task_desc *task, const char *path,
                          const char *key, sr_inputs *in) {
    sr_dataset *data = NULL;
    SR_TRY(open_split(recipe, task, key, path, "val", &data));
    sr_status status =
        sr_inputs_check_classes(data, path, in->class_names, in->class_count, recipe->data.train);
    if (status != SR_OK) {
        char difference[512];
        (void)snprintf(difference, sizeof difference, "%s", sr_error_message());
        status =
            sr_recipe_fail(recipe, key, "%s; pack both splits with the same classes", difference);
    }
    if (status == SR_OK) {
        (void)snprintf(in->val_path, sizeof in->val_path, "%s", path);
        (void)snprintf(in->val_identity, sizeof in->val_identity, "%s", sr_dataset_identity(data));
        in->val_count = sr_dataset_count(data);
        status = sr_inputs_measure(recipe, task, data, &in->val_extent);
    }
    sr_dataset_free(data);
    return status;
}

sr_status sr_inputs_open(sr_recipe *recipe, const sr_task_desc *task, sr_inputs *out) {
    const char *train = recipe->data.train, *val = recipe->data.val;
    *out = (sr_inputs){0};
    if (!train)
        return sr_recipe_fail(recipe, "data.train",
                              "data.train is missing: give a folder that 'serried pack' wrote");
    SR_TRY(open_split(recipe, task, "data.train", train, "train", &out->train));
    out->count = sr_dataset_count(out->train);
    (void)snprintf(out->identity, sizeof out->identity, "%s", sr_dataset_identity(out->train));
    SR_TRY(take_class_names(out));
    if (!task->metrics)
        return SR_OK;
    if (val)
        return open_val(recipe, task, val, "data.val", out);
    if (sr_dataset_has_split(train, "val"))
        return open_val(recipe, task, train, "data.train", out);
    return recipe->stop.patience == 0
               ? SR_OK
               : sr_recipe_fail(recipe, "stop.patience",
                                "%s has no val split, so nothing is evaluated: give data.val",
                                train);
}

void sr_inputs_release(sr_inputs *in) {
    union {
        const char *const *in;
        void *out;
    } names = {.in = in->class_names};
    sr_free(names.out);
    sr_free(in->class_sizes);
    sr_free(in->labels);
    sr_dataset_free(in->train);
    *in = (sr_inputs){0};
}

// ---- Initial weights ----

static sr_status load_file(sr_recipe *recipe, sr_engine *engine, const sr_recipe_weights *weights,
                           const char *const *names, int count, bool report) {
    sr_safetensors *file;
    SR_TRY(sr_checkpoint_open_weights(weights->path, &file));
    const sr_string_list *reset = &recipe->weights_reset;
    sr_status status = SR_OK;
    if (sr_task_has_classes(sr_engine_get_info(engine).task) && reset->count == 0 && !weights->part)
        status = sr_state_check_classes(file, names, count);
    if (status == SR_OK)
        status = report ? sr_state_load_weights(engine, file, weights->part, reset)
                        : sr_state_try_weights(engine, file, weights->part, reset);
    sr_safetensors_free(file);
    if (status != SR_E_USAGE || !weights->part)
        return status;
    char message[900];
    (void)snprintf(message, sizeof message, "%s", sr_error_message());
    return sr_recipe_fail(recipe, weights->key, "%s", message);
}

static sr_status load_weights(sr_recipe *recipe, sr_engine *engine, const char *const *names,
                              int count, bool report) {
    for (int i = 0; i < recipe->weights_count; i++)
        SR_TRY(load_file(recipe, engine, &recipe->weights[i], names, count, report));
    return SR_OK;
}

sr_status sr_inputs_try_weights(sr_recipe *recipe, sr_engine *engine, const char *const *names,
                                int count) {
    return load_weights(recipe, engine, names, count, false);
}

sr_status sr_inputs_load_weights(sr_recipe *recipe, sr_engine *engine, const char *const *names,
                                 int count) {
    return load_weights(recipe, engine, names, count, true);
}

// ---- Length and memory ----

sr_status sr_inputs_lengths(sr_recipe *r, int64_t count, int64_t *steps, sr_schedule_lengths *out) {
    const double samples =
        r->steps ? (double)r->steps * (double)r->batch : r->epochs * (double)count;
    if (samples > (double)SR_MOST_SAMPLES) {
        return sr_recipe_fail(
            r, r->steps ? "steps" : "epochs",
            "the recipe trains on %.3g samples, but a run has at most %.3g: lower "
            "%s",
            samples, (double)SR_MOST_SAMPLES, r->steps ? "steps" : "epochs");
    }
    *steps = (int64_t)ceil(samples / (double)r->batch);
    *out = (sr_schedule_lengths){.total = *steps * r->batch, .epoch = count, .batch = r->batch};
    if (*steps >= 1)
        return SR_OK;
    return sr_recipe_fail(r, "epochs",
                          "the recipe trains for 0 steps: raise epochs, or give steps");
}

// ---- Spans of transforms ----

// The position of the first step at or after the length.
static int64_t position_of(sr_length length, const sr_schedule_lengths *lengths) {
    const double batch = (double)lengths->batch,
                 samples = ceil(sr_length_samples(length, lengths) / batch) * batch;
    return samples < (double)SR_MOST_SAMPLES ? (int64_t)samples : SR_MOST_SAMPLES;
}

static sr_status rehearse_at(sr_recipe *r, const sr_transform_chain *chain,
                             const sr_image_growth *growth, int64_t position) {
    const int64_t width = sr_image_side_at(growth, r->image_width, position);
    const sr_status status = sr_transform_chain_rehearse(
        chain, position, growth->from > 0 ? width : r->image_height, width);
    if (status != SR_E_SHAPE)
        return status;
    char message[512];
    (void)snprintf(message, sizeof message, "%s", sr_error_message());
    return sr_recipe_fail(r, "augment", "%s", message);
}

// Rehearses at the start and wherever the list of transforms or the size changes.
static sr_status rehearse(sr_recipe *r, const sr_transform_chain *chain,
                          const sr_image_growth *growth, const sr_transform_window *windows) {
    const int64_t sides = sr_image_side_count(growth, r->image_width);
    SR_TRY(rehearse_at(r, chain, growth, 0));
    for (int i = 0; i < r->augment_count; i++) {
        SR_TRY(rehearse_at(r, chain, growth, windows[i].begin));
        SR_TRY(rehearse_at(r, chain, growth, windows[i].end));
    }
    for (int64_t i = 1; i < sides; i++) {
        const double done = (double)i / (double)(sides - 1);
        SR_TRY(
            rehearse_at(r, chain, growth,
                        growth->begin + (int64_t)((double)(growth->end - growth->begin) * done)));
    }
    return SR_OK;
}

static sr_status check_chain(sr_recipe *r, const sr_schedule_lengths *lengths,
                             const sr_transform_window *windows) {
    const sr_image_growth growth = sr_choose_growth(r, lengths);
    sr_transform_chain *chain;
    SR_TRY(sr_transform_chain_create(r->augment, r->augment_count, &chain));
    sr_transform_chain_limit(chain, windows);
    const sr_status status = rehearse(r, chain, &growth, windows);
    sr_transform_chain_free(chain);
    return status;
}

sr_status sr_inputs_windows(sr_recipe *r, const sr_schedule_lengths *lengths, sr_arena *arena,
                            const sr_transform_window **out) {
    sr_transform_window *windows =
        sr_arena_alloc(arena, ((size_t)r->augment_count + 1) * sizeof *windows);
    char path[32];
    bool limited = false;
    *out = NULL;
    if (!windows)
        return SR_E_MEMORY;
    for (int i = 0; i < r->augment_count; i++) {
        const sr_recipe_span *span = &r->augment_spans[i];
        const sr_transform_window w = {position_of(span->from, lengths),
                                       position_of(span->until, lengths)};
        windows[i] = w;
        limited = limited || w.begin > 0 || w.end > 0;
        (void)snprintf(path, sizeof path, "augment[%d]", i);
        if (w.begin >= lengths->total || (w.end > 0 && w.end <= w.begin))
            return sr_recipe_fail(r, path, "%s is never applied: it begins at sample %lld, and %s",
                                  r->augment[i].name, (long long)w.begin,
                                  w.end > 0 ? "ends before" : "the run is shorter");
    }
    if (!limited && r->progressive.from == 0)
        return SR_OK;
    *out = windows;
    return check_chain(r, lengths, windows);
}

// The memory of a device that its ranks may use: what is free, and what they use already. Adds the
// number to the text, for messages.
static uint64_t usable_memory(sr_device *device, int sharing, char out[128]) {
    const sr_device_properties *p = sr_device_get_properties(device);
    sr_device_memory memory;
    char left[16], total[16];
    if (!sr_device_get_memory(device, &memory)) {
        (void)sr_text_bytes(p->memory, out);
        return p->memory;
    }
    const uint64_t usable = memory.available + (uint64_t)sharing * memory.own;
    (void)snprintf(out, 128, "%s of %s (libraries and other processes have the rest)",
                   sr_text_bytes(usable, left), sr_text_bytes(memory.total, total));
    return usable;
}

// Bytes of a rank's parameters and optimiser state.
static uint64_t measure_state(sr_engine *engine) {
    uint64_t state = 0;
    for (int s = 0; s < sr_engine_get_info(engine).sets; s++) {
        const sr_param_set_info set = sr_param_set_get_info(sr_engine_get_set(engine, s));
        state += (uint64_t)set.elements * (uint64_t)set.arrays * sizeof(float);
        state += (uint64_t)set.scratch * sizeof(float);
    }
    return state;
}

static sr_status plan_resident(sr_recipe *r, const sr_pipeline_options *options,
                               const sr_device *device, sr_inputs *in) {
    enum { SHARE = 16 }; // of the device's memory, at most, that pictures take unasked
    const sr_device_properties *d = sr_device_get_properties(device);
    in->resident = 0;
    if (r->data.resident == SR_RESIDENT_NEVER)
        return SR_OK;
    SR_TRY(sr_resident_measure(options, in->count, &in->resident));
    if (r->data.resident == SR_RESIDENT_AUTO && (d->unified || in->resident > d->memory / SHARE))
        in->resident = 0;
    if (in->resident > 0 || r->data.resident == SR_RESIDENT_AUTO)
        return SR_OK;
    return sr_recipe_fail(
        r, "data.resident",
        "training pictures stay on the device only where a task reads pictures and classes alone, "
        "augmentation only crops, mirrors and pads pictures that have the image's size, and "
        "neither data.balance nor progressive.from is set");
}

sr_status sr_inputs_plan_data(sr_recipe *r, const sr_task_desc *task,
                              const sr_schedule_lengths *lengths, const sr_device *device,
                              sr_arena *arena, sr_inputs *in, sr_pipeline_options *out) {
    const sr_transform_window *windows;
    SR_TRY(sr_inputs_windows(r, lengths, arena, &windows));
    *out = sr_pipeline_options_of(r, task, NULL);
    out->identity = in->identity;
    out->windows = windows;
    out->growth = sr_choose_growth(r, lengths);
    out->labels = in->labels;
    return plan_resident(r, out, device, in);
}

sr_status sr_inputs_check_memory(sr_engine *engine, const sr_inputs *in, int ranks) {
    const sr_engine_info e = sr_engine_get_info(engine);
    const sr_device_properties *device = sr_device_get_properties(e.device);
    const int sharing = (ranks + device->count - 1) / device->count; // ranks of the fullest device
    uint64_t activations;
    sr_evaluation_needs evaluation;
    char need[16], lane[16], have[128];
    const uint64_t state = measure_state(engine) + in->resident;
    const uint64_t usable = usable_memory(e.device, sharing, have);
    const uint64_t share = usable / (uint64_t)sharing;
    SR_TRY(sr_engine_fit_lanes(engine, share > state ? share - state : 0, &activations));
    const uint64_t all = (uint64_t)sharing * (activations * (uint64_t)e.executors + state);
    if (all > usable) {
        return sr_recipe_fail(
            e.recipe, "batch",
            "a step needs %s of memory, but %s has %s: the activations of a lane of %" PRId64
            " samples take %s, %d lane%s at a time; lower batch, or raise lanes (changes BatchNorm "
            "and results)",
            sr_text_bytes(all, need), device->memory_owner, have, e.lane_samples,
            sr_text_bytes(activations, lane), sharing * e.executors,
            sharing * e.executors == 1 ? "" : "s");
    }
    SR_TRY(sr_inputs_check_evaluation(engine, in, &evaluation));
    // One executor evaluates, in memory of its own that grows.
    const uint64_t grown =
        evaluation.activations > activations ? evaluation.activations - activations : 0;
    const uint64_t slots = device->unified ? (uint64_t)ranks * evaluation.slots : 0;
    if (all + (uint64_t)sharing * grown + slots <= usable)
        return SR_OK;
    return sr_recipe_fail(
        e.recipe, "eval.batch",
        "an evaluation needs %s of memory, but %s has %s: the activations of a lane of %" PRId64
        " samples take %s, the pictures of two steps %s; lower eval.batch",
        sr_text_bytes(all + (uint64_t)sharing * grown + slots, need), device->memory_owner, have,
        e.recipe->eval.batch / e.lanes, sr_text_bytes(evaluation.activations, lane),
        sr_text_bytes((uint64_t)ranks * evaluation.slots, (char[16]){0}));
}
