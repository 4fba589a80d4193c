// SPDX-License-Identifier: Apache-2.0
// SegFormer (Xie et al. 2021, "SegFormer: Simple and Efficient Design for Semantic Segmentation
// with Transformers") as in mmsegmentation, with its parameter names and initial values: 1x1
// convolutions of all stages, which are resized to the first one's size and joined by another.
#include <stdio.h>

#include "trainer/models/model_family_internal.h"
#include "trainer/models/segmentation/decode_head_internal.h"

enum { NAME_BYTES = 32 };

static const sr_option rows[] = {
    SR_BACKBONE_OPTION(sr_decode_options, "mit_b0",
                       "the model whose stages it sees, with its options"),
    SR_HEAD_OPTIONS("256"),
};
static const sr_option_table table =
    SR_MMSEG_TABLE("model.segformer", rows, sr_decode_options, NULL);

typedef struct segformer {
    sr_child backbone;
    sr_conv_norm_layer conv[SR_STAGES_MAX], fusion;
    sr_pixel_classifier classifier;
} segformer;

static void build_segformer(sr_builder *b, const void *options, void *state) {
    const sr_decode_options *o = options;
    segformer *net = state;
    char name[NAME_BYTES];
    sr_build_child(b, &net->backbone, "backbone", &o->backbone, 0);
    sr_build_push(b, "decode_head");
    sr_build_pixel_classifier(b, &net->classifier, o->channels, o->dropout);
    for (int i = 0; i < net->backbone.stage_count; i++) {
        (void)snprintf(name, sizeof name, "convs.%d", i);
        sr_build_conv_module(b, &net->conv[i], name,
                             (sr_conv_layer_opts){.in = net->backbone.stages[i].channels,
                                                  .out = o->channels,
                                                  .window = 1});
    }
    sr_build_conv_module(b, &net->fusion, "fusion_conv",
                         (sr_conv_layer_opts){.in = net->backbone.stage_count * o->channels,
                                              .out = o->channels,
                                              .window = 1});
    sr_build_pop(b);
}

static void forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const segformer *net = state;
    const int count = net->backbone.stage_count;
    sr_tensor maps[SR_STAGES_MAX];
    sr_child_features(f, &net->backbone, inputs[0], maps);
    for (int i = 0; i < count; i++)
        maps[i] = sr_layer_resize_like(sr_layer_conv_norm(f, &net->conv[i], maps[i]), maps[0]);
    const sr_tensor x = sr_layer_conv_norm(f, &net->fusion, sr_concat(maps, count, 3));
    sr_forward_output(f, "logits", sr_layer_pixel_classifier(f, &net->classifier, x));
}

SR_MODEL_DESC(segformer, "SegFormer for segmentation (Xie et al. 2021)", segformer,
              .options = &table)
