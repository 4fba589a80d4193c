// SPDX-License-Identifier: Apache-2.0
// Describes a checkpoint as text and as JSON.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "trainer/checkpoint/checkpoint_internal.h"

// -- describe --------------------------------------------------------------------------------

static void add_row(sr_text *out, const char *label, const char *value) {
    if (value != NULL && value[0] != 0)
        sr_text_add(out, "  %-14s %s\n", label, value);
}

static void add_channels(sr_text *out, const char *label, const double *values, int count) {
    if (count == 0)
        return;
    sr_text_add(out, "  %-14s", label);
    for (int i = 0; i < count; ++i)
        sr_text_add(out, " %.6g", values[i]);
    sr_text_add(out, "\n");
}

static void add_classes(sr_text *out, const sr_manifest *m) {
    if (m->class_count == 0)
        return;
    sr_text_add(out, "  %-14s %d:", "classes", m->class_count);
    int shown = m->class_count < 12 ? m->class_count : 12;
    for (int i = 0; i < shown; ++i) {
        sr_text_add(out, " ");
        sr_text_add_visible(out, m->classes[i]);
        sr_text_add(out, i + 1 < m->class_count ? "," : "");
    }
    sr_text_add(out, shown < m->class_count ? " ...\n" : "\n");
}

static void add_manifest(sr_text *out, const char *folder, const sr_manifest *m) {
    sr_text_add(out, "checkpoint %s\n", folder);
    add_row(out, "model", m->model);
    add_row(out, "task", m->task);
    add_row(out, "recipe", m->recipe);
    sr_text_add(out,
                "  %-14s %" PRId64 " (step %" PRId64 ", epoch %" PRId64 ", %" PRId64 " samples)\n",
                "generation", m->generation, m->step, m->epoch, m->position);
    sr_text_add(out, "  %-14s %" PRId64 " in %d lane%s, seed %" PRIu64 ", written by %d rank%s\n",
                "batch", m->batch, m->lanes, m->lanes == 1 ? "" : "s", m->seed, m->ranks,
                m->ranks == 1 ? "" : "s");
    if (m->image_height > 0)
        sr_text_add(out, "  %-14s %" PRId64 " x %" PRId64 "\n", "image", m->image_height,
                    m->image_width);
    if (m->metric[0] != 0 && !isnan(m->metric_value))
        sr_text_add(out, "  %-14s %s %.6g, best %.6g at step %" PRId64 "\n", "metric", m->metric,
                    m->metric_value, m->best_value, m->best_step);
    add_channels(out, "mean", m->mean, m->channels);
    add_channels(out, "std", m->std, m->channels);
    add_classes(out, m);
    add_row(out, "digest", m->digest);
    add_row(out, "identity", m->recipe_identity);
    add_row(out, "data", m->data_identity);
    add_row(out, "numerics", m->fingerprint);
    for (int i = 0; i < m->extra_count; ++i)
        add_row(out, m->extra[i].key, m->extra[i].value);
}

static void add_tensor(sr_text *out, const sr_stored_tensor *tensor) {
    sr_text_add(out, "    %-44s %-5s [", tensor->name, sr_dtype_name(tensor->dtype));
    for (int d = 0; d < tensor->rank; ++d)
        sr_text_add(out, "%s%" PRId64, d > 0 ? ", " : "", tensor->shape[d]);
    sr_text_add(out, "]\n");
}

// A checkpoint's weights file and its number of elements; NULL if it has none of this kind.
static sr_status open_weights(sr_checkpoint *checkpoint, sr_weights_kind kind,
                              sr_safetensors **file, int64_t *elements) {
    *file = NULL;
    *elements = 0;
    if (!sr_checkpoint_has_weights(checkpoint, kind))
        return SR_OK;
    SR_TRY(sr_checkpoint_weights(checkpoint, kind, file));
    for (int i = 0; i < sr_safetensors_count(*file); ++i)
        *elements += sr_stored_elements(sr_safetensors_get(*file, i));
    return SR_OK;
}

static sr_status add_weights(sr_text *out, sr_checkpoint *checkpoint, sr_weights_kind kind,
                             bool tensors) {
    sr_safetensors *file;
    int64_t elements;
    SR_TRY(open_weights(checkpoint, kind, &file, &elements));
    if (file == NULL)
        return SR_OK;
    sr_text_add(out, "  %s: %d tensor%s, %" PRId64 " elements\n", sr_weights_file_name(kind),
                sr_safetensors_count(file), sr_safetensors_count(file) == 1 ? "" : "s", elements);
    for (int i = 0; tensors && i < sr_safetensors_count(file); ++i)
        add_tensor(out, sr_safetensors_get(file, i));
    return SR_OK;
}

sr_status sr_checkpoint_describe(const char *path, bool tensors, sr_text *out) {
    const sr_checkpoint_open_options options = {.no_verify = true};
    sr_checkpoint *checkpoint;
    const sr_state_info *states;
    int count;
    SR_TRY(sr_checkpoint_open(path, &options, &checkpoint));
    add_manifest(out, sr_checkpoint_folder(checkpoint), sr_checkpoint_manifest(checkpoint));
    sr_status status = add_weights(out, checkpoint, SR_WEIGHTS_MODEL, tensors);
    if (status == SR_OK)
        status = add_weights(out, checkpoint, SR_WEIGHTS_EMA, false);
    if (status == SR_OK)
        status = sr_checkpoint_states(checkpoint, &states, &count);
    if (status == SR_OK) {
        for (int i = 0; i < count; ++i)
            sr_text_add(out, "  optimiser state %s: %" PRId64 " elements of %s\n", states[i].name,
                        states[i].elements, sr_dtype_name(states[i].dtype));
        status = sr_text_check(out);
    }
    sr_checkpoint_free(checkpoint);
    return status;
}

// -- as JSON ---------------------------------------------------------------------------------

static void add_member(sr_text *out, const char *name, const char *value) {
    sr_text_add_json_string_member(out, name, value == NULL ? "" : value);
}

static void add_numbers(sr_text *out, const char *name, const double *values, int count) {
    sr_text_add(out, ", \"%s\": [", name);
    for (int i = 0; i < count; ++i) {
        sr_text_add(out, i > 0 ? ", " : "");
        sr_text_add_json_number(out, values[i]);
    }
    sr_text_add(out, "]");
}

static void add_manifest_json(sr_text *out, const sr_manifest *m) {
    add_member(out, "task", m->task);
    add_member(out, "model", m->model);
    add_member(out, "recipe", m->recipe);
    sr_text_add(out,
                ", \"generation\": %" PRId64 ", \"step\": %" PRId64 ", \"epoch\": %" PRId64
                ", \"samples\": %" PRId64 ", \"batch\": %" PRId64
                ", \"lanes\": %d, \"seed\": %" PRIu64 ", \"ranks\": %d, \"image\": [%" PRId64
                ", %" PRId64 "]",
                m->generation, m->step, m->epoch, m->position, m->batch, m->lanes, m->seed,
                m->ranks, m->image_height, m->image_width);
    add_member(out, "metric", m->metric);
    sr_text_add_json_number_member(out, "metric_value", m->metric_value);
    sr_text_add_json_number_member(out, "best_value", m->best_value);
    sr_text_add(out, ", \"best_step\": %" PRId64, m->best_step);
    add_numbers(out, "mean", m->mean, m->channels);
    add_numbers(out, "std", m->std, m->channels);
    add_member(out, "digest", m->digest);
    add_member(out, "identity", m->recipe_identity);
    add_member(out, "data", m->data_identity);
    add_member(out, "numerics", m->fingerprint);
    sr_text_add(out, ", \"classes\": [");
    for (int i = 0; i < m->class_count; ++i) {
        sr_text_add(out, i > 0 ? ", " : "");
        sr_text_add_json_string(out, m->classes[i]);
    }
    sr_text_add(out, "]");
}

static sr_status add_weights_json(sr_text *out, sr_checkpoint *checkpoint, sr_weights_kind kind,
                                  bool first) {
    sr_safetensors *file;
    int64_t elements;
    SR_TRY(open_weights(checkpoint, kind, &file, &elements));
    if (file == NULL)
        return SR_OK;
    sr_text_add(out, "%s{\"file\": \"%s\", \"tensors\": %d, \"elements\": %" PRId64 "}",
                first ? "" : ", ", sr_weights_file_name(kind), sr_safetensors_count(file),
                elements);
    return SR_OK;
}

static sr_status add_files_json(sr_text *out, sr_checkpoint *checkpoint) {
    const sr_state_info *states;
    int count;
    sr_text_add(out, ", \"weights\": [");
    SR_TRY(add_weights_json(out, checkpoint, SR_WEIGHTS_MODEL, true));
    SR_TRY(add_weights_json(out, checkpoint, SR_WEIGHTS_EMA, false));
    SR_TRY(sr_checkpoint_states(checkpoint, &states, &count));
    sr_text_add(out, "], \"optimizer\": [");
    for (int i = 0; i < count; ++i) {
        sr_text_add(out, "%s{\"slot\": ", i > 0 ? ", " : "");
        sr_text_add_json_string(out, states[i].name);
        sr_text_add(out, ", \"dtype\": \"%s\", \"elements\": %" PRId64 "}",
                    sr_dtype_name(states[i].dtype), states[i].elements);
    }
    sr_text_add(out, "]");
    return SR_OK;
}

sr_status sr_checkpoint_describe_json(const char *path, sr_text *out) {
    const sr_checkpoint_open_options options = {.no_verify = true};
    sr_checkpoint *checkpoint;
    SR_TRY(sr_checkpoint_open(path, &options, &checkpoint));
    sr_text_add(out, "{\"path\": ");
    sr_text_add_json_string(out, path);
    sr_text_add(out, ", \"kind\": \"checkpoint\"");
    add_member(out, "folder", sr_checkpoint_folder(checkpoint));
    add_manifest_json(out, sr_checkpoint_manifest(checkpoint));
    sr_status status = add_files_json(out, checkpoint);
    sr_text_add(out, "}\n");
    sr_checkpoint_free(checkpoint);
    return status == SR_OK ? sr_text_check(out) : status;
}
