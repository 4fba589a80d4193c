// SPDX-License-Identifier: Apache-2.0
// OCRNet (Yuan et al. 2020, "Object-Contextual Representations for Semantic Segmentation") around
// HRNet, as in mmsegmentation, with its parameter names and initial values: all stages are resized
// to the first one's size and joined; a first head classifies their pixels, each class is described
// by the mean of its pixels' features, and each pixel by those of the classes that are like it.
#include "trainer/models/model_family_internal.h"
#include "trainer/models/segmentation/decode_head_internal.h"

enum { PROJECTIONS = 2, CHANNEL_AXIS = 3 };

typedef struct ocrnet_options {
    sr_alternative backbone;
    int64_t channels, context_channels;
    double aux_weight;
} ocrnet_options;

static const sr_option rows[] = {
    SR_BACKBONE_OPTION(ocrnet_options, "hrnet_w18",
                       "the model whose stages it sees, with its options; where it has it, "
                       "upsampling is bilinear unless given"),
    SR_CHANNELS_OPTION(ocrnet_options, "512", "channels of the second head"),
    {.name = "context_channels",
     .help = "channels in which pixels and classes are compared",
     .type = SR_OPT_INT,
     .offset = offsetof(ocrnet_options, context_channels),
     .default_text = "256",
     .min = 1,
     .max = 1 << 16},
    {.name = "aux_weight",
     .help = "factor of the first head's loss",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(ocrnet_options, aux_weight),
     .default_text = "0.4",
     .min = 1e-6,
     .max = 100},
};
static const char *const preset[] = {"upsampling", "bilinear", NULL};
static const sr_option_table table = SR_MMSEG_TABLE("model.ocrnet", rows, ocrnet_options, preset);

typedef struct ocrnet {
    sr_child backbone;
    double aux_weight;
    sr_conv_norm_layer first; // and its classifier
    sr_pixel_classifier first_classifier, classifier;
    sr_conv_norm_layer features, query[PROJECTIONS], key[PROJECTIONS], value, out, joined;
} ocrnet;

// ---- Parameters ----

static void build_point(sr_builder *b, sr_conv_norm_layer *layer, const char *name, int64_t in,
                        int64_t out) {
    sr_build_conv_module(b, layer, name, (sr_conv_layer_opts){.in = in, .out = out, .window = 1});
}

static void build_context(sr_builder *b, ocrnet *net, int64_t channels, int64_t inner) {
    sr_build_push(b, "object_context_block");
    build_point(b, &net->key[0], "key_project.0", channels, inner);
    build_point(b, &net->key[1], "key_project.1", inner, inner);
    build_point(b, &net->query[0], "query_project.0", channels, inner);
    build_point(b, &net->query[1], "query_project.1", inner, inner);
    build_point(b, &net->value, "value_project", channels, inner);
    build_point(b, &net->out, "out_project", inner, channels);
    build_point(b, &net->joined, "bottleneck", 2 * channels, channels);
    sr_build_pop(b);
}

static void build_ocrnet(sr_builder *b, const void *options, void *state) {
    const ocrnet_options *o = options;
    ocrnet *net = state;
    int64_t in = 0;
    net->aux_weight = o->aux_weight;
    sr_build_child(b, &net->backbone, "backbone", &o->backbone, 0);
    for (int i = 0; i < net->backbone.stage_count; i++)
        in += net->backbone.stages[i].channels;
    sr_build_push(b, "decode_head.0");
    sr_build_pixel_classifier(b, &net->first_classifier, in, 0);
    build_point(b, &net->first, "convs.0", in, in);
    sr_build_pop(b);
    sr_build_push(b, "decode_head.1");
    sr_build_pixel_classifier(b, &net->classifier, o->channels, 0);
    build_context(b, net, o->channels, o->context_channels);
    sr_build_conv_module(b, &net->features, "bottleneck",
                         (sr_conv_layer_opts){.in = in, .out = o->channels, .window = 3});
    sr_build_pop(b);
}

// ---- Forward pass ----

// [N,h,w,C] -> [N,h w,C].
static sr_tensor rows_of(sr_tensor x) {
    sr_info info;
    if (!sr_tensor_info(x, &info))
        return SR_NONE;
    return sr_reshape(x, 3, (int64_t[]){info.dim[0], info.dim[1] * info.dim[2], info.dim[3]});
}

static sr_tensor project(sr_forward *f, const sr_conv_norm_layer *layers, sr_tensor x) {
    for (int i = 0; i < PROJECTIONS; i++)
        x = sr_layer_conv_norm(f, &layers[i], x);
    return x;
}

// Of each class, the mean of the features, weighted by the softmax of its logits over pixels:
// [N,classes,1,C].
static sr_tensor describe_classes(sr_tensor logits, sr_tensor features) {
    sr_info info;
    const sr_tensor shares = sr_softmax(rows_of(logits), 1);
    const sr_tensor means =
        sr_matmul(shares, rows_of(features), (sr_matmul_opts){.transpose_a = true, .alpha = 1});
    if (!sr_tensor_info(means, &info))
        return SR_NONE;
    return sr_reshape(means, 4, (int64_t[]){info.dim[0], info.dim[1], 1, info.dim[2]});
}

static sr_tensor context(sr_forward *f, const ocrnet *net, sr_tensor x, sr_tensor classes) {
    sr_info info;
    const sr_tensor query = project(f, net->query, x), key = project(f, net->key, classes);
    const sr_tensor value = sr_layer_conv_norm(f, &net->value, classes);
    if (!sr_tensor_info(query, &info))
        return SR_NONE;
    const sr_tensor found = sr_attention(rows_of(query), rows_of(key), rows_of(value), SR_NONE,
                                         (sr_attention_opts){.heads = 1});
    const sr_tensor y = sr_layer_conv_norm(f, &net->out, sr_reshape(found, 4, info.dim));
    return sr_layer_conv_norm(f, &net->joined, sr_concat((sr_tensor[]){y, x}, 2, CHANNEL_AXIS));
}

static void forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const ocrnet *net = state;
    const int count = net->backbone.stage_count;
    sr_tensor maps[SR_STAGES_MAX];
    sr_child_features(f, &net->backbone, inputs[0], maps);
    for (int i = 1; i < count; i++)
        maps[i] = sr_layer_resize_like(maps[i], maps[0]);
    const sr_tensor all = sr_concat(maps, count, CHANNEL_AXIS);
    const sr_tensor first = sr_layer_pixel_classifier(f, &net->first_classifier,
                                                      sr_layer_conv_norm(f, &net->first, all));
    sr_tensor x = sr_layer_conv_norm(f, &net->features, all);
    x = context(f, net, x, describe_classes(first, x));
    sr_forward_output(f, "logits", sr_layer_pixel_classifier(f, &net->classifier, x));
    if (f->training)
        sr_forward_auxiliary(f, "aux", first, net->aux_weight);
}

SR_MODEL_DESC(ocrnet, "OCRNet for segmentation (Yuan et al. 2020)", ocrnet, .options = &table)
