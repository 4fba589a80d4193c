// SPDX-License-Identifier: Apache-2.0
// A residual network of a few thousand parameters with every kind of operator that bit equality
// must cover: batch norm, a residual, pooling, dropout. For tests and experiments.
#include <stddef.h>

#include "trainer/models/layers.h"

typedef struct tiny_options {
    int64_t width;
    double dropout;
} tiny_options;

static const sr_option tiny_rows[] = {
    {.name = "width",
     .help = "channels",
     .type = SR_OPT_INT,
     .offset = offsetof(tiny_options, width),
     .default_text = "16",
     .min = 1,
     .max = 4096},
    SR_DROPOUT_OPTION(tiny_options, "0.1"),
};

static const sr_option_table tiny_table = {.name = "model.tiny",
                                           .options = tiny_rows,
                                           .count = sizeof tiny_rows / sizeof tiny_rows[0],
                                           .struct_size = sizeof(tiny_options)};

typedef struct tiny {
    sr_conv_layer conv1, conv2, conv3;
    sr_batchnorm_layer bn1, bn2, bn3;
    sr_linear_layer fc;
    double dropout;
} tiny;

static void build(sr_builder *b, const void *options, void *state) {
    const tiny_options *o = options;
    tiny *net = state;
    sr_conv_layer_opts conv = {.in = 3,
                               .out = o->width,
                               .window = 3,
                               .conv = {.stride = 2, .pad = 1},
                               .init = {.kind = SR_INIT_KAIMING_FAN_OUT}};
    net->dropout = o->dropout;
    sr_build_depth(b, 0);
    sr_build_conv(b, &net->conv1, "conv1", conv);
    sr_build_batchnorm(b, &net->bn1, "bn1", o->width, (sr_batchnorm_layer_opts){0});
    conv.in = o->width;
    conv.conv.stride = 1;
    sr_build_depth(b, 1);
    sr_build_conv(b, &net->conv2, "conv2", conv);
    sr_build_batchnorm(b, &net->bn2, "bn2", o->width, (sr_batchnorm_layer_opts){0});
    conv.out = 2 * o->width;
    conv.conv.stride = 2;
    sr_build_depth(b, 2);
    sr_build_conv(b, &net->conv3, "conv3", conv);
    sr_build_batchnorm(b, &net->bn3, "bn3", 2 * o->width, (sr_batchnorm_layer_opts){0});
    sr_build_depth(b, 3);
    sr_build_linear(b, &net->fc, "fc", 2 * o->width, sr_build_classes(b), false);
}

static void forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const tiny *net = state;
    sr_tensor x = sr_relu(sr_layer_batchnorm(f, &net->bn1, sr_layer_conv(&net->conv1, inputs[0])));
    sr_tensor y = sr_relu(sr_layer_batchnorm(f, &net->bn2, sr_layer_conv(&net->conv2, x)));
    x = sr_maxpool2d(sr_add(x, y), (sr_pool2d_opts){.window = 2});
    x = sr_relu(sr_layer_batchnorm(f, &net->bn3, sr_layer_conv(&net->conv3, x)));
    x = sr_layer_dropout(f, sr_global_avgpool(x), net->dropout);
    sr_forward_output(f, "logits", sr_layer_linear(&net->fc, x));
}

extern const sr_model_desc sr_model_tiny;
const sr_model_desc sr_model_tiny = {.struct_size = sizeof(sr_model_desc),
                                     .abi = SR_MODEL_ABI,
                                     .name = "tiny",
                                     .help = "small residual network with dropout, for tests",
                                     .options = &tiny_table,
                                     .state_size = sizeof(tiny),
                                     .build = build,
                                     .forward = forward};
