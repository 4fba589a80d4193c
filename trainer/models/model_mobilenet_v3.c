// SPDX-License-Identifier: Apache-2.0
// MobileNetV3 (Howard et al. 2019, "Searching for MobileNetV3", tables 1 and 2) as in torchvision,
// with its parameter names and initial values.
#include <stddef.h>
#include <stdio.h>

#include "trainer/models/inverted_residual_internal.h"
#include "trainer/models/model_family_internal.h"

enum { MAX_BLOCKS = 15 };

typedef struct mobilenet_options {
    double width_mult, dropout, bn_eps;
    bool reduced_tail, dilated;
    int stage_maps;
} mobilenet_options;

static const char *const stage_maps[] = {"last", "first", NULL};

static const sr_option mobilenet_rows[] = {
    SR_WIDTH_OPTION(mobilenet_options),
    SR_DROPOUT_OPTION(mobilenet_options, "0.2"),
    SR_BN_EPS_OPTION(mobilenet_options, "1e-3"),
    {.name = "reduced_tail",
     .help = "halve the channels of the last stage, for detection and segmentation",
     .type = SR_OPT_BOOL,
     .offset = offsetof(mobilenet_options, reduced_tail),
     .default_text = "false"},
    {.name = "dilated",
     .help = "use dilation instead of strides in the last stage, for segmentation",
     .type = SR_OPT_BOOL,
     .offset = offsetof(mobilenet_options, dilated),
     .default_text = "false"},
    {.name = "stage_maps",
     .help = "maps of the stages, for models around this one: of the last block of each, or of the "
             "first, as torchvision's networks for segmentation and detection take them",
     .type = SR_OPT_ENUM,
     .offset = offsetof(mobilenet_options, stage_maps),
     .default_text = "last",
     .choices = stage_maps},
};

static const sr_option_table mobilenet_table = {.name = "model.mobilenet_v3",
                                                .options = mobilenet_rows,
                                                .count =
                                                    sizeof mobilenet_rows / sizeof *mobilenet_rows,
                                                .struct_size = sizeof(mobilenet_options)};

// A row of the paper's tables. The last three blocks are the tail.
typedef struct block_row {
    int window, expanded, out;
    bool squeezes, hard_swish;
    int stride;
} block_row;

enum { TAIL = 3 };

typedef struct mobilenet_size {
    int blocks;
    int64_t last; // features before the classifier
    block_row rows[MAX_BLOCKS];
} mobilenet_size;

static const mobilenet_size mobilenet_v3_large = {15,
                                                  1280,
                                                  {{3, 16, 16, 0, 0, 1},
                                                   {3, 64, 24, 0, 0, 2},
                                                   {3, 72, 24, 0, 0, 1},
                                                   {5, 72, 40, 1, 0, 2},
                                                   {5, 120, 40, 1, 0, 1},
                                                   {5, 120, 40, 1, 0, 1},
                                                   {3, 240, 80, 0, 1, 2},
                                                   {3, 200, 80, 0, 1, 1},
                                                   {3, 184, 80, 0, 1, 1},
                                                   {3, 184, 80, 0, 1, 1},
                                                   {3, 480, 112, 1, 1, 1},
                                                   {3, 672, 112, 1, 1, 1},
                                                   {5, 672, 160, 1, 1, 2},
                                                   {5, 960, 160, 1, 1, 1},
                                                   {5, 960, 160, 1, 1, 1}}};

static const mobilenet_size mobilenet_v3_small = {11,
                                                  1024,
                                                  {{3, 16, 16, 1, 0, 2},
                                                   {3, 72, 24, 0, 0, 2},
                                                   {3, 88, 24, 0, 0, 1},
                                                   {5, 96, 40, 1, 1, 2},
                                                   {5, 240, 40, 1, 1, 1},
                                                   {5, 240, 40, 1, 1, 1},
                                                   {5, 120, 48, 1, 1, 1},
                                                   {5, 144, 48, 1, 1, 1},
                                                   {5, 288, 96, 1, 1, 2},
                                                   {5, 576, 96, 1, 1, 1},
                                                   {5, 576, 96, 1, 1, 1}}};

typedef struct mobilenet {
    sr_mobile_trunk trunk;
    sr_linear_layer fc1, fc2;
    double dropout;
} mobilenet;

static sr_batchnorm_layer_opts norm_of(const mobilenet_options *o) {
    return (sr_batchnorm_layer_opts){.eps = o->bn_eps, .momentum = 0.01};
}

// Rows of the tail give half of the channels to a reduced one.
static sr_inverted_opts block_of(const mobilenet_options *o, const mobilenet_size *size, int i,
                                 int64_t in) {
    const block_row *row = &size->rows[i];
    const bool tail = i >= size->blocks - TAIL;
    const int out = tail && o->reduced_tail ? row->out / 2 : row->out;
    const int wide = i > size->blocks - TAIL && o->reduced_tail ? row->expanded / 2 : row->expanded;
    const int64_t expanded = sr_round_channels(wide * o->width_mult, SR_WIDTH_DIVISOR);
    sr_inverted_opts opts = {.in = in,
                             .expanded = expanded,
                             .out = sr_round_channels(out * o->width_mult, SR_WIDTH_DIVISOR),
                             .window = row->window,
                             .stride = row->stride,
                             .dilation = tail && o->dilated ? 2 : 1,
                             .activation = row->hard_swish ? sr_hard_swish : sr_relu,
                             .norm = norm_of(o)};
    if (row->squeezes)
        opts.squeeze = (sr_squeeze_opts){
            .squeezed = sr_round_channels((double)(expanded / 4), SR_WIDTH_DIVISOR),
            .gate = sr_hard_sigmoid};
    return opts;
}

static void build_trunk(sr_builder *b, const mobilenet_options *o, sr_mobile_trunk *trunk,
                        const mobilenet_size *size) {
    char name[32];
    int64_t in = sr_round_channels(16 * o->width_mult, SR_WIDTH_DIVISOR);
    sr_build_conv_norm(
        b, &trunk->first, "features.0",
        (sr_conv_norm_opts){.conv = {.in = 3, .out = in, .window = 3, .conv = {.stride = 2}},
                            .norm = norm_of(o),
                            .activation = sr_hard_swish});
    for (int i = 0; i < size->blocks; i++) {
        sr_build_push(b, "features.%d.block", i + 1);
        sr_build_mobile_block(b, trunk, block_of(o, size, i, in));
        sr_build_pop(b);
        in = trunk->channels;
    }
    (void)snprintf(name, sizeof name, "features.%d", size->blocks + 1);
    sr_build_conv_norm(b, &trunk->last, name,
                       (sr_conv_norm_opts){.conv = {.in = in, .out = 6 * in, .window = 1},
                                           .norm = norm_of(o),
                                           .activation = sr_hard_swish});
    sr_build_mobile_end(b, trunk, 6 * in);
}

static void build(sr_builder *b, const void *options, void *state, const mobilenet_size *size) {
    const mobilenet_options *o = options;
    mobilenet *net = state;
    const int64_t last = o->reduced_tail ? size->last / 2 : size->last;
    const int64_t hidden = sr_round_channels((double)last * o->width_mult, SR_WIDTH_DIVISOR);
    const sr_init init = {.kind = SR_INIT_NORMAL, .scale = 0.01};
    net->dropout = o->dropout;
    net->trunk.takes_first = o->stage_maps == 1;
    build_trunk(b, o, &net->trunk, size);
    if (sr_build_classes(b) == 0)
        return;
    sr_build_linear_from(b, &net->fc1, "classifier.0", 6 * net->trunk.channels, hidden, init);
    sr_build_linear_from(b, &net->fc2, "classifier.3", hidden, sr_build_classes(b), init);
}

static void forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const mobilenet *net = state;
    sr_tensor x = sr_layer_linear(&net->fc1, sr_mobile_pooled(f, &net->trunk, inputs[0]));
    sr_forward_output(
        f, "logits",
        sr_layer_linear(&net->fc2, sr_layer_dropout(f, sr_hard_swish(x), net->dropout)));
}

// ---- Names ----

// timm has convolutions of the means over pixels instead of the first linear layer.
#define PLAIN(own, timm) SR_NESTED_ROWS("features." #own ".block.", timm ".")
#define SQUEEZED(own, timm) SR_NESTED_SQUEEZE_ROWS("features." #own ".block.", timm ".")
static const sr_weight_name_row rows_mobilenet_v3_large[] = {
    {{"features.0.0", "conv_stem"}},
    {{"features.0.1", "bn1"}},
    SR_SEPARABLE_ROWS("features.1.block.", "0.0.", "0.0", "0.1", "1.0", "1.1"),
    PLAIN(2, "1.0"),
    PLAIN(3, "1.1"),
    SQUEEZED(4, "2.0"),
    SQUEEZED(5, "2.1"),
    SQUEEZED(6, "2.2"),
    PLAIN(7, "3.0"),
    PLAIN(8, "3.1"),
    PLAIN(9, "3.2"),
    PLAIN(10, "3.3"),
    SQUEEZED(11, "4.0"),
    SQUEEZED(12, "4.1"),
    SQUEEZED(13, "5.0"),
    SQUEEZED(14, "5.1"),
    SQUEEZED(15, "5.2"),
    {{"features.16.0", "blocks.6.0.conv"}},
    {{"features.16.1", "blocks.6.0.bn1"}},
    {{"classifier.0", "conv_head"}},
    {{"classifier.3", "classifier"}},
};
static const sr_weight_name_row rows_mobilenet_v3_small[] = {
    {{"features.0.0", "conv_stem"}},
    {{"features.0.1", "bn1"}},
    SR_SEPARABLE_ROWS("features.1.block.", "0.0.", "0.0", "0.1", "2.0", "2.1"),
    SR_SQUEEZE_ROWS("features.1.block.", "0.0.", "1"),
    PLAIN(2, "1.0"),
    PLAIN(3, "1.1"),
    SQUEEZED(4, "2.0"),
    SQUEEZED(5, "2.1"),
    SQUEEZED(6, "2.2"),
    SQUEEZED(7, "3.0"),
    SQUEEZED(8, "3.1"),
    SQUEEZED(9, "4.0"),
    SQUEEZED(10, "4.1"),
    SQUEEZED(11, "4.2"),
    {{"features.12.0", "blocks.5.0.conv"}},
    {{"features.12.1", "blocks.5.0.bn1"}},
    {{"classifier.0", "conv_head"}},
    {{"classifier.3", "classifier"}},
};

// MODEL(name, help)
#define MODELS(MODEL)                                                                              \
    MODEL(mobilenet_v3_large, "MobileNetV3-Large (Howard et al. 2019)")                            \
    MODEL(mobilenet_v3_small, "MobileNetV3-Small (Howard et al. 2019)")

#define DEFINE(id, text)                                                                           \
    static void build_##id(sr_builder *b, const void *options, void *state) {                      \
        build(b, options, state, &id);                                                             \
    }                                                                                              \
    static const sr_weight_names names_##id = {.layout = {"torchvision", "timm"},                  \
                                               .note = {NULL, SR_BN_EPS_NOTE},                     \
                                               .rows = rows_##id,                                  \
                                               .count = sizeof rows_##id / sizeof *rows_##id};     \
    SR_MODEL_DESC(id, text, mobilenet, .options = &mobilenet_table,                                \
                  .features = sr_mobile_features, .names = &names_##id)
MODELS(DEFINE)
