// SPDX-License-Identifier: Apache-2.0
// A custom model around another one: the features of a backbone, a convolution of each pixel of its
// last map, and the mean of the results. Used as `model: {name: headed, backbone: resnet18}`, with
// any model that has stages and its options, such as `model.backbone.stem=cifar`. A file of the
// backbone as a classifier is loaded by `weights: {backbone: FILE}`.
//
//   cc -shared -fPIC model_headed.c -o model_headed.so $(pkg-config --cflags --libs serried)
#include <serried.h>

typedef struct options {
    sr_alternative backbone;
} options;

static const sr_option rows[] = {{.name = "backbone",
                                  .help = "the model whose last stage is classified",
                                  .type = SR_OPT_ALTERNATIVE,
                                  .offset = offsetof(options, backbone),
                                  .default_text = "resnet18"}};

static const sr_option_table table = {.name = "model.headed",
                                      .options = rows,
                                      .count = 1,
                                      .struct_size = sizeof(options),
                                      .alternatives = &sr_model_alternatives};

typedef struct headed {
    sr_child backbone;
    sr_conv_layer head;
} headed;

static void build(sr_builder *b, const void *opaque, void *state) {
    const options *o = opaque;
    headed *net = state;
    sr_build_child(b, &net->backbone, "backbone", &o->backbone, 0);
    sr_build_conv(
        b, &net->head, "head",
        (sr_conv_layer_opts){.in = net->backbone.stages[net->backbone.stage_count - 1].channels,
                             .out = sr_build_classes(b),
                             .window = 1,
                             .has_bias = true,
                             .init = {.kind = SR_INIT_TORCH_DEFAULT}});
}

static void forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const headed *net = state;
    sr_tensor stages[SR_STAGES_MAX];
    sr_child_features(f, &net->backbone, inputs[0], stages);
    sr_tensor x = sr_layer_conv(&net->head, stages[net->backbone.stage_count - 1]);
    sr_forward_output(f, "logits", sr_global_avgpool(x));
}

static const sr_model_desc model = {.struct_size = sizeof(sr_model_desc),
                                    .abi = SR_MODEL_ABI,
                                    .name = "headed",
                                    .help = "a backbone and a convolution of its last map",
                                    .options = &table,
                                    .state_size = sizeof(headed),
                                    .build = build,
                                    .forward = forward};

static const sr_model_desc *const models[] = {&model, NULL};
static const sr_plugin plugin = {SR_PLUGIN_HEAD, .name = "headed", .models = models};

const sr_plugin *sr_plugin_entry(void) {
    return &plugin;
}
