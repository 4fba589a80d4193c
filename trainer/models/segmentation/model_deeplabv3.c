// SPDX-License-Identifier: Apache-2.0
// DeepLabv3 (Chen et al. 2017, "Rethinking Atrous Convolution for Semantic Image Segmentation") as
// in torchvision, with its parameter names and initial values: convolutions of several dilations
// and the mean over the picture, side by side (ASPP), then a 3x3 convolution and a classifier of
// each pixel.
//
// Dilations follow the stride of the backbone's last map as in the paper. torchvision's own network
// around MobileNetV3, whose stride is 16, has rates: [12, 24, 36] nevertheless.
#include <stddef.h>
#include <stdio.h>

#include "trainer/models/model_family_internal.h"
#include "trainer/models/segmentation/segment_head_internal.h"

typedef struct deeplab_options {
    sr_alternative backbone;
    int64_t channels;
    sr_int_list rates;
    double dropout;
    sr_auxiliary_options aux;
} deeplab_options;

static const sr_option option_rows[] = {
    SR_DILATED_BACKBONE_OPTION(deeplab_options, "resnet50"),
    SR_CHANNELS_OPTION(deeplab_options, "256",
                       "channels of each branch of the head and after them"),
    SR_RATES_OPTION(deeplab_options, 1),
    {.name = "dropout",
     .help = "dropout probability after the branches are joined",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(deeplab_options, dropout),
     .default_text = "0.5",
     .max = 0.99},
    SR_AUXILIARY_OPTIONS(deeplab_options, "false", "0.5"),
};

static const sr_option_table option_table =
    SR_SEGMENT_TABLE("model.deeplabv3", option_rows, deeplab_options);

// Branches: a 1x1 convolution, one for each rate, and the pooled one, whose layers are numbered
// after its pooling.
typedef struct deeplab {
    sr_child backbone;
    int rates;
    sr_conv_norm_layer point, dilated[SR_MOST_RATES], pooled, project, conv;
    sr_conv_layer last;
    double dropout;
    sr_auxiliary_head aux;
} deeplab;

static void build_conv(sr_builder *b, sr_conv_norm_layer *layer, const char *conv, const char *norm,
                       sr_conv_layer_opts opts) {
    opts.init = (sr_init){.kind = SR_INIT_TORCH_DEFAULT};
    sr_build_conv_norm_as(b, layer, conv, norm,
                          (sr_conv_norm_opts){.conv = opts, .activation = sr_relu});
}

static void build_aspp(sr_builder *b, deeplab *net, const deeplab_options *o,
                       const sr_model_stage *stage) {
    int rates[SR_MOST_RATES];
    sr_conv_layer_opts conv = {.in = stage->channels, .out = o->channels, .window = 1};
    net->rates = sr_build_choose_rates(b, &o->rates, stage, rates);
    sr_build_push(b, "convs");
    build_conv(b, &net->point, "0.0", "0.1", conv);
    conv.window = 3;
    for (int i = 0; i < net->rates; i++) {
        conv.conv.dilation = rates[i];
        sr_build_push(b, "%d", i + 1);
        build_conv(b, &net->dilated[i], "0", "1", conv);
        sr_build_pop(b);
    }
    conv.window = conv.conv.dilation = 1;
    sr_build_push(b, "%d", net->rates + 1);
    build_conv(b, &net->pooled, "1", "2", conv);
    sr_build_pop(b);
    sr_build_pop(b);
    conv.in = (net->rates + 2) * o->channels;
    build_conv(b, &net->project, "project.0", "project.1", conv);
}

static void build_deeplabv3(sr_builder *b, const void *options, void *state) {
    const deeplab_options *o = options;
    deeplab *net = state;
    net->dropout = o->dropout;
    sr_build_child(b, &net->backbone, "backbone", &o->backbone, 0);
    sr_build_push(b, "classifier");
    sr_build_push(b, "0");
    build_aspp(b, net, o, &net->backbone.stages[net->backbone.stage_count - 1]);
    sr_build_pop(b);
    build_conv(b, &net->conv, "1", "2",
               (sr_conv_layer_opts){.in = o->channels, .out = o->channels, .window = 3});
    sr_build_conv(b, &net->last, "4",
                  (sr_conv_layer_opts){.in = o->channels,
                                       .out = sr_build_classes(b),
                                       .window = 1,
                                       .has_bias = true,
                                       .init = {.kind = SR_INIT_TORCH_DEFAULT}});
    sr_build_pop(b);
    sr_build_auxiliary(b, &net->aux, &net->backbone, &o->aux);
}

static sr_tensor aspp(sr_forward *f, const deeplab *net, sr_tensor x) {
    sr_tensor branches[SR_MOST_RATES + 2];
    int count = 0;
    branches[count++] = sr_layer_conv_norm(f, &net->point, x);
    for (int i = 0; i < net->rates; i++)
        branches[count++] = sr_layer_conv_norm(f, &net->dilated[i], x);
    sr_tensor pooled = sr_layer_conv_norm(f, &net->pooled, sr_adaptive_avgpool2d(x, 1, 1));
    branches[count++] = sr_layer_resize_like(pooled, x);
    x = sr_layer_conv_norm(f, &net->project, sr_concat(branches, count, 3));
    return sr_layer_dropout(f, x, net->dropout);
}

static void forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const deeplab *net = state;
    sr_tensor stages[SR_STAGES_MAX];
    sr_child_features(f, &net->backbone, inputs[0], stages);
    sr_tensor x = aspp(f, net, stages[net->backbone.stage_count - 1]);
    x = sr_layer_conv_norm(f, &net->conv, x);
    sr_forward_output(f, "logits", sr_layer_conv(&net->last, x));
    sr_layer_auxiliary(f, &net->aux, stages);
}

SR_MODEL_DESC(deeplabv3, "DeepLabv3 for segmentation (Chen et al. 2017)", deeplab,
              .options = &option_table, .names = &sr_torchvision_segmentation_names, .layout = 1)
