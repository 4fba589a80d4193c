// SPDX-License-Identifier: Apache-2.0
// Building models: names, offsets in the flat space, initial values.
#ifndef SR_OPS_PLAIN
#define SR_OPS_PLAIN // sr_forward_statistic and others are defined here
#endif
#include "trainer/models/model.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "graph/op.h"
#include "kernels/base/hash.h"
#include "kernels/base/rng.h"
#include "trainer/models/builder_internal.h"

void sr_build_stick(sr_builder *b, sr_status status) {
    if (b->status == SR_OK)
        b->status = status;
}

void sr_build_fail(sr_builder *b, const char *fmt, ...) {
    char text[512];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (b->status == SR_OK)
        sr_build_stick(b, SR_FAIL(SR_E_USAGE, "model %s: %s",
                                  b->model->parts[b->part.index].desc->name, text));
}

int64_t sr_build_classes(const sr_builder *b) {
    return b->part.classes;
}

void sr_build_image_size(const sr_builder *b, int64_t *height, int64_t *width) {
    *height = b->build->image_height ? b->build->image_height : 224;
    *width = b->build->image_width ? b->build->image_width : 224;
}

void sr_build_push(sr_builder *b, const char *fmt, ...) {
    sr_build_part *part = &b->part;
    size_t used = strlen(part->scope);
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(part->scope + used, sizeof part->scope - used, fmt, args);
    va_end(args);
    if (n < 0 || used + (size_t)n + 2 > sizeof part->scope || part->scopes == SR_BUILD_SCOPES) {
        sr_build_fail(b, "a parameter name is too long or nested too deeply");
        part->scope[used] = '\0';
        return;
    }
    part->scope_lengths[part->scopes++] = used;
    memcpy(part->scope + used + n, ".", 2);
}

void sr_build_pop(sr_builder *b) {
    if (b->part.scopes > 0)
        b->part.scope[b->part.scope_lengths[--b->part.scopes]] = '\0';
}

int sr_build_add_part(sr_builder *b, const sr_model_desc *desc, int parent, const char *path,
                      const char *prefix) {
    sr_model *model = b->model;
    void *parts = model->parts;
    sr_status status = sr_grow(&parts, &b->part_capacity, (size_t)model->part_count + 1,
                               sizeof *model->parts, "parts of a model");
    model->parts = parts;
    const sr_model_part part = {.desc = desc,
                                .parent = parent,
                                .path = sr_arena_strdup(&model->arena, path),
                                .prefix = sr_arena_strdup(&model->arena, prefix)};
    if (status != SR_OK || !part.path || !part.prefix) {
        sr_build_stick(b, SR_E_MEMORY);
        return -1;
    }
    model->parts[model->part_count] = part;
    return model->part_count++;
}

bool sr_model_part_is_in(const sr_model *model, int inner, int outer) {
    while (inner > outer)
        inner = model->parts[inner].parent;
    return inner == outer;
}

// The name of a tensor of a part, in a layout of the part's table.
static void translate(const sr_model_desc *desc, int layout, char name[SR_WEIGHT_NAME_BYTES]) {
    char from[SR_WEIGHT_NAME_BYTES];
    memcpy(from, name, sizeof from);
    if (desc->names)
        sr_weight_name(desc->names, 0, layout, from, name);
}

void sr_model_name_in(const sr_model *model, const sr_name_origin *origin, const int *layouts,
                      int top, char out[SR_WEIGHT_NAME_BYTES]) {
    (void)snprintf(out, SR_WEIGHT_NAME_BYTES, "%s", origin->declared);
    for (int i = origin->part; i >= 0; i = model->parts[i].parent) {
        const sr_model_part *part = &model->parts[i];
        translate(part->desc, layouts ? layouts[i] : part->desc->layout, out);
        if (i == top)
            return;
        const size_t length = strlen(part->prefix), left = strlen(out) + 1;
        const size_t room = SR_WEIGHT_NAME_BYTES - 1 - length;
        memmove(out + length, out, left < room ? left : room);
        memcpy(out, part->prefix, length);
        out[SR_WEIGHT_NAME_BYTES - 1] = '\0';
    }
}

// The full name of a tensor; NULL after a failure.
static char *full_name(sr_builder *b, const char *name, sr_name_origin *origin) {
    char text[SR_WEIGHT_NAME_BYTES];
    (void)snprintf(text, sizeof text, "%s%s", b->part.scope, name);
    origin->part = b->part.index;
    origin->declared = sr_arena_strdup(&b->model->arena, text);
    if (origin->declared)
        sr_model_name_in(b->model, origin, NULL, -1, text);
    if (strlen(text) >= SR_NAME_BYTES)
        sr_build_fail(b, "the name %s is longer than %d bytes", text, SR_NAME_BYTES - 1);
    char *copy = origin->declared ? sr_arena_strdup(&b->model->arena, text) : NULL;
    if (!copy)
        sr_build_stick(b, SR_E_MEMORY);
    return copy;
}

static sr_param *add_param(sr_builder *b) {
    void *params = b->model->params;
    sr_status status = sr_grow(&params, &b->param_capacity, (size_t)b->model->param_count + 1,
                               sizeof(sr_param), "parameters");
    if (status != SR_OK) {
        sr_build_stick(b, status);
        return NULL;
    }
    b->model->params = params;
    return &b->model->params[b->model->param_count];
}

void sr_build_param(sr_builder *b, sr_tensor *field, const char *name, sr_param_kind kind, int rank,
                    const int64_t *dim, sr_init init) {
    sr_param *p = b->status == SR_OK ? add_param(b) : NULL;
    if (!p)
        return;
    *p = (sr_param){.kind = kind,
                    .init = init,
                    .depth = b->part.layer,
                    .field = field,
                    .info = {.dtype = SR_F32}};
    p->info.rank = rank;
    for (int i = 0; i < rank; i++) {
        p->info.dim[i] = dim[i];
        if (dim[i] < 1) {
            sr_build_fail(b, "%s%s has a dimension of %lld", b->part.scope, name,
                          (long long)dim[i]);
            return;
        }
    }
    p->name = full_name(b, name, &p->origin);
    if (!p->name)
        return;
    for (int i = 0; i < b->model->param_count; i++)
        if (strcmp(b->model->params[i].name, p->name) == 0)
            sr_build_fail(b, "two parameters are named %s", p->name);
    int64_t count = sr_info_count(&p->info);
    p->offset = b->model->elements;
    b->model->elements += (count + SR_FLAT_ALIGN - 1) / SR_FLAT_ALIGN * SR_FLAT_ALIGN;
    if (kind != SR_PARAM_BUFFER)
        b->model->parameters += (double)count;
    b->model->param_count++;
}

void sr_build_buffer(sr_builder *b, sr_tensor *field, const char *name, int64_t channels,
                     sr_init init, double momentum) {
    int before = b->model->param_count;
    sr_build_param(b, field, name, SR_PARAM_BUFFER, 1, &channels, init);
    if (b->model->param_count > before)
        b->model->params[before].momentum = momentum;
}

void sr_build_depth(sr_builder *b, int depth) {
    b->part.layer = b->part.first_layer + depth;
    if (b->part.layer >= b->part.next_layer)
        b->part.next_layer = b->part.layer + 1;
}

void sr_build_set_init(sr_builder *b, const sr_tensor *field, sr_init init) {
    for (int i = 0; i < b->model->param_count; i++)
        if (b->model->params[i].field == field)
            b->model->params[i].init = init;
}

void sr_build_counter(sr_builder *b, const char *name) {
    void *counters = b->model->counters;
    sr_status status = sr_grow(&counters, &b->counter_capacity, (size_t)b->model->counter_count + 1,
                               sizeof *b->model->counters, "counters");
    if (status != SR_OK) {
        sr_build_stick(b, status);
        return;
    }
    b->model->counters = counters;
    sr_model_counter counter;
    counter.name = full_name(b, name, &counter.origin);
    if (counter.name)
        b->model->counters[b->model->counter_count++] = counter;
}

void sr_build_stage(sr_builder *b, int64_t channels, int stride) {
    if (*b->part.stage_count == SR_STAGES_MAX)
        sr_build_fail(b, "more than %d stages", SR_STAGES_MAX);
    else
        b->part.stages[(*b->part.stage_count)++] = (sr_model_stage){channels, stride};
}

void *sr_build_memory(sr_builder *b, size_t bytes) {
    void *memory = b->status == SR_OK ? sr_arena_alloc(&b->model->arena, bytes) : NULL;
    if (!memory)
        sr_build_stick(b, SR_E_MEMORY);
    return memory;
}

void sr_build_table(sr_builder *b, const char *name, const sr_info *info, const void *data) {
    void *tables = b->model->tables;
    sr_status status = sr_grow(&tables, &b->table_capacity, (size_t)b->model->table_count + 1,
                               sizeof *b->model->tables, "tables");
    if (status != SR_OK) {
        sr_build_stick(b, status);
        return;
    }
    b->model->tables = tables;
    sr_model_table table = {.info = *info, .data = data};
    table.name = full_name(b, name, &table.origin);
    if (table.name)
        b->model->tables[b->model->table_count++] = table;
}

void sr_build_grid(sr_builder *b, const sr_tensor *field, sr_grid grid) {
    for (int i = 0; i < b->model->param_count; i++)
        if (b->model->params[i].field == field)
            b->model->params[i].grid = grid;
}

sr_status sr_model_create(const sr_model_build *build, sr_model **out) {
    sr_model *model = sr_alloc(sizeof *model, "model");
    if (!model)
        return SR_E_MEMORY;
    sr_arena_init(&model->arena);
    model->desc = build->desc;
    model->prefix_length = strlen(build->prefix);
    sr_builder b = {.model = model,
                    .build = build,
                    .part = {.classes = build->classes,
                             .layer = SR_NO_DEPTH,
                             .stages = model->stages,
                             .stage_count = &model->stage_count}};
    char path[SR_NAME_BYTES];
    (void)snprintf(path, sizeof path, "%.*s", (int)strcspn(build->prefix, "."), build->prefix);
    model->state = sr_alloc(build->desc->state_size + 1, "model state");
    if (!model->state)
        b.status = SR_E_MEMORY;
    else if (sr_build_add_part(&b, build->desc, -1, path, build->prefix) == 0)
        build->desc->build(&b, build->options, model->state);
    if (b.status != SR_OK) {
        sr_model_free(model);
        return b.status;
    }
    *out = model;
    return SR_OK;
}

void sr_model_free(sr_model *model) {
    if (!model)
        return;
    sr_free(model->params);
    sr_free(model->counters);
    sr_free(model->tables);
    sr_free(model->parts);
    sr_free(model->state);
    sr_arena_release(&model->arena);
    sr_free(model);
}

sr_status sr_model_bind(sr_model *model, sr_context *context, sr_address flat) {
    for (int i = 0; i < model->param_count; i++) {
        sr_param *p = &model->params[i];
        p->variable = sr_variable_on(context, p->name, &p->info,
                                     sr_address_add(flat, (size_t)p->offset * sizeof(float)));
        *p->field = p->variable;
    }
    return sr_context_status(context);
}

int sr_model_param_of(const sr_model *model, sr_tensor variable) {
    for (int i = 0; i < model->param_count; i++)
        if (model->params[i].variable.slot == variable.slot)
            return i;
    return -1;
}

// ---- Initial values ----

typedef enum distribution { UNIFORM, NORMAL, TRUNCATED } distribution;

static double draw(sr_rng *rng, distribution kind, double scale) {
    if (kind == UNIFORM)
        return sr_rng_uniform(rng, -scale, scale);
    double value = scale * sr_rng_normal(rng);
    while (kind == TRUNCATED && fabs(value) > 2)
        value = scale * sr_rng_normal(rng);
    return value;
}

static void fill_random(const sr_param *p, uint64_t seed, double scale, distribution kind,
                        float *out) {
    sr_rng rng;
    sr_hash128 key = sr_hash_128(p->name, strlen(p->name));
    sr_rng_init(&rng, seed, (uint32_t)key.low, (uint32_t)(key.low >> 32), (uint32_t)key.high);
    for (int64_t i = 0; i < sr_info_count(&p->info); i++)
        out[i] = (float)draw(&rng, kind, scale);
}

static void fill_constant(double value, int64_t count, float *out) {
    for (int64_t i = 0; i < count; i++)
        out[i] = (float)value;
}

static void fill_dirac(const sr_param *p, float *out) {
    int64_t in = p->info.dim[1], window = p->info.dim[2] * p->info.dim[3];
    int64_t centre = p->info.dim[2] / 2 * p->info.dim[3] + p->info.dim[3] / 2;
    for (int64_t k = 0; k < in && k < p->info.dim[0]; k++) {
        memset(out + k * in * window, 0, (size_t)(in * window) * sizeof *out);
        out[(k * in + k) * window + centre] = 1.0f;
    }
}

static void fill(const sr_param *p, uint64_t seed, float *out) {
    int64_t count = sr_info_count(&p->info);
    int64_t fan_in = p->init.fan_in ? p->init.fan_in : count / p->info.dim[0];
    double scale = 1 / sqrt((double)fan_in);
    switch (p->init.kind) {
    case SR_INIT_ZERO:
    case SR_INIT_ONE:
        fill_constant(p->init.kind == SR_INIT_ONE ? 1 : 0, count, out);
        break;
    case SR_INIT_CONSTANT:
        fill_constant(p->init.scale, count, out);
        break;
    case SR_INIT_UNIFORM:
        fill_random(p, seed, p->init.scale, UNIFORM, out);
        break;
    case SR_INIT_NORMAL:
    case SR_INIT_TRUNC_NORMAL:
        fill_random(p, seed, p->init.scale, p->init.kind == SR_INIT_NORMAL ? NORMAL : TRUNCATED,
                    out);
        break;
    case SR_INIT_KAIMING_FAN_OUT:
        fill_random(p, seed, sqrt(2 / (double)(count / p->info.dim[1])), NORMAL, out);
        break;
    case SR_INIT_KAIMING_FAN_IN:
        fill_random(p, seed, sqrt(2 / (double)fan_in), NORMAL, out);
        break;
    case SR_INIT_TORCH_DEFAULT:
        fill_random(p, seed, scale, UNIFORM, out);
        break;
    case SR_INIT_DIRAC:
        fill_random(p, seed, scale, UNIFORM, out);
        fill_dirac(p, out);
        break;
    }
}

void sr_model_init_values(const sr_model *model, uint64_t seed, float *flat) {
    for (int i = 0; i < model->param_count; i++)
        fill(&model->params[i], seed, flat + model->params[i].offset);
}

void sr_forward_statistic(sr_forward *forward, sr_tensor buffer, sr_tensor value) {
    sr_statistics *s = forward->statistics;
    if (!sr_op_argument(buffer, "sr_forward_statistic: buffer", NULL) ||
        !sr_op_argument(value, "sr_forward_statistic: value", NULL) || !s)
        return;
    if (s->count == s->capacity) {
        size_t capacity = (size_t)s->capacity;
        void *items = s->items;
        if (sr_grow(&items, &capacity, (size_t)s->count + 1, sizeof *s->items, "statistics") !=
            SR_OK) {
            s->out_of_memory = true;
            return;
        }
        s->items = items;
        s->capacity = (int)capacity;
    }
    s->items[s->count].buffer = buffer;
    s->items[s->count++].value = value;
}

static void add_output(sr_forward *forward, const sr_output *output, const char *function) {
    sr_outputs *all = forward->outputs;
    if (!all)
        return;
    if (all->count == SR_OUTPUTS) {
        (void)sr_op_refused(SR_FAIL(SR_E_USAGE, "more than %d outputs", SR_OUTPUTS), function);
        return;
    }
    all->item[all->count++] = *output;
}

void sr_forward_output(sr_forward *forward, const char *name, sr_tensor tensor) {
    if (sr_op_argument(tensor, "sr_forward_output: tensor", NULL))
        add_output(forward, &(sr_output){.name = name, .tensor = tensor}, "sr_forward_output");
}

void sr_forward_auxiliary(sr_forward *forward, const char *name, sr_tensor tensor, double weight) {
    if (sr_op_argument(tensor, "sr_forward_auxiliary: tensor", NULL))
        add_output(forward, &(sr_output){.name = name, .tensor = tensor, .weight = weight},
                   "sr_forward_auxiliary");
}

sr_tensor sr_output_find(const sr_outputs *outputs, const char *name) {
    for (int i = 0; i < outputs->count; i++)
        if (strcmp(outputs->item[i].name, name) == 0)
            return outputs->item[i].tensor;
    return SR_NONE;
}

sr_status sr_statistics_check(const sr_statistics *statistics) {
    if (!statistics->out_of_memory)
        return SR_OK;
    return SR_FAIL(SR_E_MEMORY, "out of memory: %zu bytes for statistics",
                   ((size_t)statistics->count + 1) * sizeof *statistics->items);
}
