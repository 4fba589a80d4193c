// SPDX-License-Identifier: Apache-2.0
// Phases: layout of the flat space, memory, and access to it between steps (param_set.h). The
// update is in param_set_update.c.
#include "trainer/engine/param_set_internal.h"

#include <math.h>
#include <string.h>

#include "kernels/base/float_control.h"
#include "kernels/base/memory.h"
#include "kernels/prepared_cache.h"
#include "trainer/engine/param_groups.h"

static int64_t aligned(int64_t count) {
    return (count + SR_FLAT_ALIGN - 1) / SR_FLAT_ALIGN * SR_FLAT_ALIGN;
}

// ---- Layout ----

static sr_status make_groups(sr_param_set *set, const sr_recipe_optimizer *settings,
                             const sr_param_groups *from) {
    set->group_count = from->count;
    set->groups = sr_alloc_array((size_t)from->count + 1, sizeof *set->groups, "groups");
    if (!set->groups)
        return SR_E_MEMORY;
    for (int i = 0; i < from->count; i++)
        set->groups[i] = (sr_group_settings){.lr_scale = from->items[i].lr_scale,
                                             .decay_scale = from->items[i].decay_scale,
                                             .frozen = from->items[i].frozen,
                                             .until = from->items[i].until};
    set->weight_decay = settings->weight_decay;
    set->clip_norm = settings->clip_norm;
    set->clip_value = settings->clip_value;
    return SR_OK;
}

static void add_segment(sr_param_set *set, const char *name, int64_t begin, int64_t count,
                        sr_segment_use use) {
    set->segments[set->segment_count] = (sr_segment){.name = name,
                                                     .begin = begin,
                                                     .count = count,
                                                     .padded = use.kind == SR_SEGMENT_SCALAR,
                                                     .whole = use.rows > 0};
    set->uses[set->segment_count++] = use;
}

static void add_scalar(sr_param_set *set, const char *name, int which) {
    add_segment(set, name, set->elements, SR_FLAT_ALIGN,
                (sr_segment_use){.kind = SR_SEGMENT_SCALAR, .param = which});
    set->elements += SR_FLAT_ALIGN;
}

static sr_status make_layout(sr_param_set *set, const sr_param_set_options *o,
                             const sr_param_groups *groups) {
    size_t most = (size_t)set->model->param_count + SR_MAX_SCALARS + 2;
    set->segments = sr_alloc_array(most, sizeof *set->segments, "segments");
    set->uses = sr_alloc_array(most, sizeof *set->uses, "segments");
    if (!set->segments || !set->uses)
        return SR_E_MEMORY;
    for (int i = 0; i < set->model->param_count; i++) {
        const sr_param *p = &set->model->params[i];
        const int group = groups->of[i];
        bool buffer = p->kind == SR_PARAM_BUFFER;
        if (p->kind == SR_PARAM_FROZEN || (!buffer && set->groups[group].frozen))
            continue;
        sr_segment_use use = {
            .kind = buffer ? SR_SEGMENT_BUFFER : SR_SEGMENT_PARAM, .param = i, .group = group};
        if (!buffer && !groups->items[group].elementwise)
            use.rows = sr_param_set_matrix(set, p, &use.columns);
        add_segment(set, p->name, p->offset, sr_info_count(&p->info), use);
    }
    set->scalar_begin = set->elements = aligned(set->model->elements);
    set->loss_segment = set->segment_count;
    add_scalar(set, "loss", 0);
    for (int i = 0; i < o->scalar_count; i++)
        add_scalar(set, o->scalars[i].name, 1 + i);
    set->stop_segment = set->segment_count;
    add_scalar(set, "stop", 1 + o->scalar_count);
    return SR_OK;
}

static sr_status make_groups_and_layout(sr_param_set *set, const sr_param_set_options *o) {
    sr_param_groups groups;
    sr_status status = sr_param_groups_make(o->settings, set->model, &groups);
    if (status == SR_OK)
        status = make_groups(set, o->settings, &groups);
    if (status == SR_OK)
        status = make_layout(set, o, &groups);
    sr_param_groups_free(&groups);
    return status;
}

static sr_status flat(const sr_param_set *set, const char *what, sr_address *out) {
    return sr_device_alloc(set->device, (size_t)set->elements * sizeof(float), what, out);
}

// With several ranks, each rank touches only the state of the ranges that it updates.
static sr_status make_state(const sr_param_set *set, bool shared, sr_address *out) {
    const size_t bytes = (size_t)set->elements * sizeof(float);
    return shared ? sr_device_alloc_sparse(set->device, bytes, "optimiser state", out)
                  : sr_device_alloc(set->device, bytes, "optimiser state", out);
}

static sr_status make_states(sr_param_set *set, bool shared) {
    const sr_optimizer_desc *optimizer = set->optimizer;
    const uint32_t all = (1u << optimizer->states) - 1;
    const uint32_t used = optimizer->uses ? optimizer->uses(set->optimizer_options) & all : all;
    for (int i = optimizer->states - 1; i >= 0; i--) {
        if (!(used >> i & 1))
            continue;
        SR_TRY(make_state(set, shared, &set->states[i]));
        set->first_state = i;
    }
    return SR_OK;
}

static sr_status make_memory(sr_param_set *set, const sr_param_set_options *o) {
    float *values = NULL;
    SR_TRY(flat(set, "parameters", &set->values));
    SR_TRY(make_states(set, sr_comm_size(o->comm) > 1));
    if (o->has_ema)
        SR_TRY(flat(set, "average of parameters", &set->ema));
    SR_TRY(sr_param_set_make_settings(set));
    if (!o->plans_only) {
        SR_TRY(sr_param_set_map(set, SR_SET_VALUES, &values));
        sr_model_init_values(set->model, o->seed, values);
        SR_TRY(sr_param_set_unmap(set, SR_SET_VALUES, values, true));
    }
    return sr_model_bind(set->model, o->context, set->values);
}

sr_status sr_param_set_create(const sr_param_set_options *o, sr_param_set **out) {
    sr_status status = SR_OK;
    sr_param_set *set = sr_alloc(sizeof *set, "set");
    if (!set) {
        sr_model_free(o->model);
        return SR_E_MEMORY;
    }
    set->name = o->name;
    set->device = o->device;
    set->model = o->model;
    set->optimizer = o->optimizer;
    set->optimizer_options = o->optimizer_options;
    set->lanes = o->lanes;
    set->ema_buffers = o->ema_buffers;
    set->loss_scale.scale = o->loss_scale;
    set->loss_scale_every = o->loss_scale_every;
    set->gradient_norm = (double)NAN;
    SR_TRY_GOTO(make_groups_and_layout(set, o), fail);
    SR_TRY_GOTO(make_memory(set, o), fail);
    const bool agreed = sr_param_set_is_agreed(set);
    const sr_exchange_options exchange = {.lanes = o->lanes,
                                          .bucket_bytes = o->bucket_bytes,
                                          .segments = set->segments,
                                          .segment_count = set->segment_count,
                                          .device = set->device,
                                          .values = set->values,
                                          .elements = set->elements,
                                          .update = sr_param_set_update,
                                          .measure = agreed ? sr_param_set_measure : NULL,
                                          .agree = agreed ? sr_param_set_agree : NULL,
                                          .rounds = set->optimizer->reductions,
                                          .user = set,
                                          .report_seconds = o->report_seconds,
                                          .act_seconds = o->act_seconds};
    SR_TRY_GOTO(sr_exchange_create(o->comm, &exchange, &set->exchange), fail);
    *out = set;
    return SR_OK;
fail:
    sr_param_set_free(set);
    return status;
}

void sr_param_set_free(sr_param_set *set) {
    if (!set)
        return;
    sr_exchange_free(set->exchange);
    sr_prepared_cache_free(set->kernels);
    sr_device_free(set->device, set->hyper);
    sr_device_free(set->device, set->workspace);
    sr_device_free(set->device, set->matrices);
    sr_device_free(set->device, set->values);
    for (int i = 0; i < SR_OPTIMIZER_MAX_STATES; i++)
        sr_device_free(set->device, set->states[i]);
    sr_device_free(set->device, set->ema);
    if (set->settings)
        sr_device_unregister_host(set->device, set->settings);
    sr_free(set->settings);
    sr_free(set->groups);
    sr_free(set->norms);
    sr_free(set->pieces);
    sr_free(set->segments);
    sr_free(set->uses);
    sr_model_free(set->model);
    sr_free(set);
}

static int count_states(const sr_param_set *set) {
    int count = 0;
    for (int i = 0; i < set->optimizer->states; i++)
        count += sr_param_set_has_state(set, i);
    return count;
}

sr_param_set_info sr_param_set_get_info(const sr_param_set *set) {
    return (sr_param_set_info){.name = set->name,
                               .model = set->model,
                               .optimizer = set->optimizer,
                               .elements = set->elements,
                               .states = count_states(set),
                               .scratch = set->matrix_scratch,
                               .launches = sr_exchange_launches(set->exchange),
                               .arrays = 2 + count_states(set) +
                                         (sr_param_set_has_average(set) ? 1 : 0) +
                                         (sr_param_set_is_agreed(set) ? 1 : 0)};
}

void sr_param_set_set_lengths(sr_param_set *set, const sr_schedule_lengths *lengths) {
    for (int i = 0; i < set->group_count; i++)
        set->groups[i].until_samples = sr_length_samples(set->groups[i].until, lengths);
}

void sr_param_set_use(sr_param_set *set, const sr_set_step *step) {
    sr_float_control();
    const double scale = set->loss_scale.scale;
    set->now = (sr_step_settings){.updates = step->updates,
                                  .lr = step->lr,
                                  .loss_seed = scale * step->gradient_scale,
                                  .sum_scale = scale > 0 ? 1 / scale : step->gradient_scale};
    set->ema_now = step->ema;
    set->skipped = false;
    set->clip_factor = 1;
    for (int i = 0; i < set->group_count; i++) {
        sr_group_settings *g = &set->groups[i];
        g->rests = g->until_samples > 0 && (double)step->position >= g->until_samples;
    }
    sr_param_set_fill_settings(set);
}

double sr_param_set_loss_seed(const sr_param_set *set) {
    return set->now.loss_seed;
}

int64_t sr_param_set_scalars(const sr_param_set *set) {
    return set->elements - set->scalar_begin;
}

sr_status sr_param_set_end_step(const sr_param_set *set, float *out) {
    return sr_device_download(set->device, out,
                              sr_param_set_element(set->values, set->scalar_begin),
                              (size_t)sr_param_set_scalars(set) * sizeof *out);
}

static sr_address address_of(const sr_param_set *set, int array) {
    return array == SR_SET_VALUES    ? set->values
           : array == SR_SET_AVERAGE ? set->ema
                                     : set->states[array - SR_SET_STATE];
}

sr_status sr_param_set_map(const sr_param_set *set, int array, float **out) {
    void *mapped = NULL;
    SR_TRY(sr_device_map(set->device, address_of(set, array), (size_t)set->elements * sizeof(float),
                         &mapped));
    *out = mapped;
    return SR_OK;
}

sr_status sr_param_set_unmap(const sr_param_set *set, int array, float *mapped, bool write) {
    return sr_device_unmap(set->device, address_of(set, array),
                           (size_t)set->elements * sizeof(float), mapped, write);
}

bool sr_param_set_trains(const sr_param_set *set, int param) {
    for (int i = 0; i < set->loss_segment; i++)
        if (set->uses[i].param == param)
            return true;
    return false;
}

bool sr_param_set_has_average(const sr_param_set *set) {
    return !sr_address_is_none(set->ema);
}

sr_status sr_param_set_compare(const sr_param_set *set) {
    return sr_exchange_compare(set->exchange);
}

int64_t sr_param_set_exposed_ns(const sr_param_set *set) {
    return sr_exchange_get_stats(set->exchange).exposed_ns;
}

sr_status sr_param_set_start_average(sr_param_set *set) {
    if (!sr_param_set_has_average(set))
        return SR_OK;
    return sr_device_copy(set->device, set->ema, set->values,
                          (size_t)set->elements * sizeof(float));
}

sr_status sr_param_set_gather_average(sr_param_set *set) {
    SR_TRY(sr_exchange_gather(set->exchange, set->ema, "gather the average of parameters"));
    for (int i = 0; i < set->model->param_count; i++) {
        const sr_param *p = &set->model->params[i];
        if (!sr_param_set_trains(set, i))
            SR_TRY(sr_device_copy(set->device, sr_param_set_element(set->ema, p->offset),
                                  sr_param_set_element(set->values, p->offset),
                                  (size_t)sr_info_count(&p->info) * sizeof(float)));
    }
    return SR_OK;
}

static bool all_finite(const float *values, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(values[i]))
            return false;
    return true;
}

const sr_param *sr_values_not_finite(const sr_model *model, const float *flat, bool buffers_only) {
    for (int i = 0; i < model->param_count; i++) {
        const sr_param *p = &model->params[i];
        if ((!buffers_only || p->kind == SR_PARAM_BUFFER) &&
            !all_finite(flat + p->offset, sr_info_count(&p->info)))
            return p;
    }
    return NULL;
}

sr_status sr_param_set_find_not_finite(const sr_param_set *set, int array, bool buffers_only,
                                       const sr_param **out) {
    float *values;
    SR_TRY(sr_param_set_map(set, array, &values));
    *out = sr_values_not_finite(set->model, values, buffers_only);
    return sr_param_set_unmap(set, array, values, false);
}
