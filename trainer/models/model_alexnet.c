// SPDX-License-Identifier: Apache-2.0
// AlexNet (Krizhevsky 2014, "One weird trick for parallelizing convolutional neural networks") as
// in torchvision, with its parameter names and initial values.
#include <stddef.h>

#include "trainer/models/layers.h"

enum { CONVS = 5, POOLED = 6, HIDDEN = 4096 };

typedef struct alexnet_options {
    double dropout;
} alexnet_options;

static const sr_option alexnet_rows[] = {SR_DROPOUT_OPTION(alexnet_options, "0.5")};

static const sr_option_table alexnet_table = {.name = "model.alexnet",
                                              .options = alexnet_rows,
                                              .count = sizeof alexnet_rows / sizeof alexnet_rows[0],
                                              .struct_size = sizeof(alexnet_options)};

// A convolution, and whether pooling follows.
typedef struct conv_row {
    const char *name;
    int in, out, window, stride, pad;
    bool pools;
} conv_row;

static const conv_row rows[CONVS] = {{"features.0", 3, 64, 11, 4, 2, true},
                                     {"features.3", 64, 192, 5, 1, 2, true},
                                     {"features.6", 192, 384, 3, 1, 1, false},
                                     {"features.8", 384, 256, 3, 1, 1, false},
                                     {"features.10", 256, 256, 3, 1, 1, true}};

typedef struct alexnet {
    sr_conv_layer convs[CONVS];
    sr_linear_layer fc[3];
    double dropout;
} alexnet;

static void build(sr_builder *b, const void *options, void *state) {
    static const char *const names[] = {"classifier.1", "classifier.4", "classifier.6"};
    alexnet *net = state;
    int stride = 4;
    net->dropout = ((const alexnet_options *)options)->dropout;
    for (int i = 0; i < CONVS; i++) {
        const conv_row *row = &rows[i];
        sr_build_conv(b, &net->convs[i], row->name,
                      (sr_conv_layer_opts){.in = row->in,
                                           .out = row->out,
                                           .window = row->window,
                                           .conv = {.stride = row->stride, .pad = row->pad},
                                           .has_bias = true,
                                           .init = {.kind = SR_INIT_TORCH_DEFAULT}});
        if (row->pools) {
            stride *= 2;
            sr_build_stage(b, row->out, stride);
        }
    }
    if (sr_build_classes(b) == 0)
        return;
    const int64_t widths[] = {(int64_t)rows[CONVS - 1].out * POOLED * POOLED, HIDDEN, HIDDEN,
                              sr_build_classes(b)};
    for (int i = 0; i < 3; i++)
        sr_build_linear(b, &net->fc[i], names[i], widths[i], widths[i + 1], false);
}

// Returns the last stage.
static sr_tensor record_stages(const alexnet *net, sr_tensor x, sr_tensor *stages) {
    for (int i = 0; i < CONVS; i++) {
        x = sr_relu(sr_layer_conv(&net->convs[i], x));
        if (rows[i].pools) {
            x = sr_maxpool2d(x, (sr_pool2d_opts){.window = 3, .stride = 2});
            *stages++ = x;
        }
    }
    return x;
}

static void features(sr_forward *f, const void *state, sr_tensor x, sr_tensor *stages) {
    (void)f;
    (void)record_stages(state, x, stages);
}

static void forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const alexnet *net = state;
    sr_tensor stages[SR_STAGES_MAX];
    sr_tensor x = record_stages(net, inputs[0], stages);
    x = sr_layer_flatten_channels(sr_adaptive_avgpool2d(x, POOLED, POOLED));
    for (int i = 0; i < 2; i++)
        x = sr_relu(sr_layer_linear(&net->fc[i], sr_layer_dropout(f, x, net->dropout)));
    sr_forward_output(f, "logits", sr_layer_linear(&net->fc[2], x));
}

extern const sr_model_desc sr_model_alexnet;
const sr_model_desc sr_model_alexnet = {.struct_size = sizeof(sr_model_desc),
                                        .abi = SR_MODEL_ABI,
                                        .name = "alexnet",
                                        .help = "AlexNet (Krizhevsky 2014)",
                                        .options = &alexnet_table,
                                        .state_size = sizeof(alexnet),
                                        .build = build,
                                        .forward = forward,
                                        .features = features};
