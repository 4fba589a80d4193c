// SPDX-License-Identifier: Apache-2.0
// Options of the engine and of data pipelines from a recipe (from_recipe.h).
#include "trainer/engine/from_recipe.h"

sr_engine_options sr_engine_options_of(sr_recipe *recipe, const sr_task_desc *task) {
    return (sr_engine_options){.recipe = recipe,
                               .task = task,
                               .batch = recipe->batch,
                               .lanes = recipe->lanes,
                               .image_height = recipe->image_height,
                               .image_width = recipe->image_width,
                               .seed = (uint64_t)recipe->seed};
}

// What pipelines of training and evaluation have in common.
static sr_pipeline_options common(const sr_recipe *r, const sr_task_desc *task) {
    return (sr_pipeline_options){.transformer = task->transformer,
                                 .lanes = (int)r->lanes,
                                 .workers = (int)r->data.workers,
                                 .threads = r->data.threads,
                                 .boxes_per_sample = r->data.boxes_per_sample,
                                 .report_seconds = r->deadline_report,
                                 .act_seconds = r->deadline_act};
}

static sr_pipeline_options of_evaluation(const sr_recipe *r, const sr_task_desc *task,
                                         const sr_eval_view *view) {
    sr_pipeline_options o = common(r, task);
    o.split = "val";
    o.transforms = view->transforms;
    o.transform_count = view->transform_count;
    o.image_height = view->height;
    o.image_width = view->width;
    if (view->whole) {
        o.image_height = view->extent.height;
        o.image_width = view->extent.width;
        o.whole_pixels = view->extent.pixels;
        o.mask_pixels = view->extent.mask_pixels;
        o.mask_follows = view->mask_follows;
    }
    o.order = SR_ORDER_ONCE;
    o.batch = r->eval.batch;
    return o;
}

sr_pipeline_options sr_pipeline_options_of(const sr_recipe *r, const sr_task_desc *task,
                                           const sr_eval_view *view) {
    if (view)
        return of_evaluation(r, task, view);
    sr_pipeline_options o = common(r, task);
    o.dataset = r->data.train;
    o.split = "train";
    o.transforms = r->augment;
    o.transform_count = r->augment_count;
    o.image_height = r->image_height;
    o.image_width = r->image_width;
    o.order = (sr_data_order)r->data.order;
    o.seed = (uint64_t)r->seed;
    o.repeats = (int)r->data.repeats;
    o.balance = r->data.balance;
    o.batch = r->batch;
    o.memory = r->data.memory;
    o.on_corrupt = (sr_on_corrupt)r->data.on_corrupt;
    o.skip_limit = r->data.skip_limit;
    return o;
}
