// SPDX-License-Identifier: Apache-2.0
// Swin transformers (Liu et al. 2021) and their second version (Liu et al. 2022): attention in
// windows, which every other block shifts by half. Names, initial values and defaults are
// torchvision's.
//
// A shifted picture is cut into windows by one gather, which also leaves out what padding added
// when windows are put together again. Windows that shifting joined from opposite borders attend
// within their parts only: a mask is added to the bias, one for each window of a picture.
#include <math.h>
#include <stddef.h>

#include "kernels/base/math.h"
#include "trainer/models/attention_layers.h"
#include "trainer/models/model_family_internal.h"
#include "trainer/models/windows_internal.h"

enum { STAGES = 4, MAX_BLOCKS = 24, PATCH = 4, BIAS_HIDDEN = 512 };

static const double norm_eps = 1e-5;
static const sr_init narrow = {.kind = SR_INIT_TRUNC_NORMAL, .scale = 0.02};
static const double log_2 = 0.6931471805599453, log_10 = 2.302585092994046;

// ---- Options ----

typedef struct swin_options {
    double dropout, attention_dropout, stochastic_depth_prob;
} swin_options;

// ---- Names ----

#define PART(own, stage, here, there)                                                              \
    {                                                                                              \
        {                                                                                          \
            "features." #own ".*." here, "layers." #stage ".blocks.*." there,                      \
                "layers." #stage ".blocks.*." there                                                \
        }                                                                                          \
    }
#define STAGE(own, stage)                                                                          \
    PART(own, stage, "mlp.0", "mlp.fc1"), PART(own, stage, "mlp.3", "mlp.fc2"), {                  \
        { "features." #own ".*", "layers." #stage ".blocks.*", "layers." #stage ".blocks.*" }      \
    }
// timm counts what halves the picture to the stage that follows, Microsoft to the one before.
#define HALVING(own, before, after)                                                                \
    {                                                                                              \
        { "features." #own, "layers." #after ".downsample", "layers." #before ".downsample" }      \
    }
static const sr_weight_name_row name_rows[] = {
    {{"features.0.0", "patch_embed.proj", "patch_embed.proj"}},
    {{"features.0.2", "patch_embed.norm", "patch_embed.norm"}},
    STAGE(1, 0),
    HALVING(2, 0, 1),
    STAGE(3, 1),
    HALVING(4, 1, 2),
    STAGE(5, 2),
    HALVING(6, 2, 3),
    STAGE(7, 3),
    {{"head", "head.fc", "head"}},
};
// Of version 1; in other layouts, version 2 has other tensors.
static const sr_weight_names swin_names = {.layout = {"torchvision", "timm", "Microsoft"},
                                           .rows = name_rows,
                                           .count = sizeof name_rows / sizeof name_rows[0]};

// ---- Parameters ----

// Attention in windows. Version 1 has a table of biases, version 2 a scale of each head and a small
// network that computes the biases from relative positions.
typedef struct swin_attention {
    sr_tensor bias_table, logit_scale;
    sr_linear_layer qkv, out, bias_expand, bias_reduce;
} swin_attention;

typedef struct swin_block {
    sr_layernorm_layer norm1, norm2;
    swin_attention attention;
    sr_mlp_layer mlp;
    double drop; // probability
    int heads;
    bool shifts;
} swin_block;

// Halves the picture, before a stage but the first.
typedef struct swin_merging {
    sr_layernorm_layer norm;
    sr_linear_layer reduction;
} swin_merging;

typedef struct swin {
    swin_options options;
    int version, window; // pixels of a window's side
    int blocks_of[STAGES];
    int64_t *stored_index; // of a pair of tokens of a window: which bias is between them
    int32_t *index;        // the same
    float *coordinates;    // version 2: of each bias, what the small network reads
    sr_conv_layer patches;
    sr_layernorm_layer patches_norm, norm;
    swin_block blocks[MAX_BLOCKS];
    swin_merging merging[STAGES];
    sr_linear_layer head;
} swin;

// Sizes of a network.
typedef struct swin_size {
    int version, window;
    int64_t channels;
    int blocks[STAGES], heads[STAGES];
} swin_size;

// Tokens of a window, and relative positions of two of them.
static int64_t tokens_of(const swin *net) {
    return (int64_t)net->window * net->window;
}
static int64_t biases_of(const swin *net) {
    return (int64_t)(2 * net->window - 1) * (2 * net->window - 1);
}

static void fill_index(swin *net) {
    const int w = net->window;
    for (int64_t i = 0; i < tokens_of(net) * tokens_of(net); i++) {
        const int64_t a = i / tokens_of(net), b = i % tokens_of(net);
        const int64_t down = a / w - b / w + w - 1, right = a % w - b % w + w - 1;
        net->stored_index[i] = down * (2 * w - 1) + right;
        net->index[i] = (int32_t)net->stored_index[i];
    }
}

// Distances are on a logarithmic scale, so that another window needs little extrapolation (Liu et
// al. 2022, 3.3), computed in f32 as in torchvision.
static void fill_coordinates(swin *net) {
    const int w = net->window, side = 2 * w - 1;
    for (int i = 0; i < 2 * side * side; i++) {
        const int steps = (i % 2 == 0 ? i / 2 / side : i / 2 % side) - (w - 1);
        const float distance = fabsf((float)steps / (float)(w - 1) * 8);
        const float scaled = (float)(sr_log_f64((double)(distance + 1)) / log_2) / 3;
        net->coordinates[i] = steps < 0 ? -scaled : scaled;
    }
}

static void build_tables(sr_builder *b, swin *net) {
    const size_t pairs = (size_t)(tokens_of(net) * tokens_of(net));
    net->stored_index = sr_build_memory(b, pairs * sizeof *net->stored_index);
    net->index = sr_build_memory(b, pairs * sizeof *net->index);
    net->coordinates = sr_build_memory(b, 2 * (size_t)biases_of(net) * sizeof *net->coordinates);
    if (!net->stored_index || !net->index || !net->coordinates)
        return;
    fill_index(net);
    fill_coordinates(net);
}

static void build_bias(sr_builder *b, const swin *net, swin_attention *a, int64_t heads) {
    const int64_t table[2] = {biases_of(net), heads}, scale[3] = {heads, 1, 1};
    const int64_t side = 2 * net->window - 1;
    const sr_info index = {.dtype = SR_I64, .rank = 1, .dim = {tokens_of(net) * tokens_of(net)}};
    const sr_info coordinates = {.dtype = SR_F32, .rank = 4, .dim = {1, side, side, 2}};
    if (net->version == 1) {
        sr_build_param(b, &a->bias_table, "relative_position_bias_table", SR_PARAM_EMBEDDING, 2,
                       table, narrow);
    } else {
        sr_build_param(b, &a->logit_scale, "logit_scale", SR_PARAM_SCALE, 3, scale,
                       (sr_init){.kind = SR_INIT_CONSTANT, .scale = log_10});
        sr_build_table(b, "relative_coords_table", &coordinates, net->coordinates);
    }
    sr_build_table(b, "relative_position_index", &index, net->stored_index);
}

static void build_attention(sr_builder *b, const swin *net, swin_attention *a, int64_t channels,
                            int64_t heads) {
    sr_build_push(b, "attn");
    build_bias(b, net, a, heads);
    sr_build_linear_from(b, &a->qkv, "qkv", channels, 3 * channels, narrow);
    sr_build_linear_from(b, &a->out, "proj", channels, channels, narrow);
    if (net->version == 2) {
        sr_build_push(b, "cpb_mlp");
        sr_build_linear_from(b, &a->bias_expand, "0", 2, BIAS_HIDDEN, narrow);
        sr_build_linear(b, &a->bias_reduce, "2", BIAS_HIDDEN, heads, true);
        sr_build_set_init(b, &a->bias_reduce.weight, narrow);
        sr_build_pop(b);
    }
    sr_build_pop(b);
}

static void build_block(sr_builder *b, const swin *net, swin_block *k, int64_t channels) {
    sr_build_layernorm(b, &k->norm1, "norm1", channels, norm_eps);
    build_attention(b, net, &k->attention, channels, k->heads);
    sr_build_layernorm(b, &k->norm2, "norm2", channels, norm_eps);
    sr_build_mlp(b, &k->mlp, "mlp",
                 (sr_mlp_opts){.channels = channels,
                               .hidden = 4 * channels,
                               .dropout = net->options.dropout,
                               .weight = narrow});
}

static void build_patches(sr_builder *b, swin *net, int64_t channels) {
    sr_build_push(b, "0");
    sr_build_conv(b, &net->patches, "0",
                  (sr_conv_layer_opts){.in = 3,
                                       .out = channels,
                                       .window = PATCH,
                                       .conv = {.stride = PATCH},
                                       .has_bias = true,
                                       .init = {.kind = SR_INIT_TORCH_DEFAULT}});
    sr_build_layernorm(b, &net->patches_norm, "2", channels, norm_eps);
    sr_build_pop(b);
}

static void build_merging(sr_builder *b, const swin *net, swin_merging *m, int number,
                          int64_t channels) {
    sr_build_push(b, "%d", number);
    sr_build_linear(b, &m->reduction, "reduction", 4 * channels, 2 * channels, true);
    sr_build_set_init(b, &m->reduction.weight, narrow);
    sr_build_layernorm(b, &m->norm, "norm", net->version == 1 ? 4 * channels : 2 * channels,
                       norm_eps);
    sr_build_pop(b);
}

// Returns the number of blocks. What merges patches is of the depth of the block after it, as in
// timm.
static int build_stages(sr_builder *b, swin *net, const swin_size *size) {
    int total = 0, k = 0;
    for (int stage = 0; stage < STAGES; stage++)
        total += size->blocks[stage];
    for (int stage = 0; stage < STAGES; stage++) {
        const int64_t channels = size->channels << stage;
        sr_build_depth(b, 1 + k);
        if (stage > 0)
            build_merging(b, net, &net->merging[stage], 2 * stage, channels / 2);
        net->blocks_of[stage] = size->blocks[stage];
        for (int i = 0; i < size->blocks[stage]; i++, k++) {
            net->blocks[k].drop = net->options.stochastic_depth_prob * k / (total - 1);
            net->blocks[k].heads = size->heads[stage];
            net->blocks[k].shifts = i % 2 == 1;
            sr_build_depth(b, 1 + k);
            sr_build_push(b, "%d.%d", 2 * stage + 1, i);
            build_block(b, net, &net->blocks[k], channels);
            sr_build_pop(b);
        }
        sr_build_stage(b, channels, PATCH << stage);
    }
    return k;
}

static void build(sr_builder *b, const swin_options *options, swin *net, const swin_size *size) {
    const int64_t channels = size->channels << (STAGES - 1);
    net->options = *options;
    net->version = size->version;
    net->window = size->window;
    build_tables(b, net);
    sr_build_push(b, "features");
    sr_build_depth(b, 0);
    build_patches(b, net, size->channels);
    const int blocks = build_stages(b, net, size);
    sr_build_pop(b);
    if (sr_build_classes(b) == 0)
        return;
    sr_build_layernorm(b, &net->norm, "norm", channels, norm_eps);
    sr_build_depth(b, 1 + blocks);
    sr_build_linear_from(b, &net->head, "head", channels, sr_build_classes(b), narrow);
}

// ---- Attention ----

static sr_dtype parameter_dtype(const sr_forward *f) {
    return f->dtype == SR_F64 ? SR_F64 : SR_F32;
}

// Version 2's biases of all relative positions: [positions,heads].
static sr_tensor computed_biases(sr_forward *f, const swin *net, const swin_attention *a) {
    const sr_info info = {.dtype = SR_F32, .rank = 2, .dim = {biases_of(net), 2}};
    sr_tensor x = sr_cast(sr_constant(f->context, &info, net->coordinates), parameter_dtype(f));
    x = sr_layer_linear(&a->bias_reduce, sr_relu(sr_layer_linear(&a->bias_expand, x)));
    return sr_scale(sr_sigmoid(x), 16, 0);
}

// [1,heads,tokens,tokens], with the mask [windows,heads,tokens,tokens].
static sr_tensor bias_of(sr_forward *f, const swin *net, const swin_block *k, const sr_windows *p,
                         bool shifts) {
    const swin_attention *a = &k->attention;
    const int64_t tokens = tokens_of(net);
    const sr_info info = {.dtype = SR_I32, .rank = 1, .dim = {tokens * tokens}};
    sr_tensor bias = net->version == 1 ? a->bias_table : computed_biases(f, net, a);
    bias = sr_gather(bias, sr_constant(f->context, &info, net->index), 0);
    bias = sr_permute(bias, (int[]){1, 0});
    bias = sr_reshape(bias, 4, (int64_t[]){1, k->heads, tokens, tokens});
    return shifts ? sr_add(bias, sr_cast(p->mask, parameter_dtype(f))) : bias;
}

// x[B,N,C] with each head's channels divided by their norm, times the square root of their number.
// Zeros, as padding has them, stay zeros, and their gradient is finite: torch's 1e-12 is the least
// norm, but in f16 a thousandth.
static sr_tensor unit_heads(sr_tensor x, int64_t heads, sr_tensor scale) {
    sr_info info;
    if (!sr_tensor_info(x, &info))
        return SR_NONE;
    const int64_t depth = info.dim[2] / heads;
    x = sr_reshape(x, 4, (int64_t[]){info.dim[0], info.dim[1], heads, depth});
    const double least = info.dtype == SR_F16 ? 1e-6 : 1e-24;
    x = sr_rms_norm(x, SR_NONE, least / (double)depth);
    if (!sr_is_none(scale))
        x = sr_mul(x, scale);
    return sr_reshape(x, 3, info.dim);
}

// Factors of version 2's cosines: [heads,1].
static sr_tensor logit_scale(sr_forward *f, const swin_block *k) {
    sr_tensor scale = sr_clip(k->attention.logit_scale, -HUGE_VAL, 2 * log_10);
    scale = sr_reshape(sr_exp_op(scale), 2, (int64_t[]){k->heads, 1});
    return sr_cast(scale, f->dtype);
}

// Attention within windows x[B,tokens,C].
static sr_tensor attend(sr_forward *f, const swin *net, const swin_block *k, sr_tensor x,
                        sr_tensor bias) {
    const swin_attention *a = &k->attention;
    sr_attend_opts opts = {.heads = k->heads, .dropout = net->options.attention_dropout};
    sr_linear_layer keys = a->qkv;
    if (net->version == 2)
        keys.bias = SR_NONE; // version 2 has none for them, though the parameter has a part for it
    sr_tensor q = sr_layer_linear_part(&a->qkv, x, 0, 3);
    sr_tensor key = sr_layer_linear_part(&keys, x, 1, 3);
    sr_tensor v = sr_layer_linear_part(&a->qkv, x, 2, 3);
    sr_info info;
    if (!sr_tensor_info(q, &info))
        return SR_NONE;
    if (net->version == 2) {
        q = unit_heads(q, k->heads, logit_scale(f, k));
        key = unit_heads(key, k->heads, SR_NONE);
        opts.scale = (double)k->heads / (double)info.dim[2];
    }
    x = sr_layer_linear(&a->out, sr_layer_attention(f, q, key, v, bias, opts));
    return sr_layer_dropout(f, x, net->options.dropout);
}

// ---- Forward pass ----

static sr_tensor windows_forward(sr_forward *f, const swin *net, const swin_block *k,
                                 const sr_windows *p, sr_tensor x) {
    const bool shifts = k->shifts && sr_windows_shift(p);
    x = attend(f, net, k, sr_windows_cut(p, shifts, x), bias_of(f, net, k, p, shifts));
    return sr_windows_join(p, shifts, x);
}

// Version 2 normalises what a branch adds, version 1 what it reads.
static sr_tensor block_forward(sr_forward *f, const swin *net, const swin_block *k,
                               const sr_windows *p, sr_tensor x) {
    const bool after = net->version == 2;
    sr_tensor y = after ? x : sr_layer_layernorm(&k->norm1, x);
    y = windows_forward(f, net, k, p, y);
    y = after ? sr_layer_layernorm(&k->norm1, y) : y;
    x = sr_add(x, sr_layer_drop_path(f, y, k->drop));
    y = after ? x : sr_layer_layernorm(&k->norm2, x);
    y = sr_layer_mlp(f, &k->mlp, y);
    y = after ? sr_layer_layernorm(&k->norm2, y) : y;
    return sr_add(x, sr_layer_drop_path(f, y, k->drop));
}

// Pixels of squares of 2 x 2 become channels, in columns: [N,H,W,C] -> [N,H / 2,W / 2,2 C].
static sr_tensor merge(const swin *net, const swin_merging *m, sr_tensor x) {
    sr_info info;
    if (!sr_tensor_info(x, &info))
        return SR_NONE;
    const int odd_rows = (int)(info.dim[1] % 2), odd_columns = (int)(info.dim[2] % 2);
    if (odd_rows || odd_columns)
        x = sr_pad(x, (int[]){0, 0, 0, 0}, (int[]){0, odd_rows, odd_columns, 0});
    const int64_t n = info.dim[0], c = info.dim[3];
    const int64_t rows = (info.dim[1] + odd_rows) / 2, columns = (info.dim[2] + odd_columns) / 2;
    x = sr_reshape(x, 5, (int64_t[]){n * rows, 2, columns, 2, c});
    x = sr_permute(x, (int[]){0, 2, 3, 1, 4});
    x = sr_reshape(x, 4, (int64_t[]){n, rows, columns, 4 * c});
    if (net->version == 1)
        return sr_layer_linear(&m->reduction, sr_layer_layernorm(&m->norm, x));
    return sr_layer_layernorm(&m->norm, sr_layer_linear(&m->reduction, x));
}

static void features(sr_forward *f, const void *state, sr_tensor x, sr_tensor *stages) {
    const swin *net = state;
    const swin_block *block = net->blocks;
    x = sr_layer_layernorm(&net->patches_norm, sr_layer_conv(&net->patches, x));
    for (int stage = 0; stage < STAGES; stage++) {
        sr_windows windows;
        if (stage > 0)
            x = merge(net, &net->merging[stage], x);
        if (sr_windows_describe(f, x, net->window, &windows))
            for (int i = 0; i < net->blocks_of[stage]; i++)
                x = block_forward(f, net, block++, &windows, x);
        stages[stage] = x;
    }
}

static void forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const swin *net = state;
    sr_tensor stages[STAGES];
    features(f, state, inputs[0], stages);
    sr_tensor x = sr_layer_layernorm(&net->norm, stages[STAGES - 1]);
    sr_forward_output(f, "logits", sr_layer_linear(&net->head, sr_global_avgpool(x)));
}

// ---- The family ----

// Name, label, version, window, channels, blocks, heads, default of stochastic_depth_prob.
#define LIST(...)                                                                                  \
    { __VA_ARGS__ }
#define SWIN_FAMILY(MODEL)                                                                         \
    MODEL(swin_t, "Swin-T (Liu et al. 2021)", 1, 7, 96, LIST(2, 2, 6, 2), LIST(3, 6, 12, 24),      \
          "0.2")                                                                                   \
    MODEL(swin_s, "Swin-S (Liu et al. 2021)", 1, 7, 96, LIST(2, 2, 18, 2), LIST(3, 6, 12, 24),     \
          "0.3")                                                                                   \
    MODEL(swin_b, "Swin-B (Liu et al. 2021)", 1, 7, 128, LIST(2, 2, 18, 2), LIST(4, 8, 16, 32),    \
          "0.5")                                                                                   \
    MODEL(swin_v2_t, "Swin V2-T (Liu et al. 2022)", 2, 8, 96, LIST(2, 2, 6, 2),                    \
          LIST(3, 6, 12, 24), "0.2")                                                               \
    MODEL(swin_v2_s, "Swin V2-S (Liu et al. 2022)", 2, 8, 96, LIST(2, 2, 18, 2),                   \
          LIST(3, 6, 12, 24), "0.3")                                                               \
    MODEL(swin_v2_b, "Swin V2-B (Liu et al. 2022)", 2, 8, 128, LIST(2, 2, 18, 2),                  \
          LIST(4, 8, 16, 32), "0.5")

#define MODEL(id, label, number, side, width, stage_blocks, stage_heads, drop)                     \
    static const sr_option rows_##id[] = {                                                         \
        {.name = "dropout",                                                                        \
         .help = "dropout probability of the residual branches",                                   \
         .type = SR_OPT_FLOAT,                                                                     \
         .offset = offsetof(swin_options, dropout),                                                \
         .default_text = "0",                                                                      \
         .max = 0.99},                                                                             \
        {.name = "attention_dropout",                                                              \
         .help = "dropout probability of the attention weights; needs memory for all of them",     \
         .type = SR_OPT_FLOAT,                                                                     \
         .offset = offsetof(swin_options, attention_dropout),                                      \
         .default_text = "0",                                                                      \
         .max = 0.99},                                                                             \
        {.name = "stochastic_depth_prob",                                                          \
         .help =                                                                                   \
             "stochastic depth: probability of dropping the residual branch of the last block, "   \
             "falling linearly to 0 at the first (Huang et al. 2016)",                             \
         .type = SR_OPT_FLOAT,                                                                     \
         .offset = offsetof(swin_options, stochastic_depth_prob),                                  \
         .default_text = drop,                                                                     \
         .max = 0.99},                                                                             \
    };                                                                                             \
    static const sr_option_table table_##id = {.name = "model." #id,                               \
                                               .options = rows_##id,                               \
                                               .count = sizeof rows_##id / sizeof rows_##id[0],    \
                                               .struct_size = sizeof(swin_options)};               \
    static void build_##id(sr_builder *b, const void *options, void *state) {                      \
        static const swin_size size = {.version = (number),                                        \
                                       .window = (side),                                           \
                                       .channels = (width),                                        \
                                       .blocks = stage_blocks,                                     \
                                       .heads = stage_heads};                                      \
        build(b, options, state, &size);                                                           \
    }                                                                                              \
    SR_MODEL_DESC(id, label, swin, .options = &table_##id, .features = features,                   \
                  .names = (number) == 1 ? &swin_names : NULL)
SWIN_FAMILY(MODEL)
