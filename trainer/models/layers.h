// SPDX-License-Identifier: Apache-2.0
// Layers: structs that declare their parameters, and functions that record their operators. A model
// can do without them.
#ifndef SR_TRAINER_LAYERS_H
#define SR_TRAINER_LAYERS_H

#include "trainer/models/model.h"

#ifdef __cplusplus
extern "C" {
#endif

// A convolution.
typedef struct sr_conv_layer {
    sr_tensor weight, bias; // bias: SR_NONE if there is none
    sr_conv2d_opts opts;
} sr_conv_layer;

// Channels and geometry of a convolution.
typedef struct sr_conv_layer_opts {
    int64_t in, out;
    int window; // square
    sr_conv2d_opts conv;
    bool has_bias;
    sr_init init; // of the weight
} sr_conv_layer_opts;

// Parameters NAME.weight [out,in/groups,window,window] and NAME.bias.
void sr_build_conv(sr_builder *builder, sr_conv_layer *layer, const char *name,
                   sr_conv_layer_opts opts);
// x[N,H,W,in] -> y[N,P,Q,out], as sr_conv2d.
sr_tensor sr_layer_conv(const sr_conv_layer *layer, sr_tensor x);

// Batch normalisation with running statistics, per lane in training.
typedef struct sr_batchnorm_layer {
    sr_tensor weight, bias, running_mean, running_var;
    double eps;
} sr_batchnorm_layer;

// Settings of a normalisation; all zero gives PyTorch's defaults.
typedef struct sr_batchnorm_layer_opts {
    double eps;       // 0: 1e-5
    double momentum;  // 0: 0.1; as in PyTorch, the weight of the new value
    bool fixed_scale; // the scale is 1 and not trained
} sr_batchnorm_layer_opts;

// Parameters NAME.weight, NAME.bias, buffers NAME.running_mean, NAME.running_var and the counter
// NAME.num_batches_tracked.
void sr_build_batchnorm(sr_builder *builder, sr_batchnorm_layer *layer, const char *name,
                        int64_t channels, sr_batchnorm_layer_opts opts);
// Normalises over all but the last dimension of x; in training it reports the lane's statistics.
sr_tensor sr_layer_batchnorm(sr_forward *forward, const sr_batchnorm_layer *layer, sr_tensor x);

// A fully connected layer.
typedef struct sr_linear_layer {
    sr_tensor weight, bias;
} sr_linear_layer;
// Parameters NAME.weight [out,in] and NAME.bias [out].
void sr_build_linear(sr_builder *builder, sr_linear_layer *layer, const char *name, int64_t in,
                     int64_t out, bool no_bias);
// x[N,in] -> y[N,out].
sr_tensor sr_layer_linear(const sr_linear_layer *layer, sr_tensor x);

#ifdef __cplusplus
}
#endif
#endif
