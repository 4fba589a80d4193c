// SPDX-License-Identifier: Apache-2.0
// DenseNet-BC (Huang et al. 2017, "Densely Connected Convolutional Networks", table 1) as in
// torchvision, with its parameter names and initial values.
#include <stddef.h>

#include "trainer/models/layers.h"
#include "trainer/models/model_family_internal.h"

enum { STAGES = 4, MAX_LAYERS = 98, BOTTLENECK = 4 };

typedef struct densenet_options {
    double drop_rate;
} densenet_options;

static const sr_option densenet_rows[] = {
    {.name = "drop_rate",
     .help = "dropout probability of the features that each layer adds",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(densenet_options, drop_rate),
     .default_text = "0",
     .max = 0.99},
};

static const sr_option_table densenet_table = {.name = "model.densenet",
                                               .options = densenet_rows,
                                               .count =
                                                   sizeof densenet_rows / sizeof densenet_rows[0],
                                               .struct_size = sizeof(densenet_options)};

typedef struct densenet_size {
    int growth, first;
    int depth[STAGES];
} densenet_size;

// Normalisation and ReLU come before a convolution.
typedef struct norm_conv {
    sr_batchnorm_layer norm;
    sr_conv_layer conv;
} norm_conv;

typedef struct densenet {
    int depth[STAGES];
    sr_conv_norm_layer first;
    norm_conv layers[MAX_LAYERS][2], transition[STAGES - 1];
    sr_batchnorm_layer last;
    sr_linear_layer fc;
    double drop;
} densenet;

static const sr_init fan_in = {.kind = SR_INIT_KAIMING_FAN_IN};

static void build_norm_conv(sr_builder *b, norm_conv *layer, const char *norm, const char *conv,
                            sr_conv_layer_opts opts) {
    opts.init = fan_in;
    opts.conv.pad = opts.window / 2;
    sr_build_batchnorm(b, &layer->norm, norm, opts.in, (sr_batchnorm_layer_opts){0});
    sr_build_conv(b, &layer->conv, conv, opts);
}

// Returns the channels of the last layer's output.
static int64_t build_stages(sr_builder *b, densenet *net, const densenet_size *size) {
    const int64_t wide = (int64_t)BOTTLENECK * size->growth;
    int64_t in = size->first;
    norm_conv(*layer)[2] = net->layers;
    for (int stage = 0; stage < STAGES; stage++) {
        for (int i = 0; i < size->depth[stage]; i++, layer++, in += size->growth) {
            sr_build_push(b, "features.denseblock%d.denselayer%d", stage + 1, i + 1);
            build_norm_conv(b, &(*layer)[0], "norm1", "conv1",
                            (sr_conv_layer_opts){.in = in, .out = wide, .window = 1});
            build_norm_conv(b, &(*layer)[1], "norm2", "conv2",
                            (sr_conv_layer_opts){.in = wide, .out = size->growth, .window = 3});
            sr_build_pop(b);
        }
        net->depth[stage] = size->depth[stage];
        sr_build_stage(b, in, 4 << stage);
        if (stage + 1 == STAGES)
            break;
        sr_build_push(b, "features.transition%d", stage + 1);
        build_norm_conv(b, &net->transition[stage], "norm", "conv",
                        (sr_conv_layer_opts){.in = in, .out = in / 2, .window = 1});
        sr_build_pop(b);
        in /= 2;
    }
    return in;
}

static void build(sr_builder *b, const void *options, void *state, const densenet_size *size) {
    const densenet_options *o = options;
    densenet *net = state;
    net->drop = o->drop_rate;
    const sr_conv_layer_opts first = {
        .in = 3, .out = size->first, .window = 7, .conv = {.stride = 2}, .init = fan_in};
    sr_build_conv_norm_as(b, &net->first, "features.conv0", "features.norm0",
                          (sr_conv_norm_opts){.conv = first, .activation = sr_relu});
    const int64_t in = build_stages(b, net, size);
    sr_build_batchnorm(b, &net->last, "features.norm5", in, (sr_batchnorm_layer_opts){0});
    if (sr_build_classes(b) == 0)
        return;
    sr_build_linear_from(b, &net->fc, "classifier", in, sr_build_classes(b),
                         (sr_init){.kind = SR_INIT_TORCH_DEFAULT});
}

static sr_tensor norm_conv_forward(sr_forward *f, const norm_conv *layer, sr_tensor x) {
    return sr_layer_conv(&layer->conv, sr_relu(sr_layer_batchnorm(f, &layer->norm, x)));
}

static void features(sr_forward *f, const void *state, sr_tensor x, sr_tensor *stages) {
    const densenet *net = state;
    const norm_conv(*layer)[2] = net->layers;
    x = sr_maxpool2d(sr_layer_conv_norm(f, &net->first, x),
                     (sr_pool2d_opts){.window = 3, .stride = 2, .pad = 1});
    for (int stage = 0; stage < STAGES; stage++) {
        for (int i = 0; i < net->depth[stage]; i++, layer++) {
            sr_tensor y = norm_conv_forward(f, &(*layer)[0], x);
            y = sr_layer_dropout(f, norm_conv_forward(f, &(*layer)[1], y), net->drop);
            x = sr_concat((sr_tensor[]){x, y}, 2, 3);
        }
        stages[stage] = x;
        if (stage + 1 < STAGES)
            x = sr_avgpool2d(norm_conv_forward(f, &net->transition[stage], x),
                             (sr_pool2d_opts){.window = 2});
    }
    stages[STAGES - 1] = sr_relu(sr_layer_batchnorm(f, &net->last, x));
}

static void forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const densenet *net = state;
    sr_tensor stages[STAGES];
    features(f, state, inputs[0], stages);
    sr_forward_output(f, "logits",
                      sr_layer_linear(&net->fc, sr_global_avgpool(stages[STAGES - 1])));
}

// SIZE(name, help, features of a layer, of the first one, layers of the stages)
#define SIZES(SIZE)                                                                                \
    SIZE(densenet121, "DenseNet-121 (Huang et al. 2017)", 32, 64, {6, 12, 24, 16})                 \
    SIZE(densenet161, "DenseNet-161 (Huang et al. 2017)", 48, 96, {6, 12, 36, 24})                 \
    SIZE(densenet169, "DenseNet-169 (Huang et al. 2017)", 32, 64, {6, 12, 32, 32})                 \
    SIZE(densenet201, "DenseNet-201 (Huang et al. 2017)", 32, 64, {6, 12, 48, 32})

#define DEFINE(id, text, ...)                                                                      \
    static void build_##id(sr_builder *b, const void *options, void *state) {                      \
        static const densenet_size size = {__VA_ARGS__};                                           \
        build(b, options, state, &size);                                                           \
    }                                                                                              \
    SR_MODEL_DESC(id, text, densenet, .options = &densenet_table, .features = features)
SIZES(DEFINE)
