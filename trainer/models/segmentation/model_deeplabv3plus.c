// SPDX-License-Identifier: Apache-2.0
// DeepLabv3+ (Chen et al. 2018, "Encoder-Decoder with Atrous Separable Convolution for Semantic
// Image Segmentation") as in mmsegmentation, with its parameter names and initial values: the
// branches of DeepLabv3 with separable convolutions, joined with a larger stage.
#include <stdio.h>

#include "trainer/models/model_family_internal.h"
#include "trainer/models/segmentation/decode_head_internal.h"

enum { SEPARABLE = 2, NAME_BYTES = 32 };

typedef struct deeplab_options {
    sr_decode_options head;
    sr_int_list rates;
    int64_t low_stride, low_channels;
} deeplab_options;

static const sr_option rows[] = {
    SR_MMSEG_BACKBONE_OPTION,
    SR_DECODE_OPTIONS("512"),
    SR_RATES_OPTION(deeplab_options, 2),
    SR_LOW_STRIDE_OPTION(deeplab_options, "4"),
    {.name = "low_channels",
     .help = "channels to which that stage is reduced",
     .type = SR_OPT_INT,
     .offset = offsetof(deeplab_options, low_channels),
     .default_text = "48",
     .min = 1,
     .max = 1 << 16},
};
static const sr_option_table table =
    SR_MMSEG_TABLE("model.deeplabv3plus", rows, deeplab_options, sr_mmseg_dilated_backbone);

typedef struct deeplab {
    sr_child backbone;
    int rates, low;
    sr_conv_norm_layer pooled, point, bottleneck, low_conv;
    sr_separable_layer dilated[SR_MOST_RATES], joined[SEPARABLE];
    sr_pixel_classifier classifier;
    sr_decode_auxiliary aux;
} deeplab;

static void build_aspp(sr_builder *b, deeplab *net, const deeplab_options *o,
                       const sr_model_stage *stage) {
    const sr_conv_layer_opts conv = {.in = stage->channels, .out = o->head.channels, .window = 1};
    int rates[SR_MOST_RATES];
    char name[NAME_BYTES];
    net->rates = sr_build_choose_rates(b, &o->rates, stage, rates);
    sr_build_conv_module(b, &net->pooled, "image_pool.1", conv);
    sr_build_conv_module(b, &net->point, "aspp_modules.0", conv);
    for (int i = 0; i < net->rates; i++) {
        (void)snprintf(name, sizeof name, "aspp_modules.%d", i + 1);
        sr_build_separable(b, &net->dilated[i], name, conv.in, conv.out, rates[i]);
    }
    sr_build_conv_module(
        b, &net->bottleneck, "bottleneck",
        (sr_conv_layer_opts){.in = (net->rates + 2) * conv.out, .out = conv.out, .window = 3});
}

static void build_deeplabv3plus(sr_builder *b, const void *options, void *state) {
    const deeplab_options *o = options;
    const int64_t channels = o->head.channels;
    deeplab *net = state;
    sr_build_child(b, &net->backbone, "backbone", &o->head.backbone, 0);
    net->low = sr_stage_of_stride(&net->backbone, o->low_stride);
    sr_build_push(b, "decode_head");
    sr_build_pixel_classifier(b, &net->classifier, channels, o->head.dropout);
    build_aspp(b, net, o, &net->backbone.stages[net->backbone.stage_count - 1]);
    sr_build_conv_module(b, &net->low_conv, "c1_bottleneck",
                         (sr_conv_layer_opts){.in = net->backbone.stages[net->low].channels,
                                              .out = o->low_channels,
                                              .window = 1});
    sr_build_separable(b, &net->joined[0], "sep_bottleneck.0", channels + o->low_channels, channels,
                       1);
    sr_build_separable(b, &net->joined[1], "sep_bottleneck.1", channels, channels, 1);
    sr_build_pop(b);
    sr_build_decode_auxiliary(b, &net->aux, &net->backbone, &o->head);
}

static sr_tensor aspp(sr_forward *f, const deeplab *net, sr_tensor x) {
    sr_tensor branches[SR_MOST_RATES + 2];
    int count = 0;
    const sr_tensor pooled = sr_layer_conv_norm(f, &net->pooled, sr_adaptive_avgpool2d(x, 1, 1));
    branches[count++] = sr_layer_resize_like(pooled, x);
    branches[count++] = sr_layer_conv_norm(f, &net->point, x);
    for (int i = 0; i < net->rates; i++)
        branches[count++] = sr_layer_separable(f, &net->dilated[i], x);
    return sr_layer_conv_norm(f, &net->bottleneck, sr_concat(branches, count, 3));
}

static void forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const deeplab *net = state;
    sr_tensor stages[SR_STAGES_MAX];
    sr_child_features(f, &net->backbone, inputs[0], stages);
    sr_tensor x = aspp(f, net, stages[net->backbone.stage_count - 1]);
    const sr_tensor low = sr_layer_conv_norm(f, &net->low_conv, stages[net->low]);
    x = sr_concat((sr_tensor[]){sr_layer_resize_like(x, low), low}, 2, 3);
    for (int i = 0; i < SEPARABLE; i++)
        x = sr_layer_separable(f, &net->joined[i], x);
    sr_forward_output(f, "logits", sr_layer_pixel_classifier(f, &net->classifier, x));
    sr_layer_decode_auxiliary(f, &net->aux, stages);
}

SR_MODEL_DESC(deeplabv3plus, "DeepLabv3+ for segmentation (Chen et al. 2018)", deeplab,
              .options = &table)
