// SPDX-License-Identifier: Apache-2.0
// Convolutions of two paths, which are added with weights that depend on what they found: for each
// sample and channel a softmax over the paths, from the means of both over all pixels. Names of
// tensors are timm's.
#ifndef SR_TRAINER_PATH_ATTENTION_INTERNAL_H
#define SR_TRAINER_PATH_ATTENTION_INTERNAL_H

#include "trainer/models/layers.h"

#define SR_PATHS 2

// The convolutions, and the layers that the weights come from.
typedef struct sr_path_layer {
    sr_conv_norm_layer conv[SR_PATHS], reduce;
    sr_conv_layer select;
} sr_path_layer;

// A 3x3 convolution and its surroundings. All zero but for channels: stride 1.
typedef struct sr_path_opts {
    int64_t channels;             // in and out
    int64_t squeezed;             // inner channels of the attention
    int stride, groups, dilation; // 0: 1
} sr_path_opts;

// Selective kernels (Li et al. 2019) as timm's SelectiveKernel with split_input: each path is a 3x3
// convolution of half of the channels, the second one dilated to 5x5. Parameters NAME.paths.N.conv,
// NAME.paths.N.bn, NAME.attn.fc_reduce, NAME.attn.bn and NAME.attn.fc_select.
void sr_build_selective(sr_builder *builder, sr_path_layer *layer, const char *name,
                        sr_path_opts opts);
// x[N,H,W,channels] -> y[N,P,Q,channels].
sr_tensor sr_layer_selective(sr_forward *forward, const sr_path_layer *layer, sr_tensor x);

// Split attention (Zhang et al. 2020) as timm's SplitAttn of cardinality 1: the paths are halves of
// one convolution with a group for each. Parameters NAME.conv, NAME.bn0, NAME.fc1, NAME.bn1 and
// NAME.fc2.
void sr_build_split_attention(sr_builder *builder, sr_path_layer *layer, const char *name,
                              sr_path_opts opts);
// x[N,H,W,channels] -> y[N,P,Q,channels].
sr_tensor sr_layer_split_attention(sr_forward *forward, const sr_path_layer *layer, sr_tensor x);

#endif
