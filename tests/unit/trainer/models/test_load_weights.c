// SPDX-License-Identifier: Apache-2.0
// Weights files in several layouts: names of tensors in each, which layout is recognised, position
// embeddings of another grid, and what is refused.
#include <math.h>
#include <unistd.h>

#include "tests/unit/support/test_support.h"
#include "trainer/engine/load_weights.h"

enum { CLASSES = 3, MOST = 16, ELEMENTS = 4096 };

static char folder[256];

static int set_up(void **state) {
    (void)state;
    test_folder_make(folder);
    return chdir(folder);
}

static int tear_down(void **state) {
    (void)state;
    test_folder_remove(folder);
    return 0;
}

// ---- Names of the families ----

static void assert_name(const char *model, int from, int to, const char *name, const char *wanted) {
    char out[SR_WEIGHT_NAME_BYTES];
    const sr_model_desc *desc = sr_model_find(model);
    assert_non_null(desc);
    sr_weight_name(desc->names, from, to, name, out);
    assert_string_equal(out, wanted);
}

static void names_of_vit(void **state) {
    (void)state;
    const char *own = "encoder.layers.encoder_layer_11.mlp.0.weight";
    assert_name("vit_b_16", 0, 0, own, own);
    assert_name("vit_b_16", 0, 1, own, "blocks.11.mlp.fc1.weight");
    assert_name("vit_b_16", 1, 0, "blocks.11.mlp.fc1.weight", own);
    assert_name("vit_b_16", 0, 2, own, "encoder.layers.encoder_layer_11.mlp.linear_1.weight");
    assert_name("vit_b_16", 1, 2, "blocks.7.mlp.fc2.bias",
                "encoder.layers.encoder_layer_7.mlp.linear_2.bias");
    assert_name("vit_b_16", 0, 1, "encoder.layers.encoder_layer_3.self_attention.in_proj_bias",
                "blocks.3.attn.qkv.bias");
    assert_name("vit_b_16", 1, 0, "blocks.3.attn.proj.bias",
                "encoder.layers.encoder_layer_3.self_attention.out_proj.bias");
    assert_name("vit_b_16", 0, 1, "class_token", "cls_token");
    assert_name("vit_b_16", 0, 1, "encoder.pos_embedding", "pos_embed");
    assert_name("vit_b_16", 1, 0, "norm.weight", "encoder.ln.weight");
    assert_name("vit_b_16", 1, 0, "normal.weight", "normal.weight"); // another module
    assert_name("vit_b_16", 1, 0, "head.weight", "heads.head.weight");
}

static void names_of_stages(void **state) {
    (void)state;
    assert_name("convnext_tiny", 0, 1, "features.5.12.block.5.bias",
                "stages.2.blocks.12.mlp.fc2.bias");
    assert_name("convnext_tiny", 0, 2, "features.5.12.block.5.bias", "stages.2.12.pwconv2.bias");
    assert_name("convnext_tiny", 2, 0, "stages.3.0.gamma", "features.7.0.layer_scale");
    assert_name("convnext_tiny", 0, 1, "features.2.1.weight", "stages.1.downsample.1.weight");
    assert_name("convnext_tiny", 2, 1, "downsample_layers.3.0.bias", "stages.3.downsample.0.bias");
    assert_name("convnext_tiny", 1, 0, "stem.1.weight", "features.0.1.weight");
    assert_name("convnext_tiny", 1, 0, "head.fc.weight", "classifier.2.weight");
    assert_name("swin_t", 0, 1, "features.3.1.attn.qkv.weight",
                "layers.1.blocks.1.attn.qkv.weight");
    assert_name("swin_t", 0, 2, "features.3.1.mlp.3.bias", "layers.1.blocks.1.mlp.fc2.bias");
    assert_name("swin_t", 0, 1, "features.4.reduction.weight",
                "layers.2.downsample.reduction.weight");
    assert_name("swin_t", 0, 2, "features.4.reduction.weight",
                "layers.1.downsample.reduction.weight");
    assert_name("swin_t", 2, 0, "layers.0.downsample.norm.bias", "features.2.norm.bias");
    assert_name("swin_t", 1, 0, "head.fc.bias", "head.bias");
}

static void names_of_mobile_networks(void **state) {
    (void)state;
    assert_name("mobilenet_v2", 0, 1, "features.1.conv.0.1.weight", "blocks.0.0.bn1.weight");
    assert_name("mobilenet_v2", 0, 1, "features.1.conv.1.weight", "blocks.0.0.conv_pw.weight");
    assert_name("mobilenet_v2", 1, 0, "blocks.3.2.conv_pwl.weight", "features.9.conv.2.weight");
    assert_name("mobilenet_v2", 0, 1, "features.18.1.bias", "bn2.bias");
    assert_name("mobilenet_v3_large", 0, 1, "features.4.block.2.fc1.bias",
                "blocks.2.0.se.conv_reduce.bias");
    assert_name("mobilenet_v3_large", 1, 0, "blocks.3.0.bn3.running_var",
                "features.7.block.2.1.running_var");
    assert_name("mobilenet_v3_large", 0, 1, "classifier.0.bias", "conv_head.bias");
    assert_name("mobilenet_v3_small", 1, 0, "blocks.0.0.se.conv_expand.weight",
                "features.1.block.1.fc2.weight");
    assert_name("mobilenet_v3_small", 1, 0, "blocks.5.0.conv.weight", "features.12.0.weight");
    assert_name("efficientnet_b7", 0, 1, "features.6.12.block.3.1.bias", "blocks.5.12.bn3.bias");
    assert_name("efficientnet_b1", 1, 0, "blocks.0.1.conv_dw.weight",
                "features.1.1.block.0.0.weight");
    assert_name("mnasnet1_0", 0, 1, "layers.6.weight", "blocks.0.0.conv_pw.weight");
    assert_name("mnasnet1_0", 1, 0, "blocks.5.3.bn2.weight", "layers.12.3.layers.4.weight");
}

static void numbers_from_one(void **state) {
    (void)state;
    assert_name("regnet_y_400mf", 0, 1, "trunk_output.block3.block3-9.f.se.fc1.weight",
                "s3.b10.se.fc1.weight");
    assert_name("regnet_y_400mf", 1, 0, "s3.b10.se.fc1.weight",
                "trunk_output.block3.block3-9.f.se.fc1.weight");
    assert_name("regnet_x_400mf", 1, 0, "s1.b1.downsample.bn.running_mean",
                "trunk_output.block1.block1-0.proj.1.running_mean");
    assert_name("regnet_x_400mf", 1, 0, "s1.b.conv1.conv.weight", "s1.b.conv1.conv.weight");
    assert_name("regnet_x_400mf", 1, 0, "s1.b1x.conv1.conv.weight", "s1.b1x.conv1.conv.weight");
    assert_name("regnet_x_400mf", 1, 0, "head.fc.bias", "fc.bias");
}

static void assert_there_and_back(const sr_model_desc *desc) {
    sr_arena arena;
    sr_arena_init(&arena);
    void *options = NULL;
    if (desc->options) {
        options = sr_arena_alloc(&arena, desc->options->struct_size);
        assert_ok(sr_options_defaults(desc->options, options, &arena));
    }
    const sr_model_build build = {
        .desc = desc, .options = options, .prefix = "", .classes = CLASSES};
    sr_model *model;
    assert_ok(sr_model_create(&build, &model));
    for (int i = 0; i < model->param_count; i++) {
        char there[SR_WEIGHT_NAME_BYTES], back[SR_WEIGHT_NAME_BYTES];
        for (int layout = 0; layout < SR_WEIGHT_LAYOUTS && desc->names->layout[layout]; layout++) {
            sr_weight_name(desc->names, desc->layout, layout, model->params[i].name, there);
            sr_weight_name(desc->names, layout, desc->layout, there, back);
            assert_string_equal(back, model->params[i].name);
        }
    }
    sr_model_free(model);
    sr_arena_release(&arena);
}

// Of every tensor, so that no two of a layout have one name.
static void names_go_there_and_back(void **state) {
    size_t count;
    int tables = 0;
    (void)state;
    const sr_model_desc *const *models = sr_models(&count);
    for (size_t k = 0; k < count; k++) {
        if (models[k]->names) {
            assert_there_and_back(models[k]);
            tables++;
        }
    }
    assert_true(tables > 50);
}

// ---- A small model with everything that loading distinguishes ----

typedef struct small {
    sr_tensor tokens, scale, weight, bias;
} small;

static const int64_t stored_table[2] = {4, 5};

static void build_small(sr_builder *b, const void *options, void *state) {
    small *net = state;
    int64_t height, width;
    const sr_info table = {.dtype = SR_I64, .rank = 1, .dim = {2}};
    const int64_t scale[3] = {4, 1, 1}, weight[2] = {sr_build_classes(b), 4};
    (void)options;
    sr_build_image_size(b, &height, &width);
    const int64_t tokens[3] = {1, 1 + height * width, 4};
    sr_build_param(b, &net->tokens, "positions", SR_PARAM_WEIGHT, 3, tokens, (sr_init){0});
    sr_build_grid(b, &net->tokens,
                  (sr_grid){.before = 1, .height = (int)height, .width = (int)width});
    sr_build_push(b, "features.0");
    sr_build_param(b, &net->scale, "scale", SR_PARAM_WEIGHT, 3, scale,
                   (sr_init){.kind = SR_INIT_CONSTANT, .scale = 0.5});
    sr_build_table(b, "index", &table, stored_table);
    sr_build_pop(b);
    sr_build_push(b, "head");
    sr_build_param(b, &net->weight, "weight", SR_PARAM_WEIGHT, 2, weight, (sr_init){0});
    sr_build_param(b, &net->bias, "bias", SR_PARAM_BIAS, 1, weight, (sr_init){0});
    sr_build_pop(b);
}

static void no_forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    (void)state;
    sr_forward_output(f, "logits", inputs[0]);
}

static const sr_weight_name_row rows[] = {
    {{"positions", "pos"}},
    {{"features.*.scale", "blocks.*.gamma"}},
    {{"features.*", "blocks.*"}},
    {{"head", "fc"}},
};
static const sr_weight_names names = {
    .layout = {"first", "second"}, .antialias = {false, true}, .rows = rows, .count = 4};
static const sr_model_desc first = {.name = "small",
                                    .state_size = sizeof(small),
                                    .build = build_small,
                                    .forward = no_forward,
                                    .names = &names};
static const sr_model_desc second = {.name = "small-2",
                                     .state_size = sizeof(small),
                                     .build = build_small,
                                     .forward = no_forward,
                                     .names = &names,
                                     .layout = 1};

typedef struct file_tensor {
    const char *name;
    sr_dtype dtype;
    int rank;
    int64_t shape[3];
} file_tensor;

static float stored[ELEMENTS], flat[ELEMENTS];

// Writes w.safetensors with values 1, 2, 3, ... over all f32 tensors.
static void write_file(const file_tensor *tensors, int count) {
    sr_stored_tensor out[MOST];
    int64_t used = 0;
    for (int64_t i = 0; i < ELEMENTS; i++)
        stored[i] = (float)(i + 1);
    for (int i = 0; i < count; i++) {
        const file_tensor *t = &tensors[i];
        out[i] = (sr_stored_tensor){.name = t->name,
                                    .dtype = t->dtype,
                                    .rank = t->rank,
                                    .shape = {t->shape[0], t->shape[1], t->shape[2]},
                                    .data = t->dtype == SR_I64 ? (const void *)stored_table
                                                               : &stored[used]};
        if (t->dtype == SR_F32)
            used += sr_stored_elements(&out[i]);
    }
    assert_ok(sr_safetensors_write("w.safetensors", out, count, NULL, 0, NULL));
}

// Loads w.safetensors into a model for pictures of side x side pixels; the report into 'report'.
static sr_status load(const sr_model_desc *desc, int64_t side, const char *reset, char *report) {
    const sr_model_build build = {.desc = desc,
                                  .prefix = "G.",
                                  .classes = CLASSES,
                                  .image_height = side,
                                  .image_width = side};
    const char *items[1] = {reset};
    const sr_string_list list = {.items = items, .count = reset ? 1 : 0};
    sr_model *model;
    sr_safetensors *file;
    sr_text text;
    assert_ok(sr_model_create(&build, &model));
    assert_true(model->elements <= ELEMENTS);
    memset(flat, 0, sizeof flat);
    assert_ok(sr_safetensors_open("w.safetensors", &file));
    sr_text_init(&text);
    const sr_model_values values = {.model = model, .flat = flat};
    sr_status status = sr_weights_load(&values, 1, NULL, file, &list, &text);
    (void)snprintf(report, 512, "%s", text.data);
    // Parameters one after the other, without the space between them.
    float *to = flat;
    for (int i = 0; i < model->param_count; i++) {
        const int64_t count = sr_info_count(&model->params[i].info);
        memmove(to, flat + model->params[i].offset, (size_t)count * sizeof *to);
        to += count;
    }
    sr_text_release(&text);
    sr_safetensors_free(file);
    sr_model_free(model);
    return status;
}

static void assert_report(const char *report, const char *part) {
    if (strstr(report, part) == NULL)
        fail_msg("report '%s' lacks '%s'", report, part);
}

static const file_tensor own_layout[] = {{"G.positions", SR_F32, 3, {1, 5, 4}},
                                         {"G.features.0.scale", SR_F32, 3, {4, 1, 1}},
                                         {"G.head.weight", SR_F32, 2, {3, 4, 0}},
                                         {"G.head.bias", SR_F32, 1, {3, 0, 0}},
                                         {"G.features.0.index", SR_I64, 1, {2, 0, 0}}};
static const file_tensor other_layout[] = {{"G.pos", SR_F32, 3, {1, 5, 4}},
                                           {"G.blocks.0.gamma", SR_F32, 1, {4, 0, 0}},
                                           {"G.fc.weight", SR_F32, 2, {3, 4, 0}},
                                           {"G.fc.bias", SR_F32, 1, {3, 0, 0}},
                                           {"G.blocks.0.index", SR_I64, 2, {1, 2, 0}}};
enum { TENSORS = 5, VALUES = 20 + 4 + 12 + 3 };

static void both_layouts_load_into_both_models(void **state) {
    (void)state;
    for (int k = 0; k < 4; k++) {
        char report[512];
        write_file(k / 2 ? other_layout : own_layout, TENSORS);
        assert_ok(load(k % 2 ? &second : &first, 2, NULL, report));
        assert_report(report, "4 tensors loaded, 0 missing, 0 unexpected, 0 of another shape");
        assert_report(report, k / 2 ? "names of second" : "names of first");
        assert_memory_equal(flat, stored, VALUES * sizeof *flat);
    }
}

static void grids_are_resized(void **state) {
    (void)state;
    file_tensor tensors[TENSORS];
    char report[512];
    memcpy(tensors, own_layout, sizeof tensors);
    tensors[0].shape[1] = 1 + 4 * 4;
    write_file(tensors, TENSORS);
    assert_ok(load(&first, 7, NULL, report));
    assert_report(report, "4 tensors loaded, 0 missing, 0 unexpected, 0 of another shape");
    assert_report(report, "G.positions resized from 4 x 4 to 7 x 7");
    // What is before the grid, and the grid's corners, stay; every other row and column is a row
    // and a column of the file; between them are neighbours' values.
    assert_memory_equal(flat, stored, 4 * sizeof *flat);
    for (int row = 0; row < 7; row += 2)
        for (int column = 0; column < 7; column += 2)
            assert_memory_equal(flat + 4 + (row * 7 + column) * 4,
                                stored + 4 + (row / 2 * 4 + column / 2) * 4, 4 * sizeof *flat);
    assert_true(flat[4 + 4] > stored[4] && flat[4 + 4] < stored[8]);
}

// The layout of the file, not of the model, decides how a grid is resized.
static void grids_are_resized_as_their_layout_is(void **state) {
    (void)state;
    // Keys 1981 with a = -1/2: cells of 2 seen from 3, whose centres lie at 1/3, 1 and 5/3 cells.
    // The outer ones are 1/6 and 7/6 from the cells' centres: -5/76 of the far cell, 81/76 of the
    // near one.
    static const double place[3] = {-5.0 / 76, 0.5, 81.0 / 76};
    // Weights, their products and sums are rounded to f32 in each of two directions: less than 6
    // roundings of values below 20, which weights of 86/76 in sum enlarge twice.
    const double limit = 6 * 0x1p-24 * 20 * 1.29;
    char report[512];
    write_file(other_layout, TENSORS);
    for (int k = 0; k < 2; k++) {
        assert_ok(load(k ? &second : &first, 3, NULL, report));
        assert_report(report, "resized from 2 x 2 to 3 x 3");
        assert_memory_equal(flat, stored, 4 * sizeof *flat);
        for (int i = 0; i < 3 * 3 * 4; i++)
            assert_true(fabs((double)flat[4 + i] -
                             (5 + i % 4 + 4 * place[i / 4 % 3] + 8 * place[i / 12])) <= limit);
    }
}

static void what_does_not_fit_is_refused(void **state) {
    (void)state;
    file_tensor tensors[TENSORS];
    char report[512];
    memcpy(tensors, other_layout, sizeof tensors);
    tensors[0].shape[1] = 1 + 5; // no square
    tensors[2].shape[0] = 2;
    tensors[3].shape[0] = 2;
    write_file(tensors, TENSORS);
    assert_status(SR_E_USAGE, load(&first, 2, "G.head", report));
    assert_message("of another shape: G.positions;");
    write_file(tensors + 1, TENSORS - 1);
    assert_status(SR_E_USAGE, load(&first, 2, "G.head", report));
    assert_message("missing: G.positions;");
    assert_status(SR_E_USAGE, load(&first, 2, "G.positions", report));
    assert_message("of another shape: G.head.weight G.head.bias;");
    tensors[0].shape[1] = 5;
    tensors[0].name = "G.poses";
    write_file(tensors, TENSORS);
    assert_status(SR_E_USAGE, load(&second, 2, "G.fc", report));
    assert_message("missing: G.pos;");
    assert_report(report, "1 tensor loaded, 1 missing, 1 unexpected G.poses, 0 of another shape");
}

// Of a convolution over a whole map, which is a linear layer of the flattened map, and of a note.
static void build_mapped(sr_builder *b, const void *options, void *state) {
    const int64_t weight[2] = {sr_build_classes(b), 12};
    (void)options;
    sr_build_push(b, "head");
    sr_build_param(b, &((small *)state)->weight, "weight", SR_PARAM_WEIGHT, 2, weight,
                   (sr_init){0});
    sr_build_pop(b);
}

static void maps_become_rows(void **state) {
    static const sr_weight_name_row row = {{"head", "conv"}};
    static const sr_weight_names mapped = {
        .layout = {"first", "second"}, .note = {NULL, "which differs"}, .rows = &row, .count = 1};
    const sr_model_desc desc = {.name = "mapped",
                                .state_size = sizeof(small),
                                .build = build_mapped,
                                .forward = no_forward,
                                .names = &mapped};
    sr_stored_tensor map = {
        .name = "G.conv.weight", .dtype = SR_F32, .rank = 4, .shape = {3, 3, 2, 2}, .data = stored};
    char report[512];
    (void)state;
    for (int i = 0; i < 36; i++)
        stored[i] = (float)i;
    assert_ok(sr_safetensors_write("w.safetensors", &map, 1, NULL, 0, NULL));
    assert_ok(load(&desc, 2, NULL, report));
    assert_report(report, "1 tensor loaded, 0 missing, 0 unexpected, 0 of another shape");
    assert_report(report, "names of second, which differs");
    assert_memory_equal(flat, stored, 36 * sizeof *flat);
    map.name = "G.head.weight"; // the model's own name
    assert_ok(sr_safetensors_write("w.safetensors", &map, 1, NULL, 0, NULL));
    assert_status(SR_E_USAGE, load(&desc, 2, NULL, report));
    assert_message("of another shape: G.head.weight;");
}

static void long_lists_are_cut(void **state) {
    char names_of_file[12][16];
    sr_stored_tensor tensors[12];
    char report[512];
    (void)state;
    for (int i = 0; i < 12; i++) {
        (void)snprintf(names_of_file[i], sizeof names_of_file[i], "t%02d", i);
        tensors[i] = (sr_stored_tensor){
            .name = names_of_file[i], .dtype = SR_F32, .rank = 1, .shape = {1}, .data = stored};
    }
    assert_ok(sr_safetensors_write("w.safetensors", tensors, 12, NULL, 0, NULL));
    assert_status(SR_E_USAGE, load(&first, 2, NULL, report));
    assert_report(report, "12 unexpected t00 t01 t02 t03 t04 t05 t06 t07 and 4 more,");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_vit),
        cmocka_unit_test(names_of_stages),
        cmocka_unit_test(names_of_mobile_networks),
        cmocka_unit_test(numbers_from_one),
        cmocka_unit_test(names_go_there_and_back),
        cmocka_unit_test(both_layouts_load_into_both_models),
        cmocka_unit_test(grids_are_resized),
        cmocka_unit_test(grids_are_resized_as_their_layout_is),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(maps_become_rows),
        cmocka_unit_test(long_lists_are_cut),
    };
    return cmocka_run_group_tests_name("load_weights", tests, set_up, tear_down);
}
