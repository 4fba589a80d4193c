// SPDX-License-Identifier: Apache-2.0
// Vision transformers (Dosovitskiy et al. 2021): torchvision's vit_*, and timm's vit_* and deit_*
// (Touvron et al. 2021) with a class token. Names, initial values and defaults are those of the
// library that has the model; weights in the other one's layout can be loaded, too.
//
// Position embeddings have the grid of the training pictures. They are resized for pictures of
// other sizes in evaluation, and when weights of another grid are loaded.
#include <math.h>
#include <stddef.h>

#include "trainer/models/attention_layers.h"
#include "trainer/models/model_family_internal.h"

enum { MAX_LAYERS = 32, TORCHVISION = 0, TIMM = 1 };

static const double norm_eps = 1e-6, init_std = 0.02;

// ---- Options ----

typedef struct vit_options {
    double dropout, attention_dropout, stochastic_depth_prob, width_mult;
} vit_options;

static const sr_option vit_rows[] = {
    {.name = "dropout",
     .help = "dropout probability of the embeddings and of the residual branches",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(vit_options, dropout),
     .default_text = "0",
     .max = 0.99},
    {.name = "attention_dropout",
     .help = "dropout probability of the attention weights; needs memory for all of them",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(vit_options, attention_dropout),
     .default_text = "0",
     .max = 0.99},
    {.name = "stochastic_depth_prob",
     .help = "stochastic depth: probability of dropping the residual branch of the last block, "
             "falling linearly to 0 at the first (Huang et al. 2016)",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(vit_options, stochastic_depth_prob),
     .default_text = "0",
     .max = 0.99},
    SR_WIDTH_OPTION(vit_options),
};

static const sr_option_table vit_table = {.name = "model.vit",
                                          .options = vit_rows,
                                          .count = sizeof vit_rows / sizeof vit_rows[0],
                                          .struct_size = sizeof(vit_options)};

// ---- Names ----

#define LAYER "encoder.layers.encoder_layer_*."
static const sr_weight_name_row name_rows[] = {
    {{"class_token", "cls_token"}},
    {{"encoder.pos_embedding", "pos_embed"}},
    {{"conv_proj", "patch_embed.proj"}},
    {{LAYER "ln_1", "blocks.*.norm1"}},
    {{LAYER "self_attention.in_proj_weight", "blocks.*.attn.qkv.weight"}},
    {{LAYER "self_attention.in_proj_bias", "blocks.*.attn.qkv.bias"}},
    {{LAYER "self_attention.out_proj", "blocks.*.attn.proj"}},
    {{LAYER "ln_2", "blocks.*.norm2"}},
    {{LAYER "mlp.0", "blocks.*.mlp.fc1", LAYER "mlp.linear_1"}},
    {{LAYER "mlp.3", "blocks.*.mlp.fc2", LAYER "mlp.linear_2"}},
    {{"encoder.ln", "norm"}},
    {{"heads.head", "head"}},
};
static const sr_weight_names vit_names = {
    .layout = {"torchvision", "timm", "torchvision before 0.13"},
    .antialias = {[TIMM] = true},
    .rows = name_rows,
    .count = sizeof name_rows / sizeof name_rows[0]};

// ---- Parameters ----

typedef struct vit_layer {
    sr_layernorm_layer norm1, norm2;
    sr_linear_layer qkv, out;
    sr_mlp_layer mlp;
    double drop; // probability
} vit_layer;

typedef struct vit {
    vit_options options;
    int heads, layer_count;
    sr_tensor class_token, positions;
    sr_grid grid; // of the positions
    sr_conv_layer patches;
    vit_layer layers[MAX_LAYERS];
    sr_layernorm_layer norm;
    sr_linear_layer head;
} vit;

// Sizes of a network.
typedef struct vit_size {
    int patch, layers, heads;
    int64_t channels;
} vit_size;

// Initial values of a library.
typedef struct vit_init {
    sr_init class_token, patches, qkv, out, mlp, mlp_bias, head;
    bool patches_bias; // is not 0 but PyTorch's default
} vit_init;

static vit_init init_of(int layout, const vit_size *size) {
    const double channels = (double)size->channels, inputs = 3.0 * size->patch * size->patch;
    const sr_init narrow = {.kind = SR_INIT_TRUNC_NORMAL, .scale = init_std};
    const sr_init standard = {.kind = SR_INIT_TORCH_DEFAULT};
    if (layout == TIMM) {
        return (vit_init){.class_token = {.kind = SR_INIT_NORMAL, .scale = 1e-6},
                          .patches = standard,
                          .patches_bias = true,
                          .qkv = narrow,
                          .out = narrow,
                          .mlp = narrow,
                          .head = narrow};
    }
    // Glorot & Bengio 2010: uniform, +-sqrt(6 / (inputs + outputs)).
    return (vit_init){
        .patches = {.kind = SR_INIT_TRUNC_NORMAL, .scale = sqrt(1 / inputs)},
        .qkv = {.kind = SR_INIT_UNIFORM, .scale = sqrt(6 / (4 * channels))},
        .out = standard,
        .mlp = {.kind = SR_INIT_UNIFORM, .scale = sqrt(6 / (5 * channels))},
        .mlp_bias = {.kind = SR_INIT_NORMAL, .scale = 1e-6},
    };
}

static void build_positions(sr_builder *b, vit *net, const vit_size *size, int layout) {
    const sr_grid grid = net->grid;
    const int64_t dim[3] = {1, grid.before + (int64_t)grid.height * grid.width, size->channels};
    sr_build_param(b, &net->positions, "encoder.pos_embedding", SR_PARAM_EMBEDDING, 3, dim,
                   (sr_init){.kind = layout == TIMM ? SR_INIT_TRUNC_NORMAL : SR_INIT_NORMAL,
                             .scale = init_std});
    sr_build_grid(b, &net->positions, grid);
}

static void build_patches(sr_builder *b, vit *net, const vit_size *size, const vit_init *init) {
    sr_build_conv(b, &net->patches, "conv_proj",
                  (sr_conv_layer_opts){.in = 3,
                                       .out = size->channels,
                                       .window = size->patch,
                                       .conv = {.stride = size->patch},
                                       .has_bias = true,
                                       .zero_bias = !init->patches_bias,
                                       .init = init->patches});
}

static void build_layer(sr_builder *b, const vit *net, vit_layer *k, const vit_size *size,
                        const vit_init *init) {
    const int64_t c = size->channels, dim[2] = {3 * c, c};
    sr_build_layernorm(b, &k->norm1, "ln_1", c, norm_eps);
    sr_build_push(b, "self_attention");
    sr_build_param(b, &k->qkv.weight, "in_proj_weight", SR_PARAM_WEIGHT, 2, dim, init->qkv);
    sr_build_param(b, &k->qkv.bias, "in_proj_bias", SR_PARAM_BIAS, 1, dim, (sr_init){0});
    sr_build_linear_from(b, &k->out, "out_proj", c, c, init->out);
    sr_build_pop(b);
    sr_build_layernorm(b, &k->norm2, "ln_2", c, norm_eps);
    sr_build_mlp(b, &k->mlp, "mlp",
                 (sr_mlp_opts){.channels = c,
                               .hidden = 4 * c,
                               .dropout = net->options.dropout,
                               .weight = init->mlp,
                               .bias = init->mlp_bias});
}

static bool set_grid(sr_builder *b, vit *net, int patch, int layout) {
    int64_t height, width;
    sr_build_image_size(b, &height, &width);
    if (height % patch != 0 || width % patch != 0) {
        sr_build_fail(b, "pictures of %lld x %lld pixels cannot be divided into patches of %d x %d",
                      (long long)height, (long long)width, patch, patch);
        return false;
    }
    net->grid = (sr_grid){.before = 1,
                          .height = (int)(height / patch),
                          .width = (int)(width / patch),
                          .antialias = vit_names.antialias[layout]};
    return true;
}

// The normalisation after the last layer is of its depth, as in timm.
static void build_layers(sr_builder *b, vit *net, const vit_size *size, const vit_init *init) {
    sr_build_push(b, "encoder");
    for (int i = 0; i < size->layers; i++) {
        net->layers[i].drop = net->options.stochastic_depth_prob * i / (size->layers - 1);
        sr_build_push(b, "layers.encoder_layer_%d", i);
        sr_build_depth(b, 1 + i);
        build_layer(b, net, &net->layers[i], size, init);
        sr_build_pop(b);
    }
    if (sr_build_classes(b) > 0)
        sr_build_layernorm(b, &net->norm, "ln", size->channels, norm_eps);
    sr_build_pop(b);
}

// A network of other width. Its heads are about as wide, and divide the channels.
static vit_size scaled(const vit_size *size, double factor) {
    vit_size out = *size;
    out.channels = sr_round_channels((double)size->channels * factor, SR_WIDTH_DIVISOR);
    out.heads = (int)(size->heads * factor + 0.5);
    while (out.heads > 1 && out.channels % out.heads != 0)
        out.heads--;
    out.heads = out.heads > 1 ? out.heads : 1;
    return out;
}

static void build(sr_builder *b, const vit_options *options, vit *net, const vit_size *full,
                  int layout) {
    const vit_size resized = scaled(full, options->width_mult), *size = &resized;
    const vit_init init = init_of(layout, size);
    const int64_t token[3] = {1, 1, size->channels};
    net->options = *options;
    net->heads = size->heads;
    net->layer_count = size->layers;
    if (!set_grid(b, net, size->patch, layout))
        return;
    sr_build_depth(b, 0);
    sr_build_param(b, &net->class_token, "class_token", SR_PARAM_EMBEDDING, 3, token,
                   init.class_token);
    if (layout == TIMM) // declared in the order of the library
        build_positions(b, net, size, layout);
    build_patches(b, net, size, &init);
    if (layout == TORCHVISION)
        build_positions(b, net, size, layout);
    build_layers(b, net, size, &init);
    sr_build_stage(b, size->channels, size->patch);
    if (sr_build_classes(b) == 0)
        return;
    sr_build_depth(b, 1 + size->layers);
    sr_build_push(b, "heads");
    sr_build_linear_from(b, &net->head, "head", size->channels, sr_build_classes(b), init.head);
    sr_build_pop(b);
}

// ---- Forward pass ----

// Tokens of the patches after one of zeros, where the class token is added with its position: x
// [N,H,W,3] -> [N,1 + patches,C].
static sr_tensor tokens(const vit *net, sr_tensor x, sr_grid *grid) {
    sr_info info;
    x = sr_layer_conv(&net->patches, x);
    if (!sr_tensor_info(x, &info))
        return SR_NONE;
    grid->height = (int)info.dim[1];
    grid->width = (int)info.dim[2];
    x = sr_reshape(x, 3, (int64_t[]){info.dim[0], info.dim[1] * info.dim[2], info.dim[3]});
    return sr_pad(x, (int[]){0, 1, 0}, (int[]){0, 0, 0});
}

// What is added to the tokens: [1,1 + patches,C].
static sr_tensor positions(const vit *net, sr_grid grid, sr_dtype dtype) {
    sr_tensor p = net->positions;
    if (grid.height != net->grid.height || grid.width != net->grid.width)
        p = sr_layer_resize_grid(p, net->grid, grid.height, grid.width);
    sr_tensor first =
        sr_pad(net->class_token, (int[]){0, 0, 0}, (int[]){0, grid.height * grid.width, 0});
    return sr_cast(sr_add(p, first), dtype);
}

static sr_tensor attend(sr_forward *f, const vit *net, const vit_layer *k, sr_tensor x) {
    const sr_attend_opts opts = {.heads = net->heads, .dropout = net->options.attention_dropout};
    sr_tensor part[3];
    for (int i = 0; i < 3; i++)
        part[i] = sr_layer_linear_part(&k->qkv, x, i, 3);
    x = sr_layer_attention(f, part[0], part[1], part[2], SR_NONE, opts);
    return sr_layer_dropout(f, sr_layer_linear(&k->out, x), net->options.dropout);
}

static sr_tensor layer_forward(sr_forward *f, const vit *net, const vit_layer *k, sr_tensor x) {
    sr_tensor y = attend(f, net, k, sr_layer_layernorm(&k->norm1, x));
    x = sr_add(sr_layer_drop_path(f, y, k->drop), x);
    y = sr_layer_mlp(f, &k->mlp, sr_layer_layernorm(&k->norm2, x));
    return sr_add(x, sr_layer_drop_path(f, y, k->drop));
}

// Tokens after the last layer: [N,1 + patches,C].
static sr_tensor encode(sr_forward *f, const vit *net, sr_tensor x, sr_grid *grid) {
    x = tokens(net, x, grid);
    x = sr_layer_dropout(f, sr_add(x, positions(net, *grid, f->dtype)), net->options.dropout);
    for (int i = 0; i < net->layer_count; i++)
        x = layer_forward(f, net, &net->layers[i], x);
    return x;
}

// The map of the patches, as detection takes it (Li et al. 2022).
static void features(sr_forward *f, const void *state, sr_tensor x, sr_tensor *stages) {
    sr_grid grid = {.before = 1};
    sr_info info;
    x = encode(f, state, x, &grid);
    stages[0] = SR_NONE;
    if (!sr_tensor_info(x, &info))
        return;
    x = sr_slice(x, 1, 1, info.dim[1] - 1, 1);
    stages[0] = sr_reshape(x, 4, (int64_t[]){info.dim[0], grid.height, grid.width, info.dim[2]});
}

static void forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const vit *net = state;
    sr_grid grid = {.before = 1};
    sr_info info;
    sr_tensor x = encode(f, net, inputs[0], &grid);
    if (!sr_tensor_info(x, &info))
        return;
    // Only the class token is used further on: the others are not normalised.
    x = sr_reshape(sr_slice(x, 1, 0, 1, 1), 2, (int64_t[]){info.dim[0], info.dim[2]});
    sr_forward_output(f, "logits", sr_layer_linear(&net->head, sr_layer_layernorm(&net->norm, x)));
}

// ---- The family ----

// Name, label, library, pixels of a patch, layers, heads, channels.
#define VIT_FAMILY(MODEL)                                                                          \
    MODEL(vit_b_16, "ViT-B/16 (Dosovitskiy et al. 2021)", TORCHVISION, 16, 12, 12, 768)            \
    MODEL(vit_b_32, "ViT-B/32 (Dosovitskiy et al. 2021)", TORCHVISION, 32, 12, 12, 768)            \
    MODEL(vit_l_16, "ViT-L/16 (Dosovitskiy et al. 2021)", TORCHVISION, 16, 24, 16, 1024)           \
    MODEL(vit_l_32, "ViT-L/32 (Dosovitskiy et al. 2021)", TORCHVISION, 32, 24, 16, 1024)           \
    MODEL(vit_h_14, "ViT-H/14 (Dosovitskiy et al. 2021)", TORCHVISION, 14, 32, 16, 1280)           \
    MODEL(vit_tiny_patch16_224, "ViT-Ti/16, timm's", TIMM, 16, 12, 3, 192)                         \
    MODEL(vit_small_patch8_224, "ViT-S/8, timm's", TIMM, 8, 12, 6, 384)                            \
    MODEL(vit_small_patch16_224, "ViT-S/16, timm's", TIMM, 16, 12, 6, 384)                         \
    MODEL(vit_small_patch32_224, "ViT-S/32, timm's", TIMM, 32, 12, 6, 384)                         \
    MODEL(vit_base_patch8_224, "ViT-B/8, timm's", TIMM, 8, 12, 12, 768)                            \
    MODEL(vit_base_patch16_224, "ViT-B/16, timm's", TIMM, 16, 12, 12, 768)                         \
    MODEL(vit_base_patch32_224, "ViT-B/32, timm's", TIMM, 32, 12, 12, 768)                         \
    MODEL(vit_large_patch14_224, "ViT-L/14, timm's", TIMM, 14, 24, 16, 1024)                       \
    MODEL(vit_large_patch16_224, "ViT-L/16, timm's", TIMM, 16, 24, 16, 1024)                       \
    MODEL(vit_large_patch32_224, "ViT-L/32, timm's", TIMM, 32, 24, 16, 1024)                       \
    MODEL(vit_huge_patch14_224, "ViT-H/14, timm's", TIMM, 14, 32, 16, 1280)                        \
    MODEL(deit_tiny_patch16_224, "DeiT-Ti, timm's (Touvron et al. 2021)", TIMM, 16, 12, 3, 192)    \
    MODEL(deit_small_patch16_224, "DeiT-S, timm's (Touvron et al. 2021)", TIMM, 16, 12, 6, 384)    \
    MODEL(deit_base_patch16_224, "DeiT-B, timm's (Touvron et al. 2021)", TIMM, 16, 12, 12, 768)

#define MODEL(id, label, library, side, count, head_count, width)                                  \
    static void build_##id(sr_builder *b, const void *options, void *state) {                      \
        static const vit_size size = {                                                             \
            .patch = (side), .layers = (count), .heads = (head_count), .channels = (width)};       \
        build(b, options, state, &size, library);                                                  \
    }                                                                                              \
    SR_MODEL_DESC(id, label, vit, .options = &vit_table, .features = features,                     \
                  .names = &vit_names, .layout = (library))
VIT_FAMILY(MODEL)
