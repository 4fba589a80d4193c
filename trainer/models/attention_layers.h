// SPDX-License-Identifier: Apache-2.0
// Layers of vision transformers.
#ifndef SR_TRAINER_ATTENTION_LAYERS_H
#define SR_TRAINER_ATTENTION_LAYERS_H

#include "trainer/models/layers.h"

#ifdef __cplusplus
extern "C" {
#endif

// Of sr_layer_attention; all zero is one head without dropout.
typedef struct sr_attend_opts {
    int heads;
    double scale;   // as in sr_attention_opts
    double dropout; // probability of dropping a weight, in training
} sr_attend_opts;
// Multi-head attention of q[B,N,C], k[B,M,C], v[B,M,C] with a bias, as sr_attention. With dropout
// the weights [B,heads,N,M] are in memory.
sr_tensor sr_layer_attention(sr_forward *forward, sr_tensor q, sr_tensor k, sr_tensor v,
                             sr_tensor bias, sr_attend_opts opts);

// Part number 'part' of 'parts' equal parts of a linear layer's outputs, for instance the keys of a
// projection to queries, keys and values: x[...,in] -> y[...,out / parts]. Parts of the weight are
// copied instead of parts of the result, which has many rows.
sr_tensor sr_layer_linear_part(const sr_linear_layer *layer, sr_tensor x, int part, int parts);

// Linear, GELU, dropout, linear, dropout.
typedef struct sr_mlp_layer {
    sr_linear_layer expand, reduce;
    double dropout;
} sr_mlp_layer;
// Its sizes and initial values.
typedef struct sr_mlp_opts {
    int64_t channels, hidden;
    double dropout;
    sr_init weight, bias;
} sr_mlp_opts;
// Parameters NAME.0.weight [hidden,channels], NAME.0.bias, NAME.3.weight and NAME.3.bias, as
// torchvision's MLP.
void sr_build_mlp(sr_builder *builder, sr_mlp_layer *layer, const char *name, sr_mlp_opts opts);
// x[...,channels] -> y of the same shape.
sr_tensor sr_layer_mlp(sr_forward *forward, const sr_mlp_layer *layer, sr_tensor x);

// Position embeddings for another grid: of [1,before + from height x from width,C] those after
// 'before' are resized to [1,before + height x width,C], bicubic, as sr_grid says.
sr_tensor sr_layer_resize_grid(sr_tensor x, sr_grid from, int height, int width);

#ifdef __cplusplus
}
#endif
#endif
