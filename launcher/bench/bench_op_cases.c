// SPDX-License-Identifier: Apache-2.0
// Cases of `serried bench op`: all convolutions of ResNet-50 (He et al. 2015, stride in the 3x3)
// its memory-bound kernels at their largest shape, depthwise and other convolutions of other
// models, and kernels of other models at sizes far beyond the caches.
#include <stdio.h>
#include <string.h>

#include "kernels/base/rng.h"
#include "launcher/bench/bench_op_internal.h"

typedef struct maker {
    sr_dtype dtype;
    int64_t batch;
    sr_bench_visit visit;
    void *user;
    bool stopped;
} maker;

// All arguments are present.
static sr_bench_case case_of(const maker *m, sr_kernel_id kernel, const void *params,
                             size_t bytes) {
    sr_bench_case c = {.flops = 0};
    sr_kernel_request_init(&c.request, SR_DEVICE_CPU, kernel, m->dtype, params, bytes);
    return c;
}

static void offer(maker *m, const sr_bench_case *c) {
    if (!m->stopped)
        m->stopped = !m->visit(m->user, c);
}

double sr_bench_case_bytes(const sr_bench_case *c) {
    double bytes = 0;
    int args;
    const sr_kernel_argument *arguments = sr_kernel_arguments(c->request.kernel, &args);
    for (int i = 0; i < args; i++) {
        const int64_t count = sr_kernel_argument_count(&c->request, i);
        const double size = (double)count * (double)sr_dtype_size(c->request.dtype[i]);
        bytes += arguments[i].role == SR_ARG_UPD || (c->twice >> i & 1) ? 2 * size : size;
    }
    return bytes;
}

void sr_bench_op_fill(sr_dtype dtype, void *data, int64_t count, uint64_t seed) {
    sr_rng rng;
    sr_rng_init(&rng, seed, 0, 0, 0);
    for (int64_t i = 0; i < count; i++) {
        const uint32_t word = sr_rng_u32(&rng);
        const float value = sr_rng_unit(word) * 2.0f - 1.0f;
        if (dtype == SR_F32)
            ((float *)data)[i] = value;
        else if (dtype == SR_BF16)
            ((uint16_t *)data)[i] = sr_f32_to_bf16(value);
        else if (dtype == SR_F16)
            ((uint16_t *)data)[i] = sr_f32_to_f16(value);
        else if (dtype == SR_U8)
            ((uint8_t *)data)[i] = (uint8_t)(word % 9);
        else
            memcpy((char *)data + (size_t)i * sr_dtype_size(dtype), &word, sizeof word);
    }
}

// ---- convolutions ----

typedef struct layer {
    int size, in, out, window, stride, groups; // groups 0: one
} layer;

static const layer layers[] = {
    {224, 3, 64, 7, 2, 0},    {56, 64, 64, 1, 1, 0},    {56, 64, 64, 3, 1, 0},
    {56, 64, 256, 1, 1, 0},   {56, 256, 64, 1, 1, 0},   {56, 256, 128, 1, 1, 0},
    {56, 128, 128, 3, 2, 0},  {28, 128, 512, 1, 1, 0},  {56, 256, 512, 1, 2, 0},
    {28, 512, 128, 1, 1, 0},  {28, 128, 128, 3, 1, 0},  {28, 512, 256, 1, 1, 0},
    {28, 256, 256, 3, 2, 0},  {14, 256, 1024, 1, 1, 0}, {28, 512, 1024, 1, 2, 0},
    {14, 1024, 256, 1, 1, 0}, {14, 256, 256, 3, 1, 0},  {14, 1024, 512, 1, 1, 0},
    {14, 512, 512, 3, 2, 0},  {7, 512, 2048, 1, 1, 0},  {14, 1024, 2048, 1, 2, 0},
    {7, 2048, 512, 1, 1, 0},  {7, 512, 512, 3, 1, 0},
};

// Of other models, at 224 pixels: depthwise convolutions of ConvNeXt-T (Liu et al. 2022), and of
// EfficientNet-B0 (Tan and Le 2019) or MobileNetV3 (Howard et al. 2019).
static const layer other_layers[] = {
    {56, 96, 96, 7, 1, 96},    {28, 192, 192, 7, 1, 192},   {14, 384, 384, 7, 1, 384},
    {7, 768, 768, 7, 1, 768},  {112, 32, 32, 3, 1, 32},     {112, 96, 96, 3, 2, 96},
    {56, 144, 144, 5, 2, 144}, {28, 240, 240, 5, 1, 240},   {14, 480, 480, 3, 1, 480},
    {14, 672, 672, 5, 2, 672}, {7, 1152, 1152, 5, 1, 1152},
};

// Their first layers and those of Swin-T (Liu et al. 2021), the patch embedding of DeiT-S (Touvron
// et al. 2021), and squeeze and excitation.
static const layer first_layers[] = {
    {224, 3, 384, 16, 16, 0}, {224, 3, 96, 4, 4, 0},  {224, 3, 32, 3, 2, 0},
    {224, 3, 16, 3, 2, 0},    {1, 1152, 48, 1, 1, 0}, {1, 48, 1152, 1, 1, 0},
};

// Windows that do not overlap have no padding.
static sr_conv_params conv_params(const layer *l, int64_t batch) {
    const int pad = l->stride < l->window ? l->window / 2 : 0;
    sr_conv_params p = {.n = batch, .h = l->size, .w = l->size, .c = l->in, .k = l->out};
    p.r = p.s = l->window;
    p.stride_h = p.stride_w = l->stride;
    p.pad_top = p.pad_left = p.pad_bottom = p.pad_right = pad;
    p.dilation_h = p.dilation_w = 1;
    p.groups = l->groups > 0 ? l->groups : 1;
    p.p = p.q = (l->size + 2 * pad - l->window) / l->stride + 1;
    return p;
}

static void offer_conv(maker *m, const layer *l, sr_kernel_id kernel) {
    const sr_conv_params p = conv_params(l, m->batch);
    sr_bench_case c = case_of(m, kernel, &p, sizeof p);
    char stride[16] = "", groups[24] = "";
    if (l->stride > 1)
        (void)snprintf(stride, sizeof stride, " /%d", l->stride);
    if (l->groups > 1)
        (void)snprintf(groups, sizeof groups, " groups %d", l->groups);
    (void)snprintf(c.shape, sizeof c.shape, "%dx%d %d->%d %dx%d%s%s", l->size, l->size, l->in,
                   l->out, l->window, l->window, stride, groups);
    if (kernel == SR_KERNEL_conv2d)
        c.request.dtype[2] = SR_DTYPE_COUNT; // no bias
    c.flops = 2.0 * (double)(p.n * p.p * p.q) * (double)(p.k * p.c / p.groups * p.r * p.s);
    offer(m, &c);
}

// The gradient of the picture is not needed.
static void offer_layers(maker *m, sr_kernel_id kernel, const layer *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (kernel != SR_KERNEL_conv2d_dx || list[i].in > 3)
            offer_conv(m, &list[i], kernel);
}

static void offer_convs(maker *m) {
    static const sr_kernel_id kernels[] = {SR_KERNEL_conv2d, SR_KERNEL_conv2d_dx,
                                           SR_KERNEL_conv2d_dw};
    for (int k = 0; k < 3; k++)
        offer_layers(m, kernels[k], layers, sizeof layers / sizeof layers[0]);
    for (int k = 0; k < 3; k++)
        offer_layers(m, kernels[k], other_layers, sizeof other_layers / sizeof other_layers[0]);
    for (int k = 0; k < 3; k++)
        offer_layers(m, kernels[k], first_layers, sizeof first_layers / sizeof first_layers[0]);
}

static void offer_linear(maker *m, sr_kernel_id kernel) {
    const sr_linear_params p = {m->batch, 2048, 1000};
    sr_bench_case c = case_of(m, kernel, &p, sizeof p);
    (void)snprintf(c.shape, sizeof c.shape, "2048->1000");
    c.flops = 2.0 * (double)(p.n * p.c * p.k);
    offer(m, &c);
}

// The attention of ViT-Base on 224 x 224 (Dosovitskiy et al. 2021): scores, and weighted values.
static void offer_matmul(maker *m, bool scores) {
    enum { TOKENS = 197, HEADS = 12, WIDTH = 64 };
    const int64_t batches = m->batch * HEADS;
    const sr_matmul_params p = {.rows = TOKENS,
                                .terms = scores ? WIDTH : TOKENS,
                                .columns = scores ? TOKENS : WIDTH,
                                .a_count = batches,
                                .b_count = batches,
                                .dim = {1, 1, batches},
                                .a_step = {0, 0, 1},
                                .b_step = {0, 0, 1},
                                .alpha = scores ? 0.125 : 1,
                                .transpose_b = scores};
    sr_bench_case c = case_of(m, SR_KERNEL_matmul, &p, sizeof p);
    (void)snprintf(c.shape, sizeof c.shape, "%dx %dx%d %s", (int)HEADS, (int)p.rows, (int)p.terms,
                   scores ? "(197x64)^T" : "197x64");
    c.flops = 2.0 * (double)(batches * p.rows * p.columns * p.terms);
    offer(m, &c);
}

// ---- rows of channels ----

// The params of the others are the head of those of batchnorm_dx. sum: with the tensor that is
// added.
static void offer_batchnorm(maker *m, sr_kernel_id kernel, int64_t size, int64_t channels,
                            bool sum) {
    const int64_t rows = m->batch * size * size;
    const sr_batchnorm_dx_params p = {rows, channels, 1e-5, 4 * rows};
    sr_bench_case c =
        case_of(m, kernel, &p,
                kernel == SR_KERNEL_batchnorm_dx        ? sizeof p
                : kernel == SR_KERNEL_batchnorm_moments ? sizeof(sr_rows_params)
                                                        : sizeof(sr_batchnorm_params));
    (void)snprintf(c.shape, sizeof c.shape, "%dx%d %d", (int)size, (int)size, (int)channels);
    if (kernel == SR_KERNEL_batchnorm_train_relu && !sum)
        c.request.dtype[1] = c.request.dtype[7] = SR_DTYPE_COUNT; // neither z nor signs
    if (kernel == SR_KERNEL_batchnorm_train || kernel == SR_KERNEL_batchnorm_grad)
        c.twice = kernel == SR_KERNEL_batchnorm_grad ? 3 : 1; // one pass reduces, one applies
    offer(m, &c);
}

// Layer norm of ViT-Base.
static void offer_layernorm(maker *m, sr_kernel_id kernel) {
    const sr_groupnorm_params p = {
        .samples = m->batch * 197, .pixels = 1, .channels = 768, .groups = 1, .eps = 1e-6};
    sr_bench_case c = case_of(m, kernel, &p, sizeof p);
    (void)snprintf(c.shape, sizeof c.shape, "197 768");
    offer(m, &c);
}

static void offer_rows(maker *m, sr_kernel_id kernel) {
    const sr_rows_params p = {m->batch * 56 * 56, 256};
    sr_bench_case c = case_of(m, kernel, &p, sizeof p);
    (void)snprintf(c.shape, sizeof c.shape, "56x56 256");
    offer(m, &c);
}

// ---- elements ----

// 56 x 56 x 256 images.
static void offer_elements(maker *m, sr_kernel_id kernel) {
    const sr_expression_params p = {.count = m->batch * 56 * 56 * 256, .constant = {0.5, 0.25}};
    sr_bench_case c = case_of(m, kernel, &p, sizeof p);
    (void)snprintf(c.shape, sizeof c.shape, "56x56 256");
    if (kernel == SR_KERNEL_cast)
        c.request.dtype[1] = m->dtype == SR_F32 ? SR_BF16 : SR_F32;
    offer(m, &c);
}

static void offer_dropout(maker *m) {
    const sr_dropout_params p = {m->batch * 56 * 56 * 256, 0.2, 7, 0};
    sr_bench_case c = case_of(m, SR_KERNEL_dropout, &p, sizeof p);
    (void)snprintf(c.shape, sizeof c.shape, "56x56 256");
    offer(m, &c);
}

static void offer_normalize(maker *m) {
    const sr_normalize_params p = {m->batch * 224 * 224, 3, {124, 116, 104}, {0.017, 0.017, 0.017}};
    sr_bench_case c = case_of(m, SR_KERNEL_normalize, &p, sizeof p);
    (void)snprintf(c.shape, sizeof c.shape, "224x224 3");
    offer(m, &c);
}

// The 25.6 million parameters of ResNet-50.
static void offer_update(maker *m, sr_kernel_id kernel) {
    const sr_count_params p = {25557032};
    sr_bench_case c = case_of(m, kernel, &p, sizeof p);
    (void)snprintf(c.shape, sizeof c.shape, "25.6M");
    offer(m, &c);
}

// ---- pools ----

#define FIRST_POOL "112x112 64 3x3 /2" // of ResNet-50

static sr_pool_params first_pool(const maker *m) {
    return (sr_pool_params){m->batch, 112, 112, 64, 56, 56, 3, 3, 2, 2, 1, 1, 1, 1, 0, 0};
}

static void offer_pool(maker *m, sr_kernel_id kernel) {
    const bool max = kernel == SR_KERNEL_maxpool2d || kernel == SR_KERNEL_maxpool2d_grad;
    const sr_pool_params p =
        max ? first_pool(m)
            : (sr_pool_params){m->batch, 7, 7, 2048, 1, 1, 7, 7, 7, 7, 0, 0, 0, 0, 0, 0};
    sr_bench_case c = case_of(m, kernel, &p, sizeof p);
    (void)snprintf(c.shape, sizeof c.shape, max ? FIRST_POOL : "7x7 2048 to 1x1");
    offer(m, &c);
}

static void offer_norm_pool(maker *m, sr_kernel_id kernel) {
    const sr_norm_pool_params p = {first_pool(m), 1e-5};
    sr_bench_case c = case_of(m, kernel, &p, sizeof p);
    (void)snprintf(c.shape, sizeof c.shape, FIRST_POOL);
    offer(m, &c);
}

// Batch norm with the ReLU behind it, or with a sum and the ReLU behind that, and with max pooling,
// forward and backward, at all sizes of ResNet-50.
static void offer_joined(maker *m) {
    static const struct {
        int size, channels;
        bool sum;
    } norms[] = {{112, 64, false}, {56, 64, false}, {56, 256, true},
                 {28, 128, false}, {28, 512, true}, {14, 256, false},
                 {14, 1024, true}, {7, 512, false}, {7, 2048, true}};
    for (size_t i = 0; i < sizeof norms / sizeof norms[0]; i++) {
        const int size = norms[i].size, channels = norms[i].channels;
        offer_batchnorm(m, SR_KERNEL_batchnorm_train_relu, size, channels, norms[i].sum);
        offer_batchnorm(
            m, norms[i].sum ? SR_KERNEL_batchnorm_add_relu_grad : SR_KERNEL_batchnorm_relu_grad,
            size, channels, true);
        if (norms[i].sum)
            offer_batchnorm(m, SR_KERNEL_batchnorm_train_pair_relu, size, channels, true);
    }
    offer_norm_pool(m, SR_KERNEL_batchnorm_train_relu_maxpool);
    offer_norm_pool(m, SR_KERNEL_batchnorm_relu_maxpool_grad);
}

void sr_bench_op_cases(sr_dtype dtype, int64_t batch, bool joined, sr_bench_visit visit,
                       void *user) {
    maker m = {dtype, batch, visit, user, false};
    offer_convs(&m);
    offer_linear(&m, SR_KERNEL_linear);
    offer_linear(&m, SR_KERNEL_linear_dx);
    offer_linear(&m, SR_KERNEL_linear_dw);
    offer_matmul(&m, true);
    offer_matmul(&m, false);
    static const sr_kernel_id batchnorm[] = {SR_KERNEL_batchnorm_train, SR_KERNEL_batchnorm_grad,
                                             SR_KERNEL_batchnorm_infer, SR_KERNEL_batchnorm_moments,
                                             SR_KERNEL_batchnorm_sums,  SR_KERNEL_batchnorm_dx};
    for (size_t k = 0; k < sizeof batchnorm / sizeof batchnorm[0]; k++) {
        offer_batchnorm(&m, batchnorm[k], 56, 256, false);
        offer_batchnorm(&m, batchnorm[k], 7, 2048, false);
    }
    if (joined)
        offer_joined(&m);
    offer_layernorm(&m, SR_KERNEL_groupnorm);
    offer_layernorm(&m, SR_KERNEL_groupnorm_grad);
    offer_rows(&m, SR_KERNEL_bias_add);
    offer_rows(&m, SR_KERNEL_channel_sum);
    offer_rows(&m, SR_KERNEL_channel_dot);
    offer_elements(&m, SR_KERNEL_relu);
    offer_elements(&m, SR_KERNEL_relu_grad);
    offer_elements(&m, SR_KERNEL_add);
    offer_elements(&m, SR_KERNEL_mul);
    offer_elements(&m, SR_KERNEL_scale);
    offer_elements(&m, SR_KERNEL_gelu);
    offer_elements(&m, SR_KERNEL_gelu_grad);
    offer_elements(&m, SR_KERNEL_sigmoid);
    offer_elements(&m, SR_KERNEL_silu);
    offer_elements(&m, SR_KERNEL_silu_grad);
    offer_elements(&m, SR_KERNEL_cast);
    offer_dropout(&m);
    offer_elements(&m, SR_KERNEL_reduce_sum);
    offer_normalize(&m);
    offer_pool(&m, SR_KERNEL_maxpool2d);
    offer_pool(&m, SR_KERNEL_maxpool2d_grad);
    offer_pool(&m, SR_KERNEL_avgpool2d);
    offer_pool(&m, SR_KERNEL_avgpool2d_grad);
    offer_update(&m, SR_KERNEL_sgd);
    offer_update(&m, SR_KERNEL_adam);
    offer_update(&m, SR_KERNEL_rmsprop);
    offer_update(&m, SR_KERNEL_lion);
    offer_update(&m, SR_KERNEL_lamb);
    offer_update(&m, SR_KERNEL_ema);
}
