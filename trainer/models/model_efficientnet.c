// SPDX-License-Identifier: Apache-2.0
// EfficientNet (Tan & Le 2019, table 1, scaled as in section 3.3) and EfficientNetV2 (Tan & Le
// 2021, table 4) as in torchvision, with its parameter names and initial values.
#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "trainer/models/inverted_residual_internal.h"
#include "trainer/models/model_family_internal.h"

enum { DIVISOR = 8, SQUEEZED_SHARE = 4 };

typedef struct efficientnet_options {
    double dropout, stochastic_depth_prob, bn_eps;
} efficientnet_options;

// Of version 1; timm's version 2 pads pictures in another way.
#define STAGE(own, timm) SR_NESTED_SQUEEZE_ROWS("features." #own ".*.block.", #timm ".*.")
static const sr_weight_name_row name_rows[] = {
    {{"features.0.0", "conv_stem"}},
    {{"features.0.1", "bn1"}},
    SR_SEPARABLE_ROWS("features.1.*.block.", "0.*.", "0.0", "0.1", "2.0", "2.1"),
    SR_SQUEEZE_ROWS("features.1.*.block.", "0.*.", "1"),
    STAGE(2, 1),
    STAGE(3, 2),
    STAGE(4, 3),
    STAGE(5, 4),
    STAGE(6, 5),
    STAGE(7, 6),
    {{"features.8.0", "conv_head"}},
    {{"features.8.1", "bn2"}},
    {{"classifier.1", "classifier"}},
};
enum { NAME_ROWS = sizeof name_rows / sizeof *name_rows };
static const sr_weight_names names_v1 = {
    .layout = {"torchvision", "timm"}, .rows = name_rows, .count = NAME_ROWS};
// Of the larger ones.
static const sr_weight_names names_v1_eps = {.layout = {"torchvision", "timm"},
                                             .note = {NULL, SR_BN_EPS_NOTE},
                                             .rows = name_rows,
                                             .count = NAME_ROWS};

// A row of the tables: blocks of which the first one changes channels and size.
typedef struct block_row {
    int expansion, window, stride, in, out, blocks;
    bool fused;
} block_row;

typedef struct efficientnet_size {
    const block_row *rows;
    int row_count;
    double width, depth;          // factors of channels and of numbers of blocks
    int last;                     // channels of the last map; 0: four times those before
    sr_batchnorm_layer_opts norm; // eps is an option
} efficientnet_size;

static const block_row rows_v1[] = {
    {1, 3, 1, 32, 16, 1, false},   {6, 3, 2, 16, 24, 2, false},  {6, 5, 2, 24, 40, 2, false},
    {6, 3, 2, 40, 80, 3, false},   {6, 5, 1, 80, 112, 3, false}, {6, 5, 2, 112, 192, 4, false},
    {6, 3, 1, 192, 320, 1, false},
};
static const block_row rows_v2_s[] = {
    {1, 3, 1, 24, 24, 2, true},   {4, 3, 2, 24, 48, 4, true},    {4, 3, 2, 48, 64, 4, true},
    {4, 3, 2, 64, 128, 6, false}, {6, 3, 1, 128, 160, 9, false}, {6, 3, 2, 160, 256, 15, false},
};
static const block_row rows_v2_m[] = {
    {1, 3, 1, 24, 24, 3, true},    {4, 3, 2, 24, 48, 5, true},     {4, 3, 2, 48, 80, 5, true},
    {4, 3, 2, 80, 160, 7, false},  {6, 3, 1, 160, 176, 14, false}, {6, 3, 2, 176, 304, 18, false},
    {6, 3, 1, 304, 512, 5, false},
};
static const block_row rows_v2_l[] = {
    {1, 3, 1, 32, 32, 4, true},    {4, 3, 2, 32, 64, 7, true},     {4, 3, 2, 64, 96, 7, true},
    {4, 3, 2, 96, 192, 10, false}, {6, 3, 1, 192, 224, 19, false}, {6, 3, 2, 224, 384, 25, false},
    {6, 3, 1, 384, 640, 7, false},
};

typedef struct efficientnet {
    sr_mobile_trunk trunk;
    sr_linear_layer fc;
    double dropout;
} efficientnet;

static int blocks_of(const efficientnet_size *size, int row) {
    return (int)ceil(size->rows[row].blocks * size->depth);
}

static sr_inverted_opts block_of(const efficientnet_size *size, const block_row *row, bool first) {
    const int64_t out = sr_round_channels(row->out * size->width, DIVISOR);
    const int64_t in = first ? sr_round_channels(row->in * size->width, DIVISOR) : out;
    const int64_t expanded = sr_round_channels((double)(in * row->expansion), DIVISOR);
    sr_inverted_opts opts = {.in = in,
                             .expanded = expanded,
                             .out = out,
                             .window = row->window,
                             .stride = first ? row->stride : 1,
                             .fused = row->fused,
                             .activation = sr_silu,
                             .norm = size->norm};
    if (!row->fused)
        opts.squeeze = (sr_squeeze_opts){.squeezed = in > SQUEEZED_SHARE ? in / SQUEEZED_SHARE : 1,
                                         .activation = sr_silu};
    return opts;
}

static void build_blocks(sr_builder *b, const efficientnet_size *size, double drop,
                         sr_mobile_trunk *trunk) {
    int total = 0;
    for (int r = 0; r < size->row_count; r++)
        total += blocks_of(size, r);
    for (int r = 0; r < size->row_count; r++) {
        for (int i = 0; i < blocks_of(size, r); i++) {
            sr_inverted_opts opts = block_of(size, &size->rows[r], i == 0);
            opts.drop = drop * trunk->blocks / total;
            sr_build_push(b, "features.%d.%d.block", r + 1, i);
            sr_build_mobile_block(b, trunk, opts);
            sr_build_pop(b);
        }
    }
}

static sr_conv_norm_opts conv_of(const efficientnet_size *size, int64_t in, int64_t out, int window,
                                 int stride) {
    return (sr_conv_norm_opts){
        .conv = {.in = in, .out = out, .window = window, .conv = {.stride = stride}},
        .norm = size->norm,
        .activation = sr_silu};
}

static void build(sr_builder *b, const void *options, void *state, efficientnet_size *size) {
    const efficientnet_options *o = options;
    efficientnet *net = state;
    char name[32];
    size->norm.eps = o->bn_eps;
    const int64_t first = sr_round_channels(size->rows[0].in * size->width, DIVISOR);
    net->dropout = o->dropout;
    sr_build_conv_norm(b, &net->trunk.first, "features.0", conv_of(size, 3, first, 3, 2));
    build_blocks(b, size, o->stochastic_depth_prob, &net->trunk);
    const int64_t in = net->trunk.channels, out = size->last > 0 ? size->last : 4 * in;
    (void)snprintf(name, sizeof name, "features.%d", size->row_count + 1);
    sr_build_conv_norm(b, &net->trunk.last, name, conv_of(size, in, out, 1, 1));
    sr_build_mobile_end(b, &net->trunk, out);
    if (sr_build_classes(b) == 0)
        return;
    const double scale = 1 / sqrt((double)sr_build_classes(b));
    sr_build_linear_from(b, &net->fc, "classifier.1", out, sr_build_classes(b),
                         (sr_init){.kind = SR_INIT_UNIFORM, .scale = scale});
}

static void forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const efficientnet *net = state;
    sr_tensor x = sr_mobile_pooled(f, &net->trunk, inputs[0]);
    sr_forward_output(f, "logits", sr_layer_linear(&net->fc, sr_layer_dropout(f, x, net->dropout)));
}

#define ROWS(rows) rows, sizeof(rows) / sizeof *(rows)
#define V1 ROWS(rows_v1)
#define SMALL 0, 0, "1e-5", &names_v1
#define LARGE 0, 0.01, "1e-3", &names_v1_eps
#define V2 1280, 0, "1e-3", NULL
// SIZE(name, help, dropout, rows and their number, factors of width and depth; last, momentum and
// eps of batch norm, names)
#define SIZES(SIZE)                                                                                \
    SIZE(efficientnet_b0, "EfficientNet-B0 (Tan & Le 2019)", "0.2", V1, 1, 1, SMALL)               \
    SIZE(efficientnet_b1, "EfficientNet-B1 (Tan & Le 2019)", "0.2", V1, 1, 1.1, SMALL)             \
    SIZE(efficientnet_b2, "EfficientNet-B2 (Tan & Le 2019)", "0.3", V1, 1.1, 1.2, SMALL)           \
    SIZE(efficientnet_b3, "EfficientNet-B3 (Tan & Le 2019)", "0.3", V1, 1.2, 1.4, SMALL)           \
    SIZE(efficientnet_b4, "EfficientNet-B4 (Tan & Le 2019)", "0.4", V1, 1.4, 1.8, SMALL)           \
    SIZE(efficientnet_b5, "EfficientNet-B5 (Tan & Le 2019)", "0.4", V1, 1.6, 2.2, LARGE)           \
    SIZE(efficientnet_b6, "EfficientNet-B6 (Tan & Le 2019)", "0.5", V1, 1.8, 2.6, LARGE)           \
    SIZE(efficientnet_b7, "EfficientNet-B7 (Tan & Le 2019)", "0.5", V1, 2, 3.1, LARGE)             \
    SIZE(efficientnet_v2_s, "EfficientNetV2-S (Tan & Le 2021)", "0.2", ROWS(rows_v2_s), 1, 1, V2)  \
    SIZE(efficientnet_v2_m, "EfficientNetV2-M (Tan & Le 2021)", "0.3", ROWS(rows_v2_m), 1, 1, V2)  \
    SIZE(efficientnet_v2_l, "EfficientNetV2-L (Tan & Le 2021)", "0.4", ROWS(rows_v2_l), 1, 1, V2)

#define OPTIONS(dropout_, eps_)                                                                    \
    SR_DROPOUT_OPTION(efficientnet_options, dropout_),                                             \
        SR_BN_EPS_OPTION(efficientnet_options, eps_), {                                            \
        .name = "stochastic_depth_prob",                                                           \
        .help =                                                                                    \
            "stochastic depth: probability of dropping the residual branch of the last block, "    \
            "falling linearly to 0 at the first (Huang et al. 2016)",                              \
        .type = SR_OPT_FLOAT, .offset = offsetof(efficientnet_options, stochastic_depth_prob),     \
        .default_text = "0.2", .max = 0.99                                                         \
    }

#define DEFINE(id, text, dropout_, rows_, width_, depth_, version_)                                \
    DEFINE_ROWS(id, text, dropout_, rows_, width_, depth_, version_)
#define DEFINE_ROWS(id, text, dropout_, rows_, count_, width_, depth_, last_, momentum_, eps_,     \
                    names_)                                                                        \
    static void build_##id(sr_builder *b, const void *options, void *state) {                      \
        efficientnet_size size = {rows_, count_, width_, depth_, last_, {.momentum = momentum_}};  \
        build(b, options, state, &size);                                                           \
    }                                                                                              \
    static const sr_option options_##id[] = {OPTIONS(dropout_, eps_)};                             \
    static const sr_option_table table_##id = {.name = "model." #id,                               \
                                               .options = options_##id,                            \
                                               .count = sizeof options_##id / sizeof(sr_option),   \
                                               .struct_size = sizeof(efficientnet_options)};       \
    SR_MODEL_DESC(id, text, efficientnet, .options = &table_##id, .features = sr_mobile_features,  \
                  .names = names_)
SIZES(DEFINE)
