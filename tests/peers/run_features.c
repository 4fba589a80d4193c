// SPDX-License-Identifier: Apache-2.0
// run_features MODEL WEIGHTS INPUTS OUT: the maps of a model's stages as another model sees them
// that has it inside (sr_build_child), in evaluation mode and in fp32, with a classifier's weights
// that are loaded as `weights: {backbone: FILE}` does, for comparison with PyTorch
// (check_models.py). All files are safetensors. INPUTS: images u8 [N,S,S,3]. OUT: stage0, stage1,
// ... f32 [N,H,W,C].
#include <stdio.h>
#include <stdlib.h>

#include "kernels/base/memory.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/engine/choices.h"
#include "trainer/engine/load_weights.h"

static void build(sr_builder *b, const void *options, void *state) {
    sr_build_child(b, state, "backbone", options, 0);
}

static void forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const sr_child *child = state;
    sr_tensor stages[SR_STAGES_MAX];
    static const char *const names[SR_STAGES_MAX] = {"stage0", "stage1", "stage2", "stage3",
                                                     "stage4", "stage5", "stage6", "stage7"};
    sr_child_features(f, child, inputs[0], stages);
    for (int i = 0; i < child->stage_count; i++)
        sr_forward_output(f, names[i], stages[i]);
}

static const sr_model_desc desc = {
    .name = "features", .state_size = sizeof(sr_child), .build = build, .forward = forward};

static sr_status load(const sr_model *model, const char *path, float *flat) {
    const sr_model_values values = {.model = model, .flat = flat};
    const sr_string_list none = {.count = 0};
    sr_safetensors *file;
    sr_text report;
    SR_TRY(sr_checkpoint_open_weights(path, &file));
    sr_text_init(&report);
    const sr_status status = sr_weights_load(&values, 1, "backbone", file, &none, &report);
    sr_text_release(&report);
    sr_safetensors_free(file);
    return status;
}

static sr_status read_images(const char *path, sr_info *info, sr_arena *arena, uint8_t **out) {
    sr_safetensors *file;
    SR_TRY(sr_safetensors_open(path, &file));
    const sr_stored_tensor *images = sr_safetensors_find(file, "images");
    sr_status status = SR_OK;
    if (!images || images->rank != 4 || images->dtype != SR_U8)
        status = SR_FAIL(SR_E_SHAPE, "%s has no images u8 [N,S,S,3]", path);
    *out = images ? sr_arena_alloc(arena, (size_t)sr_stored_elements(images)) : NULL;
    if (status == SR_OK && !*out)
        status = SR_E_MEMORY;
    for (int i = 0; status == SR_OK && i < 4; i++)
        info->dim[i] = images->shape[i];
    if (status == SR_OK)
        status = sr_safetensors_read(file, images, 0, sr_stored_elements(images), *out);
    sr_safetensors_free(file);
    return status;
}

// Reads all maps and writes them.
static sr_status write_maps(const sr_outputs *outputs, const char *path, sr_arena *arena) {
    sr_stored_tensor maps[SR_STAGES_MAX];
    for (int i = 0; i < outputs->count; i++) {
        const sr_output *o = &outputs->item[i];
        sr_info info;
        if (!sr_tensor_info(o->tensor, &info))
            return SR_E_SHAPE;
        const size_t bytes = (size_t)sr_info_count(&info) * sizeof(float);
        void *data = sr_arena_alloc(arena, bytes);
        if (!data)
            return SR_E_MEMORY;
        SR_TRY(sr_read(o->tensor, data, bytes));
        maps[i] = (sr_stored_tensor){.name = o->name, .dtype = SR_F32, .rank = 4, .data = data};
        for (int d = 0; d < 4; d++)
            maps[i].shape[d] = info.dim[d];
    }
    return sr_safetensors_write(path, maps, outputs->count, NULL, 0, NULL);
}

static sr_status compute(sr_model *model, float *flat, char **argv, sr_context *context,
                         sr_arena *arena) {
    static const double mean[3] = {0.485, 0.456, 0.406}, std[3] = {0.229, 0.224, 0.225};
    sr_info info = {.dtype = SR_U8, .rank = 4};
    uint8_t *images;
    sr_outputs outputs = {0};
    SR_TRY(load(model, argv[2], flat));
    SR_TRY(read_images(argv[3], &info, arena, &images));
    sr_context_begin_step(context);
    SR_TRY(sr_model_bind(model, context, (sr_address){(uintptr_t)flat}));
    sr_forward f = {.context = context, .dtype = SR_F32, .outputs = &outputs};
    const sr_tensor x = sr_normalize(sr_constant(context, &info, images), mean, std, SR_F32);
    model->desc->forward(&f, model->state, &x);
    SR_TRY(sr_context_status(context));
    return write_maps(&outputs, argv[4], arena);
}

static sr_status run(char **argv, sr_recipe *recipe, sr_arena *arena) {
    static const sr_context_options options = {.device = "cpu", .threads = 1};
    sr_choice_model choice;
    sr_model *model;
    sr_context *context;
    SR_TRY(sr_choose_model(recipe, 0, arena, &choice));
    const sr_alternative backbone = {.name = choice.desc->name, .options = choice.options};
    const sr_model_build how = {.desc = &desc, .options = &backbone, .prefix = "", .classes = 1};
    SR_TRY(sr_model_create(&how, &model));
    float *flat = sr_alloc_array((size_t)model->elements, sizeof *flat, "values");
    sr_status status = flat ? sr_context_create(&options, &context) : SR_E_MEMORY;
    if (status == SR_OK) {
        status = compute(model, flat, argv, context, arena);
        sr_context_free(context);
    }
    sr_free(flat);
    sr_model_free(model);
    return status;
}

int main(int argc, char **argv) {
    if (argc != 5) {
        (void)fprintf(stderr, "usage: run_features MODEL WEIGHTS INPUTS OUT\n");
        return 2;
    }
    char model[256];
    const char *const overrides[] = {model, "optimizer.lr=1"};
    sr_recipe *recipe = NULL;
    sr_arena arena;
    sr_arena_init(&arena);
    (void)snprintf(model, sizeof model, "model=%s", argv[1]);
    sr_status status = sr_recipe_load("tests/recipes/plain.yaml", overrides, 2, &recipe);
    if (status == SR_OK)
        status = run(argv, recipe, &arena);
    if (status != SR_OK)
        (void)fprintf(stderr, "run_features: %s\n", sr_error_message());
    sr_recipe_free(recipe);
    sr_arena_release(&arena);
    return sr_status_exit_code(status);
}
