// SPDX-License-Identifier: Apache-2.0
// See path_attention_internal.h. Weights start as timm's: He et al. 2015, biases as PyTorch's.
#include "trainer/models/path_attention_internal.h"

// The convolution of one path, or of all.
static sr_conv_norm_opts conv_of(const sr_path_opts *o, int64_t in, int64_t out) {
    return (sr_conv_norm_opts){
        .conv = {.in = in,
                 .out = out,
                 .window = 3,
                 .conv = {.stride = o->stride, .dilation = o->dilation, .groups = o->groups}},
        .activation = sr_relu};
}

// What the softmax is computed from; names: of two convolutions and the normalisation between them.
static void build_attention(sr_builder *b, sr_path_layer *layer, const sr_path_opts *o,
                            const char *const names[3], bool has_bias) {
    const sr_conv_layer_opts reduce = {
        .in = o->channels, .out = o->squeezed, .window = 1, .has_bias = has_bias};
    const sr_conv_layer_opts select = {.in = o->squeezed,
                                       .out = o->channels * SR_PATHS,
                                       .window = 1,
                                       .has_bias = has_bias,
                                       .init = {.kind = SR_INIT_KAIMING_FAN_OUT}};
    sr_build_conv_norm_as(b, &layer->reduce, names[0], names[1],
                          (sr_conv_norm_opts){.conv = reduce, .activation = sr_relu});
    sr_build_conv(b, &layer->select, names[2], select);
}

void sr_build_selective(sr_builder *b, sr_path_layer *layer, const char *name, sr_path_opts o) {
    static const char *const names[3] = {"fc_reduce", "bn", "fc_select"};
    const int dilation = o.dilation ? o.dilation : 1;
    sr_build_push(b, "%s", name);
    for (int i = 0; i < SR_PATHS; i++) {
        o.dilation = dilation * (i + 1);
        sr_build_push(b, "paths.%d", i);
        sr_build_conv_norm_as(b, &layer->conv[i], "conv", "bn",
                              conv_of(&o, o.channels / SR_PATHS, o.channels));
        sr_build_pop(b);
    }
    sr_build_push(b, "attn");
    build_attention(b, layer, &o, names, false);
    sr_build_pop(b);
    sr_build_pop(b);
}

void sr_build_split_attention(sr_builder *b, sr_path_layer *layer, const char *name,
                              sr_path_opts o) {
    static const char *const names[3] = {"fc1", "bn1", "fc2"};
    o.groups = SR_PATHS * (o.groups ? o.groups : 1);
    sr_build_push(b, "%s", name);
    sr_build_conv_norm_as(b, &layer->conv[0], "conv", "bn0",
                          conv_of(&o, o.channels, o.channels * SR_PATHS));
    build_attention(b, layer, &o, names, true);
    sr_build_pop(b);
}

// [N,C] of each path -> its weights, [N,1,1,C].
static bool weigh(sr_forward *f, const sr_path_layer *layer, const sr_tensor *path,
                  sr_tensor *weight) {
    sr_info info;
    sr_tensor x = sr_add(sr_global_avgpool(path[0]), sr_global_avgpool(path[1]));
    if (!sr_tensor_info(x, &info))
        return false;
    const int64_t n = info.dim[0], c = info.dim[1], pixel[4] = {n, 1, 1, c};
    x = sr_layer_conv_norm(f, &layer->reduce, sr_reshape(x, 4, pixel));
    x = sr_reshape(sr_layer_conv(&layer->select, x), 3, (int64_t[]){n, SR_PATHS, c});
    x = sr_softmax(x, 1);
    for (int i = 0; i < SR_PATHS; i++)
        weight[i] = sr_reshape(sr_slice(x, 1, i, 1, 1), 4, pixel);
    return true;
}

static sr_tensor attend(sr_forward *f, const sr_path_layer *layer, const sr_tensor *path) {
    sr_tensor weight[SR_PATHS];
    if (!weigh(f, layer, path, weight))
        return SR_NONE;
    return sr_add(sr_mul(path[0], weight[0]), sr_mul(path[1], weight[1]));
}

sr_tensor sr_layer_selective(sr_forward *f, const sr_path_layer *layer, sr_tensor x) {
    sr_tensor path[SR_PATHS] = {SR_NONE, SR_NONE};
    sr_split(x, 3, SR_PATHS, NULL, path);
    for (int i = 0; i < SR_PATHS; i++)
        path[i] = sr_layer_conv_norm(f, &layer->conv[i], path[i]);
    return attend(f, layer, path);
}

sr_tensor sr_layer_split_attention(sr_forward *f, const sr_path_layer *layer, sr_tensor x) {
    sr_tensor path[SR_PATHS] = {SR_NONE, SR_NONE};
    sr_split(sr_layer_conv_norm(f, &layer->conv[0], x), 3, SR_PATHS, NULL, path);
    return attend(f, layer, path);
}
