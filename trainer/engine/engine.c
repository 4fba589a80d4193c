// SPDX-License-Identifier: Apache-2.0
// Steps of a rank (engine.h): recording, replaying for the local lanes, handing to the exchange.
#include "trainer/engine/engine.h"

#include <stdio.h>
#include <string.h>

#include "autograd/gradients.h"
#include "kernels/base/float_control.h"
#include "kernels/base/memory.h"
#include "kernels/base/pool.h"
#include "kernels/base/watch.h"
#include "kernels/chooser.h"
#include "kernels/device/device.h"
#include "trainer/engine/engine_trace_internal.h"
#include "trainer/engine/fingerprint.h"
#include "trainer/engine/param_groups.h"
#include "trainer/engine/placement.h"
#include "trainer/engine/stop.h"

enum { SLOT_IMAGE = 0, SLOT_LABEL, SLOT_KEY, INPUT_SLOTS = 64 };

// One executor's current lane.
typedef struct sr_lane_run {
    sr_engine *engine;
    sr_phase *phase;
    int lane, target_count;
    bool busy;
    int32_t *key; // i32[4], host memory
    void *inputs[INPUT_SLOTS];
    float *out; // of an inference
    size_t out_bytes;
} sr_lane_run;

// ---- Creation ----

static sr_status create_phase(sr_engine *e, const sr_engine_options *o, int index) {
    const sr_recipe_phase *from = &e->recipe->phases[index];
    const sr_recipe *r = e->recipe;
    char prefix[SR_NAME_BYTES] = "";
    sr_choice_model model;
    sr_choice_optimizer optimizer;
    SR_TRY(sr_choose_model(e->recipe, index, &e->arena, &model));
    SR_TRY(sr_choose_optimizer(e->recipe, index, &e->arena, &optimizer));
    if (from->name[0])
        (void)snprintf(prefix, sizeof prefix, "%s.", from->name);
    const sr_model_build build = {
        .desc = model.desc, .options = model.options, .prefix = prefix, .classes = o->classes};
    sr_phase_options options = {.name = from->name,
                                .device = e->device,
                                .context = e->context,
                                .comm = e->comm,
                                .task = e->task,
                                .optimizer = optimizer.desc,
                                .optimizer_options = optimizer.options,
                                .settings = &from->optimizer,
                                .has_ema = r->ema.decay > 0,
                                .lanes = e->lanes,
                                .bucket_bytes = r->exchange.bucket,
                                .report_seconds = r->deadline_report,
                                .act_seconds = r->deadline_act,
                                .seed = e->seed};
    SR_TRY(sr_model_create(&build, &options.model));
    const sr_status groups = sr_param_groups_check(e->recipe, index, options.model);
    if (groups != SR_OK) {
        sr_model_free(options.model);
        return groups;
    }
    SR_TRY(sr_phase_create(&options, &e->phases[index]));
    e->models[index] = e->phases[index]->model;
    e->phase_count++;
    return SR_OK;
}

static sr_status create_targets(sr_engine *e) {
    int64_t largest = SR_FLAT_ALIGN;
    for (int p = 0; p < e->phase_count; p++) {
        const sr_phase *phase = e->phases[p];
        if (phase->segment_count > e->target_capacity)
            e->target_capacity = phase->segment_count;
        for (int i = 0; i < phase->model->param_count; i++)
            if (phase->model->params[i].variable.slot >= e->report_capacity)
                e->report_capacity = phase->model->params[i].variable.slot + 1;
        for (int i = 0; i < phase->segment_count; i++)
            if (phase->segments[i].count > largest)
                largest = phase->segments[i].count;
    }
    e->targets = sr_alloc_array((size_t)e->target_capacity, sizeof *e->targets, "targets");
    e->target_segment =
        sr_alloc_array((size_t)e->target_capacity, sizeof *e->target_segment, "targets");
    e->lane_values =
        sr_alloc_array(3 * (size_t)e->target_capacity, sizeof *e->lane_values, "targets");
    e->report = sr_alloc_array((size_t)e->report_capacity + 1, sizeof *e->report, "targets");
    e->zeros = sr_alloc_array((size_t)largest, sizeof *e->zeros, "zero gradient");
    return e->targets && e->target_segment && e->lane_values && e->report && e->zeros ? SR_OK
                                                                                      : SR_E_MEMORY;
}

// Threads that an executor starts compute where this one does meanwhile.
static sr_status create_executor(sr_engine *e, int index) {
    const sr_cpu_set rank = sr_cpu_set_of_thread();
    sr_cpu_set lane;
    const int threads = e->threads / e->executor_count;
    if (!sr_placement_of_lane("/sys", &rank, e->executor_count, index, &lane))
        return sr_executor_create(e->device, threads, &e->executors[index]);
    SR_TRY(sr_cpu_set_bind(&lane));
    const sr_status status = sr_executor_create(e->device, threads, &e->executors[index]);
    const sr_status back = sr_cpu_set_bind(&rank);
    return status == SR_OK ? back : status;
}

// As many lanes at a time as there are cores; left-over cores join the lanes' teams.
static sr_status create_executors(sr_engine *e, bool one) {
    int local = e->lane_end - e->lane_begin;
    e->executor_count = one ? 1 : local < e->threads ? local : e->threads;
    e->executors = sr_alloc_array((size_t)e->executor_count, sizeof *e->executors, "executors");
    e->runs = sr_alloc_array((size_t)e->executor_count, sizeof *e->runs, "executors");
    if (!e->executors || !e->runs)
        return SR_E_MEMORY;
    for (int i = 0; i < e->executor_count; i++) {
        SR_TRY(create_executor(e, i));
        e->runs[i].engine = e;
        e->runs[i].key = sr_alloc(64, "lane key");
        if (!e->runs[i].key)
            return SR_E_MEMORY;
    }
    for (int p = 0; p < e->phase_count && !one; p++)
        SR_TRY(sr_exchange_reserve(e->phases[p]->exchange, e->executor_count));
    return SR_OK;
}

static void use_chooser(const sr_recipe *recipe) {
    char fingerprint[SR_FINGERPRINT_BYTES];
    const sr_chooser_options options = {.on = recipe->chooser != SR_CHOOSER_OFF,
                                        .workspace = (size_t)recipe->chooser_workspace,
                                        .numerics = sr_fingerprint(fingerprint)};
    sr_chooser_use(&options);
}

static sr_status fill_engine(sr_engine *e, const sr_engine_options *o) {
    int rank = sr_comm_rank(o->comm), ranks = sr_comm_size(o->comm);
    e->task = o->task;
    e->recipe = o->recipe;
    e->comm = o->comm;
    e->seed = o->seed;
    e->batch = o->batch;
    e->lanes = (int)o->lanes;
    e->lane_begin = sr_lanes_first(e->lanes, ranks, rank);
    e->lane_end = sr_lanes_first(e->lanes, ranks, rank + 1);
    e->lane_samples = o->batch / o->lanes;
    e->image_height = o->image_height;
    e->image_width = o->image_width;
    e->dtype = o->recipe->precision == SR_PRECISION_BF16 ? SR_BF16 : SR_F32;
    e->threads = o->threads > 0 ? o->threads : sr_cpu_count();
    for (int c = 0; c < 3; c++) {
        e->mean[c] = e->recipe->data.mean.items[c];
        e->std[c] = e->recipe->data.std.items[c];
    }
    sr_kernels_use_portable(o->recipe->numerics_portable);
    use_chooser(o->recipe);
    SR_TRY(sr_device_open(o->device, &e->device));
    const sr_context_options context = {.use_device = e->device, .threads = 1};
    SR_TRY(sr_context_create(&context, &e->context));
    SR_TRY(sr_choose_loss(e->recipe, e->task, &e->arena, &e->loss));
    for (int i = 0; i < e->recipe->phase_count; i++)
        SR_TRY(create_phase(e, o, i));
    SR_TRY(create_targets(e));
    return create_executors(e, o->one_executor);
}

sr_status sr_engine_create(const sr_engine_options *options, sr_engine **out) {
    sr_float_control();
    sr_engine *e = sr_alloc(sizeof *e, "engine");
    if (!e)
        return SR_E_MEMORY;
    sr_arena_init(&e->arena);
    sr_status status = fill_engine(e, options);
    if (status != SR_OK) {
        sr_engine_free(e);
        return status;
    }
    *out = e;
    return SR_OK;
}

void sr_engine_free(sr_engine *e) {
    if (!e)
        return;
    for (int i = 0; i < e->executor_count && e->executors; i++) {
        sr_executor_free(e->executors[i]);
        if (e->runs)
            sr_free(e->runs[i].key);
    }
    for (int i = 0; i < SR_MAX_PHASES; i++)
        sr_phase_free(e->phases[i]);
    sr_context_free(e->context);
    if (e->device_average)
        sr_device_free(e->device, e->device_average);
    sr_device_close(e->device);
    sr_free(e->executors);
    sr_free(e->runs);
    sr_free(e->targets);
    sr_free(e->target_segment);
    sr_free(e->lane_values);
    sr_free(e->zeros);
    sr_free(e->statistics.items);
    sr_free(e->report);
    sr_free(e->trace);
    sr_arena_release(&e->arena);
    sr_free(e);
}

// ---- Recording ----

// Evaluation sees samples as they are.
static sr_mix_opts mix_of(const sr_recipe *recipe, bool training) {
    if (!training || !(recipe->mix.probability > 0))
        return (sr_mix_opts){0};
    return (sr_mix_opts){.mixup = recipe->mix.mixup,
                         .cutmix = recipe->mix.cutmix,
                         .probability = recipe->mix.probability};
}

static sr_lane_recording begin_record(sr_engine *e, int phase, bool training, int64_t samples,
                                      int64_t height, int64_t width) {
    const sr_info image = {.dtype = SR_U8, .rank = 4, .dim = {samples, height, width, 3}};
    const sr_info label = {.dtype = SR_I32, .rank = 1, .dim = {samples}};
    const sr_info key = {.dtype = SR_I32, .rank = 1, .dim = {4}};
    sr_context_begin_step(e->context);
    e->statistics.count = 0;
    e->statistics.out_of_memory = false;
    return (sr_lane_recording){.context = e->context,
                               .phase = phase,
                               .training = training,
                               .dtype = e->dtype,
                               .models = e->models,
                               .mean = e->mean,
                               .std = e->std,
                               .loss_desc = e->loss.desc,
                               .loss_options = e->loss.options,
                               .mix = mix_of(e->recipe, training),
                               .image = sr_input(e->context, SLOT_IMAGE, &image),
                               .label = sr_input(e->context, SLOT_LABEL, &label),
                               .key = sr_input(e->context, SLOT_KEY, &key),
                               .statistics = &e->statistics};
}

// Notes which report each buffer's first one is.
static void index_statistics(sr_engine *e) {
    const sr_statistics *s = &e->statistics;
    for (int i = s->count - 1; i >= 0; i--)
        if (s->items[i].buffer.slot < e->report_capacity)
            e->report[s->items[i].buffer.slot] = i;
}

static sr_tensor statistic_of(const sr_engine *e, sr_tensor buffer) {
    const sr_statistics *s = &e->statistics;
    const int i = e->report[buffer.slot]; // of this step, if it is of this buffer
    return i < s->count && s->items[i].buffer.slot == buffer.slot ? s->items[i].value : SR_NONE;
}

// What each segment gets from a lane, in the order of segments; SR_NONE: a buffer without a
// statistic, and the stop request.
static void lane_values(sr_engine *e, const sr_lane_recording *r, sr_tensor *values) {
    const sr_phase *phase = e->phases[r->phase];
    sr_tensor *xs = values + phase->segment_count; // scratch behind
    int params = 0;
    for (int i = 0; i < phase->segment_count; i++)
        if (phase->uses[i].kind == SR_SEGMENT_PARAM)
            xs[params++] = phase->model->params[phase->uses[i].param].variable;
    sr_tensor *grads = xs + params;
    sr_gradients(r->loss, SR_NONE, xs, params, grads);
    index_statistics(e);
    for (int i = 0, k = 0; i < phase->segment_count; i++) {
        const sr_segment_use *use = &phase->uses[i];
        if (use->kind == SR_SEGMENT_PARAM)
            values[i] = grads[k++];
        else if (use->kind == SR_SEGMENT_BUFFER)
            values[i] = statistic_of(e, phase->model->params[use->param].variable);
        else if (i == phase->loss_segment)
            values[i] = sr_reduce_sum(r->loss);
        else
            values[i] = i == phase->stop_segment ? SR_NONE : r->scalars[use->param - 1];
    }
}

// Records the lane program of a phase and compiles it. *count targets belong to target_segment[].
static sr_status record_phase(sr_engine *e, int phase_index, sr_plan **plan, int *count) {
    const sr_phase *phase = e->phases[phase_index];
    sr_lane_recording r =
        begin_record(e, phase_index, true, e->lane_samples, e->image_height, e->image_width);
    e->task->record(&r);
    sr_tensor *values = e->lane_values;
    lane_values(e, &r, values);
    *count = 0;
    for (int i = 0; i < phase->segment_count; i++) {
        if (sr_is_none(values[i]))
            continue;
        bool param = phase->uses[i].kind == SR_SEGMENT_PARAM;
        e->target_segment[*count] = i;
        e->targets[(*count)++] = (sr_target){
            .tensor = values[i],
            .after = param ? phase->model->params[phase->uses[i].param].variable : SR_NONE};
    }
    SR_TRY(sr_context_status(e->context));
    SR_TRY(sr_statistics_check(&e->statistics));
    return sr_compile(e->context, e->targets, *count, plan);
}

// ---- Running ----

static sr_status sink(void *user, int index, const void *data, size_t bytes) {
    sr_lane_run *run = user;
    sr_phase *phase = run->phase;
    int segment = run->engine->target_segment[index];
    float scalar[SR_FLAT_ALIGN] = {0};
    if (phase->uses[segment].kind == SR_SEGMENT_SCALAR) {
        if (bytes > sizeof scalar) {
            return SR_FAIL(SR_E_SHAPE, "scalar '%s' of task %s has %zu bytes; at most %zu travel",
                           phase->segments[segment].name, run->engine->task->name, bytes,
                           sizeof scalar);
        }
        memcpy(scalar, data, bytes);
        data = scalar;
    }
    return sr_exchange_put(phase->exchange, run->lane, segment, data);
}

// Segments that the program does not compute: the stop request, and zeros for buffers that nobody
// reported.
static sr_status put_others(sr_engine *e, const sr_lane_run *run) {
    const sr_phase *phase = run->phase;
    float stop[SR_FLAT_ALIGN] = {sr_stop_requested() ? 1.0f : 0.0f};
    for (int i = 0, t = 0; i < phase->segment_count; i++) {
        if (t < run->target_count && e->target_segment[t] == i) {
            t++;
            continue;
        }
        SR_TRY(sr_exchange_put(phase->exchange, run->lane, i,
                               i == phase->stop_segment ? stop : e->zeros));
    }
    return SR_OK;
}

static sr_status finish(sr_engine *e, int i, const sr_lane_source *source) {
    sr_lane_run *run = &e->runs[i];
    if (!run->busy)
        return SR_OK;
    run->busy = false;
    sr_watch watch;
    sr_watch_begin_work(&watch, "lane %d to be computed", run->lane);
    sr_status status = sr_executor_wait(e->executors[i]);
    sr_watch_end(&watch);
    source->done(source->user, run->lane);
    return status;
}

static void set_key(const sr_engine *e, int64_t step, int lane, int32_t *key) {
    const uint32_t words[4] = {(uint32_t)e->seed, (uint32_t)(e->seed >> 32), (uint32_t)step,
                               (uint32_t)lane};
    memcpy(key, words, sizeof words);
}

static sr_status start_lane(sr_engine *e, sr_phase *phase, int64_t step, int lane, sr_plan *plan,
                            int target_count, const sr_lane_source *source) {
    int i = (lane - e->lane_begin) % e->executor_count;
    sr_lane_run *run = &e->runs[i];
    sr_lane_inputs inputs;
    SR_TRY(finish(e, i, source));
    SR_TRY(source->get(source->user, lane, &inputs));
    run->phase = phase;
    run->lane = lane;
    run->target_count = target_count;
    SR_TRY(put_others(e, run));
    run->busy = true;
    set_key(e, step, lane, run->key);
    run->inputs[SLOT_IMAGE] = inputs.image;
    run->inputs[SLOT_LABEL] = inputs.label;
    run->inputs[SLOT_KEY] = run->key;
    const sr_run replay = {.inputs = run->inputs, .sink = sink, .user = run};
    return sr_executor_begin(e->executors[i], plan, &replay);
}

static sr_status run_lanes(sr_engine *e, sr_phase *phase, int64_t step, sr_plan *plan, int count,
                           const sr_lane_source *source) {
    sr_status status = SR_OK;
    for (int lane = e->lane_begin; lane < e->lane_end && status == SR_OK; lane++)
        status = start_lane(e, phase, step, lane, plan, count, source);
    // Lanes that run are waited for in any case: they read inputs and write to the exchange. The
    // first failure is the one to tell.
    char message[1024] = "", where[64] = "";
    if (status != SR_OK) {
        (void)snprintf(message, sizeof message, "%s", sr_error_message());
        (void)snprintf(where, sizeof where, "%s", sr_error_where());
    }
    for (int i = 0; i < e->executor_count; i++) {
        sr_status other = finish(e, i, source);
        if (status == SR_OK && other != SR_OK) {
            status = other;
            (void)snprintf(message, sizeof message, "%s", sr_error_message());
            (void)snprintf(where, sizeof where, "%s", sr_error_where());
        }
    }
    return status == SR_OK ? SR_OK : sr_error_adopt(status, where, message);
}

sr_status sr_engine_step(sr_engine *e, int phase_index, int64_t step,
                         const sr_lane_source *source) {
    sr_phase *phase = e->phases[phase_index];
    sr_plan *plan;
    int count;
    sr_float_control();
    SR_TRY(sr_engine_trace_begin(e->trace));
    SR_TRY(sr_exchange_step_begin(phase->exchange, step));
    sr_status status = record_phase(e, phase_index, &plan, &count);
    sr_engine_trace_end(e->trace, SR_STEP_RECORDS);
    if (status == SR_OK)
        status = run_lanes(e, phase, step, plan, count, source);
    sr_engine_trace_end(e->trace, SR_STEP_LANES);
    if (status != SR_OK)
        sr_exchange_fail(phase->exchange, status, sr_error_message());
    SR_TRY(sr_exchange_step_wait(phase->exchange));
    sr_phase_upload(phase);
    sr_engine_trace_end(e->trace, SR_STEP_WAITS);
    return SR_OK;
}

sr_status sr_engine_compile(sr_engine *e, int phase, sr_plan **out) {
    int count;
    return record_phase(e, phase, out, &count);
}

// ---- Inference ----

static sr_status inference_sink(void *user, int index, const void *data, size_t bytes) {
    sr_lane_run *run = user;
    (void)index;
    if (bytes != run->out_bytes)
        return SR_FAIL(SR_E_SHAPE, "the model gives %zu bytes where %zu are expected", bytes,
                       run->out_bytes);
    memcpy(run->out, data, bytes);
    return SR_OK;
}

sr_status sr_engine_infer(sr_engine *e, int64_t samples, int64_t height, int64_t width, void *image,
                          float *out, size_t bytes) {
    sr_plan *plan;
    sr_lane_run *run = &e->runs[0];
    sr_float_control();
    if (!e->task->infer)
        return SR_FAIL(SR_E_UNSUPPORTED, "task %s has nothing to evaluate", e->task->name);
    sr_lane_recording r = begin_record(e, 0, false, samples, height, width);
    const sr_target target = {.tensor = e->task->infer(&r)};
    SR_TRY(sr_context_status(e->context));
    SR_TRY(sr_compile(e->context, &target, 1, &plan));
    run->out = out;
    run->out_bytes = bytes;
    run->inputs[SLOT_IMAGE] = image;
    const sr_run replay = {.inputs = run->inputs, .sink = inference_sink, .user = run};
    SR_TRY(sr_executor_begin(e->executors[0], plan, &replay));
    return sr_executor_wait(e->executors[0]);
}

static sr_status mix_sink(void *user, int index, const void *data, size_t bytes) {
    const sr_mixed_lane *out = user;
    void *const to[] = {out->x, out->partner, out->weight};
    memcpy(to[index], data, bytes);
    return SR_OK;
}

sr_status sr_engine_mix(sr_engine *e, int64_t step, int lane, const sr_lane_inputs *inputs,
                        const sr_mixed_lane *out) {
    sr_plan *plan;
    sr_lane_run *run = &e->runs[0];
    sr_mixed_lane into = *out;
    sr_float_control();
    if (!e->task->mix)
        return SR_FAIL(SR_E_UNSUPPORTED, "task %s mixes no samples", e->task->name);
    sr_lane_recording r =
        begin_record(e, 0, true, e->lane_samples, e->image_height, e->image_width);
    const sr_mixed mixed = e->task->mix(&r);
    const sr_target targets[] = {
        {.tensor = sr_cast(mixed.x, SR_F32)}, {.tensor = mixed.partner}, {.tensor = mixed.weight}};
    SR_TRY(sr_context_status(e->context));
    SR_TRY(sr_compile(e->context, targets, 3, &plan));
    set_key(e, step, lane, run->key);
    run->inputs[SLOT_IMAGE] = inputs->image;
    run->inputs[SLOT_LABEL] = inputs->label;
    run->inputs[SLOT_KEY] = run->key;
    const sr_run replay = {.inputs = run->inputs, .sink = mix_sink, .user = &into};
    SR_TRY(sr_executor_begin(e->executors[0], plan, &replay));
    return sr_executor_wait(e->executors[0]);
}

static sr_status average_memory(sr_engine *e, sr_phase *phase, float **out) {
    SR_TRY(sr_phase_gather_average(phase));
    *out = phase->ema;
    if (sr_device_host_access(e->device))
        return SR_OK;
    size_t bytes = (size_t)phase->elements * sizeof(float);
    if (!e->device_average) {
        void *memory;
        SR_TRY(sr_device_alloc(e->device, bytes, "average of parameters", &memory));
        e->device_average = memory;
    }
    sr_device_copy(e->device, e->device_average, phase->ema, bytes);
    *out = e->device_average;
    return SR_OK;
}

sr_status sr_engine_use_average(sr_engine *e, bool average) {
    sr_phase *phase = e->phases[0];
    float *flat = phase->device_values;
    if (average && phase->ema)
        SR_TRY(average_memory(e, phase, &flat));
    for (int i = 0; i < phase->model->param_count; i++) {
        const sr_param *p = &phase->model->params[i];
        sr_variable_move(p->variable, flat + p->offset);
    }
    return SR_OK;
}
