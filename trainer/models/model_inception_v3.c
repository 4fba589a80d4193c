// SPDX-License-Identifier: Apache-2.0
// Inception-v3 (Szegedy et al. 2016, "Rethinking the Inception Architecture for Computer Vision")
// as in torchvision, with its parameter names and initial values. Without aux_logits it has no
// auxiliary classifier: in weights it is ignored. With it, pictures in training have at least 299
// pixels.
#include <stddef.h>

#include "trainer/models/layers.h"

enum { MAX_CONVS = 96, MODULES = 11, MOST_PARTS = 8, STAGES = 5, STEM = 5, LEAST_SIDE = 299 };

static const double head_weight = 0.4; // of the auxiliary classifier's loss

typedef struct inception_options {
    double dropout;
    bool transform_input, aux_logits;
} inception_options;

static const sr_option inception_rows[] = {
    SR_DROPOUT_OPTION(inception_options, "0.5"),
    {.name = "transform_input",
     .help = "normalise pictures by a mean and standard deviation of 1/2, as torchvision's weights "
             "need",
     .type = SR_OPT_BOOL,
     .offset = offsetof(inception_options, transform_input),
     .default_text = "false"},
    {.name = "aux_logits",
     .help = "train with an auxiliary classifier in the middle of the network, whose loss has the "
             "weight 0.4",
     .type = SR_OPT_BOOL,
     .offset = offsetof(inception_options, aux_logits),
     .default_text = "false"},
};

static const sr_option_table inception_table = {.name = "model.inception_v3",
                                                .options = inception_rows,
                                                .count =
                                                    sizeof inception_rows / sizeof *inception_rows,
                                                .struct_size = sizeof(inception_options)};

// What a convolution of a module reads: the module's input, its means over 3 x 3, the convolution
// before, or the one before that.
typedef enum source { INPUT, POOLED, LAST, BEFORE_LAST } source;

// A convolution; with a stride of 2 it has no padding. Those that are 'out' are joined in this
// order.
typedef struct conv_row {
    const char *name;
    source from;
    int out, height, width, stride;
    bool joins;
} conv_row;

typedef struct module_row {
    const char *name;
    const conv_row *convs;
    int count;
    bool pools; // the maximum over 3 x 3 with stride 2 is joined as well
    bool head;  // the auxiliary classifier sees its result
} module_row;

#define BLOCK_A(pooled)                                                                            \
    {                                                                                              \
        {"branch1x1", INPUT, 64, 1, 1, 1, true}, {"branch5x5_1", INPUT, 48, 1, 1, 1, false},       \
            {"branch5x5_2", LAST, 64, 5, 5, 1, true},                                              \
            {"branch3x3dbl_1", INPUT, 64, 1, 1, 1, false},                                         \
            {"branch3x3dbl_2", LAST, 96, 3, 3, 1, false},                                          \
            {"branch3x3dbl_3", LAST, 96, 3, 3, 1, true},                                           \
            {"branch_pool", POOLED, pooled, 1, 1, 1, true},                                        \
    }
#define BLOCK_C(n)                                                                                 \
    {                                                                                              \
        {"branch1x1", INPUT, 192, 1, 1, 1, true}, {"branch7x7_1", INPUT, n, 1, 1, 1, false},       \
            {"branch7x7_2", LAST, n, 1, 7, 1, false}, {"branch7x7_3", LAST, 192, 7, 1, 1, true},   \
            {"branch7x7dbl_1", INPUT, n, 1, 1, 1, false},                                          \
            {"branch7x7dbl_2", LAST, n, 7, 1, 1, false},                                           \
            {"branch7x7dbl_3", LAST, n, 1, 7, 1, false},                                           \
            {"branch7x7dbl_4", LAST, n, 7, 1, 1, false},                                           \
            {"branch7x7dbl_5", LAST, 192, 1, 7, 1, true},                                          \
            {"branch_pool", POOLED, 192, 1, 1, 1, true},                                           \
    }

static const conv_row block_5b[] = BLOCK_A(32), block_5c[] = BLOCK_A(64);
static const conv_row block_6a[] = {{"branch3x3", INPUT, 384, 3, 3, 2, true},
                                    {"branch3x3dbl_1", INPUT, 64, 1, 1, 1, false},
                                    {"branch3x3dbl_2", LAST, 96, 3, 3, 1, false},
                                    {"branch3x3dbl_3", LAST, 96, 3, 3, 2, true}};
static const conv_row block_6b[] = BLOCK_C(128), block_6c[] = BLOCK_C(160),
                      block_6e[] = BLOCK_C(192);
static const conv_row block_7a[] = {
    {"branch3x3_1", INPUT, 192, 1, 1, 1, false},   {"branch3x3_2", LAST, 320, 3, 3, 2, true},
    {"branch7x7x3_1", INPUT, 192, 1, 1, 1, false}, {"branch7x7x3_2", LAST, 192, 1, 7, 1, false},
    {"branch7x7x3_3", LAST, 192, 7, 1, 1, false},  {"branch7x7x3_4", LAST, 192, 3, 3, 2, true}};
static const conv_row block_7b[] = {{"branch1x1", INPUT, 320, 1, 1, 1, true},
                                    {"branch3x3_1", INPUT, 384, 1, 1, 1, false},
                                    {"branch3x3_2a", LAST, 384, 1, 3, 1, true},
                                    {"branch3x3_2b", BEFORE_LAST, 384, 3, 1, 1, true},
                                    {"branch3x3dbl_1", INPUT, 448, 1, 1, 1, false},
                                    {"branch3x3dbl_2", LAST, 384, 3, 3, 1, false},
                                    {"branch3x3dbl_3a", LAST, 384, 1, 3, 1, true},
                                    {"branch3x3dbl_3b", BEFORE_LAST, 384, 3, 1, 1, true},
                                    {"branch_pool", POOLED, 192, 1, 1, 1, true}};

#define BLOCK_WITH(name, block, pools, head)                                                       \
    { name, block, sizeof(block) / sizeof *(block), pools, head }
#define BLOCK(name, block, pools) BLOCK_WITH(name, block, pools, false)
static const module_row modules[MODULES] = {
    BLOCK("Mixed_5b", block_5b, false), BLOCK("Mixed_5c", block_5c, false),
    BLOCK("Mixed_5d", block_5c, false), BLOCK("Mixed_6a", block_6a, true),
    BLOCK("Mixed_6b", block_6b, false), BLOCK("Mixed_6c", block_6c, false),
    BLOCK("Mixed_6d", block_6c, false), BLOCK_WITH("Mixed_6e", block_6e, false, true),
    BLOCK("Mixed_7a", block_7a, true),  BLOCK("Mixed_7b", block_7b, false),
    BLOCK("Mixed_7c", block_7b, false)};

// The first convolutions: with a window of 3 they have no padding, except for the third.
static const struct stem_row {
    const char *name;
    int out, window, stride;
    bool pads, pools; // pools: a maximum over 3 x 3 with stride 2 follows
} stem[STEM] = {{"Conv2d_1a_3x3", 32, 3, 2, false, false},
                {"Conv2d_2a_3x3", 32, 3, 1, false, false},
                {"Conv2d_2b_3x3", 64, 3, 1, true, true},
                {"Conv2d_3b_1x1", 80, 1, 1, false, false},
                {"Conv2d_4a_3x3", 192, 3, 1, false, true}};

// Means of 5 x 5 windows, a 1x1 and a 5x5 convolution, a linear layer.
typedef struct auxiliary_head {
    sr_conv_norm_layer convs[2];
    sr_linear_layer fc;
} auxiliary_head;

typedef struct inception {
    sr_conv_norm_layer first[STEM], convs[MAX_CONVS];
    auxiliary_head head;
    sr_linear_layer fc;
    double dropout;
    bool transforms, has_head;
} inception;

static const sr_init wide_normal = {.kind = SR_INIT_TRUNC_NORMAL, .scale = 0.1};

static void build_conv(sr_builder *b, sr_conv_norm_layer *layer, const char *name,
                       sr_conv_layer_opts conv, bool no_padding) {
    conv.init = wide_normal;
    sr_build_push(b, "%s", name);
    sr_build_conv_norm_as(
        b, layer, "conv", "bn",
        (sr_conv_norm_opts){
            .conv = conv, .no_padding = no_padding, .norm = {.eps = 1e-3}, .activation = sr_relu});
    sr_build_pop(b);
}

// Returns the channels of the result.
static int64_t build_module(sr_builder *b, const module_row *module, sr_conv_norm_layer *layer,
                            int64_t in) {
    int64_t joined = module->pools ? in : 0;
    sr_build_push(b, "%s", module->name);
    for (int i = 0; i < module->count; i++) {
        const conv_row *row = &module->convs[i];
        const int back = row->from == LAST ? 1 : 2;
        const sr_conv_layer_opts conv = {.in = row->from < LAST ? in : module->convs[i - back].out,
                                         .out = row->out,
                                         .window = row->height,
                                         .window_w = row->width,
                                         .conv = {.stride = row->stride}};
        build_conv(b, layer++, row->name, conv, row->stride > 1);
        joined += row->joins ? row->out : 0;
    }
    sr_build_pop(b);
    return joined;
}

static void build_head(sr_builder *b, auxiliary_head *head, int64_t in) {
    const int64_t hidden = 128, out = 768;
    int64_t height, width;
    sr_build_image_size(b, &height, &width);
    if (height < LEAST_SIDE || width < LEAST_SIDE)
        sr_build_fail(b, "aux_logits needs pictures of at least %d pixels a side", LEAST_SIDE);
    sr_build_push(b, "AuxLogits");
    build_conv(b, &head->convs[0], "conv0", (sr_conv_layer_opts){in, hidden, .window = 1}, true);
    build_conv(b, &head->convs[1], "conv1", (sr_conv_layer_opts){hidden, out, .window = 5}, true);
    sr_build_linear(b, &head->fc, "fc", out, sr_build_classes(b), false);
    sr_build_pop(b);
    sr_build_set_init(b, &head->convs[1].conv.weight,
                      (sr_init){.kind = SR_INIT_TRUNC_NORMAL, .scale = 0.01});
    sr_build_set_init(b, &head->fc.weight, (sr_init){.kind = SR_INIT_TRUNC_NORMAL, .scale = 0.001});
}

static void build(sr_builder *b, const void *options, void *state) {
    const inception_options *o = options;
    inception *net = state;
    sr_conv_norm_layer *layer = net->convs;
    int64_t in = 3;
    int stride = 2;
    net->dropout = o->dropout;
    net->transforms = o->transform_input;
    net->has_head = o->aux_logits && sr_build_classes(b) > 0;
    for (int i = 0; i < STEM; i++) {
        const sr_conv_layer_opts conv = {.in = in,
                                         .out = stem[i].out,
                                         .window = stem[i].window,
                                         .conv = {.stride = stem[i].stride}};
        build_conv(b, &net->first[i], stem[i].name, conv, !stem[i].pads);
        in = stem[i].out;
        if (stem[i].pools) {
            sr_build_stage(b, in, stride);
            stride *= 2;
        }
    }
    for (int m = 0; m < MODULES; m++) {
        if (modules[m].pools) {
            sr_build_stage(b, in, stride);
            stride *= 2;
        }
        in = build_module(b, &modules[m], layer, in);
        layer += modules[m].count;
        if (net->has_head && modules[m].head)
            build_head(b, &net->head, in);
    }
    sr_build_stage(b, in, stride);
    if (sr_build_classes(b) == 0)
        return;
    sr_build_linear(b, &net->fc, "fc", in, sr_build_classes(b), false);
    sr_build_set_init(b, &net->fc.weight, wide_normal);
}

static sr_tensor shrink(sr_tensor x) {
    return sr_maxpool2d(x, (sr_pool2d_opts){.window = 3, .stride = 2});
}

static sr_tensor module_forward(sr_forward *f, const module_row *module,
                                const sr_conv_norm_layer *layer, sr_tensor x) {
    sr_tensor from[] = {[INPUT] = x, [POOLED] = SR_NONE, [LAST] = SR_NONE, [BEFORE_LAST] = SR_NONE};
    sr_tensor parts[MOST_PARTS];
    int count = 0;
    if (!module->pools)
        from[POOLED] = sr_avgpool2d(
            x, (sr_pool2d_opts){.window = 3, .stride = 1, .pad = 1, .count_pad = true});
    for (int i = 0; i < module->count; i++) {
        const sr_tensor y = sr_layer_conv_norm(f, &layer[i], from[module->convs[i].from]);
        from[BEFORE_LAST] = from[LAST];
        from[LAST] = y;
        if (module->convs[i].joins)
            parts[count++] = y;
    }
    if (module->pools)
        parts[count++] = shrink(x);
    return sr_concat(parts, count, 3);
}

static void head_forward(sr_forward *f, const auxiliary_head *head, sr_tensor x) {
    x = sr_avgpool2d(x, (sr_pool2d_opts){.window = 5, .stride = 3});
    for (int i = 0; i < 2; i++)
        x = sr_layer_conv_norm(f, &head->convs[i], x);
    sr_forward_auxiliary(f, "aux", sr_layer_linear(&head->fc, sr_global_avgpool(x)), head_weight);
}

static void features(sr_forward *f, const void *state, sr_tensor x, sr_tensor *stages) {
    const inception *net = state;
    const sr_conv_norm_layer *layer = net->convs;
    if (net->transforms)
        x = sr_layer_transform_input(f, x);
    for (int i = 0; i < STEM; i++) {
        x = sr_layer_conv_norm(f, &net->first[i], x);
        if (stem[i].pools) {
            *stages++ = x;
            x = shrink(x);
        }
    }
    for (int m = 0; m < MODULES; m++) {
        if (modules[m].pools)
            *stages++ = x;
        x = module_forward(f, &modules[m], layer, x);
        layer += modules[m].count;
        if (net->has_head && modules[m].head && f->training)
            head_forward(f, &net->head, x);
    }
    *stages = x;
}

static void forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const inception *net = state;
    sr_tensor stages[STAGES];
    features(f, state, inputs[0], stages);
    sr_tensor x = sr_layer_dropout(f, sr_global_avgpool(stages[STAGES - 1]), net->dropout);
    sr_forward_output(f, "logits", sr_layer_linear(&net->fc, x));
}

extern const sr_model_desc sr_model_inception_v3;
const sr_model_desc sr_model_inception_v3 = {.struct_size = sizeof(sr_model_desc),
                                             .abi = SR_MODEL_ABI,
                                             .name = "inception_v3",
                                             .help = "Inception-v3 (Szegedy et al. 2016)",
                                             .options = &inception_table,
                                             .state_size = sizeof(inception),
                                             .build = build,
                                             .forward = forward,
                                             .features = features};
