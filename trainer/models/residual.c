// SPDX-License-Identifier: Apache-2.0
// See residual_internal.h.
#include "trainer/models/residual_internal.h"

#include <stdio.h>

enum { WINDOW = 3, SQUEEZED_MULTIPLE = 8, LEAST_SPLIT = 32 };

static sr_conv_norm_opts conv_of(int64_t in, int64_t out, int window, sr_conv2d_opts conv,
                                 sr_activation activation) {
    return (sr_conv_norm_opts){.conv = {.in = in, .out = out, .window = window, .conv = conv},
                               .activation = activation};
}

// Convolution number 'number' from 1 on; no activation follows the last one.
static void build_conv(sr_builder *b, sr_residual_block *k, int number, sr_conv_norm_opts opts) {
    const bool nested = k->middle == SR_MIDDLE_SELECTIVE;
    char conv[16], norm[16];
    (void)snprintf(conv, sizeof conv, "conv%d%s", number, nested ? ".conv" : "");
    (void)snprintf(norm, sizeof norm, "%s%d%s", nested ? "conv" : "bn", number,
                   nested ? ".bn" : "");
    opts.activation = number < k->convs ? sr_relu : NULL;
    sr_build_conv_norm_as(b, &k->conv[number - 1], conv, norm, opts);
}

// ---- The middle of a bottleneck ----

static void build_plain(sr_builder *b, sr_residual_block *k, const sr_residual_opts *o) {
    const sr_conv2d_opts filter = {
        .stride = o->stride, .dilation = o->dilation, .groups = o->groups};
    build_conv(b, k, 2, conv_of(o->width, o->width, 3, filter, NULL));
}

static sr_tensor plain(sr_forward *f, const sr_residual_block *k, sr_tensor x) {
    return sr_layer_conv_norm(f, &k->conv[1], x);
}

static sr_path_opts paths_of(const sr_residual_opts *o) {
    return (sr_path_opts){.channels = o->width,
                          .squeezed = sr_round_channels((double)o->width / 16, SQUEEZED_MULTIPLE),
                          .stride = o->stride,
                          .groups = o->groups,
                          .dilation = o->dilation};
}

static void build_selective(sr_builder *b, sr_residual_block *k, const sr_residual_opts *o) {
    sr_build_selective(b, &k->paths, "conv2", paths_of(o));
}

static sr_tensor selective(sr_forward *f, const sr_residual_block *k, sr_tensor x) {
    return sr_layer_selective(f, &k->paths, x);
}

static void build_split(sr_builder *b, sr_residual_block *k, const sr_residual_opts *o) {
    const int64_t squeezed = sr_round_channels((double)o->width / 2, SQUEEZED_MULTIPLE);
    sr_path_opts opts = paths_of(o);
    opts.squeezed = squeezed < LEAST_SPLIT ? LEAST_SPLIT : squeezed;
    opts.stride = 1;
    if (o->stride > 1)
        k->pool = (sr_pool2d_opts){.window = 3, .stride = o->stride, .pad = 1, .count_pad = true};
    sr_build_split_attention(b, &k->paths, "conv2", opts);
}

static sr_tensor split(sr_forward *f, const sr_residual_block *k, sr_tensor x) {
    return sr_layer_split_attention(f, &k->paths, x);
}

typedef struct middle_kind {
    void (*build)(sr_builder *, sr_residual_block *, const sr_residual_opts *);
    sr_tensor (*forward)(sr_forward *, const sr_residual_block *, sr_tensor);
} middle_kind;

static const middle_kind middles[] = {[SR_MIDDLE_CONV] = {build_plain, plain},
                                      [SR_MIDDLE_SELECTIVE] = {build_selective, selective},
                                      [SR_MIDDLE_SPLIT] = {build_split, split}};

// ---- The block ----

static void build_convs(sr_builder *b, sr_residual_block *k, const sr_residual_opts *o) {
    const sr_conv2d_opts none = {0}, first = {.stride = o->stride, .dilation = o->dilation},
                         second = {.dilation = o->dilation};
    if (k->convs == 3) {
        build_conv(b, k, 1, conv_of(o->in, o->width, 1, none, NULL));
        middles[k->middle].build(b, k, o);
        build_conv(b, k, 3, conv_of(o->width, o->out, 1, none, NULL));
    } else {
        build_conv(b, k, 1, conv_of(o->in, o->width, 3, first, NULL));
        build_conv(b, k, 2, conv_of(o->width, o->out, 3, second, NULL));
    }
}

// With averages the pooling is layer 0 of the shortcut. Where a stage is dilated, the average keeps
// the size of the map, and zeros at its end count.
static void build_downsample(sr_builder *b, sr_residual_block *k, const sr_residual_opts *o) {
    const sr_conv2d_opts strided = {.stride = o->averages ? 1 : o->stride};
    const sr_conv_norm_opts opts = conv_of(o->in, o->out, 1, strided, NULL);
    if (!o->averages) {
        sr_build_conv_norm(b, &k->downsample, "downsample", opts);
        return;
    }
    if (o->stride > 1)
        k->shortcut_pool = (sr_pool2d_opts){.window = 2, .stride = o->stride, .ceil_mode = true};
    else if (o->stage_dilation > 1)
        k->shortcut_pool = (sr_pool2d_opts){
            .window = 2, .stride = 1, .extra_bottom = 1, .extra_right = 1, .count_pad = true};
    sr_build_conv_norm_as(b, &k->downsample, "downsample.1", "downsample.2", opts);
}

// The outer product of 1/4, 1/2, 1/4, for each channel.
static const float *build_blur(sr_builder *b, int64_t channels) {
    static const float line[WINDOW] = {0.25F, 0.5F, 0.25F};
    float *filters = sr_build_memory(b, (size_t)channels * WINDOW * WINDOW * sizeof *filters);
    for (int64_t i = 0; filters && i < channels * WINDOW * WINDOW; i++)
        filters[i] = line[i / WINDOW % WINDOW] * line[i % WINDOW];
    return filters;
}

void sr_build_residual(sr_builder *b, sr_residual_block *k, sr_residual_opts o) {
    o.stride = o.stride ? o.stride : 1;
    k->convs = o.convs;
    k->middle = o.middle;
    k->drop = o.drop;
    k->squeezes = o.squeeze_share > 0;
    k->has_downsample = o.stride != 1 || o.in != o.out;
    build_convs(b, k, &o);
    if (o.zero_init)
        sr_build_set_init(b, &k->conv[k->convs - 1].norm.weight, (sr_init){0});
    if (k->squeezes) {
        const int64_t squeezed =
            sr_round_channels((double)o.out / o.squeeze_share, SQUEEZED_MULTIPLE);
        sr_build_squeeze(
            b, &k->squeeze, "se",
            (sr_squeeze_opts){.channels = o.out, .squeezed = squeezed, .default_bias = true});
    }
    if (k->has_downsample)
        build_downsample(b, k, &o);
    if (!o.blurs || o.stride == 1)
        return;
    if (o.middle != SR_MIDDLE_SPLIT)
        k->blur = build_blur(b, o.convs == 2 ? o.in : o.width);
    if (!o.averages)
        k->shortcut_blur = build_blur(b, o.in);
}

static sr_tensor pooled(sr_tensor x, sr_pool2d_opts opts) {
    return opts.window > 0 ? sr_avgpool2d(x, opts) : x;
}

// At the full size before a convolution with a stride, as in FFCV's networks.
static sr_tensor blurred(sr_forward *f, const float *filters, sr_tensor x) {
    sr_info info;
    if (!filters || !sr_tensor_info(x, &info))
        return x;
    const sr_conv2d_opts each = {.pad = 1, .groups = (int)info.dim[3]};
    const sr_info shape = {.dtype = SR_F32, .rank = 4, .dim = {info.dim[3], 1, WINDOW, WINDOW}};
    const sr_tensor filter = sr_constant(f->context, &shape, filters);
    return sr_conv2d(x, f->dtype == SR_F64 ? sr_cast(filter, SR_F64) : filter, each);
}

sr_tensor sr_layer_residual(sr_forward *f, const sr_residual_block *k, sr_tensor x) {
    const bool strides_first = k->convs == 2;
    sr_tensor shortcut = x, y = blurred(f, strides_first ? k->blur : NULL, x);
    y = sr_layer_conv_norm(f, &k->conv[0], y);
    if (!strides_first)
        y = pooled(middles[k->middle].forward(f, k, blurred(f, k->blur, y)), k->pool);
    y = sr_layer_conv_norm(f, &k->conv[k->convs - 1], y);
    if (k->squeezes)
        y = sr_layer_squeeze(&k->squeeze, y);
    if (k->has_downsample)
        shortcut = sr_layer_conv_norm(f, &k->downsample,
                                      blurred(f, k->shortcut_blur, pooled(x, k->shortcut_pool)));
    return sr_relu(sr_add(sr_layer_drop_path(f, y, k->drop), shortcut));
}
