// SPDX-License-Identifier: Apache-2.0
// Residual networks (He et al. 2015) as in torchvision ("v1.5": the stride of a bottleneck is in
// its 3x3 convolution), with torchvision's parameter names and initial values.
//
// stem=cifar replaces the 7x7/2 convolution and the pooling by one 3x3 convolution, for 32 px.
#include <stddef.h>

#include "trainer/models/layers.h"

enum { STAGES = 4, MAX_BLOCKS = 40 };

typedef struct resnet_options {
    int stem;
    bool zero_init_residual;
} resnet_options;

static const char *const stems[] = {"imagenet", "cifar", NULL};

static const sr_option resnet_rows[] = {
    {.name = "stem",
     .help = "first layers: imagenet (7x7 with stride 2, pooling) or cifar (3x3)",
     .type = SR_OPT_ENUM,
     .offset = offsetof(resnet_options, stem),
     .default_text = "imagenet",
     .choices = stems},
    {.name = "zero_init_residual",
     .help = "start the last batch norm of every block at scale 0 (Goyal et al. 2017)",
     .type = SR_OPT_BOOL,
     .offset = offsetof(resnet_options, zero_init_residual),
     .default_text = "false"},
};

static const sr_option_table resnet_table = {.name = "model.resnet",
                                             .options = resnet_rows,
                                             .count = sizeof resnet_rows / sizeof resnet_rows[0],
                                             .struct_size = sizeof(resnet_options)};

// A basic block has two convolutions, a bottleneck three.
typedef struct residual_block {
    int convs;
    bool has_downsample;
    sr_conv_layer conv[3], downsample;
    sr_batchnorm_layer bn[3], downsample_bn;
} residual_block;

typedef struct resnet {
    bool pools;
    int block_count;
    sr_conv_layer conv1;
    sr_batchnorm_layer bn1;
    residual_block blocks[MAX_BLOCKS];
    sr_linear_layer fc;
} resnet;

static sr_conv_layer_opts conv_opts(int64_t in, int64_t out, int window, int stride) {
    return (sr_conv_layer_opts){.in = in,
                                .out = out,
                                .window = window,
                                .conv = {.stride = stride, .pad = window / 2},
                                .init = {.kind = SR_INIT_KAIMING_FAN_OUT}};
}

static void build_conv_bn(sr_builder *b, sr_conv_layer *conv, sr_batchnorm_layer *bn, int number,
                          sr_conv_layer_opts opts) {
    static const char *const conv_names[] = {"conv1", "conv2", "conv3"};
    static const char *const bn_names[] = {"bn1", "bn2", "bn3"};
    sr_build_conv(b, conv, conv_names[number], opts);
    sr_build_batchnorm(b, bn, bn_names[number], opts.out, (sr_batchnorm_layer_opts){0});
}

static void build_block(sr_builder *b, residual_block *k, int convs, int64_t in, int64_t width,
                        int stride) {
    int64_t out = convs == 3 ? width * 4 : width;
    k->convs = convs;
    if (convs == 3) {
        build_conv_bn(b, &k->conv[0], &k->bn[0], 0, conv_opts(in, width, 1, 1));
        build_conv_bn(b, &k->conv[1], &k->bn[1], 1, conv_opts(width, width, 3, stride));
        build_conv_bn(b, &k->conv[2], &k->bn[2], 2, conv_opts(width, out, 1, 1));
    } else {
        build_conv_bn(b, &k->conv[0], &k->bn[0], 0, conv_opts(in, width, 3, stride));
        build_conv_bn(b, &k->conv[1], &k->bn[1], 1, conv_opts(width, out, 3, 1));
    }
    k->has_downsample = stride != 1 || in != out;
    if (!k->has_downsample)
        return;
    sr_build_push(b, "downsample");
    sr_build_conv(b, &k->downsample, "0", conv_opts(in, out, 1, stride));
    sr_build_batchnorm(b, &k->downsample_bn, "1", out, (sr_batchnorm_layer_opts){0});
    sr_build_pop(b);
}

static void build(sr_builder *b, const resnet_options *options, resnet *net, int convs,
                  const int depth[STAGES]) {
    bool cifar = options->stem == 1;
    net->pools = !cifar;
    sr_build_depth(b, 0);
    sr_build_conv(b, &net->conv1, "conv1", conv_opts(3, 64, cifar ? 3 : 7, cifar ? 1 : 2));
    sr_build_batchnorm(b, &net->bn1, "bn1", 64, (sr_batchnorm_layer_opts){0});
    int64_t in = 64;
    for (int stage = 0; stage < STAGES; stage++) {
        int64_t width = INT64_C(64) << stage;
        for (int i = 0; i < depth[stage]; i++) {
            sr_build_push(b, "layer%d.%d", stage + 1, i);
            sr_build_depth(b, 1 + net->block_count);
            build_block(b, &net->blocks[net->block_count++], convs, in, width,
                        stage > 0 && i == 0 ? 2 : 1);
            sr_build_pop(b);
            in = convs == 3 ? width * 4 : width;
        }
    }
    sr_build_depth(b, 1 + net->block_count);
    sr_build_linear(b, &net->fc, "fc", in, sr_build_classes(b), false);
    if (options->zero_init_residual)
        for (int i = 0; i < net->block_count; i++)
            sr_build_set_init(b, &net->blocks[i].bn[convs - 1].weight, (sr_init){0});
}

static sr_tensor conv_bn(sr_forward *f, const sr_conv_layer *conv, const sr_batchnorm_layer *bn,
                         sr_tensor x) {
    return sr_layer_batchnorm(f, bn, sr_layer_conv(conv, x));
}

static sr_tensor block_forward(sr_forward *f, const residual_block *k, sr_tensor x) {
    sr_tensor shortcut = x, y = x;
    for (int i = 0; i < k->convs; i++) {
        y = conv_bn(f, &k->conv[i], &k->bn[i], y);
        if (i + 1 < k->convs)
            y = sr_relu(y);
    }
    if (k->has_downsample)
        shortcut = conv_bn(f, &k->downsample, &k->downsample_bn, x);
    return sr_relu(sr_add(y, shortcut));
}

static sr_tensor forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const resnet *net = state;
    sr_tensor x = sr_relu(conv_bn(f, &net->conv1, &net->bn1, inputs[0]));
    if (net->pools)
        x = sr_maxpool2d(x, (sr_pool2d_opts){.window = 3, .stride = 2, .pad = 1});
    for (int i = 0; i < net->block_count; i++)
        x = block_forward(f, &net->blocks[i], x);
    return sr_layer_linear(&net->fc, sr_global_avgpool(x));
}

#define RESNET(number, convs, ...)                                                                 \
    static void build##number(sr_builder *b, const void *options, void *state) {                   \
        static const int depth[STAGES] = {__VA_ARGS__};                                            \
        build(b, options, state, convs, depth);                                                    \
    }                                                                                              \
    const sr_model_desc sr_model_resnet##number = {.struct_size = sizeof(sr_model_desc),           \
                                                   .abi = SR_MODEL_ABI,                            \
                                                   .name = "resnet" #number,                       \
                                                   .help = "ResNet-" #number " (He et al. 2015)",  \
                                                   .options = &resnet_table,                       \
                                                   .state_size = sizeof(resnet),                   \
                                                   .build = build##number,                         \
                                                   .forward = forward};

extern const sr_model_desc sr_model_resnet18, sr_model_resnet34, sr_model_resnet50,
    sr_model_resnet101;
RESNET(18, 2, 2, 2, 2, 2)
RESNET(34, 2, 3, 4, 6, 3)
RESNET(50, 3, 3, 4, 6, 3)
RESNET(101, 3, 3, 4, 23, 3)
