// SPDX-License-Identifier: Apache-2.0
// run_batches RECIPE WEIGHTS [key=value...]: what a training run of a recipe would see, for the
// same run in PyTorch (torch_train.py). Writes the initial values of the model to WEIGHTS, a
// safetensors file, and to stdout a line of JSON with the sizes, then for each step the learning
// rate, f64, and of each lane what the task reads: the pictures u8 [N,H,W,3] and the masks u8
// [N,H,W] or the labels i32 [N].
#include <stdio.h>
#include <stdlib.h>

#include "dataio/pipeline/pipeline.h"
#include "kernels/base/memory.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/engine/choices.h"
#include "trainer/engine/from_recipe.h"
#include "trainer/run/inputs.h"

typedef struct batches_job {
    sr_recipe *recipe;
    const sr_task_desc *task;
    sr_inputs inputs;
    sr_model *model;
    sr_schedule schedule;
    int64_t steps;
    sr_arena arena;
} batches_job;

static sr_status begin(batches_job *j, const char *recipe, const char *const *overrides,
                       int count) {
    sr_choice_model choice;
    sr_schedule_lengths lengths;
    SR_TRY(sr_recipe_load(recipe, overrides, count, &j->recipe));
    SR_TRY(sr_recipe_check(j->recipe));
    SR_TRY(sr_choose_task(j->recipe, &j->task));
    SR_TRY(sr_inputs_open(j->recipe, j->task, &j->inputs));
    SR_TRY(sr_inputs_lengths(j->recipe, j->inputs.count, &j->steps, &lengths));
    SR_TRY(sr_choose_schedule(j->recipe, 0, &j->arena, &lengths, &j->schedule));
    SR_TRY(sr_choose_model(j->recipe, 0, &j->arena, &choice));
    const sr_model_build build = {.desc = choice.desc,
                                  .options = choice.options,
                                  .prefix = "",
                                  .classes = j->inputs.class_count,
                                  .image_height = j->recipe->image_height,
                                  .image_width = j->recipe->image_width};
    return sr_model_create(&build, &j->model);
}

static sr_status write_weights(const batches_job *j, const char *path) {
    const sr_model *model = j->model;
    float *flat = sr_alloc_array((size_t)model->elements, sizeof *flat, "initial values");
    sr_stored_tensor *tensors =
        sr_alloc_array((size_t)model->param_count, sizeof *tensors, "initial values");
    sr_status status = flat && tensors ? SR_OK : SR_E_MEMORY;
    if (status == SR_OK) {
        sr_model_init_values(model, (uint64_t)j->recipe->seed, flat);
        for (int i = 0; i < model->param_count; i++) {
            const sr_param *p = &model->params[i];
            tensors[i] = (sr_stored_tensor){
                .name = p->name, .dtype = SR_F32, .rank = p->info.rank, .data = flat + p->offset};
            for (int d = 0; d < p->info.rank; d++)
                tensors[i].shape[d] = p->info.dim[d];
        }
        status = sr_safetensors_write(path, tensors, model->param_count, NULL, 0, NULL);
    }
    sr_free(tensors);
    sr_free(flat);
    return status;
}

static void write_array(const sr_array *array) {
    size_t count = 1;
    for (int d = 0; d < array->rank; d++)
        count *= (size_t)array->shape[d];
    (void)fwrite(array->data, sr_dtype_size(array->dtype), count, stdout);
}

static sr_status write_lane(const sr_task_desc *task, sr_pipeline *pipeline) {
    const sr_array *array;
    sr_slot slot;
    bool end;
    SR_TRY(sr_pipeline_next(pipeline, &slot, &end));
    for (int i = 0; i < SR_TASK_INPUTS && task->inputs[i].name; i++) {
        SR_TRY(sr_slot_get(&slot, task->inputs[i].name, &array));
        write_array(array);
    }
    sr_pipeline_release(pipeline, &slot);
    return ferror(stdout) ? SR_FAIL(SR_E_SYSTEM, "nobody reads the batches") : SR_OK;
}

static sr_status write_batches(const batches_job *j) {
    const sr_recipe *r = j->recipe;
    sr_pipeline_options options = sr_pipeline_options_of(r, j->task, NULL);
    sr_pipeline *pipeline;
    options.lane_end = (int)r->lanes;
    options.steps = j->steps;
    options.threads = true;
    SR_TRY(sr_pipeline_open(&options, &pipeline));
    printf("{\"task\": \"%s\", \"steps\": %lld, \"lanes\": %lld, \"samples\": %lld, \"height\": "
           "%lld, \"width\": %lld, "
           "\"classes\": %d, \"examples\": %lld, \"mean\": [%.17g, %.17g, %.17g], \"std\": [%.17g, "
           "%.17g, %.17g]}\n",
           j->task->name, (long long)j->steps, (long long)r->lanes,
           (long long)(r->batch / r->lanes), (long long)r->image_height, (long long)r->image_width,
           j->inputs.class_count, (long long)j->inputs.count, r->data.mean.items[0],
           r->data.mean.items[1], r->data.mean.items[2], r->data.std.items[0], r->data.std.items[1],
           r->data.std.items[2]);
    sr_status status = SR_OK;
    for (int64_t step = 0; step < j->steps && status == SR_OK; step++) {
        const double rate = sr_schedule_lr(&j->schedule, step * r->batch);
        (void)fwrite(&rate, sizeof rate, 1, stdout);
        for (int64_t lane = 0; lane < r->lanes && status == SR_OK; lane++)
            status = write_lane(j->task, pipeline);
    }
    sr_pipeline_close(pipeline);
    return status;
}

int main(int argc, char **argv) {
    batches_job j = {0};
    sr_arena_init(&j.arena);
    sr_status status = argc < 3 ? SR_FAIL(SR_E_USAGE, "RECIPE and WEIGHTS are needed")
                                : begin(&j, argv[1], (const char *const *)argv + 3, argc - 3);
    if (status == SR_OK)
        status = write_weights(&j, argv[2]);
    if (status == SR_OK)
        status = write_batches(&j);
    if (status != SR_OK)
        (void)fprintf(stderr, "run_batches: %s\n", sr_error_message());
    sr_model_free(j.model);
    sr_inputs_release(&j.inputs);
    sr_recipe_free(j.recipe);
    sr_arena_release(&j.arena);
    return status == SR_OK ? 0 : 1;
}
