// SPDX-License-Identifier: Apache-2.0
// The update of a set, which owners run on the exchange's stream (param_set_internal.h).
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
#include "trainer/engine/param_set_internal.h"

// ---- Settings on the device ----

// Rows of 'hyper', whole cache lines: that of the average, that of the limit of gradients, those of
// groups, those of segments, of which buffers have one and, where norms of tensors are agreed on,
// parameters.
#define HYPER_ROW SR_HYPER
enum { ROW_AVERAGE = 0, ROW_LIMIT, ROW_GROUPS };

static int row_of_segment(const sr_param_set *set, int segment) {
    return ROW_GROUPS + set->group_count + segment;
}

static bool has_norms(const sr_param_set *set) {
    return set->optimizer->reductions > 0;
}

static int row_of_param(const sr_param_set *set, int segment) {
    return has_norms(set) ? row_of_segment(set, segment) : ROW_GROUPS + set->uses[segment].group;
}

// Rows that change every step, and are kept in settings[].
static size_t changing_rows(const sr_param_set *set) {
    return has_norms(set) ? (size_t)row_of_segment(set, set->segment_count)
                          : ROW_GROUPS + (size_t)set->group_count;
}

static sr_address hyper_row(const sr_param_set *set, int row) {
    return sr_param_set_element(set->hyper, (int64_t)row * HYPER_ROW);
}

// The row of a kernel that computes a = keep a + take (scale x).
static void fill_average(double keep, double take, double scale, float *row) {
    row[0] = (float)keep;
    row[1] = (float)take;
    row[2] = (float)scale;
}

// A kernel of the list over 'count' elements.
static sr_status launch_listed(sr_param_set *set, sr_kernel_id kernel, int64_t count,
                               const sr_address *p, const char *what, sr_stream *stream) {
    const sr_count_params params = {.count = count};
    return sr_param_set_launch(set, kernel, &params, sizeof params, p, what, stream);
}

// ---- The optimiser ----

// The optimiser's kernel, which may come with the optimiser, on the elements from 'begin' on;
// arguments are f32.
static sr_status launch_optimizer(sr_param_set *set, int segment, int64_t begin, int64_t count,
                                  sr_address sum, sr_address values, sr_stream *stream) {
    const sr_optimizer_desc *optimizer = set->optimizer;
    const int states = optimizer->states, args = states + 3;
    sr_address p[SR_OPTIMIZER_MAX_STATES + 3] = {values};
    for (int i = 0; i < states; i++)
        p[1 + i] = sr_param_set_element(
            set->states[sr_param_set_has_state(set, i) ? i : set->first_state], begin);
    p[1 + states] = sum;
    p[2 + states] = hyper_row(set, row_of_param(set, segment));
    const sr_count_params params = {.count = count};
    sr_kernel_request request;
    memset(&request, 0, sizeof request);
    request.device = sr_device_get_properties(set->device)->kind;
    request.kernel = optimizer->kernel;
    request.own = optimizer->kernels;
    request.own_count = optimizer->kernel_count;
    request.args = args;
    for (int i = 0; i < args; i++)
        request.dtype[i] = SR_F32;
    memcpy(request.params, &params, sizeof params);
    return sr_param_set_launch_request(set, &request, p, optimizer->name, stream);
}

// a = keep a + take (scale x)
static sr_status update_average(sr_param_set *set, sr_address a, sr_address x, int row,
                                int64_t count, const char *what, sr_stream *stream) {
    const sr_address p[] = {a, x, hyper_row(set, row)};
    return launch_listed(set, SR_KERNEL_ema, count, p, what, stream);
}

static sr_status update_param(sr_param_set *set, int segment, int64_t begin, int64_t count,
                              sr_address sum, sr_address values, sr_stream *stream) {
    if (set->groups[set->uses[segment].group].rests)
        return SR_OK;
    const sr_segment_use *use = &set->uses[segment];
    if (use->rows > 0 && begin == set->segments[segment].begin) // its sum is in one piece
        SR_TRY(sr_param_set_orthogonalise(set, use->rows, use->columns, sum,
                                          hyper_row(set, row_of_param(set, segment)), stream));
    if (set->optimizer->finish)
        return update_average(set, values, sum, row_of_param(set, segment), count,
                              set->optimizer->name, stream);
    if (set->clip_value > 0) {
        const sr_address limited[] = {sum, hyper_row(set, ROW_LIMIT)};
        SR_TRY(launch_listed(set, SR_KERNEL_limit, count, limited, "limit of gradients", stream));
    }
    return launch_optimizer(set, segment, begin, count, sum, values, stream);
}

static sr_status update_piece(sr_param_set *set, int segment, int64_t begin, int64_t end,
                              sr_address sum, sr_address values, sr_stream *stream) {
    const sr_segment_use *use = &set->uses[segment];
    const int64_t count = end - begin;
    const size_t bytes = (size_t)count * sizeof(float);
    if (use->kind == SR_SEGMENT_SCALAR)
        return sr_stream_copy(stream, values, sum, bytes);
    if (set->skipped)
        return SR_OK;
    if (use->kind == SR_SEGMENT_BUFFER && !use->silent)
        SR_TRY(update_average(set, values, sum, row_of_segment(set, segment), count,
                              "running statistics", stream));
    else if (use->kind == SR_SEGMENT_PARAM)
        SR_TRY(update_param(set, segment, begin, count, sum, values, stream));
    if (sr_address_is_none(set->ema))
        return SR_OK;
    const sr_address average = sr_param_set_element(set->ema, begin);
    if (use->kind == SR_SEGMENT_BUFFER && !set->ema_buffers)
        return sr_stream_copy(stream, average, values, bytes);
    if (!set->ema_now.due)
        return SR_OK;
    SR_TRY(
        update_average(set, average, values, ROW_AVERAGE, count, "average of parameters", stream));
    return set->ema_now.lookahead ? sr_stream_copy(stream, values, average, bytes) : SR_OK;
}

// The first segment that ends after an element.
static int segment_after(const sr_param_set *set, int64_t element) {
    int low = 0, high = set->segment_count;
    while (low < high) {
        int middle = (low + high) / 2;
        const sr_segment *s = &set->segments[middle];
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
static bool next_piece(const sr_param_set *set, int64_t begin, int64_t end, int *next,
                       segment_piece *out) {
    if (*next >= set->segment_count || set->segments[*next].begin >= end)
        return false;
    const sr_segment *s = &set->segments[*next];
    *out = (segment_piece){.segment = (*next)++,
                           .from = s->begin > begin ? s->begin : begin,
                           .to = s->begin + s->count < end ? s->begin + s->count : end};
    return true;
}

sr_status sr_param_set_update(void *user, int64_t step, int64_t begin, int64_t end, sr_address sum,
                              sr_address values, sr_stream *stream) {
    sr_param_set *set = user;
    segment_piece piece;
    int next = segment_after(set, begin);
    (void)step;
    while (next_piece(set, begin, end, &next, &piece))
        SR_TRY(update_piece(set, piece.segment, piece.from, piece.to,
                            sr_param_set_element(sum, piece.from - begin),
                            sr_param_set_element(values, piece.from - begin), stream));
    return SR_OK;
}

// ---- What the ranks agree on before it ----

bool sr_param_set_is_agreed(const sr_param_set *set) {
    return set->clip_norm > 0 || set->loss_scale.scale > 0 || has_norms(set);
}

// Measures of a piece: the sum of squares of its gradients (of a buffer, of the sums that become
// running statistics), or of the direction that the optimiser computed from them; and that of its
// parameters.
enum { MEASURE_SUM = 0, MEASURE_VALUES };

static sr_status add_squares(sr_param_set *set, sr_address x, int64_t count, sr_address out,
                             int which, sr_stream *stream) {
    const sr_address p[] = {x, sr_address_add(out, (size_t)which * sizeof(double))};
    return launch_listed(set, SR_KERNEL_add_squares, count, p, "norm of gradients", stream);
}

// The direction of a part of a matrix, from its momentum.
static sr_status direct_matrix(sr_param_set *set, int segment, int64_t begin, int64_t count,
                               sr_address sum, sr_stream *stream) {
    const sr_address row = hyper_row(set, row_of_param(set, segment));
    const sr_address m = sr_param_set_element(set->states[0], begin);
    const sr_address momentum[] = {m, sum, row},
                     direction[] = {sum, m, sr_param_set_element(row, 4)};
    SR_TRY(launch_listed(set, SR_KERNEL_ema, count, momentum, set->optimizer->name, stream));
    return launch_listed(set, SR_KERNEL_ema, count, direction, set->optimizer->name, stream);
}

// The parameters are measured in the last round.
static sr_status measure_piece(sr_param_set *set, const segment_piece *piece, int round,
                               sr_address sum, sr_address out, sr_stream *stream) {
    const sr_segment_use *use = &set->uses[piece->segment];
    const int64_t count = piece->to - piece->from;
    const sr_address values = sr_param_set_element(set->values, piece->from);
    const bool param = use->kind == SR_SEGMENT_PARAM;
    if (use->kind == SR_SEGMENT_SCALAR || (param && set->groups[use->group].rests))
        return SR_OK;
    if (param && round > 0 && use->rows > 0)
        SR_TRY(direct_matrix(set, piece->segment, piece->from, count, sum, stream));
    else if (param && round > 0)
        SR_TRY(launch_optimizer(set, piece->segment, piece->from, count, sum, values, stream));
    if (param || round == 0)
        SR_TRY(add_squares(set, sum, count, out, MEASURE_SUM, stream));
    return param && round + 1 == set->optimizer->reductions
               ? add_squares(set, values, count, out, MEASURE_VALUES, stream)
               : SR_OK;
}

sr_status sr_param_set_measure(void *user, int64_t step, int round, int64_t begin, int64_t end,
                               sr_address sum, sr_address out, sr_stream *stream) {
    sr_param_set *set = user;
    segment_piece piece;
    int next = segment_after(set, begin);
    (void)step;
    for (size_t i = 0; !set->skipped && next_piece(set, begin, end, &next, &piece); i++)
        SR_TRY(measure_piece(set, &piece, round, sr_param_set_element(sum, piece.from - begin),
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
static double sum_of_kind(const sr_param_set *set, sr_segment_kind kind,
                          const sr_exchange_piece *pieces, const double *measures, int64_t count) {
    tree_sum sum = {.count = 0};
    for (int64_t b = 0, i = 0; b * SR_BLOCK_ELEMENTS < set->elements; b++) {
        double of_block = 0;
        for (; i < count && pieces[i].block == b; i++)
            if (set->uses[pieces[i].segment].kind == kind)
                of_block += measures[i * SR_EXCHANGE_MEASURES + MEASURE_SUM];
        add(&sum, of_block);
    }
    return total(&sum);
}

// Both measures of each tensor, whose pieces follow one another.
static void sum_tensors(sr_param_set *set, const sr_exchange_piece *pieces, const double *measures,
                        int64_t count) {
    for (int64_t i = 0; i < count;) {
        const int segment = pieces[i].segment;
        tree_sum sums = {.count = 0}, values = {.count = 0};
        for (; i < count && pieces[i].segment == segment; i++) {
            add(&sums, measures[i * SR_EXCHANGE_MEASURES + MEASURE_SUM]);
            add(&values, measures[i * SR_EXCHANGE_MEASURES + MEASURE_VALUES]);
        }
        set->norms[segment] = (sr_tensor_norms){sqrt(total(&sums)), sqrt(total(&values))};
    }
}

// The factor that brings gradients of this norm to the recipe's, as torch.nn.utils.clip_grad_norm_.
static double clip_factor(const sr_param_set *set, double norm) {
    const double factor = set->clip_norm / (norm + 1e-6);
    return set->clip_norm > 0 && factor < 1 ? factor : 1;
}

// ---- The settings of a step ----

// What an optimiser is told about a group. Updates are counted when they are done; skipped ones are
// not.
static sr_hyper_request request_of(const sr_param_set *set, int group) {
    const sr_group_settings *g = &set->groups[group];
    return (sr_hyper_request){.lr = set->now.lr * g->lr_scale,
                              .weight_decay = set->weight_decay * g->decay_scale,
                              .gradient_scale = set->now.sum_scale * set->clip_factor,
                              .step = set->now.updates - (int64_t)set->loss_scale.skipped};
}

static void fill_row(sr_param_set *set, int row, const sr_hyper_request *request, bool finishes) {
    const sr_optimizer_desc *optimizer = set->optimizer;
    float *numbers = set->settings + (size_t)row * HYPER_ROW;
    memset(numbers, 0, HYPER_ROW * sizeof *numbers);
    if (finishes)
        optimizer->finish(set->optimizer_options, request, numbers);
    else if (request->rows > 0)
        optimizer->fill_matrix(set->optimizer_options, request, numbers);
    else
        optimizer->fill(set->optimizer_options, request, numbers);
    if (finishes && request->rows > 0)
        sr_param_set_fill_matrix(request->norm, numbers);
}

void sr_param_set_fill_settings(sr_param_set *set) {
    float *rows = set->settings;
    fill_average(set->ema_now.decay, 1 - set->ema_now.decay, 1, rows + ROW_AVERAGE * HYPER_ROW);
    rows[ROW_LIMIT * HYPER_ROW] = (float)(set->clip_value / set->now.sum_scale);
    for (int i = 0; i < set->group_count && !has_norms(set); i++) {
        const sr_hyper_request request = request_of(set, i);
        fill_row(set, ROW_GROUPS + i, &request, false);
    }
}

// The rows of parameters, after a round in which their norms were agreed on.
static void fill_tensors(sr_param_set *set, int round) {
    const double norm = set->gradient_norm * set->clip_factor;
    for (int s = 0; s < set->segment_count; s++) {
        if (set->uses[s].kind != SR_SEGMENT_PARAM)
            continue;
        sr_hyper_request request = request_of(set, set->uses[s].group);
        request.global_norm = norm;
        request.norm = set->norms[s].sum * (round == 0 ? request.gradient_scale : 1);
        request.param_norm = set->norms[s].values;
        request.rows = set->uses[s].rows;
        request.columns = set->uses[s].columns;
        fill_row(set, row_of_segment(set, s), &request, round > 0);
    }
}

static sr_status agree_on_norm(sr_param_set *set, const sr_exchange_piece *pieces,
                               const double *measures, int64_t count) {
    const double squares = sum_of_kind(set, SR_SEGMENT_PARAM, pieces, measures, count),
                 buffers = sum_of_kind(set, SR_SEGMENT_BUFFER, pieces, measures, count);
    set->gradient_norm = sqrt(squares) * set->now.sum_scale;
    if (set->loss_scale.scale > 0) {
        const bool finite = isfinite(squares) && isfinite(buffers);
        set->skipped = !finite;
        SR_TRY(sr_loss_scale_update(&set->loss_scale, set->loss_scale_every, finite));
    }
    set->clip_factor = clip_factor(set, set->gradient_norm);
    sr_param_set_fill_settings(set);
    return SR_OK;
}

sr_status sr_param_set_agree(void *user, int64_t step, int round, const sr_exchange_piece *pieces,
                             const double *measures, int64_t count) {
    sr_param_set *set = user;
    (void)step;
    if (round == 0)
        SR_TRY(agree_on_norm(set, pieces, measures, count));
    if (has_norms(set)) {
        sum_tensors(set, pieces, measures, count);
        fill_tensors(set, round);
    }
    return sr_param_set_begin_step(set);
}

sr_status sr_param_set_begin_step(sr_param_set *set) {
    return sr_device_upload(set->device, set->hyper, set->settings,
                            changing_rows(set) * HYPER_ROW * sizeof(float));
}

// ---- Making of ----

static sr_status make_settings(sr_param_set *set) {
    const size_t count = changing_rows(set) * HYPER_ROW;
    float *settings = sr_alloc_array(count, sizeof *settings, "settings");
    if (!settings)
        return SR_E_MEMORY;
    const sr_status status =
        sr_device_register_host(set->device, settings, count * sizeof *settings);
    if (status == SR_OK)
        set->settings = settings;
    else
        sr_free(settings);
    return status;
}

static sr_status make_matrices(sr_param_set *set) {
    int64_t *most = &set->matrix_scratch;
    for (int i = 0; i < set->segment_count; i++) {
        const sr_segment_use *use = &set->uses[i];
        const int64_t need =
            use->rows > 0 ? sr_param_set_matrix_scratch(use->rows, use->columns) : 0;
        *most = need > *most ? need : *most;
    }
    return *most == 0 ? SR_OK
                      : sr_device_alloc(set->device, (size_t)*most * sizeof(float),
                                        "orthogonal directions", &set->matrices);
}

sr_status sr_param_set_make_settings(sr_param_set *set) {
    const size_t floats = (size_t)row_of_segment(set, set->segment_count) * HYPER_ROW;
    float *rows = NULL;
    SR_TRY(sr_prepared_cache_create(&set->kernels));
    SR_TRY(make_settings(set));
    SR_TRY(make_matrices(set));
    if (has_norms(set)) {
        set->norms = sr_alloc_array((size_t)set->segment_count, sizeof *set->norms, "norms");
        if (!set->norms)
            return SR_E_MEMORY;
    }
    SR_TRY(sr_device_alloc(set->device, floats * sizeof(float), "settings", &set->hyper));
    void *mapped = NULL;
    SR_TRY(sr_device_map(set->device, set->hyper, floats * sizeof(float), &mapped));
    rows = mapped;
    for (int i = 0; i < set->segment_count; i++) {
        if (set->uses[i].kind != SR_SEGMENT_BUFFER)
            continue;
        const double momentum = set->model->params[set->uses[i].param].momentum;
        const size_t row = (size_t)row_of_segment(set, i);
        fill_average(1 - momentum, momentum, 1.0 / set->lanes, rows + row * HYPER_ROW);
        if (row < changing_rows(set)) // uploaded with the others
            fill_average(1 - momentum, momentum, 1.0 / set->lanes, set->settings + row * HYPER_ROW);
    }
    return sr_device_unmap(set->device, set->hyper, floats * sizeof(float), mapped, true);
}
