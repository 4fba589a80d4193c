// SPDX-License-Identifier: Apache-2.0
// FCN (Long et al. 2015, "Fully Convolutional Networks for Semantic Segmentation") as in
// torchvision, with its parameter names and initial values: a convolution, batch norm and a
// classifier of each pixel of the backbone's last map. As there, this map is dilated and no maps
// of other stages are added.
#include <stddef.h>

#include "trainer/models/model_family_internal.h"
#include "trainer/models/segmentation/segment_head_internal.h"

typedef struct fcn_options {
    sr_alternative backbone;
    int64_t channels;
    double dropout;
    sr_auxiliary_options aux;
} fcn_options;

static const sr_option rows[] = {
    SR_DILATED_BACKBONE_OPTION(fcn_options, "resnet50"),
    {.name = "channels",
     .help = "channels between the layers of the head; 0: a quarter of those that it sees",
     .type = SR_OPT_INT,
     .offset = offsetof(fcn_options, channels),
     .default_text = "0",
     .max = 1 << 16},
    SR_DROPOUT_OPTION(fcn_options, "0.1"),
    SR_AUXILIARY_OPTIONS(fcn_options, "false", "0.5"),
};

static const sr_option_table table = SR_SEGMENT_TABLE("model.fcn", rows, fcn_options);

typedef struct fcn {
    sr_child backbone;
    sr_fcn_head head;
    sr_auxiliary_head aux;
} fcn;

static void build_fcn(sr_builder *b, const void *options, void *state) {
    const fcn_options *o = options;
    fcn *net = state;
    sr_build_child(b, &net->backbone, "backbone", &o->backbone, 0);
    sr_build_fcn_head(b, &net->head, "classifier",
                      net->backbone.stages[net->backbone.stage_count - 1].channels, o->channels,
                      o->dropout);
    sr_build_auxiliary(b, &net->aux, &net->backbone, &o->aux);
}

static void forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const fcn *net = state;
    sr_tensor stages[SR_STAGES_MAX];
    sr_child_features(f, &net->backbone, inputs[0], stages);
    sr_forward_output(f, "logits",
                      sr_layer_fcn_head(f, &net->head, stages[net->backbone.stage_count - 1]));
    sr_layer_auxiliary(f, &net->aux, stages);
}

SR_MODEL_DESC(fcn, "FCN for segmentation (Long et al. 2015)", fcn, .options = &table,
              .names = &sr_torchvision_segmentation_names, .layout = 1)
