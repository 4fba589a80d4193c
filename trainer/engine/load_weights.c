// SPDX-License-Identifier: Apache-2.0
// Loads weights files (load_weights.h). Only the numbers of a tensor are used: the model decides
// which tensors exist and what shapes they have.
#include "trainer/engine/load_weights.h"

#include <string.h>

#include "trainer/engine/param_set.h"
#include "trainer/models/attention_layers.h"

// A model of the file: its values, and the names that the file's layout has for its tensors.
typedef struct weights_model {
    sr_model_values values;
    int layout;
    char **names; // of parameters, counters and tables
} weights_model;

// Tensors, the first few by name.
typedef struct name_list {
    sr_text text;
    int count;
} name_list;

enum { LISTED = 8 };

typedef struct weights_load {
    sr_safetensors *file;
    const sr_string_list *reset;
    sr_arena arena;
    name_list missing, mismatched, unexpected;
    sr_text resized;
    int loaded;
} weights_load;

static void list_name(name_list *list, const char *name) {
    if (list->count++ < LISTED)
        sr_text_add(&list->text, " %s", name);
}

static void end_list(name_list *list) {
    if (list->count > LISTED)
        sr_text_add(&list->text, " and %d more", list->count - LISTED);
}

// ---- Names ----

// The name of 'name', one of the model's, in a layout.
static char *name_in(weights_load *load, const sr_model *model, int layout, const char *name) {
    char core[SR_WEIGHT_NAME_BYTES];
    const sr_weight_names *names = model->desc->names;
    const size_t prefix = model->prefix_length;
    if (!names)
        return sr_arena_strdup(&load->arena, name);
    sr_weight_name(names, model->desc->layout, layout, name + prefix, core);
    char *full = sr_arena_alloc(&load->arena, prefix + strlen(core) + 1);
    if (full) {
        memcpy(full, name, prefix);
        memcpy(full + prefix, core, strlen(core) + 1);
    }
    return full;
}

static int name_count(const sr_model *model) {
    return model->param_count + model->counter_count + model->table_count;
}

static const char *own_name(const sr_model *model, int i) {
    const int counter = i - model->param_count, table = counter - model->counter_count;
    if (counter < 0)
        return model->params[i].name;
    return table < 0 ? model->counters[counter] : model->tables[table].name;
}

// Names of all tensors in a layout; *found: how many parameters the file has. NULL: no memory.
static char **names_in(weights_load *load, const sr_model *model, int layout, int *found) {
    char **names = sr_arena_alloc(&load->arena, ((size_t)name_count(model) + 1) * sizeof *names);
    *found = 0;
    for (int i = 0; names && i < name_count(model); i++) {
        names[i] = name_in(load, model, layout, own_name(model, i));
        if (!names[i])
            return NULL;
        *found += i < model->param_count && sr_safetensors_find(load->file, names[i]) != NULL;
    }
    return names;
}

// The model's own layout, unless the file has more tensors of another one.
static sr_status find_layout(weights_load *load, weights_model *m) {
    const sr_model *model = m->values.model;
    const sr_weight_names *table = model->desc->names;
    int most;
    m->layout = model->desc->layout;
    m->names = names_in(load, model, m->layout, &most);
    for (int i = 0; table && i < SR_WEIGHT_LAYOUTS && table->layout[i] && m->names; i++) {
        int found;
        char **names = names_in(load, model, i, &found);
        if (!names || found > most) {
            m->names = names;
            m->layout = i;
            most = found;
        }
    }
    return m->names ? SR_OK : SR_E_MEMORY;
}

static bool has_name(const weights_model *m, const char *name) {
    for (int i = 0; i < name_count(m->values.model); i++)
        if (strcmp(m->names[i], name) == 0)
            return true;
    return false;
}

static void find_unexpected(weights_load *load, const weights_model *models, int count) {
    for (int k = 0; k < sr_safetensors_count(load->file); k++) {
        const char *name = sr_safetensors_get(load->file, k)->name;
        bool known = false;
        for (int i = 0; i < count && !known; i++)
            known = has_name(&models[i], name);
        if (!known)
            list_name(&load->unexpected, name);
    }
}

// ---- Values ----

static bool may_differ(const sr_string_list *reset, const char *name) {
    for (size_t i = 0; reset && i < reset->count; i++) {
        size_t n = strlen(reset->items[i]);
        if (strncmp(name, reset->items[i], n) == 0 && (name[n] == '\0' || name[n] == '.'))
            return true;
    }
    return false;
}

// The extents that are not 1, in order.
static int long_extents(const int64_t *shape, int rank, int64_t *out) {
    int count = 0;
    for (int i = 0; i < rank; i++)
        if (shape[i] != 1)
            out[count++] = shape[i];
    return count;
}

// Whether the stored tensor is a convolution over a whole feature map where the model has a linear
// layer on the flattened map: the same values in the same order.
static bool is_whole_map(const sr_param *p, const sr_stored_tensor *t) {
    return p->info.rank == 2 && t->rank == 4 && t->shape[0] == p->info.dim[0] &&
           sr_stored_elements(t) == sr_info_count(&p->info);
}

static bool same_shape(const sr_param *p, const sr_stored_tensor *t) {
    int64_t own[SR_MAX_RANK], stored[SR_SAFETENSORS_MAX_RANK];
    const int count = long_extents(p->info.dim, p->info.rank, own);
    return long_extents(t->shape, t->rank, stored) == count &&
           memcmp(own, stored, (size_t)count * sizeof *own) == 0;
}

// Reads a tensor as f32; bf16 and f16 are widened.
static sr_status read_floats(sr_safetensors *file, const sr_stored_tensor *t, int64_t count,
                             float *out) {
    if (t->dtype == SR_F32)
        return sr_safetensors_read(file, t, 0, count, out);
    if (t->dtype != SR_BF16 && t->dtype != SR_F16)
        return SR_FAIL(SR_E_DATA, "%s: tensor %s is %s; f32, bf16 or f16 is needed",
                       sr_safetensors_path(file), t->name, sr_dtype_name(t->dtype));
    uint16_t *narrow = sr_alloc_array((size_t)count, sizeof *narrow, "weights");
    if (!narrow)
        return SR_E_MEMORY;
    sr_status status = sr_safetensors_read(file, t, 0, count, narrow);
    for (int64_t i = 0; status == SR_OK && i < count; i++)
        out[i] = t->dtype == SR_BF16 ? sr_bf16_to_f32(narrow[i]) : sr_f16_to_f32(narrow[i]);
    sr_free(narrow);
    return status;
}

// The side of the square grid that a stored tensor has instead of the parameter's; 0: none.
static int grid_side(const sr_param *p, const sr_stored_tensor *t) {
    if (p->grid.height == 0 || t->rank != 3 || t->shape[0] != 1 || t->shape[2] != p->info.dim[2])
        return 0;
    const int64_t cells = t->shape[1] - p->grid.before;
    int side = 0;
    while (side < 1 << 15 && (int64_t)side * side < cells)
        side++;
    return (int64_t)side * side == cells ? side : 0;
}

static sr_status resize(const sr_param *p, const sr_info *info, sr_grid from, const float *stored,
                        float *out) {
    const sr_context_options options = {.device = "cpu", .threads = 1};
    sr_context *context;
    SR_TRY(sr_context_create(&options, &context));
    sr_context_begin_step(context);
    sr_tensor x = sr_constant(context, info, stored);
    x = sr_layer_resize_grid(x, from, p->grid.height, p->grid.width);
    const sr_status status = sr_read(x, out, (size_t)sr_info_count(&p->info) * sizeof *out);
    sr_context_free(context);
    return status;
}

static sr_status load_resized(weights_load *load, const weights_model *m, const sr_param *p,
                              const sr_stored_tensor *t, int side, float *out) {
    const sr_weight_names *names = m->values.model->desc->names;
    const sr_grid from = {.before = p->grid.before,
                          .height = side,
                          .width = side,
                          .antialias = names && names->antialias[m->layout]};
    const int64_t count = sr_stored_elements(t);
    const sr_info info = {.dtype = SR_F32, .rank = 3, .dim = {1, t->shape[1], t->shape[2]}};
    float *stored = sr_alloc_array((size_t)count, sizeof *stored, "weights");
    if (!stored)
        return SR_E_MEMORY;
    sr_status status = read_floats(load->file, t, count, stored);
    if (status == SR_OK)
        status = resize(p, &info, from, stored, out);
    sr_free(stored);
    sr_text_add(&load->resized, "; %s resized from %d x %d to %d x %d", p->name, side, side,
                p->grid.height, p->grid.width);
    return status;
}

static void note_absent(weights_load *load, const sr_param *p, bool exists) {
    if (!may_differ(load->reset, p->name))
        list_name(exists ? &load->mismatched : &load->missing, p->name);
}

static sr_status load_param(weights_load *load, const weights_model *m, int i) {
    const sr_param *p = &m->values.model->params[i];
    const sr_stored_tensor *t = sr_safetensors_find(load->file, m->names[i]);
    float *out = m->values.flat + p->offset;
    const bool foreign = m->layout != m->values.model->desc->layout;
    const bool same = t && (same_shape(p, t) || (foreign && is_whole_map(p, t)));
    const int side = t && !same ? grid_side(p, t) : 0;
    if (!same && side == 0) {
        note_absent(load, p, t != NULL);
        return SR_OK;
    }
    load->loaded++;
    return same ? read_floats(load->file, t, sr_info_count(&p->info), out)
                : load_resized(load, m, p, t, side, out);
}

static sr_status load_models(weights_load *load, const sr_model_values *models, int count) {
    weights_model *all = sr_arena_alloc(&load->arena, (size_t)count * sizeof *all);
    if (!all)
        return SR_E_MEMORY;
    for (int k = 0; k < count; k++) {
        all[k].values = models[k];
        SR_TRY(find_layout(load, &all[k]));
        for (int i = 0; i < models[k].model->param_count; i++)
            SR_TRY(load_param(load, &all[k], i));
        const sr_weight_names *names = models[k].model->desc->names;
        if (names)
            sr_text_add(&load->resized, "; names of %s", names->layout[all[k].layout]);
        if (names && names->note[all[k].layout])
            sr_text_add(&load->resized, ", %s", names->note[all[k].layout]);
    }
    find_unexpected(load, all, count);
    end_list(&load->missing);
    end_list(&load->mismatched);
    end_list(&load->unexpected);
    return SR_OK;
}

// ---- The report ----

static void write_report(const weights_load *load, sr_text *report) {
    sr_text_add(report, "%d tensor%s loaded, %d missing, %d unexpected%s, %d of another shape%s",
                load->loaded, load->loaded == 1 ? "" : "s", load->missing.count,
                load->unexpected.count, load->unexpected.text.data, load->mismatched.count,
                load->resized.data);
}

static sr_status check(const weights_load *load, const sr_text *report) {
    const sr_text *const texts[] = {report, &load->missing.text, &load->mismatched.text,
                                    &load->unexpected.text, &load->resized};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        SR_TRY(sr_text_check(texts[i]));
    if (load->missing.count + load->mismatched.count == 0)
        return SR_OK;
    return SR_FAIL(SR_E_USAGE,
                   "%s does not fit the model:%s%s%s%s; name what may differ in weights_reset",
                   sr_safetensors_path(load->file), load->missing.count ? " missing:" : "",
                   load->missing.text.data, load->mismatched.count ? " of another shape:" : "",
                   load->mismatched.text.data);
}

static sr_status check_finite(const sr_model_values *models, int count, const char *path) {
    for (int p = 0; p < count; p++) {
        const sr_param *param = sr_values_not_finite(models[p].model, models[p].flat, false);
        if (param)
            return SR_FAIL(SR_E_NON_FINITE,
                           "%s: tensor %s has values that are not finite, so the training that "
                           "wrote it diverged; give weights from before that",
                           path, param->name);
    }
    return SR_OK;
}

sr_status sr_weights_load(const sr_model_values *models, int count, sr_safetensors *file,
                          const sr_string_list *reset, sr_text *report) {
    weights_load load = {.file = file, .reset = reset};
    sr_arena_init(&load.arena);
    sr_text_init(&load.missing.text);
    sr_text_init(&load.mismatched.text);
    sr_text_init(&load.unexpected.text);
    sr_text_init(&load.resized);
    sr_status status = load_models(&load, models, count);
    if (status == SR_OK) {
        write_report(&load, report);
        status = check(&load, report);
    }
    if (status == SR_OK)
        status = check_finite(models, count, sr_safetensors_path(file));
    sr_text_release(&load.missing.text);
    sr_text_release(&load.mismatched.text);
    sr_text_release(&load.unexpected.text);
    sr_text_release(&load.resized);
    sr_arena_release(&load.arena);
    return status;
}
