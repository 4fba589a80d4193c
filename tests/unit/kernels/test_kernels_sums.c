// SPDX-License-Identifier: Apache-2.0
// Accuracy of sums: every provider's sums over rows and over all elements, softmax and linear
// layers, compared with double arithmetic on difficult data: many rows of few channels, first rows
// unlike the others, sparse activations, means far from zero.
//
// Sums are computed in short chains and a tree, from unrounded products and deviations from a mean
// of neighbours. A chain of n terms makes up to n roundings of u = 2^-24, about sqrt(n) if they do
// not have one sign (Higham 2002, 2.8 and 4.2). Chains have 32 terms in the reference, 16 sums
// of four in x86, and 16 sums of eight in class "tensor" of CUDA; a chain of 64 makes as many as 32
// roundings only with terms that no test has. A sum of thousands of terms in one chain, of rounded
// products, or around a number that is not the mean is far less accurate on these data.
#include <math.h>

#include "tests/unit/kernels/kernel_fixture.h"
#include "tests/unit/kernels/norm_relu.h"
#include "tests/unit/support/test_support.h"

#define ROUNDINGS 32

static const char *const providers[] = {"reference", "x86", "tensor"};
enum { PROVIDERS = sizeof providers / sizeof *providers };
static const sr_dtype types[] = {SR_F32, SR_BF16, SR_F16};
enum { TYPES = 3 };

// ---- data ----

typedef double (*data_fn)(int64_t row, int64_t channel, double noise);

// Noise is uniform in [-1, 1).
static double sine_after_outlier(int64_t row, int64_t channel, double noise) {
    (void)noise;
    return row == 0 ? 4 : sin(0.7 * (double)row + (double)channel);
}
static double sparse_after_active(int64_t row, int64_t channel, double noise) {
    (void)channel;
    return row == 0 ? 4 : noise > 0.95 ? noise : 0;
}
static double far_from_zero(int64_t row, int64_t channel, double noise) {
    (void)row;
    return 100 + (double)channel + noise;
}
static double stray_first_rows(int64_t row, int64_t channel, double noise) {
    return row < 3 ? 1e4 + (double)channel : noise;
}
static double positive(int64_t row, int64_t channel, double noise) {
    (void)row, (void)channel;
    return 1.5 + noise;
}

static const data_fn data[] = {sine_after_outlier, sparse_after_active, far_from_zero,
                               stray_first_rows, positive};
enum { DATA = sizeof data / sizeof data[0] };

static const int64_t shapes[][2] = {{4096, 1}, {20011, 1}, {37, 1},    {4001, 3},
                                    {9, 3},    {4096, 16}, {1030, 64}, {300, 2048}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static test_array *rows_of(data_fn value, sr_dtype type, int64_t rows, int64_t channels,
                           uint32_t seed) {
    test_array *x = array_random(SR_F32, rows * channels, seed, -1, 1);
    test_array *to = array_new(type, rows * channels);
    for (int64_t i = 0; i < rows * channels; i++)
        array_set(to, i, value(i / channels, i % channels, array_get(x, i)));
    return to;
}

// ---- running ----

static bool serves(const char *provider, sr_kernel_id kernel, int count, test_array *const *args) {
    sr_kernel_request request = {.kernel = kernel, .args = count, .params = {64, 64}};
    for (int i = 0; i < count; i++)
        request.dtype[i] = args[i] != NULL ? args[i]->dtype : SR_DTYPE_COUNT;
    use_device_of(provider, &request);
    return sr_kernel_find_in(&request, provider) != NULL;
}

#define COUNT_OF(...) (int)(sizeof((test_array *[]){__VA_ARGS__}) / sizeof(test_array *))
// Runs the kernel if the provider has it.
#define TRY(provider, kernel, params, ...)                                                         \
    (serves(provider, SR_KERNEL_##kernel, COUNT_OF(__VA_ARGS__), (test_array *[]){__VA_ARGS__}) && \
     (kernel_run(provider, SR_KERNEL_##kernel, &(params), sizeof(params), COUNT_OF(__VA_ARGS__),   \
                 (test_array *[]){__VA_ARGS__}),                                                   \
      true))

// |got - want| <= roundings 2^-24 norm
static void check(const char *provider, const char *what, int kind, int64_t rows, int64_t channels,
                  int64_t c, double got, double want, double norm) {
    const double error = fabs(got - want) / (norm > 0 ? norm : 1) * 0x1p24;
    if (!(error <= ROUNDINGS))
        fail_msg("%s: %s of data %d, [%lld, %lld] channel %lld: %.9g, not %.9g: %.1f roundings",
                 provider, what, kind, (long long)rows, (long long)channels, (long long)c, got,
                 want, error);
}

// ---- statistics ----

static void check_statistics(const char *provider, sr_dtype type, int kind, int64_t rows,
                             int64_t channels) {
    const sr_batchnorm_params p = {rows, channels, 1e-5};
    test_array *x = rows_of(data[kind], type, rows, channels, 1), *y = array_new(type, x->count);
    test_array *mean = array_new(SR_F32, channels), *var = array_new(SR_F32, channels);
    if (!TRY(provider, batchnorm_train, p, x, NULL, NULL, y, mean, var))
        return;
    for (int64_t c = 0; c < channels; c++) {
        double sum = 0, size = 0, squares = 0;
        for (int64_t m = 0; m < rows; m++) {
            sum += array_get(x, m * channels + c);
            size += fabs(array_get(x, m * channels + c));
        }
        for (int64_t m = 0; m < rows; m++) {
            const double d = array_get(x, m * channels + c) - sum / (double)rows;
            squares += d * d;
        }
        const double n = (double)rows, want = squares / n;
        check(provider, "mean", kind, rows, channels, c, array_get(mean, c), sum / n, size / n);
        // The means of groups are rounded: that changes a deviation from them by u |x|, and
        // squares, with either sign, by the root of their sum.
        check(provider, "variance", kind, rows, channels, c, array_get(var, c), want,
              want + size / n * sqrt(want / n));
    }
}

static void test_statistics(void **state) {
    for (int i = 0; i < PROVIDERS; i++) {
        for (int t = 0; t < TYPES; t++) {
            for (int kind = 0; kind < DATA; kind++)
                for (int k = 0; k < SHAPES; k++) {
                    check_statistics(providers[i], types[t], kind, shapes[k][0], shapes[k][1]);
                    arrays_free(state);
                }
        }
    }
}

// ---- sums over rows ----

typedef struct column {
    double sum, size, product, product_size; // of a, |a|, a (b - shift), |a (b - shift)|
} column;

static column column_of(const test_array *a, const test_array *b, const test_array *shift,
                        int64_t channels, int64_t c) {
    column s = {0, 0, 0, 0};
    for (int64_t i = c; i < a->count; i += channels) {
        const double v = array_get(a, i), d = array_get(b, i) - (shift ? array_get(shift, c) : 0);
        s.sum += v;
        s.size += fabs(v);
        s.product += v * d;
        s.product_size += fabs(v * d);
    }
    return s;
}

static void check_sums(const char *provider, sr_dtype type, int kind, int64_t rows,
                       int64_t channels) {
    const sr_rows_params p = {rows, channels};
    const sr_batchnorm_params norm = {rows, channels, 0};
    test_array *a = rows_of(data[kind], type, rows, channels, 1);
    test_array *b = rows_of(data[(kind + 1) % DATA], type, rows, channels, 2);
    test_array *shift = array_random(SR_F32, channels, 3, -1, 1), *dx = array_new(type, a->count);
    test_array *var = array_random(SR_F32, channels, 4, 0.5, 1.5);
    test_array *sum = array_new(SR_F32, channels), *dot = array_new(SR_F32, channels),
               *plain = array_new(SR_F32, channels), *dgamma = array_new(SR_F32, channels),
               *dbeta = array_new(SR_F32, channels);
    if (!TRY(provider, channel_sum, p, a, sum) ||
        !TRY(provider, channel_dot, p, a, b, shift, dot) ||
        !TRY(provider, channel_dot, p, a, b, NULL, plain) ||
        !TRY(provider, batchnorm_grad, norm, b, a, NULL, shift, var, dx, dgamma, dbeta))
        return;
    for (int64_t c = 0; c < channels; c++) {
        const column s = column_of(a, b, shift, channels, c);
        const column bare = column_of(a, b, NULL, channels, c);
        const double inverse = 1 / sqrt(array_get(var, c));
        check(provider, "channel_sum", kind, rows, channels, c, array_get(sum, c), s.sum, s.size);
        check(provider, "dbeta", kind, rows, channels, c, array_get(dbeta, c), s.sum, s.size);
        check(provider, "channel_dot", kind, rows, channels, c, array_get(dot, c), s.product,
              s.product_size);
        check(provider, "channel_dot without shift", kind, rows, channels, c, array_get(plain, c),
              bare.product, bare.product_size);
        check(provider, "dgamma", kind, rows, channels, c, array_get(dgamma, c),
              s.product * inverse, s.product_size * inverse);
    }
}

static void test_sums_over_rows(void **state) {
    for (int i = 0; i < PROVIDERS; i++) {
        for (int t = 0; t < TYPES; t++) {
            for (int kind = 0; kind < DATA; kind++)
                for (int k = 0; k < SHAPES; k++) {
                    check_sums(providers[i], types[t], kind, shapes[k][0], shapes[k][1]);
                    arrays_free(state);
                }
        }
    }
}

static void assert_equal_bits(const char *provider, const char *what, const test_array *want,
                              const test_array *got, int64_t count) {
    if (memcmp(want->data, got->data, (size_t)count * sr_dtype_size(want->dtype)) != 0)
        fail_msg("%s: %s has other bits, %s", provider, what, sr_dtype_name(want->dtype));
}

// The parts of batchnorm_train and batchnorm_grad have their bits. dx of some rows, with the sums
// over all, are those rows of dx.
static void check_parts(const char *provider, sr_dtype type, int64_t rows, int64_t channels,
                        bool affine) {
    const sr_rows_params plain = {rows, channels};
    const sr_batchnorm_params norm = {rows, channels, 1e-5};
    sr_batchnorm_dx_params part = {rows, channels, norm.eps, rows};
    const int64_t n = rows * channels;
    const sr_dtype wide = parameter_type(type);
    test_array *x = array_random(type, n, 1, -1, 3), *dy = array_random(type, n, 2, -1, 1);
    test_array *gamma = affine ? array_random(wide, channels, 3, 0.5, 1.5) : NULL;
    test_array *y = array_new(type, n), *dx = array_new(type, n),
               *some = array_new(type, rows / 2 * channels);
    test_array *whole[4], *parts[4]; // mean, var, dgamma, dbeta
    static const char *const names[] = {"mean", "var", "dgamma", "dbeta"};
    for (int i = 0; i < 4; i++) {
        whole[i] = array_new(wide, channels);
        parts[i] = array_new(wide, channels);
    }
    if (!TRY(provider, batchnorm_train, norm, x, gamma, NULL, y, whole[0], whole[1]) ||
        !TRY(provider, batchnorm_grad, norm, x, dy, gamma, whole[0], whole[1], dx, whole[2],
             whole[3]))
        return;
    assert_true(TRY(provider, batchnorm_moments, plain, x, parts[0], parts[1]));
    assert_true(TRY(provider, batchnorm_sums, norm, x, dy, whole[0], whole[1], parts[2], parts[3]));
    for (int i = 0; i < 4; i++)
        assert_equal_bits(provider, names[i], whole[i], parts[i], channels);
    part.rows = rows / 2;
    test_array few_x = *x, few_dy = *dy;
    few_x.count = few_dy.count = some->count;
    assert_true(TRY(provider, batchnorm_dx, part, &few_x, &few_dy, gamma, whole[0], whole[1],
                    whole[2], whole[3], some));
    assert_equal_bits(provider, "dx of some rows", dx, some, some->count);
    part.rows = rows;
    assert_true(TRY(provider, batchnorm_dx, part, x, dy, gamma, whole[0], whole[1], whole[2],
                    whole[3], dy));
    assert_equal_bits(provider, "dx", dx, dy, n);
}

// Where a provider has batch norm with ReLU.
static void check_relu(const char *provider, sr_dtype type, int64_t rows, int64_t channels,
                       bool affine) {
    const int64_t n = rows * channels;
    const sr_dtype wide = parameter_type(type);
    const norm_arguments a = {.rows = rows,
                              .channels = channels,
                              .eps = 1e-5,
                              .x = array_random(type, n, 1, -1, 3),
                              .dy = array_random(type, n, 2, -1, 1),
                              .gamma = affine ? array_random(wide, channels, 3, -0.5, 1.5) : NULL,
                              .beta = affine ? array_random(wide, channels, 4, -1, 1) : NULL};
    test_array *const mean = array_new(wide, channels);
    if (serves(provider, SR_KERNEL_batchnorm_train_relu, 8,
               (test_array *[]){a.x, NULL, NULL, NULL, a.x, mean, mean, NULL}))
        check_norm_relu(provider, &a);
}

static void test_parts_of_batchnorm(void **state) {
    for (int i = 0; i < PROVIDERS; i++) {
        for (int t = 0; t < 4; t++) {
            for (int k = 0; k < SHAPES; k++) {
                check_parts(providers[i], fixture_types[t], shapes[k][0], shapes[k][1],
                            (k + t) % 2 == 0);
                check_relu(providers[i], fixture_types[t], shapes[k][0], shapes[k][1],
                           (k + t) % 2 == 0);
                arrays_free(state);
            }
        }
    }
}

static void test_sums_of_all(void **state) {
    static const int64_t counts[] = {64, 5000, 200003};
    for (int i = 0; i < PROVIDERS; i++) {
        for (int t = 0; t < TYPES; t++) {
            for (int kind = 0; kind < DATA; kind++) {
                for (int k = 0; k < 3; k++) {
                    const sr_count_params p = {counts[k]};
                    test_array *x = rows_of(data[kind], types[t], counts[k], 1, 1);
                    test_array *sum = array_new(SR_F32, 1);
                    const column s = column_of(x, x, NULL, 1, 0);
                    if (TRY(providers[i], reduce_sum, p, x, sum))
                        check(providers[i], "reduce_sum", kind, counts[k], 1, 0, array_get(sum, 0),
                              s.sum, s.size);
                    arrays_free(state);
                }
            }
        }
    }
}

// ---- softmax ----

// Rows of logits in [-low, low); labels are 3. The error of probabilities is relative to
// themselves, that of losses to the log sum exp and the largest logit, whose difference they are.
static void check_softmax(sr_dtype type, int64_t classes, double low) {
    enum { SAMPLES = 2, LABEL = 3 };
    const sr_xent_params p = {SAMPLES, classes, 0.1};
    const int64_t count = SAMPLES * classes;
    test_array *x = array_random(type, count, 1, -low, low), *labels = array_new(SR_I32, SAMPLES);
    test_array *loss = array_new(SR_F32, SAMPLES), *prob = array_new(SR_F32, count);
    test_array *plain = array_new(type, count);
    for (int64_t n = 0; n < SAMPLES; n++)
        array_set(labels, n, LABEL);
    KERNEL_RUN(softmax_xent, p, x, labels, loss, prob);
    KERNEL_RUN(softmax, ((sr_rows_params){SAMPLES, classes}), x, plain);
    for (int64_t i = 0; i < count; i++)
        assert_true(array_get(plain, i) == round_to(type, array_get(prob, i)));
    for (int64_t n = 0; n < SAMPLES; n++) {
        double sum = 0, all = 0;
        for (int64_t k = 0; k < classes; k++) {
            sum += exp(array_get(x, n * classes + k));
            all += array_get(x, n * classes + k);
        }
        for (int64_t k = 0; k < classes; k++) {
            const double want = exp(array_get(x, n * classes + k)) / sum;
            check("reference", "probability", 0, SAMPLES, classes, k,
                  array_get(prob, n * classes + k), want, want);
        }
        const double want =
            log(sum) - 0.9 * array_get(x, n * classes + LABEL) - 0.1 * all / (double)classes;
        check("reference", "loss", 0, SAMPLES, classes, n, array_get(loss, n), want,
              log(sum) + low);
    }
}

static void test_softmax(void **state) {
    static const int64_t classes[] = {10, 1000, 21841, 100000};
    for (int t = 0; t < TYPES; t++) {
        for (int k = 0; k < 4; k++)
            for (int low = 1; low <= 8; low += 7) {
                check_softmax(types[t], classes[k], low);
                arrays_free(state);
            }
    }
}

// ---- linear layers and convolutions of the reference ----

// Positive numbers, so that a chain's roundings are relative to a growing sum.
static void test_linear(void **state) {
    static const sr_linear_params shapes_of_linear[] = {
        {3, 50, 5}, {4, 16384, 7}, {16384, 3, 5}, {3, 5, 16384}};
    for (int i = 0; i < 4; i++) {
        const sr_linear_params p = shapes_of_linear[i];
        test_array *x = array_random(SR_F32, p.n * p.c, 1, 0, 1);
        test_array *w = array_random(SR_F32, p.k * p.c, 2, 0, 1);
        test_array *dy = array_random(SR_F32, p.n * p.k, 3, 0, 1);
        test_array *y = array_new(SR_F32, dy->count), *dx = array_new(SR_F32, x->count),
                   *dw = array_new(SR_F32, w->count);
        double *want_y = zeros(y->count), *want_dx = zeros(x->count), *want_dw = zeros(w->count);
        KERNEL_RUN(linear, p, x, w, NULL, y);
        KERNEL_RUN(linear_dx, p, dy, w, dx);
        KERNEL_RUN(linear_dw, p, x, dy, dw);
        for (int64_t n = 0; n < p.n; n++) {
            for (int64_t k = 0; k < p.k; k++) {
                for (int64_t c = 0; c < p.c; c++) {
                    const double g = array_get(dy, n * p.k + k);
                    want_y[n * p.k + k] += array_get(x, n * p.c + c) * array_get(w, k * p.c + c);
                    want_dx[n * p.c + c] += g * array_get(w, k * p.c + c);
                    want_dw[k * p.c + c] += g * array_get(x, n * p.c + c);
                }
            }
        }
        for (int64_t k = 0; k < y->count; k++)
            check("reference", "linear", i, p.n, p.c, k, array_get(y, k), want_y[k], want_y[k]);
        for (int64_t k = 0; k < x->count; k++)
            check("reference", "linear_dx", i, p.n, p.c, k, array_get(dx, k), want_dx[k],
                  want_dx[k]);
        for (int64_t k = 0; k < w->count; k++)
            check("reference", "linear_dw", i, p.n, p.c, k, array_get(dw, k), want_dw[k],
                  want_dw[k]);
        test_free(want_y);
        test_free(want_dx);
        test_free(want_dw);
        arrays_free(state);
    }
}

static void test_convolution(void **state) {
    (void)state;
    const sr_conv_params p = {.n = 1,
                              .h = 5,
                              .w = 5,
                              .c = 2048,
                              .k = 2,
                              .r = 3,
                              .s = 3,
                              .p = 5,
                              .q = 5,
                              .stride_h = 1,
                              .stride_w = 1,
                              .pad_top = 1,
                              .pad_left = 1,
                              .pad_bottom = 1,
                              .pad_right = 1,
                              .dilation_h = 1,
                              .dilation_w = 1,
                              .groups = 1};
    test_array *x = array_random(SR_F32, p.h * p.w * p.c, 1, 0, 1);
    test_array *w = array_random(SR_F32, p.k * p.c * p.r * p.s, 2, 0, 1);
    test_array *y = array_new(SR_F32, p.p * p.q * p.k);
    KERNEL_RUN(conv2d, p, x, w, NULL, y);
    for (int64_t i = 0; i < y->count; i++) {
        const int64_t k = i % p.k, q = i / p.k % p.q, row = i / p.k / p.q;
        double want = 0;
        for (int64_t c = 0; c < p.c; c++) {
            for (int64_t r = 0; r < p.r; r++) {
                for (int64_t s = 0; s < p.s; s++) {
                    const int64_t h = row + r - 1, v = q + s - 1;
                    if (h >= 0 && h < p.h && v >= 0 && v < p.w)
                        want += array_get(x, (h * p.w + v) * p.c + c) *
                                array_get(w, ((k * p.c + c) * p.r + r) * p.s + s);
                }
            }
        }
        check("reference", "conv2d", 0, p.h, p.c, i, array_get(y, i), want, want);
    }
}

// ---- pooling and resizing: many equal terms ----

#define EQUAL 0.1f
#define ROUNDINGS_OF_EQUAL 16

static test_array *filled(int64_t count, double value) {
    test_array *x = array_new(SR_F32, count);
    for (int64_t i = 0; i < count; i++)
        array_set(x, i, value);
    return x;
}

// Element i of a sum of terms EQUAL.
static void check_equal(const char *provider, const char *what, const test_array *got, int64_t i,
                        double terms) {
    const double want = terms * (double)EQUAL;
    const double error = fabs(array_get(got, i) - want) / want * 0x1p24;
    if (!(error <= ROUNDINGS_OF_EQUAL))
        fail_msg("%s: %s: %.9g, not %.9g: %.1f roundings", provider, what, array_get(got, i), want,
                 error);
}

static void check_mean(const char *provider, int64_t h, int64_t w) {
    const sr_pool_params p = {.n = 1,
                              .h = h,
                              .w = w,
                              .c = 3,
                              .p = 1,
                              .q = 1,
                              .window_h = (int32_t)h,
                              .window_w = (int32_t)w,
                              .stride_h = (int32_t)h,
                              .stride_w = (int32_t)w};
    test_array *x = filled(h * w * p.c, (double)EQUAL), *y = array_new(SR_F32, p.c);
    if (TRY(provider, avgpool2d, p, x, y))
        check_equal(provider, "avgpool2d", y, 2, 1);
}

// A pixel in the middle that all windows see, of pictures of 2 side - 1 pixels each way.
static void check_seen_by_many(const char *provider, int64_t side) {
    const int64_t whole = 2 * side - 1, windows = side * side;
    sr_pool_params p = {.n = 1,
                        .h = whole,
                        .w = whole,
                        .c = 1,
                        .p = side,
                        .q = side,
                        .window_h = (int32_t)side,
                        .window_w = (int32_t)side,
                        .stride_h = 1,
                        .stride_w = 1};
    test_array *dy = filled(windows, (double)EQUAL), *dx = array_new(SR_F32, whole * whole);
    const int64_t middle = (side - 1) * whole + side - 1;
    if (TRY(provider, avgpool2d_grad, p, dy, dx))
        check_equal(provider, "avgpool2d_grad", dx, middle, 1);
    test_array *index = array_new(SR_U8, windows);
    for (int64_t i = 0; i < windows; i++)
        array_set(index, i, (double)(windows - 1 - i));
    if (windows <= UINT8_MAX && TRY(provider, maxpool2d_grad, p, dy, index, dx))
        check_equal(provider, "maxpool2d_grad", dx, middle, (double)windows);
    p = (sr_pool_params){.n = 1, .h = 1, .w = 1, .c = 1, .p = side, .q = side};
    p.stride_h = p.stride_w = (int32_t)side;
    test_array *one = array_new(SR_F32, 1);
    if (TRY(provider, upsample2d_grad, p, dy, one))
        check_equal(provider, "upsample2d_grad", one, 0, (double)windows);
}

// Pixels of a row become one, and one becomes a row.
static void check_resized(const char *provider, int64_t pixels) {
    const sr_resize_params down = {.n = 1,
                                   .h = 1,
                                   .w = pixels,
                                   .c = 1,
                                   .p = 1,
                                   .q = 1,
                                   .step_h = 1,
                                   .step_w = (double)pixels,
                                   .filter = SR_FILTER_AREA};
    const sr_resize_params up = {.n = 1,
                                 .h = 1,
                                 .w = 1,
                                 .c = 1,
                                 .p = 1,
                                 .q = pixels,
                                 .step_h = 1,
                                 .step_w = 1 / (double)pixels,
                                 .filter = SR_FILTER_LINEAR};
    test_array *row = filled(pixels, (double)EQUAL), *one = array_new(SR_F32, 1);
    if (TRY(provider, resize2d, down, row, one))
        check_equal(provider, "resize2d", one, 0, 1);
    if (TRY(provider, resize2d_grad, up, row, one))
        check_equal(provider, "resize2d_grad", one, 0, (double)pixels);
    const sr_upfirdn_params filter = {.n = 1,
                                      .h = 1,
                                      .w = pixels,
                                      .c = 1,
                                      .p = 1,
                                      .q = 1,
                                      .r = 1,
                                      .s = pixels,
                                      .up_h = 1,
                                      .up_w = 1,
                                      .down_h = 1,
                                      .down_w = 1};
    if (TRY(provider, upfirdn2d, filter, row, filled(pixels, 1), one))
        check_equal(provider, "upfirdn2d", one, 0, (double)pixels);
}

static void test_equal_terms(void **state) {
    static const int64_t pictures[][2] = {{7, 7}, {14, 14}, {56, 57}, {112, 112}, {3000, 1}};
    static const int64_t sides[] = {8, 15, 24, 64};
    for (int i = 0; i < PROVIDERS; i++) {
        for (int k = 0; k < 5; k++)
            check_mean(providers[i], pictures[k][0], pictures[k][1]);
        for (int k = 0; k < 4; k++)
            check_seen_by_many(providers[i], sides[k]);
        check_resized(providers[i], 300);
        check_resized(providers[i], 5000);
        arrays_free(state);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_statistics, arrays_free),
        cmocka_unit_test_teardown(test_sums_over_rows, arrays_free),
        cmocka_unit_test_teardown(test_parts_of_batchnorm, arrays_free),
        cmocka_unit_test_teardown(test_sums_of_all, arrays_free),
        cmocka_unit_test_teardown(test_softmax, arrays_free),
        cmocka_unit_test_teardown(test_linear, arrays_free),
        cmocka_unit_test_teardown(test_convolution, arrays_free),
        cmocka_unit_test_teardown(test_equal_terms, arrays_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
