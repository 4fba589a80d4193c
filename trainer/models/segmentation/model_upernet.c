// SPDX-License-Identifier: Apache-2.0
// UPerNet (Xiao et al. 2018, "Unified Perceptual Parsing for Scene Understanding") as in
// mmsegmentation, with its parameter names and initial values: pyramid pooling of the last stage, a
// feature pyramid (Lin et al. 2017) of all stages, and a classifier of them together.
#include <stdio.h>

#include "trainer/models/model_family_internal.h"
#include "trainer/models/segmentation/decode_head_internal.h"

enum { NAME_BYTES = 32 };

typedef struct upernet_options {
    sr_decode_options head;
    sr_int_list scales;
} upernet_options;

static const sr_option rows[] = {
    SR_BACKBONE_OPTION(sr_decode_options, "resnet50",
                       "the model whose stages it sees, with its options; where it has it, stem "
                       "is v1c unless given"),
    SR_DECODE_OPTIONS("512"),
    SR_SCALES_OPTION(upernet_options),
};
static const char *const preset[] = {"stem", "v1c", NULL};
static const sr_option_table table = SR_MMSEG_TABLE("model.upernet", rows, upernet_options, preset);

typedef struct upernet {
    sr_child backbone;
    sr_pyramid_layer pyramid;
    sr_conv_norm_layer lateral[SR_STAGES_MAX], fpn[SR_STAGES_MAX], bottleneck;
    sr_pixel_classifier classifier;
    sr_decode_auxiliary aux;
} upernet;

static void build_fpn(sr_builder *b, upernet *net, int64_t channels) {
    const int stages = net->backbone.stage_count;
    char name[NAME_BYTES];
    for (int i = 0; i < stages - 1; i++) {
        (void)snprintf(name, sizeof name, "lateral_convs.%d", i);
        sr_build_conv_module(b, &net->lateral[i], name,
                             (sr_conv_layer_opts){.in = net->backbone.stages[i].channels,
                                                  .out = channels,
                                                  .window = 1});
        (void)snprintf(name, sizeof name, "fpn_convs.%d", i);
        sr_build_conv_module(b, &net->fpn[i], name,
                             (sr_conv_layer_opts){.in = channels, .out = channels, .window = 3});
    }
    sr_build_conv_module(
        b, &net->bottleneck, "fpn_bottleneck",
        (sr_conv_layer_opts){.in = stages * channels, .out = channels, .window = 3});
}

static void build_upernet(sr_builder *b, const void *options, void *state) {
    const upernet_options *o = options;
    upernet *net = state;
    sr_build_child(b, &net->backbone, "backbone", &o->head.backbone, 0);
    sr_build_push(b, "decode_head");
    sr_build_pixel_classifier(b, &net->classifier, o->head.channels, o->head.dropout);
    sr_build_pyramid(b, &net->pyramid, net->backbone.stages[net->backbone.stage_count - 1].channels,
                     o->head.channels, &o->scales);
    build_fpn(b, net, o->head.channels);
    sr_build_pop(b);
    sr_build_decode_auxiliary(b, &net->aux, &net->backbone, &o->head);
}

// From the last stage to the first, each map is added to the next larger one; then all together.
static sr_tensor pyramid(sr_forward *f, const upernet *net, const sr_tensor *stages) {
    const int last = net->backbone.stage_count - 1;
    sr_tensor maps[SR_STAGES_MAX];
    for (int i = 0; i < last; i++)
        maps[i] = sr_layer_conv_norm(f, &net->lateral[i], stages[i]);
    maps[last] = sr_layer_pyramid(f, &net->pyramid, stages[last]);
    for (int i = last; i > 0; i--)
        maps[i - 1] = sr_add(maps[i - 1], sr_layer_resize_like(maps[i], maps[i - 1]));
    for (int i = 0; i < last; i++)
        maps[i] = sr_layer_conv_norm(f, &net->fpn[i], maps[i]);
    for (int i = 1; i <= last; i++)
        maps[i] = sr_layer_resize_like(maps[i], maps[0]);
    return sr_layer_conv_norm(f, &net->bottleneck, sr_concat(maps, last + 1, 3));
}

static void forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const upernet *net = state;
    sr_tensor stages[SR_STAGES_MAX];
    sr_child_features(f, &net->backbone, inputs[0], stages);
    sr_forward_output(f, "logits",
                      sr_layer_pixel_classifier(f, &net->classifier, pyramid(f, net, stages)));
    sr_layer_decode_auxiliary(f, &net->aux, stages);
}

SR_MODEL_DESC(upernet, "UPerNet for segmentation (Xiao et al. 2018)", upernet, .options = &table)
