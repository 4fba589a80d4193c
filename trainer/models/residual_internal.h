// SPDX-License-Identifier: Apache-2.0
// Blocks of residual networks (He et al. 2015): a basic block of two 3x3 convolutions, or a
// bottleneck of 1x1, 3x3 and 1x1, beside a shortcut, with the variants that timm has. Names of
// tensors are torchvision's, or timm's if it alone has them.
#ifndef SR_TRAINER_RESIDUAL_INTERNAL_H
#define SR_TRAINER_RESIDUAL_INTERNAL_H

#include "trainer/models/path_attention_internal.h"

// What is in the middle of a bottleneck.
typedef enum sr_residual_middle {
    SR_MIDDLE_CONV = 0,  // a 3x3 convolution
    SR_MIDDLE_SELECTIVE, // selective kernels; names are nested, as conv1.conv
    SR_MIDDLE_SPLIT      // split attention, and an average in the place of the stride
} sr_residual_middle;

typedef struct sr_residual_block {
    int convs;
    bool squeezes, has_downsample;
    sr_residual_middle middle;
    sr_conv_norm_layer conv[3], downsample;
    sr_path_layer paths;
    sr_squeeze_layer squeeze;
    double drop;
    const float *blur, *shortcut_blur;  // filters [channels,1,3,3]; NULL: none
    sr_pool2d_opts pool, shortcut_pool; // after the middle, and of the shortcut; window 0: none
} sr_residual_block;

typedef struct sr_residual_opts {
    int64_t in, width, out; // 'width' is that of its 3x3 convolution
    int convs;              // 2: a basic block, which has no groups; 3: a bottleneck
    int stride, groups;     // 0: 1
    int dilation;           // of the 3x3 convolutions; 0: 1
    int stage_dilation;     // of the convolutions after the block; 0: 1
    sr_residual_middle middle;
    int squeeze_share; // what is added is squeezed and excited, to a share of 'out'; 0: not
    bool averages;     // the shortcut averages instead of striding (He et al. 2019, ResNet-D)
    double drop;       // probability of dropping what a sample gets added, in training
    bool blurs;        // a fixed filter before every convolution with a stride (Zhang 2019)
    bool zero_init;    // the last normalisation starts at scale 0 (Goyal et al. 2017)
} sr_residual_opts;

// Declares the layers in the builder's scope.
void sr_build_residual(sr_builder *builder, sr_residual_block *block, sr_residual_opts opts);
// x[N,H,W,in] -> y[N,P,Q,out].
sr_tensor sr_layer_residual(sr_forward *forward, const sr_residual_block *block, sr_tensor x);

#endif
