// SPDX-License-Identifier: Apache-2.0
// Mix Transformer, the backbone of SegFormer (Xie et al. 2021), as in mmsegmentation, with its
// parameter names and initial values: each stage begins with a strided convolution, keys and values
// of its attention are reduced by another one, and a depthwise convolution between the linear
// layers stands for positions. As a classifier it has a last layer of the mean over pixels, "head".
#include <math.h>
#include <stddef.h>

#include "trainer/models/attention_layers.h"
#include "trainer/models/model_family_internal.h"

enum { STAGES = 4, MOST_LAYERS = 40, EXPANSION = 4, FILTER = 3 };
static const double norm_eps = 1e-6, linear_std = 0.02;

typedef struct mit_options {
    double drop_path;
} mit_options;

static const sr_option rows[] = {
    {.name = "drop_path",
     .help = "stochastic depth: probability of dropping the branches of the last layer, falling "
             "linearly to 0 at the first (Huang et al. 2016)",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(mit_options, drop_path),
     .default_text = "0.1",
     .max = 0.99},
};
static const sr_option_table table = {.name = "model.mit",
                                      .options = rows,
                                      .count = sizeof rows / sizeof *rows,
                                      .struct_size = sizeof(mit_options)};

// The sizes of a network.
typedef struct mit_size {
    int64_t channels; // for each head
    int layers[STAGES];
} mit_size;

// Of a stage: the window and stride of its convolution, heads, and by how much the sides of the map
// shrink for keys and values.
typedef struct stage_row {
    int window, stride, heads, reduction;
} stage_row;
static const stage_row stage_rows[STAGES] = {
    {7, 4, 1, 8}, {3, 2, 2, 4}, {3, 2, 5, 2}, {3, 2, 8, 1}};

typedef struct mit_layer {
    sr_layernorm_layer norm1, norm2, reduced_norm;
    sr_linear_layer qkv, out;
    sr_conv_layer reduce, expand, filter, project;
    double drop;
} mit_layer;

typedef struct mit {
    int layers[STAGES];
    sr_conv_layer patches[STAGES];
    sr_layernorm_layer patch_norm[STAGES], norm[STAGES];
    mit_layer layer[MOST_LAYERS];
    sr_linear_layer head;
} mit;

// ---- Parameters ----

static void build_conv(sr_builder *b, sr_conv_layer *layer, const char *name,
                       sr_conv_layer_opts opts) {
    const int64_t groups = opts.conv.groups ? opts.conv.groups : 1;
    const double outputs = (double)(opts.out * opts.window * opts.window / groups);
    opts.has_bias = opts.zero_bias = true;
    opts.init = (sr_init){.kind = SR_INIT_NORMAL, .scale = sqrt(2 / outputs)};
    sr_build_conv(b, layer, name, opts);
}

static void build_attention(sr_builder *b, mit_layer *k, int64_t c, int reduction) {
    const int64_t dim[2] = {3 * c, c};
    sr_build_push(b, "attn");
    sr_build_push(b, "attn");
    sr_build_param(b, &k->qkv.weight, "in_proj_weight", SR_PARAM_WEIGHT, 2, dim,
                   (sr_init){.kind = SR_INIT_UNIFORM, .scale = sqrt(6 / (4 * (double)c))});
    sr_build_param(b, &k->qkv.bias, "in_proj_bias", SR_PARAM_BIAS, 1, dim, (sr_init){0});
    sr_build_linear_from(b, &k->out, "out_proj", c, c,
                         (sr_init){.kind = SR_INIT_TRUNC_NORMAL, .scale = linear_std});
    sr_build_pop(b);
    if (reduction > 1) {
        build_conv(b, &k->reduce, "sr",
                   (sr_conv_layer_opts){
                       .in = c, .out = c, .window = reduction, .conv = {.stride = reduction}});
        sr_build_layernorm(b, &k->reduced_norm, "norm", c, norm_eps);
    }
    sr_build_pop(b);
}

static void build_layer(sr_builder *b, mit_layer *k, int64_t c, int reduction) {
    const int64_t hidden = EXPANSION * c;
    sr_build_layernorm(b, &k->norm1, "norm1", c, norm_eps);
    build_attention(b, k, c, reduction);
    sr_build_layernorm(b, &k->norm2, "norm2", c, norm_eps);
    sr_build_push(b, "ffn.layers");
    build_conv(b, &k->expand, "0", (sr_conv_layer_opts){.in = c, .out = hidden, .window = 1});
    build_conv(b, &k->filter, "1",
               (sr_conv_layer_opts){.in = hidden,
                                    .out = hidden,
                                    .window = FILTER,
                                    .conv = {.pad = 1, .groups = (int)hidden}});
    build_conv(b, &k->project, "4", (sr_conv_layer_opts){.in = hidden, .out = c, .window = 1});
    sr_build_pop(b);
}

static void build_patches(sr_builder *b, mit *net, int stage, int64_t in, int64_t c) {
    const stage_row *row = &stage_rows[stage];
    sr_build_push(b, "0");
    build_conv(b, &net->patches[stage], "projection",
               (sr_conv_layer_opts){.in = in,
                                    .out = c,
                                    .window = row->window,
                                    .conv = {.stride = row->stride, .pad = row->window / 2}});
    sr_build_layernorm(b, &net->patch_norm[stage], "norm", c, norm_eps);
    sr_build_pop(b);
}

// The convolution before a stage and the normalisation after it have the depths of its first and
// its last layer.
static void build(sr_builder *b, const void *options, void *state, const mit_size *size) {
    const mit_options *o = options;
    mit *net = state;
    mit_layer *k = net->layer;
    int64_t in = 3;
    int stride = 1, total = 0;
    for (int i = 0; i < STAGES; i++)
        total += net->layers[i] = size->layers[i];
    for (int i = 0; i < STAGES; i++) {
        const int64_t c = size->channels * stage_rows[i].heads;
        sr_build_push(b, "layers.%d", i);
        sr_build_depth(b, (int)(k - net->layer));
        build_patches(b, net, i, in, c);
        for (int j = 0; j < net->layers[i]; j++, k++) {
            k->drop = o->drop_path * (double)(k - net->layer) / (total - 1);
            sr_build_depth(b, (int)(k - net->layer));
            sr_build_push(b, "1.%d", j);
            build_layer(b, k, c, stage_rows[i].reduction);
            sr_build_pop(b);
        }
        sr_build_layernorm(b, &net->norm[i], "2", c, norm_eps);
        sr_build_pop(b);
        sr_build_stage(b, c, stride *= stage_rows[i].stride);
        in = c;
    }
    if (sr_build_classes(b) == 0)
        return;
    sr_build_depth(b, total);
    sr_build_linear_from(b, &net->head, "head", in, sr_build_classes(b),
                         (sr_init){.kind = SR_INIT_TRUNC_NORMAL, .scale = linear_std});
}

// ---- Forward pass ----

// [N,h,w,C] -> [N,h w,C].
static sr_tensor rows_of(sr_tensor x) {
    sr_info info;
    if (!sr_tensor_info(x, &info))
        return SR_NONE;
    return sr_reshape(x, 3, (int64_t[]){info.dim[0], info.dim[1] * info.dim[2], info.dim[3]});
}

static sr_tensor attention(sr_forward *f, const mit_layer *k, sr_tensor x, const stage_row *row) {
    sr_info info;
    sr_tensor q = rows_of(x), kv = q;
    if (!sr_tensor_info(x, &info))
        return SR_NONE;
    if (row->reduction > 1)
        kv = sr_layer_layernorm(&k->reduced_norm, rows_of(sr_layer_conv(&k->reduce, x)));
    q = sr_layer_attention(
        f, sr_layer_linear_part(&k->qkv, q, 0, 3), sr_layer_linear_part(&k->qkv, kv, 1, 3),
        sr_layer_linear_part(&k->qkv, kv, 2, 3), SR_NONE, (sr_attend_opts){.heads = row->heads});
    return sr_reshape(sr_layer_linear(&k->out, q), 4, info.dim);
}

static sr_tensor layer(sr_forward *f, const mit_layer *k, sr_tensor x, const stage_row *row) {
    sr_tensor y = attention(f, k, sr_layer_layernorm(&k->norm1, x), row);
    x = sr_add(x, sr_layer_drop_path(f, y, k->drop));
    y = sr_layer_conv(&k->expand, sr_layer_layernorm(&k->norm2, x));
    y = sr_layer_conv(&k->project, sr_gelu(sr_layer_conv(&k->filter, y)));
    return sr_add(x, sr_layer_drop_path(f, y, k->drop));
}

static void features(sr_forward *f, const void *state, sr_tensor x, sr_tensor *stages) {
    const mit *net = state;
    const mit_layer *k = net->layer;
    for (int i = 0; i < STAGES; i++) {
        x = sr_layer_layernorm(&net->patch_norm[i], sr_layer_conv(&net->patches[i], x));
        for (int j = 0; j < net->layers[i]; j++)
            x = layer(f, k++, x, &stage_rows[i]);
        stages[i] = x = sr_layer_layernorm(&net->norm[i], x);
    }
}

static void forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const mit *net = state;
    sr_tensor stages[STAGES];
    features(f, state, inputs[0], stages);
    sr_forward_output(f, "logits",
                      sr_layer_linear(&net->head, sr_global_avgpool(stages[STAGES - 1])));
}

static void build_mit_b0(sr_builder *b, const void *options, void *state) {
    static const mit_size size = {32, {2, 2, 2, 2}};
    build(b, options, state, &size);
}

SR_MODEL_DESC(mit_b0, "Mix Transformer B0, the backbone of SegFormer (Xie et al. 2021)", mit,
              .options = &table, .features = features)
