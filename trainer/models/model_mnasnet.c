// SPDX-License-Identifier: Apache-2.0
// MNASNet-B1 (Tan et al. 2019, "MnasNet: Platform-Aware Neural Architecture Search for Mobile") as
// in torchvision, with its parameter names and initial values.
#include <math.h>
#include <stddef.h>

#include "trainer/models/inverted_residual_internal.h"
#include "trainer/models/model_family_internal.h"

enum { DIVISOR = 8, LAST_CHANNELS = 1280, FIRST_STACK = 8 };

typedef struct mnasnet_options {
    double dropout;
} mnasnet_options;

static const sr_option mnasnet_rows[] = {
    SR_DROPOUT_OPTION(mnasnet_options, "0.2"),
};

static const sr_option_table mnasnet_table = {.name = "model.mnasnet",
                                              .options = mnasnet_rows,
                                              .count = sizeof mnasnet_rows / sizeof *mnasnet_rows,
                                              .struct_size = sizeof(mnasnet_options)};

#define STACK(own, timm)                                                                           \
    SR_INVERTED_ROWS("layers." #own ".*.layers.", #timm ".*.", "0", "1", "3", "4", "6", "7")
static const sr_weight_name_row name_rows[] = {
    {{"layers.0", "conv_stem"}},
    {{"layers.1", "bn1"}},
    SR_SEPARABLE_ROWS("layers.", "0.0.", "3", "4", "6", "7"),
    STACK(8, 1),
    STACK(9, 2),
    STACK(10, 3),
    STACK(11, 4),
    STACK(12, 5),
    STACK(13, 6),
    {{"layers.14", "conv_head"}},
    {{"layers.15", "bn2"}},
    {{"classifier.1", "classifier"}},
};
static const sr_weight_names mnasnet_names = {.layout = {"torchvision", "timm"},
                                              .rows = name_rows,
                                              .count = sizeof name_rows / sizeof name_rows[0]};

// Blocks of a stack; the first one has the stride.
typedef struct stack_row {
    int out, window, stride, expansion, blocks;
} stack_row;

static const stack_row stacks[] = {{24, 3, 2, 3, 3}, {40, 5, 2, 3, 3},  {80, 5, 2, 6, 3},
                                   {96, 3, 1, 6, 2}, {192, 5, 2, 6, 4}, {320, 3, 1, 6, 1}};
enum { STACKS = sizeof stacks / sizeof *stacks };

typedef struct mnasnet {
    sr_mobile_trunk trunk;
    sr_linear_layer fc;
    double dropout;
} mnasnet;

// TensorFlow's decay of 0.9997.
static const sr_batchnorm_layer_opts norm = {.momentum = 1 - 0.9997};

static sr_conv_norm_opts conv_of(int64_t in, int64_t out, int window, int stride) {
    return (sr_conv_norm_opts){
        .conv = {.in = in, .out = out, .window = window, .conv = {.stride = stride}},
        .norm = norm,
        .activation = sr_relu};
}

static sr_inverted_opts block_of(int64_t in, int64_t out, int expansion, int window, int stride) {
    return (sr_inverted_opts){.in = in,
                              .expanded = in * expansion,
                              .out = out,
                              .window = window,
                              .stride = stride,
                              .activation = sr_relu,
                              .norm = norm,
                              .names = SR_INVERTED_FLAT};
}

// Returns the channels of the last block.
static int64_t build_stacks(sr_builder *b, sr_mobile_trunk *trunk, int64_t in, double alpha) {
    for (int s = 0; s < STACKS; s++) {
        const stack_row *row = &stacks[s];
        const int64_t out = sr_round_channels(row->out * alpha, DIVISOR);
        for (int i = 0; i < row->blocks; i++) {
            sr_build_push(b, "layers.%d.%d.layers", FIRST_STACK + s, i);
            sr_build_mobile_block(
                b, trunk, block_of(in, out, row->expansion, row->window, i == 0 ? row->stride : 1));
            sr_build_pop(b);
            in = out;
        }
    }
    return in;
}

static void build(sr_builder *b, const void *options, void *state, double alpha) {
    const mnasnet_options *o = options;
    mnasnet *net = state;
    const int64_t first = sr_round_channels(32 * alpha, DIVISOR);
    int64_t in = sr_round_channels(16 * alpha, DIVISOR);
    // A separable convolution; the convolution before it has the numbers 0 to 2.
    sr_inverted_opts separable = block_of(first, in, 1, 3, 1);
    separable.first_number = 3;
    net->dropout = o->dropout;
    sr_build_push(b, "layers");
    sr_build_conv_norm_as(b, &net->trunk.first, "0", "1", conv_of(3, first, 3, 2));
    sr_build_mobile_block(b, &net->trunk, separable);
    sr_build_pop(b);
    in = build_stacks(b, &net->trunk, in, alpha);
    sr_build_conv_norm_as(b, &net->trunk.last, "layers.14", "layers.15",
                          conv_of(in, LAST_CHANNELS, 1, 1));
    sr_build_mobile_end(b, &net->trunk, LAST_CHANNELS);
    if (sr_build_classes(b) == 0)
        return;
    const double scale = sqrt(3.0 / (double)sr_build_classes(b));
    sr_build_linear_from(b, &net->fc, "classifier.1", LAST_CHANNELS, sr_build_classes(b),
                         (sr_init){.kind = SR_INIT_UNIFORM, .scale = scale});
}

static void forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const mnasnet *net = state;
    sr_tensor x = sr_mobile_pooled(f, &net->trunk, inputs[0]);
    sr_forward_output(f, "logits", sr_layer_linear(&net->fc, sr_layer_dropout(f, x, net->dropout)));
}

// SIZE(name, help, factor of channels)
#define SIZES(SIZE)                                                                                \
    SIZE(mnasnet0_5, "MNASNet-B1 0.5x (Tan et al. 2019)", 0.5)                                     \
    SIZE(mnasnet0_75, "MNASNet-B1 0.75x (Tan et al. 2019)", 0.75)                                  \
    SIZE(mnasnet1_0, "MNASNet-B1 (Tan et al. 2019)", 1)                                            \
    SIZE(mnasnet1_3, "MNASNet-B1 1.3x (Tan et al. 2019)", 1.3)

#define DEFINE(id, text, alpha)                                                                    \
    static void build_##id(sr_builder *b, const void *options, void *state) {                      \
        build(b, options, state, alpha);                                                           \
    }                                                                                              \
    SR_MODEL_DESC(id, text, mnasnet, .options = &mnasnet_table, .features = sr_mobile_features,    \
                  .names = &mnasnet_names)
SIZES(DEFINE)
