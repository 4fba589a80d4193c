// SPDX-License-Identifier: Apache-2.0
// The two networks of a toy GAN in the style of DCGAN (Radford et al. 2015) for images of 32 px: a
// generator from noise [N,Z] to [N,32,32,3] in [-1,1], and a critic from images to one logit. Small
// enough for tests; the recipe toy-gan trains them as two phases.
#include <stddef.h>

#include "trainer/models/layers.h"

enum { NOISE = 32 };

typedef struct toy_options {
    int64_t width;
} toy_options;

static const sr_option toy_rows[] = {
    {.name = "width",
     .help = "channels at the largest resolution",
     .type = SR_OPT_INT,
     .offset = offsetof(toy_options, width),
     .default_text = "16",
     .min = 1,
     .max = 1024},
};

static const sr_option_table toy_table = {.name = "model.toy",
                                          .options = toy_rows,
                                          .count = sizeof toy_rows / sizeof toy_rows[0],
                                          .struct_size = sizeof(toy_options)};

// Layers 4 -> 8 -> 16 -> 32 px.
typedef struct generator {
    sr_linear_layer start;
    sr_batchnorm_layer norm[3];
    sr_conv_layer conv[3];
    int64_t channels;
} generator;

static sr_conv_layer_opts conv3(int64_t in, int64_t out, int stride) {
    return (sr_conv_layer_opts){.in = in,
                                .out = out,
                                .window = 3,
                                .conv = {.stride = stride, .pad = 1},
                                .has_bias = true,
                                .init = {.kind = SR_INIT_NORMAL, .scale = 0.05}};
}

static void build_generator(sr_builder *b, const void *options, void *state) {
    generator *g = state;
    int64_t width = ((const toy_options *)options)->width;
    static const char *const conv_names[] = {"conv1", "conv2", "conv3"};
    static const char *const norm_names[] = {"norm1", "norm2", "norm3"};
    g->channels = 4 * width;
    sr_build_linear(b, &g->start, "start", NOISE, 16 * g->channels, false);
    int64_t in = g->channels;
    for (int i = 0; i < 3; i++) {
        int64_t out = i == 2 ? 3 : in / 2;
        sr_build_batchnorm(b, &g->norm[i], norm_names[i], in, (sr_batchnorm_layer_opts){0});
        sr_build_conv(b, &g->conv[i], conv_names[i], conv3(in, out, 1));
        in = out;
    }
}

static void generate(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const generator *g = state;
    sr_info info;
    if (!sr_tensor_info(inputs[0], &info))
        return;
    sr_tensor x = sr_layer_linear(&g->start, inputs[0]);
    x = sr_reshape(x, 4, (int64_t[]){info.dim[0], 4, 4, g->channels});
    for (int i = 0; i < 3; i++) {
        x = sr_relu(sr_layer_batchnorm(f, &g->norm[i], x));
        x = sr_layer_conv(&g->conv[i], sr_upsample2d(x, 2));
    }
    sr_forward_output(f, "picture", sr_tanh_op(x));
}

typedef struct critic {
    sr_conv_layer conv[3];
    sr_linear_layer end;
} critic;

static void build_critic(sr_builder *b, const void *options, void *state) {
    critic *d = state;
    int64_t width = ((const toy_options *)options)->width;
    static const char *const names[] = {"conv1", "conv2", "conv3"};
    int64_t in = 3;
    for (int i = 0; i < 3; i++) {
        sr_build_conv(b, &d->conv[i], names[i], conv3(in, width << i, 2));
        in = width << i;
    }
    sr_build_linear(b, &d->end, "end", 16 * in, 1, false);
}

static void judge(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const critic *d = state;
    sr_tensor x = inputs[0];
    for (int i = 0; i < 3; i++)
        x = sr_leaky_relu(sr_layer_conv(&d->conv[i], x), 0.2);
    sr_forward_output(f, "logits", sr_layer_linear(&d->end, sr_flatten(x)));
}

extern const sr_model_desc sr_model_toy_generator, sr_model_toy_critic;
const sr_model_desc sr_model_toy_generator = {.struct_size = sizeof(sr_model_desc),
                                              .abi = SR_MODEL_ABI,
                                              .name = "toy-generator",
                                              .help = "noise to 32 px images, for the toy GAN",
                                              .options = &toy_table,
                                              .state_size = sizeof(generator),
                                              .build = build_generator,
                                              .forward = generate};
const sr_model_desc sr_model_toy_critic = {.struct_size = sizeof(sr_model_desc),
                                           .abi = SR_MODEL_ABI,
                                           .name = "toy-critic",
                                           .help = "32 px images to one logit, for the toy GAN",
                                           .options = &toy_table,
                                           .state_size = sizeof(critic),
                                           .build = build_critic,
                                           .forward = judge};
