// SPDX-License-Identifier: Apache-2.0
// Layers of layers.h. Initial values are torchvision 0.14's if it has the layer.
#include "trainer/models/layers.h"

void sr_build_conv(sr_builder *builder, sr_conv_layer *layer, const char *name,
                   sr_conv_layer_opts opts) {
    int64_t groups = opts.conv.groups ? opts.conv.groups : 1;
    int64_t dim[4] = {opts.out, opts.in / groups, opts.window,
                      opts.window_w ? opts.window_w : opts.window};
    *layer = (sr_conv_layer){.opts = opts.conv};
    sr_build_push(builder, "%s", name);
    sr_build_param(builder, &layer->weight, "weight", SR_PARAM_WEIGHT, 4, dim, opts.init);
    const sr_init bias = {.kind = opts.zero_bias ? SR_INIT_ZERO : SR_INIT_TORCH_DEFAULT,
                          .fan_in = dim[1] * dim[2] * dim[3]};
    if (opts.has_bias)
        sr_build_param(builder, &layer->bias, "bias", SR_PARAM_BIAS, 1, dim, bias);
    sr_build_pop(builder);
}

sr_tensor sr_layer_conv(const sr_conv_layer *layer, sr_tensor x) {
    if (sr_is_none(layer->bias))
        return sr_conv2d(x, layer->weight, layer->opts);
    return sr_conv2d_bias(x, layer->weight, layer->bias, layer->opts);
}

void sr_build_batchnorm(sr_builder *builder, sr_batchnorm_layer *layer, const char *name,
                        int64_t channels, sr_batchnorm_layer_opts opts) {
    double momentum = opts.momentum > 0 ? opts.momentum : 0.1;
    *layer = (sr_batchnorm_layer){.eps = opts.eps > 0 ? opts.eps : 1e-5};
    sr_build_push(builder, "%s", name);
    sr_build_param(builder, &layer->weight, "weight",
                   opts.fixed_scale ? SR_PARAM_FROZEN : SR_PARAM_NORM, 1, &channels,
                   (sr_init){.kind = SR_INIT_ONE});
    sr_build_param(builder, &layer->bias, "bias", SR_PARAM_NORM, 1, &channels, (sr_init){0});
    sr_build_buffer(builder, &layer->running_mean, "running_mean", channels, (sr_init){0},
                    momentum);
    sr_build_buffer(builder, &layer->running_var, "running_var", channels,
                    (sr_init){.kind = SR_INIT_ONE}, momentum);
    sr_build_counter(builder, "num_batches_tracked");
    sr_build_pop(builder);
}

sr_tensor sr_layer_batchnorm(sr_forward *forward, const sr_batchnorm_layer *layer, sr_tensor x) {
    if (!forward->training)
        return sr_batchnorm_infer(x, layer->weight, layer->bias, layer->running_mean,
                                  layer->running_var, layer->eps);
    const int64_t lanes = forward->norm_lanes;
    const sr_batchnorm_out out =
        lanes > 1 ? sr_batchnorm_group(x, layer->weight, layer->bias, layer->eps, lanes)
                  : sr_batchnorm_train(x, layer->weight, layer->bias, layer->eps);
    sr_info info;
    if (!sr_tensor_info(x, &info))
        return out.y;
    double rows = (double)(sr_info_count(&info) / info.dim[info.rank - 1]);
    if (lanes > 1)
        rows *= (double)lanes;
    sr_forward_statistic(forward, layer->running_mean, out.mean);
    sr_forward_statistic(forward, layer->running_var,
                         sr_scale(out.var, rows / (rows > 1 ? rows - 1 : 1), 0));
    return out.y;
}

void sr_build_linear(sr_builder *builder, sr_linear_layer *layer, const char *name, int64_t in,
                     int64_t out, bool no_bias) {
    int64_t dim[2] = {out, in};
    *layer = (sr_linear_layer){0};
    sr_build_push(builder, "%s", name);
    sr_build_param(builder, &layer->weight, "weight", SR_PARAM_WEIGHT, 2, dim,
                   (sr_init){.kind = SR_INIT_TORCH_DEFAULT});
    if (!no_bias)
        sr_build_param(builder, &layer->bias, "bias", SR_PARAM_BIAS, 1, dim,
                       (sr_init){.kind = SR_INIT_TORCH_DEFAULT, .fan_in = in});
    sr_build_pop(builder);
}

void sr_build_linear_from(sr_builder *builder, sr_linear_layer *layer, const char *name, int64_t in,
                          int64_t out, sr_init init) {
    sr_build_linear(builder, layer, name, in, out, false);
    sr_build_set_init(builder, &layer->weight, init);
    sr_build_set_init(builder, &layer->bias, (sr_init){0});
}

sr_tensor sr_layer_linear(const sr_linear_layer *layer, sr_tensor x) {
    return sr_linear(x, layer->weight, layer->bias);
}

sr_tensor sr_layer_activation(sr_activation activation, sr_tensor x) {
    return activation ? (sr_at(__FILE__, __LINE__), activation(x)) : x;
}

static sr_init fan_out_unless(sr_init given) {
    return given.kind == SR_INIT_ZERO ? (sr_init){.kind = SR_INIT_KAIMING_FAN_OUT} : given;
}

static void pad_by_half(sr_conv_layer_opts *opts) {
    const int dilation = opts->conv.dilation ? opts->conv.dilation : 1;
    opts->conv.pad = (opts->window - 1) / 2 * dilation;
    if (opts->window_w == 0)
        return;
    opts->conv.has_pad_w = true;
    opts->conv.pad_w = (opts->window_w - 1) / 2 * dilation;
}

void sr_build_conv_norm_as(sr_builder *builder, sr_conv_norm_layer *layer, const char *conv,
                           const char *norm, sr_conv_norm_opts opts) {
    if (opts.conv.conv.pad == 0 && !opts.no_padding)
        pad_by_half(&opts.conv);
    opts.conv.init = fan_out_unless(opts.conv.init);
    layer->activation = opts.activation;
    sr_build_conv(builder, &layer->conv, conv, opts.conv);
    sr_build_batchnorm(builder, &layer->norm, norm, opts.conv.out, opts.norm);
}

void sr_build_conv_norm(sr_builder *builder, sr_conv_norm_layer *layer, const char *name,
                        sr_conv_norm_opts opts) {
    sr_build_push(builder, "%s", name);
    sr_build_conv_norm_as(builder, layer, "0", "1", opts);
    sr_build_pop(builder);
}

sr_tensor sr_layer_conv_norm(sr_forward *forward, const sr_conv_norm_layer *layer, sr_tensor x) {
    x = sr_layer_batchnorm(forward, &layer->norm, sr_layer_conv(&layer->conv, x));
    return sr_layer_activation(layer->activation, x);
}

void sr_build_squeeze(sr_builder *builder, sr_squeeze_layer *layer, const char *name,
                      sr_squeeze_opts opts) {
    sr_conv_layer_opts fc = {.in = opts.channels,
                             .out = opts.squeezed,
                             .window = 1,
                             .has_bias = true,
                             .zero_bias = !opts.default_bias,
                             .init = fan_out_unless(opts.init)};
    layer->activation = opts.activation ? opts.activation : sr_relu;
    layer->gate = opts.gate ? opts.gate : sr_sigmoid;
    sr_build_push(builder, "%s", name);
    sr_build_conv(builder, &layer->fc1, "fc1", fc);
    fc.in = opts.squeezed;
    fc.out = opts.channels;
    sr_build_conv(builder, &layer->fc2, "fc2", fc);
    sr_build_pop(builder);
}

sr_tensor sr_layer_squeeze(const sr_squeeze_layer *layer, sr_tensor x) {
    sr_tensor scale = sr_global_avgpool(x);
    sr_info info;
    if (!sr_tensor_info(scale, &info))
        return SR_NONE;
    scale = sr_reshape(scale, 4, (int64_t[]){info.dim[0], 1, 1, info.dim[1]});
    scale = sr_layer_activation(layer->activation, sr_layer_conv(&layer->fc1, scale));
    scale = sr_layer_activation(layer->gate, sr_layer_conv(&layer->fc2, scale));
    return sr_mul(x, scale);
}

void sr_build_layernorm(sr_builder *builder, sr_layernorm_layer *layer, const char *name,
                        int64_t channels, double eps) {
    *layer = (sr_layernorm_layer){.eps = eps};
    sr_build_push(builder, "%s", name);
    sr_build_param(builder, &layer->weight, "weight", SR_PARAM_NORM, 1, &channels,
                   (sr_init){.kind = SR_INIT_ONE});
    sr_build_param(builder, &layer->bias, "bias", SR_PARAM_NORM, 1, &channels, (sr_init){0});
    sr_build_pop(builder);
}

sr_tensor sr_layer_layernorm(const sr_layernorm_layer *layer, sr_tensor x) {
    return sr_layer_norm(x, layer->weight, layer->bias, layer->eps);
}

sr_tensor sr_layer_dropout(sr_forward *forward, sr_tensor x, double probability) {
    const uint32_t scope = forward->next_scope++;
    return forward->training && probability > 0 ? sr_dropout(x, forward->key, probability, scope)
                                                : x;
}

sr_tensor sr_layer_drop_path(sr_forward *forward, sr_tensor x, double probability) {
    const uint32_t scope = forward->next_scope++;
    return forward->training && probability > 0 ? sr_drop_path(x, forward->key, probability, scope)
                                                : x;
}

sr_tensor sr_layer_transform_input(sr_forward *forward, sr_tensor x) {
    static const float scale[] = {0.229F / 0.5F, 0.224F / 0.5F, 0.225F / 0.5F};
    static const float shift[] = {(0.485F - 0.5F) / 0.5F, (0.456F - 0.5F) / 0.5F,
                                  (0.406F - 0.5F) / 0.5F};
    const sr_info info = {.dtype = SR_F32, .rank = 1, .dim = {3}};
    sr_tensor factor = sr_cast(sr_constant(forward->context, &info, scale), forward->dtype);
    sr_tensor term = sr_cast(sr_constant(forward->context, &info, shift), forward->dtype);
    return sr_add(sr_mul(x, factor), term);
}

sr_tensor sr_layer_flatten_channels(sr_tensor x) {
    return sr_flatten(sr_permute(x, (int[]){0, 3, 1, 2}));
}

int64_t sr_round_channels(double channels, int64_t divisor) {
    int64_t rounded = (int64_t)(channels + (double)divisor / 2) / divisor * divisor;
    rounded = rounded > divisor ? rounded : divisor;
    return (double)rounded < 0.9 * channels ? rounded + divisor : rounded;
}
