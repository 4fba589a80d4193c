// SPDX-License-Identifier: Apache-2.0
// Layers: structs that declare their parameters, and functions that record their operators. A model
// can do without them.
#ifndef SR_TRAINER_LAYERS_H
#define SR_TRAINER_LAYERS_H

#include <stddef.h>

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
    int window, window_w; // rows and columns; window_w 0: as window
    sr_conv2d_opts conv;
    bool has_bias;
    sr_init init;   // of the weight
    bool zero_bias; // the bias starts at 0, not as SR_INIT_TORCH_DEFAULT
} sr_conv_layer_opts;

// Parameters NAME.weight [out,in/groups,window,window_w] and NAME.bias.
void sr_build_conv(sr_builder *builder, sr_conv_layer *layer, const char *name,
                   sr_conv_layer_opts opts);
// x[N,H,W,in] -> y[N,P,Q,out], as sr_conv2d.
sr_tensor sr_layer_conv(const sr_conv_layer *layer, sr_tensor x);

// Batch normalisation with running statistics, in training per lane or group of lanes
// (sr_forward.norm_lanes).
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
// Normalises over all but the last dimension of x; in training it reports the statistics.
sr_tensor sr_layer_batchnorm(sr_forward *forward, const sr_batchnorm_layer *layer, sr_tensor x);

// A fully connected layer.
typedef struct sr_linear_layer {
    sr_tensor weight, bias;
} sr_linear_layer;
// Parameters NAME.weight [out,in] and NAME.bias [out].
void sr_build_linear(sr_builder *builder, sr_linear_layer *layer, const char *name, int64_t in,
                     int64_t out, bool no_bias);
// The same with a weight initialised by 'init' and a bias, initially 0.
void sr_build_linear_from(sr_builder *builder, sr_linear_layer *layer, const char *name, int64_t in,
                          int64_t out, sr_init init);
// x[...,in] -> y[...,out].
sr_tensor sr_layer_linear(const sr_linear_layer *layer, sr_tensor x);

// An operator of one input, as sr_relu without parentheses; NULL: none.
typedef sr_tensor (*sr_activation)(sr_tensor x);
// activation(x), or x.
sr_tensor sr_layer_activation(sr_activation activation, sr_tensor x);

// A convolution, its batch normalisation and an activation: a block of most networks, with the
// names of torchvision's Conv2dNormActivation.
typedef struct sr_conv_norm_layer {
    sr_conv_layer conv;
    sr_batchnorm_layer norm;
    sr_activation activation;
} sr_conv_norm_layer;
// Its parts. If all but channels and window is zero, it is a convolution of stride 1 and a
// normalisation.
typedef struct sr_conv_norm_opts {
    // conv.pad 0: half of the dilated window, so that stride 1 keeps the size; init of kind
    // SR_INIT_ZERO: SR_INIT_KAIMING_FAN_OUT
    sr_conv_layer_opts conv;
    bool no_padding;
    sr_batchnorm_layer_opts norm;
    sr_activation activation;
} sr_conv_norm_opts;
// Parameters NAME.0.weight and, of the normalisation, NAME.1.weight, NAME.1.bias, NAME.1.running_*.
void sr_build_conv_norm(sr_builder *builder, sr_conv_norm_layer *layer, const char *name,
                        sr_conv_norm_opts opts);
// The same with other names: CONV.weight, NORM.weight, NORM.bias, NORM.running_*.
void sr_build_conv_norm_as(sr_builder *builder, sr_conv_norm_layer *layer, const char *conv,
                           const char *norm, sr_conv_norm_opts opts);
// x[N,H,W,in] -> y[N,P,Q,out].
sr_tensor sr_layer_conv_norm(sr_forward *forward, const sr_conv_norm_layer *layer, sr_tensor x);

// Squeeze and excitation (Hu et al. 2018): channels are scaled by gate(fc2(activation(fc1(mean over
// pixels)))).
typedef struct sr_squeeze_layer {
    sr_conv_layer fc1, fc2;
    sr_activation activation, gate;
} sr_squeeze_layer;
// Its sizes and activations.
typedef struct sr_squeeze_opts {
    int64_t channels, squeezed;
    sr_activation activation; // NULL: sr_relu
    sr_activation gate;       // NULL: sr_sigmoid
    sr_init init;             // of both weights, of kind SR_INIT_ZERO: SR_INIT_KAIMING_FAN_OUT
    bool default_bias;        // biases start as SR_INIT_TORCH_DEFAULT, not at 0
} sr_squeeze_opts;
// Parameters NAME.fc1.weight [squeezed,channels,1,1], NAME.fc1.bias, and of fc2 the inverse.
void sr_build_squeeze(sr_builder *builder, sr_squeeze_layer *layer, const char *name,
                      sr_squeeze_opts opts);
// x[N,H,W,channels] -> y of the same shape.
sr_tensor sr_layer_squeeze(const sr_squeeze_layer *layer, sr_tensor x);

// Layer normalisation over the last dimension.
typedef struct sr_layernorm_layer {
    sr_tensor weight, bias;
    double eps;
} sr_layernorm_layer;
// Parameters NAME.weight and NAME.bias.
void sr_build_layernorm(sr_builder *builder, sr_layernorm_layer *layer, const char *name,
                        int64_t channels, double eps);
// x[...,channels] -> y of the same shape.
sr_tensor sr_layer_layernorm(const sr_layernorm_layer *layer, sr_tensor x);

// sr_dropout in training, under the next scope of the pass, which is used up even if the
// probability is 0.
sr_tensor sr_layer_dropout(sr_forward *forward, sr_tensor x, double probability);
// The same with sr_drop_path.
sr_tensor sr_layer_drop_path(sr_forward *forward, sr_tensor x, double probability);
// A row of a model's option table, for a double 'dropout' of its options.
#define SR_DROPOUT_OPTION(type_, default_)                                                         \
    {                                                                                              \
        .name = "dropout", .help = "dropout probability before the last layer",                    \
        .type = SR_OPT_FLOAT, .offset = offsetof(type_, dropout), .default_text = default_,        \
        .max = 0.99                                                                                \
    }

// What numbers of channels are multiples of where width_mult changes them.
#define SR_WIDTH_DIVISOR 8
// Option width_mult of a network, whose layers have sr_round_channels(channels width_mult,
// SR_WIDTH_DIVISOR) channels.
#define SR_WIDTH_OPTION(type_)                                                                     \
    {                                                                                              \
        .name = "width_mult",                                                                      \
        .help = "factor of the number of channels of every layer, which is rounded to a multiple " \
                "of 8",                                                                            \
        .type = SR_OPT_FLOAT, .offset = offsetof(type_, width_mult), .default_text = "1",          \
        .min = 0.05, .max = 16                                                                     \
    }

// Option bn_eps of a network with batch normalisation, for sr_batchnorm_layer_opts.
#define SR_BN_EPS_OPTION(type_, default_)                                                          \
    {                                                                                              \
        .name = "bn_eps", .help = "epsilon, which batch norm adds to variances",                   \
        .type = SR_OPT_FLOAT, .offset = offsetof(type_, bn_eps), .default_text = default_,         \
        .min = 1e-12, .max = 1                                                                     \
    }

// Pictures that were normalised by the mean and deviation of ImageNet's channels, as torchvision's
// weights expect them, normalised by mean and deviation 1/2 instead.
sr_tensor sr_layer_transform_input(sr_forward *forward, sr_tensor x);

// x[N,H,W,C] -> y[N,C H W], channel after channel, as torch.flatten does.
sr_tensor sr_layer_flatten_channels(sr_tensor x);

// The multiple of 'divisor' that is nearest to 'channels', at least 'divisor', and at least nine
// tenths of 'channels' (Sandler et al. 2018; torchvision's _make_divisible).
int64_t sr_round_channels(double channels, int64_t divisor);

#ifdef __cplusplus
}
#endif
#endif
