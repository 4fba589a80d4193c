// SPDX-License-Identifier: Apache-2.0
// Loads weights files (load_weights.h). Only the numbers of a tensor are used: the model decides
// which tensors exist and what shapes they have.
#include "trainer/engine/load_weights.h"

#include <string.h>

#include "trainer/engine/param_set.h"
#include "trainer/models/attention_layers.h"

// A model of the file: its values, and the names that the file has for its tensors.
typedef struct weights_model {
    sr_model_values values;
    int top;      // the part that the file is of; -1: the whole model, with its prefix
    int *layouts; // of parts
    char **names; // of parameters, counters and tables; NULL: not of the file
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
    const char *part; // path of the part that the file is of; NULL: of the models
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

static int name_count(const sr_model *model) {
    return model->param_count + model->counter_count + model->table_count;
}

static const sr_name_origin *origin_of(const sr_model *model, int i) {
    const int counter = i - model->param_count, table = counter - model->counter_count;
    if (counter < 0)
        return &model->params[i].origin;
    return table < 0 ? &model->counters[counter].origin : &model->tables[table].origin;
}

static bool is_in(const weights_model *m, int part) {
    return m->top < 0 || sr_model_part_is_in(m->values.model, part, m->top);
}

// How many parameters the file has, of those inside a part, with the model's layouts.
static int count_found(const weights_load *load, const weights_model *m, int part) {
    const sr_model *model = m->values.model;
    char name[SR_WEIGHT_NAME_BYTES];
    int found = 0;
    for (int i = 0; i < model->param_count; i++) {
        if (!sr_model_part_is_in(model, model->params[i].origin.part, part))
            continue;
        sr_model_name_in(model, &model->params[i].origin, m->layouts, m->top, name);
        found += sr_safetensors_find(load->file, name) != NULL;
    }
    return found;
}

// The part's own layout, unless the file has more tensors of another one.
static void find_layout(const weights_load *load, weights_model *m, int part) {
    const sr_weight_names *table = m->values.model->parts[part].desc->names;
    int best = m->layouts[part], most = table ? count_found(load, m, part) : 0;
    for (int i = 0; table && i < SR_WEIGHT_LAYOUTS && table->layout[i]; i++) {
        m->layouts[part] = i;
        const int found = count_found(load, m, part);
        if (found > most) {
            best = i;
            most = found;
        }
    }
    m->layouts[part] = best;
}

static sr_status find_names(weights_load *load, weights_model *m) {
    const sr_model *model = m->values.model;
    char name[SR_WEIGHT_NAME_BYTES];
    m->layouts = sr_arena_alloc(&load->arena, (size_t)model->part_count * sizeof *m->layouts);
    m->names = sr_arena_alloc(&load->arena, ((size_t)name_count(model) + 1) * sizeof *m->names);
    if (!m->layouts || !m->names)
        return SR_E_MEMORY;
    for (int part = 0; part < model->part_count; part++)
        m->layouts[part] = model->parts[part].desc->layout;
    for (int part = 0; part < model->part_count; part++)
        if (is_in(m, part))
            find_layout(load, m, part);
    for (int i = 0; i < name_count(model); i++) {
        const sr_name_origin *origin = origin_of(model, i);
        m->names[i] = NULL;
        if (!is_in(m, origin->part))
            continue;
        sr_model_name_in(model, origin, m->layouts, m->top, name);
        m->names[i] = sr_arena_strdup(&load->arena, name);
        if (!m->names[i])
            return SR_E_MEMORY;
    }
    return SR_OK;
}

static bool has_name(const weights_model *m, const char *name) {
    for (int i = 0; i < name_count(m->values.model); i++)
        if (m->names[i] && strcmp(m->names[i], name) == 0)
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
    const int part = p->origin.part;
    const sr_weight_names *names = m->values.model->parts[part].desc->names;
    const sr_grid from = {.before = p->grid.before,
                          .height = side,
                          .width = side,
                          .antialias = names && names->antialias[m->layouts[part]]};
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
    const int part = p->origin.part;
    const bool foreign = m->layouts[part] != m->values.model->parts[part].desc->layout;
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

// Which library has such names, for the report.
static void note_layouts(weights_load *load, const weights_model *m) {
    for (int part = 0; part < m->values.model->part_count; part++) {
        const sr_model_part *of = &m->values.model->parts[part];
        const sr_weight_names *names = of->desc->names;
        const int layout = m->layouts[part];
        if (!names || !is_in(m, part))
            continue;
        sr_text_add(&load->resized, "; names of %s", names->layout[layout]);
        if (part > 0 && part != m->top)
            sr_text_add(&load->resized, " in %s", of->path);
        if (names->note[layout])
            sr_text_add(&load->resized, ", %s", names->note[layout]);
    }
}

static sr_status load_model(weights_load *load, weights_model *m) {
    SR_TRY(find_names(load, m));
    for (int i = 0; i < m->values.model->param_count; i++)
        if (m->names[i])
            SR_TRY(load_param(load, m, i));
    note_layouts(load, m);
    return SR_OK;
}

// The part of the models with this path; false: there is none.
static bool find_part(const sr_model_values *models, int count, const char *path, int *model,
                      int *part) {
    for (*model = 0; *model < count; ++*model) {
        const sr_model *m = models[*model].model;
        for (*part = 0; *part < m->part_count; ++*part)
            if (strcmp(m->parts[*part].path, path) == 0)
                return true;
    }
    return false;
}

enum { MOST_PATHS = 32 };

static sr_status unknown_part(const sr_model_values *models, int count, const char *path) {
    const char *paths[MOST_PATHS];
    int known = 0;
    for (int k = 0; k < count; k++)
        for (int i = 0; i < models[k].model->part_count && known < MOST_PATHS; i++)
            if (models[k].model->parts[i].path[0])
                paths[known++] = models[k].model->parts[i].path;
    const char *name = models[0].model->desc->name;
    const char *near = sr_text_nearest(path, paths, (size_t)known);
    if (near)
        return SR_FAIL(SR_E_USAGE, "model %s has no part '%s'; did you mean '%s'?", name, path,
                       near);
    if (known == 0)
        return SR_FAIL(SR_E_USAGE,
                       "model %s has no part '%s': no model is inside it; give 'weights: FILE'",
                       name, path);
    sr_text list;
    sr_text_init(&list);
    for (int i = 0; i < known; i++)
        sr_text_add(&list, "%s%s", i > 0 ? ", " : "", paths[i]);
    const sr_status status =
        SR_FAIL(SR_E_USAGE, "model %s has no part '%s'; its parts: %s", name, path, list.data);
    sr_text_release(&list);
    return status;
}

static sr_status load_models(weights_load *load, const sr_model_values *models, int count,
                             const char *path) {
    weights_model *all = sr_arena_alloc(&load->arena, (size_t)count * sizeof *all);
    int only = -1, part = -1;
    if (!all)
        return SR_E_MEMORY;
    if (path && !find_part(models, count, path, &only, &part))
        return unknown_part(models, count, path);
    int used = 0;
    for (int k = 0; k < count; k++) {
        if (path && k != only)
            continue;
        all[used] = (weights_model){.values = models[k], .top = part};
        SR_TRY(load_model(load, &all[used++]));
    }
    find_unexpected(load, all, used);
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
    return SR_FAIL(SR_E_USAGE, "%s does not fit %s:%s%s%s%s; name what may differ in weights_reset",
                   sr_safetensors_path(load->file), load->part ? load->part : "the model",
                   load->missing.count ? " missing:" : "", load->missing.text.data,
                   load->mismatched.count ? " of another shape:" : "", load->mismatched.text.data);
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

sr_status sr_weights_load(const sr_model_values *models, int count, const char *part,
                          sr_safetensors *file, const sr_string_list *reset, sr_text *report) {
    weights_load load = {.file = file, .reset = reset, .part = part};
    sr_arena_init(&load.arena);
    sr_text_init(&load.missing.text);
    sr_text_init(&load.mismatched.text);
    sr_text_init(&load.unexpected.text);
    sr_text_init(&load.resized);
    sr_status status = load_models(&load, models, count, part);
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
