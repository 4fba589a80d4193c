// SPDX-License-Identifier: Apache-2.0
// See decode_head_internal.h.
#include "trainer/models/segmentation/decode_head_internal.h"

#include <stdio.h>

enum { NAME_BYTES = 64, CHANNEL_AXIS = 3 };

const char *const sr_mmseg_dilated_backbone[] = {"stem", "v1c", "output_stride", "8", "dilated",
                                                 "true", NULL};

void sr_build_conv_module(sr_builder *b, sr_conv_norm_layer *layer, const char *name,
                          sr_conv_layer_opts conv) {
    sr_build_push(b, "%s", name);
    sr_build_conv_norm_as(b, layer, "conv", "bn",
                          (sr_conv_norm_opts){.conv = conv, .activation = sr_relu});
    sr_build_pop(b);
}

void sr_build_separable(sr_builder *b, sr_separable_layer *layer, const char *name, int64_t in,
                        int64_t out, int dilation) {
    sr_build_push(b, "%s", name);
    sr_build_conv_module(
        b, &layer->depthwise, "depthwise_conv",
        (sr_conv_layer_opts){
            .in = in, .out = in, .window = 3, .conv = {.dilation = dilation, .groups = (int)in}});
    sr_build_conv_module(b, &layer->pointwise, "pointwise_conv",
                         (sr_conv_layer_opts){.in = in, .out = out, .window = 1});
    sr_build_pop(b);
}

sr_tensor sr_layer_separable(sr_forward *f, const sr_separable_layer *layer, sr_tensor x) {
    return sr_layer_conv_norm(f, &layer->pointwise, sr_layer_conv_norm(f, &layer->depthwise, x));
}

void sr_build_pixel_classifier(sr_builder *b, sr_pixel_classifier *layer, int64_t in,
                               double dropout) {
    layer->dropout = dropout;
    sr_build_conv(b, &layer->conv, "conv_seg",
                  (sr_conv_layer_opts){.in = in,
                                       .out = sr_build_classes(b),
                                       .window = 1,
                                       .has_bias = true,
                                       .zero_bias = true,
                                       .init = {.kind = SR_INIT_NORMAL, .scale = 0.01}});
}

// The same draw for all pixels of a channel, as torch.nn.Dropout2d.
static sr_tensor drop_channels(sr_forward *f, sr_tensor x, double probability) {
    static const float one = 1;
    const sr_info scalar = {.dtype = SR_F32};
    sr_info info;
    if (!f->training || probability == 0 || !sr_tensor_info(x, &info))
        return sr_layer_dropout(f, x, 0);
    const int64_t dim[] = {info.dim[0], 1, 1, info.dim[CHANNEL_AXIS]};
    const sr_tensor ones =
        sr_fill_by(sr_constant(f->context, &scalar, &one), info.dtype, info.rank, dim);
    return sr_mul(x, sr_layer_dropout(f, ones, probability));
}

sr_tensor sr_layer_pixel_classifier(sr_forward *f, const sr_pixel_classifier *layer, sr_tensor x) {
    return sr_layer_conv(&layer->conv, drop_channels(f, x, layer->dropout));
}

void sr_build_decode_auxiliary(sr_builder *b, sr_decode_auxiliary *head, const sr_child *backbone,
                               const sr_decode_options *o) {
    head->used = o->aux.used;
    head->weight = o->aux.weight;
    if (!head->used)
        return;
    head->stage = sr_build_auxiliary_stage(b, backbone, o->aux.stage);
    sr_build_push(b, "auxiliary_head");
    sr_build_conv_module(b, &head->conv, "convs.0",
                         (sr_conv_layer_opts){.in = backbone->stages[head->stage].channels,
                                              .out = o->aux_channels,
                                              .window = 3});
    sr_build_pixel_classifier(b, &head->classifier, o->aux_channels, o->aux.dropout);
    sr_build_pop(b);
}

void sr_layer_decode_auxiliary(sr_forward *f, const sr_decode_auxiliary *head,
                               const sr_tensor *stages) {
    if (!head->used || !f->training)
        return;
    const sr_tensor x = sr_layer_conv_norm(f, &head->conv, stages[head->stage]);
    sr_forward_auxiliary(f, "aux", sr_layer_pixel_classifier(f, &head->classifier, x),
                         head->weight);
}

void sr_build_pyramid(sr_builder *b, sr_pyramid_layer *layer, int64_t in, int64_t channels,
                      const sr_int_list *scales) {
    char name[NAME_BYTES];
    if (scales->count > SR_MOST_SCALES) {
        sr_build_fail(b, "pool_scales has %zu numbers; at most %d are possible", scales->count,
                      SR_MOST_SCALES);
        return;
    }
    layer->count = (int)scales->count;
    for (int i = 0; i < layer->count; i++) {
        layer->scale[i] = (int)scales->items[i];
        (void)snprintf(name, sizeof name, "psp_modules.%d.1", i);
        sr_build_conv_module(b, &layer->pooled[i], name,
                             (sr_conv_layer_opts){.in = in, .out = channels, .window = 1});
    }
    sr_build_conv_module(
        b, &layer->bottleneck, "bottleneck",
        (sr_conv_layer_opts){.in = in + layer->count * channels, .out = channels, .window = 3});
}

sr_tensor sr_layer_pyramid(sr_forward *f, const sr_pyramid_layer *layer, sr_tensor x) {
    sr_tensor parts[SR_MOST_SCALES + 1] = {x};
    for (int i = 0; i < layer->count; i++) {
        const sr_tensor means = sr_adaptive_avgpool2d(x, layer->scale[i], layer->scale[i]);
        parts[i + 1] = sr_layer_resize_like(sr_layer_conv_norm(f, &layer->pooled[i], means), x);
    }
    return sr_layer_conv_norm(f, &layer->bottleneck,
                              sr_concat(parts, layer->count + 1, CHANNEL_AXIS));
}
