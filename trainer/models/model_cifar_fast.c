// SPDX-License-Identifier: Apache-2.0
// A small convolutional network that learns CIFAR-10 in about ten epochs (Jordan 2024, "94% on
// CIFAR-10 in 3.29 seconds on a single GPU", arXiv 2404.00498).
//
// A frozen 2x2 layer whitens the input (eigenvectors of the patch covariance of training images,
// with both signs); three groups of two 3x3 convolutions that start as identities; pooling before
// normalisation; batch norm with a fixed scale; GELU; scaled logits.
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "kernels/base/memory.h"
#include "trainer/models/layers.h"

enum { PATCH = 2, PATCH_VALUES = 3 * PATCH * PATCH, WHITE = 2 * PATCH_VALUES, GROUPS = 3 };

typedef struct fast_options {
    sr_int_list widths;
    double scale, momentum, head_std;
} fast_options;

static const sr_option fast_rows[] = {
    {.name = "widths",
     .help = "channels of the three groups",
     .type = SR_OPT_INTS,
     .offset = offsetof(fast_options, widths),
     .default_text = "[64, 256, 256]"},
    {.name = "scale",
     .help = "factor of the logits",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(fast_options, scale),
     .default_text = "0.1111111111111111"},
    {.name = "bn_momentum",
     .help = "weight of the new value in running statistics",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(fast_options, momentum),
     .default_text = "0.4",
     .min = 0.001,
     .max = 1},
    {.name = "head_std",
     .help = "standard deviation of the last layer's initial weight, which is uniform (0: "
             "1 / sqrt(3 x channels), as in PyTorch)",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(fast_options, head_std),
     .default_text = "0",
     .max = 1000,
     .option_class = SR_OPTION_ADDED},
};

static const sr_option_table fast_table = {.name = "model.cifar-fast",
                                           .options = fast_rows,
                                           .count = sizeof fast_rows / sizeof fast_rows[0],
                                           .struct_size = sizeof(fast_options)};

typedef struct conv_group {
    sr_conv_layer conv1, conv2;
    sr_batchnorm_layer norm1, norm2;
} conv_group;

typedef struct fast {
    sr_conv_layer whiten;
    conv_group groups[GROUPS];
    sr_linear_layer head;
    double scale;
} fast;

static void build_group(sr_builder *b, conv_group *g, int64_t in, int64_t out, double momentum) {
    sr_conv_layer_opts conv = {
        .in = in, .out = out, .window = 3, .conv = {.pad = 1}, .init = {.kind = SR_INIT_DIRAC}};
    sr_batchnorm_layer_opts norm = {.eps = 1e-12, .momentum = momentum, .fixed_scale = true};
    sr_build_conv(b, &g->conv1, "conv1", conv);
    sr_build_batchnorm(b, &g->norm1, "norm1", out, norm);
    conv.in = out;
    sr_build_conv(b, &g->conv2, "conv2", conv);
    sr_build_batchnorm(b, &g->norm2, "norm2", out, norm);
}

static void build(sr_builder *b, const void *options, void *state) {
    const fast_options *o = options;
    fast *net = state;
    if (o->widths.count != GROUPS) {
        sr_build_fail(b, "widths needs %d numbers, not %zu", GROUPS, o->widths.count);
        return;
    }
    net->scale = o->scale;
    sr_build_push(b, "whiten");
    sr_build_depth(b, 0);
    sr_build_param(b, &net->whiten.weight, "weight", SR_PARAM_FROZEN, 4,
                   (int64_t[]){WHITE, 3, PATCH, PATCH}, (sr_init){.kind = SR_INIT_TORCH_DEFAULT});
    sr_build_param(b, &net->whiten.bias, "bias", SR_PARAM_BIAS, 1, (int64_t[]){WHITE},
                   (sr_init){0});
    sr_build_pop(b);
    int64_t in = WHITE;
    for (int i = 0; i < GROUPS; i++) {
        sr_build_push(b, "layers.%d", i);
        sr_build_depth(b, 1 + i);
        build_group(b, &net->groups[i], in, o->widths.items[i], o->momentum);
        sr_build_pop(b);
        in = o->widths.items[i];
    }
    sr_build_depth(b, 1 + GROUPS);
    sr_build_linear(b, &net->head, "head", in, sr_build_classes(b), true);
    if (o->head_std > 0)
        sr_build_set_init(b, &net->head.weight,
                          (sr_init){.kind = SR_INIT_UNIFORM, .scale = sqrt(3) * o->head_std});
}

static sr_tensor group_forward(sr_forward *f, const conv_group *g, sr_tensor x) {
    x = sr_layer_conv(&g->conv1, x);
    x = sr_maxpool2d(x, (sr_pool2d_opts){.window = 2});
    x = sr_gelu(sr_layer_batchnorm(f, &g->norm1, x));
    x = sr_layer_conv(&g->conv2, x);
    return sr_gelu(sr_layer_batchnorm(f, &g->norm2, x));
}

static void forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const fast *net = state;
    sr_tensor x = sr_gelu(sr_layer_conv(&net->whiten, inputs[0]));
    for (int i = 0; i < GROUPS; i++)
        x = group_forward(f, &net->groups[i], x);
    sr_forward_output(f, "logits",
                      sr_scale(sr_layer_linear(&net->head, sr_global_maxpool(x)), net->scale, 0));
}

// ---- Whitening: eigenvectors of the covariance of 2x2 patches ----

// One Jacobi rotation. Sweeps of it make the symmetric matrix a diagonal and the columns of v its
// eigenvectors (Golub & Van Loan, 8.5).
static void rotate(double a[PATCH_VALUES][PATCH_VALUES], double v[PATCH_VALUES][PATCH_VALUES],
                   int p, int q) {
    if (a[p][q] == 0)
        return;
    double theta = (a[q][q] - a[p][p]) / (2 * a[p][q]);
    double t = 1 / ((theta < 0 ? -theta : theta) + sqrt(theta * theta + 1));
    t = theta < 0 ? -t : t;
    double c = 1 / sqrt(t * t + 1), s = t * c;
    for (int k = 0; k < PATCH_VALUES; k++) {
        double kp = a[k][p], kq = a[k][q];
        a[k][p] = c * kp - s * kq;
        a[k][q] = s * kp + c * kq;
    }
    for (int k = 0; k < PATCH_VALUES; k++) {
        double pk = a[p][k], qk = a[q][k], vp = v[k][p], vq = v[k][q];
        a[p][k] = c * pk - s * qk;
        a[q][k] = s * pk + c * qk;
        v[k][p] = c * vp - s * vq;
        v[k][q] = s * vp + c * vq;
    }
}

// Sums over patches of values as they are stored, which are exact: their order makes no difference.
typedef struct patch_sums {
    double patches;
    int64_t value[PATCH_VALUES], product[PATCH_VALUES][PATCH_VALUES]; // of k <= r
} patch_sums;

// Value k of all patches of a picture, in the order of a filter: channel, row, column.
static void lay_out(const uint8_t *image, int64_t height, int64_t width, int k, int16_t *out) {
    const int c = k / (PATCH * PATCH), dy = k / PATCH % PATCH, dx = k % PATCH;
    for (int64_t y = 0; y + PATCH <= height; y++) {
        const uint8_t *row = image + ((y + dy) * width + dx) * 3 + c;
        for (int64_t x = 0; x + PATCH <= width; x++)
            *out++ = row[3 * x];
    }
}

static int64_t dot(const int16_t *a, const int16_t *b, int64_t count) {
    enum { PART = 1 << 14 }; // products of bytes, whose sum fits in 31 bits
    int64_t sum = 0;
    for (int64_t begin = 0; begin < count; begin += PART) {
        const int64_t end = begin + PART < count ? begin + PART : count;
        int32_t part = 0;
        for (int64_t i = begin; i < end; i++)
            part += a[i] * b[i];
        sum += part;
    }
    return sum;
}

static int64_t total(const int16_t *a, int64_t count) {
    int64_t sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += a[i];
    return sum;
}

static sr_status sum_patches(const uint8_t *images, int64_t count, int64_t height, int64_t width,
                             patch_sums *out) {
    const int64_t patches = (height - PATCH + 1) * (width - PATCH + 1);
    int16_t *values = sr_alloc_array((size_t)(patches * PATCH_VALUES), sizeof *values, "patches");
    if (!values)
        return SR_E_MEMORY;
    *out = (patch_sums){.patches = (double)count * (double)patches};
    for (int64_t i = 0; i < count; i++) {
        for (int r = 0; r < PATCH_VALUES; r++) {
            int16_t *mine = values + r * patches;
            lay_out(images + i * height * width * 3, height, width, r, mine);
            out->value[r] += total(mine, patches);
            for (int k = 0; k <= r; k++)
                out->product[r][k] += dot(mine, values + k * patches, patches);
        }
    }
    sr_free(values);
    return SR_OK;
}

// The mean of products of values that are normalised as u = (v / 255 - mean) / std.
static void covariance(const patch_sums *sums, const double *mean, const double *std,
                       double out[PATCH_VALUES][PATCH_VALUES]) {
    for (int r = 0; r < PATCH_VALUES; r++) {
        const int c = r / (PATCH * PATCH);
        const double scale = 1 / (255 * std[c]), shift = mean[c] / std[c],
                     value = (double)sums->value[r] / sums->patches * scale;
        for (int k = 0; k <= r; k++) {
            const int of = k / (PATCH * PATCH);
            const double other = 1 / (255 * std[of]), less = mean[of] / std[of];
            const double product = (double)sums->product[r][k] / sums->patches * scale * other;
            out[k][r] = out[r][k] = product - value * less -
                                    (double)sums->value[k] / sums->patches * other * shift +
                                    shift * less;
        }
    }
}

static sr_status init_from_data(const void *state, const uint8_t *images, int64_t count,
                                int64_t height, int64_t width, const double *mean,
                                const double *std) {
    const fast *net = state;
    double a[PATCH_VALUES][PATCH_VALUES], v[PATCH_VALUES][PATCH_VALUES] = {{0}};
    float weight[WHITE][PATCH_VALUES];
    patch_sums sums;
    SR_TRY(sum_patches(images, count, height, width, &sums));
    covariance(&sums, mean, std, a);
    for (int i = 0; i < PATCH_VALUES; i++)
        v[i][i] = 1;
    for (int sweep = 0; sweep < 30; sweep++)
        for (int p = 0; p < PATCH_VALUES; p++)
            for (int q = p + 1; q < PATCH_VALUES; q++)
                rotate(a, v, p, q);
    for (int i = 0; i < PATCH_VALUES; i++) {
        double scale = 1 / sqrt(a[i][i] + 5e-4);
        for (int k = 0; k < PATCH_VALUES; k++) {
            weight[i][k] = (float)(v[k][i] * scale);
            weight[PATCH_VALUES + i][k] = -weight[i][k];
        }
    }
    return sr_variable_write(net->whiten.weight, weight);
}

extern const sr_model_desc sr_model_cifar_fast;
const sr_model_desc sr_model_cifar_fast = {.struct_size = sizeof(sr_model_desc),
                                           .abi = SR_MODEL_ABI,
                                           .name = "cifar-fast",
                                           .help =
                                               "whitened six-layer network for 32 px (Jordan 2024)",
                                           .options = &fast_table,
                                           .state_size = sizeof(fast),
                                           .build = build,
                                           .forward = forward,
                                           .init_from_data = init_from_data};
