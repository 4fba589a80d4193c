// SPDX-License-Identifier: Apache-2.0
// ShuffleNetV2 (Ma et al. 2018, table 5) as in torchvision, with its parameter names and initial
// values.
#include "trainer/models/layers.h"
#include "trainer/models/model_family_internal.h"

enum { STAGES = 3, FIRST_CHANNELS = 24, MAX_BLOCKS = 16 };

static const int depths[STAGES] = {4, 8, 4};

// One half of the channels passes (without a stride), the other half goes through three
// convolutions; then the halves are interleaved. With a stride both come from all channels.
typedef struct shuffle_block {
    bool strided;
    int64_t half;
    sr_conv_norm_layer pass[2], main[3];
} shuffle_block;

typedef struct shufflenet {
    sr_conv_norm_layer first, last;
    shuffle_block blocks[MAX_BLOCKS];
    sr_linear_layer fc;
} shufflenet;

static sr_conv_norm_opts conv_of(int64_t in, int64_t out, int window, sr_conv2d_opts conv,
                                 sr_activation activation) {
    return (sr_conv_norm_opts){.conv = {.in = in,
                                        .out = out,
                                        .window = window,
                                        .conv = conv,
                                        .init = {.kind = SR_INIT_TORCH_DEFAULT}},
                               .activation = activation};
}

static sr_conv_norm_opts filter_of(int64_t channels, int stride) {
    return conv_of(channels, channels, 3,
                   (sr_conv2d_opts){.stride = stride, .groups = (int)channels}, NULL);
}

static void build_block(sr_builder *b, shuffle_block *k, int64_t in, int64_t out) {
    const sr_conv2d_opts plain = {0};
    const int stride = k->strided ? 2 : 1;
    k->half = out / 2;
    if (k->strided) {
        sr_build_push(b, "branch1");
        sr_build_conv_norm_as(b, &k->pass[0], "0", "1", filter_of(in, stride));
        sr_build_conv_norm_as(b, &k->pass[1], "2", "3", conv_of(in, k->half, 1, plain, sr_relu));
        sr_build_pop(b);
    }
    sr_build_push(b, "branch2");
    sr_build_conv_norm_as(b, &k->main[0], "0", "1",
                          conv_of(k->strided ? in : k->half, k->half, 1, plain, sr_relu));
    sr_build_conv_norm_as(b, &k->main[1], "3", "4", filter_of(k->half, stride));
    sr_build_conv_norm_as(b, &k->main[2], "5", "6", conv_of(k->half, k->half, 1, plain, sr_relu));
    sr_build_pop(b);
}

static void build(sr_builder *b, void *state, const int channels[STAGES + 1]) {
    shufflenet *net = state;
    shuffle_block *k = net->blocks;
    int64_t in = FIRST_CHANNELS;
    const int64_t last = channels[STAGES];
    sr_build_conv_norm(b, &net->first, "conv1",
                       conv_of(3, in, 3, (sr_conv2d_opts){.stride = 2}, sr_relu));
    sr_build_stage(b, in, 4);
    for (int stage = 0; stage < STAGES; stage++) {
        for (int i = 0; i < depths[stage]; i++) {
            k->strided = i == 0;
            sr_build_push(b, "stage%d.%d", stage + 2, i);
            build_block(b, k++, in, channels[stage]);
            sr_build_pop(b);
            in = channels[stage];
        }
        sr_build_stage(b, stage + 1 < STAGES ? in : last, 8 << stage);
    }
    sr_build_conv_norm(b, &net->last, "conv5", conv_of(in, last, 1, (sr_conv2d_opts){0}, sr_relu));
    if (sr_build_classes(b) == 0)
        return;
    sr_build_linear(b, &net->fc, "fc", last, sr_build_classes(b), false);
}

// Channel i of the first half becomes channel 2 i, of the second one 2 i + 1.
static sr_tensor interleave(sr_tensor x, int64_t half) {
    sr_info info;
    if (!sr_tensor_info(x, &info))
        return SR_NONE;
    x = sr_reshape(x, 3, (int64_t[]){sr_info_count(&info) / (2 * half), 2, half});
    return sr_reshape(sr_permute(x, (int[]){0, 2, 1}), 4, info.dim);
}

static sr_tensor block_forward(sr_forward *f, const shuffle_block *k, sr_tensor x) {
    sr_tensor pass, y = x;
    if (k->strided) {
        pass = sr_layer_conv_norm(f, &k->pass[1], sr_layer_conv_norm(f, &k->pass[0], x));
    } else {
        pass = sr_slice(x, 3, 0, k->half, 1);
        y = sr_slice(x, 3, k->half, k->half, 1);
    }
    for (int i = 0; i < 3; i++)
        y = sr_layer_conv_norm(f, &k->main[i], y);
    return interleave(sr_concat((sr_tensor[]){pass, y}, 2, 3), k->half);
}

static void features(sr_forward *f, const void *state, sr_tensor x, sr_tensor *stages) {
    const shufflenet *net = state;
    const shuffle_block *k = net->blocks;
    x = sr_maxpool2d(sr_layer_conv_norm(f, &net->first, x),
                     (sr_pool2d_opts){.window = 3, .stride = 2, .pad = 1});
    *stages++ = x;
    for (int stage = 0; stage < STAGES; stage++) {
        for (int i = 0; i < depths[stage]; i++)
            x = block_forward(f, k++, x);
        stages[stage] = x;
    }
    stages[STAGES - 1] = sr_layer_conv_norm(f, &net->last, x);
}

static void forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const shufflenet *net = state;
    sr_tensor stages[STAGES + 1];
    features(f, state, inputs[0], stages);
    sr_forward_output(f, "logits", sr_layer_linear(&net->fc, sr_global_avgpool(stages[STAGES])));
}

// SIZE(name, help, channels of the stages and of the last convolution)
#define SIZES(SIZE)                                                                                \
    SIZE(shufflenet_v2_x0_5, "ShuffleNetV2 0.5x (Ma et al. 2018)", 48, 96, 192, 1024)              \
    SIZE(shufflenet_v2_x1_0, "ShuffleNetV2 1x (Ma et al. 2018)", 116, 232, 464, 1024)              \
    SIZE(shufflenet_v2_x1_5, "ShuffleNetV2 1.5x (Ma et al. 2018)", 176, 352, 704, 1024)            \
    SIZE(shufflenet_v2_x2_0, "ShuffleNetV2 2x (Ma et al. 2018)", 244, 488, 976, 2048)

#define DEFINE(id, text, ...)                                                                      \
    static void build_##id(sr_builder *b, const void *options, void *state) {                      \
        static const int channels[] = {__VA_ARGS__};                                               \
        (void)options;                                                                             \
        build(b, state, channels);                                                                 \
    }                                                                                              \
    SR_MODEL_DESC(id, text, shufflenet, .features = features)
SIZES(DEFINE)
