// SPDX-License-Identifier: Apache-2.0
// Evaluation of a split: every sample exactly once, the same bits on any number of ranks.
//
// The split is divided into blocks, each a lane of a step. A rank computes the blocks of its lanes;
// metrics add the samples of each in order and keep some bytes of it. The bytes of all blocks are
// gathered, and results are computed from them in block order (trainer/tasks/metric.h).
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "trainer/engine/from_recipe.h"
#include "trainer/engine/stop.h"
#include "trainer/run/training_internal.h"

enum { BLOCK_ALIGN = 8 };

// A metric of the evaluation on this rank.
typedef struct measured {
    const sr_metric_desc *desc;
    void *state;
    sr_text bytes;   // of the blocks of this rank in its order: step by step, lane by lane
    uint64_t *sizes; // of each
    size_t capacity;
} measured;

typedef struct evaluation_work {
    sr_engine *engine;
    sr_engine_info info;
    const sr_evaluation *e;
    sr_metric_setting setting;
    measured metrics[SR_TASK_METRICS];
    int metric_count;
    size_t blocks; // of this rank
    bool cut;      // ended early by a stop request
} evaluation_work;

static sr_status begin(evaluation_work *w) {
    const sr_metric_desc *const *all = w->info.task->metrics;
    w->setting = (sr_metric_setting){.options = w->info.task_options,
                                     .classes = w->e->classes,
                                     .class_names = w->e->class_names,
                                     .samples = w->e->samples,
                                     .last = w->e->finish != NULL};
    for (; all && all[w->metric_count] && w->metric_count < SR_TASK_METRICS; w->metric_count++)
        sr_text_init(&w->metrics[w->metric_count].bytes);
    for (int i = 0; i < w->metric_count; i++) {
        measured *m = &w->metrics[i];
        m->desc = all[i];
        m->state = sr_alloc(m->desc->state_size + 1, "metric");
        if (!m->state)
            return SR_E_MEMORY;
        if (m->desc->begin)
            SR_TRY(m->desc->begin(m->state, &w->setting));
    }
    return SR_OK;
}

static void release(evaluation_work *w) {
    for (int i = 0; i < w->metric_count; i++) {
        measured *m = &w->metrics[i];
        if (m->state && m->desc->release)
            m->desc->release(m->state);
        sr_free(m->state);
        sr_free(m->sizes);
        sr_text_release(&m->bytes);
    }
}

// ---- The blocks of this rank ----

static sr_status begin_block(measured *m, size_t block) {
    void *sizes = m->sizes;
    SR_TRY(sr_grow(&sizes, &m->capacity, block + 1, sizeof *m->sizes, "evaluation blocks"));
    m->sizes = sizes;
    m->sizes[block] = 0;
    return SR_OK;
}

static sr_status end_block(measured *m, size_t block) {
    static const unsigned char padding[BLOCK_ALIGN];
    sr_text_add_bytes(&m->bytes, padding, -m->sizes[block] % BLOCK_ALIGN);
    return sr_text_check(&m->bytes);
}

// Infers samples of the block, and has the metrics add them to its bytes.
static sr_status evaluate_samples(evaluation_work *w, const sr_slot *slot) {
    sr_task_outputs outputs;
    const sr_metric_samples samples = {.slot = slot, .outputs = &outputs};
    SR_TRY(sr_engine_infer(w->engine, slot, &outputs));
    for (int i = 0; i < w->metric_count; i++) {
        measured *m = &w->metrics[i];
        const size_t before = m->bytes.length;
        SR_TRY(m->desc->add(m->state, &samples, &m->bytes));
        m->sizes[w->blocks] += m->bytes.length - before;
    }
    return w->e->examples ? w->info.task->examples->offer(&samples, &w->setting, w->e->examples)
                          : SR_OK;
}

// Whole pictures one by one, others together.
static sr_status evaluate_slot(evaluation_work *w, const sr_slot *slot) {
    const bool whole = w->info.task->whole_pictures;
    for (int i = 0; i < w->metric_count; i++)
        SR_TRY(begin_block(&w->metrics[i], w->blocks));
    if (!whole)
        SR_TRY(evaluate_samples(w, slot));
    for (int64_t s = 0; whole && s < slot->valid; s++) {
        sr_slot picture;
        SR_TRY(sr_slot_picture(slot, s, &picture));
        SR_TRY(evaluate_samples(w, &picture));
    }
    for (int i = 0; i < w->metric_count; i++)
        SR_TRY(end_block(&w->metrics[i], w->blocks));
    w->blocks++;
    return SR_OK;
}

static sr_status evaluate_slots(evaluation_work *w, sr_pipeline *pipeline) {
    bool end = false;
    while (!sr_stop_requested()) {
        sr_slot slot;
        SR_TRY(sr_pipeline_next(pipeline, &slot, &end));
        if (end)
            break;
        const sr_status status = evaluate_slot(w, &slot);
        sr_pipeline_release(pipeline, &slot);
        SR_TRY(status);
    }
    w->cut = !end;
    return SR_OK;
}

// ---- The blocks of all ranks ----

// A stop request reaches the ranks at different blocks: if one of them left out a block, the
// evaluation ends for all.
static sr_status agree_on_end(sr_comm *comm, bool cut) {
    int ranks = sr_comm_size(comm);
    int32_t mine = cut;
    int32_t *all = sr_alloc_array((size_t)ranks, sizeof *all, "stop requests");
    if (!all)
        return SR_E_MEMORY;
    sr_status status = sr_comm_all_gather(comm, &mine, sizeof mine, all, "evaluation results");
    for (int r = 0; r < ranks && status == SR_OK; r++)
        if (all[r])
            status = SR_FAIL(SR_E_INTERRUPTED, "stopped during an evaluation");
    sr_free(all);
    return status;
}

// The blocks of all ranks: those of a rank follow each other in its order.
typedef struct gathered {
    int lanes, ranks;
    int64_t steps;
    uint64_t *sizes; // of blocks
    unsigned char *bytes;
    size_t *offsets, *lengths; // of what each rank sends
    const void **data;         // of blocks in block order
    size_t *ordered;           // their sizes
} gathered;

static void release_gathered(gathered *g) {
    sr_free(g->sizes);
    sr_free(g->bytes);
    sr_free(g->offsets);
    sr_free(g->data);
    sr_free(g->ordered);
}

static sr_status allocate_gathered(gathered *g) {
    const size_t blocks = (size_t)(g->steps * g->lanes);
    g->sizes = sr_alloc_array(blocks + 1, sizeof *g->sizes, "evaluation blocks");
    g->offsets = sr_alloc_array(2 * (size_t)g->ranks, sizeof *g->offsets, "evaluation blocks");
    g->data = sr_alloc_array(blocks + 1, sizeof *g->data, "evaluation blocks");
    g->ordered = sr_alloc_array(blocks + 1, sizeof *g->ordered, "evaluation blocks");
    if (!g->sizes || !g->offsets || !g->data || !g->ordered)
        return SR_E_MEMORY;
    g->lengths = g->offsets + g->ranks;
    return SR_OK;
}

static sr_status gather_sizes(gathered *g, sr_comm *comm, const measured *m) {
    for (int r = 0; r < g->ranks; r++) {
        const int64_t first = sr_lanes_first(g->lanes, g->ranks, r),
                      next = sr_lanes_first(g->lanes, g->ranks, r + 1);
        g->offsets[r] = (size_t)(first * g->steps) * sizeof *g->sizes;
        g->lengths[r] = (size_t)((next - first) * g->steps) * sizeof *g->sizes;
    }
    const int rank = sr_comm_rank(comm);
    if (m->sizes)
        memcpy((unsigned char *)g->sizes + g->offsets[rank], m->sizes, g->lengths[rank]);
    return sr_comm_all_gather_v(comm, g->sizes, g->offsets, g->lengths, "evaluation results");
}

static size_t padded(uint64_t bytes) {
    return (size_t)((bytes + BLOCK_ALIGN - 1) / BLOCK_ALIGN * BLOCK_ALIGN);
}

static sr_status gather_bytes(gathered *g, sr_comm *comm, const measured *m) {
    const uint64_t *size = g->sizes;
    size_t total = 0;
    for (int r = 0; r < g->ranks; r++) {
        const int64_t lanes =
            sr_lanes_first(g->lanes, g->ranks, r + 1) - sr_lanes_first(g->lanes, g->ranks, r);
        g->offsets[r] = total;
        for (int64_t i = 0; i < lanes * g->steps; i++)
            total += padded(*size++);
        g->lengths[r] = total - g->offsets[r];
    }
    g->bytes = sr_alloc(total + 1, "evaluation blocks");
    if (!g->bytes)
        return SR_E_MEMORY;
    if (m->bytes.length > 0)
        memcpy(g->bytes + g->offsets[sr_comm_rank(comm)], m->bytes.data, m->bytes.length);
    return sr_comm_all_gather_v(comm, g->bytes, g->offsets, g->lengths, "evaluation results");
}

// Block = step * lanes + lane.
static void order_blocks(gathered *g) {
    const uint64_t *size = g->sizes;
    const unsigned char *at = g->bytes;
    for (int r = 0; r < g->ranks; r++) {
        const int first = sr_lanes_first(g->lanes, g->ranks, r),
                  next = sr_lanes_first(g->lanes, g->ranks, r + 1);
        for (int64_t s = 0; s < g->steps; s++) {
            for (int lane = first; lane < next; lane++, size++) {
                g->data[s * g->lanes + lane] = at;
                g->ordered[s * g->lanes + lane] = (size_t)*size;
                at += padded(*size);
            }
        }
    }
}

// Counts of all ranks, added on every rank: exact in any order.
static sr_status add_counts(sr_comm *comm, int64_t *counts, size_t count) {
    const int ranks = sr_comm_size(comm);
    int64_t *all = sr_alloc_array((size_t)ranks * count, sizeof *all, "counts of all ranks");
    if (!all)
        return SR_E_MEMORY;
    const sr_status status =
        sr_comm_all_gather(comm, counts, count * sizeof *all, all, "evaluation counts");
    for (int r = 0; r < ranks && status == SR_OK; r++)
        for (size_t i = 0; r != sr_comm_rank(comm) && i < count; i++)
            counts[i] += all[(size_t)r * count + i];
    sr_free(all);
    return status;
}

static sr_status measure(const evaluation_work *w, sr_comm *comm, const measured *m,
                         sr_metric_result *out) {
    gathered g = {.lanes = w->info.lanes, .ranks = sr_comm_size(comm)};
    size_t count = 0;
    g.steps = (int64_t)w->blocks / (w->info.lane_end - w->info.lane_begin);
    sr_status status = allocate_gathered(&g);
    if (status == SR_OK)
        status = gather_sizes(&g, comm, m);
    if (status == SR_OK)
        status = gather_bytes(&g, comm, m);
    int64_t *counts = m->desc->counts ? m->desc->counts(m->state, &count) : NULL;
    if (status == SR_OK && counts && g.ranks > 1)
        status = add_counts(comm, counts, count);
    if (status == SR_OK) {
        order_blocks(&g);
        const sr_metric_blocks blocks = {
            .count = g.steps * g.lanes, .data = g.data, .bytes = g.ordered};
        status = m->desc->result(m->state, &blocks, out);
    }
    release_gathered(&g);
    return status;
}

// The options borrow from the view.
static sr_pipeline_options pipeline_options(const sr_engine_info *info, const char *dataset,
                                            const sr_eval_view *view) {
    sr_pipeline_options options = sr_pipeline_options_of(info->recipe, info->task, view);
    options.dataset = dataset;
    options.lane_begin = info->lane_begin;
    options.lane_end = info->lane_end;
    return options;
}

static void view_of(const sr_engine_info *info, const sr_eval_extent *extent, sr_eval_view *out) {
    info->task->view(info->recipe, info->task_options, out);
    out->extent = *extent;
}

sr_status sr_evaluation_measure(const sr_engine *engine, const char *dataset,
                                const sr_eval_extent *extent, uint64_t *bytes) {
    const sr_engine_info info = sr_engine_get_info(engine);
    sr_eval_view view;
    view_of(&info, extent, &view);
    const sr_pipeline_options options = pipeline_options(&info, dataset, &view);
    return sr_pipeline_measure(&options, bytes);
}

// An evaluation cannot use the next picture instead of a damaged one: it would count twice.
static sr_status explain_damage(const sr_pipeline *pipeline, sr_status status) {
    char message[768];
    if ((status != SR_E_DATA && status != SR_E_CHECKSUM) || !sr_pipeline_is_damaged(pipeline))
        return status;
    (void)snprintf(message, sizeof message, "%s", sr_error_message());
    return SR_FAIL(status,
                   "%s; an evaluation counts every picture once, so data.on_corrupt applies to "
                   "training only: pack the val split again without this picture",
                   message);
}

static sr_status run_blocks(evaluation_work *w) {
    sr_eval_view view;
    sr_pipeline *pipeline;
    sr_pinned_slots pinned;
    view_of(&w->info, &w->e->extent, &view);
    sr_pipeline_options options = pipeline_options(&w->info, w->e->dataset, &view);
    options.identity = w->e->identity;
    SR_TRY(sr_pipeline_open(&options, &pipeline));
    sr_slots_pin(&pinned, pipeline, w->info.device);
    const sr_status status = explain_damage(pipeline, evaluate_slots(w, pipeline));
    sr_slots_unpin(&pinned);
    sr_pipeline_close(pipeline);
    return status;
}

// The same on all ranks: weights with a value that is not finite are named, else they overflow.
static sr_status check_result(const evaluation_work *w, const sr_metric_result *result) {
    const sr_param_set *set = sr_engine_get_set(w->engine, w->info.infers);
    const bool average = w->e->average && sr_param_set_has_average(set);
    const sr_param *where;
    if (result->samples == 0)
        return SR_FAIL(SR_E_DATA, "%s: no val sample has a class, so there is nothing to evaluate",
                       w->e->dataset);
    if (result->not_finite == 0)
        return SR_OK;
    SR_TRY(
        sr_param_set_find_not_finite(set, average ? SR_SET_AVERAGE : SR_SET_VALUES, false, &where));
    return SR_FAIL(SR_E_NON_FINITE,
                   "%s: the model's results for %lld of %lld val samples are not finite; the first "
                   "is sample %lld; %s%s",
                   w->e->dataset, (long long)result->not_finite, (long long)result->samples,
                   (long long)result->first_not_finite,
                   where ? "a value is not finite in "
                         : "all weights are finite, but values overflow",
                   where ? where->name : "");
}

static sr_status measure_all(evaluation_work *w, sr_comm *comm, sr_measures *out) {
    *out = (sr_measures){0};
    out->count = sr_task_columns(w->info.task, out->columns);
    double *values = out->values;
    for (int i = 0; i < w->metric_count; i++) {
        const measured *m = &w->metrics[i];
        sr_metric_result result = {.values = values};
        for (int c = 0; c < m->desc->column_count; c++)
            values[c] = (double)NAN;
        SR_TRY(measure(w, comm, m, &result));
        SR_TRY(check_result(w, &result));
        out->samples = i == 0 ? result.samples : out->samples;
        values += m->desc->column_count;
        if (w->e->finish)
            w->e->finish(w->e->user, m->desc, m->state);
    }
    return SR_OK;
}

sr_status sr_evaluate_split(sr_engine *engine, sr_comm *comm, const sr_evaluation *e,
                            sr_measures *out) {
    evaluation_work work = {.engine = engine, .info = sr_engine_get_info(engine), .e = e};
    SR_TRY(sr_engine_use_average(engine, e->average));
    sr_status status = begin(&work);
    if (status == SR_OK)
        status = run_blocks(&work);
    if (status == SR_OK)
        status = agree_on_end(comm, work.cut);
    if (status == SR_OK && e->examples)
        status = sr_examples_gather(e->examples, comm);
    if (status == SR_OK)
        status = measure_all(&work, comm, out);
    release(&work);
    if (status != SR_OK && status != SR_E_INTERRUPTED)
        return status;
    SR_TRY(sr_engine_use_average(engine, false));
    return status;
}
