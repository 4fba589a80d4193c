// SPDX-License-Identifier: Apache-2.0
// MobileNetV2 (Sandler et al. 2018, table 2) as in torchvision, with its parameter names and
// initial values.
#include <stddef.h>

#include "trainer/models/inverted_residual_internal.h"

enum { FIRST_CHANNELS = 32, LAST_CHANNELS = 1280 };

typedef struct mobilenet_options {
    double width_mult, dropout;
} mobilenet_options;

static const sr_option mobilenet_rows[] = {
    SR_WIDTH_OPTION(mobilenet_options),
    SR_DROPOUT_OPTION(mobilenet_options, "0.2"),
};

static const sr_option_table mobilenet_table = {.name = "model.mobilenet_v2",
                                                .options = mobilenet_rows,
                                                .count =
                                                    sizeof mobilenet_rows / sizeof *mobilenet_rows,
                                                .struct_size = sizeof(mobilenet_options)};

#define BLOCK(own, timm)                                                                           \
    SR_INVERTED_ROWS("features." #own ".conv.", timm ".", "0.0", "0.1", "1.0", "1.1", "2", "3")
static const sr_weight_name_row name_rows[] = {
    {{"features.0.0", "conv_stem"}},
    {{"features.0.1", "bn1"}},
    SR_SEPARABLE_ROWS("features.1.conv.", "0.0.", "0.0", "0.1", "1", "2"),
    BLOCK(2, "1.0"),
    BLOCK(3, "1.1"),
    BLOCK(4, "2.0"),
    BLOCK(5, "2.1"),
    BLOCK(6, "2.2"),
    BLOCK(7, "3.0"),
    BLOCK(8, "3.1"),
    BLOCK(9, "3.2"),
    BLOCK(10, "3.3"),
    BLOCK(11, "4.0"),
    BLOCK(12, "4.1"),
    BLOCK(13, "4.2"),
    BLOCK(14, "5.0"),
    BLOCK(15, "5.1"),
    BLOCK(16, "5.2"),
    BLOCK(17, "6.0"),
    {{"features.18.0", "conv_head"}},
    {{"features.18.1", "bn2"}},
    {{"classifier.1", "classifier"}},
};
static const sr_weight_names mobilenet_names = {.layout = {"torchvision", "timm"},
                                                .rows = name_rows,
                                                .count = sizeof name_rows / sizeof name_rows[0]};

// Blocks of a row; the first one has the stride.
typedef struct block_row {
    int expansion, out, blocks, stride;
} block_row;

static const block_row rows[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                                 {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
enum { ROWS = sizeof rows / sizeof *rows };

typedef struct mobilenet {
    sr_mobile_trunk trunk;
    sr_linear_layer fc;
    double dropout;
} mobilenet;

static sr_tensor relu6(sr_tensor x) {
    return sr_clip(x, 0, 6);
}

static sr_conv_norm_opts conv_of(int64_t in, int64_t out, int window, int stride) {
    return (sr_conv_norm_opts){
        .conv = {.in = in, .out = out, .window = window, .conv = {.stride = stride}},
        .activation = relu6};
}

static void build(sr_builder *b, const void *options, void *state) {
    const mobilenet_options *o = options;
    mobilenet *net = state;
    int64_t in = sr_round_channels(FIRST_CHANNELS * o->width_mult, SR_WIDTH_DIVISOR);
    const int64_t last = sr_round_channels(LAST_CHANNELS * (o->width_mult > 1 ? o->width_mult : 1),
                                           SR_WIDTH_DIVISOR);
    net->dropout = o->dropout;
    sr_build_conv_norm(b, &net->trunk.first, "features.0", conv_of(3, in, 3, 2));
    for (int r = 0; r < ROWS; r++) {
        for (int i = 0; i < rows[r].blocks; i++) {
            const int64_t out = sr_round_channels(rows[r].out * o->width_mult, SR_WIDTH_DIVISOR);
            sr_build_push(b, "features.%d.conv", net->trunk.blocks + 1);
            sr_build_mobile_block(b, &net->trunk,
                                  (sr_inverted_opts){.in = in,
                                                     .expanded = in * rows[r].expansion,
                                                     .out = out,
                                                     .window = 3,
                                                     .stride = i == 0 ? rows[r].stride : 1,
                                                     .activation = relu6,
                                                     .names = SR_INVERTED_FLAT_END});
            sr_build_pop(b);
            in = out;
        }
    }
    sr_build_push(b, "features");
    sr_build_conv_norm(b, &net->trunk.last, "18", conv_of(in, last, 1, 1));
    sr_build_pop(b);
    sr_build_mobile_end(b, &net->trunk, last);
    if (sr_build_classes(b) == 0)
        return;
    sr_build_linear_from(b, &net->fc, "classifier.1", last, sr_build_classes(b),
                         (sr_init){.kind = SR_INIT_NORMAL, .scale = 0.01});
}

static void forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const mobilenet *net = state;
    sr_tensor x = sr_mobile_pooled(f, &net->trunk, inputs[0]);
    sr_forward_output(f, "logits", sr_layer_linear(&net->fc, sr_layer_dropout(f, x, net->dropout)));
}

extern const sr_model_desc sr_model_mobilenet_v2;
const sr_model_desc sr_model_mobilenet_v2 = {.struct_size = sizeof(sr_model_desc),
                                             .abi = SR_MODEL_ABI,
                                             .name = "mobilenet_v2",
                                             .help = "MobileNetV2 (Sandler et al. 2018)",
                                             .options = &mobilenet_table,
                                             .state_size = sizeof(mobilenet),
                                             .build = build,
                                             .forward = forward,
                                             .features = sr_mobile_features,
                                             .names = &mobilenet_names};
