// SPDX-License-Identifier: Apache-2.0
// What networks for segmentation with mmsegmentation's names share: its convolution modules, the
// classifier of pixels, the auxiliary head and pyramid pooling (Zhao et al. 2017). Initial values
// are mmseg's, too.
#ifndef SR_TRAINER_DECODE_HEAD_INTERNAL_H
#define SR_TRAINER_DECODE_HEAD_INTERNAL_H

#include "trainer/models/segmentation/segment_head_internal.h"

// ---- Options ----

// Options of mmseg's heads.
typedef struct sr_decode_options {
    sr_alternative backbone;
    int64_t channels, aux_channels;
    double dropout;
    sr_auxiliary_options aux;
} sr_decode_options;
// Rows for a struct that begins with sr_decode_options, without that of the backbone: those of
// every head, and with those of an auxiliary one.
#define SR_HEAD_OPTIONS(channels_)                                                                 \
    SR_CHANNELS_OPTION(sr_decode_options, channels_, "channels of the head"), {                    \
        .name = "dropout", .help = "dropout probability of whole channels before the last layer",  \
        .type = SR_OPT_FLOAT, .offset = offsetof(sr_decode_options, dropout),                      \
        .default_text = "0.1", .max = 0.99                                                         \
    }
#define SR_DECODE_OPTIONS(channels_)                                                               \
    SR_HEAD_OPTIONS(channels_), SR_AUXILIARY_OPTIONS(sr_decode_options, "true", "0.4"), {          \
        .name = "aux_channels", .help = "channels of the auxiliary head", .type = SR_OPT_INT,      \
        .offset = offsetof(sr_decode_options, aux_channels), .default_text = "256", .min = 1,      \
        .max = 1 << 16                                                                             \
    }

// mmseg's backbone: ResNetV1c, with dilation in the place of strides.
extern const char *const sr_mmseg_dilated_backbone[];
#define SR_MMSEG_BACKBONE_OPTION                                                                   \
    SR_BACKBONE_OPTION(sr_decode_options, "resnet50",                                              \
                       "the model whose stages it sees, with its options; where it has them, "     \
                       "stem is v1c, output_stride 8 and dilated true unless given")
#define SR_MMSEG_TABLE(name_, rows_, type_, preset_)                                               \
    {                                                                                              \
        .name = (name_), .options = (rows_), .count = sizeof(rows_) / sizeof *(rows_),             \
        .struct_size = sizeof(type_), .alternatives = &sr_model_alternatives, .preset = (preset_)  \
    }

// ---- Layers ----

// A convolution, batch normalisation and ReLU: NAME.conv.weight, NAME.bn.*. As of
// sr_build_conv_norm.
void sr_build_conv_module(sr_builder *builder, sr_conv_norm_layer *layer, const char *name,
                          sr_conv_layer_opts conv);

// A depthwise 3x3 convolution and a 1x1 convolution: NAME.depthwise_conv.*, NAME.pointwise_conv.*.
typedef struct sr_separable_layer {
    sr_conv_norm_layer depthwise, pointwise;
} sr_separable_layer;
void sr_build_separable(sr_builder *builder, sr_separable_layer *layer, const char *name,
                        int64_t in, int64_t out, int dilation);
sr_tensor sr_layer_separable(sr_forward *forward, const sr_separable_layer *layer, sr_tensor x);

// Dropout of channels and a 1x1 convolution: conv_seg.weight [classes,in,1,1], conv_seg.bias.
typedef struct sr_pixel_classifier {
    sr_conv_layer conv;
    double dropout;
} sr_pixel_classifier;
void sr_build_pixel_classifier(sr_builder *builder, sr_pixel_classifier *layer, int64_t in,
                               double dropout);
// x[N,h,w,in] -> logits[N,h,w,classes].
sr_tensor sr_layer_pixel_classifier(sr_forward *forward, const sr_pixel_classifier *layer,
                                    sr_tensor x);

// An auxiliary head: "auxiliary_head", with a convolution of 3x3.
typedef struct sr_decode_auxiliary {
    bool used;
    int stage;
    double weight;
    sr_conv_norm_layer conv;
    sr_pixel_classifier classifier;
} sr_decode_auxiliary;
// Declares it, if it is used.
void sr_build_decode_auxiliary(sr_builder *builder, sr_decode_auxiliary *head,
                               const sr_child *backbone, const sr_decode_options *options);
// Adds the output "aux" in training. stages: the backbone's maps.
void sr_layer_decode_auxiliary(sr_forward *forward, const sr_decode_auxiliary *head,
                               const sr_tensor *stages);

// Pyramid pooling: means over grids of several sizes, beside the map that they are of.
enum { SR_MOST_SCALES = 8 };
typedef struct sr_pyramid_layer {
    int count;
    int scale[SR_MOST_SCALES];
    sr_conv_norm_layer pooled[SR_MOST_SCALES], bottleneck;
} sr_pyramid_layer;
// A row for an sr_int_list 'scales'.
#define SR_SCALES_OPTION(type_)                                                                    \
    {                                                                                              \
        .name = "pool_scales", .help = "sides of the grids over which the last map is averaged",   \
        .type = SR_OPT_INTS, .offset = offsetof(type_, scales), .default_text = "[1, 2, 3, 6]",    \
        .min = 1, .max = 255                                                                       \
    }
// Parameters psp_modules.0.1.*, ... and bottleneck.*.
void sr_build_pyramid(sr_builder *builder, sr_pyramid_layer *layer, int64_t in, int64_t channels,
                      const sr_int_list *scales);
// x[N,h,w,in] -> y[N,h,w,channels].
sr_tensor sr_layer_pyramid(sr_forward *forward, const sr_pyramid_layer *layer, sr_tensor x);

#endif
