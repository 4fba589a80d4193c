// SPDX-License-Identifier: Apache-2.0
// HRNet (Wang et al. 2020, "Deep High-Resolution Representation Learning for Visual Recognition")
// with the head for classification, as timm's: its parameter names and initial values. Branches of
// 1/4, 1/8, 1/16 and 1/32 of the size are computed side by side, and each module ends with sums of
// all of them. Sides of pictures are multiples of 32.
//
// upsampling=bilinear is mmseg's network, which has the same names.
#include <stddef.h>

#include "trainer/models/model_family_internal.h"
#include "trainer/models/residual_internal.h"

enum {
    BRANCHES = 4,
    STAGES = 3, // with modules; the one before them has bottlenecks
    MODULES = 4,
    BLOCKS = 4, // of a branch in a module
    STEM_CHANNELS = 64,
    HEAD_WIDTH = 32,
    EXPANSION = 4, // of bottlenecks
    LAST_CHANNELS = 2048,
    SIDE_MULTIPLE = 32
};

// ---- Options ----

typedef struct hrnet_options {
    int upsampling;
} hrnet_options;

enum { NEAREST, BILINEAR };
static const char *const upsamplings[] = {"nearest", "bilinear", NULL};
static const sr_option rows[] = {
    {.name = "upsampling",
     .help = "how maps of smaller branches are enlarged: nearest, as in timm, or bilinear, as in "
             "mmseg",
     .type = SR_OPT_ENUM,
     .offset = offsetof(hrnet_options, upsampling),
     .default_text = "nearest",
     .choices = upsamplings},
};
static const sr_option_table table = {.name = "model.hrnet",
                                      .options = rows,
                                      .count = sizeof rows / sizeof *rows,
                                      .struct_size = sizeof(hrnet_options)};

// ---- Layers ----

// What a branch adds to another one: a 1x1 convolution before it is enlarged, or 3x3 convolutions
// of stride 2.
typedef struct hr_path {
    sr_conv_norm_layer conv[BRANCHES - 1];
} hr_path;

typedef struct hr_module {
    bool bilinear;
    sr_residual_block block[BRANCHES][BLOCKS];
    hr_path path[BRANCHES][BRANCHES]; // [to][from]
} hr_module;

// A stage begins with the branches that the one before it does not have. The first one has the
// bottlenecks' map in the place of a branch.
typedef struct hr_stage {
    int modules, branches;
    sr_conv_norm_layer transition[BRANCHES];
    hr_module module[MODULES];
} hr_stage;

typedef struct hrnet {
    sr_conv_norm_layer stem[2];
    sr_residual_block first[BLOCKS];
    hr_stage stages[STAGES];
    sr_residual_block widen[BRANCHES];
    sr_conv_norm_layer shrink[BRANCHES - 1], last;
    sr_linear_layer classifier;
} hrnet;

// ---- Parameters ----

static void build_conv(sr_builder *b, sr_conv_norm_layer *layer, const char *conv, const char *norm,
                       sr_conv_layer_opts opts, sr_activation activation) {
    sr_build_conv_norm_as(b, layer, conv, norm,
                          (sr_conv_norm_opts){.conv = opts, .activation = activation});
}

static sr_conv_layer_opts halving(int64_t in, int64_t out) {
    return (sr_conv_layer_opts){.in = in, .out = out, .window = 3, .conv = {.stride = 2}};
}

static sr_residual_opts bottleneck(int64_t in, int64_t width) {
    return (sr_residual_opts){.in = in, .width = width, .out = width * EXPANSION, .convs = 3};
}

static void build_path(sr_builder *b, hr_path *path, int64_t channels, int from, int to) {
    const int64_t in = channels << from, out = channels << to;
    if (from > to) {
        const sr_conv_layer_opts conv = {.in = in, .out = out, .window = 1};
        build_conv(b, &path->conv[0], "0", "1", conv, NULL);
        return;
    }
    for (int i = 0; i < to - from; i++) {
        const bool ends = i == to - from - 1;
        sr_build_push(b, "%d", i);
        build_conv(b, &path->conv[i], "0", "1", halving(in, ends ? out : in),
                   ends ? NULL : sr_relu);
        sr_build_pop(b);
    }
}

static void build_module(sr_builder *b, hr_module *m, int64_t channels, int branches) {
    for (int branch = 0; branch < branches; branch++) {
        const int64_t c = channels << branch;
        const sr_residual_opts block = {.in = c, .width = c, .out = c, .convs = 2};
        for (int i = 0; i < BLOCKS; i++) {
            sr_build_push(b, "branches.%d.%d", branch, i);
            sr_build_residual(b, &m->block[branch][i], block);
            sr_build_pop(b);
        }
    }
    for (int to = 0; to < branches; to++) {
        for (int from = 0; from < branches; from++) {
            sr_build_push(b, "fuse_layers.%d.%d", to, from);
            build_path(b, &m->path[to][from], channels, from, to);
            sr_build_pop(b);
        }
    }
}

// 'number' of the stage's names, from 2 on; 'in' are the channels of the map that it begins with.
static void build_stage(sr_builder *b, hr_stage *stage, int number, int64_t in, int64_t channels) {
    const int last = stage->branches - 1;
    sr_build_push(b, "transition%d", number - 1);
    if (number == 2) {
        const sr_conv_layer_opts conv = {.in = in, .out = channels, .window = 3};
        build_conv(b, &stage->transition[0], "0.0", "0.1", conv, sr_relu);
    }
    sr_build_push(b, "%d.0", last);
    build_conv(b, &stage->transition[last], "0", "1", halving(in, channels << last), sr_relu);
    sr_build_pop(b);
    sr_build_pop(b);
    for (int i = 0; i < stage->modules; i++) {
        sr_build_push(b, "stage%d.%d", number, i);
        build_module(b, &stage->module[i], channels, stage->branches);
        sr_build_pop(b);
    }
}

static void build_body(sr_builder *b, hrnet *net, int64_t channels, bool bilinear) {
    static const int modules[STAGES] = {1, 4, 3};
    sr_residual_opts block = bottleneck(STEM_CHANNELS, STEM_CHANNELS);
    build_conv(b, &net->stem[0], "conv1", "bn1", halving(3, STEM_CHANNELS), sr_relu);
    build_conv(b, &net->stem[1], "conv2", "bn2", halving(STEM_CHANNELS, STEM_CHANNELS), sr_relu);
    for (int i = 0; i < BLOCKS; i++) {
        sr_build_push(b, "layer1.%d", i);
        sr_build_residual(b, &net->first[i], block);
        sr_build_pop(b);
        block.in = block.out;
    }
    for (int i = 0; i < STAGES; i++) {
        net->stages[i].modules = modules[i];
        for (int k = 0; k < modules[i]; k++)
            net->stages[i].module[k].bilinear = bilinear;
        net->stages[i].branches = i + 2;
        build_stage(b, &net->stages[i], i + 2, i == 0 ? block.out : channels << i, channels);
    }
}

// Each branch is widened and added to the halved sum of those before it.
static void build_head(sr_builder *b, hrnet *net, int64_t channels) {
    for (int i = 0; i < BRANCHES; i++) {
        sr_build_push(b, "incre_modules.%d.0", i);
        sr_build_residual(b, &net->widen[i], bottleneck(channels << i, (int64_t)HEAD_WIDTH << i));
        sr_build_pop(b);
    }
    int64_t in = HEAD_WIDTH * EXPANSION;
    for (int i = 0; i < BRANCHES - 1; i++) {
        sr_conv_layer_opts conv = halving(in, in * 2);
        conv.has_bias = true;
        sr_build_push(b, "downsamp_modules.%d", i);
        build_conv(b, &net->shrink[i], "0", "1", conv, sr_relu);
        sr_build_pop(b);
        in = conv.out;
    }
    build_conv(b, &net->last, "final_layer.0", "final_layer.1",
               (sr_conv_layer_opts){.in = in, .out = LAST_CHANNELS, .window = 1, .has_bias = true},
               sr_relu);
    sr_build_linear(b, &net->classifier, "classifier", LAST_CHANNELS, sr_build_classes(b), false);
}

static void build(sr_builder *b, const void *options, void *state, int64_t channels) {
    const hrnet_options *o = options;
    hrnet *net = state;
    int64_t height, width;
    sr_build_image_size(b, &height, &width);
    if (height % SIDE_MULTIPLE != 0 || width % SIDE_MULTIPLE != 0)
        sr_build_fail(b, "sides of pictures must be multiples of %d pixels, not %lld x %lld",
                      SIDE_MULTIPLE, (long long)height, (long long)width);
    build_body(b, net, channels, o->upsampling == BILINEAR);
    if (sr_build_classes(b) > 0)
        build_head(b, net, channels);
    for (int i = 0; i < BRANCHES; i++)
        sr_build_stage(b, channels << i, 4 << i);
}

// ---- Forward pass ----

static sr_tensor enlarged(sr_tensor x, int factor, bool bilinear) {
    sr_info info;
    if (!bilinear)
        return sr_upsample2d(x, factor);
    if (!sr_tensor_info(x, &info))
        return SR_NONE;
    return sr_resize2d(x, (sr_resize2d_opts){.height = (int)info.dim[1] * factor,
                                             .width = (int)info.dim[2] * factor,
                                             .mode = SR_RESIZE_BILINEAR});
}

// Where the sides of the picture are not multiples of 32, an enlarged map is larger than 'like'; it
// is then resized, as in mmseg.
static sr_tensor fitted(sr_tensor x, sr_tensor like, bool bilinear) {
    sr_info from, to;
    if (!sr_tensor_info(x, &from) || !sr_tensor_info(like, &to))
        return SR_NONE;
    if (from.dim[1] == to.dim[1] && from.dim[2] == to.dim[2])
        return x;
    return sr_resize2d(
        x, (sr_resize2d_opts){.height = (int)to.dim[1],
                              .width = (int)to.dim[2],
                              .mode = bilinear ? SR_RESIZE_BILINEAR : SR_RESIZE_NEAREST});
}

// What the branch 'to' gets from the branch 'from', by the maps of all.
static sr_tensor path_forward(sr_forward *f, const hr_module *m, const sr_tensor *maps, int from,
                              int to) {
    const hr_path *path = &m->path[to][from];
    sr_tensor x = maps[from];
    if (from > to) {
        x = enlarged(sr_layer_conv_norm(f, &path->conv[0], x), 1 << (from - to), m->bilinear);
        return fitted(x, maps[to], m->bilinear);
    }
    for (int i = 0; i < to - from; i++)
        x = sr_layer_conv_norm(f, &path->conv[i], x);
    return x;
}

// x[branches] are replaced.
static void module_forward(sr_forward *f, const hr_module *m, int branches, sr_tensor *x) {
    sr_tensor y[BRANCHES];
    for (int branch = 0; branch < branches; branch++)
        for (int i = 0; i < BLOCKS; i++)
            x[branch] = sr_layer_residual(f, &m->block[branch][i], x[branch]);
    for (int to = 0; to < branches; to++) {
        y[to] = path_forward(f, m, x, 0, to);
        for (int from = 1; from < branches; from++)
            y[to] = sr_add(y[to], path_forward(f, m, x, from, to));
    }
    for (int to = 0; to < branches; to++)
        x[to] = sr_relu(y[to]);
}

static void features(sr_forward *f, const void *state, sr_tensor x, sr_tensor *stages) {
    const hrnet *net = state;
    x = sr_layer_conv_norm(f, &net->stem[1], sr_layer_conv_norm(f, &net->stem[0], x));
    for (int i = 0; i < BLOCKS; i++)
        x = sr_layer_residual(f, &net->first[i], x);
    for (int i = 0; i < STAGES; i++) {
        const hr_stage *stage = &net->stages[i];
        const int last = stage->branches - 1;
        stages[last] = sr_layer_conv_norm(f, &stage->transition[last], x);
        if (i == 0)
            stages[0] = sr_layer_conv_norm(f, &stage->transition[0], x);
        for (int k = 0; k < stage->modules; k++)
            module_forward(f, &stage->module[k], stage->branches, stages);
        x = stages[last];
    }
}

static void forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const hrnet *net = state;
    sr_tensor stages[BRANCHES] = {SR_NONE, SR_NONE, SR_NONE, SR_NONE};
    features(f, state, inputs[0], stages);
    sr_tensor x = sr_layer_residual(f, &net->widen[0], stages[0]);
    for (int i = 1; i < BRANCHES; i++)
        x = sr_add(sr_layer_residual(f, &net->widen[i], stages[i]),
                   sr_layer_conv_norm(f, &net->shrink[i - 1], x));
    x = sr_layer_conv_norm(f, &net->last, x);
    sr_forward_output(f, "logits", sr_layer_linear(&net->classifier, sr_global_avgpool(x)));
}

// ---- The family ----

// SIZE(name, help, channels of the largest branch)
#define SIZES(SIZE)                                                                                \
    SIZE(hrnet_w18, "HRNet-W18, timm's (Wang et al. 2020)", 18)                                    \
    SIZE(hrnet_w32, "HRNet-W32, timm's (Wang et al. 2020)", 32)                                    \
    SIZE(hrnet_w48, "HRNet-W48, timm's (Wang et al. 2020)", 48)

#define DEFINE(id, text, channels)                                                                 \
    static void build_##id(sr_builder *b, const void *options, void *state) {                      \
        build(b, options, state, channels);                                                        \
    }                                                                                              \
    SR_MODEL_DESC(id, text, hrnet, .options = &table, .features = features)
SIZES(DEFINE)
