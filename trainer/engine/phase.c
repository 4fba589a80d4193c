// SPDX-License-Identifier: Apache-2.0
// Phases: layout of the flat space, memory, and access to it between steps (phase.h). The update is
// in phase_update.c.
#include "trainer/engine/phase_internal.h"

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

static sr_status make_groups(sr_phase *phase, const sr_recipe_optimizer *settings,
                             const sr_param_groups *from) {
    phase->group_count = from->count;
    phase->groups = sr_alloc_array((size_t)from->count + 1, sizeof *phase->groups, "groups");
    if (!phase->groups)
        return SR_E_MEMORY;
    for (int i = 0; i < from->count; i++)
        phase->groups[i] = (sr_group_settings){.lr_scale = from->items[i].lr_scale,
                                               .decay_scale = from->items[i].decay_scale,
                                               .frozen = from->items[i].frozen,
                                               .until = from->items[i].until};
    phase->weight_decay = settings->weight_decay;
    phase->clip_norm = settings->clip_norm;
    phase->clip_value = settings->clip_value;
    return SR_OK;
}

static void add_segment(sr_phase *phase, const char *name, int64_t begin, int64_t count,
                        sr_segment_use use) {
    phase->segments[phase->segment_count] = (sr_segment){.name = name,
                                                         .begin = begin,
                                                         .count = count,
                                                         .padded = use.kind == SR_SEGMENT_SCALAR,
                                                         .whole = use.rows > 0};
    phase->uses[phase->segment_count++] = use;
}

static void add_scalar(sr_phase *phase, const char *name, int which) {
    add_segment(phase, name, phase->elements, SR_FLAT_ALIGN,
                (sr_segment_use){.kind = SR_SEGMENT_SCALAR, .param = which});
    phase->elements += SR_FLAT_ALIGN;
}

static sr_status make_layout(sr_phase *phase, const sr_phase_options *o,
                             const sr_param_groups *groups) {
    size_t most = (size_t)phase->model->param_count + SR_MAX_SCALARS + 2;
    phase->segments = sr_alloc_array(most, sizeof *phase->segments, "segments");
    phase->uses = sr_alloc_array(most, sizeof *phase->uses, "segments");
    if (!phase->segments || !phase->uses)
        return SR_E_MEMORY;
    for (int i = 0; i < phase->model->param_count; i++) {
        const sr_param *p = &phase->model->params[i];
        const int group = groups->of[i];
        bool buffer = p->kind == SR_PARAM_BUFFER;
        if (p->kind == SR_PARAM_FROZEN || (!buffer && phase->groups[group].frozen))
            continue;
        sr_segment_use use = {
            .kind = buffer ? SR_SEGMENT_BUFFER : SR_SEGMENT_PARAM, .param = i, .group = group};
        if (!buffer && !groups->items[group].elementwise)
            use.rows = sr_phase_matrix(phase, p, &use.columns);
        add_segment(phase, p->name, p->offset, sr_info_count(&p->info), use);
    }
    phase->scalar_begin = phase->elements = aligned(phase->model->elements);
    phase->loss_segment = phase->segment_count;
    add_scalar(phase, "loss", 0);
    for (int i = 0; i < o->task->scalars; i++)
        add_scalar(phase, o->task->scalar_names[i], 1 + i);
    phase->stop_segment = phase->segment_count;
    add_scalar(phase, "stop", 1 + o->task->scalars);
    return SR_OK;
}

static sr_status make_groups_and_layout(sr_phase *phase, const sr_phase_options *o) {
    sr_param_groups groups;
    sr_status status = sr_param_groups_make(o->settings, phase->model, &groups);
    if (status == SR_OK)
        status = make_groups(phase, o->settings, &groups);
    if (status == SR_OK)
        status = make_layout(phase, o, &groups);
    sr_param_groups_free(&groups);
    return status;
}

static sr_status flat(const sr_phase *phase, const char *what, sr_address *out) {
    return sr_device_alloc(phase->device, (size_t)phase->elements * sizeof(float), what, out);
}

// With several ranks, each rank touches only the state of the ranges that it updates.
static sr_status make_state(const sr_phase *phase, bool shared, sr_address *out) {
    const size_t bytes = (size_t)phase->elements * sizeof(float);
    return shared ? sr_device_alloc_sparse(phase->device, bytes, "optimiser state", out)
                  : sr_device_alloc(phase->device, bytes, "optimiser state", out);
}

static sr_status make_states(sr_phase *phase, bool shared) {
    const sr_optimizer_desc *optimizer = phase->optimizer;
    const uint32_t all = (1u << optimizer->states) - 1;
    const uint32_t used = optimizer->uses ? optimizer->uses(phase->optimizer_options) & all : all;
    for (int i = optimizer->states - 1; i >= 0; i--) {
        if (!(used >> i & 1))
            continue;
        SR_TRY(make_state(phase, shared, &phase->states[i]));
        phase->first_state = i;
    }
    return SR_OK;
}

static sr_status make_memory(sr_phase *phase, const sr_phase_options *o) {
    float *values = NULL;
    SR_TRY(flat(phase, "parameters", &phase->values));
    SR_TRY(make_states(phase, sr_comm_size(o->comm) > 1));
    if (o->has_ema)
        SR_TRY(flat(phase, "average of parameters", &phase->ema));
    phase->scalars = sr_alloc_array((size_t)(phase->elements - phase->scalar_begin),
                                    sizeof *phase->scalars, "scalars of a step");
    if (!phase->scalars)
        return SR_E_MEMORY;
    SR_TRY(sr_phase_make_settings(phase));
    if (!o->plans_only) {
        SR_TRY(sr_phase_map(phase, SR_PHASE_VALUES, &values));
        sr_model_init_values(phase->model, o->seed, values);
        SR_TRY(sr_phase_unmap(phase, SR_PHASE_VALUES, values, true));
    }
    return sr_model_bind(phase->model, o->context, phase->values);
}

sr_status sr_phase_create(const sr_phase_options *o, sr_phase **out) {
    sr_status status = SR_OK;
    sr_phase *phase = sr_alloc(sizeof *phase, "phase");
    if (!phase) {
        sr_model_free(o->model);
        return SR_E_MEMORY;
    }
    phase->name = o->name;
    phase->device = o->device;
    phase->model = o->model;
    phase->optimizer = o->optimizer;
    phase->optimizer_options = o->optimizer_options;
    phase->lanes = o->lanes;
    phase->ema_buffers = o->ema_buffers;
    phase->loss_scale.scale = o->loss_scale;
    phase->loss_scale_every = o->loss_scale_every;
    phase->gradient_norm = (double)NAN;
    SR_TRY_GOTO(make_groups_and_layout(phase, o), fail);
    SR_TRY_GOTO(make_memory(phase, o), fail);
    const bool agreed = sr_phase_is_agreed(phase);
    const sr_exchange_options exchange = {.lanes = o->lanes,
                                          .bucket_bytes = o->bucket_bytes,
                                          .segments = phase->segments,
                                          .segment_count = phase->segment_count,
                                          .device = phase->device,
                                          .values = phase->values,
                                          .elements = phase->elements,
                                          .update = sr_phase_update,
                                          .measure = agreed ? sr_phase_measure : NULL,
                                          .agree = agreed ? sr_phase_agree : NULL,
                                          .rounds = phase->optimizer->reductions,
                                          .user = phase,
                                          .report_seconds = o->report_seconds,
                                          .act_seconds = o->act_seconds};
    SR_TRY_GOTO(sr_exchange_create(o->comm, &exchange, &phase->exchange), fail);
    *out = phase;
    return SR_OK;
fail:
    sr_phase_free(phase);
    return status;
}

void sr_phase_free(sr_phase *phase) {
    if (!phase)
        return;
    sr_exchange_free(phase->exchange);
    sr_prepared_cache_free(phase->kernels);
    sr_device_free(phase->device, phase->hyper);
    sr_device_free(phase->device, phase->workspace);
    sr_device_free(phase->device, phase->matrices);
    sr_device_free(phase->device, phase->values);
    for (int i = 0; i < SR_OPTIMIZER_MAX_STATES; i++)
        sr_device_free(phase->device, phase->states[i]);
    sr_device_free(phase->device, phase->ema);
    if (phase->settings)
        sr_device_unregister_host(phase->device, phase->settings);
    sr_free(phase->settings);
    sr_free(phase->groups);
    sr_free(phase->norms);
    sr_free(phase->scalars);
    sr_free(phase->segments);
    sr_free(phase->uses);
    sr_model_free(phase->model);
    sr_free(phase);
}

static int count_states(const sr_phase *phase) {
    int count = 0;
    for (int i = 0; i < phase->optimizer->states; i++)
        count += sr_phase_has_state(phase, i);
    return count;
}

sr_phase_info sr_phase_get_info(const sr_phase *phase) {
    return (sr_phase_info){.name = phase->name,
                           .model = phase->model,
                           .optimizer = phase->optimizer,
                           .elements = phase->elements,
                           .states = count_states(phase),
                           .scratch = phase->matrix_scratch,
                           .arrays = 2 + count_states(phase) +
                                     (sr_phase_has_average(phase) ? 1 : 0) +
                                     (sr_phase_is_agreed(phase) ? 1 : 0)};
}

void sr_phase_set_lengths(sr_phase *phase, const sr_schedule_lengths *lengths) {
    for (int i = 0; i < phase->group_count; i++)
        phase->groups[i].until_samples = sr_length_samples(phase->groups[i].until, lengths);
}

void sr_phase_set_step(sr_phase *phase, int64_t step, int64_t position, double lr,
                       double gradient_scale, sr_ema_settings ema) {
    sr_float_control();
    const double scale = phase->loss_scale.scale;
    phase->now = (sr_step_settings){.step = step,
                                    .lr = lr,
                                    .loss_seed = scale * gradient_scale,
                                    .sum_scale = scale > 0 ? 1 / scale : gradient_scale};
    phase->ema_now = ema;
    phase->skipped = false;
    phase->clip_factor = 1;
    for (int i = 0; i < phase->group_count; i++) {
        sr_group_settings *g = &phase->groups[i];
        g->rests = g->until_samples > 0 && (double)position >= g->until_samples;
    }
    sr_phase_fill_settings(phase);
}

sr_gradient_report sr_phase_get_gradients(const sr_phase *phase) {
    return (sr_gradient_report){.norm = phase->gradient_norm,
                                .skipped = phase->skipped,
                                .loss_scale = phase->loss_scale.scale,
                                .skipped_steps = (int64_t)phase->loss_scale.skipped};
}

double sr_phase_loss_seed(const sr_phase *phase) {
    return phase->now.loss_seed;
}

sr_status sr_phase_end_step(sr_phase *phase) {
    return sr_device_download(phase->device, phase->scalars,
                              sr_phase_element(phase->values, phase->scalar_begin),
                              (size_t)(phase->elements - phase->scalar_begin) * sizeof(float));
}

static sr_address address_of(const sr_phase *phase, int array) {
    return array == SR_PHASE_VALUES    ? phase->values
           : array == SR_PHASE_AVERAGE ? phase->ema
                                       : phase->states[array - SR_PHASE_STATE];
}

sr_status sr_phase_map(const sr_phase *phase, int array, float **out) {
    void *mapped = NULL;
    SR_TRY(sr_device_map(phase->device, address_of(phase, array),
                         (size_t)phase->elements * sizeof(float), &mapped));
    *out = mapped;
    return SR_OK;
}

sr_status sr_phase_unmap(const sr_phase *phase, int array, float *mapped, bool write) {
    return sr_device_unmap(phase->device, address_of(phase, array),
                           (size_t)phase->elements * sizeof(float), mapped, write);
}

static float scalar(const sr_phase *phase, int segment, int element) {
    return phase->scalars[phase->segments[segment].begin - phase->scalar_begin + element];
}

double sr_phase_scalar(const sr_phase *phase, int which, int element) {
    return (double)scalar(phase, phase->loss_segment + 1 + which, element);
}

double sr_phase_loss_sum(const sr_phase *phase) {
    return (double)scalar(phase, phase->loss_segment, 0);
}

bool sr_phase_stop_agreed(const sr_phase *phase) {
    return scalar(phase, phase->stop_segment, 0) > 0;
}

bool sr_phase_trains(const sr_phase *phase, int param) {
    for (int i = 0; i < phase->loss_segment; i++)
        if (phase->uses[i].param == param)
            return true;
    return false;
}

bool sr_phase_has_average(const sr_phase *phase) {
    return !sr_address_is_none(phase->ema);
}

sr_status sr_phase_compare(const sr_phase *phase) {
    return sr_exchange_compare(phase->exchange);
}

int64_t sr_phase_exposed_ns(const sr_phase *phase) {
    return sr_exchange_get_stats(phase->exchange).exposed_ns;
}

sr_status sr_phase_start_average(sr_phase *phase) {
    if (!sr_phase_has_average(phase))
        return SR_OK;
    return sr_device_copy(phase->device, phase->ema, phase->values,
                          (size_t)phase->elements * sizeof(float));
}

sr_status sr_phase_gather_average(sr_phase *phase) {
    SR_TRY(sr_exchange_gather(phase->exchange, phase->ema, "gather the average of parameters"));
    for (int i = 0; i < phase->model->param_count; i++) {
        const sr_param *p = &phase->model->params[i];
        if (!sr_phase_trains(phase, i))
            SR_TRY(sr_device_copy(phase->device, sr_phase_element(phase->ema, p->offset),
                                  sr_phase_element(phase->values, p->offset),
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

sr_status sr_phase_find_not_finite(const sr_phase *phase, int array, bool buffers_only,
                                   const sr_param **out) {
    float *values;
    SR_TRY(sr_phase_map(phase, array, &values));
    *out = sr_values_not_finite(phase->model, values, buffers_only);
    return sr_phase_unmap(phase, array, values, false);
}
