// SPDX-License-Identifier: Apache-2.0
// Residual networks as in torchvision, with its parameter names and initial values: ResNet (He et
// al. 2015; "v1.5": the stride of a bottleneck is in its 3x3 convolution), ResNeXt (Xie et al.
// 2017), Wide ResNet (Zagoruyko & Komodakis 2016).
//
// stem=cifar replaces the 7x7/2 convolution and the pooling by one 3x3 convolution, for 32 px.
#include <stddef.h>

#include "trainer/models/layers.h"
#include "trainer/models/model_family_internal.h"

enum { STAGES = 4, MAX_BLOCKS = 50, STEM_CHANNELS = 64 };

typedef struct resnet_options {
    int stem, output_stride;
    bool zero_init_residual;
} resnet_options;

static const char *const stems[] = {"imagenet", "cifar", NULL};
static const char *const output_strides[] = {"32", "16", "8", NULL};

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
    {.name = "output_stride",
     .help = "pixels of a picture for one of the last map: 16 and 8 replace strides by dilation",
     .type = SR_OPT_ENUM,
     .offset = offsetof(resnet_options, output_stride),
     .default_text = "32",
     .choices = output_strides},
};

static const sr_option_table resnet_table = {.name = "model.resnet",
                                             .options = resnet_rows,
                                             .count = sizeof resnet_rows / sizeof resnet_rows[0],
                                             .struct_size = sizeof(resnet_options)};

// A basic block has two convolutions, a bottleneck three.
typedef struct residual_block {
    int convs;
    bool has_downsample;
    sr_conv_norm_layer conv[3], downsample;
} residual_block;

typedef struct resnet {
    bool pools;
    int depth[STAGES];
    sr_conv_norm_layer first;
    residual_block blocks[MAX_BLOCKS];
    sr_linear_layer fc;
} resnet;

typedef struct resnet_size {
    int convs, groups, group_width;
    int depth[STAGES];
} resnet_size;

// The shape of a block: 'width' is that of its 3x3 convolution.
typedef struct block_shape {
    int64_t in, width, out;
    int stride, dilation, groups;
} block_shape;

static sr_conv_norm_opts conv_of(int64_t in, int64_t out, int window, sr_conv2d_opts conv,
                                 sr_activation activation) {
    return (sr_conv_norm_opts){.conv = {.in = in, .out = out, .window = window, .conv = conv},
                               .activation = activation};
}

static void build_conv(sr_builder *b, residual_block *k, int number, sr_conv_norm_opts opts) {
    static const char *const convs[] = {"conv1", "conv2", "conv3"};
    static const char *const norms[] = {"bn1", "bn2", "bn3"};
    opts.activation = number + 1 < k->convs ? sr_relu : NULL;
    sr_build_conv_norm_as(b, &k->conv[number], convs[number], norms[number], opts);
}

static void build_block(sr_builder *b, residual_block *k, block_shape s) {
    const sr_conv2d_opts plain = {0}, strided = {.stride = s.stride},
                         filter = {.stride = s.stride, .dilation = s.dilation, .groups = s.groups};
    if (k->convs == 3) {
        build_conv(b, k, 0, conv_of(s.in, s.width, 1, plain, NULL));
        build_conv(b, k, 1, conv_of(s.width, s.width, 3, filter, NULL));
        build_conv(b, k, 2, conv_of(s.width, s.out, 1, plain, NULL));
    } else {
        build_conv(b, k, 0, conv_of(s.in, s.width, 3, strided, NULL));
        build_conv(b, k, 1, conv_of(s.width, s.out, 3, plain, NULL));
    }
    k->has_downsample = s.stride != 1 || s.in != s.out;
    if (k->has_downsample)
        sr_build_conv_norm(b, &k->downsample, "downsample", conv_of(s.in, s.out, 1, strided, NULL));
}

// The dilation that a stage gets instead of its stride.
static int dilation_of(const resnet_options *o, int stage) {
    const int replaced = stage - (STAGES - 1 - o->output_stride);
    return replaced > 0 ? 1 << replaced : 1;
}

// Returns the channels of the last map. *layer is the depth of the next block.
static int64_t build_stages(sr_builder *b, const resnet_options *o, resnet *net,
                            const resnet_size *size, int *layer) {
    residual_block *k = net->blocks;
    int64_t in = STEM_CHANNELS;
    int stride = net->pools ? 4 : 1;
    for (int stage = 0; stage < STAGES; stage++) {
        const int64_t planes = INT64_C(64) << stage;
        block_shape s = {.in = in,
                         .width = planes * size->group_width / 64 * size->groups,
                         .out = size->convs == 3 ? planes * 4 : planes,
                         .stride = stage > 0 && dilation_of(o, stage) == 1 ? 2 : 1,
                         .dilation = stage > 0 ? dilation_of(o, stage - 1) : 1,
                         .groups = size->groups};
        stride *= s.stride;
        for (int i = 0; i < size->depth[stage]; i++) {
            k->convs = size->convs;
            sr_build_push(b, "layer%d.%d", stage + 1, i);
            sr_build_depth(b, (*layer)++);
            build_block(b, k++, s);
            sr_build_pop(b);
            in = s.in = s.out;
            s.stride = 1;
            s.dilation = dilation_of(o, stage);
        }
        net->depth[stage] = size->depth[stage];
        sr_build_stage(b, in, stride);
    }
    return in;
}

static void build(sr_builder *b, const void *options, void *state, const resnet_size *size) {
    const resnet_options *o = options;
    resnet *net = state;
    if (o->output_stride > 0 && size->convs != 3)
        sr_build_fail(b, "output_stride: its blocks have no dilation");
    net->pools = o->stem == 0;
    int layer = 0;
    sr_build_depth(b, layer++);
    sr_build_conv_norm_as(b, &net->first, "conv1", "bn1",
                          conv_of(3, STEM_CHANNELS, net->pools ? 7 : 3,
                                  (sr_conv2d_opts){.stride = net->pools ? 2 : 1}, sr_relu));
    const int64_t in = build_stages(b, o, net, size, &layer);
    sr_build_depth(b, layer);
    sr_build_linear(b, &net->fc, "fc", in, sr_build_classes(b), false);
    if (o->zero_init_residual)
        for (int i = 0; i < MAX_BLOCKS && net->blocks[i].convs > 0; i++)
            sr_build_set_init(b, &net->blocks[i].conv[size->convs - 1].norm.weight, (sr_init){0});
}

static sr_tensor block_forward(sr_forward *f, const residual_block *k, sr_tensor x) {
    sr_tensor shortcut = x, y = x;
    for (int i = 0; i < k->convs; i++)
        y = sr_layer_conv_norm(f, &k->conv[i], y);
    if (k->has_downsample)
        shortcut = sr_layer_conv_norm(f, &k->downsample, x);
    return sr_relu(sr_add(y, shortcut));
}

static void features(sr_forward *f, const void *state, sr_tensor x, sr_tensor *stages) {
    const resnet *net = state;
    const residual_block *k = net->blocks;
    x = sr_layer_conv_norm(f, &net->first, x);
    if (net->pools)
        x = sr_maxpool2d(x, (sr_pool2d_opts){.window = 3, .stride = 2, .pad = 1});
    for (int stage = 0; stage < STAGES; stage++) {
        for (int i = 0; i < net->depth[stage]; i++)
            x = block_forward(f, k++, x);
        stages[stage] = x;
    }
}

static sr_tensor forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const resnet *net = state;
    sr_tensor stages[STAGES];
    features(f, state, inputs[0], stages);
    return sr_layer_linear(&net->fc, sr_global_avgpool(stages[STAGES - 1]));
}

// SIZE(name, help, convolutions of a block, groups, their width, blocks of the stages)
#define SIZES(SIZE)                                                                                \
    SIZE(resnet18, "ResNet-18 (He et al. 2015)", 2, 1, 64, 2, 2, 2, 2)                             \
    SIZE(resnet34, "ResNet-34 (He et al. 2015)", 2, 1, 64, 3, 4, 6, 3)                             \
    SIZE(resnet50, "ResNet-50 (He et al. 2015)", 3, 1, 64, 3, 4, 6, 3)                             \
    SIZE(resnet101, "ResNet-101 (He et al. 2015)", 3, 1, 64, 3, 4, 23, 3)                          \
    SIZE(resnet152, "ResNet-152 (He et al. 2015)", 3, 1, 64, 3, 8, 36, 3)                          \
    SIZE(resnext50_32x4d, "ResNeXt-50 (Xie et al. 2017)", 3, 32, 4, 3, 4, 6, 3)                    \
    SIZE(resnext101_32x8d, "ResNeXt-101 (Xie et al. 2017)", 3, 32, 8, 3, 4, 23, 3)                 \
    SIZE(resnext101_64x4d, "ResNeXt-101 (Xie et al. 2017)", 3, 64, 4, 3, 4, 23, 3)                 \
    SIZE(wide_resnet50_2, "Wide ResNet-50 (Zagoruyko & Komodakis 2016)", 3, 1, 128, 3, 4, 6, 3)    \
    SIZE(wide_resnet101_2, "Wide ResNet-101 (Zagoruyko & Komodakis 2016)", 3, 1, 128, 3, 4, 23, 3)

#define DEFINE(id, text, convs_, groups_, width_, ...)                                             \
    static void build_##id(sr_builder *b, const void *options, void *state) {                      \
        static const resnet_size size = {convs_, groups_, width_, {__VA_ARGS__}};                  \
        build(b, options, state, &size);                                                           \
    }                                                                                              \
    SR_MODEL_DESC(id, text, resnet, .options = &resnet_table, .features = features)
SIZES(DEFINE)
