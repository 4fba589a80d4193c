// SPDX-License-Identifier: Apache-2.0
// RegNetX and RegNetY (Radosavovic et al. 2020, "Designing Network Design Spaces") as in
// torchvision, with its parameter names and initial values. Depths and widths of the stages are
// those that its parameters (w_0, w_a, w_m, depth) give; RegNetY has squeeze and excitation.
#include "trainer/models/layers.h"
#include "trainer/models/model_family_internal.h"

enum { STAGES = 4, MAX_BLOCKS = 27, STEM_CHANNELS = 32, SQUEEZED_SHARE = 4 };

#define PART(stage, here, there)                                                                   \
    {                                                                                              \
        { "trunk_output.block" #stage ".block" #stage "-*." here, "s" #stage ".b^." there }        \
    }
#define STAGE(stage)                                                                               \
    PART(stage, "proj.0", "downsample.conv"), PART(stage, "proj.1", "downsample.bn"),              \
        PART(stage, "f.a.0", "conv1.conv"), PART(stage, "f.a.1", "conv1.bn"),                      \
        PART(stage, "f.b.0", "conv2.conv"), PART(stage, "f.b.1", "conv2.bn"),                      \
        PART(stage, "f.c.0", "conv3.conv"), PART(stage, "f.c.1", "conv3.bn"),                      \
        PART(stage, "f.se", "se")
static const sr_weight_name_row name_rows[] = {
    {{"stem.0", "stem.conv"}}, {{"stem.1", "stem.bn"}}, STAGE(1), STAGE(2), STAGE(3), STAGE(4),
    {{"fc", "head.fc"}},
};
static const sr_weight_names regnet_names = {.layout = {"torchvision", "timm"},
                                             .rows = name_rows,
                                             .count = sizeof name_rows / sizeof name_rows[0]};

typedef struct regnet_size {
    bool squeezes;
    int depth[STAGES], width[STAGES], group_width[STAGES];
} regnet_size;

// 1x1, grouped 3x3, squeeze and excite, 1x1, beside a projection where shapes differ.
typedef struct regnet_block {
    bool projects, squeezes;
    sr_conv_norm_layer project, a, b, c;
    sr_squeeze_layer squeeze;
} regnet_block;

typedef struct regnet {
    int depth[STAGES];
    sr_conv_norm_layer stem;
    regnet_block blocks[MAX_BLOCKS];
    sr_linear_layer fc;
} regnet;

static void build_conv(sr_builder *b, sr_conv_norm_layer *layer, const char *name,
                       sr_conv_layer_opts conv, sr_activation activation) {
    sr_build_conv_norm(b, layer, name, (sr_conv_norm_opts){.conv = conv, .activation = activation});
}

static void build_block(sr_builder *b, regnet_block *k, int64_t in, int64_t out, int stride,
                        int groups) {
    const sr_conv2d_opts strided = {.stride = stride},
                         grouped = {.stride = stride, .groups = groups};
    const sr_conv_layer_opts project = {.in = in, .out = out, .window = 1, .conv = strided};
    k->projects = in != out || stride != 1;
    if (k->projects)
        build_conv(b, &k->project, "proj", project, NULL);
    sr_build_push(b, "f");
    build_conv(b, &k->a, "a", (sr_conv_layer_opts){.in = in, .out = out, .window = 1}, sr_relu);
    build_conv(b, &k->b, "b",
               (sr_conv_layer_opts){.in = out, .out = out, .window = 3, .conv = grouped}, sr_relu);
    if (k->squeezes)
        sr_build_squeeze(b, &k->squeeze, "se",
                         (sr_squeeze_opts){.channels = out,
                                           .squeezed = in / SQUEEZED_SHARE,
                                           .default_bias = true});
    build_conv(b, &k->c, "c", (sr_conv_layer_opts){.in = out, .out = out, .window = 1}, NULL);
    sr_build_pop(b);
}

static void build(sr_builder *b, void *state, const regnet_size *size) {
    regnet *net = state;
    regnet_block *k = net->blocks;
    int64_t in = STEM_CHANNELS;
    build_conv(b, &net->stem, "stem",
               (sr_conv_layer_opts){.in = 3, .out = in, .window = 3, .conv = {.stride = 2}},
               sr_relu);
    for (int stage = 0; stage < STAGES; stage++) {
        const int width = size->width[stage];
        for (int i = 0; i < size->depth[stage]; i++) {
            k->squeezes = size->squeezes;
            sr_build_push(b, "trunk_output.block%d.block%d-%d", stage + 1, stage + 1, i);
            build_block(b, k++, in, width, i == 0 ? 2 : 1, width / size->group_width[stage]);
            sr_build_pop(b);
            in = width;
        }
        net->depth[stage] = size->depth[stage];
        sr_build_stage(b, width, 4 << stage);
    }
    if (sr_build_classes(b) == 0)
        return;
    sr_build_linear_from(b, &net->fc, "fc", in, sr_build_classes(b),
                         (sr_init){.kind = SR_INIT_NORMAL, .scale = 0.01});
}

static sr_tensor block_forward(sr_forward *f, const regnet_block *k, sr_tensor x) {
    sr_tensor y = sr_layer_conv_norm(f, &k->b, sr_layer_conv_norm(f, &k->a, x));
    if (k->squeezes)
        y = sr_layer_squeeze(&k->squeeze, y);
    y = sr_layer_conv_norm(f, &k->c, y);
    return sr_relu(sr_add(k->projects ? sr_layer_conv_norm(f, &k->project, x) : x, y));
}

static void features(sr_forward *f, const void *state, sr_tensor x, sr_tensor *stages) {
    const regnet *net = state;
    const regnet_block *k = net->blocks;
    x = sr_layer_conv_norm(f, &net->stem, x);
    for (int stage = 0; stage < STAGES; stage++) {
        for (int i = 0; i < net->depth[stage]; i++)
            x = block_forward(f, k++, x);
        stages[stage] = x;
    }
}

static void forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const regnet *net = state;
    sr_tensor stages[STAGES];
    features(f, state, inputs[0], stages);
    sr_forward_output(f, "logits",
                      sr_layer_linear(&net->fc, sr_global_avgpool(stages[STAGES - 1])));
}

#define FOUR(n)                                                                                    \
    { n, n, n, n }
// SIZE(name, help, squeezes, blocks, widths and widths of groups of the stages)
#define Y_SIZES(SIZE)                                                                              \
    SIZE(regnet_y_400mf, "RegNetY-400MF", 1, {1, 3, 6, 6}, {48, 104, 208, 440}, FOUR(8))           \
    SIZE(regnet_y_800mf, "RegNetY-800MF", 1, {1, 3, 8, 2}, {64, 144, 320, 784}, FOUR(16))          \
    SIZE(regnet_y_1_6gf, "RegNetY-1.6GF", 1, {2, 6, 17, 2}, {48, 120, 336, 888}, FOUR(24))         \
    SIZE(regnet_y_3_2gf, "RegNetY-3.2GF", 1, {2, 5, 13, 1}, {72, 216, 576, 1512}, FOUR(24))        \
    SIZE(regnet_y_8gf, "RegNetY-8GF", 1, {2, 4, 10, 1}, {224, 448, 896, 2016}, FOUR(56))           \
    SIZE(regnet_y_16gf, "RegNetY-16GF", 1, {2, 4, 11, 1}, {224, 448, 1232, 3024}, FOUR(112))       \
    SIZE(regnet_y_32gf, "RegNetY-32GF", 1, {2, 5, 12, 1}, {232, 696, 1392, 3712}, FOUR(232))       \
    SIZE(regnet_y_128gf, "RegNetY-128GF", 1, {2, 7, 17, 1}, {528, 1056, 2904, 7392}, FOUR(264))
#define X_SIZES(SIZE)                                                                              \
    SIZE(regnet_x_400mf, "RegNetX-400MF", 0, {1, 2, 7, 12}, {32, 64, 160, 400}, FOUR(16))          \
    SIZE(regnet_x_800mf, "RegNetX-800MF", 0, {1, 3, 7, 5}, {64, 128, 288, 672}, FOUR(16))          \
    SIZE(regnet_x_1_6gf, "RegNetX-1.6GF", 0, {2, 4, 10, 2}, {72, 168, 408, 912}, FOUR(24))         \
    SIZE(regnet_x_3_2gf, "RegNetX-3.2GF", 0, {2, 6, 15, 2}, {96, 192, 432, 1008}, FOUR(48))        \
    SIZE(regnet_x_8gf, "RegNetX-8GF", 0, {2, 5, 15, 1}, {80, 240, 720, 1920}, {80, 120, 120, 120}) \
    SIZE(regnet_x_16gf, "RegNetX-16GF", 0, {2, 6, 13, 1}, {256, 512, 896, 2048}, FOUR(128))        \
    SIZE(regnet_x_32gf, "RegNetX-32GF", 0, {2, 7, 13, 1}, {336, 672, 1344, 2520}, FOUR(168))

#define DEFINE(id, text, ...)                                                                      \
    static void build_##id(sr_builder *b, const void *options, void *state) {                      \
        static const regnet_size size = {__VA_ARGS__};                                             \
        (void)options;                                                                             \
        build(b, state, &size);                                                                    \
    }                                                                                              \
    SR_MODEL_DESC(id, text " (Radosavovic et al. 2020)", regnet, .features = features,             \
                  .names = &regnet_names)
Y_SIZES(DEFINE)
X_SIZES(DEFINE)
