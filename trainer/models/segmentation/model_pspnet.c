// SPDX-License-Identifier: Apache-2.0
// PSPNet (Zhao et al. 2017, "Pyramid Scene Parsing Network") as in mmsegmentation, with its
// parameter names and initial values.
#include "trainer/models/model_family_internal.h"
#include "trainer/models/segmentation/decode_head_internal.h"

typedef struct pspnet_options {
    sr_decode_options head;
    sr_int_list scales;
} pspnet_options;

static const sr_option rows[] = {
    SR_MMSEG_BACKBONE_OPTION,
    SR_DECODE_OPTIONS("512"),
    SR_SCALES_OPTION(pspnet_options),
};
static const sr_option_table table =
    SR_MMSEG_TABLE("model.pspnet", rows, pspnet_options, sr_mmseg_dilated_backbone);

typedef struct pspnet {
    sr_child backbone;
    sr_pyramid_layer pyramid;
    sr_pixel_classifier classifier;
    sr_decode_auxiliary aux;
} pspnet;

static void build_pspnet(sr_builder *b, const void *options, void *state) {
    const pspnet_options *o = options;
    pspnet *net = state;
    sr_build_child(b, &net->backbone, "backbone", &o->head.backbone, 0);
    sr_build_push(b, "decode_head");
    sr_build_pixel_classifier(b, &net->classifier, o->head.channels, o->head.dropout);
    sr_build_pyramid(b, &net->pyramid, net->backbone.stages[net->backbone.stage_count - 1].channels,
                     o->head.channels, &o->scales);
    sr_build_pop(b);
    sr_build_decode_auxiliary(b, &net->aux, &net->backbone, &o->head);
}

static void forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const pspnet *net = state;
    sr_tensor stages[SR_STAGES_MAX];
    sr_child_features(f, &net->backbone, inputs[0], stages);
    const sr_tensor x = sr_layer_pyramid(f, &net->pyramid, stages[net->backbone.stage_count - 1]);
    sr_forward_output(f, "logits", sr_layer_pixel_classifier(f, &net->classifier, x));
    sr_layer_decode_auxiliary(f, &net->aux, stages);
}

SR_MODEL_DESC(pspnet, "PSPNet for segmentation (Zhao et al. 2017)", pspnet, .options = &table)
