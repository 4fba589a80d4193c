// SPDX-License-Identifier: Apache-2.0
// A custom model in one file: strided convolutions instead of pooling (Springenberg et al. 2015,
// "Striving for Simplicity"), used as `model: {name: strided, width: 16}`, with any operator of one
// input as activation: one of serried's, or of another plug-in.
//
//   cc -shared -fPIC model_strided.c -o model_strided.so $(pkg-config --cflags --libs serried)
#include <serried.h>

typedef struct options {
    int64_t width;
    const char *activation;
} options;

static const sr_option rows[] = {
    {.name = "width",
     .help = "channels of the first stage, doubled in each of two more",
     .type = SR_OPT_INT,
     .offset = offsetof(options, width),
     .default_text = "8",
     .min = 1,
     .max = 1024},
    {.name = "activation",
     .help = "name of an operator with one input",
     .type = SR_OPT_STRING,
     .offset = offsetof(options, activation),
     .default_text = "relu"}};

static const sr_option_table table = {
    .name = "model.strided", .options = rows, .count = 2, .struct_size = sizeof(options)};

enum { STAGES = 3 };

typedef struct strided {
    struct {
        sr_conv_layer conv;
        sr_batchnorm_layer bn;
    } stages[STAGES];
    sr_linear_layer fc;
    const sr_op *activation;
} strided;

static void build(sr_builder *b, const void *opaque, void *state) {
    const options *o = opaque;
    strided *net = state;
    int64_t in = 3, out = o->width;
    net->activation = sr_op_find(o->activation);
    if (!net->activation || net->activation->inputs != 1)
        sr_build_fail(b, "model strided: '%s' is no operator with one input", o->activation);
    for (int i = 0; i < STAGES; i++, in = out, out *= 2) {
        sr_build_push(b, "stage%d", i + 1);
        sr_build_conv(b, &net->stages[i].conv, "conv",
                      (sr_conv_layer_opts){.in = in,
                                           .out = out,
                                           .window = 3,
                                           .conv = {.stride = 2, .pad = 1},
                                           .init = {.kind = SR_INIT_KAIMING_FAN_OUT}});
        sr_build_batchnorm(b, &net->stages[i].bn, "bn", out, (sr_batchnorm_layer_opts){0});
        sr_build_pop(b);
        sr_build_stage(b, out, 2 << i);
    }
    if (sr_build_classes(b) > 0)
        sr_build_linear(b, &net->fc, "fc", in, sr_build_classes(b), false);
}

static void features(sr_forward *f, const void *state, sr_tensor x, sr_tensor *stages) {
    const strided *net = state;
    for (int i = 0; i < STAGES; i++) {
        x = sr_layer_conv(&net->stages[i].conv, x);
        x = sr_layer_batchnorm(f, &net->stages[i].bn, x);
        x = stages[i] = sr_op_record_one(net->activation, NULL, &x);
    }
}

static void forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const strided *net = state;
    sr_tensor stages[STAGES];
    features(f, state, inputs[0], stages);
    sr_forward_output(f, "logits",
                      sr_layer_linear(&net->fc, sr_global_avgpool(stages[STAGES - 1])));
}

static const sr_model_desc model = {.struct_size = sizeof(sr_model_desc),
                                    .abi = SR_MODEL_ABI,
                                    .name = "strided",
                                    .help = "strided convolutions, no pooling",
                                    .options = &table,
                                    .state_size = sizeof(strided),
                                    .build = build,
                                    .forward = forward,
                                    .features = features};

static const sr_model_desc *const models[] = {&model, NULL};
static const sr_plugin plugin = {SR_PLUGIN_HEAD, .name = "strided", .models = models};

const sr_plugin *sr_plugin_entry(void) {
    return &plugin;
}
