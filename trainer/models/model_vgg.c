// SPDX-License-Identifier: Apache-2.0
// VGG (Simonyan & Zisserman 2014, table 1: A, B, D, E), with and without batch normalisation, as in
// torchvision, with its parameter names and initial values.
#include <stddef.h>
#include <stdio.h>

#include "trainer/models/layers.h"
#include "trainer/models/model_family_internal.h"

enum { STAGES = 5, MAX_CONVS = 16, POOLED = 7, HIDDEN = 4096 };

static const int channels[STAGES] = {64, 128, 256, 512, 512};

typedef struct vgg_options {
    double dropout;
} vgg_options;

static const sr_option vgg_rows[] = {SR_DROPOUT_OPTION(vgg_options, "0.5")};

static const sr_option_table vgg_table = {.name = "model.vgg",
                                          .options = vgg_rows,
                                          .count = sizeof vgg_rows / sizeof vgg_rows[0],
                                          .struct_size = sizeof(vgg_options)};

// timm has convolutions over the whole map instead of the first linear layers.
static const sr_weight_name_row name_rows[] = {
    {{"classifier.0", "pre_logits.fc1"}},
    {{"classifier.3", "pre_logits.fc2"}},
    {{"classifier.6", "head.fc"}},
};
static const sr_weight_names vgg_names = {.layout = {"torchvision", "timm"},
                                          .rows = name_rows,
                                          .count = sizeof name_rows / sizeof name_rows[0]};

typedef struct vgg_size {
    bool normalises;
    int depth[STAGES];
} vgg_size;

typedef struct vgg {
    bool normalises;
    int depth[STAGES];
    sr_conv_norm_layer convs[MAX_CONVS]; // without a normalisation: the convolutions alone
    sr_linear_layer fc[3];
    double dropout;
} vgg;

static void build_conv(sr_builder *b, sr_conv_norm_layer *layer, bool normalises, int *number,
                       int64_t in, int64_t out) {
    const sr_conv_norm_opts opts = {.conv = {.in = in,
                                             .out = out,
                                             .window = 3,
                                             .conv = {.pad = 1},
                                             .has_bias = true,
                                             .zero_bias = true,
                                             .init = {.kind = SR_INIT_KAIMING_FAN_OUT}},
                                    .activation = sr_relu};
    char conv[16], norm[16];
    (void)snprintf(conv, sizeof conv, "%d", (*number)++);
    if (normalises) {
        (void)snprintf(norm, sizeof norm, "%d", (*number)++);
        sr_build_conv_norm_as(b, layer, conv, norm, opts);
    } else {
        sr_build_conv(b, &layer->conv, conv, opts.conv);
    }
    (*number)++; // the activation
}

static void build(sr_builder *b, const void *options, void *state, const vgg_size *size) {
    static const char *const names[] = {"classifier.0", "classifier.3", "classifier.6"};
    const sr_init init = {.kind = SR_INIT_NORMAL, .scale = 0.01};
    vgg *net = state;
    sr_conv_norm_layer *conv = net->convs;
    int64_t in = 3;
    int number = 0;
    net->normalises = size->normalises;
    net->dropout = ((const vgg_options *)options)->dropout;
    sr_build_push(b, "features");
    for (int stage = 0; stage < STAGES; stage++) {
        for (int i = 0; i < size->depth[stage]; i++) {
            build_conv(b, conv++, size->normalises, &number, in, channels[stage]);
            in = channels[stage];
        }
        number++; // the pooling
        net->depth[stage] = size->depth[stage];
        sr_build_stage(b, in, 2 << stage);
    }
    sr_build_pop(b);
    if (sr_build_classes(b) == 0)
        return;
    const int64_t widths[] = {in * POOLED * POOLED, HIDDEN, HIDDEN, sr_build_classes(b)};
    for (int i = 0; i < 3; i++)
        sr_build_linear_from(b, &net->fc[i], names[i], widths[i], widths[i + 1], init);
}

static void features(sr_forward *f, const void *state, sr_tensor x, sr_tensor *stages) {
    const vgg *net = state;
    const sr_conv_norm_layer *conv = net->convs;
    for (int stage = 0; stage < STAGES; stage++) {
        for (int i = 0; i < net->depth[stage]; i++, conv++)
            x = net->normalises ? sr_layer_conv_norm(f, conv, x)
                                : sr_relu(sr_layer_conv(&conv->conv, x));
        x = sr_maxpool2d(x, (sr_pool2d_opts){.window = 2});
        stages[stage] = x;
    }
}

static void forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const vgg *net = state;
    sr_tensor stages[STAGES];
    features(f, state, inputs[0], stages);
    sr_tensor x = sr_adaptive_avgpool2d(stages[STAGES - 1], POOLED, POOLED);
    x = sr_layer_flatten_channels(x);
    for (int i = 0; i < 2; i++)
        x = sr_layer_dropout(f, sr_relu(sr_layer_linear(&net->fc[i], x)), net->dropout);
    sr_forward_output(f, "logits", sr_layer_linear(&net->fc[2], x));
}

// SIZE(name, help, normalises, convolutions of the stages)
#define SIZES(SIZE)                                                                                \
    SIZE(vgg11, "VGG-11 (Simonyan & Zisserman 2014)", false, {1, 1, 2, 2, 2})                      \
    SIZE(vgg13, "VGG-13 (Simonyan & Zisserman 2014)", false, {2, 2, 2, 2, 2})                      \
    SIZE(vgg16, "VGG-16 (Simonyan & Zisserman 2014)", false, {2, 2, 3, 3, 3})                      \
    SIZE(vgg19, "VGG-19 (Simonyan & Zisserman 2014)", false, {2, 2, 4, 4, 4})                      \
    SIZE(vgg11_bn, "VGG-11 with batch normalisation", true, {1, 1, 2, 2, 2})                       \
    SIZE(vgg13_bn, "VGG-13 with batch normalisation", true, {2, 2, 2, 2, 2})                       \
    SIZE(vgg16_bn, "VGG-16 with batch normalisation", true, {2, 2, 3, 3, 3})                       \
    SIZE(vgg19_bn, "VGG-19 with batch normalisation", true, {2, 2, 4, 4, 4})

#define DEFINE(id, text, ...)                                                                      \
    static void build_##id(sr_builder *b, const void *options, void *state) {                      \
        static const vgg_size size = {__VA_ARGS__};                                                \
        build(b, options, state, &size);                                                           \
    }                                                                                              \
    SR_MODEL_DESC(id, text, vgg, .options = &vgg_table, .features = features, .names = &vgg_names)
SIZES(DEFINE)
