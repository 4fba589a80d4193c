// SPDX-License-Identifier: Apache-2.0
// The update of a phase, which owners run on the exchange's stream (phase_internal.h).
//
// It is enqueued one block at a time, with prepared kernels, one for each length of piece that
// occurs. They are prepared on first use and kept, so that a steady step allocates nothing. On a
// CPU they run at once, while the block is in the cache. The kernels are elementwise: how a segment
// is cut into pieces changes no bit.
//
// What depends on all gradients is agreed first, from the sums of squares of pieces: the norm of
// all gradients, and the norms of each tensor that an optimiser asks for
// (sr_optimizer_desc.reductions). Pieces are added by the binary tree on their numbers inside a
// tensor, blocks by the one on theirs.
#include <math.h>
#include <string.h>

#include "kernels/base/memory.h"
#include "kernels/kernel_params.h"
#include "kernels/prepared_cache.h"
#include "trainer/engine/phase_internal.h"

// ---- Settings on the device ----

// Rows of 'hyper', whole cache lines: that of the average, that of the limit of gradients, those of
// groups, those of segments, of which buffers have one and, where norms of tensors are agreed on,
// parameters.
#define HYPER_ROW SR_HYPER
enum { ROW_AVERAGE = 0, ROW_LIMIT, ROW_GROUPS };

static int row_of_segment(const sr_phase *phase, int segment) {
    return ROW_GROUPS + phase->group_count + segment;
}

static bool has_norms(const sr_phase *phase) {
    return phase->optimizer->reductions > 0;
}

static int row_of_param(const sr_phase *phase, int segment) {
    return has_norms(phase) ? row_of_segment(phase, segment)
                            : ROW_GROUPS + phase->uses[segment].group;
}

// Rows that change every step, and are kept in settings[].
static size_t changing_rows(const sr_phase *phase) {
    return has_norms(phase) ? (size_t)row_of_segment(phase, phase->segment_count)
                            : ROW_GROUPS + (size_t)phase->group_count;
}

static sr_address hyper_row(const sr_phase *phase, int row) {
    return sr_phase_element(phase->hyper, (int64_t)row * HYPER_ROW);
}

// The row of a kernel that computes a = keep a + take (scale x).
static void fill_average(double keep, double take, double scale, float *row) {
    row[0] = (float)keep;
    row[1] = (float)take;
    row[2] = (float)scale;
}

// A kernel of the list over 'count' elements.
static sr_status launch_listed(sr_phase *phase, sr_kernel_id kernel, int64_t count,
                               const sr_address *p, const char *what, sr_stream *stream) {
    const sr_count_params params = {.count = count};
    return sr_phase_launch(phase, kernel, &params, sizeof params, p, what, stream);
}

// ---- The optimiser ----

// The optimiser's kernel, which may come with the optimiser, on the elements from 'begin' on;
// arguments are f32.
static sr_status launch_optimizer(sr_phase *phase, int segment, int64_t begin, int64_t count,
                                  sr_address sum, sr_address values, sr_stream *stream) {
    const sr_optimizer_desc *optimizer = phase->optimizer;
    const int states = optimizer->states, args = states + 3;
    sr_address p[SR_OPTIMIZER_MAX_STATES + 3] = {values};
    for (int i = 0; i < states; i++)
        p[1 + i] = sr_phase_element(
            phase->states[sr_phase_has_state(phase, i) ? i : phase->first_state], begin);
    p[1 + states] = sum;
    p[2 + states] = hyper_row(phase, row_of_param(phase, segment));
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
    return sr_phase_launch_request(phase, &request, p, optimizer->name, stream);
}

// a = keep a + take (scale x)
static sr_status update_average(sr_phase *phase, sr_address a, sr_address x, int row, int64_t count,
                                const char *what, sr_stream *stream) {
    const sr_address p[] = {a, x, hyper_row(phase, row)};
    return launch_listed(phase, SR_KERNEL_ema, count, p, what, stream);
}

static sr_status update_param(sr_phase *phase, int segment, int64_t begin, int64_t count,
                              sr_address sum, sr_address values, sr_stream *stream) {
    if (phase->groups[phase->uses[segment].group].rests)
        return SR_OK;
    const sr_segment_use *use = &phase->uses[segment];
    if (use->rows > 0 && begin == phase->segments[segment].begin) // its sum is in one piece
        SR_TRY(sr_phase_orthogonalise(phase, use->rows, use->columns, sum,
                                      hyper_row(phase, row_of_param(phase, segment)), stream));
    if (phase->optimizer->finish)
        return update_average(phase, values, sum, row_of_param(phase, segment), count,
                              phase->optimizer->name, stream);
    if (phase->clip_value > 0) {
        const sr_address limited[] = {sum, hyper_row(phase, ROW_LIMIT)};
        SR_TRY(launch_listed(phase, SR_KERNEL_limit, count, limited, "limit of gradients", stream));
    }
    return launch_optimizer(phase, segment, begin, count, sum, values, stream);
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
        SR_TRY(update_param(phase, segment, begin, count, sum, values, stream));
    if (sr_address_is_none(phase->ema))
        return SR_OK;
    const sr_address average = sr_phase_element(phase->ema, begin);
    if (use->kind == SR_SEGMENT_BUFFER && !phase->ema_buffers)
        return sr_stream_copy(stream, average, values, bytes);
    if (!phase->ema_now.due)
        return SR_OK;
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

// Iterates over the pieces of [begin, end): *next is the segment to look at.
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

sr_status sr_phase_update(void *user, int64_t step, int64_t begin, int64_t end, sr_address sum,
                          sr_address values, sr_stream *stream) {
    sr_phase *phase = user;
    segment_piece piece;
    int next = segment_after(phase, begin);
    (void)step;
    while (next_piece(phase, begin, end, &next, &piece))
        SR_TRY(update_piece(phase, piece.segment, piece.from, piece.to,
                            sr_phase_element(sum, piece.from - begin),
                            sr_phase_element(values, piece.from - begin), stream));
    return SR_OK;
}

// ---- What the ranks agree on before it ----

bool sr_phase_is_agreed(const sr_phase *phase) {
    return phase->clip_norm > 0 || phase->loss_scale.scale > 0 || has_norms(phase);
}

// Measures of a piece: the sum of squares of its gradients (of a buffer, of the sums that become
// running statistics), or of the direction that the optimiser computed from them; and that of its
// parameters.
enum { MEASURE_SUM = 0, MEASURE_VALUES };

static sr_status add_squares(sr_phase *phase, sr_address x, int64_t count, sr_address out,
                             int which, sr_stream *stream) {
    const sr_address p[] = {x, sr_address_add(out, (size_t)which * sizeof(double))};
    return launch_listed(phase, SR_KERNEL_add_squares, count, p, "norm of gradients", stream);
}

// The direction of a part of a matrix, from its momentum.
static sr_status direct_matrix(sr_phase *phase, int segment, int64_t begin, int64_t count,
                               sr_address sum, sr_stream *stream) {
    const sr_address row = hyper_row(phase, row_of_param(phase, segment));
    const sr_address m = sr_phase_element(phase->states[0], begin);
    const sr_address momentum[] = {m, sum, row}, direction[] = {sum, m, sr_phase_element(row, 4)};
    SR_TRY(launch_listed(phase, SR_KERNEL_ema, count, momentum, phase->optimizer->name, stream));
    return launch_listed(phase, SR_KERNEL_ema, count, direction, phase->optimizer->name, stream);
}

// The parameters are measured in the last round.
static sr_status measure_piece(sr_phase *phase, const segment_piece *piece, int round,
                               sr_address sum, sr_address out, sr_stream *stream) {
    const sr_segment_use *use = &phase->uses[piece->segment];
    const int64_t count = piece->to - piece->from;
    const sr_address values = sr_phase_element(phase->values, piece->from);
    const bool param = use->kind == SR_SEGMENT_PARAM;
    if (use->kind == SR_SEGMENT_SCALAR || (param && phase->groups[use->group].rests))
        return SR_OK;
    if (param && round > 0 && use->rows > 0)
        SR_TRY(direct_matrix(phase, piece->segment, piece->from, count, sum, stream));
    else if (param && round > 0)
        SR_TRY(launch_optimizer(phase, piece->segment, piece->from, count, sum, values, stream));
    if (param || round == 0)
        SR_TRY(add_squares(phase, sum, count, out, MEASURE_SUM, stream));
    return param && round + 1 == phase->optimizer->reductions
               ? add_squares(phase, values, count, out, MEASURE_VALUES, stream)
               : SR_OK;
}

sr_status sr_phase_measure(void *user, int64_t step, int round, int64_t begin, int64_t end,
                           sr_address sum, sr_address out, sr_stream *stream) {
    sr_phase *phase = user;
    segment_piece piece;
    int next = segment_after(phase, begin);
    (void)step;
    for (size_t i = 0; !phase->skipped && next_piece(phase, begin, end, &next, &piece); i++)
        SR_TRY(measure_piece(phase, &piece, round, sr_phase_element(sum, piece.from - begin),
                             sr_address_add(out, i * SR_EXCHANGE_MEASURES * sizeof(double)),
                             stream));
    return SR_OK;
}

// A sum by the binary tree on the numbers of its terms: where bit k of their count is set, level[k]
// has the sum of 2^k of them.
typedef struct tree_sum {
    double level[64];
    int64_t count;
} tree_sum;

static void add(tree_sum *t, double x) {
    int k = 0;
    for (; t->count >> k & 1; k++)
        x = t->level[k] + x;
    t->level[k] = x;
    t->count++;
}

static double total(const tree_sum *t) {
    double sum = 0;
    for (int k = 0; t->count >> k; k++)
        if (t->count >> k & 1)
            sum = t->level[k] + sum;
    return sum;
}

// The first measure of all segments of a kind: the pieces of a block in order, then its blocks.
static double sum_of_kind(const sr_phase *phase, sr_segment_kind kind,
                          const sr_exchange_piece *pieces, const double *measures, int64_t count) {
    tree_sum sum = {.count = 0};
    for (int64_t b = 0, i = 0; b * SR_BLOCK_ELEMENTS < phase->elements; b++) {
        double of_block = 0;
        for (; i < count && pieces[i].block == b; i++)
            if (phase->uses[pieces[i].segment].kind == kind)
                of_block += measures[i * SR_EXCHANGE_MEASURES + MEASURE_SUM];
        add(&sum, of_block);
    }
    return total(&sum);
}

// Both measures of each tensor, whose pieces follow one another.
static void sum_tensors(sr_phase *phase, const sr_exchange_piece *pieces, const double *measures,
                        int64_t count) {
    for (int64_t i = 0; i < count;) {
        const int segment = pieces[i].segment;
        tree_sum sums = {.count = 0}, values = {.count = 0};
        for (; i < count && pieces[i].segment == segment; i++) {
            add(&sums, measures[i * SR_EXCHANGE_MEASURES + MEASURE_SUM]);
            add(&values, measures[i * SR_EXCHANGE_MEASURES + MEASURE_VALUES]);
        }
        phase->norms[segment] = (sr_tensor_norms){sqrt(total(&sums)), sqrt(total(&values))};
    }
}

// The factor that brings gradients of this norm to the recipe's, as torch.nn.utils.clip_grad_norm_.
static double clip_factor(const sr_phase *phase, double norm) {
    const double factor = phase->clip_norm / (norm + 1e-6);
    return phase->clip_norm > 0 && factor < 1 ? factor : 1;
}

// ---- The settings of a step ----

// What an optimiser is told about a group. Updates are counted when they are done; skipped ones are
// not.
static sr_hyper_request request_of(const sr_phase *phase, int group) {
    const sr_group_settings *g = &phase->groups[group];
    return (sr_hyper_request){.lr = phase->now.lr * g->lr_scale,
                              .weight_decay = phase->weight_decay * g->decay_scale,
                              .gradient_scale = phase->now.sum_scale * phase->clip_factor,
                              .step = phase->now.step - (int64_t)phase->loss_scale.skipped};
}

static void fill_row(sr_phase *phase, int row, const sr_hyper_request *request, bool finishes) {
    const sr_optimizer_desc *optimizer = phase->optimizer;
    float *numbers = phase->settings + (size_t)row * HYPER_ROW;
    memset(numbers, 0, HYPER_ROW * sizeof *numbers);
    if (finishes)
        optimizer->finish(phase->optimizer_options, request, numbers);
    else if (request->rows > 0)
        optimizer->fill_matrix(phase->optimizer_options, request, numbers);
    else
        optimizer->fill(phase->optimizer_options, request, numbers);
    if (finishes && request->rows > 0)
        sr_phase_fill_matrix(request->norm, numbers);
}

void sr_phase_fill_settings(sr_phase *phase) {
    float *rows = phase->settings;
    fill_average(phase->ema_now.decay, 1 - phase->ema_now.decay, 1, rows + ROW_AVERAGE * HYPER_ROW);
    rows[ROW_LIMIT * HYPER_ROW] = (float)(phase->clip_value / phase->now.sum_scale);
    for (int i = 0; i < phase->group_count && !has_norms(phase); i++) {
        const sr_hyper_request request = request_of(phase, i);
        fill_row(phase, ROW_GROUPS + i, &request, false);
    }
}

// The rows of parameters, after a round in which their norms were agreed on.
static void fill_tensors(sr_phase *phase, int round) {
    const double norm = phase->gradient_norm * phase->clip_factor;
    for (int s = 0; s < phase->segment_count; s++) {
        if (phase->uses[s].kind != SR_SEGMENT_PARAM)
            continue;
        sr_hyper_request request = request_of(phase, phase->uses[s].group);
        request.global_norm = norm;
        request.norm = phase->norms[s].sum * (round == 0 ? request.gradient_scale : 1);
        request.param_norm = phase->norms[s].values;
        request.rows = phase->uses[s].rows;
        request.columns = phase->uses[s].columns;
        fill_row(phase, row_of_segment(phase, s), &request, round > 0);
    }
}

static sr_status agree_on_norm(sr_phase *phase, const sr_exchange_piece *pieces,
                               const double *measures, int64_t count) {
    const double squares = sum_of_kind(phase, SR_SEGMENT_PARAM, pieces, measures, count),
                 buffers = sum_of_kind(phase, SR_SEGMENT_BUFFER, pieces, measures, count);
    phase->gradient_norm = sqrt(squares) * phase->now.sum_scale;
    if (phase->loss_scale.scale > 0) {
        const bool finite = isfinite(squares) && isfinite(buffers);
        phase->skipped = !finite;
        SR_TRY(sr_loss_scale_update(&phase->loss_scale, phase->loss_scale_every, finite));
    }
    phase->clip_factor = clip_factor(phase, phase->gradient_norm);
    sr_phase_fill_settings(phase);
    return SR_OK;
}

sr_status sr_phase_agree(void *user, int64_t step, int round, const sr_exchange_piece *pieces,
                         const double *measures, int64_t count) {
    sr_phase *phase = user;
    (void)step;
    if (round == 0)
        SR_TRY(agree_on_norm(phase, pieces, measures, count));
    if (has_norms(phase)) {
        sum_tensors(phase, pieces, measures, count);
        fill_tensors(phase, round);
    }
    return sr_phase_begin_step(phase);
}

sr_status sr_phase_begin_step(sr_phase *phase) {
    return sr_device_upload(phase->device, phase->hyper, phase->settings,
                            changing_rows(phase) * HYPER_ROW * sizeof(float));
}

// ---- Making of ----

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

static sr_status make_matrices(sr_phase *phase) {
    int64_t *most = &phase->matrix_scratch;
    for (int i = 0; i < phase->segment_count; i++) {
        const sr_segment_use *use = &phase->uses[i];
        const int64_t need = use->rows > 0 ? sr_phase_matrix_scratch(use->rows, use->columns) : 0;
        *most = need > *most ? need : *most;
    }
    return *most == 0 ? SR_OK
                      : sr_device_alloc(phase->device, (size_t)*most * sizeof(float),
                                        "orthogonal directions", &phase->matrices);
}

sr_status sr_phase_make_settings(sr_phase *phase) {
    const size_t floats = (size_t)row_of_segment(phase, phase->segment_count) * HYPER_ROW;
    float *rows = NULL;
    SR_TRY(sr_prepared_cache_create(&phase->kernels));
    SR_TRY(make_settings(phase));
    SR_TRY(make_matrices(phase));
    if (has_norms(phase)) {
        phase->norms = sr_alloc_array((size_t)phase->segment_count, sizeof *phase->norms, "norms");
        if (!phase->norms)
            return SR_E_MEMORY;
    }
    SR_TRY(sr_device_alloc(phase->device, floats * sizeof(float), "settings", &phase->hyper));
    void *mapped = NULL;
    SR_TRY(sr_device_map(phase->device, phase->hyper, floats * sizeof(float), &mapped));
    rows = mapped;
    for (int i = 0; i < phase->segment_count; i++) {
        if (phase->uses[i].kind != SR_SEGMENT_BUFFER)
            continue;
        const double momentum = phase->model->params[phase->uses[i].param].momentum;
        const size_t row = (size_t)row_of_segment(phase, i);
        fill_average(1 - momentum, momentum, 1.0 / phase->lanes, rows + row * HYPER_ROW);
        if (row < changing_rows(phase)) // uploaded with the others
            fill_average(1 - momentum, momentum, 1.0 / phase->lanes,
                         phase->settings + row * HYPER_ROW);
    }
    return sr_device_unmap(phase->device, phase->hyper, floats * sizeof(float), mapped, true);
}
