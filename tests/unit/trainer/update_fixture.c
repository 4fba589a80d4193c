// SPDX-License-Identifier: Apache-2.0
// See update_fixture.h.
#include "tests/unit/trainer/update_fixture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/memory.h"
#include "kernels/base/rng.h"
#include "trainer/engine/choices.h"

// ---- The model ----

enum { TENSORS = 7 };

typedef struct tensors {
    sr_tensor field[TENSORS];
} tensors;

static void build_of(sr_builder *b, tensors *t, int64_t high, int64_t wide) {
    const sr_init zero = {.kind = SR_INIT_ZERO};
    sr_build_depth(b, 0);
    sr_build_param(b, &t->field[0], "conv.weight", SR_PARAM_WEIGHT, 4,
                   (const int64_t[]){4, 3, 2, 1}, zero);
    sr_build_param(b, &t->field[1], "conv.bias", SR_PARAM_BIAS, 1, (const int64_t[]){4}, zero);
    sr_build_depth(b, 1);
    sr_build_param(b, &t->field[2], "norm.weight", SR_PARAM_NORM, 1, (const int64_t[]){5}, zero);
    sr_build_param(b, &t->field[3], "norm.bias", SR_PARAM_NORM, 1, (const int64_t[]){5}, zero);
    sr_build_depth(b, 2);
    sr_build_param(b, &t->field[4], "fc.weight", SR_PARAM_WEIGHT, 2, (const int64_t[]){high, wide},
                   zero);
    sr_build_buffer(b, &t->field[5], "norm.running_mean", 5, zero, 0.1);
    if (high > 5)
        sr_build_param(b, &t->field[6], "head.weight", SR_PARAM_WEIGHT, 2,
                       (const int64_t[]){40001, 2}, zero);
}

static void build_small(sr_builder *b, const void *options, void *state) {
    (void)options;
    build_of(b, state, 5, 4);
}

static void build_large(sr_builder *b, const void *options, void *state) {
    (void)options;
    build_of(b, state, 257, 301);
}

static void forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    (void)state;
    sr_forward_output(f, "logits", inputs[0]); // never recorded
}

static const sr_model_desc models[] = {{.struct_size = sizeof(sr_model_desc),
                                        .abi = SR_MODEL_ABI,
                                        .name = "small",
                                        .state_size = sizeof(tensors),
                                        .build = build_small,
                                        .forward = forward},
                                       {.struct_size = sizeof(sr_model_desc),
                                        .abi = SR_MODEL_ABI,
                                        .name = "large",
                                        .state_size = sizeof(tensors),
                                        .build = build_large,
                                        .forward = forward}};

// [-1, 1): fill of tests/golden/make_goldens.py.
static void draw(uint32_t seed, int64_t count, float *out) {
    for (int64_t i = 0; i < count; i++)
        out[i] = -1 + 2 * sr_rng_unit(sr_philox(seed, (uint32_t)i, 0, 0, 0).v[0]);
}

static sr_status draw_values(update_fixture *f) {
    const sr_model *model = f->set->model;
    float *values;
    SR_TRY(sr_param_set_map(f->set, SR_SET_VALUES, &values));
    for (int i = 0; i < model->param_count; i++)
        draw(100 + (uint32_t)i, sr_info_count(&model->params[i].info),
             values + model->params[i].offset);
    SR_TRY(sr_param_set_unmap(f->set, SR_SET_VALUES, values, true));
    return sr_param_set_start_average(f->set);
}

// ---- The parameter set ----

static sr_status make_set(update_fixture *f, sr_comm *comm) {
    const update_settings *s = &f->settings;
    sr_choice_optimizer optimizer;
    SR_TRY(sr_choose_optimizer(f->recipe, 0, &f->arena, &optimizer));
    sr_param_set_options options = {.name = "",
                                    .device = f->device,
                                    .context = f->context,
                                    .comm = comm,
                                    .optimizer = optimizer.desc,
                                    .optimizer_options = optimizer.options,
                                    .settings = &f->recipe->sets[0].optimizer,
                                    .has_ema = s->averages,
                                    .ema_buffers = !s->keeps_buffers,
                                    .loss_scale = s->loss_scale,
                                    .loss_scale_every = 2,
                                    .lanes = s->lanes,
                                    .bucket_bytes = s->bucket_bytes,
                                    .seed = 1};
    const sr_model_build build = {.desc = &models[s->large], .prefix = "", .classes = 2};
    SR_TRY(sr_model_create(&build, &options.model));
    SR_TRY(sr_param_set_create(&options, &f->set));
    f->first_lane = sr_lanes_first(s->lanes, sr_comm_size(comm), sr_comm_rank(comm));
    f->end_lane = sr_lanes_first(s->lanes, sr_comm_size(comm), sr_comm_rank(comm) + 1);
    return draw_values(f);
}

static sr_status open_all(update_fixture *f, sr_comm *comm) {
    static const sr_stream_options direct = {.direct = true};
    char text[512];
    const char *overrides[] = {text};
    (void)snprintf(text, sizeof text, "optimizer=%s", f->settings.optimizer);
    SR_TRY(sr_recipe_load("tests/recipes/plain.yaml", overrides, 1, &f->recipe));
    SR_TRY(sr_device_open(f->settings.device, &f->device));
    const sr_context_options context = {.use_device = f->device, .threads = 1};
    SR_TRY(sr_context_create(&context, &f->context));
    SR_TRY(make_set(f, comm));
    const size_t bytes = (size_t)f->set->elements * sizeof(float);
    SR_TRY(sr_stream_create(f->device, &direct, &f->stream));
    SR_TRY(sr_device_alloc(f->device, bytes, "gradients", &f->gradients));
    f->host = sr_alloc(bytes, "gradients");
    return f->host ? SR_OK : SR_E_MEMORY;
}

sr_status update_open(update_fixture *f, const update_settings *settings, sr_comm *comm) {
    f->settings = *settings;
    f->broken_step = -1;
    sr_arena_init(&f->arena);
    return open_all(f, comm);
}

void update_close(update_fixture *f) {
    if (f->set)
        sr_param_set_free(f->set);
    sr_stream_free(f->stream);
    sr_device_free(f->device, f->gradients);
    sr_context_free(f->context);
    sr_device_close(f->device);
    sr_free(f->host);
    sr_recipe_free(f->recipe);
    sr_arena_release(&f->arena);
}

// ---- Steps ----

static sr_status give_lane(update_fixture *f, int64_t step, int lane) {
    const sr_param_set *set = f->set;
    for (int s = 0; s < set->loss_segment; s++) {
        const sr_segment *segment = &set->segments[s];
        const uint32_t seed =
            (uint32_t)(1000 + 100 * step + 10 * lane + (int64_t)set->uses[s].param);
        draw(seed, segment->count, f->host + segment->begin);
        for (int64_t i = 0; f->settings.loss_scale > 0 && i < segment->count; i++)
            f->host[segment->begin + i] *= (float)set->now.loss_seed;
    }
    if (step == f->broken_step && lane == 1)
        f->host[set->segments[0].begin] = INFINITY;
    SR_TRY(
        sr_device_upload(f->device, f->gradients, f->host, (size_t)set->elements * sizeof(float)));
    for (int s = set->segment_count - 1; s >= 0; s--) {
        const sr_segment *segment = &set->segments[s];
        const bool given = s < set->loss_segment;
        const sr_address from =
            given ? sr_address_add(f->gradients, (size_t)segment->begin * sizeof(float))
                  : sr_address_none();
        SR_TRY(
            sr_exchange_put(set->exchange, lane, s, from, given ? segment->count : 0, f->stream));
    }
    return sr_stream_wait(f->stream); // the array is filled again
}

sr_status update_steps(update_fixture *f, int64_t first, int64_t end) {
    sr_param_set *set = f->set;
    const sr_ema_settings ema = {.decay = 0.75, .due = f->settings.averages};
    for (int64_t step = first; step < end; step++) {
        sr_param_set_use(set, &(sr_set_step){.updates = step,
                                             .position = step,
                                             .lr = f->recipe->sets[0].optimizer.lr,
                                             .gradient_scale = 1.0 / f->settings.lanes,
                                             .ema = ema});
        SR_TRY(sr_param_set_begin_step(set));
        SR_TRY(sr_exchange_step_begin(set->exchange, step));
        for (int lane = f->first_lane; lane < f->end_lane; lane++)
            SR_TRY(give_lane(f, step, lane));
        SR_TRY(sr_exchange_step_wait(set->exchange));
        SR_TRY(sr_param_set_end_step(set, f->host));
    }
    return SR_OK;
}

// ---- Results ----

enum { ARRAYS = SR_SET_STATE + SR_OPTIMIZER_MAX_STATES };

static bool exists(const sr_param_set *set, int array) {
    return array == SR_SET_VALUES ||
           (array == SR_SET_AVERAGE ? sr_param_set_has_average(set)
                                    : sr_param_set_has_state(set, array - SR_SET_STATE));
}

// Copies the elements of all tensors of an array to or from 'packed'; returns their number.
static sr_status copy_array(const update_fixture *f, int array, float *packed, bool write,
                            int64_t *used) {
    const sr_param_set *set = f->set;
    float *mapped;
    SR_TRY(sr_param_set_map(set, array, &mapped));
    for (int i = 0; i < set->model->param_count; i++) {
        const sr_param *p = &set->model->params[i];
        const int64_t count = sr_info_count(&p->info);
        const size_t bytes = (size_t)count * sizeof(float);
        if (write)
            memcpy(mapped + p->offset, packed + *used, bytes);
        else
            memcpy(packed + *used, mapped + p->offset, bytes);
        *used += count;
    }
    return sr_param_set_unmap(set, array, mapped, write);
}

static sr_status copy_all(const update_fixture *f, float *packed, bool write, int64_t *used) {
    *used = 0;
    for (int array = 0; array < ARRAYS; array++)
        if (exists(f->set, array))
            SR_TRY(copy_array(f, array, packed, write, used));
    return SR_OK;
}

sr_status update_read(const update_fixture *f, float **out, int64_t *count) {
    sr_param_set *set = f->set;
    if (sr_param_set_has_average(set))
        SR_TRY(sr_param_set_gather_average(set));
    for (int i = 0; i < SR_OPTIMIZER_MAX_STATES; i++)
        if (sr_param_set_has_state(set, i))
            SR_TRY(sr_exchange_gather(set->exchange, set->states[i], "gather a state"));
    *out = sr_alloc_array((size_t)set->elements * ARRAYS, sizeof **out, "results");
    return *out ? copy_all(f, *out, false, count) : SR_E_MEMORY;
}

sr_status update_write(const update_fixture *f, const float *from) {
    int64_t used;
    float *copy = sr_alloc_array((size_t)f->set->elements * ARRAYS, sizeof *copy, "results");
    if (!copy)
        return SR_E_MEMORY;
    memcpy(copy, from, (size_t)f->set->elements * ARRAYS * sizeof *copy);
    const sr_status status = copy_all(f, copy, true, &used);
    sr_free(copy);
    return status;
}
