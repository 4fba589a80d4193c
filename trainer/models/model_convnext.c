// SPDX-License-Identifier: Apache-2.0
// ConvNeXt (Liu et al. 2022): convolutional networks with the proportions of a Swin transformer.
// Parameter names, initial values and defaults are torchvision's.
#include <stddef.h>

#include "trainer/models/layers.h"
#include "trainer/models/model_family_internal.h"

enum { STAGES = 4, MAX_BLOCKS = 36 };

static const double norm_eps = 1e-6;
static const sr_init narrow = {.kind = SR_INIT_TRUNC_NORMAL, .scale = 0.02};

typedef struct convnext_options {
    double stochastic_depth_prob, layer_scale, width_mult;
} convnext_options;

// ---- Names ----

#define PART(own, stage, here, there, original)                                                    \
    {                                                                                              \
        {                                                                                          \
            "features." #own ".*." here, "stages." #stage ".blocks.*." there,                      \
                "stages." #stage ".*." original                                                    \
        }                                                                                          \
    }
#define STAGE(own, stage)                                                                          \
    PART(own, stage, "layer_scale", "gamma", "gamma"),                                             \
        PART(own, stage, "block.0", "conv_dw", "dwconv"),                                          \
        PART(own, stage, "block.2", "norm", "norm"),                                               \
        PART(own, stage, "block.3", "mlp.fc1", "pwconv1"),                                         \
        PART(own, stage, "block.5", "mlp.fc2", "pwconv2")
#define HALVING(own, stage)                                                                        \
    {                                                                                              \
        { "features." #own, "stages." #stage ".downsample", "downsample_layers." #stage }          \
    }
static const sr_weight_name_row name_rows[] = {
    {{"features.0", "stem", "downsample_layers.0"}},
    STAGE(1, 0),
    HALVING(2, 1),
    STAGE(3, 1),
    HALVING(4, 2),
    STAGE(5, 2),
    HALVING(6, 3),
    STAGE(7, 3),
    {{"classifier.0", "head.norm", "norm"}},
    {{"classifier.2", "head.fc", "head"}},
};
static const sr_weight_names convnext_names = {.layout = {"torchvision", "timm", "Facebook"},
                                               .rows = name_rows,
                                               .count = sizeof name_rows / sizeof name_rows[0]};

// ---- Parameters ----

// A block of one stage: depthwise convolution, normalisation, two linear layers, layer scale.
typedef struct convnext_block {
    sr_tensor layer_scale;
    int64_t channels;
    double drop; // probability
    sr_conv_layer conv;
    sr_layernorm_layer norm;
    sr_linear_layer expand, reduce;
} convnext_block;

// What is before the blocks of a stage: the stem, or normalisation and a convolution of stride 2.
typedef struct convnext_stage {
    sr_conv_layer conv;
    sr_layernorm_layer norm;
    int blocks;
} convnext_stage;

typedef struct convnext {
    convnext_stage stages[STAGES];
    convnext_block blocks[MAX_BLOCKS];
    sr_layernorm_layer norm;
    sr_linear_layer head;
} convnext;

// Sizes of a network.
typedef struct convnext_size {
    int64_t channels[STAGES];
    int blocks[STAGES];
} convnext_size;

static void build_conv(sr_builder *b, sr_conv_layer *layer, const char *name,
                       sr_conv_layer_opts opts) {
    opts.has_bias = true;
    opts.zero_bias = true;
    opts.init = narrow;
    sr_build_conv(b, layer, name, opts);
}

static void build_block(sr_builder *b, convnext_block *k, int64_t channels,
                        const convnext_options *o) {
    const int64_t dim[3] = {channels, 1, 1};
    k->channels = channels;
    sr_build_param(b, &k->layer_scale, "layer_scale", SR_PARAM_SCALE, 3, dim,
                   (sr_init){.kind = SR_INIT_CONSTANT, .scale = o->layer_scale});
    sr_build_push(b, "block");
    build_conv(b, &k->conv, "0",
               (sr_conv_layer_opts){.in = channels,
                                    .out = channels,
                                    .window = 7,
                                    .conv = {.pad = 3, .groups = (int)channels}});
    sr_build_layernorm(b, &k->norm, "2", channels, norm_eps);
    sr_build_linear_from(b, &k->expand, "3", channels, 4 * channels, narrow);
    sr_build_linear_from(b, &k->reduce, "5", 4 * channels, channels, narrow);
    sr_build_pop(b);
}

static void build_before(sr_builder *b, convnext_stage *s, int stage, const int64_t *channels) {
    const int window = stage == 0 ? 4 : 2;
    const sr_conv_layer_opts conv = {.in = stage == 0 ? 3 : channels[stage - 1],
                                     .out = channels[stage],
                                     .window = window,
                                     .conv = {.stride = window}};
    sr_build_push(b, "%d", 2 * stage);
    if (stage > 0)
        sr_build_layernorm(b, &s->norm, "0", conv.in, norm_eps);
    build_conv(b, &s->conv, stage == 0 ? "0" : "1", conv);
    if (stage == 0)
        sr_build_layernorm(b, &s->norm, "1", conv.out, norm_eps);
    sr_build_pop(b);
}

// What is before a stage is of the depth of its first block, and the last normalisation of that of
// the last layer, as in timm.
static void build(sr_builder *b, const convnext_options *o, convnext *net,
                  const convnext_size *size) {
    int64_t channels[STAGES];
    int total = 0, k = 0;
    for (int stage = 0; stage < STAGES; stage++)
        channels[stage] =
            sr_round_channels((double)size->channels[stage] * o->width_mult, SR_WIDTH_DIVISOR);
    for (int stage = 0; stage < STAGES; stage++)
        total += size->blocks[stage];
    sr_build_push(b, "features");
    for (int stage = 0; stage < STAGES; stage++) {
        sr_build_depth(b, stage == 0 ? 0 : 1 + k);
        build_before(b, &net->stages[stage], stage, channels);
        net->stages[stage].blocks = size->blocks[stage];
        for (int i = 0; i < size->blocks[stage]; i++, k++) {
            net->blocks[k].drop = o->stochastic_depth_prob * k / (total - 1);
            sr_build_depth(b, 1 + k);
            sr_build_push(b, "%d.%d", 2 * stage + 1, i);
            build_block(b, &net->blocks[k], channels[stage], o);
            sr_build_pop(b);
        }
        sr_build_stage(b, channels[stage], 4 << stage);
    }
    sr_build_pop(b);
    if (sr_build_classes(b) == 0)
        return;
    sr_build_depth(b, 1 + total);
    sr_build_push(b, "classifier");
    sr_build_layernorm(b, &net->norm, "0", channels[STAGES - 1], norm_eps);
    sr_build_linear_from(b, &net->head, "2", channels[STAGES - 1], sr_build_classes(b), narrow);
    sr_build_pop(b);
}

// ---- Forward pass ----

static sr_tensor block_forward(sr_forward *f, const convnext_block *k, sr_tensor x) {
    sr_tensor scale = sr_cast(sr_reshape(k->layer_scale, 1, &k->channels), f->dtype);
    sr_tensor y = sr_layer_layernorm(&k->norm, sr_layer_conv(&k->conv, x));
    y = sr_layer_linear(&k->reduce, sr_gelu(sr_layer_linear(&k->expand, y)));
    return sr_add(sr_layer_drop_path(f, sr_mul(y, scale), k->drop), x);
}

static void features(sr_forward *f, const void *state, sr_tensor x, sr_tensor *stages) {
    const convnext *net = state;
    const convnext_block *block = net->blocks;
    for (int stage = 0; stage < STAGES; stage++) {
        const convnext_stage *s = &net->stages[stage];
        x = stage == 0 ? sr_layer_layernorm(&s->norm, sr_layer_conv(&s->conv, x))
                       : sr_layer_conv(&s->conv, sr_layer_layernorm(&s->norm, x));
        for (int i = 0; i < s->blocks; i++)
            x = block_forward(f, block++, x);
        stages[stage] = x;
    }
}

static void forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const convnext *net = state;
    sr_tensor stages[STAGES];
    features(f, state, inputs[0], stages);
    sr_tensor x = sr_global_avgpool(stages[STAGES - 1]);
    sr_forward_output(f, "logits", sr_layer_linear(&net->head, sr_layer_layernorm(&net->norm, x)));
}

// ---- The family ----

// Name, label, channels of the stages, blocks of the stages, default of stochastic_depth.
#define LIST(...)                                                                                  \
    { __VA_ARGS__ }
#define CONVNEXT_FAMILY(MODEL)                                                                     \
    MODEL(convnext_tiny, "ConvNeXt-T", LIST(96, 192, 384, 768), LIST(3, 3, 9, 3), "0.1")           \
    MODEL(convnext_small, "ConvNeXt-S", LIST(96, 192, 384, 768), LIST(3, 3, 27, 3), "0.4")         \
    MODEL(convnext_base, "ConvNeXt-B", LIST(128, 256, 512, 1024), LIST(3, 3, 27, 3), "0.5")        \
    MODEL(convnext_large, "ConvNeXt-L", LIST(192, 384, 768, 1536), LIST(3, 3, 27, 3), "0.5")

#define MODEL(id, label, stage_channels, stage_blocks, drop)                                       \
    static const sr_option rows_##id[] = {                                                         \
        {.name = "stochastic_depth_prob",                                                          \
         .help =                                                                                   \
             "stochastic depth: probability of dropping the residual branch of the last block, "   \
             "falling linearly to 0 at the first (Huang et al. 2016)",                             \
         .type = SR_OPT_FLOAT,                                                                     \
         .offset = offsetof(convnext_options, stochastic_depth_prob),                              \
         .default_text = drop,                                                                     \
         .max = 0.99},                                                                             \
        {.name = "layer_scale",                                                                    \
         .help = "initial LayerScale factors of the residual branches (Touvron et al. 2021)",      \
         .type = SR_OPT_FLOAT,                                                                     \
         .offset = offsetof(convnext_options, layer_scale),                                        \
         .default_text = "1e-6",                                                                   \
         .max = 1e6},                                                                              \
        SR_WIDTH_OPTION(convnext_options),                                                         \
    };                                                                                             \
    static const sr_option_table table_##id = {.name = "model." #id,                               \
                                               .options = rows_##id,                               \
                                               .count = sizeof rows_##id / sizeof rows_##id[0],    \
                                               .struct_size = sizeof(convnext_options)};           \
    static void build_##id(sr_builder *b, const void *options, void *state) {                      \
        static const convnext_size size = {.channels = stage_channels, .blocks = stage_blocks};    \
        build(b, options, state, &size);                                                           \
    }                                                                                              \
    SR_MODEL_DESC(id, label " (Liu et al. 2022)", convnext, .options = &table_##id,                \
                  .features = features, .names = &convnext_names)
CONVNEXT_FAMILY(MODEL)
