// SPDX-License-Identifier: Apache-2.0
// LR-ASPP, the light head of MobileNetV3 for segmentation (Howard et al. 2019, "Searching for
// MobileNetV3", section 6.4), as in torchvision, with its parameter names and initial values: a
// 1x1 convolution of the last map, scaled by channel, is resized to the map of an eighth of the
// picture's sides, and classifiers of both are added.
#include <stddef.h>

#include "trainer/models/model_family_internal.h"
#include "trainer/models/segmentation/segment_head_internal.h"

typedef struct lraspp_options {
    sr_alternative backbone;
    int64_t channels, low_stride;
} lraspp_options;

static const sr_option rows[] = {
    SR_DILATED_BACKBONE_OPTION(lraspp_options, "mobilenet_v3_large"),
    SR_CHANNELS_OPTION(lraspp_options, "128", "channels of the head"),
    SR_LOW_STRIDE_OPTION(lraspp_options, "8"),
};

static const sr_option_table table = SR_SEGMENT_TABLE("model.lraspp", rows, lraspp_options);

typedef struct lraspp {
    sr_child backbone;
    int low;
    sr_conv_norm_layer conv;
    sr_conv_layer scale, low_classifier, high_classifier;
} lraspp;

static void build_conv(sr_builder *b, sr_conv_layer *layer, const char *name, int64_t in,
                       int64_t out, bool has_bias) {
    sr_build_conv(b, layer, name,
                  (sr_conv_layer_opts){.in = in,
                                       .out = out,
                                       .window = 1,
                                       .has_bias = has_bias,
                                       .init = {.kind = SR_INIT_TORCH_DEFAULT}});
}

static void build_lraspp(sr_builder *b, const void *options, void *state) {
    const lraspp_options *o = options;
    const int64_t classes = sr_build_classes(b);
    lraspp *net = state;
    sr_build_child(b, &net->backbone, "backbone", &o->backbone, 0);
    net->low = sr_stage_of_stride(&net->backbone, o->low_stride);
    const int64_t high = net->backbone.stages[net->backbone.stage_count - 1].channels;
    sr_build_push(b, "classifier");
    sr_build_conv_norm(b, &net->conv, "cbr",
                       (sr_conv_norm_opts){.conv = {.in = high,
                                                    .out = o->channels,
                                                    .window = 1,
                                                    .init = {.kind = SR_INIT_TORCH_DEFAULT}},
                                           .activation = sr_relu});
    build_conv(b, &net->scale, "scale.1", high, o->channels, false);
    build_conv(b, &net->low_classifier, "low_classifier", net->backbone.stages[net->low].channels,
               classes, true);
    build_conv(b, &net->high_classifier, "high_classifier", o->channels, classes, true);
    sr_build_pop(b);
}

static void forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const lraspp *net = state;
    sr_tensor stages[SR_STAGES_MAX];
    sr_child_features(f, &net->backbone, inputs[0], stages);
    const sr_tensor low = stages[net->low], high = stages[net->backbone.stage_count - 1];
    const sr_tensor scale =
        sr_sigmoid(sr_layer_conv(&net->scale, sr_adaptive_avgpool2d(high, 1, 1)));
    const sr_tensor x = sr_mul(sr_layer_conv_norm(f, &net->conv, high), scale);
    sr_forward_output(f, "logits",
                      sr_add(sr_layer_conv(&net->low_classifier, low),
                             sr_layer_conv(&net->high_classifier, sr_layer_resize_like(x, low))));
}

SR_MODEL_DESC(lraspp, "LR-ASPP for segmentation (Howard et al. 2019)", lraspp, .options = &table,
              .names = &sr_torchvision_segmentation_names, .layout = 1)
