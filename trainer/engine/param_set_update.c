// SPDX-License-Identifier: Apache-2.0
// The update of a set, which owners run on the exchange's stream (param_set_internal.h).
//
// It is enqueued one range at a time: on a CPU a block, whose pieces (parts of segments) are
// updated one after the other while it is in the cache; elsewhere a bucket, whose pieces are one
// launch for each kernel (sr_update_params). Kernels are prepared on first use and kept, so that a
// steady step allocates nothing. They are elementwise: how a segment is cut into pieces changes no
// bit.
//
// What depends on all gradients is agreed first, from the sums of squares of pieces: the norm of
// all gradients, and the norms of each tensor that an optimiser asks for
// (sr_optimizer_desc.reductions). Pieces are added by the binary tree on their numbers inside a
// tensor, blocks by the one on theirs.
#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/base/memory.h"
#include "kernels/kernel_params.h"
#include "kernels/prepared_cache.h"
#include "trainer/engine/param_set_internal.h"

// ---- Settings on the device ----

// The table of the update's kernels (sr_update_params): rows, the maps of segments, pieces. Rows
// are that of the average, that of the limit of gradients, those of groups, and those of segments,
// of which buffers have one and, where norms of tensors are agreed on, parameters. Rows and maps
// are uploaded in every step.
#define HYPER_ROW SR_HYPER
static_assert(HYPER_ROW == SR_UPDATE_ROW, "numbers of a row");
enum { ROW_AVERAGE = 0, ROW_LIMIT, ROW_GROUPS };

// Which segments something is done to, and with which row.
typedef enum update_map {
    MAP_OPTIMIZER,  // parameters
    MAP_DIRECTION,  // those whose direction the optimiser's kernel computes
    MAP_MOMENTUM,   // those whose direction is that of their momentum
    MAP_MATRIX,     // of these, those that are updated as matrices
    MAP_LIMIT,      // parameters, with the limit
    MAP_STATISTICS, // buffers, with the average over steps
    MAP_AVERAGE,    // what is averaged
    MAP_MEASURED,   // what is measured before the update
    MAPS
} update_map;

static int row_of_segment(const sr_param_set *set, int segment) {
    return ROW_GROUPS + set->group_count + segment;
}

static bool has_norms(const sr_param_set *set) {
    return set->optimizer->reductions > 0;
}

static int row_of_param(const sr_param_set *set, int segment) {
    return has_norms(set) ? row_of_segment(set, segment) : ROW_GROUPS + set->uses[segment].group;
}

// Words of the table before a map, and before the pieces. Pieces are aligned.
static size_t words_before_map(const sr_param_set *set, update_map map) {
    return (size_t)row_of_segment(set, set->segment_count) * HYPER_ROW +
           (size_t)map * (size_t)set->segment_count;
}

static size_t words_before_pieces(const sr_param_set *set) {
    return (words_before_map(set, MAPS) + HYPER_ROW - 1) / HYPER_ROW * HYPER_ROW;
}

static size_t words_of_table(const sr_param_set *set) {
    return words_before_pieces(set) +
           (size_t)set->piece_count * sizeof(sr_update_piece) / sizeof(float);
}

static int32_t *map_of(const sr_param_set *set, update_map map) {
    return (int32_t *)(void *)(set->settings + words_before_map(set, map));
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

// ---- Kernels on pieces ----

// The first piece that ends after an element.
static int64_t piece_after(const sr_param_set *set, int64_t element) {
    int64_t low = 0, high = set->piece_count;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        const sr_update_piece *piece = &set->pieces[middle];
        if (piece->begin + piece->count <= element)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// A range of the flat space that is updated or measured at a time: whole pieces.
typedef struct update_range {
    sr_param_set *set;
    sr_stream *stream;
    int64_t begin, end;
    int64_t first, last; // its pieces
} update_range;

static update_range range_of(sr_param_set *set, int64_t begin, int64_t end, sr_stream *stream) {
    const int64_t first = piece_after(set, begin), last = piece_after(set, end);
    assert(first == last || set->pieces[first].begin >= begin);
    return (update_range){
        .set = set, .stream = stream, .begin = begin, .end = end, .first = first, .last = last};
}

// The elements of a piece in an array that begins with those of the range.
static sr_address piece_in(const update_range *r, int64_t piece, sr_address array) {
    return sr_param_set_element(array, r->set->pieces[piece].begin - r->begin);
}

// An update of the pieces of a range whose segments have a row in a map. Arguments are f32: arrays,
// which begin with the range, and numbers.
typedef struct piece_update {
    const char *what;
    sr_kernel_request request; // without params
    update_map map;
    int place; // of the first number of a row that is meant
    sr_address p[SR_OPTIMIZER_MAX_STATES + 2];
} piece_update;

static piece_update listed_update(const sr_param_set *set, sr_kernel_id kernel, update_map map,
                                  const char *what) {
    piece_update u = {.what = what, .map = map};
    const sr_count_params none = {.count = 0};
    sr_kernel_request_init(&u.request, sr_device_get_properties(set->device)->kind, kernel, SR_F32,
                           &none, sizeof none);
    return u;
}

static sr_status launch_update(const update_range *r, piece_update *u,
                               const sr_update_params *params, const sr_address *arrays,
                               sr_address numbers) {
    sr_address p[SR_OPTIMIZER_MAX_STATES + 3];
    const int last = u->request.args - 1;
    memcpy(p, arrays, (size_t)last * sizeof *p);
    p[last] = sr_param_set_element(numbers, u->place);
    memset(u->request.params, 0, sizeof u->request.params);
    memcpy(u->request.params, params, sizeof *params);
    return sr_param_set_launch_request(r->set, &u->request, p, u->what, r->stream);
}

// Where a launch costs more than the work on a piece, all pieces are one launch. Kernels of
// plug-ins know no pieces.
static bool is_one_launch(const sr_param_set *set, sr_kernel_id kernel) {
    return sr_device_get_properties(set->device)->asynchronous && kernel != SR_KERNEL_OWN;
}

// The params of one launch for all pieces of a range. Words are counted from 'place' on.
static sr_update_params pieces_of(const update_range *r, update_map map, int place) {
    const sr_param_set *set = r->set;
    return (sr_update_params){
        .count = r->end - r->begin,
        .pieces = r->last - r->first,
        .first = r->begin,
        .map_at = (int64_t)words_before_map(set, map) - place,
        .pieces_at = (int64_t)(words_before_pieces(set) +
                               (size_t)r->first * sizeof(sr_update_piece) / sizeof(float)) -
                     place,
        .words = (int64_t)words_of_table(set) - place};
}

static bool has_work(const update_range *r, update_map map) {
    const int32_t *rows = map_of(r->set, map);
    for (int64_t i = r->first; i < r->last; i++)
        if (rows[r->set->pieces[i].segment] >= 0)
            return true;
    return false;
}

static sr_status update_pieces(const update_range *r, piece_update *u) {
    sr_param_set *set = r->set;
    const int32_t *rows = map_of(set, u->map);
    if (!has_work(r, u->map))
        return SR_OK;
    if (is_one_launch(set, u->request.kernel)) {
        const sr_update_params params = pieces_of(r, u->map, u->place);
        return launch_update(r, u, &params, u->p, set->hyper);
    }
    for (int64_t i = r->first; i < r->last; i++) {
        const sr_update_params params = {.count = set->pieces[i].count};
        const int32_t row = rows[set->pieces[i].segment];
        sr_address p[SR_OPTIMIZER_MAX_STATES + 2];
        for (int k = 0; k + 1 < u->request.args; k++)
            p[k] = piece_in(r, i, u->p[k]);
        if (row >= 0)
            SR_TRY(launch_update(r, u, &params, p, hyper_row(set, row)));
    }
    return SR_OK;
}

// ---- The update ----

// a = keep a + take (scale x)
static sr_status update_average(const update_range *r, sr_address a, sr_address x, update_map map,
                                int place, const char *what) {
    piece_update u = listed_update(r->set, SR_KERNEL_ema, map, what);
    u.place = place;
    u.p[0] = a;
    u.p[1] = x;
    return update_pieces(r, &u);
}

// The optimiser's kernel, which may come with the optimiser.
static sr_status run_optimizer(const update_range *r, update_map map, sr_address sum,
                               sr_address values) {
    const sr_param_set *set = r->set;
    const sr_optimizer_desc *optimizer = set->optimizer;
    const int states = optimizer->states;
    piece_update u = {.what = optimizer->name, .map = map};
    u.request.device = sr_device_get_properties(set->device)->kind;
    u.request.kernel = optimizer->kernel;
    u.request.own = optimizer->kernels;
    u.request.own_count = optimizer->kernel_count;
    u.request.args = states + 3;
    for (int i = 0; i < u.request.args; i++)
        u.request.dtype[i] = SR_F32;
    u.p[0] = values;
    for (int i = 0; i < states; i++)
        u.p[1 + i] = sr_param_set_element(
            set->states[sr_param_set_has_state(set, i) ? i : set->first_state], r->begin);
    u.p[1 + states] = sum;
    return update_pieces(r, &u);
}

// Matrices whose first piece this is; their sums are in one piece.
static sr_status orthogonalise(const update_range *r, sr_address sum) {
    sr_param_set *set = r->set;
    const int32_t *rows = map_of(set, MAP_MATRIX);
    for (int64_t i = r->first; i < r->last; i++) {
        const int segment = set->pieces[i].segment;
        const sr_segment_use *use = &set->uses[segment];
        if (rows[segment] >= 0 && set->pieces[i].begin == set->segments[segment].begin)
            SR_TRY(sr_param_set_orthogonalise(set, use->rows, use->columns, piece_in(r, i, sum),
                                              hyper_row(set, rows[segment]), r->stream));
    }
    return SR_OK;
}

static sr_status update_params(const update_range *r, sr_address sum, sr_address values) {
    sr_param_set *set = r->set;
    SR_TRY(orthogonalise(r, sum));
    if (set->optimizer->finish)
        return update_average(r, values, sum, MAP_OPTIMIZER, 0, set->optimizer->name);
    if (set->clip_value > 0) {
        piece_update limit = listed_update(set, SR_KERNEL_limit, MAP_LIMIT, "limit of gradients");
        limit.p[0] = sum;
        SR_TRY(update_pieces(r, &limit));
    }
    return run_optimizer(r, MAP_OPTIMIZER, sum, values);
}

// Copies the pieces of some kinds of segments.
static sr_status copy_pieces(const update_range *r, sr_address to, sr_address from,
                             unsigned kinds) {
    const sr_param_set *set = r->set;
    for (int64_t i = r->first; i < r->last; i++)
        if (kinds >> set->uses[set->pieces[i].segment].kind & 1)
            SR_TRY(sr_stream_copy(r->stream, piece_in(r, i, to), piece_in(r, i, from),
                                  (size_t)set->pieces[i].count * sizeof(float)));
    return SR_OK;
}

sr_status sr_param_set_update(void *user, int64_t step, int64_t begin, int64_t end, sr_address sum,
                              sr_address values, sr_stream *stream) {
    enum { PARAMS = 1u << SR_SEGMENT_PARAM, BUFFERS = 1u << SR_SEGMENT_BUFFER };
    sr_param_set *set = user;
    const update_range r = range_of(set, begin, end, stream);
    (void)step;
    SR_TRY(copy_pieces(&r, values, sum, 1u << SR_SEGMENT_SCALAR));
    if (set->skipped)
        return SR_OK;
    SR_TRY(update_average(&r, values, sum, MAP_STATISTICS, 0, "running statistics"));
    SR_TRY(update_params(&r, sum, values));
    if (sr_address_is_none(set->ema))
        return SR_OK;
    const sr_address average = sr_param_set_element(set->ema, begin);
    if (!set->ema_buffers)
        SR_TRY(copy_pieces(&r, average, values, BUFFERS));
    if (!set->ema_now.due)
        return SR_OK;
    SR_TRY(update_average(&r, average, values, MAP_AVERAGE, 0, "average of parameters"));
    return set->ema_now.lookahead
               ? copy_pieces(&r, values, average, set->ema_buffers ? PARAMS | BUFFERS : PARAMS)
               : SR_OK;
}

// ---- What the ranks agree on before it ----

bool sr_param_set_is_agreed(const sr_param_set *set) {
    return set->clip_norm > 0 || set->loss_scale.scale > 0 || has_norms(set);
}

// Measures of a piece: the sum of squares of its gradients (of a buffer, of the sums that become
// running statistics), or of the direction that the optimiser computed from them; and that of its
// parameters.
enum { MEASURE_SUM = 0, MEASURE_VALUES };

// 'out' has the measures of all pieces of the range.
static sr_status add_squares(const update_range *r, sr_address x, update_map map, sr_address out,
                             int which) {
    sr_param_set *set = r->set;
    const bool one = is_one_launch(set, SR_KERNEL_add_squares);
    const int32_t *rows = map_of(set, map);
    sr_kernel_request request;
    sr_update_params params = pieces_of(r, map, 0);
    params.apart = SR_EXCHANGE_MEASURES;
    if (!has_work(r, map))
        return SR_OK;
    for (int64_t i = r->first; i < r->last; i++) {
        if (!one) {
            params = (sr_update_params){.count = set->pieces[i].count};
            if (rows[set->pieces[i].segment] < 0)
                continue;
        }
        const size_t measure = (size_t)(i - r->first) * SR_EXCHANGE_MEASURES + (size_t)which;
        const sr_address p[] = {one ? x : piece_in(r, i, x),
                                sr_address_add(out, measure * sizeof(double)),
                                one ? set->hyper : sr_address_none()};
        sr_kernel_request_init(&request, sr_device_get_properties(set->device)->kind,
                               SR_KERNEL_add_squares, SR_F32, &params, sizeof params);
        if (!one)
            request.dtype[2] = SR_DTYPE_COUNT;
        SR_TRY(sr_param_set_launch_request(set, &request, p, "norm of gradients", r->stream));
        if (one)
            break;
    }
    return SR_OK;
}

static bool is_linear(const sr_param_set *set) {
    const sr_optimizer_desc *optimizer = set->optimizer;
    return optimizer->is_linear && optimizer->is_linear(set->optimizer_options);
}

// The directions of matrices, and of others if the optimiser is linear, from their momenta.
static sr_status direct_by_momentum(const update_range *r, sr_address sum) {
    const sr_param_set *set = r->set;
    const sr_address m = sr_param_set_element(set->states[0], r->begin);
    const char *what = set->optimizer->name;
    if (!set->optimizer->fill_matrix)
        return SR_OK;
    SR_TRY(update_average(r, m, sum, MAP_MOMENTUM, 0, what));
    return update_average(r, sum, m, MAP_MOMENTUM, 4, what);
}

// Parameters are measured in the last round.
sr_status sr_param_set_measure(void *user, int64_t step, int round, int64_t begin, int64_t end,
                               sr_address sum, sr_address out, sr_stream *stream) {
    sr_param_set *set = user;
    const update_range r = range_of(set, begin, end, stream);
    const sr_address values = sr_param_set_element(set->values, begin);
    (void)step;
    if (set->skipped)
        return SR_OK;
    if (round > 0) {
        SR_TRY(direct_by_momentum(&r, sum));
        SR_TRY(run_optimizer(&r, MAP_DIRECTION, sum, values));
    }
    SR_TRY(add_squares(&r, sum, round == 0 ? MAP_MEASURED : MAP_OPTIMIZER, out, MEASURE_SUM));
    return round + 1 == set->optimizer->reductions
               ? add_squares(&r, values, MAP_OPTIMIZER, out, MEASURE_VALUES)
               : SR_OK;
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
    else if (request->rows > 0 || is_linear(set))
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

static void fill_maps(sr_param_set *set) {
    for (int s = 0; s < set->segment_count; s++) {
        const sr_segment_use *use = &set->uses[s];
        const bool param = use->kind == SR_SEGMENT_PARAM, buffer = use->kind == SR_SEGMENT_BUFFER;
        const int32_t row =
            param && !set->groups[use->group].rests ? (int32_t)row_of_param(set, s) : -1;
        const bool matrix = use->rows > 0, momentum = matrix || is_linear(set);
        map_of(set, MAP_OPTIMIZER)[s] = row;
        map_of(set, MAP_DIRECTION)[s] = momentum ? -1 : row;
        map_of(set, MAP_MOMENTUM)[s] = momentum ? row : -1;
        map_of(set, MAP_MATRIX)[s] = matrix ? row : -1;
        map_of(set, MAP_LIMIT)[s] = row >= 0 ? ROW_LIMIT : -1;
        map_of(set, MAP_STATISTICS)[s] =
            buffer && !use->silent ? (int32_t)row_of_segment(set, s) : -1;
        map_of(set, MAP_AVERAGE)[s] = param || (buffer && set->ema_buffers) ? ROW_AVERAGE : -1;
        map_of(set, MAP_MEASURED)[s] = buffer ? ROW_AVERAGE : row;
    }
}

sr_status sr_param_set_begin_step(sr_param_set *set) {
    fill_maps(set);
    return sr_device_upload(set->device, set->hyper, set->settings,
                            words_before_pieces(set) * sizeof(float));
}

// ---- Making of ----

static sr_status make_settings(sr_param_set *set) {
    const size_t count = words_before_pieces(set);
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

// The parts of segments in blocks; with 'out' NULL it only counts them.
static int64_t list_pieces(const sr_param_set *set, sr_update_piece *out) {
    int64_t count = 0;
    for (int s = 0; s < set->segment_count; s++) {
        const int64_t end = set->segments[s].begin + set->segments[s].count;
        for (int64_t begin = set->segments[s].begin, next; begin < end; begin = next) {
            next = (begin / SR_BLOCK_ELEMENTS + 1) * SR_BLOCK_ELEMENTS;
            next = next < end ? next : end;
            if (out)
                out[count] = (sr_update_piece){
                    .begin = begin, .count = (int32_t)(next - begin), .segment = s};
            count++;
        }
    }
    return count;
}

static sr_status make_pieces(sr_param_set *set) {
    static_assert(SR_BLOCK_ELEMENTS <= SR_UPDATE_PIECE,
                  "a part of a segment in a block is a piece");
    set->piece_count = list_pieces(set, NULL);
    set->pieces = sr_alloc_array((size_t)set->piece_count, sizeof *set->pieces, "pieces");
    if (!set->pieces)
        return SR_E_MEMORY;
    (void)list_pieces(set, set->pieces);
    return SR_OK;
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
    SR_TRY(sr_prepared_cache_create(&set->kernels));
    SR_TRY(make_pieces(set));
    SR_TRY(make_settings(set));
    SR_TRY(make_matrices(set));
    if (has_norms(set)) {
        set->norms = sr_alloc_array((size_t)set->segment_count, sizeof *set->norms, "norms");
        if (!set->norms)
            return SR_E_MEMORY;
    }
    for (int i = 0; i < set->segment_count; i++) {
        if (set->uses[i].kind != SR_SEGMENT_BUFFER)
            continue;
        const double momentum = set->model->params[set->uses[i].param].momentum;
        fill_average(1 - momentum, momentum, 1.0 / set->lanes,
                     set->settings + (size_t)row_of_segment(set, i) * HYPER_ROW);
    }
    SR_TRY(
        sr_device_alloc(set->device, words_of_table(set) * sizeof(float), "settings", &set->hyper));
    return sr_device_upload(set->device,
                            sr_param_set_element(set->hyper, (int64_t)words_before_pieces(set)),
                            set->pieces, (size_t)set->piece_count * sizeof *set->pieces);
}
