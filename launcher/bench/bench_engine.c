// SPDX-License-Identifier: Apache-2.0
// Training steps to be measured (bench_engine_internal.h).
#include "launcher/bench/bench_engine_internal.h"

#include <string.h>

#include "kernels/base/clock.h"
#include "kernels/base/memory.h"
#include "kernels/base/rng.h"
#include "trainer/engine/choices.h"
#include "trainer/engine/from_recipe.h"

enum { ARRAY_ALIGN = 64 }; // sr_lane_source

// Random labels cannot be learned; the low rate keeps parameters finite.
static const double learning_rate = 1e-4;

static sr_status get_slot(void *user, int lane, sr_slot *out) {
    *out = ((sr_bench_engine *)user)->slots[lane];
    return SR_OK;
}

// The data of all steps are the same.
static bool get_slot_ahead(void *user, int lane, sr_slot *out) {
    return get_slot(user, lane, out) == SR_OK;
}

static void done_slot(void *user, int lane) {
    (void)user;
    (void)lane;
}

static bool has_classes(const sr_task_desc *task, const sr_array *array) {
    for (int i = 0; i < SR_TASK_INPUTS && task->inputs[i].name; i++)
        if (task->inputs[i].is_class && strcmp(task->inputs[i].name, array->name) == 0)
            return true;
    return false;
}

static size_t count_elements(const sr_array *array) {
    size_t count = 1;
    for (int i = 0; i < array->rank; i++)
        count *= (size_t)array->shape[i];
    return count;
}

// Bytes up to the next array.
static size_t stride_of(const sr_array *array) {
    const size_t bytes = count_elements(array) * sr_dtype_size(array->dtype);
    return (bytes + ARRAY_ALIGN - 1) / ARRAY_ALIGN * ARRAY_ALIGN;
}

// Bytes are pixels unless they are classes, as integers are.
static sr_status fill_array(const sr_array *array, bool is_class, int64_t classes, sr_rng *rng) {
    const size_t count = count_elements(array);
    uint8_t *pixels = array->data;
    int32_t *labels = array->data;
    if (array->dtype != SR_U8 && array->dtype != SR_I32)
        return SR_FAIL(SR_E_UNSUPPORTED, "there are no random values for array '%s', which is %s",
                       array->name, sr_dtype_name(array->dtype));
    const uint32_t values = classes < UINT8_MAX ? (uint32_t)classes : UINT8_MAX;
    for (size_t i = 0; i < count; i++)
        if (array->dtype == SR_U8)
            pixels[i] = (uint8_t)(is_class ? sr_rng_below(rng, values) : sr_rng_u32(rng) >> 24);
        else
            labels[i] = (int32_t)sr_rng_below(rng, (uint32_t)classes);
    return SR_OK;
}

// Fixed, random.
static sr_status make_slots(sr_bench_engine *e, const sr_recipe *r, int64_t classes) {
    const sr_engine_info info = sr_engine_get_info(e->engine);
    const sr_slot *described = sr_engine_get_slot(e->engine);
    size_t lane_bytes = 0;
    for (int i = 0; i < described->arrays; i++)
        lane_bytes += stride_of(&described->array[i]);
    e->slots = sr_alloc_array((size_t)r->lanes, sizeof *e->slots, "inputs");
    e->inputs = sr_alloc_array((size_t)r->lanes, lane_bytes, "inputs");
    if (!e->slots || !e->inputs)
        return SR_E_MEMORY;
    char *at = e->inputs;
    for (int64_t lane = 0; lane < r->lanes; lane++) {
        sr_slot *slot = &e->slots[lane];
        sr_rng rng;
        *slot = *described;
        sr_rng_init(&rng, 1, (uint32_t)lane, 0, 0);
        for (int i = 0; i < slot->arrays; at += stride_of(&slot->array[i]), i++) {
            slot->array[i].data = at;
            SR_TRY(fill_array(&slot->array[i], has_classes(info.task, &slot->array[i]), classes,
                              &rng));
        }
    }
    sr_slot_memory_pin(&e->pinned, e->inputs, (size_t)r->lanes * lane_bytes, info.device);
    return SR_OK;
}

// The state of the engine is allocated already.
static sr_status fit_lanes(sr_engine *engine) {
    sr_device_memory memory;
    uint64_t bytes;
    if (!sr_device_get_memory(sr_engine_get_info(engine).device, &memory))
        return SR_OK;
    return sr_engine_fit_lanes(engine, memory.available, &bytes);
}

sr_status sr_bench_engine_make(sr_recipe *r, sr_comm *comm, const char *device, int threads,
                               int64_t classes, sr_bench_engine *e) {
    const sr_task_desc *task;
    sr_device_properties chosen;
    *e = (sr_bench_engine){.source = sr_lane_source_number()};
    SR_TRY(sr_choose_task(r, &task));
    if (!device) {
        SR_TRY(sr_choose_device(r, sr_comm_rank(comm), &chosen));
        device = chosen.name;
    }
    sr_engine_options options = sr_engine_options_of(r, task);
    options.comm = comm;
    options.device = device;
    options.threads = threads;
    options.classes = classes;
    options.seed = 1;
    SR_TRY(sr_engine_create(&options, &e->engine));
    const sr_schedule_lengths lengths = {
        .total = INT64_C(1) << 40, .epoch = INT64_C(1) << 20, .batch = r->batch};
    sr_engine_set_lengths(e->engine, &lengths);
    return SR_OK;
}

sr_status sr_bench_engine_create(sr_recipe *recipe, sr_comm *comm, int threads, int64_t classes,
                                 sr_bench_engine *out) {
    sr_status status = sr_bench_engine_make(recipe, comm, NULL, threads, classes, out);
    if (status == SR_OK)
        status = fit_lanes(out->engine);
    if (status == SR_OK)
        status = make_slots(out, recipe, classes);
    if (status != SR_OK)
        sr_bench_engine_release(out);
    return status;
}

sr_status sr_bench_engine_step(sr_bench_engine *e, int count, double *seconds) {
    const sr_lane_source source = {.get = get_slot,
                                   .done = done_slot,
                                   .user = e,
                                   .ahead = get_slot_ahead,
                                   .number = e->source};
    const sr_engine_info info = sr_engine_get_info(e->engine);
    int64_t begin = sr_clock_ns();
    for (int i = 0; i < count; i++, e->step++) {
        for (int p = 0; p < info.phases; p++) {
            sr_phase *phase = sr_engine_get_phase(e->engine, p);
            if (!sr_phase_is_due(phase, e->step))
                continue;
            sr_phase_set_step(phase, e->step, e->step * info.batch, learning_rate,
                              1.0 / (double)info.batch, (sr_ema_settings){.decay = 0});
            SR_TRY(sr_engine_step(e->engine, p, e->step, &source));
        }
    }
    *seconds = (double)(sr_clock_ns() - begin) / (double)SR_NS_PER_S;
    return SR_OK;
}

void sr_bench_engine_release(sr_bench_engine *e) {
    sr_slot_memory_unpin(&e->pinned);
    sr_engine_free(e->engine);
    sr_free(e->inputs);
    sr_free(e->slots);
    *e = (sr_bench_engine){0};
}
