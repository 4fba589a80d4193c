// SPDX-License-Identifier: Apache-2.0
// Evaluation of a split: every sample exactly once, the same bits on any number of ranks.
//
// The split is divided into blocks, each a lane of a step. A rank computes the blocks of its lanes,
// each with exact integer counts and a sum in double in the order of samples. The results of all
// blocks are gathered and added in block order.
#include <stdio.h>
#include <string.h>

#include "dataio/transforms/transform.h"
#include "trainer/engine/stop.h"
#include "trainer/run/eval_view.h"
#include "trainer/run/training_internal.h"

typedef struct block_list {
    sr_metrics_block *blocks; // of this rank, in its order: step by step, lane by lane
    size_t count, capacity;
    bool cut; // ended early by a stop request
} block_list;

// Counts and pictures are those of classification.
static sr_status evaluate_slot(sr_engine *engine, const sr_slot *slot, int classes, float *logits,
                               const sr_evaluation *e, sr_metrics_block *out) {
    const sr_array *image, *label;
    SR_TRY(sr_slot_get(slot, "image", &image));
    SR_TRY(sr_slot_get(slot, "label", &label));
    const int32_t *labels = label->data;
    SR_TRY(sr_engine_infer(engine, slot, logits,
                           (size_t)(label->shape[0] * classes) * sizeof *logits));
    SR_TRY(sr_metrics_block_add(out, logits, classes, labels, slot->valid, e->confusion));
    out->first_not_finite += slot->first_position;
    const int64_t pixels = image->shape[1] * image->shape[2] * 3;
    for (int64_t i = 0; e->examples && i < slot->valid; i++)
        if (labels[i] >= 0)
            sr_examples_add(e->examples, slot->first_position + i,
                            (const uint8_t *)image->data + i * pixels, logits + i * classes,
                            classes, labels[i]);
    return SR_OK;
}

static sr_status evaluate_slots(sr_engine *engine, sr_pipeline *pipeline, int classes,
                                const sr_evaluation *e, block_list *list) {
    const sr_engine_info info = sr_engine_get_info(engine);
    const int64_t lane_samples = info.recipe->eval.batch / info.lanes;
    sr_status status = SR_OK;
    bool end = false;
    float *logits =
        sr_alloc_array((size_t)(lane_samples * classes), sizeof *logits, "evaluation logits");
    if (!logits)
        status = SR_E_MEMORY;
    while (status == SR_OK && !sr_stop_requested()) {
        sr_slot slot;
        void *blocks = list->blocks;
        SR_TRY_GOTO(sr_pipeline_next(pipeline, &slot, &end), out);
        if (end)
            break;
        status = sr_grow(&blocks, &list->capacity, list->count + 1, sizeof *list->blocks,
                         "evaluation blocks");
        if (status == SR_OK) {
            list->blocks = blocks;
            list->blocks[list->count] = (sr_metrics_block){0};
            status = evaluate_slot(engine, &slot, classes, logits, e, &list->blocks[list->count++]);
        }
        sr_pipeline_release(pipeline, &slot);
    }
out:
    sr_free(logits);
    list->cut = status == SR_OK && !end;
    return status;
}

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

// Gathers the ranks' blocks into block order: block = step * lanes + lane.
static sr_status gather_blocks(sr_comm *comm, const block_list *list, int lanes,
                               sr_metrics_block **out, int64_t *count) {
    int ranks = sr_comm_size(comm), rank = sr_comm_rank(comm);
    int local = sr_lanes_first(lanes, ranks, rank + 1) - sr_lanes_first(lanes, ranks, rank);
    int64_t steps = (int64_t)list->count / local;
    sr_metrics_block *rows =
        sr_alloc_array((size_t)(steps * lanes) + 1, sizeof *rows, "evaluation blocks");
    size_t *offsets = sr_alloc_array(2 * (size_t)ranks, sizeof *offsets, "evaluation blocks");
    *out = sr_alloc_array((size_t)(steps * lanes) + 1, sizeof **out, "evaluation blocks");
    if (!rows || !offsets || !*out) {
        sr_free(rows);
        sr_free(offsets);
        return SR_E_MEMORY;
    }
    size_t *sizes = offsets + ranks;
    for (int r = 0; r < ranks; r++) {
        int first = sr_lanes_first(lanes, ranks, r), next = sr_lanes_first(lanes, ranks, r + 1);
        offsets[r] = (size_t)(first * steps) * sizeof *rows;
        sizes[r] = (size_t)((next - first) * steps) * sizeof *rows;
    }
    if (list->blocks)
        memcpy((unsigned char *)rows + offsets[rank], list->blocks, sizes[rank]);
    sr_status status = sr_comm_all_gather_v(comm, rows, offsets, sizes, "evaluation results");
    for (int r = 0; r < ranks; r++) {
        int first = sr_lanes_first(lanes, ranks, r), next = sr_lanes_first(lanes, ranks, r + 1);
        const sr_metrics_block *from = rows + first * steps;
        for (int64_t s = 0; s < steps; s++)
            for (int lane = first; lane < next; lane++)
                (*out)[s * lanes + lane] = *from++;
    }
    sr_free(rows);
    sr_free(offsets);
    *count = steps * lanes;
    return status;
}

// Counts of all ranks, added on every rank: exact in any order.
static sr_status gather_confusion(sr_comm *comm, sr_confusion *confusion) {
    int ranks = sr_comm_size(comm);
    size_t cells = (size_t)confusion->classes * (size_t)confusion->classes;
    if (ranks == 1)
        return SR_OK;
    int64_t *all = sr_alloc_array((size_t)ranks * cells, sizeof *all, "confusion of all ranks");
    if (!all)
        return SR_E_MEMORY;
    sr_status status =
        sr_comm_all_gather(comm, confusion->counts, cells * sizeof *all, all, "confusion matrix");
    for (int r = 0; r < ranks && status == SR_OK; r++)
        if (r != sr_comm_rank(comm))
            sr_confusion_add(confusion, all + (size_t)r * cells);
    sr_free(all);
    return status;
}

// The options borrow from the view.
static sr_pipeline_options pipeline_options(const sr_engine_info *info, const char *dataset,
                                            const sr_eval_view *view) {
    const sr_recipe *r = info->recipe;
    const int ranks = sr_comm_size(info->comm), rank = sr_comm_rank(info->comm);
    return (sr_pipeline_options){.dataset = dataset,
                                 .split = "val",
                                 .transformer = info->task->transformer,
                                 .transforms = view->transforms,
                                 .transform_count = SR_EVAL_TRANSFORMS,
                                 .image_height = view->height,
                                 .image_width = view->width,
                                 .order = SR_ORDER_SEQUENTIAL,
                                 .batch = r->eval.batch,
                                 .lanes = info->lanes,
                                 .lane_begin = sr_lanes_first(info->lanes, ranks, rank),
                                 .lane_end = sr_lanes_first(info->lanes, ranks, rank + 1),
                                 .workers = (int)r->data.workers,
                                 .threads = r->data.threads,
                                 .report_seconds = r->deadline_report,
                                 .act_seconds = r->deadline_act};
}

sr_status sr_evaluation_measure(const sr_engine *engine, const char *dataset, uint64_t *bytes) {
    const sr_engine_info info = sr_engine_get_info(engine);
    sr_eval_view view;
    sr_eval_view_of(info.recipe, &view);
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

static sr_status run_blocks(sr_engine *engine, const sr_evaluation *e, int classes,
                            block_list *list) {
    const sr_engine_info info = sr_engine_get_info(engine);
    sr_eval_view view;
    sr_pipeline *pipeline;
    sr_eval_view_of(info.recipe, &view);
    sr_pipeline_options options = pipeline_options(&info, e->dataset, &view);
    options.identity = e->identity;
    sr_pinned_slots pinned;
    SR_TRY(sr_pipeline_open(&options, &pipeline));
    sr_slots_pin(&pinned, pipeline, info.device);
    sr_status status = explain_damage(pipeline, evaluate_slots(engine, pipeline, classes, e, list));
    sr_slots_unpin(&pinned);
    sr_pipeline_close(pipeline);
    return status;
}

// The same on all ranks: weights with a value that is not finite are named, else they overflow.
static sr_status check_metrics(sr_engine *engine, const sr_evaluation *e, sr_metrics metrics,
                               sr_metrics *out) {
    const sr_param_set *set = sr_engine_get_set(engine, sr_engine_get_info(engine).infers);
    const bool average = e->average && sr_param_set_has_average(set);
    const sr_param *where;
    if (metrics.samples == 0)
        return SR_FAIL(SR_E_DATA, "%s: no val sample has a class, so there is nothing to evaluate",
                       e->dataset);
    if (metrics.not_finite == 0) {
        *out = metrics;
        return SR_OK;
    }
    SR_TRY(
        sr_param_set_find_not_finite(set, average ? SR_SET_AVERAGE : SR_SET_VALUES, false, &where));
    return SR_FAIL(SR_E_NON_FINITE,
                   "%s: the model's results for %lld of %lld val samples are not finite; the first "
                   "is sample %lld; %s%s",
                   e->dataset, (long long)metrics.not_finite, (long long)metrics.samples,
                   (long long)metrics.first_not_finite,
                   where ? "a value is not finite in "
                         : "all weights are finite, but values overflow",
                   where ? where->name : "");
}

sr_status sr_evaluate_split(sr_engine *engine, sr_comm *comm, const sr_evaluation *e, int classes,
                            sr_metrics *out) {
    block_list list = {0};
    sr_metrics_block *blocks = NULL;
    int64_t count = 0;
    SR_TRY(sr_engine_use_average(engine, e->average));
    sr_status status = run_blocks(engine, e, classes, &list);
    if (status == SR_OK)
        status = agree_on_end(comm, list.cut);
    if (status == SR_OK)
        status = gather_blocks(comm, &list, sr_engine_get_info(engine).lanes, &blocks, &count);
    if (status == SR_OK && e->confusion)
        status = gather_confusion(comm, e->confusion);
    if (status == SR_OK && e->examples)
        status = sr_examples_gather(e->examples, comm);
    if (status == SR_OK)
        status = check_metrics(engine, e, sr_metrics_total(blocks, count), out);
    sr_free(list.blocks);
    sr_free(blocks);
    if (status != SR_OK && status != SR_E_INTERRUPTED)
        return status;
    SR_TRY(sr_engine_use_average(engine, false));
    return status;
}
