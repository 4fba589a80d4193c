// SPDX-License-Identifier: Apache-2.0
// Inverted residuals (Sandler et al. 2018), the block of MobileNets, MNASNet and EfficientNets:
// expand (1x1), filter each channel (depthwise), squeeze and excite, project (1x1), and add the
// input where shapes allow it.
#ifndef SR_TRAINER_INVERTED_RESIDUAL_INTERNAL_H
#define SR_TRAINER_INVERTED_RESIDUAL_INTERNAL_H

#include "trainer/models/layers.h"

// Names of a block's layers in torchvision: each of a number of its own (0.0, 0.1, 1.0, ...); the
// same, but for the projection, whose convolution and normalisation have numbers themselves; or all
// have, and activations count.
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
} sr_inverted_opts;

// Declares the layers in the builder's scope.
void sr_build_inverted(sr_builder *builder, sr_inverted_residual *block, sr_inverted_opts opts);
// x[N,H,W,in] -> y[N,P,Q,out].
sr_tensor sr_layer_inverted(sr_forward *forward, const sr_inverted_residual *block, sr_tensor x);

#endif
