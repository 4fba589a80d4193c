// SPDX-License-Identifier: Apache-2.0
// GoogLeNet (Szegedy et al. 2015, "Going Deeper with Convolutions", table 1) as in torchvision,
// with batch normalisation and its 3x3 convolutions in the place of 5x5 ones, its parameter names
// and initial values. Without aux_logits it has no auxiliary classifiers: in weights they are
// ignored.
#include <stddef.h>

#include "trainer/models/layers.h"

enum { MODULES = 9, STAGES = 5, HEADS = 2, HEAD_SIDE = 4, HEAD_CHANNELS = 128 };

static const double head_weight = 0.3; // of their losses

typedef struct googlenet_options {
    double dropout, dropout_aux;
    bool transform_input, aux_logits;
} googlenet_options;

static const sr_option googlenet_rows[] = {
    SR_DROPOUT_OPTION(googlenet_options, "0.2"),
    {.name = "transform_input",
     .help = "normalise pictures by a mean and standard deviation of 1/2, as torchvision's weights "
             "need",
     .type = SR_OPT_BOOL,
     .offset = offsetof(googlenet_options, transform_input),
     .default_text = "false"},
    {.name = "aux_logits",
     .help = "train with two auxiliary classifiers in the middle of the network, whose losses have "
             "the weight 0.3",
     .type = SR_OPT_BOOL,
     .offset = offsetof(googlenet_options, aux_logits),
     .default_text = "false"},
    {.name = "dropout_aux",
     .help = "dropout probability before the last layers of the auxiliary classifiers",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(googlenet_options, dropout_aux),
     .default_text = "0.7",
     .max = 0.99},
};

static const sr_option_table googlenet_table = {.name = "model.googlenet",
                                                .options = googlenet_rows,
                                                .count =
                                                    sizeof googlenet_rows / sizeof *googlenet_rows,
                                                .struct_size = sizeof(googlenet_options)};

// Channels of a module's convolutions: 1x1; 1x1 before 3x3; 3x3; 1x1 before the third; the third;
// 1x1 after pooling.
typedef struct module_row {
    const char *name;
    int one, two_before, two, three_before, three, pooled;
    int pools;  // window of the pooling before it; 0: none
    bool heads; // an auxiliary classifier sees its result
} module_row;

static const module_row rows[MODULES] = {{"inception3a", 64, 96, 128, 16, 32, 32, 3, false},
                                         {"inception3b", 128, 128, 192, 32, 96, 64, 0, false},
                                         {"inception4a", 192, 96, 208, 16, 48, 64, 3, true},
                                         {"inception4b", 160, 112, 224, 24, 64, 64, 0, false},
                                         {"inception4c", 128, 128, 256, 24, 64, 64, 0, false},
                                         {"inception4d", 112, 144, 288, 32, 64, 64, 0, true},
                                         {"inception4e", 256, 160, 320, 32, 128, 128, 0, false},
                                         {"inception5a", 256, 160, 320, 32, 128, 128, 2, false},
                                         {"inception5b", 384, 192, 384, 48, 128, 128, 0, false}};

typedef struct inception_module {
    sr_conv_norm_layer one, two[2], three[2], pooled;
} inception_module;

// Means of 4 x 4 windows, 1x1 convolution, two linear layers.
typedef struct auxiliary_head {
    sr_conv_norm_layer conv;
    sr_linear_layer fc1, fc2;
} auxiliary_head;

typedef struct googlenet {
    sr_conv_norm_layer first[3];
    inception_module modules[MODULES];
    auxiliary_head heads[HEADS];
    sr_linear_layer fc;
    double dropout, dropout_aux;
    bool transforms, has_heads;
} googlenet;

static const sr_init small_normal = {.kind = SR_INIT_TRUNC_NORMAL, .scale = 0.01};

static void build_conv(sr_builder *b, sr_conv_norm_layer *layer, const char *name, int64_t in,
                       int64_t out, int window, int stride) {
    sr_build_push(b, "%s", name);
    sr_build_conv_norm_as(b, layer, "conv", "bn",
                          (sr_conv_norm_opts){.conv = {.in = in,
                                                       .out = out,
                                                       .window = window,
                                                       .conv = {.stride = stride},
                                                       .init = small_normal},
                                              .norm = {.eps = 1e-3},
                                              .activation = sr_relu});
    sr_build_pop(b);
}

// Returns the channels of the result.
static int64_t build_module(sr_builder *b, inception_module *m, const module_row *row, int64_t in) {
    sr_build_push(b, "%s", row->name);
    build_conv(b, &m->one, "branch1", in, row->one, 1, 1);
    build_conv(b, &m->two[0], "branch2.0", in, row->two_before, 1, 1);
    build_conv(b, &m->two[1], "branch2.1", row->two_before, row->two, 3, 1);
    build_conv(b, &m->three[0], "branch3.0", in, row->three_before, 1, 1);
    build_conv(b, &m->three[1], "branch3.1", row->three_before, row->three, 3, 1);
    build_conv(b, &m->pooled, "branch4.1", in, row->pooled, 1, 1);
    sr_build_pop(b);
    return row->one + row->two + row->three + row->pooled;
}

static void build_head(sr_builder *b, auxiliary_head *head, int number, int64_t in) {
    const int64_t inputs = HEAD_CHANNELS * HEAD_SIDE * HEAD_SIDE, hidden = 1024;
    sr_build_push(b, "aux%d", number);
    build_conv(b, &head->conv, "conv", in, HEAD_CHANNELS, 1, 1);
    sr_build_linear(b, &head->fc1, "fc1", inputs, hidden, false);
    sr_build_linear(b, &head->fc2, "fc2", hidden, sr_build_classes(b), false);
    sr_build_pop(b);
    sr_build_set_init(b, &head->fc1.weight, small_normal);
    sr_build_set_init(b, &head->fc2.weight, small_normal);
}

static void build(sr_builder *b, const void *options, void *state) {
    const googlenet_options *o = options;
    googlenet *net = state;
    int64_t in = 192;
    int stride = 4, heads = 0;
    net->dropout = o->dropout;
    net->dropout_aux = o->dropout_aux;
    net->has_heads = o->aux_logits && sr_build_classes(b) > 0;
    net->transforms = o->transform_input;
    build_conv(b, &net->first[0], "conv1", 3, 64, 7, 2);
    sr_build_stage(b, 64, 2);
    build_conv(b, &net->first[1], "conv2", 64, 64, 1, 1);
    build_conv(b, &net->first[2], "conv3", 64, in, 3, 1);
    for (int i = 0; i < MODULES; i++) {
        if (rows[i].pools) {
            sr_build_stage(b, in, stride);
            stride *= 2;
        }
        in = build_module(b, &net->modules[i], &rows[i], in);
        if (net->has_heads && rows[i].heads) {
            build_head(b, &net->heads[heads], heads + 1, in);
            heads++;
        }
    }
    sr_build_stage(b, in, stride);
    if (sr_build_classes(b) == 0)
        return;
    sr_build_linear(b, &net->fc, "fc", in, sr_build_classes(b), false);
    sr_build_set_init(b, &net->fc.weight, small_normal);
}

static sr_tensor pool(sr_tensor x, int window) {
    return sr_maxpool2d(x, (sr_pool2d_opts){.window = window, .stride = 2, .ceil_mode = true});
}

static sr_tensor module_forward(sr_forward *f, const inception_module *m, sr_tensor x) {
    const sr_tensor pooled =
        sr_maxpool2d(x, (sr_pool2d_opts){.window = 3, .stride = 1, .pad = 1, .ceil_mode = true});
    const sr_tensor parts[] = {
        sr_layer_conv_norm(f, &m->one, x),
        sr_layer_conv_norm(f, &m->two[1], sr_layer_conv_norm(f, &m->two[0], x)),
        sr_layer_conv_norm(f, &m->three[1], sr_layer_conv_norm(f, &m->three[0], x)),
        sr_layer_conv_norm(f, &m->pooled, pooled)};
    return sr_concat(parts, 4, 3);
}

static void head_forward(sr_forward *f, const googlenet *net, const auxiliary_head *head,
                         sr_tensor x) {
    const char *name = head == net->heads ? "aux1" : "aux2";
    x = sr_layer_conv_norm(f, &head->conv, sr_adaptive_avgpool2d(x, HEAD_SIDE, HEAD_SIDE));
    x = sr_relu(sr_layer_linear(&head->fc1, sr_layer_flatten_channels(x)));
    x = sr_layer_linear(&head->fc2, sr_layer_dropout(f, x, net->dropout_aux));
    sr_forward_auxiliary(f, name, x, head_weight);
}

static void features(sr_forward *f, const void *state, sr_tensor x, sr_tensor *stages) {
    const googlenet *net = state;
    const auxiliary_head *head = net->heads;
    if (net->transforms)
        x = sr_layer_transform_input(f, x);
    *stages++ = x = sr_layer_conv_norm(f, &net->first[0], x);
    x = sr_layer_conv_norm(f, &net->first[1], pool(x, 3));
    x = sr_layer_conv_norm(f, &net->first[2], x);
    for (int i = 0; i < MODULES; i++) {
        if (rows[i].pools) {
            *stages++ = x;
            x = pool(x, rows[i].pools);
        }
        x = module_forward(f, &net->modules[i], x);
        if (net->has_heads && rows[i].heads && f->training)
            head_forward(f, net, head++, x);
    }
    *stages = x;
}

static void forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const googlenet *net = state;
    sr_tensor stages[STAGES];
    features(f, state, inputs[0], stages);
    sr_tensor x = sr_layer_dropout(f, sr_global_avgpool(stages[STAGES - 1]), net->dropout);
    sr_forward_output(f, "logits", sr_layer_linear(&net->fc, x));
}

extern const sr_model_desc sr_model_googlenet;
const sr_model_desc sr_model_googlenet = {.struct_size = sizeof(sr_model_desc),
                                          .abi = SR_MODEL_ABI,
                                          .name = "googlenet",
                                          .help = "GoogLeNet (Szegedy et al. 2015)",
                                          .options = &googlenet_table,
                                          .state_size = sizeof(googlenet),
                                          .build = build,
                                          .forward = forward,
                                          .features = features};
