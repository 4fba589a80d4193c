// SPDX-License-Identifier: Apache-2.0
// Phases: layout of the flat space and the update that owners run on it (phase.h).
//
// The update runs on the exchange's communication thread with prepared kernels, one for each length
// of piece that occurs; they are prepared the first time and kept, so a steady step allocates
// nothing. The kernels are elementwise: how a segment is cut into pieces changes no bit.
#include "trainer/engine/phase.h"

#include <string.h>

#include "kernels/base/float_control.h"
#include "kernels/base/memory.h"
#include "kernels/device/device.h"
#include "kernels/kernel_params.h"
#include "trainer/engine/param_groups.h"

static int64_t aligned(int64_t count) {
    return (count + SR_FLAT_ALIGN - 1) / SR_FLAT_ALIGN * SR_FLAT_ALIGN;
}

// ---- The update ----

static sr_status prepare_update(sr_phase *phase, int64_t count, sr_prepared_update **out) {
    for (size_t i = 0; i < phase->update_count; i++) {
        if (phase->updates[i].count == count) {
            *out = &phase->updates[i];
            return SR_OK;
        }
    }
    void *updates = phase->updates;
    SR_TRY(sr_grow(&updates, &phase->update_capacity, phase->update_count + 1,
                   sizeof *phase->updates, "updates"));
    phase->updates = updates;
    sr_prepared_update *u = &phase->updates[phase->update_count];
    *u = (sr_prepared_update){.count = count};
    u->request.kernel = phase->optimizer->kernel;
    u->request.own = phase->optimizer->kernels;
    u->request.own_count = phase->optimizer->kernel_count;
    u->request.args = phase->optimizer->states + 3;
    for (int i = 0; i < u->request.args; i++)
        u->request.dtype[i] = SR_F32;
    const sr_count_params params = {.count = count};
    memcpy(u->request.params, &params, sizeof params);
    SR_TRY(sr_kernel_prepare(&u->request, &u->prepared));
    size_t scratch = u->prepared.scratch + u->prepared.workspace + 128;
    if (scratch > phase->update_scratch_bytes) {
        sr_free(phase->update_scratch);
        phase->update_scratch = sr_alloc(scratch, "update scratch");
        phase->update_scratch_bytes = phase->update_scratch ? scratch : 0;
        if (!phase->update_scratch)
            return SR_E_MEMORY;
    }
    phase->update_count++;
    *out = u;
    return SR_OK;
}

static sr_status update_param(sr_phase *phase, int group, int64_t begin, int64_t count,
                              const float *sum, float *values) {
    sr_group_settings *g = &phase->groups[group];
    sr_prepared_update *u;
    if (g->rests)
        return SR_OK;
    SR_TRY(prepare_update(phase, count, &u));
    union {
        const float *in;
        void *any;
    } gradient = {.in = sum};
    void *p[SR_OPTIMIZER_MAX_STATES + 3] = {values};
    int states = phase->optimizer->states;
    for (int i = 0; i < states; i++)
        p[1 + i] = phase->states[i] + begin;
    p[1 + states] = gradient.any; // only read
    p[2 + states] = g->hyper;
    unsigned char *scratch = phase->update_scratch;
    size_t workspace = (u->prepared.workspace + 63) & ~(size_t)63;
    return sr_prepared_run(&u->prepared, &u->request, p, scratch, scratch + workspace);
}

static void update_buffer(const sr_phase *phase, double momentum, int64_t count, const float *sum,
                          float *values) {
    const float keep = (float)(1 - momentum), take = (float)momentum;
    const float scale = (float)(1.0 / phase->lanes);
    for (int64_t i = 0; i < count; i++)
        values[i] = keep * values[i] + take * (sum[i] * scale);
}

static void update_ema(const sr_ema_settings *ema, int64_t count, float *average, float *values) {
    const float keep = (float)ema->decay, take = (float)(1 - ema->decay);
    for (int64_t i = 0; i < count; i++) {
        average[i] = keep * average[i] + take * values[i];
        if (ema->lookahead)
            values[i] = average[i];
    }
}

static sr_status update_piece(sr_phase *phase, int segment, int64_t begin, int64_t end,
                              const float *sum, float *values) {
    const sr_segment_use *use = &phase->uses[segment];
    int64_t count = end - begin;
    if (use->kind == SR_SEGMENT_SCALAR) {
        memcpy(values, sum, (size_t)count * sizeof *values);
        return SR_OK;
    }
    if (use->kind == SR_SEGMENT_BUFFER)
        update_buffer(phase, phase->model->params[use->param].momentum, count, sum, values);
    else
        SR_TRY(update_param(phase, use->group, begin, count, sum, values));
    if (phase->ema && phase->ema_now.due)
        update_ema(&phase->ema_now, count, phase->ema + begin, values);
    return SR_OK;
}

// The first segment that ends after an element.
static int segment_after(const sr_phase *phase, int64_t element) {
    int low = 0, high = phase->segment_count;
    while (low < high) {
        int middle = (low + high) / 2;
        const sr_segment *s = &phase->segments[middle];
        if (s->begin + s->count <= element)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static sr_status update(void *user, int64_t step, int64_t begin, int64_t end, const float *sum,
                        float *values) {
    sr_phase *phase = user;
    (void)step;
    for (int i = segment_after(phase, begin); i < phase->segment_count; i++) {
        const sr_segment *s = &phase->segments[i];
        if (s->begin >= end)
            break;
        int64_t from = s->begin > begin ? s->begin : begin;
        int64_t to = s->begin + s->count < end ? s->begin + s->count : end;
        SR_TRY(update_piece(phase, i, from, to, sum + (from - begin), values + (from - begin)));
    }
    return SR_OK;
}

// ---- Layout ----

static sr_status make_groups(sr_phase *phase, const sr_recipe_optimizer *settings) {
    if (settings->group_count + 1 > SR_MAX_GROUPS)
        return SR_FAIL(SR_E_USAGE, "optimizer.groups: at most %d groups", SR_MAX_GROUPS - 1);
    phase->groups[0] = (sr_group_settings){.lr_scale = 1, .decay_scale = 1};
    phase->group_count = settings->group_count + 1;
    for (int i = 0; i < settings->group_count; i++)
        phase->groups[i + 1] = (sr_group_settings){.lr_scale = settings->groups[i].lr_scale,
                                                   .decay_scale = settings->groups[i].decay_scale,
                                                   .frozen = settings->groups[i].frozen,
                                                   .until = settings->groups[i].until};
    phase->weight_decay = settings->weight_decay;
    return SR_OK;
}

static void add_segment(sr_phase *phase, const char *name, int64_t begin, int64_t count,
                        sr_segment_use use) {
    phase->segments[phase->segment_count] =
        (sr_segment){.name = name, .begin = begin, .count = count};
    phase->uses[phase->segment_count++] = use;
}

static void add_scalar(sr_phase *phase, const char *name, int which) {
    add_segment(phase, name, phase->elements, SR_FLAT_ALIGN,
                (sr_segment_use){.kind = SR_SEGMENT_SCALAR, .param = which});
    phase->elements += SR_FLAT_ALIGN;
}

static sr_status make_layout(sr_phase *phase, const sr_phase_options *o) {
    size_t most = (size_t)phase->model->param_count + SR_MAX_SCALARS + 2;
    phase->segments = sr_alloc_array(most, sizeof *phase->segments, "segments");
    phase->uses = sr_alloc_array(most, sizeof *phase->uses, "segments");
    if (!phase->segments || !phase->uses)
        return SR_E_MEMORY;
    for (int i = 0; i < phase->model->param_count; i++) {
        const sr_param *p = &phase->model->params[i];
        int group = sr_param_group_of(o->settings, p);
        bool buffer = p->kind == SR_PARAM_BUFFER;
        if (p->kind == SR_PARAM_FROZEN || (!buffer && phase->groups[group].frozen))
            continue;
        add_segment(phase, p->name, p->offset, sr_info_count(&p->info),
                    (sr_segment_use){.kind = buffer ? SR_SEGMENT_BUFFER : SR_SEGMENT_PARAM,
                                     .param = i,
                                     .group = group});
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

static sr_status flat(int64_t elements, const char *what, float **out) {
    *out = sr_alloc_array((size_t)elements, sizeof **out, what);
    return *out ? SR_OK : SR_E_MEMORY;
}

static sr_status make_memory(sr_phase *phase, const sr_phase_options *o) {
    SR_TRY(flat(phase->elements, "parameters", &phase->values));
    for (int i = 0; i < phase->optimizer->states; i++)
        SR_TRY(flat(phase->elements, "optimiser state", &phase->states[i]));
    if (o->has_ema)
        SR_TRY(flat(phase->elements, "average of parameters", &phase->ema));
    phase->device_values = phase->values;
    if (!sr_device_host_access(o->device)) {
        void *memory;
        SR_TRY(sr_device_alloc(o->device, (size_t)phase->elements * sizeof(float), "parameters",
                               &memory));
        phase->device_values = memory;
    }
    sr_model_init_values(phase->model, o->seed, phase->values);
    sr_phase_upload(phase);
    return sr_model_bind(phase->model, o->context, phase->device_values);
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
    SR_TRY_GOTO(make_groups(phase, o->settings), fail);
    SR_TRY_GOTO(make_layout(phase, o), fail);
    SR_TRY_GOTO(make_memory(phase, o), fail);
    const sr_exchange_options exchange = {.lanes = o->lanes,
                                          .bucket_bytes = o->bucket_bytes,
                                          .segments = phase->segments,
                                          .segment_count = phase->segment_count,
                                          .values = phase->values,
                                          .elements = phase->elements,
                                          .update = update,
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
    for (size_t i = 0; i < phase->update_count; i++)
        sr_prepared_release(&phase->updates[i].prepared);
    if (phase->device_values != phase->values)
        sr_device_free(phase->device, phase->device_values);
    for (int i = 0; i < SR_OPTIMIZER_MAX_STATES; i++)
        sr_free(phase->states[i]);
    sr_free(phase->values);
    sr_free(phase->ema);
    sr_free(phase->segments);
    sr_free(phase->uses);
    sr_free(phase->updates);
    sr_free(phase->update_scratch);
    sr_model_free(phase->model);
    sr_free(phase);
}

void sr_phase_set_lengths(sr_phase *phase, const sr_schedule_lengths *lengths) {
    for (int i = 0; i < phase->group_count; i++)
        phase->groups[i].until_samples = sr_length_samples(phase->groups[i].until, lengths);
}

void sr_phase_set_step(sr_phase *phase, int64_t step, int64_t position, double lr,
                       double gradient_scale, sr_ema_settings ema) {
    sr_float_control();
    for (int i = 0; i < phase->group_count; i++) {
        sr_group_settings *g = &phase->groups[i];
        const sr_hyper_request request = {.lr = lr * g->lr_scale,
                                          .weight_decay = phase->weight_decay * g->decay_scale,
                                          .gradient_scale = gradient_scale,
                                          .step = step};
        phase->optimizer->fill(phase->optimizer_options, &request, g->hyper);
        g->rests = g->until_samples > 0 && (double)position >= g->until_samples;
    }
    phase->ema_now = ema;
}

void sr_phase_upload(sr_phase *phase) {
    if (phase->device_values != phase->values)
        sr_device_copy(phase->device, phase->device_values, phase->values,
                       (size_t)phase->elements * sizeof(float));
}

void sr_phase_download(sr_phase *phase) {
    if (phase->device_values != phase->values)
        sr_device_copy(phase->device, phase->values, phase->device_values,
                       (size_t)phase->elements * sizeof(float));
}

double sr_phase_scalar(const sr_phase *phase, int which, int element) {
    return (double)phase->values[phase->segments[phase->loss_segment + 1 + which].begin + element];
}

double sr_phase_loss_sum(const sr_phase *phase) {
    return (double)phase->values[phase->segments[phase->loss_segment].begin];
}

bool sr_phase_stop_agreed(const sr_phase *phase) {
    return phase->values[phase->segments[phase->stop_segment].begin] > 0;
}

bool sr_phase_trains(const sr_phase *phase, int param) {
    for (int i = 0; i < phase->loss_segment; i++)
        if (phase->uses[i].param == param)
            return true;
    return false;
}

void sr_phase_start_average(sr_phase *phase) {
    if (phase->ema)
        memcpy(phase->ema, phase->values, (size_t)phase->elements * sizeof(float));
}

sr_status sr_phase_gather_average(sr_phase *phase) {
    SR_TRY(sr_exchange_gather(phase->exchange, phase->ema, "gather the average of parameters"));
    for (int i = 0; i < phase->model->param_count; i++) {
        const sr_param *p = &phase->model->params[i];
        if (!sr_phase_trains(phase, i))
            memcpy(phase->ema + p->offset, phase->values + p->offset,
                   (size_t)sr_info_count(&p->info) * sizeof(float));
    }
    return SR_OK;
}
