// SPDX-License-Identifier: Apache-2.0
// Models inside models: their names, layouts, depths and stages below a prefix; every network with
// stages without the end that classifies; weights of a classifier in its place inside another
// model; and what is refused.
#include <unistd.h>

#include "graph/call_layers.h"
#include "tests/unit/support/test_support.h"
#include "trainer/engine/load_weights.h"
#include "trainer/models/layers.h"
#include "trainer/tasks/task.h"

enum { CLASSES = 3, SIDE = 64 };

// ---- A model around another ----

typedef struct headed_options {
    sr_alternative backbone;
    int64_t classes; // of the backbone
} headed_options;

static const sr_option headed_rows[] = {
    {.name = "backbone",
     .help = "the model inside",
     .type = SR_OPT_ALTERNATIVE,
     .offset = offsetof(headed_options, backbone),
     .default_text = "resnet18"},
    {.name = "classes",
     .help = "its classes",
     .type = SR_OPT_INT,
     .offset = offsetof(headed_options, classes),
     .default_text = "0"},
};
static const sr_option_table headed_table = {.name = "model.headed",
                                             .options = headed_rows,
                                             .count = 2,
                                             .struct_size = sizeof(headed_options),
                                             .alternatives = &sr_model_alternatives};

typedef struct headed {
    sr_child backbone;
    sr_conv_layer head;
} headed;

static void build_headed(sr_builder *b, const void *options, void *state) {
    const headed_options *o = options;
    headed *net = state;
    sr_build_child(b, &net->backbone, "backbone", &o->backbone, o->classes);
    sr_build_conv(
        b, &net->head, "head",
        (sr_conv_layer_opts){.in = net->backbone.stages[net->backbone.stage_count - 1].channels,
                             .out = sr_build_classes(b),
                             .window = 1,
                             .init = {.kind = SR_INIT_TORCH_DEFAULT}});
}

static void forward_headed(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const headed *net = state;
    sr_tensor stages[SR_STAGES_MAX];
    sr_child_features(f, &net->backbone, inputs[0], stages);
    sr_forward_output(f, "out", sr_layer_conv(&net->head, stages[net->backbone.stage_count - 1]));
}

static const sr_model_desc plain = {.struct_size = sizeof(sr_model_desc),
                                    .abi = SR_MODEL_ABI,
                                    .name = "headed",
                                    .options = &headed_table,
                                    .state_size = sizeof(headed),
                                    .build = build_headed,
                                    .forward = forward_headed};

// The same with a table of names: as in torchvision, where a backbone's "features" have no name.
static const sr_weight_name_row renamed_rows[] = {{{"backbone.features", "backbone"}},
                                                  {{"head", "classifier.0"}}};
static const sr_weight_names renamed_names = {
    .layout = {"declared", "torchvision"}, .rows = renamed_rows, .count = 2};
static const sr_model_desc renamed = {.struct_size = sizeof(sr_model_desc),
                                      .abi = SR_MODEL_ABI,
                                      .name = "renamed",
                                      .options = &headed_table,
                                      .state_size = sizeof(headed),
                                      .build = build_headed,
                                      .forward = forward_headed,
                                      .names = &renamed_names,
                                      .layout = 1};

// A model around a model around another, with parameters before, between and after.
typedef struct nested {
    sr_tensor before, after;
    sr_child inner;
} nested;

static void build_nested(sr_builder *b, const void *options, void *state) {
    const int64_t dim[1] = {4};
    nested *net = state;
    (void)options;
    sr_build_depth(b, 0);
    sr_build_param(b, &net->before, "before", SR_PARAM_BIAS, 1, dim, (sr_init){0});
    sr_build_depth(b, 1);
    sr_build_push(b, "deep");
    sr_build_child(b, &net->inner, "inner", &(sr_alternative){.name = "resnet18"}, CLASSES);
    sr_build_pop(b);
    sr_build_param(b, &net->after, "after", SR_PARAM_BIAS, 1, dim, (sr_init){0});
}

static const sr_model_desc outer = {.struct_size = sizeof(sr_model_desc),
                                    .abi = SR_MODEL_ABI,
                                    .name = "outer",
                                    .state_size = sizeof(nested),
                                    .build = build_nested,
                                    .forward = forward_headed};

// A model of which each contains the next.
static void build_endless(sr_builder *b, const void *options, void *state) {
    (void)options;
    sr_build_child(b, state, "in", &(sr_alternative){.name = "endless"}, CLASSES);
}

static const sr_model_desc endless = {.struct_size = sizeof(sr_model_desc),
                                      .abi = SR_MODEL_ABI,
                                      .name = "endless",
                                      .state_size = sizeof(sr_child),
                                      .build = build_endless,
                                      .forward = forward_headed};

// ---- Fixture ----

static char folder[256];
static sr_arena arena;

static int set_up(void **state) {
    static const sr_model_desc *const added[] = {&plain, &renamed, &outer, &endless, NULL};
    (void)state;
    sr_arena_init(&arena);
    test_folder_make(folder);
    return chdir(folder) || sr_models_add(added, "the test") != SR_OK;
}

static int tear_down(void **state) {
    (void)state;
    sr_arena_release(&arena);
    test_folder_remove(folder);
    return 0;
}

// Options of a model with settings NAME, VALUE, ..., NULL.
static void *options_of(const sr_model_desc *desc, const char *const *set) {
    void *options = sr_arena_alloc(&arena, desc->options ? desc->options->struct_size + 1 : 1);
    assert_non_null(options);
    if (desc->options)
        assert_ok(sr_options_defaults(desc->options, options, &arena));
    for (; set && *set; set += 2)
        assert_ok(sr_options_set(desc->options, options, set[0], set[1], &arena));
    return options;
}

static sr_status create(const sr_model_desc *desc, const char *const *set, const char *prefix,
                        int64_t side, sr_model **out) {
    const sr_model_build build = {.desc = desc,
                                  .options = options_of(desc, set),
                                  .prefix = prefix,
                                  .classes = CLASSES,
                                  .image_height = side,
                                  .image_width = side};
    return sr_model_create(&build, out);
}

static sr_model *make(const sr_model_desc *desc, const char *const *set) {
    sr_model *model = NULL;
    assert_ok(create(desc, set, "", 0, &model));
    return model;
}

static const sr_param *find(const sr_model *model, const char *name) {
    for (int i = 0; i < model->param_count; i++)
        if (strcmp(model->params[i].name, name) == 0)
            return &model->params[i];
    fail_msg("model %s has no tensor %s", model->desc->name, name);
    return NULL;
}

static bool begins_with(const char *text, const char *beginning) {
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

// ---- Names ----

static void names_have_the_prefix(void **state) {
    static const char *const set[] = {"backbone", "mobilenet_v3_small", NULL};
    (void)state;
    sr_model *model = make(&plain, set);
    (void)find(model, "backbone.features.1.block.1.fc1.weight");
    (void)find(model, "head.weight");
    assert_int_equal(model->part_count, 2);
    assert_string_equal(model->parts[1].path, "backbone");
    for (int i = 0; i < model->param_count; i++)
        assert_false(begins_with(model->params[i].name, "backbone.classifier"));
    for (int i = 0; i < model->counter_count; i++)
        assert_true(begins_with(model->counters[i].name, "backbone.features."));
    sr_model_free(model);
}

static void the_parents_table_follows_the_childs(void **state) {
    static const char *const set[] = {"backbone", "mobilenet_v3_small", NULL};
    char name[SR_WEIGHT_NAME_BYTES];
    (void)state;
    sr_model *model = make(&renamed, set);
    const sr_param *first = find(model, "backbone.0.0.weight");
    const sr_param *squeeze = find(model, "backbone.1.block.1.fc1.weight");
    (void)find(model, "classifier.0.weight");
    sr_model_name_in(model, &first->origin, (const int[]){0, 1}, -1, name);
    assert_string_equal(name, "backbone.conv_stem.weight");
    sr_model_name_in(model, &squeeze->origin, (const int[]){1, 1}, 1, name);
    assert_string_equal(name, "blocks.0.0.se.conv_reduce.weight");
    sr_model_name_in(model, &squeeze->origin, (const int[]){1, 0}, 1, name);
    assert_string_equal(name, "features.1.block.1.fc1.weight");
    sr_model_name_in(model, &squeeze->origin, (const int[]){0, 0}, 0, name);
    assert_string_equal(name, "backbone.features.1.block.1.fc1.weight");
    sr_model_free(model);
}

static void phases_and_scopes_are_in_front(void **state) {
    (void)state;
    sr_model *model;
    assert_ok(create(&outer, NULL, "G.", 0, &model));
    (void)find(model, "G.before");
    (void)find(model, "G.deep.inner.layer1.0.conv1.weight");
    (void)find(model, "G.deep.inner.fc.weight");
    assert_string_equal(model->parts[0].path, "G");
    assert_string_equal(model->parts[1].path, "G.deep.inner");
    sr_model_free(model);
}

static void depths_go_on(void **state) {
    (void)state;
    sr_model *model = make(&outer, NULL), *alone = make(sr_model_find("resnet18"), NULL);
    const nested *net = model->state;
    assert_int_equal(find(model, "before")->depth, 0);
    for (int i = 0; i < alone->param_count; i++) {
        char name[SR_NAME_BYTES + 16];
        (void)snprintf(name, sizeof name, "deep.inner.%s", alone->params[i].name);
        assert_int_equal(find(model, name)->depth, 1 + alone->params[i].depth);
    }
    const int after = 1 + find(alone, "fc.weight")->depth + 1;
    assert_int_equal(net->inner.depth, after);
    assert_int_equal(find(model, "after")->depth, after);
    sr_model_free(alone);
    sr_model_free(model);
}

// ---- Every network ----

static bool is_read(const sr_context *context, const char *name) {
    for (int i = 0; i < sr_call_count(context); i++) {
        sr_call_view call;
        sr_call_get(context, i, &call);
        for (int k = 0; k < SR_OP_MAX_INPUTS; k++)
            if (call.variable[k] && strcmp(call.variable[k], name) == 0)
                return true;
    }
    return false;
}

// Its features need all of a child's tensors.
static void assert_all_is_used(sr_model *model, int64_t side) {
    static const sr_context_options plain_context = {.device = "cpu", .threads = 1};
    const sr_info info = {.dtype = SR_F32, .rank = 4, .dim = {2, side, side, 3}};
    const sr_info key = {.dtype = SR_I32, .rank = 1, .dim = {4}};
    const headed *net = model->state;
    sr_context *context;
    sr_tensor stages[SR_STAGES_MAX];
    assert_ok(sr_context_create(&plain_context, &context));
    sr_context_begin_step(context);
    assert_ok(sr_model_bind(model, context, sr_address_none()));
    sr_forward forward = {.context = context, .dtype = SR_F32, .key = sr_input(context, 1, &key)};
    sr_child_features(&forward, &net->backbone, sr_input(context, 0, &info), stages);
    assert_ok(sr_context_status(context));
    for (int i = 0; i < model->param_count; i++) {
        const char *name = model->params[i].name;
        if (begins_with(name, "backbone.") && !is_read(context, name))
            fail_msg("%s: nothing is computed with %s", net->backbone.desc->name, name);
    }
    for (int i = 0; i < net->backbone.stage_count; i++) {
        sr_info map;
        assert_true(sr_tensor_info(stages[i], &map));
        const sr_model_stage *stage = &net->backbone.stages[i];
        const int64_t lost = (side + stage->stride - 1) / stage->stride - map.dim[1];
        assert_int_equal(map.dim[3], stage->channels);
        assert_in_range(lost, 0, 4); // without padding
    }
    sr_context_free(context);
}

// The child's tensors are the network's, but for those of its end.
static void assert_begins_alike(const sr_model *model, const sr_model *alone) {
    const headed *net = model->state;
    int k = 0;
    for (int i = 0; i < alone->param_count && k < model->param_count; i++) {
        const sr_param *p = &model->params[k], *q = &alone->params[i];
        if (!begins_with(p->name, "backbone.") || strcmp(p->name + 9, q->name) != 0)
            continue; // of the end
        assert_memory_equal(&p->info, &q->info, sizeof p->info);
        assert_int_equal(p->kind, q->kind);
        assert_int_equal(p->depth, q->depth);
        k++;
    }
    assert_true(k == model->param_count - 1 && k < alone->param_count);
    assert_int_equal(net->backbone.stage_count, alone->stage_count);
    assert_memory_equal(net->backbone.stages, alone->stages,
                        (size_t)alone->stage_count * sizeof *alone->stages);
}

static void every_network_can_be_a_backbone(void **state) {
    const sr_option_table *seen[64];
    const sr_model_desc *const *all;
    size_t count, tables = 0;
    (void)state;
    all = sr_models(&count);
    for (size_t i = 0; i < count; i++) {
        const char *const set[] = {"backbone", all[i]->name, NULL};
        const int64_t side = 224;
        sr_model *model, *alone;
        if (!all[i]->features)
            continue;
        assert_ok(create(&plain, set, "", side, &model));
        assert_ok(create(all[i], NULL, "", side, &alone));
        assert_begins_alike(model, alone);
        sr_model_free(alone);
        size_t k = 0;
        while (k < tables && seen[k] != all[i]->options)
            k++;
        if (k == tables && tables < 64) {
            seen[tables++] = all[i]->options; // one of each family is recorded
            assert_all_is_used(model, side);
        }
        sr_model_free(model);
    }
    assert_true(tables >= 15);
}

// Dilation in the place of strides, as networks for segmentation have it.
static void dilated_stages_keep_their_size(void **state) {
    static const struct {
        const char *model, *option, *value;
        int count, strides[SR_STAGES_MAX];
    } cases[] = {
        {"resnet18", "backbone.stem_stage", "true", 5, {2, 4, 8, 16, 32}},
        {"resnet18", "backbone.output_stride", "16", 4, {4, 8, 16, 16}},
        {"resnet18", "backbone.output_stride", "8", 4, {4, 8, 8, 8}},
        {"resnet50", "backbone.output_stride", "32", 4, {4, 8, 16, 32}},
        {"resnet50", "backbone.output_stride", "16", 4, {4, 8, 16, 16}},
        {"resnet50", "backbone.output_stride", "8", 4, {4, 8, 8, 8}},
        {"mobilenet_v3_large", "backbone.dilated", "true", 5, {2, 4, 8, 16, 16}},
        {"mobilenet_v3_large", "backbone.stage_maps", "first", 6, {2, 4, 8, 16, 32, 32}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const set[] = {"backbone", cases[i].model, cases[i].option, cases[i].value,
                                   NULL};
        sr_model *model;
        assert_ok(create(&plain, set, "", SIDE, &model));
        const headed *net = model->state;
        assert_int_equal(net->backbone.stage_count, cases[i].count);
        for (int k = 0; k < cases[i].count; k++)
            assert_int_equal(net->backbone.stages[k].stride, cases[i].strides[k]);
        assert_all_is_used(model, SIDE);
        sr_model_free(model);
    }
}

// ---- Weights ----

// Writes w.safetensors with the tensors of a classifier, in a layout.
static float *write_classifier(const sr_model *model, int layout) {
    char(*names)[SR_WEIGHT_NAME_BYTES] =
        sr_arena_alloc(&arena, (size_t)model->param_count * sizeof *names);
    sr_stored_tensor *tensors =
        sr_arena_alloc(&arena, (size_t)model->param_count * sizeof *tensors);
    float *flat = sr_arena_alloc(&arena, (size_t)model->elements * sizeof *flat);
    assert_true(names && tensors && flat);
    sr_model_init_values(model, 7, flat);
    for (int i = 0; i < model->param_count; i++) {
        const sr_param *p = &model->params[i];
        sr_model_name_in(model, &p->origin, &layout, -1, names[i]);
        tensors[i] = (sr_stored_tensor){
            .name = names[i], .dtype = SR_F32, .rank = p->info.rank, .data = flat + p->offset};
        for (int d = 0; d < p->info.rank; d++)
            tensors[i].shape[d] = p->info.dim[d];
    }
    assert_ok(sr_safetensors_write("w.safetensors", tensors, model->param_count, NULL, 0, NULL));
    return flat;
}

static sr_status load(const sr_model *model, float *flat, const char *part, const char *reset,
                      char report[1024]) {
    const sr_model_values values = {.model = model, .flat = flat};
    const sr_string_list list = {.items = &reset, .count = reset ? 1 : 0};
    sr_safetensors *file;
    sr_text text;
    sr_text_init(&text);
    assert_ok(sr_safetensors_open("w.safetensors", &file));
    const sr_status status = sr_weights_load(&values, 1, part, file, &list, &text);
    (void)snprintf(report, 1024, "%s", text.data);
    sr_text_release(&text);
    sr_safetensors_free(file);
    return status;
}

static void assert_report(const char *report, const char *part) {
    if (strstr(report, part) == NULL)
        fail_msg("report '%s' lacks '%s'", report, part);
}

// The child has the classifier's bits, and all else its initial ones.
static void assert_loaded(const sr_model *model, const float *flat, const sr_model *classifier,
                          const float *stored) {
    float *initial = sr_arena_alloc(&arena, (size_t)model->elements * sizeof *initial);
    assert_non_null(initial);
    sr_model_init_values(model, 3, initial);
    for (int i = 0; i < model->param_count; i++) {
        const sr_param *p = &model->params[i];
        const size_t bytes = (size_t)sr_info_count(&p->info) * sizeof *flat;
        const float *wanted = initial + p->offset;
        if (p->origin.part == 1)
            wanted = stored + find(classifier, p->origin.declared)->offset;
        assert_memory_equal(flat + p->offset, wanted, bytes);
    }
}

static void classifiers_load_into_the_child(void **state) {
    static const char *const set[] = {"backbone", "mobilenet_v3_small", NULL};
    (void)state;
    sr_model *classifier = make(sr_model_find("mobilenet_v3_small"), NULL);
    for (int k = 0; k < 4; k++) {
        char report[1024];
        sr_model *model = make(k / 2 ? &renamed : &plain, set);
        const float *stored = write_classifier(classifier, k % 2);
        float *flat = sr_arena_alloc(&arena, (size_t)model->elements * sizeof *flat);
        assert_non_null(flat);
        sr_model_init_values(model, 3, flat);
        assert_ok(load(model, flat, "backbone", NULL, report));
        assert_report(report, "206 tensors loaded, 0 missing, 4 unexpected ");
        assert_report(report, k % 2 ? " conv_head.weight" : " classifier.0.weight");
        assert_report(report, k % 2 ? "; names of timm" : "; names of torchvision");
        assert_loaded(model, flat, classifier, stored);
        sr_model_free(model);
    }
    sr_model_free(classifier);
}

// The whole of a model whose child has names of another layout, as of another program.
static void whole_files_may_mix_layouts(void **state) {
    static const char *const set[] = {"backbone", "mobilenet_v3_small", NULL};
    char report[1024];
    (void)state;
    sr_model *model = make(&renamed, set);
    for (int k = 0; k < 4; k++) {
        const int layouts[2] = {k / 2, k % 2};
        const size_t count = (size_t)model->param_count;
        char(*names)[SR_WEIGHT_NAME_BYTES] = sr_arena_alloc(&arena, count * sizeof *names);
        sr_stored_tensor *tensors = sr_arena_alloc(&arena, count * sizeof *tensors);
        float *flat = sr_arena_alloc(&arena, (size_t)model->elements * sizeof *flat);
        float *loaded = sr_arena_alloc(&arena, (size_t)model->elements * sizeof *flat);
        assert_true(names && tensors && flat && loaded);
        sr_model_init_values(model, 9, flat);
        for (size_t i = 0; i < count; i++) {
            const sr_param *p = &model->params[i];
            sr_model_name_in(model, &p->origin, layouts, -1, names[i]);
            tensors[i] = (sr_stored_tensor){
                .name = names[i], .dtype = SR_F32, .rank = p->info.rank, .data = flat + p->offset};
            for (int d = 0; d < p->info.rank; d++)
                tensors[i].shape[d] = p->info.dim[d];
        }
        assert_ok(sr_safetensors_write("w.safetensors", tensors, (int)count, NULL, 0, NULL));
        assert_ok(load(model, loaded, NULL, NULL, report));
        assert_report(report, "207 tensors loaded, 0 missing, 0 unexpected, 0 of another shape");
        assert_report(report, k % 2 ? "names of timm in backbone" : "torchvision in backbone");
        assert_memory_equal(loaded, flat, (size_t)model->elements * sizeof *flat);
    }
    sr_model_free(model);
}

static void files_that_do_not_fit_are_refused(void **state) {
    static const char *const set[] = {"backbone", "mobilenet_v3_small", NULL};
    static const char *const narrow[] = {"backbone", "mobilenet_v3_small", "backbone.width_mult",
                                         "0.5", NULL};
    char report[1024];
    (void)state;
    sr_model *classifier = make(sr_model_find("mobilenet_v3_small"), NULL);
    sr_model *other = make(sr_model_find("resnet18"), NULL);
    sr_model *model = make(&plain, set), *half = make(&plain, narrow);
    float *flat = sr_arena_alloc(&arena, (size_t)model->elements * sizeof *flat);
    assert_non_null(flat);
    (void)write_classifier(classifier, 0);
    assert_status(SR_E_USAGE, load(model, flat, "backbon", NULL, report));
    assert_message("model headed has no part 'backbon'; did you mean 'backbone'?");
    assert_status(SR_E_USAGE, load(model, flat, "head", NULL, report));
    assert_message("model headed has no part 'head'; its parts: backbone");
    assert_status(SR_E_USAGE, load(classifier, flat, "backbone", NULL, report));
    assert_message("no model is inside it; give 'weights: FILE'");
    assert_status(SR_E_USAGE, load(half, flat, "backbone", NULL, report));
    assert_message("does not fit backbone: of another shape: backbone.features.0.0.weight ");
    assert_status(SR_E_USAGE, load(model, flat, NULL, NULL, report));
    assert_message("does not fit the model: missing: backbone.features.0.0.weight ");
    (void)write_classifier(other, 0);
    assert_status(SR_E_USAGE, load(model, flat, "backbone", NULL, report));
    assert_message("does not fit backbone: missing: backbone.features.0.0.weight ");
    assert_ok(load(model, flat, "backbone", "backbone", report));
    assert_report(report, "0 tensors loaded");
    sr_model_free(half);
    sr_model_free(model);
    sr_model_free(other);
    sr_model_free(classifier);
}

// ---- Passes ----

static void read_values(sr_tensor x, float *out, size_t count) {
    sr_info info;
    assert_true(sr_tensor_info(x, &info));
    assert_int_equal(sr_info_count(&info), count);
    assert_ok(sr_read(x, out, count * sizeof *out));
}

// Features of a child and its logits are those of the network alone, with the same values.
static void passes_are_the_networks_own(void **state) {
    enum { MAP = 2 * 2 * 512 };
    static const sr_context_options plain_context = {.device = "cpu", .threads = 1};
    static const char *const set[] = {"classes", "3", NULL};
    static float picture[SIDE * SIDE * 3], maps[2][MAP], logits[2][CLASSES];
    const sr_info info = {.dtype = SR_F32, .rank = 4, .dim = {1, SIDE, SIDE, 3}};
    (void)state;
    sr_model *model = make(&plain, set), *alone = make(sr_model_find("resnet18"), NULL);
    const headed *net = model->state;
    float *stored = write_classifier(alone, 0),
          *flat = sr_arena_alloc(&arena, (size_t)model->elements * sizeof *flat);
    char report[1024];
    sr_context *context;
    sr_tensor stages[SR_STAGES_MAX];
    sr_outputs outputs = {0}, child_outputs = {0};
    assert_non_null(flat);
    for (int i = 0; i < SIDE * SIDE * 3; i++)
        picture[i] = (float)(i * 37 % 101) / 50 - 1;
    assert_ok(load(model, flat, "backbone", NULL, report));
    assert_ok(sr_context_create(&plain_context, &context));
    sr_context_begin_step(context);
    assert_ok(sr_model_bind(model, context, (sr_address){(uintptr_t)flat}));
    assert_ok(sr_model_bind(alone, context, (sr_address){(uintptr_t)stored}));
    sr_forward f = {.context = context, .dtype = SR_F32, .outputs = &outputs};
    const sr_tensor x = sr_constant(context, &info, picture);
    sr_child_features(&f, &net->backbone, x, stages);
    sr_child_forward(&f, &net->backbone, &x, &child_outputs);
    assert_int_equal(outputs.count, 0);
    read_values(stages[3], maps[0], MAP);
    read_values(sr_output_find(&child_outputs, "logits"), logits[0], CLASSES);
    alone->desc->features(&f, alone->state, x, stages);
    alone->desc->forward(&f, alone->state, &x);
    read_values(stages[3], maps[1], MAP);
    read_values(sr_output_find(&outputs, "logits"), logits[1], CLASSES);
    assert_memory_equal(maps[0], maps[1], sizeof maps[0]);
    assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
    assert_true(maps[0][0] >= 0 && logits[0][0] != logits[0][1]);
    sr_context_free(context);
    sr_model_free(alone);
    sr_model_free(model);
}

// A task asks for an output by its name.
static void missing_outputs_are_named(void **state) {
    static const sr_context_options plain_context = {.device = "cpu", .threads = 1};
    const sr_info info = {.dtype = SR_F32, .rank = 4, .dim = {1, SIDE, SIDE, 3}};
    (void)state;
    sr_model *model = make(&plain, NULL);
    sr_context *context;
    assert_ok(sr_context_create(&plain_context, &context));
    sr_context_begin_step(context);
    assert_ok(sr_model_bind(model, context, sr_address_none()));
    sr_lane_recording recording = {.context = context, .dtype = SR_F32, .models = &model};
    const sr_tensor x = sr_input(context, 0, &info);
    assert_false(sr_is_none(sr_task_forward(&recording, 0, &x, "out", false)));
    assert_ok(sr_context_status(context));
    assert_true(sr_is_none(sr_task_forward(&recording, 0, &x, "logits", false)));
    assert_status(SR_E_USAGE, sr_context_status(context));
    assert_message("model headed has no output 'logits', which the task asks for; it has out");
    sr_context_free(context);
    sr_model_free(model);
}

// ---- What is refused ----

static void models_that_cannot_be_inside_are_refused(void **state) {
    static const char *const no_stages[] = {"backbone", "tiny", NULL};
    static const char *const needs_multiples[] = {"backbone", "hrnet_w18", NULL};
    headed_options options = {.backbone = {.name = "resnet5"}};
    sr_model_build build = {.desc = &plain, .options = &options, .prefix = "", .classes = CLASSES};
    sr_model *model;
    (void)state;
    assert_status(SR_E_USAGE, create(&plain, no_stages, "", 0, &model));
    assert_message("model headed: backbone: model tiny has no stages of features");
    assert_status(SR_E_USAGE, create(&plain, needs_multiples, "", 50, &model));
    assert_message("model hrnet_w18: sides of pictures must be multiples of");
    assert_status(SR_E_USAGE, sr_model_create(&build, &model));
    assert_message("backbone: there is no model resnet5; did you mean resnet50");
    options.backbone.name = NULL;
    assert_status(SR_E_USAGE, sr_model_create(&build, &model));
    assert_message("backbone: no model is chosen");
    assert_status(SR_E_USAGE, create(&endless, NULL, "", 0, &model));
    assert_message("more than 8 models inside each other");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_have_the_prefix),
        cmocka_unit_test(the_parents_table_follows_the_childs),
        cmocka_unit_test(phases_and_scopes_are_in_front),
        cmocka_unit_test(depths_go_on),
        cmocka_unit_test(every_network_can_be_a_backbone),
        cmocka_unit_test(dilated_stages_keep_their_size),
        cmocka_unit_test(classifiers_load_into_the_child),
        cmocka_unit_test(whole_files_may_mix_layouts),
        cmocka_unit_test(files_that_do_not_fit_are_refused),
        cmocka_unit_test(passes_are_the_networks_own),
        cmocka_unit_test(missing_outputs_are_named),
        cmocka_unit_test(models_that_cannot_be_inside_are_refused),
    };
    return cmocka_run_group_tests_name("child_model", tests, set_up, tear_down);
}
