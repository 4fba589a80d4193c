// SPDX-License-Identifier: Apache-2.0
// Cases of `serried bench op`: all convolutions of ResNet-50 (He et al. 2015, stride in the 3x3)
// its memory-bound kernels at their largest shape, and kernels of other models at sizes far beyond
// the caches.
#include <stdio.h>
#include <string.h>

#include "launcher/bench/bench_op_internal.h"

typedef struct maker {
    sr_dtype dtype;
    int64_t batch;
    sr_bench_visit visit;
    void *user;
    bool stopped;
} maker;

static sr_bench_case case_of(sr_kernel_id kernel, int args, const void *params, size_t bytes) {
    sr_bench_case c = {.request = {.kernel = kernel, .args = args}};
    memcpy(c.request.params, params, bytes);
    for (int i = 0; i < args; i++)
        c.request.dtype[i] = SR_DTYPE_COUNT;
    return c;
}

static void set(sr_bench_case *c, int i, sr_dtype dtype, int64_t count) {
    c->request.dtype[i] = dtype;
    c->count[i] = count;
}

static void offer(maker *m, const sr_bench_case *c) {
    if (!m->stopped)
        m->stopped = !m->visit(m->user, c);
}

double sr_bench_case_bytes(const sr_bench_case *c) {
    double bytes = 0;
    for (int i = 0; i < c->request.args; i++) {
        if (c->count[i] == 0)
            continue;
        const double size = (double)c->count[i] * (double)sr_dtype_size(c->request.dtype[i]);
        bytes += c->updated & (1u << i) ? 2 * size : size;
    }
    return bytes;
}

// ---- convolutions ----

typedef struct layer {
    int size, in, out, window, stride;
} layer;

static const layer layers[] = {
    {224, 3, 64, 7, 2},     {56, 64, 64, 1, 1},    {56, 64, 64, 3, 1},    {56, 64, 256, 1, 1},
    {56, 256, 64, 1, 1},    {56, 256, 128, 1, 1},  {56, 128, 128, 3, 2},  {28, 128, 512, 1, 1},
    {56, 256, 512, 1, 2},   {28, 512, 128, 1, 1},  {28, 128, 128, 3, 1},  {28, 512, 256, 1, 1},
    {28, 256, 256, 3, 2},   {14, 256, 1024, 1, 1}, {28, 512, 1024, 1, 2}, {14, 1024, 256, 1, 1},
    {14, 256, 256, 3, 1},   {14, 1024, 512, 1, 1}, {14, 512, 512, 3, 2},  {7, 512, 2048, 1, 1},
    {14, 1024, 2048, 1, 2}, {7, 2048, 512, 1, 1},  {7, 512, 512, 3, 1},
};

static sr_conv_params conv_params(const layer *l, int64_t batch) {
    sr_conv_params p = {.n = batch, .h = l->size, .w = l->size, .c = l->in, .k = l->out};
    p.r = p.s = l->window;
    p.stride_h = p.stride_w = l->stride;
    p.pad_top = p.pad_left = p.pad_bottom = p.pad_right = l->window / 2;
    p.dilation_h = p.dilation_w = p.groups = 1;
    p.p = p.q = (l->size + 2 * (l->window / 2) - l->window) / l->stride + 1;
    return p;
}

static void offer_conv(maker *m, const layer *l, sr_kernel_id kernel) {
    const sr_conv_params p = conv_params(l, m->batch);
    const int64_t x = p.n * p.h * p.w * p.c, y = p.n * p.p * p.q * p.k, w = p.k * p.c * p.r * p.s;
    const bool forward = kernel == SR_KERNEL_conv2d, weights = kernel == SR_KERNEL_conv2d_dw;
    sr_bench_case c = case_of(kernel, forward ? 4 : 3, &p, sizeof p);
    (void)snprintf(c.shape, sizeof c.shape, "%dx%d %d->%d %dx%d%s", l->size, l->size, l->in, l->out,
                   l->window, l->window, l->stride > 1 ? " /2" : "");
    set(&c, 0, m->dtype, forward || weights ? x : y);
    if (weights)
        set(&c, 1, m->dtype, y);
    else
        set(&c, 1, SR_F32, w);
    set(&c, forward ? 3 : 2, weights ? SR_F32 : m->dtype, weights ? w : forward ? y : x);
    c.flops = 2.0 * (double)(y / p.k) * (double)w;
    offer(m, &c);
}

static void offer_convs(maker *m) {
    static const sr_kernel_id kernels[] = {SR_KERNEL_conv2d, SR_KERNEL_conv2d_dx,
                                           SR_KERNEL_conv2d_dw};
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++)
            if (kernels[k] != SR_KERNEL_conv2d_dx ||
                i > 0) // the gradient of the picture is not needed
                offer_conv(m, &layers[i], kernels[k]);
}

static void offer_linear(maker *m, sr_kernel_id kernel) {
    const sr_linear_params p = {m->batch, 2048, 1000};
    const bool forward = kernel == SR_KERNEL_linear, weights = kernel == SR_KERNEL_linear_dw;
    sr_bench_case c = case_of(kernel, forward ? 4 : 3, &p, sizeof p);
    (void)snprintf(c.shape, sizeof c.shape, "2048->1000");
    set(&c, 0, m->dtype, p.n * (forward || weights ? p.c : p.k));
    if (weights)
        set(&c, 1, m->dtype, p.n * p.k);
    else
        set(&c, 1, SR_F32, p.k * p.c);
    if (forward)
        set(&c, 2, SR_F32, p.k);
    if (weights)
        set(&c, 2, SR_F32, p.k * p.c);
    else
        set(&c, forward ? 3 : 2, m->dtype, p.n * (forward ? p.k : p.c));
    c.flops = 2.0 * (double)(p.n * p.c * p.k);
    offer(m, &c);
}

// ---- rows of channels ----

static void offer_batchnorm(maker *m, sr_kernel_id kernel, int64_t size, int64_t channels) {
    const sr_batchnorm_params p = {m->batch * size * size, channels, 1e-5};
    const int64_t n = p.rows * channels;
    const bool train = kernel == SR_KERNEL_batchnorm_train;
    const bool gradient = kernel == SR_KERNEL_batchnorm_grad;
    sr_bench_case c = case_of(kernel, gradient ? 8 : 6, &p, sizeof p);
    (void)snprintf(c.shape, sizeof c.shape, "%dx%d %d", (int)size, (int)size, (int)channels);
    for (int i = 0; i < c.request.args; i++)
        set(&c, i, SR_F32, channels);
    set(&c, 0, m->dtype, n);
    set(&c, gradient ? 1 : train ? 3 : 5, m->dtype, n);
    if (gradient)
        set(&c, 5, m->dtype, n);
    if (train || gradient) // one pass reduces, one applies: the inputs are read twice
        c.updated = gradient ? 3 : 1;
    offer(m, &c);
}

static void offer_rows(maker *m, sr_kernel_id kernel) {
    const sr_rows_params p = {m->batch * 56 * 56, 256};
    const bool sum = kernel == SR_KERNEL_channel_sum;
    sr_bench_case c = case_of(kernel, sum ? 2 : 3, &p, sizeof p);
    (void)snprintf(c.shape, sizeof c.shape, "56x56 256");
    set(&c, 0, m->dtype, p.rows * p.channels);
    set(&c, 1, SR_F32, p.channels);
    if (!sum)
        set(&c, 2, m->dtype, p.rows * p.channels);
    offer(m, &c);
}

static void offer_channel_dot(maker *m) {
    const sr_rows_params p = {m->batch * 56 * 56, 256};
    sr_bench_case c = case_of(SR_KERNEL_channel_dot, 4, &p, sizeof p);
    (void)snprintf(c.shape, sizeof c.shape, "56x56 256");
    set(&c, 0, m->dtype, p.rows * p.channels);
    set(&c, 1, m->dtype, p.rows * p.channels);
    set(&c, 2, SR_F32, p.channels);
    set(&c, 3, SR_F32, p.channels);
    offer(m, &c);
}

// ---- elements ----

// 'args' arguments of T, all of the same size (56 x 56 x 256 images).
static void offer_elements(maker *m, sr_kernel_id kernel, int args) {
    const sr_scale_params p = {m->batch * 56 * 56 * 256, 0.5, 0.25};
    sr_bench_case c = case_of(kernel, args, &p, sizeof p);
    (void)snprintf(c.shape, sizeof c.shape, "56x56 256");
    for (int i = 0; i < args; i++)
        set(&c, i, m->dtype, p.count);
    if (kernel == SR_KERNEL_cast)
        c.request.dtype[1] = m->dtype == SR_F32 ? SR_BF16 : SR_F32;
    offer(m, &c);
}

static void offer_dropout(maker *m) {
    const sr_dropout_params p = {m->batch * 56 * 56 * 256, 0.2, 7, 0};
    sr_bench_case c = case_of(SR_KERNEL_dropout, 3, &p, sizeof p);
    (void)snprintf(c.shape, sizeof c.shape, "56x56 256");
    set(&c, 0, m->dtype, p.count);
    set(&c, 1, SR_I32, 4);
    set(&c, 2, m->dtype, p.count);
    offer(m, &c);
}

static void offer_sum(maker *m) {
    const sr_count_params p = {m->batch * 56 * 56 * 256};
    sr_bench_case c = case_of(SR_KERNEL_reduce_sum, 2, &p, sizeof p);
    (void)snprintf(c.shape, sizeof c.shape, "56x56 256");
    set(&c, 0, m->dtype, p.count);
    set(&c, 1, SR_F32, 1);
    offer(m, &c);
}

static void offer_normalize(maker *m) {
    const sr_normalize_params p = {m->batch * 224 * 224, 3, {124, 116, 104}, {0.017, 0.017, 0.017}};
    sr_bench_case c = case_of(SR_KERNEL_normalize, 2, &p, sizeof p);
    (void)snprintf(c.shape, sizeof c.shape, "224x224 3");
    set(&c, 0, SR_U8, p.rows * 3);
    set(&c, 1, m->dtype, p.rows * 3);
    offer(m, &c);
}

// The 25.6 million parameters of ResNet-50.
static void offer_update(maker *m, sr_kernel_id kernel, int arrays, uint32_t updated) {
    const sr_count_params p = {25557032};
    sr_bench_case c = case_of(kernel, arrays + 1, &p, sizeof p);
    (void)snprintf(c.shape, sizeof c.shape, "25.6M");
    for (int i = 0; i < arrays; i++)
        set(&c, i, SR_F32, p.count);
    set(&c, arrays, SR_F32, 8);
    c.updated = updated;
    offer(m, &c);
}

// ---- pools ----

static void offer_pool(maker *m, sr_kernel_id kernel) {
    const bool max = kernel == SR_KERNEL_maxpool2d || kernel == SR_KERNEL_maxpool2d_grad;
    const bool gradient = kernel == SR_KERNEL_maxpool2d_grad || kernel == SR_KERNEL_avgpool2d_grad;
    const sr_pool_params p =
        max ? (sr_pool_params){m->batch, 112, 112, 64, 56, 56, 3, 3, 2, 2, 1, 1, 1, 1}
            : (sr_pool_params){m->batch, 7, 7, 2048, 1, 1, 7, 7, 7, 7, 0, 0, 0, 0};
    const int64_t in = p.n * p.h * p.w * p.c, out = p.n * p.p * p.q * p.c;
    sr_bench_case c = case_of(kernel, max ? 3 : 2, &p, sizeof p);
    (void)snprintf(c.shape, sizeof c.shape, max ? "112x112 64 3x3 /2" : "7x7 2048 to 1x1");
    set(&c, 0, m->dtype, gradient ? out : in);
    set(&c, max && gradient ? 2 : 1, m->dtype, gradient ? in : out);
    if (max)
        set(&c, gradient ? 1 : 2, SR_U8, out);
    offer(m, &c);
}

void sr_bench_op_cases(sr_dtype dtype, int64_t batch, sr_bench_visit visit, void *user) {
    maker m = {dtype, batch, visit, user, false};
    offer_convs(&m);
    offer_linear(&m, SR_KERNEL_linear);
    offer_linear(&m, SR_KERNEL_linear_dx);
    offer_linear(&m, SR_KERNEL_linear_dw);
    static const sr_kernel_id batchnorm[] = {SR_KERNEL_batchnorm_train, SR_KERNEL_batchnorm_grad,
                                             SR_KERNEL_batchnorm_infer};
    for (int k = 0; k < 3; k++) {
        offer_batchnorm(&m, batchnorm[k], 56, 256);
        offer_batchnorm(&m, batchnorm[k], 7, 2048);
    }
    offer_rows(&m, SR_KERNEL_bias_add);
    offer_rows(&m, SR_KERNEL_channel_sum);
    offer_channel_dot(&m);
    offer_elements(&m, SR_KERNEL_relu, 2);
    offer_elements(&m, SR_KERNEL_relu_grad, 3);
    offer_elements(&m, SR_KERNEL_add, 3);
    offer_elements(&m, SR_KERNEL_mul, 3);
    offer_elements(&m, SR_KERNEL_scale, 2);
    offer_elements(&m, SR_KERNEL_gelu, 2);
    offer_elements(&m, SR_KERNEL_gelu_grad, 3);
    offer_elements(&m, SR_KERNEL_cast, 2);
    offer_dropout(&m);
    offer_sum(&m);
    offer_normalize(&m);
    offer_pool(&m, SR_KERNEL_maxpool2d);
    offer_pool(&m, SR_KERNEL_maxpool2d_grad);
    offer_pool(&m, SR_KERNEL_avgpool2d);
    offer_pool(&m, SR_KERNEL_avgpool2d_grad);
    offer_update(&m, SR_KERNEL_sgd, 3, 3);
    offer_update(&m, SR_KERNEL_ema, 2, 1);
}
