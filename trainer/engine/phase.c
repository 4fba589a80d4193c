// SPDX-License-Identifier: Apache-2.0
// Phases: layout of the flat space and the update that owners run on it (phase.h).
//
// The update is put on the exchange's stream, a block at a time, with prepared kernels, one for
// each length of piece that occurs; they are prepared the first time and kept, so a steady step
// allocates nothing. On a CPU they run at once, while the block is in the cache. The kernels are
// elementwise: how a segment is cut into pieces changes no bit.
#include "trainer/engine/phase_internal.h"

#include <math.h>
#include <string.h>

#include "kernels/base/float_control.h"
#include "kernels/base/memory.h"
#include "kernels/kernel_params.h"
#include "kernels/prepared_cache.h"
#include "trainer/engine/param_groups.h"

static int64_t aligned(int64_t count) {
    return (count + SR_FLAT_ALIGN - 1) / SR_FLAT_ALIGN * SR_FLAT_ALIGN;
}

// ---- The update ----

// Rows of 'hyper', whole cache lines: that of the average, that of the limit of gradients, those of
// groups, those of segments, of which buffers have one.
#define HYPER_ROW SR_HYPER
enum { ROW_AVERAGE = 0, ROW_LIMIT, ROW_GROUPS };

static int row_of_segment(const sr_phase *phase, int segment) {
    return ROW_GROUPS + phase->group_count + segment;
}

// Rows that change every step.
static size_t changing_rows(const sr_phase *phase) {
    return ROW_GROUPS + (size_t)phase->group_count;
}

static sr_address element(sr_address base, int64_t index) {
    return sr_address_add(base, (size_t)index * sizeof(float));
}

static sr_address hyper_row(const sr_phase *phase, int row) {
    return element(phase->hyper, (int64_t)row * HYPER_ROW);
}

// The row of a kernel that computes a = keep a + take (scale x).
static void fill_average(double keep, double take, double scale, float *row) {
    row[0] = (float)keep;
    row[1] = (float)take;
    row[2] = (float)scale;
}

// Streams may still use the present workspace.
static sr_status grow_workspace(sr_phase *phase, size_t bytes, sr_stream *stream) {
    if (bytes <= phase->workspace_bytes)
        return SR_OK;
    SR_TRY(sr_stream_wait(stream));
    sr_device_free(phase->device, phase->workspace);
    phase->workspace = sr_address_none();
    phase->workspace_bytes = 0;
    SR_TRY(sr_device_alloc(phase->device, bytes, "update workspace", &phase->workspace));
    phase->workspace_bytes = bytes;
    return SR_OK;
}

// Puts a kernel on the stream.
static sr_status launch(sr_phase *phase, const sr_kernel_request *request, const sr_address *p,
                        const char *what, sr_stream *stream) {
    const sr_prepared_entry *kernel;
    SR_TRY(sr_prepared_cache_get(phase->kernels, request, &kernel));
    SR_TRY(grow_workspace(phase, kernel->prepared.workspace, stream));
    const sr_kernel_call call = {.prepared = &kernel->prepared,
                                 .request = &kernel->request,
                                 .p = p,
                                 .workspace = phase->workspace,
                                 .site = {.what = what}};
    return sr_stream_launch(stream, &call);
}

// A kernel of the list over 'count' elements.
static sr_status launch_listed(sr_phase *phase, sr_kernel_id kernel, int64_t count,
                               const sr_address *p, const char *what, sr_stream *stream) {
    const sr_count_params params = {.count = count};
    sr_kernel_request request;
    sr_kernel_request_init(&request, sr_device_get_properties(phase->device)->kind, kernel, SR_F32,
                           &params, sizeof params);
    return launch(phase, &request, p, what, stream);
}

// An optimiser's kernel, which may be its own: arguments are f32.
static sr_status launch_optimizer(sr_phase *phase, int64_t count, int args, const sr_address *p,
                                  sr_stream *stream) {
    const sr_optimizer_desc *optimizer = phase->optimizer;
    const sr_count_params params = {.count = count};
    sr_kernel_request request;
    memset(&request, 0, sizeof request);
    request.device = sr_device_get_properties(phase->device)->kind;
    request.kernel = optimizer->kernel;
    request.own = optimizer->kernels;
    request.own_count = optimizer->kernel_count;
    request.args = args;
    for (int i = 0; i < args; i++)
        request.dtype[i] = SR_F32;
    memcpy(request.params, &params, sizeof params);
    return launch(phase, &request, p, optimizer->name, stream);
}

static sr_status update_param(sr_phase *phase, int group, int64_t begin, int64_t count,
                              sr_address sum, sr_address values, sr_stream *stream) {
    const int states = phase->optimizer->states;
    sr_address p[SR_OPTIMIZER_MAX_STATES + 3] = {values};
    if (phase->groups[group].rests)
        return SR_OK;
    if (phase->clip_value > 0) {
        const sr_address limited[] = {sum, hyper_row(phase, ROW_LIMIT)};
        SR_TRY(launch_listed(phase, SR_KERNEL_limit, count, limited, "limit of gradients", stream));
    }
    for (int i = 0; i < states; i++)
        p[1 + i] =
            element(phase->states[sr_phase_has_state(phase, i) ? i : phase->first_state], begin);
    p[1 + states] = sum; // only read
    p[2 + states] = hyper_row(phase, ROW_GROUPS + group);
    return launch_optimizer(phase, count, states + 3, p, stream);
}

// a = keep a + take (scale x)
static sr_status update_average(sr_phase *phase, sr_address a, sr_address x, int row, int64_t count,
                                const char *what, sr_stream *stream) {
    const sr_address p[] = {a, x, hyper_row(phase, row)};
    return launch_listed(phase, SR_KERNEL_ema, count, p, what, stream);
}

static sr_status update_piece(sr_phase *phase, int segment, int64_t begin, int64_t end,
                              sr_address sum, sr_address values, sr_stream *stream) {
    const sr_segment_use *use = &phase->uses[segment];
    const int64_t count = end - begin;
    const size_t bytes = (size_t)count * sizeof(float);
    if (use->kind == SR_SEGMENT_SCALAR)
        return sr_stream_copy(stream, values, sum, bytes);
    if (phase->skipped)
        return SR_OK;
    if (use->kind == SR_SEGMENT_BUFFER)
        SR_TRY(update_average(phase, values, sum, row_of_segment(phase, segment), count,
                              "running statistics", stream));
    else
        SR_TRY(update_param(phase, use->group, begin, count, sum, values, stream));
    if (!sr_phase_has_average(phase) || !phase->ema_now.due)
        return SR_OK;
    const sr_address average = element(phase->ema, begin);
    SR_TRY(update_average(phase, average, values, ROW_AVERAGE, count, "average of parameters",
                          stream));
    return phase->ema_now.lookahead ? sr_stream_copy(stream, values, average, bytes) : SR_OK;
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

// A part of a segment.
typedef struct segment_piece {
    int segment;
    int64_t from, to; // elements of the flat space
} segment_piece;

// The pieces of [begin, end) one after the other: *next is the segment to look at.
static bool next_piece(const sr_phase *phase, int64_t begin, int64_t end, int *next,
                       segment_piece *out) {
    if (*next >= phase->segment_count || phase->segments[*next].begin >= end)
        return false;
    const sr_segment *s = &phase->segments[*next];
    *out = (segment_piece){.segment = (*next)++,
                           .from = s->begin > begin ? s->begin : begin,
                           .to = s->begin + s->count < end ? s->begin + s->count : end};
    return true;
}

static sr_status update(void *user, int64_t step, int64_t begin, int64_t end, sr_address sum,
                        sr_address values, sr_stream *stream) {
    sr_phase *phase = user;
    segment_piece piece;
    int next = segment_after(phase, begin);
    (void)step;
    while (next_piece(phase, begin, end, &next, &piece))
        SR_TRY(update_piece(phase, piece.segment, piece.from, piece.to,
                            element(sum, piece.from - begin), element(values, piece.from - begin),
                            stream));
    return SR_OK;
}

// ---- What the ranks agree on before it ----

// Whether they agree at all: otherwise each bucket is updated as soon as it is folded.
static bool is_agreed(const sr_phase *phase) {
    return phase->clip_norm > 0 || phase->loss_scale.scale > 0;
}

// Measures of a block: sums of squares of gradients, and of sums that become running statistics.
enum { MEASURE_GRADIENTS = 0, MEASURE_BUFFERS };

static sr_status measure(void *user, int64_t step, int64_t begin, int64_t end, sr_address sum,
                         sr_address out, sr_stream *stream) {
    sr_phase *phase = user;
    segment_piece piece;
    int next = segment_after(phase, begin);
    (void)step;
    while (next_piece(phase, begin, end, &next, &piece)) {
        const sr_segment_use *use = &phase->uses[piece.segment];
        const bool param = use->kind == SR_SEGMENT_PARAM;
        if (use->kind == SR_SEGMENT_SCALAR || (param && phase->groups[use->group].rests))
            continue;
        const sr_address p[] = {
            element(sum, piece.from - begin),
            sr_address_add(out, (param ? MEASURE_GRADIENTS : MEASURE_BUFFERS) * sizeof(double))};
        SR_TRY(launch_listed(phase, SR_KERNEL_add_squares, piece.to - piece.from, p,
                             "norm of gradients", stream));
    }
    return SR_OK;
}

// The sum of one measure over all blocks, by the binary tree on their numbers: where bit k of the
// number of added blocks is set, level[k] has the sum of 2^k of them.
static double sum_measures(const double *measures, int64_t blocks, int which) {
    double level[64] = {0}, sum = 0;
    for (int64_t b = 0; b < blocks; b++) {
        int k = 0;
        sum = measures[b * SR_EXCHANGE_MEASURES + which];
        for (; b >> k & 1; k++)
            sum = level[k] + sum;
        level[k] = sum;
    }
    sum = 0;
    for (int k = 0; blocks >> k; k++)
        if (blocks >> k & 1)
            sum = level[k] + sum;
    return sum;
}

// The factor that brings gradients of this norm to the recipe's, as torch.nn.utils.clip_grad_norm_.
static double clip_factor(const sr_phase *phase, double norm) {
    const double factor = phase->clip_norm / (norm + 1e-6);
    return phase->clip_norm > 0 && factor < 1 ? factor : 1;
}

// The settings of the step; gradients are multiplied by 'factor'. An update of an optimiser is
// counted when it is done, which a skipped one is not.
static void fill_settings(sr_phase *phase, double factor) {
    float *rows = phase->settings;
    for (int i = 0; i < phase->group_count; i++) {
        const sr_group_settings *g = &phase->groups[i];
        const sr_hyper_request request = {.lr = phase->now.lr * g->lr_scale,
                                          .weight_decay = phase->weight_decay * g->decay_scale,
                                          .gradient_scale = phase->now.sum_scale * factor,
                                          .step =
                                              phase->now.step - (int64_t)phase->loss_scale.skipped};
        float *row = rows + (ROW_GROUPS + (size_t)i) * HYPER_ROW;
        memset(row, 0, HYPER_ROW * sizeof *row);
        phase->optimizer->fill(phase->optimizer_options, &request, row);
    }
    fill_average(phase->ema_now.decay, 1 - phase->ema_now.decay, 1, rows + ROW_AVERAGE * HYPER_ROW);
    rows[ROW_LIMIT * HYPER_ROW] = (float)(phase->clip_value / phase->now.sum_scale);
}

static sr_status agree(void *user, int64_t step, const double *measures, int64_t blocks) {
    sr_phase *phase = user;
    const double squares = sum_measures(measures, blocks, MEASURE_GRADIENTS),
                 buffers = sum_measures(measures, blocks, MEASURE_BUFFERS);
    (void)step;
    phase->gradient_norm = sqrt(squares) * phase->now.sum_scale;
    if (phase->loss_scale.scale > 0) {
        const bool finite = isfinite(squares) && isfinite(buffers);
        phase->skipped = !finite;
        SR_TRY(sr_loss_scale_update(&phase->loss_scale, phase->loss_scale_every, finite));
    }
    fill_settings(phase, clip_factor(phase, phase->gradient_norm));
    return sr_phase_begin_step(phase);
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
    phase->segments[phase->segment_count] = (sr_segment){
        .name = name, .begin = begin, .count = count, .padded = use.kind == SR_SEGMENT_SCALAR};
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

// Of several ranks, each touches the state of the ranges alone that it updates.
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

static sr_status make_settings(sr_phase *phase) {
    const size_t count = changing_rows(phase) * HYPER_ROW;
    float *settings = sr_alloc_array(count, sizeof *settings, "settings");
    if (!settings)
        return SR_E_MEMORY;
    const sr_status status =
        sr_device_register_host(phase->device, settings, count * sizeof *settings);
    if (status == SR_OK)
        phase->settings = settings;
    else
        sr_free(settings);
    return status;
}

static sr_status make_hyper(sr_phase *phase) {
    const size_t floats = (size_t)row_of_segment(phase, phase->segment_count) * HYPER_ROW;
    float *rows = NULL;
    SR_TRY(sr_prepared_cache_create(&phase->kernels));
    SR_TRY(make_settings(phase));
    SR_TRY(sr_device_alloc(phase->device, floats * sizeof(float), "settings", &phase->hyper));
    void *mapped = NULL;
    SR_TRY(sr_device_map(phase->device, phase->hyper, floats * sizeof(float), &mapped));
    rows = mapped;
    for (int i = 0; i < phase->segment_count; i++) {
        if (phase->uses[i].kind != SR_SEGMENT_BUFFER)
            continue;
        const double momentum = phase->model->params[phase->uses[i].param].momentum;
        fill_average(1 - momentum, momentum, 1.0 / phase->lanes,
                     rows + (size_t)row_of_segment(phase, i) * HYPER_ROW);
    }
    return sr_device_unmap(phase->device, phase->hyper, floats * sizeof(float), mapped, true);
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
    SR_TRY(make_hyper(phase));
    SR_TRY(sr_phase_map(phase, SR_PHASE_VALUES, &values));
    sr_model_init_values(phase->model, o->seed, values);
    SR_TRY(sr_phase_unmap(phase, SR_PHASE_VALUES, values, true));
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
    phase->loss_scale.scale = o->loss_scale;
    phase->loss_scale_every = o->loss_scale_every;
    phase->gradient_norm = (double)NAN;
    SR_TRY_GOTO(make_groups_and_layout(phase, o), fail);
    SR_TRY_GOTO(make_memory(phase, o), fail);
    const sr_exchange_options exchange = {.lanes = o->lanes,
                                          .bucket_bytes = o->bucket_bytes,
                                          .segments = phase->segments,
                                          .segment_count = phase->segment_count,
                                          .device = phase->device,
                                          .values = phase->values,
                                          .elements = phase->elements,
                                          .update = update,
                                          .measure = is_agreed(phase) ? measure : NULL,
                                          .agree = is_agreed(phase) ? agree : NULL,
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
    sr_device_free(phase->device, phase->values);
    for (int i = 0; i < SR_OPTIMIZER_MAX_STATES; i++)
        sr_device_free(phase->device, phase->states[i]);
    sr_device_free(phase->device, phase->ema);
    if (phase->settings)
        sr_device_unregister_host(phase->device, phase->settings);
    sr_free(phase->settings);
    sr_free(phase->groups);
    sr_free(phase->scalars);
    sr_free(phase->segments);
    sr_free(phase->uses);
    sr_model_free(phase->model);
    sr_free(phase);
}

bool sr_phase_has_state(const sr_phase *phase, int state) {
    return !sr_address_is_none(phase->states[state]);
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
                           .arrays = 2 + count_states(phase) +
                                     (sr_phase_has_average(phase) ? 1 : 0) +
                                     (is_agreed(phase) ? 1 : 0)};
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
    for (int i = 0; i < phase->group_count; i++) {
        sr_group_settings *g = &phase->groups[i];
        g->rests = g->until_samples > 0 && (double)position >= g->until_samples;
    }
    fill_settings(phase, 1);
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

sr_status sr_phase_begin_step(sr_phase *phase) {
    return sr_device_upload(phase->device, phase->hyper, phase->settings,
                            changing_rows(phase) * HYPER_ROW * sizeof(float));
}

sr_status sr_phase_end_step(sr_phase *phase) {
    return sr_device_download(phase->device, phase->scalars,
                              element(phase->values, phase->scalar_begin),
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
            SR_TRY(sr_device_copy(phase->device, element(phase->ema, p->offset),
                                  element(phase->values, p->offset),
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

sr_status sr_phase_find_not_finite(const sr_phase *phase, bool buffers_only, const sr_param **out) {
    float *values;
    *out = NULL;
    SR_TRY(sr_phase_map(phase, SR_PHASE_VALUES, &values));
    for (int i = 0; i < phase->model->param_count && !*out; i++) {
        const sr_param *p = &phase->model->params[i];
        if ((!buffers_only || p->kind == SR_PARAM_BUFFER) &&
            !all_finite(values + p->offset, sr_info_count(&p->info)))
            *out = p;
    }
    return sr_phase_unmap(phase, SR_PHASE_VALUES, values, false);
}
