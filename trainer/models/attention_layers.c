// SPDX-License-Identifier: Apache-2.0
// Layers of attention_layers.h.
#include "trainer/models/attention_layers.h"

#include <math.h>

// ---- Attention ----

// [B,N,C] -> [B,heads,N,C / heads].
static sr_tensor split_heads(sr_tensor x, int heads) {
    sr_info info;
    if (!sr_tensor_info(x, &info))
        return SR_NONE;
    x = sr_reshape(x, 4, (int64_t[]){info.dim[0], info.dim[1], heads, info.dim[2] / heads});
    return sr_permute(x, (int[]){0, 2, 1, 3});
}

// The inverse.
static sr_tensor join_heads(sr_tensor x) {
    sr_info info;
    if (!sr_tensor_info(x, &info))
        return SR_NONE;
    x = sr_permute(x, (int[]){0, 2, 1, 3});
    return sr_reshape(x, 3, (int64_t[]){info.dim[0], info.dim[2], info.dim[1] * info.dim[3]});
}

// scores [B,heads,N,M] + bias [G,heads,N,M], that of batch b being b % G.
static sr_tensor add_bias(sr_tensor scores, sr_tensor bias) {
    sr_info info, own;
    if (sr_is_none(bias))
        return scores;
    if (!sr_tensor_info(scores, &info) || !sr_tensor_info(bias, &own))
        return SR_NONE;
    const int64_t grouped[5] = {info.dim[0] / own.dim[0], own.dim[0], info.dim[1], info.dim[2],
                                info.dim[3]};
    scores = sr_add(sr_reshape(scores, 5, grouped), sr_cast(bias, info.dtype));
    return sr_reshape(scores, 4, info.dim);
}

sr_tensor sr_layer_attention(sr_forward *f, sr_tensor q, sr_tensor k, sr_tensor v, sr_tensor bias,
                             sr_attend_opts opts) {
    sr_info info;
    if (!f->training || opts.dropout <= 0) {
        f->next_scope++; // that of the dropout
        return sr_attention(q, k, v, bias,
                            (sr_attention_opts){.heads = opts.heads, .scale = opts.scale});
    }
    const int heads = opts.heads ? opts.heads : 1;
    q = split_heads(q, heads);
    if (!sr_tensor_info(q, &info))
        return SR_NONE;
    const double scale = opts.scale != 0 ? opts.scale : 1 / sqrt((double)info.dim[3]);
    const sr_matmul_opts product = {.transpose_b = true, .alpha = scale};
    sr_tensor weights = add_bias(sr_matmul(q, split_heads(k, heads), product), bias);
    weights = sr_layer_dropout(f, sr_softmax(weights, 3), opts.dropout);
    return join_heads(sr_matmul(weights, split_heads(v, heads), (sr_matmul_opts){.alpha = 1}));
}

sr_tensor sr_layer_linear_part(const sr_linear_layer *layer, sr_tensor x, int part, int parts) {
    sr_info info;
    if (!sr_tensor_info(layer->weight, &info))
        return SR_NONE;
    const int64_t count = info.dim[0] / parts;
    sr_tensor bias = layer->bias;
    if (!sr_is_none(bias))
        bias = sr_slice(bias, 0, part * count, count, 1);
    return sr_linear(x, sr_slice(layer->weight, 0, part * count, count, 1), bias);
}

// ---- The other half of a block ----

void sr_build_mlp(sr_builder *b, sr_mlp_layer *layer, const char *name, sr_mlp_opts o) {
    sr_linear_layer *const part[2] = {&layer->expand, &layer->reduce};
    layer->dropout = o.dropout;
    sr_build_push(b, "%s", name);
    sr_build_linear(b, part[0], "0", o.channels, o.hidden, false);
    sr_build_linear(b, part[1], "3", o.hidden, o.channels, false);
    sr_build_pop(b);
    for (int i = 0; i < 2; i++) {
        sr_build_set_init(b, &part[i]->weight, o.weight);
        sr_build_set_init(b, &part[i]->bias, o.bias);
    }
}

sr_tensor sr_layer_mlp(sr_forward *f, const sr_mlp_layer *layer, sr_tensor x) {
    x = sr_layer_dropout(f, sr_gelu(sr_layer_linear(&layer->expand, x)), layer->dropout);
    return sr_layer_dropout(f, sr_layer_linear(&layer->reduce, x), layer->dropout);
}

// ---- Position embeddings ----

sr_tensor sr_layer_resize_grid(sr_tensor x, sr_grid from, int height, int width) {
    sr_info info;
    if (!sr_tensor_info(x, &info))
        return SR_NONE;
    const int64_t cells = (int64_t)from.height * from.width, channels = info.dim[2];
    sr_tensor grid = sr_slice(x, 1, from.before, cells, 1);
    grid = sr_reshape(grid, 4, (int64_t[]){1, from.height, from.width, channels});
    grid = sr_resize2d(grid, (sr_resize2d_opts){.height = height,
                                                .width = width,
                                                .mode = SR_RESIZE_BICUBIC,
                                                .align_corners = !from.antialias,
                                                .antialias = from.antialias});
    grid = sr_reshape(grid, 3, (int64_t[]){1, (int64_t)height * width, channels});
    if (from.before == 0)
        return grid;
    return sr_concat((sr_tensor[]){sr_slice(x, 1, 0, from.before, 1), grid}, 2, 1);
}
