// SPDX-License-Identifier: Apache-2.0
// SqueezeNet 1.0 and 1.1 (Iandola et al. 2016) as in torchvision, with its parameter names and
// initial values.
#include <math.h>
#include <stddef.h>

#include "trainer/models/layers.h"
#include "trainer/models/model_family_internal.h"

enum { FIRES = 8 };

typedef struct squeezenet_options {
    double dropout;
} squeezenet_options;

static const sr_option squeezenet_rows[] = {SR_DROPOUT_OPTION(squeezenet_options, "0.5")};

static const sr_option_table squeezenet_table = {.name = "model.squeezenet",
                                                 .options = squeezenet_rows,
                                                 .count = sizeof squeezenet_rows /
                                                          sizeof squeezenet_rows[0],
                                                 .struct_size = sizeof(squeezenet_options)};

// Channels of a fire module: of its 1x1 convolution, and of each of the two that read this one. The
// modules are those of both versions.
static const int squeezed[FIRES] = {16, 16, 32, 32, 48, 48, 64, 64};
static const int expanded[FIRES] = {64, 64, 128, 128, 192, 192, 256, 256};

typedef struct squeezenet_size {
    int first, window;
    bool pools[FIRES]; // before this module
} squeezenet_size;

typedef struct fire {
    sr_conv_layer squeeze, expand1, expand3;
} fire;

typedef struct squeezenet {
    const squeezenet_size *size;
    sr_conv_layer first, last;
    fire fires[FIRES];
    double dropout;
} squeezenet;

static void build_conv(sr_builder *b, sr_conv_layer *layer, const char *name, int64_t in,
                       int64_t out, int window, sr_conv2d_opts conv) {
    const double scale = sqrt(6.0 / (double)(in * window * window));
    sr_build_conv(b, layer, name,
                  (sr_conv_layer_opts){.in = in,
                                       .out = out,
                                       .window = window,
                                       .conv = conv,
                                       .has_bias = true,
                                       .zero_bias = true,
                                       .init = {.kind = SR_INIT_UNIFORM, .scale = scale}});
}

static void build_fire(sr_builder *b, fire *k, int64_t in, int64_t narrow, int64_t out) {
    const sr_conv2d_opts plain = {0}, padded = {.pad = 1};
    build_conv(b, &k->squeeze, "squeeze", in, narrow, 1, plain);
    build_conv(b, &k->expand1, "expand1x1", narrow, out, 1, plain);
    build_conv(b, &k->expand3, "expand3x3", narrow, out, 3, padded);
}

static void build(sr_builder *b, const void *options, void *state, const squeezenet_size *size) {
    squeezenet *net = state;
    int64_t in = size->first;
    int number = 2, stride = 2; // after a convolution and its activation
    net->size = size;
    net->dropout = ((const squeezenet_options *)options)->dropout;
    build_conv(b, &net->first, "features.0", 3, in, size->window, (sr_conv2d_opts){.stride = 2});
    for (int i = 0; i < FIRES; i++) {
        if (size->pools[i]) {
            sr_build_stage(b, in, stride);
            stride *= 2;
            number++;
        }
        sr_build_push(b, "features.%d", number++);
        build_fire(b, &net->fires[i], in, squeezed[i], expanded[i]);
        sr_build_pop(b);
        in = 2 * expanded[i];
    }
    sr_build_stage(b, in, stride);
    if (sr_build_classes(b) == 0)
        return;
    build_conv(b, &net->last, "classifier.1", in, sr_build_classes(b), 1, (sr_conv2d_opts){0});
    sr_build_set_init(b, &net->last.weight, (sr_init){.kind = SR_INIT_NORMAL, .scale = 0.01});
}

static sr_tensor fire_forward(const fire *k, sr_tensor x) {
    x = sr_relu(sr_layer_conv(&k->squeeze, x));
    const sr_tensor parts[] = {sr_relu(sr_layer_conv(&k->expand1, x)),
                               sr_relu(sr_layer_conv(&k->expand3, x))};
    return sr_concat(parts, 2, 3);
}

// Returns the last stage.
static sr_tensor record_stages(const squeezenet *net, sr_tensor x, sr_tensor *stages) {
    x = sr_relu(sr_layer_conv(&net->first, x));
    for (int i = 0; i < FIRES; i++) {
        if (net->size->pools[i]) {
            *stages++ = x;
            x = sr_maxpool2d(x, (sr_pool2d_opts){.window = 3, .stride = 2, .ceil_mode = true});
        }
        x = fire_forward(&net->fires[i], x);
    }
    *stages = x;
    return x;
}

static void features(sr_forward *f, const void *state, sr_tensor x, sr_tensor *stages) {
    (void)f;
    (void)record_stages(state, x, stages);
}

static void forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const squeezenet *net = state;
    sr_tensor stages[SR_STAGES_MAX];
    sr_tensor x = sr_layer_dropout(f, record_stages(net, inputs[0], stages), net->dropout);
    sr_forward_output(f, "logits", sr_global_avgpool(sr_relu(sr_layer_conv(&net->last, x))));
}

// SIZE(name, help, channels and window of the first convolution, where pooling is)
#define SIZES(SIZE)                                                                                \
    SIZE(squeezenet1_0, "SqueezeNet 1.0 (Iandola et al. 2016)", 96, 7, {1, 0, 0, 1, 0, 0, 0, 1})   \
    SIZE(squeezenet1_1, "SqueezeNet 1.1 (Iandola et al. 2016)", 64, 3, {1, 0, 1, 0, 1, 0, 0, 0})

#define DEFINE(id, text, ...)                                                                      \
    static void build_##id(sr_builder *b, const void *options, void *state) {                      \
        static const squeezenet_size size = {__VA_ARGS__};                                         \
        build(b, options, state, &size);                                                           \
    }                                                                                              \
    SR_MODEL_DESC(id, text, squeezenet, .options = &squeezenet_table, .features = features)
SIZES(DEFINE)
