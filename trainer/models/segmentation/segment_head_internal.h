// SPDX-License-Identifier: Apache-2.0
// What networks for semantic segmentation share: a backbone from the table of models, the head of
// FCN (Long et al. 2015), and an auxiliary one (Zhao et al. 2017) that trains an inner stage. Names
// of tensors, initial values and epsilon are torchvision's.
//
// Such a network has the output "logits" [N,h,w,classes], at the resolution of its maps: a task
// resizes it.
#ifndef SR_TRAINER_SEGMENT_HEAD_INTERNAL_H
#define SR_TRAINER_SEGMENT_HEAD_INTERNAL_H

#include <stddef.h>

#include "trainer/models/layers.h"

// ---- Options ----

// A row for an sr_alternative 'backbone'.
#define SR_BACKBONE_OPTION(type_, default_, help_)                                                 \
    {                                                                                              \
        .name = "backbone", .help = (help_), .type = SR_OPT_ALTERNATIVE,                           \
        .offset = offsetof(type_, backbone), .default_text = (default_)                            \
    }
#define SR_DILATED_BACKBONE_OPTION(type_, default_)                                                \
    SR_BACKBONE_OPTION(type_, default_,                                                            \
                       "the model whose stages it sees, with its options; where it has them, "     \
                       "output_stride is 8, dilated true and stage_maps first unless given")
// A table of options with a backbone whose last stages are dilated, as in torchvision's networks
// for segmentation: output_stride 8 of ResNets; MobileNetV3 dilated, with the first maps of its
// stages.
#define SR_SEGMENT_TABLE(name_, rows_, type_)                                                      \
    {                                                                                              \
        .name = (name_), .options = (rows_), .count = sizeof(rows_) / sizeof *(rows_),             \
        .struct_size = sizeof(type_), .alternatives = &sr_model_alternatives,                      \
        .preset = sr_dilated_backbone                                                              \
    }
extern const char *const sr_dilated_backbone[];

// Of an auxiliary head.
typedef struct sr_auxiliary_options {
    bool used;
    double weight, dropout;
    int64_t stage; // an index, as of sr_build_auxiliary_stage
} sr_auxiliary_options;
// Rows for an sr_auxiliary_options 'aux', whether it is used and its weight unless given.
#define SR_AUXILIARY_OPTIONS(type_, used_, weight_)                                                \
    {.name = "aux",                                                                                \
     .help = "an auxiliary head, whose loss is added in training",                                 \
     .type = SR_OPT_BOOL,                                                                          \
     .offset = offsetof(type_, aux.used),                                                          \
     .default_text = (used_)},                                                                     \
        {.name = "aux_weight",                                                                     \
         .help = "factor of the auxiliary head's loss",                                            \
         .type = SR_OPT_FLOAT,                                                                     \
         .offset = offsetof(type_, aux.weight),                                                    \
         .default_text = (weight_),                                                                \
         .min = 1e-6,                                                                              \
         .max = 100},                                                                              \
        {.name = "aux_stage",                                                                      \
         .help = "stage of the backbone that the auxiliary head sees: from 0 on, or from the "     \
                 "last one, which is -1",                                                          \
         .type = SR_OPT_INT,                                                                       \
         .offset = offsetof(type_, aux.stage),                                                     \
         .default_text = "-2",                                                                     \
         .min = -SR_STAGES_MAX,                                                                    \
         .max = SR_STAGES_MAX - 1},                                                                \
    {                                                                                              \
        .name = "dropout_aux", .help = "dropout probability before its last layer",                \
        .type = SR_OPT_FLOAT, .offset = offsetof(type_, aux.dropout), .default_text = "0.1",       \
        .max = 0.99                                                                                \
    }
// A row for an int64_t 'channels' of a head.
#define SR_CHANNELS_OPTION(type_, default_, help_)                                                 \
    {                                                                                              \
        .name = "channels", .help = (help_), .type = SR_OPT_INT,                                   \
        .offset = offsetof(type_, channels), .default_text = (default_), .min = 1, .max = 1 << 16  \
    }
// A row for an int64_t 'low_stride', of sr_stage_of_stride.
#define SR_LOW_STRIDE_OPTION(type_, default_)                                                      \
    {                                                                                              \
        .name = "low_stride",                                                                      \
        .help = "the head sees the first stage with this stride or a larger one, too",             \
        .type = SR_OPT_INT, .offset = offsetof(type_, low_stride), .default_text = (default_),     \
        .min = 1, .max = 1 << 10                                                                   \
    }

// Dilations of a head with atrous convolutions: an sr_int_list 'rates'.
enum { SR_MOST_RATES = 8 };
#define SR_RATES_OPTION(type_, least_)                                                             \
    {                                                                                              \
        .name = "rates",                                                                           \
        .help = "dilations of the head's 3x3 convolutions; unless given 12, 24, 36, or 6, 12, 18 " \
                "if the backbone's last map is smaller than an eighth of the picture's sides",     \
        .type = SR_OPT_INTS, .offset = offsetof(type_, rates), .min = (least_), .max = 1 << 10     \
    }
// The given ones, or those for the stage. Returns their number, at most SR_MOST_RATES.
int sr_build_choose_rates(sr_builder *builder, const sr_int_list *given,
                          const sr_model_stage *stage, int out[SR_MOST_RATES]);

// ---- Layers ----

// Index of the stage that an auxiliary head sees: 'stage', or counted from the last one, which is
// -1. If the backbone has no such stage, reports a failure and returns 0.
int sr_build_auxiliary_stage(sr_builder *builder, const sr_child *backbone, int64_t stage);
// Index of the first stage with this stride or a larger one; else of the last stage.
int sr_stage_of_stride(const sr_child *backbone, int64_t stride);

// A 3x3 convolution, batch normalisation, ReLU, dropout, a 1x1 convolution.
typedef struct sr_fcn_head {
    sr_conv_norm_layer conv;
    sr_conv_layer last;
    double dropout;
} sr_fcn_head;
// Parameters NAME.0.weight [width,in,3,3], NAME.1.*, NAME.4.weight [classes,width,1,1] and
// NAME.4.bias. width 0: a quarter of 'in'.
void sr_build_fcn_head(sr_builder *builder, sr_fcn_head *head, const char *name, int64_t in,
                       int64_t width, double dropout);
// x[N,h,w,in] -> logits[N,h,w,classes].
sr_tensor sr_layer_fcn_head(sr_forward *forward, const sr_fcn_head *head, sr_tensor x);

// An auxiliary head.
typedef struct sr_auxiliary_head {
    bool used;
    int stage;
    double weight;
    sr_fcn_head head;
} sr_auxiliary_head;
// Declares an sr_fcn_head "aux_classifier", if it is used.
void sr_build_auxiliary(sr_builder *builder, sr_auxiliary_head *head, const sr_child *backbone,
                        const sr_auxiliary_options *options);
// Adds the output "aux" in training. stages: the backbone's maps.
void sr_layer_auxiliary(sr_forward *forward, const sr_auxiliary_head *head,
                        const sr_tensor *stages);

// x[N,h,w,C] resized to the sides of 'like', bilinear and without aligned corners.
sr_tensor sr_layer_resize_like(sr_tensor x, sr_tensor like);

// ---- Names ----

// torchvision's networks take the module "features" of a classifier as their backbone.
extern const sr_weight_names sr_torchvision_segmentation_names;

#endif
