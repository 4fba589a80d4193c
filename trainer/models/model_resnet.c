// SPDX-License-Identifier: Apache-2.0
// Residual networks as in torchvision, with its parameter names and initial values: ResNet (He et
// al. 2015; "v1.5": the stride of a bottleneck is in its 3x3 convolution), ResNeXt (Xie et al.
// 2017), Wide ResNet (Zagoruyko & Komodakis 2016). Others are timm's, with its names and initial
// values: SE-ResNet (Hu et al. 2018), SK-ResNet (Li et al. 2019), ResNeSt (Zhang et al. 2020).
//
// stem=cifar replaces the 7x7/2 convolution and the pooling by one 3x3 convolution, for 32 px.
// stem=v1c is mmseg's ResNetV1c, with its names: three 3x3 convolutions (He et al. 2019, ResNet-C).
//
// output_stride=16 and 8 follow torchvision's replace_stride_with_dilation: the first block of a
// stage that loses its stride has the dilation of the stage before it, the others the new one.
// torchvision has this for bottlenecks alone; in basic blocks, both convolutions have the dilation
// of their block (timm gives the new one to the second convolution of the first block, too; mmseg
// dilates the first convolution of a block alone).
#include <stddef.h>

#include "trainer/models/model_family_internal.h"
#include "trainer/models/residual_internal.h"

enum { STAGES = 4, MAX_BLOCKS = 50, STEM_CONVS = 3, STEM_CHANNELS = 64, GROUP_UNIT = 64 };

// ---- Options ----

typedef struct resnet_options {
    int stem, output_stride;
    bool zero_init_residual, blurpool, stem_stage;
    double drop_path, width_mult;
} resnet_options;

enum { STEM_IMAGENET, STEM_CIFAR, STEM_V1C };
static const char *const stems[] = {"imagenet", "cifar", "v1c", NULL};
static const char *const output_strides[] = {"32", "16", "8", NULL};

#define STEM_OPTION                                                                                \
    {                                                                                              \
        .name = "stem",                                                                            \
        .help = "first layers: imagenet (with stride 2, pooling), cifar (3x3) or v1c, imagenet's " \
                "with three 3x3 convolutions in the place of one, as in mmseg",                    \
        .type = SR_OPT_ENUM, .offset = offsetof(resnet_options, stem), .default_text = "imagenet", \
        .choices = stems                                                                           \
    }
#define ZERO_INIT_OPTION(default_)                                                                 \
    {                                                                                              \
        .name = "zero_init_residual",                                                              \
        .help = "start the last batch norm of every block at scale 0 (Goyal et al. 2017)",         \
        .type = SR_OPT_BOOL, .offset = offsetof(resnet_options, zero_init_residual),               \
        .default_text = (default_)                                                                 \
    }
#define STRIDE_OPTION                                                                              \
    {                                                                                              \
        .name = "output_stride",                                                                   \
        .help = "side of a picture divided by that of the last feature map: 16 and 8 replace "     \
                "strides by dilation",                                                             \
        .type = SR_OPT_ENUM, .offset = offsetof(resnet_options, output_stride),                    \
        .default_text = "32", .choices = output_strides                                            \
    }
#define DROP_OPTION                                                                                \
    {                                                                                              \
        .name = "drop_path",                                                                       \
        .help =                                                                                    \
            "stochastic depth: probability of dropping the residual branch of the last block, "    \
            "falling linearly to 0 at the first (Huang et al. 2016)",                              \
        .type = SR_OPT_FLOAT, .offset = offsetof(resnet_options, drop_path), .default_text = "0",  \
        .max = 0.99                                                                                \
    }
#define BLUR_OPTION                                                                                \
    {                                                                                              \
        .name = "blurpool",                                                                        \
        .help = "blur feature maps before convolutions with a stride, as FFCV does (Zhang 2019)",  \
        .type = SR_OPT_BOOL, .offset = offsetof(resnet_options, blurpool), .default_text = "false" \
    }

#define STEM_STAGE_OPTION                                                                          \
    {                                                                                              \
        .name = "stem_stage",                                                                      \
        .help = "the map of the first layers, before pooling, is a stage, too, as networks that "  \
                "go back to the size of the picture need it",                                      \
        .type = SR_OPT_BOOL, .offset = offsetof(resnet_options, stem_stage),                       \
        .default_text = "false"                                                                    \
    }

// Both libraries have the same options. timm's networks start with blocks that add nothing.
static const sr_option resnet_rows[] = {
    STEM_OPTION,       ZERO_INIT_OPTION("false"),      STRIDE_OPTION, DROP_OPTION, BLUR_OPTION,
    STEM_STAGE_OPTION, SR_WIDTH_OPTION(resnet_options)};
static const sr_option timm_rows[] = {
    STEM_OPTION,       ZERO_INIT_OPTION("true"),       STRIDE_OPTION, DROP_OPTION, BLUR_OPTION,
    STEM_STAGE_OPTION, SR_WIDTH_OPTION(resnet_options)};

static const sr_option_table resnet_table = {.name = "model.resnet",
                                             .options = resnet_rows,
                                             .count = sizeof resnet_rows / sizeof resnet_rows[0],
                                             .struct_size = sizeof(resnet_options)};
static const sr_option_table timm_table = {.name = "model.timm_resnet",
                                           .options = timm_rows,
                                           .count = sizeof timm_rows / sizeof timm_rows[0],
                                           .struct_size = sizeof(resnet_options)};

// ---- Layers ----

typedef struct resnet {
    int stem_convs, depth[STAGES];
    int64_t stem_channels;
    bool pools, stem_stage;
    sr_conv_norm_layer stem[STEM_CONVS];
    sr_residual_block blocks[MAX_BLOCKS];
    sr_linear_layer fc;
} resnet;

// What the sizes of the family differ in.
typedef struct resnet_size {
    int convs, groups, group_width;
    int depth[STAGES];
    sr_residual_middle middle;
    int squeeze_share;
    bool deep; // ResNet-D (He et al. 2019): three 3x3 convolutions in the stem, shortcuts average
} resnet_size;

// ---- Parameters ----

// The dilation that a stage gets instead of its stride.
static int dilation_of(const resnet_options *o, int stage) {
    const int replaced = stage - (STAGES - 1 - o->output_stride);
    return replaced > 0 ? 1 << replaced : 1;
}

// Channels of a group, of which there is one at least.
static int64_t group_width(const resnet_size *size, int64_t planes) {
    return (planes * size->group_width + GROUP_UNIT - 1) / GROUP_UNIT;
}

// Returns the channels of the last map. *layer is the depth of the next block.
static int64_t build_stages(sr_builder *b, const resnet_options *o, resnet *net,
                            const resnet_size *size, int *layer) {
    sr_residual_block *k = net->blocks;
    int64_t in = net->stem_channels;
    int stride = net->pools ? 4 : 1, total = 0;
    for (int stage = 0; stage < STAGES; stage++)
        total += size->depth[stage];
    for (int stage = 0; stage < STAGES; stage++) {
        const int64_t planes = net->stem_channels << stage;
        sr_residual_opts block = {
            .in = in,
            .width = group_width(size, planes) * size->groups,
            .out = size->convs == 3 ? planes * 4 : planes,
            .convs = size->convs,
            .stride = stage > 0 && dilation_of(o, stage) == 1 ? 2 : 1,
            .dilation = stage > 0 ? dilation_of(o, stage - 1) : 1,
            .stage_dilation = dilation_of(o, stage),
            .groups = size->groups,
            .middle = size->middle,
            .squeeze_share = size->squeeze_share,
            .averages = size->deep,
            .blurs = o->blurpool,
            .zero_init = o->zero_init_residual,
        };
        stride *= block.stride;
        for (int i = 0; i < size->depth[stage]; i++) {
            sr_build_push(b, "layer%d.%d", stage + 1, i);
            block.drop = o->drop_path * (double)(k - net->blocks) / (total - 1);
            sr_build_depth(b, (*layer)++);
            sr_build_residual(b, k++, block);
            sr_build_pop(b);
            in = block.in = block.out;
            block.stride = 1;
            block.dilation = dilation_of(o, stage);
        }
        net->depth[stage] = size->depth[stage];
        sr_build_stage(b, in, stride);
    }
    return in;
}

static void build_stem_conv(sr_builder *b, resnet *net, const char *conv, const char *norm,
                            sr_conv_layer_opts opts) {
    sr_build_conv_norm_as(b, &net->stem[net->stem_convs++], conv, norm,
                          (sr_conv_norm_opts){.conv = opts, .activation = sr_relu});
}

// Three 3x3 convolutions. timm gives the last normalisation the name that it has with one.
static void build_deep_stem(sr_builder *b, resnet *net, bool v1c) {
    static const char *const names[2][STEM_CONVS][2] = {
        {{"conv1.0", "conv1.1"}, {"conv1.3", "conv1.4"}, {"conv1.6", "bn1"}},
        {{"stem.0", "stem.1"}, {"stem.3", "stem.4"}, {"stem.6", "stem.7"}}};
    sr_conv_layer_opts opts = {
        .in = 3, .out = net->stem_channels / 2, .window = 3, .conv = {.stride = 2}};
    for (int i = 0; i < STEM_CONVS; i++) {
        if (i == STEM_CONVS - 1)
            opts.out = net->stem_channels;
        build_stem_conv(b, net, names[v1c][i][0], names[v1c][i][1], opts);
        opts.in = opts.out;
        opts.conv.stride = 1;
    }
}

static void build_stem(sr_builder *b, resnet *net, int stem, bool deep) {
    if (stem == STEM_V1C || (deep && net->pools))
        build_deep_stem(b, net, stem == STEM_V1C);
    else {
        build_stem_conv(b, net, "conv1", "bn1",
                        (sr_conv_layer_opts){.in = 3,
                                             .out = net->stem_channels,
                                             .window = net->pools ? 7 : 3,
                                             .conv = {.stride = net->pools ? 2 : 1}});
    }
    if (net->stem_stage)
        sr_build_stage(b, net->stem_channels, net->pools ? 2 : 1);
}

static void build(sr_builder *b, const void *options, void *state, const resnet_size *size) {
    const resnet_options *o = options;
    resnet *net = state;
    net->pools = o->stem != STEM_CIFAR;
    net->stem_stage = o->stem_stage;
    net->stem_channels = sr_round_channels(STEM_CHANNELS * o->width_mult, SR_WIDTH_DIVISOR);
    int layer = 0;
    sr_build_depth(b, layer++);
    build_stem(b, net, o->stem, size->deep);
    const int64_t in = build_stages(b, o, net, size, &layer);
    if (sr_build_classes(b) == 0)
        return;
    sr_build_depth(b, layer);
    sr_build_linear(b, &net->fc, "fc", in, sr_build_classes(b), false);
}

// ---- Forward pass ----

static void features(sr_forward *f, const void *state, sr_tensor x, sr_tensor *stages) {
    const resnet *net = state;
    const sr_residual_block *k = net->blocks;
    for (int i = 0; i < net->stem_convs; i++)
        x = sr_layer_conv_norm(f, &net->stem[i], x);
    if (net->stem_stage)
        *stages++ = x;
    if (net->pools)
        x = sr_maxpool2d(x, (sr_pool2d_opts){.window = 3, .stride = 2, .pad = 1});
    for (int stage = 0; stage < STAGES; stage++) {
        for (int i = 0; i < net->depth[stage]; i++)
            x = sr_layer_residual(f, k++, x);
        stages[stage] = x;
    }
}

static void forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const resnet *net = state;
    sr_tensor stages[STAGES + 1];
    features(f, state, inputs[0], stages);
    const sr_tensor last = stages[STAGES - 1 + (net->stem_stage ? 1 : 0)];
    sr_forward_output(f, "logits", sr_layer_linear(&net->fc, sr_global_avgpool(last)));
}

// ---- The family ----

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

// timm's: SIZE(name, help, option table, what else differs from resnet50)
#define TIMM_SIZES(SIZE)                                                                           \
    SIZE(seresnet50, "SE-ResNet-50, timm's (Hu et al. 2018)", timm_table, .squeeze_share = 16)     \
    SIZE(skresnet50, "SK-ResNet-50, timm's (Li et al. 2019)", resnet_table,                        \
         .middle = SR_MIDDLE_SELECTIVE)                                                            \
    SIZE(resnest50d, "ResNeSt-50-D, timm's (Zhang et al. 2020)", timm_table,                       \
         .middle = SR_MIDDLE_SPLIT, .deep = true)

#define DEFINE_WITH(id, text, table, ...)                                                          \
    static void build_##id(sr_builder *b, const void *options, void *state) {                      \
        static const resnet_size size = {__VA_ARGS__};                                             \
        build(b, options, state, &size);                                                           \
    }                                                                                              \
    SR_MODEL_DESC(id, text, resnet, .options = &(table), .features = features)
#define DEFINE(id, text, convs_, groups_, width_, ...)                                             \
    DEFINE_WITH(id, text, resnet_table, .convs = (convs_), .groups = (groups_),                    \
                .group_width = (width_), .depth = {__VA_ARGS__})
#define DEFINE_TIMM(id, text, table, ...)                                                          \
    DEFINE_WITH(id, text, table, .convs = 3, .groups = 1, .group_width = 64,                       \
                .depth = {3, 4, 6, 3}, __VA_ARGS__)
SIZES(DEFINE)
TIMM_SIZES(DEFINE_TIMM)
