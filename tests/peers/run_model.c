// SPDX-License-Identifier: Apache-2.0
// run_model MODEL CLASSES WEIGHTS INPUTS OUT: logits of a recipe's model in evaluation mode, in
// fp32, with weights that are loaded as `weights:` does, for comparison with PyTorch
// (check_models.py). All files are safetensors. INPUTS: images u8 [N,S,S,3]. OUT: logits f32
// [N,CLASSES] or [N,H,W,CLASSES].
#include <stdio.h>
#include <stdlib.h>

#include "kernels/base/memory.h"
#include "tests/unit/support/picture_slot.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/engine/choices.h"
#include "trainer/engine/engine.h"
#include "trainer/engine/state.h"

typedef struct model_job {
    const char *model, *weights;
    int64_t classes, samples, side;
    sr_recipe *recipe;
    sr_comm *comm;
    sr_engine *engine;
    uint8_t *images;
} model_job;

static sr_status read_images(model_job *j, sr_safetensors *file) {
    const sr_stored_tensor *images = sr_safetensors_find(file, "images");
    if (!images || images->rank != 4 || images->dtype != SR_U8)
        return SR_FAIL(SR_E_SHAPE, "%s has no images u8 [N,S,S,3]", sr_safetensors_path(file));
    j->samples = images->shape[0];
    j->side = images->shape[1];
    j->images = sr_alloc((size_t)sr_stored_elements(images), "pictures");
    if (!j->images)
        return SR_E_MEMORY;
    return sr_safetensors_read(file, images, 0, sr_stored_elements(images), j->images);
}

static sr_status make_engine(model_job *j) {
    char model[256], batch[32];
    const char *const overrides[] = {model, batch, "optimizer.lr=1"};
    const sr_comm_options comm = {.alone = true};
    const sr_task_desc *task;
    (void)snprintf(model, sizeof model, "model=%s", j->model);
    (void)snprintf(batch, sizeof batch, "batch=%lld", (long long)j->samples);
    SR_TRY(sr_recipe_load("tests/recipes/plain.yaml", overrides, 3, &j->recipe));
    SR_TRY(sr_recipe_check(j->recipe));
    SR_TRY(sr_choose_task(j->recipe, &task));
    SR_TRY(sr_comm_create(&comm, &j->comm));
    const sr_engine_options options = {.recipe = j->recipe,
                                       .task = task,
                                       .comm = j->comm,
                                       .one_executor = true,
                                       .classes = j->classes,
                                       .batch = j->samples,
                                       .lanes = 1,
                                       .image_height = j->side,
                                       .image_width = j->side};
    return sr_engine_create(&options, &j->engine);
}

static sr_status run(model_job *j, char **argv) {
    static const sr_string_list none;
    sr_safetensors *file;
    SR_TRY(sr_safetensors_open(argv[4], &file));
    sr_status status = read_images(j, file);
    sr_safetensors_free(file);
    SR_TRY(status);
    SR_TRY(make_engine(j));
    SR_TRY(sr_checkpoint_open_weights(j->weights, &file));
    status = sr_state_load_weights(j->engine, file, NULL, &none);
    sr_safetensors_free(file);
    SR_TRY(status);
    const sr_slot slot = picture_slot(j->samples, j->side, j->images, NULL);
    sr_task_outputs outputs;
    const sr_task_output *logits;
    SR_TRY(sr_engine_infer(j->engine, &slot, &outputs));
    SR_TRY(sr_task_outputs_get(&outputs, "logits", &logits));
    sr_stored_tensor out = {
        .name = "logits", .dtype = SR_F32, .rank = logits->info.rank, .data = logits->data};
    for (int i = 0; i < out.rank; i++)
        out.shape[i] = logits->info.dim[i];
    return sr_safetensors_write(argv[5], &out, 1, NULL, 0, NULL);
}

int main(int argc, char **argv) {
    if (argc != 6) {
        (void)fprintf(stderr, "usage: run_model MODEL CLASSES WEIGHTS INPUTS OUT\n");
        return 2;
    }
    model_job j = {.model = argv[1], .weights = argv[3], .classes = strtoll(argv[2], NULL, 10)};
    sr_status status = run(&j, argv);
    if (status != SR_OK)
        (void)fprintf(stderr, "run_model: %s\n", sr_error_message());
    sr_engine_free(j.engine);
    sr_comm_free(j.comm);
    sr_recipe_free(j.recipe);
    sr_free(j.images);
    return sr_status_exit_code(status);
}
