// SPDX-License-Identifier: Apache-2.0
// Inverted residuals (Sandler et al. 2018), the block of MobileNets, MNASNet and EfficientNets:
// expand (1x1), filter each channel (depthwise), squeeze and excite, project (1x1), and add the
// input where shapes allow it.
#ifndef SR_TRAINER_INVERTED_RESIDUAL_INTERNAL_H
#define SR_TRAINER_INVERTED_RESIDUAL_INTERNAL_H

#include "trainer/models/layers.h"

// Names of a block's layers in torchvision: each layer has a number of its own (0.0, 0.1, 1.0,
// ...); the same, except that the projection's convolution and normalisation have a number each; or
// convolutions, normalisations and activations all have a number each.
typedef enum sr_inverted_names {
    SR_INVERTED_NESTED = 0,
    SR_INVERTED_FLAT_END,
    SR_INVERTED_FLAT
} sr_inverted_names;

typedef struct sr_inverted_residual {
    bool expands, filters, squeezes, adds;
    sr_conv_norm_layer expand, depthwise, project;
    sr_squeeze_layer squeeze;
    double drop;
} sr_inverted_residual;

typedef struct sr_inverted_opts {
    int64_t in, expanded, out;
    int window, stride;
    int dilation; // above 1: instead of the stride
    bool fused;   // expansion and filter are one dense convolution (Tan & Le 2021)
    sr_activation activation;
    sr_batchnorm_layer_opts norm;
    sr_squeeze_opts squeeze; // 'channels' is set here; squeezed 0: none
    double drop;             // of the residual's samples, in training
    sr_inverted_names names;
    int first_number; // of its layers' names
} sr_inverted_opts;

// Declares the layers in the builder's scope.
void sr_build_inverted(sr_builder *builder, sr_inverted_residual *block, sr_inverted_opts opts);
// x[N,H,W,in] -> y[N,P,Q,out].
sr_tensor sr_layer_inverted(sr_forward *forward, const sr_inverted_residual *block, sr_tensor x);

// Rows of sr_weight_names for a block: its scope in torchvision and the number that it has in timm,
// as "1.0", both with a dot at the end, then torchvision's names of convolutions and
// normalisations.
#define SR_INVERTED_ROW(own, timm, here, there)                                                    \
    {                                                                                              \
        { own here, "blocks." timm there }                                                         \
    }
#define SR_INVERTED_ROWS(own, timm, expand, expand_norm, depthwise, depthwise_norm, project,       \
                         project_norm)                                                             \
    SR_INVERTED_ROW(own, timm, expand, "conv_pw"), SR_INVERTED_ROW(own, timm, expand_norm, "bn1"), \
        SR_INVERTED_ROW(own, timm, depthwise, "conv_dw"),                                          \
        SR_INVERTED_ROW(own, timm, depthwise_norm, "bn2"),                                         \
        SR_INVERTED_ROW(own, timm, project, "conv_pwl"),                                           \
        SR_INVERTED_ROW(own, timm, project_norm, "bn3")
// Of one without an expansion.
#define SR_SEPARABLE_ROWS(own, timm, depthwise, depthwise_norm, project, project_norm)             \
    SR_INVERTED_ROW(own, timm, depthwise, "conv_dw"),                                              \
        SR_INVERTED_ROW(own, timm, depthwise_norm, "bn1"),                                         \
        SR_INVERTED_ROW(own, timm, project, "conv_pw"),                                            \
        SR_INVERTED_ROW(own, timm, project_norm, "bn2")
#define SR_SQUEEZE_ROWS(own, timm, squeeze)                                                        \
    SR_INVERTED_ROW(own, timm, squeeze ".fc1", "se.conv_reduce"),                                  \
        SR_INVERTED_ROW(own, timm, squeeze ".fc2", "se.conv_expand")
// Those of SR_INVERTED_NESTED, with and without squeeze and excitation.
#define SR_NESTED_ROWS(own, timm)                                                                  \
    SR_INVERTED_ROWS(own, timm, "0.0", "0.1", "1.0", "1.1", "2.0", "2.1")
#define SR_NESTED_SQUEEZE_ROWS(own, timm)                                                          \
    SR_INVERTED_ROWS(own, timm, "0.0", "0.1", "1.0", "1.1", "3.0", "3.1"),                         \
        SR_SQUEEZE_ROWS(own, timm, "2")

// Note on timm's weights, for models to which torchvision gives another epsilon.
#define SR_BN_EPS_NOTE "whose own networks have bn_eps: 1e-5"

#define SR_MOBILE_BLOCKS 80
// A network of such blocks: a first convolution of stride 2, blocks, a last 1x1 convolution. A
// model's state begins with one.
typedef struct sr_mobile_trunk {
    sr_conv_norm_layer first, last; // declared by the model
    sr_inverted_residual block[SR_MOBILE_BLOCKS];
    bool strides[SR_MOBILE_BLOCKS]; // this block begins a stage
    bool takes_first; // set by the model: the map of a stage is that of its first block, not of its
                      // last
    int blocks, stages;
    int64_t channels; // of the last block
    int stride;       // of its map; 0: no block yet, 2
} sr_mobile_trunk;

// Declares the next block in the builder's scope, and at one with a stride a stage: the one before
// it, or its own.
void sr_build_mobile_block(sr_builder *builder, sr_mobile_trunk *trunk, sr_inverted_opts opts);
// Declares the last stage, of so many channels.
void sr_build_mobile_end(sr_builder *builder, sr_mobile_trunk *trunk, int64_t channels);
// Of sr_model_desc: all stages. The last one is the map of the last convolution.
void sr_mobile_features(sr_forward *forward, const void *state, sr_tensor x, sr_tensor *stages);
// That map's means over pixels, [N,C].
sr_tensor sr_mobile_pooled(sr_forward *forward, const sr_mobile_trunk *trunk, sr_tensor x);

#endif
