// SPDX-License-Identifier: Apache-2.0
// Steps of a rank (engine.h): recording, replaying for the local lanes, handing to the exchange.
#include "graph/executor_check.h"
#include "trainer/engine/engine_internal.h"

#include <stdio.h>
#include <string.h>

#include "autograd/gradients.h"
#include "graph/call_layers.h"
#include "kernels/base/float_control.h"
#include "kernels/base/memory.h"
#include "kernels/base/pool.h"
#include "kernels/base/watch.h"
#include "kernels/chooser.h"
#include "kernels/kernel_lanes.h"
#include "trainer/engine/engine_trace_internal.h"
#include "trainer/engine/fingerprint.h"
#include "trainer/engine/param_groups.h"
#include "trainer/engine/placement.h"
#include "trainer/engine/stop.h"

// ---- Creation ----

static sr_status create_set(sr_engine *e, const sr_engine_options *o, int index) {
    const sr_recipe_set *from = &e->recipe->sets[index];
    const sr_recipe *r = e->recipe;
    char prefix[SR_NAME_BYTES] = "";
    sr_choice_model model;
    sr_choice_optimizer optimizer;
    SR_TRY(sr_choose_model(e->recipe, index, &e->arena, &model));
    SR_TRY(sr_choose_optimizer(e->recipe, index, &e->arena, &optimizer));
    if (from->name[0])
        (void)snprintf(prefix, sizeof prefix, "%s.", from->name);
    const sr_model_build build = {.desc = model.desc,
                                  .options = model.options,
                                  .prefix = prefix,
                                  .classes = o->classes,
                                  .image_height = o->image_height,
                                  .image_width = o->image_width};
    sr_param_set_options options = {.name = from->name,
                                    .device = e->device,
                                    .context = e->context,
                                    .comm = e->comm,
                                    .scalars = e->scalars.list,
                                    .scalar_count = e->scalars.count,
                                    .optimizer = optimizer.desc,
                                    .optimizer_options = optimizer.options,
                                    .settings = &from->optimizer,
                                    .has_ema = sr_choose_average(r, e->task, index),
                                    .ema_buffers = r->ema.buffers,
                                    .loss_scale = e->dtype == SR_F16 ? r->loss_scale.initial : 0,
                                    .loss_scale_every = r->loss_scale.every,
                                    .lanes = e->lanes,
                                    .bucket_bytes = r->exchange.bucket,
                                    .report_seconds = r->deadline_report,
                                    .act_seconds = r->deadline_act,
                                    .seed = e->seed,
                                    .plans_only = e->plans_only};
    SR_TRY(sr_model_create(&build, &options.model));
    const sr_status groups = sr_param_groups_check(e->recipe, index, options.model);
    if (groups != SR_OK) {
        sr_model_free(options.model);
        return groups;
    }
    SR_TRY(sr_param_set_create(&options, &e->sets[index]));
    e->models[index] = e->sets[index]->model;
    e->set_count++;
    return SR_OK;
}

static sr_status create_phases(sr_engine *e) {
    const sr_recipe *r = e->recipe;
    int numbers[SR_MAX_PHASES];
    SR_TRY(sr_choose_phases(e->recipe, e->task, numbers));
    for (int p = 0; p < r->phase_count; p++) {
        const int set = r->phases[p].set;
        const sr_phase_options options = {.name = r->phases[p].name,
                                          .number = numbers[p],
                                          .set_number = set,
                                          .set = e->sets[set],
                                          .every = sr_choose_every(r, e->task, p, numbers[p]),
                                          .peers = e->phases,
                                          .peer_count = r->phase_count};
        SR_TRY(sr_phase_create(&options, &e->phases[p]));
        e->phase_count++;
    }
    return SR_OK;
}

static sr_status create_targets(sr_engine *e) {
    for (int s = 0; s < e->set_count; s++) {
        const sr_param_set *set = e->sets[s];
        if (set->segment_count > e->target_capacity)
            e->target_capacity = set->segment_count;
        for (int i = 0; i < set->model->param_count; i++)
            if (set->model->params[i].variable.slot >= e->report_capacity)
                e->report_capacity = set->model->params[i].variable.slot + 1;
    }
    e->targets = sr_alloc_array((size_t)e->target_capacity, sizeof *e->targets, "targets");
    e->target_segment =
        sr_alloc_array((size_t)e->target_capacity, sizeof *e->target_segment, "targets");
    e->lane_values =
        sr_alloc_array(3 * (size_t)e->target_capacity, sizeof *e->lane_values, "targets");
    e->report = sr_alloc_array((size_t)e->report_capacity + 1, sizeof *e->report, "targets");
    return e->targets && e->target_segment && e->lane_values && e->report ? SR_OK : SR_E_MEMORY;
}

// Threads that an executor starts compute where this one does meanwhile.
static sr_status create_executor(sr_engine *e, int index) {
    const sr_cpu_set rank = sr_cpu_set_of_thread();
    sr_cpu_set lane;
    const int threads = e->executor_count < e->threads ? e->threads / e->executor_count : 1;
    if (!sr_placement_of_lane("/sys", &rank, e->executor_count, index, &lane))
        return sr_executor_create(e->device, threads, &e->executors[index]);
    SR_TRY(sr_cpu_set_bind(&lane));
    const sr_status status = sr_executor_create(e->device, threads, &e->executors[index]);
    const sr_status back = sr_cpu_set_bind(&rank);
    return status == SR_OK ? back : status;
}

static sr_status create_run(sr_engine *e, int index, bool trains) {
    sr_lane_run *run = &e->runs[index];
    run->engine = e;
    for (int i = 0; i < 2; i++) {
        sr_input_set_init(&run->inputs[i], e->device, e->most_at_once);
        if (trains)
            SR_TRY(sr_input_feed_reserve(&e->feed, &run->inputs[i]));
    }
    const size_t count = 2 * (size_t)e->most_at_once;
    sr_lane_settings *settings = sr_alloc_array(count, sizeof *settings, "lane settings");
    run->ahead = sr_alloc_array((size_t)e->most_at_once, sizeof *run->ahead, "lane settings");
    if (!settings || !run->ahead) {
        sr_free(settings);
        return SR_E_MEMORY;
    }
    const sr_status status = sr_device_register_host(e->device, settings, count * sizeof *settings);
    if (status != SR_OK)
        sr_free(settings);
    else
        run->settings = settings;
    return status;
}

// The most lanes that an executor can compute side by side, fewer than 'below' (0: any number).
// Lanes that wait for others at a stop, and those that are searched for a first value that is not
// finite, run one by one.
static int lanes_of_executor(const sr_engine *e, int below) {
    const int lanes = e->lane_end - e->lane_begin, asked = (int)e->recipe->lanes_at_once;
    if (!sr_device_get_properties(e->device)->asynchronous || e->norm_lanes > 1 ||
        e->recipe->debug_nan)
        return 1;
    int most = asked > 0 && asked < lanes ? asked : lanes;
    most = most < SR_KERNEL_MAX_LANES ? most : SR_KERNEL_MAX_LANES;
    most = below > 0 && most >= below ? below - 1 : most;
    while (most > 1 && lanes % most != 0)
        most--;
    return most > 1 ? most : 1;
}

static sr_status reserve_sums(const sr_engine *e) {
    for (int s = 0; s < e->set_count; s++)
        SR_TRY(sr_exchange_reserve(e->sets[s]->exchange, e->executor_count, e->at_once));
    return SR_OK;
}

// As many lanes at a time as the device takes, or as a group has; on a CPU as there are cores, and
// left-over cores join the lanes' teams.
static sr_status create_executors(sr_engine *e, bool one) {
    const int most = sr_device_get_properties(e->device)->executors;
    const int usual = most && most < e->threads ? most : e->threads;
    e->at_once = e->most_at_once = one ? 1 : lanes_of_executor(e, 0);
    const int turns = (e->lane_end - e->lane_begin) / e->at_once;
    e->executor_count = one ? 1 : sr_engine_lanes_at_once(e, usual < turns ? usual : turns);
    e->running_lanes = e->executor_count;
    if (!most && usual < e->running_lanes) // more at a time would share its cores
        e->running_lanes = usual;
    e->executors = sr_alloc_array((size_t)e->executor_count, sizeof *e->executors, "executors");
    e->runs = sr_alloc_array((size_t)e->executor_count, sizeof *e->runs, "executors");
    if (!e->executors || !e->runs)
        return SR_E_MEMORY;
    for (int i = 0; i < e->executor_count; i++) {
        SR_TRY(create_run(e, i, !one));
        SR_TRY(create_executor(e, i));
        if (e->recipe->debug_nan)
            SR_TRY(sr_executor_set_checking(e->executors[i], e->context));
    }
    return one ? SR_OK : reserve_sums(e);
}

static void use_chooser(const sr_recipe *recipe, const sr_device *device) {
    char fingerprint[SR_FINGERPRINT_BYTES];
    const sr_device_properties *properties = sr_device_get_properties(device);
    const sr_chooser_options options = {.on = recipe->chooser != SR_CHOOSER_OFF,
                                        .workspace = (size_t)recipe->chooser_workspace,
                                        .numerics = sr_fingerprint(properties, fingerprint),
                                        .device = properties->name};
    sr_chooser_use(&options);
}

static const sr_dtype dtypes[] = {
    [SR_PRECISION_FP32] = SR_F32, [SR_PRECISION_BF16] = SR_BF16, [SR_PRECISION_FP16] = SR_F16};

// What the arrays of a slot depend on, for pictures of this size.
static sr_pipeline_options slot_options(const sr_engine *e, int64_t height, int64_t width) {
    return (sr_pipeline_options){.transformer = e->task->transformer,
                                 .image_height = height,
                                 .image_width = width,
                                 .boxes_per_sample = e->recipe->data.boxes_per_sample};
}

static sr_status describe_lane(sr_engine *e, int64_t height, int64_t width) {
    const sr_pipeline_options options = slot_options(e, height, width);
    return sr_input_feed_describe(&e->feed, &options, e->lane_samples);
}

static sr_status fill_engine(sr_engine *e, const sr_engine_options *o) {
    int rank = sr_comm_rank(o->comm), ranks = sr_comm_size(o->comm);
    e->task = o->task;
    e->recipe = o->recipe;
    e->comm = o->comm;
    e->seed = o->seed;
    e->plans_only = o->plans_only;
    e->batch = o->batch;
    e->lanes = (int)o->lanes;
    e->lane_begin = sr_lanes_first(e->lanes, ranks, rank);
    e->lane_end = sr_lanes_first(e->lanes, ranks, rank + 1);
    e->lane_samples = o->batch / o->lanes;
    e->norm_lanes = (int)o->recipe->sync_bn;
    e->image_height = o->image_height;
    e->image_width = e->lane_side = o->image_width;
    e->dtype = dtypes[o->recipe->precision];
    e->threads = o->threads > 0 ? o->threads : sr_cpu_count();
    for (int c = 0; c < 3; c++) {
        e->mean[c] = e->recipe->data.mean.items[c];
        e->std[c] = e->recipe->data.std.items[c];
    }
    sr_choose_numerics(o->recipe);
    SR_TRY(sr_device_open(o->device, &e->device));
    use_chooser(o->recipe, e->device);
    SR_TRY(sr_input_feed_init(&e->feed, e->device, e->task, e->recipe->deadline_act));
    SR_TRY(describe_lane(e, e->image_height, e->image_width));
    // A checked plan keeps the result of every operator in memory of its own; the bits are the
    // same.
    const sr_context_options context = {
        .use_device = e->device, .threads = 1, .optimize = e->recipe->debug_nan ? -1 : 0};
    SR_TRY(sr_context_create(&context, &e->context));
    if (e->recipe->recompute != SR_RECOMPUTE_AUTO)
        sr_context_set_recomputing(e->context, e->recipe->recompute == SR_RECOMPUTE_ALWAYS);
    SR_TRY(sr_choose_task_options(e->recipe, e->task, &e->arena, &e->task_options));
    SR_TRY(sr_choose_loss(e->recipe, e->task, o->classes, &e->arena, &e->loss));
    SR_TRY(sr_choose_scalars(e->recipe, e->task, &e->arena, &e->scalars));
    for (int i = 0; i < e->recipe->set_count; i++)
        SR_TRY(create_set(e, o, i));
    SR_TRY(create_phases(e));
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
        for (int k = 0; k < 2 && e->runs && e->runs[i].engine; k++)
            sr_input_set_release(&e->runs[i].inputs[k]);
        if (e->runs && e->runs[i].settings)
            sr_device_unregister_host(e->device, e->runs[i].settings);
        if (e->runs) {
            sr_free(e->runs[i].settings);
            sr_free(e->runs[i].ahead);
        }
    }
    for (int i = 0; i < SR_MAX_PHASES; i++)
        sr_phase_free(e->phases[i]);
    for (int i = 0; i < SR_MAX_SETS; i++)
        sr_param_set_free(e->sets[i]);
    sr_context_free(e->context);
    sr_input_feed_release(&e->feed);
    sr_device_close(e->device);
    sr_free(e->executors);
    sr_free(e->runs);
    sr_free(e->targets);
    sr_free(e->target_segment);
    sr_free(e->lane_values);
    sr_free(e->statistics.items);
    sr_free(e->report);
    sr_free(e->trace);
    for (int i = 0; i < SR_TASK_OUTPUTS; i++)
        sr_free(e->results[i].data);
    sr_arena_release(&e->arena);
    sr_free(e);
}

// ---- Recording ----

void sr_engine_set_lengths(sr_engine *e, const sr_schedule_lengths *lengths) {
    e->growth = sr_choose_growth(e->recipe, lengths);
    e->mix_until = sr_length_samples(e->recipe->mix.until, lengths);
    for (int s = 0; s < e->set_count; s++)
        sr_param_set_set_lengths(e->sets[s], lengths);
}

void sr_engine_get_size(const sr_engine *e, int64_t step, int64_t *height, int64_t *width) {
    *width = sr_image_side_at(&e->growth, e->image_width, step * e->batch);
    *height = e->growth.from > 0 ? *width : e->image_height;
}

// From now on, lanes have pictures of this size.
static sr_status use_size(sr_engine *e, int64_t height, int64_t width) {
    if (width == e->lane_side)
        return SR_OK;
    e->lane_side = width;
    return describe_lane(e, height, width);
}

static sr_status use_size_of(sr_engine *e, int64_t step) {
    int64_t height, width;
    sr_engine_get_size(e, step, &height, &width);
    return use_size(e, height, width);
}

// Evaluation does not mix samples.
static sr_mix_opts mix_of(const sr_engine *e, bool training, int64_t step) {
    const sr_recipe *recipe = e->recipe;
    const bool over = e->mix_until > 0 && (double)(step * e->batch) >= e->mix_until;
    if (!training || over || !(recipe->mix.probability > 0))
        return (sr_mix_opts){0};
    return (sr_mix_opts){.mixup = recipe->mix.mixup,
                         .cutmix = recipe->mix.cutmix,
                         .probability = recipe->mix.probability};
}

// Records a program for slots like 'slot'; what it does depends on the step's number. phase: NULL
// in inference.
static sr_status begin_record(sr_engine *e, const sr_phase *phase, int64_t step,
                              const sr_slot *slot, sr_lane_recording *out) {
    const bool training = phase != NULL;
    sr_context_begin_step(e->context);
    (void)sr_layer_use(e->context, sr_no_layer); // except what sr_task_forward records
    e->statistics.count = 0;
    e->statistics.out_of_memory = false;
    e->feed.classes = 0;
    *out = (sr_lane_recording){.context = e->context,
                               .phase = training ? phase->number : -1,
                               .every = training ? phase->every : 0,
                               .training = training,
                               .dtype = e->dtype,
                               .models = e->models,
                               .mean = e->mean,
                               .std = e->std,
                               .options = e->task_options,
                               .losses = e->loss.parts,
                               .loss_count = e->loss.count,
                               .mix = mix_of(e, training, step),
                               .flip = !training && e->recipe->eval.flip,
                               .shift = training ? 0 : (int)e->recipe->eval.shift,
                               .norm_lanes = training ? e->norm_lanes : 1,
                               .statistics = &e->statistics};
    return sr_input_feed_record(&e->feed, slot, out);
}

// Notes the number of each buffer's first report.
static void index_statistics(sr_engine *e) {
    const sr_statistics *s = &e->statistics;
    for (int i = s->count - 1; i >= 0; i--)
        if (s->items[i].buffer.slot < e->report_capacity)
            e->report[s->items[i].buffer.slot] = i;
}

static sr_tensor statistic_of(const sr_engine *e, sr_tensor buffer) {
    const sr_statistics *s = &e->statistics;
    const int i = e->report[buffer.slot]; // of this step, if it belongs to this buffer
    return i < s->count && s->items[i].buffer.slot == buffer.slot ? s->items[i].value : SR_NONE;
}

// The factor of the loss, if the loss is scaled.
static sr_tensor loss_seed(sr_engine *e, const sr_param_set *set, sr_tensor loss) {
    sr_info info;
    if (!(sr_param_set_loss_seed(set) > 0) || !sr_tensor_info(loss, &info))
        return SR_NONE;
    return sr_fill_by(sr_input_feed_record_loss_seed(e->context), info.dtype, info.rank, info.dim);
}

// What each segment of the set gets from a lane, in the order of segments; SR_NONE: a buffer
// without a statistic.
static void lane_values(sr_engine *e, const sr_lane_recording *r, sr_param_set *set,
                        sr_tensor *values) {
    sr_tensor *xs = values + set->segment_count; // scratch behind
    int params = 0;
    for (int i = 0; i < set->segment_count; i++)
        if (set->uses[i].kind == SR_SEGMENT_PARAM)
            xs[params++] = set->model->params[set->uses[i].param].variable;
    sr_tensor *grads = xs + params;
    sr_gradients(r->loss, loss_seed(e, set, r->loss), xs, params, grads);
    index_statistics(e);
    for (int i = 0, k = 0; i < set->segment_count; i++) {
        sr_segment_use *use = &set->uses[i];
        if (use->kind == SR_SEGMENT_PARAM)
            values[i] = grads[k++];
        else if (use->kind == SR_SEGMENT_BUFFER)
            values[i] = statistic_of(e, set->model->params[use->param].variable);
        else if (i == set->loss_segment)
            values[i] = sr_reduce_sum(r->loss);
        else
            values[i] = i == set->stop_segment ? sr_input_feed_record_stop(e->context)
                                               : r->scalars[use->param - 1];
        use->silent = sr_is_none(values[i]);
    }
}

// Records the lane program of a phase and compiles it for so many lanes side by side. *count
// targets belong to target_segment[].
static sr_status record_phase(sr_engine *e, const sr_phase *phase, int64_t step, int lanes,
                              sr_plan **plan, int *count) {
    sr_param_set *set = phase->set;
    sr_lane_recording r;
    SR_TRY(begin_record(e, phase, step, &e->feed.lane, &r));
    e->task->record(&r);
    sr_task_log_losses(&r, e->scalars.first_part);
    e->feed.classes = r.classes;
    sr_tensor *values = e->lane_values;
    lane_values(e, &r, set, values);
    *count = 0;
    for (int i = 0; i < set->segment_count; i++) {
        if (sr_is_none(values[i]))
            continue;
        bool param = set->uses[i].kind == SR_SEGMENT_PARAM;
        e->target_segment[*count] = i;
        e->targets[(*count)++] =
            (sr_target){.tensor = values[i],
                        .after = param ? set->model->params[set->uses[i].param].variable : SR_NONE,
                        .group = (uint32_t)sr_exchange_group(set->exchange, i)};
    }
    SR_TRY(sr_context_status(e->context));
    SR_TRY(sr_statistics_check(&e->statistics));
    return sr_compile_lanes(e->context, e->targets, *count, lanes, plan);
}

// The bytes that the values of the largest phase need for the lanes that run side by side.
static sr_status measure_lanes(sr_engine *e, uint64_t *bytes) {
    *bytes = 0;
    SR_TRY(use_size(e, e->image_height, e->image_width));
    for (int p = 0; p < e->phase_count; p++) {
        sr_plan *plan;
        int count;
        SR_TRY(record_phase(e, e->phases[p], 0, e->at_once, &plan, &count));
        if (sr_plan_peak_bytes(plan) > *bytes)
            *bytes = sr_plan_peak_bytes(plan);
    }
    return SR_OK;
}

static void recompute(sr_engine *e, bool on) {
    e->recomputes = on;
    sr_context_set_recomputing(e->context, on);
}

// Makes lanes need less memory, if possible: cheap values are recomputed, or else fewer lanes run
// side by side.
static bool need_less(sr_engine *e) {
    const bool automatic = e->recipe->recompute == SR_RECOMPUTE_AUTO &&
                           sr_device_get_properties(e->device)->asynchronous;
    if (automatic && !e->recomputes) {
        recompute(e, true);
        return true;
    }
    if (e->at_once == 1)
        return false;
    e->at_once = lanes_of_executor(e, e->at_once);
    if (automatic)
        recompute(e, false);
    return true;
}

sr_status sr_engine_fit_lanes(sr_engine *e, uint64_t room, uint64_t *bytes) {
    SR_TRY(measure_lanes(e, bytes));
    while (*bytes * (uint64_t)e->executor_count > room / 16 * 15 && need_less(e))
        SR_TRY(measure_lanes(e, bytes));
    return reserve_sums(e);
}

// ---- Running ----

sr_status sr_engine_step(sr_engine *e, int phase_index, int64_t step,
                         const sr_lane_source *source) {
    sr_phase *phase = e->phases[phase_index];
    sr_param_set *set = phase->set;
    sr_plan *plan;
    int count;
    sr_float_control();
    SR_TRY(sr_engine_trace_begin(e->trace));
    SR_TRY(sr_exchange_step_begin(set->exchange, step));
    sr_status status = use_size_of(e, step);
    if (status == SR_OK)
        status = record_phase(e, phase, step, e->at_once, &plan, &count);
    if (status == SR_OK)
        status = sr_param_set_begin_step(set); // knows now which statistics the step computes
    sr_engine_trace_end(e->trace, SR_STEP_RECORDS);
    if (status == SR_OK)
        status = sr_engine_run_lanes(e, set, step, plan, count, source);
    sr_engine_trace_end(e->trace, SR_STEP_LANES);
    if (status != SR_OK)
        sr_exchange_fail(set->exchange, status, sr_error_message());
    SR_TRY(sr_exchange_step_wait(set->exchange));
    SR_TRY(sr_phase_end_step(phase));
    sr_engine_trace_end(e->trace, SR_STEP_WAITS);
    return SR_OK;
}

sr_engine_info sr_engine_get_info(const sr_engine *e) {
    sr_engine_info info = {.task = e->task,
                           .task_options = e->task_options,
                           .recipe = e->recipe,
                           .comm = e->comm,
                           .device = e->device,
                           .context = e->context,
                           .seed = e->seed,
                           .phases = e->phase_count,
                           .sets = e->set_count,
                           .infers = e->task->infers,
                           .batch = e->batch,
                           .lane_samples = e->lane_samples,
                           .image_height = e->image_height,
                           .image_width = e->image_width,
                           .lanes = e->lanes,
                           .lane_begin = e->lane_begin,
                           .lane_end = e->lane_end,
                           .executors = e->executor_count,
                           .at_once = e->at_once,
                           .threads = e->threads};
    memcpy(info.mean, e->mean, sizeof info.mean);
    memcpy(info.std, e->std, sizeof info.std);
    return info;
}

sr_param_set *sr_engine_get_set(const sr_engine *e, int set) {
    return e->sets[set];
}

sr_phase *sr_engine_get_phase(const sr_engine *e, int phase) {
    return e->phases[phase];
}

int sr_engine_phases_due(const sr_engine *e, int64_t step) {
    int count = 0;
    for (int p = 0; p < e->phase_count; p++)
        count += sr_phase_is_due(e->phases[p], step);
    return count;
}

const sr_slot *sr_engine_get_slot(const sr_engine *e) {
    return &e->feed.lane;
}

sr_status sr_engine_compile_size(sr_engine *e, int phase, int64_t height, int64_t width,
                                 sr_plan **out) {
    int count;
    SR_TRY(use_size(e, height, width));
    return record_phase(e, e->phases[phase], 0, 1, out, &count);
}

sr_status sr_engine_compile(sr_engine *e, int phase, sr_plan **out) {
    return sr_engine_compile_size(e, phase, e->image_height, e->image_width, out);
}

sr_status sr_engine_compile_lanes(sr_engine *e, int phase, sr_plan **out) {
    int count;
    SR_TRY(use_size(e, e->image_height, e->image_width));
    return record_phase(e, e->phases[phase], 0, e->at_once, out, &count);
}

// ---- Inference ----

// Replays a plan on the first executor.
static sr_status replay_once(sr_engine *e, sr_plan *plan, const sr_slot *slot,
                             const sr_lane_settings *settings, sr_sink_fn to, void *user) {
    sr_input_set *set = &e->runs[0].inputs[0];
    for (int i = 0; i < e->most_at_once; i++)
        e->runs[0].ahead[i].arrays = 0;
    SR_TRY(sr_input_feed_fill(&e->feed, slot, settings, false, set, 0));
    const sr_run replay = {.inputs = set->slots, .sink = to, .user = user};
    SR_TRY(sr_executor_begin(e->executors[0], plan, &replay));
    return sr_executor_wait(e->executors[0]);
}

static sr_status inference_sink(void *user, int index, sr_address data, size_t bytes,
                                sr_stream *stream) {
    const sr_engine *e = user;
    return sr_stream_download(stream, e->results[index].data, data, bytes);
}

// Records inference for slots like 'slot'. *outputs: what the targets give, without data.
static sr_status record_inference(sr_engine *e, const sr_slot *slot, sr_task_outputs *outputs,
                                  sr_target targets[SR_TASK_OUTPUTS]) {
    sr_lane_recording r;
    sr_float_control();
    *outputs = (sr_task_outputs){0};
    if (!e->task->infer)
        return SR_FAIL(SR_E_UNSUPPORTED, "task %s has nothing to evaluate", e->task->name);
    SR_TRY(begin_record(e, NULL, 0, slot, &r));
    e->task->infer(&r);
    SR_TRY(sr_context_status(e->context));
    for (int i = 0; i < SR_TASK_OUTPUTS && e->task->outputs[i]; i++) {
        sr_task_output *o = &outputs->item[outputs->count++];
        o->name = e->task->outputs[i];
        targets[i] = (sr_target){.tensor = r.results[i]};
        if (!sr_tensor_info(r.results[i], &o->info))
            return SR_FAIL(SR_E_INTERNAL, "task %s has not recorded its output '%s'", e->task->name,
                           o->name);
    }
    return SR_OK;
}

static sr_status compile_inference(sr_engine *e, const sr_slot *slot, sr_task_outputs *outputs,
                                   sr_plan **out) {
    sr_target targets[SR_TASK_OUTPUTS];
    SR_TRY(record_inference(e, slot, outputs, targets));
    return sr_compile(e->context, targets, outputs->count, out);
}

// Memory for the outputs; what was there before may be lost.
static sr_status reserve_results(sr_engine *e, sr_task_outputs *outputs) {
    for (int i = 0; i < outputs->count; i++) {
        sr_engine_result *r = &e->results[i];
        const sr_info *info = &outputs->item[i].info;
        const size_t bytes = (size_t)sr_info_count(info) * sr_dtype_size(info->dtype);
        if (bytes > r->capacity) {
            sr_free(r->data);
            *r = (sr_engine_result){.data = sr_alloc(bytes, "results of inference")};
            if (!r->data)
                return SR_E_MEMORY;
            r->capacity = bytes;
        }
        outputs->item[i].data = r->data;
    }
    return SR_OK;
}

sr_status sr_engine_record_inference(sr_engine *e, int64_t samples, int64_t height, int64_t width,
                                     sr_task_outputs *outputs, sr_target targets[SR_TASK_OUTPUTS]) {
    const sr_pipeline_options options = slot_options(e, height, width);
    sr_slot slot;
    SR_TRY(sr_pipeline_describe(&options, samples, &slot));
    return record_inference(e, &slot, outputs, targets);
}

sr_status sr_engine_compile_inference(sr_engine *e, int64_t samples, int64_t height, int64_t width,
                                      sr_plan **out) {
    sr_target targets[SR_TASK_OUTPUTS];
    sr_task_outputs outputs;
    SR_TRY(sr_engine_record_inference(e, samples, height, width, &outputs, targets));
    return sr_compile(e->context, targets, outputs.count, out);
}

sr_status sr_engine_infer(sr_engine *e, const sr_slot *slot, sr_task_outputs *out) {
    sr_plan *plan = NULL;
    SR_TRY(compile_inference(e, slot, out, &plan));
    SR_TRY(reserve_results(e, out));
    sr_lane_settings *settings = &e->runs[0].settings[0];
    const uint64_t position = (uint64_t)slot->first_position;
    settings->trains = false;
    sr_engine_set_key(e, (uint32_t)position, (uint32_t)(position >> 32), settings->key);
    return replay_once(e, plan, slot, settings, inference_sink, e);
}

typedef struct mix_targets {
    void *to[3];
} mix_targets;

static sr_status mix_sink(void *user, int index, sr_address data, size_t bytes, sr_stream *stream) {
    const mix_targets *targets = user;
    return sr_stream_download(stream, targets->to[index], data, bytes);
}

sr_status sr_engine_mix(sr_engine *e, int64_t step, int lane, const sr_slot *slot,
                        const sr_mixed_lane *out) {
    sr_plan *plan;
    sr_lane_settings *settings = &e->runs[0].settings[0];
    sr_lane_recording r;
    mix_targets into = {{out->x, out->partner, out->weight}};
    sr_float_control();
    if (!e->task->mix)
        return SR_FAIL(SR_E_UNSUPPORTED, "task %s does not mix samples", e->task->name);
    SR_TRY(use_size_of(e, step));
    SR_TRY(begin_record(e, e->phases[0], step, &e->feed.lane, &r));
    const sr_mixed mixed = e->task->mix(&r);
    const sr_target targets[] = {
        {.tensor = sr_cast(mixed.x, SR_F32)}, {.tensor = mixed.partner}, {.tensor = mixed.weight}};
    SR_TRY(sr_context_status(e->context));
    SR_TRY(sr_compile(e->context, targets, 3, &plan));
    settings->trains = true;
    sr_engine_set_key(e, (uint32_t)step, (uint32_t)lane, settings->key);
    return replay_once(e, plan, slot, settings, mix_sink, &into);
}

sr_status sr_engine_use_average(sr_engine *e, bool average) {
    sr_param_set *set = e->sets[e->task->infers];
    sr_address flat = set->values;
    if (average && sr_param_set_has_average(set)) {
        SR_TRY(sr_param_set_gather_average(set));
        flat = set->ema;
    }
    for (int i = 0; i < set->model->param_count; i++) {
        const sr_param *p = &set->model->params[i];
        sr_variable_move(p->variable, sr_address_add(flat, (size_t)p->offset * sizeof(float)));
    }
    return SR_OK;
}
