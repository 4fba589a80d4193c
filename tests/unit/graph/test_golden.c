// SPDX-License-Identifier: Apache-2.0
// Operators compared with PyTorch: tests/golden/operators.bin, written by
// tests/golden/make_goldens.py. The f64 reference must agree to rounding, the f32 one within bounds
// from its rounding errors.
#include <math.h>

#include "autograd/gradients.h"
#include "tests/unit/kernels/kernel_fixture.h"
#include "tests/unit/support/device_run.h"
#include "tests/unit/support/test_support.h"

static unsigned char *file;
static size_t file_bytes;
static size_t compared; // number of values

static int read_file(void **state) {
    (void)state;
    FILE *in = fopen("tests/golden/operators.bin", "rb");
    if (!in || fseek(in, 0, SEEK_END) != 0)
        return -1;
    file_bytes = (size_t)ftell(in);
    file = malloc(file_bytes);
    rewind(in);
    const bool whole = file && fread(file, 1, file_bytes, in) == file_bytes;
    return fclose(in) == 0 && whole && memcmp(file, "SRGOLD01", 8) == 0 ? 0 : -1;
}

static int free_file(void **state) {
    (void)state;
    free(file);
    return 0;
}

// The entry "family/case/part", or NULL. The values are freed by arrays_free.
static test_array *golden_find(const char *family, int number, const char *part) {
    char name[40];
    if (number >= 0)
        (void)snprintf(name, sizeof name, "%s/%d/%s", family, number, part);
    else
        (void)snprintf(name, sizeof name, "%s/%s", family, part);
    for (size_t at = 8; at < file_bytes;) {
        uint64_t count;
        memcpy(&count, file + at + 40, sizeof count);
        if (strncmp((const char *)file + at, name, 40) == 0) {
            test_array *values = array_new(SR_F64, (int64_t)count);
            memcpy(values->data, file + at + 48, count * sizeof(double));
            return values;
        }
        at += 48 + count * sizeof(double);
    }
    return NULL;
}

static int64_t param(const test_array *params, int64_t i) {
    return (int64_t)array_get(params, i);
}

// Compares the first values (a golden file may have fewer). The tolerance is 'terms' roundings of
// terms of 'magnitude'.
static void compare(const char *family, int number, const char *part, const test_array *got,
                    double terms, double magnitude) {
    const test_array *want = golden_find(family, number, part);
    assert_non_null(want);
    assert_true(want->count <= got->count && want->count > 0);
    for (int64_t i = 0; i < want->count; i++, compared++)
        assert_near(part, i, got->dtype, array_get(got, i), array_get(want, i),
                    got->dtype == SR_F64 ? 8 * terms : terms, magnitude);
}

static const sr_dtype wide[2] = {SR_F32, SR_F64};

static void check_conv(int i, const test_array *v, sr_dtype type) {
    const sr_conv_params p = {.n = param(v, 0),
                              .h = param(v, 1),
                              .w = param(v, 2),
                              .c = param(v, 3),
                              .k = param(v, 4),
                              .r = param(v, 5),
                              .s = param(v, 6),
                              .p = param(v, 7),
                              .q = param(v, 8),
                              .stride_h = (int32_t)param(v, 9),
                              .stride_w = (int32_t)param(v, 10),
                              .pad_top = (int32_t)param(v, 11),
                              .pad_left = (int32_t)param(v, 12),
                              .pad_bottom = (int32_t)param(v, 13),
                              .pad_right = (int32_t)param(v, 14),
                              .dilation_h = (int32_t)param(v, 15),
                              .dilation_w = (int32_t)param(v, 16),
                              .groups = (int32_t)param(v, 17)};
    const int64_t nx = p.n * p.h * p.w * p.c, ny = p.n * p.p * p.q * p.k,
                  nw = p.k * p.c / p.groups * p.r * p.s;
    const sr_rows_params rows = {p.n * p.p * p.q, p.k};
    test_array *x = array_random(type, nx, 1, -1, 1), *w = array_random(type, nw, 2, -1, 1);
    test_array *dy = array_random(type, ny, 3, -1, 1), *bias = array_random(type, p.k, 4, -1, 1);
    test_array *y = array_new(type, ny), *dx = array_new(type, nx), *dw = array_new(type, nw);
    test_array *db = array_new(type, p.k);
    KERNEL_RUN(conv2d, p, x, w, bias, y);
    KERNEL_RUN(conv2d_dx, p, dy, w, dx);
    KERNEL_RUN(conv2d_dw, p, x, dy, dw);
    KERNEL_RUN(channel_sum, rows, dy, db);
    compare("conv", i, "y", y, 40, 4);
    compare("conv", i, "dx", dx, 40, 4);
    compare("conv", i, "dw", dw, 40, 8);
    compare("conv", i, "db", db, 40, 8);
}

static void test_conv(void **state) {
    (void)state;
    test_array *params;
    for (int i = 0; (params = golden_find("conv", i, "params")) != NULL; i++, arrays_free(NULL))
        for (int t = 0; t < 2; t++)
            check_conv(i, params, wide[t]);
}

static sr_context *context_for(sr_dtype type) {
    const sr_context_options options = {.device = device_for(type)};
    sr_context *context;
    assert_ok(sr_context_create(&options, &context));
    sr_context_begin_step(context);
    return context;
}

// Through the operator, because the shape of the result is compared too.
static void check_transposed_conv(int i, const test_array *v, sr_dtype type) {
    const sr_info xi = {.dtype = type, .rank = 4, .dim = {1, 4, 3, 5}};
    const sr_info wi = {.dtype = type, .rank = 4, .dim = {5, 2, 3, 3}};
    sr_context *context = context_for(type);
    sr_info yi;
    sr_tensor x = sr_constant(context, &xi, array_random(type, 60, 1, -1, 1)->data);
    sr_tensor w = sr_constant(context, &wi, array_random(type, 90, 2, -1, 1)->data);
    const sr_conv2d_opts opts = {.stride = (int)param(v, 0), .pad = (int)param(v, 1)};
    sr_tensor y = sr_conv2d_transpose(x, w, opts, (int)param(v, 2));
    assert_ok(sr_context_status(context));
    assert_true(sr_tensor_info(y, &yi));
    for (int d = 0; d < 4; d++)
        assert_int_equal(param(v, 3 + d), yi.dim[d]);
    test_array *got = array_new(type, sr_info_count(&yi));
    assert_ok(sr_read(y, got->data, (size_t)got->count * sr_dtype_size(type)));
    compare("transpose", i, "y", got, 40, 4);
    sr_context_free(context);
}

static void test_transposed_conv(void **state) {
    (void)state;
    test_array *v;
    for (int i = 0; (v = golden_find("transpose", i, "params")) != NULL; i++, arrays_free(NULL))
        for (int t = 0; t < 2; t++)
            check_transposed_conv(i, v, wide[t]);
}

static void check_batchnorm(int i, const test_array *v, sr_dtype type) {
    const sr_batchnorm_params p = {param(v, 0), param(v, 1), array_get(v, 2)};
    const int64_t n = p.rows * p.channels;
    test_array *x = array_random(type, n, 1, -1, 1), *dy = array_random(type, n, 2, -1, 1);
    test_array *gamma = array_random(type, p.channels, 3, -1, 1);
    test_array *beta = array_random(type, p.channels, 4, -1, 1), *y = array_new(type, n);
    test_array *mean = array_new(type, p.channels), *var = array_new(type, p.channels);
    test_array *dx = array_new(type, n), *dgamma = array_new(type, p.channels);
    test_array *dbeta = array_new(type, p.channels);
    KERNEL_RUN(batchnorm_train, p, x, gamma, beta, y, mean, var);
    KERNEL_RUN(batchnorm_grad, p, x, dy, gamma, mean, var, dx, dgamma, dbeta);
    compare("batchnorm", i, "y", y, 40, 4);
    compare("batchnorm", i, "dx", dx, 40, 4);
    compare("batchnorm", i, "dgamma", dgamma, 100, 20);
    compare("batchnorm", i, "dbeta", dbeta, 100, 20);
}

static void test_batchnorm(void **state) {
    (void)state;
    test_array *params;
    for (int i = 0; (params = golden_find("batchnorm", i, "params")) != NULL;
         i++, arrays_free(NULL))
        for (int t = 0; t < 2; t++)
            check_batchnorm(i, params, wide[t]);
}

static void check_pool(int i, const test_array *v, sr_dtype type, bool max) {
    const char *family = max ? "maxpool" : "meanpool";
    sr_pool_params p = {.n = param(v, 0),
                        .h = param(v, 1),
                        .w = param(v, 2),
                        .c = param(v, 3),
                        .p = param(v, 4),
                        .q = param(v, 5)};
    int32_t *tail[] = {&p.window_h, &p.window_w, &p.stride_h,   &p.stride_w,
                       &p.pad_top,  &p.pad_left, &p.pad_bottom, &p.pad_right};
    for (int k = 0; k < 8; k++)
        *tail[k] = (int32_t)param(v, 6 + k);
    const int64_t nx = p.n * p.h * p.w * p.c, ny = p.n * p.p * p.q * p.c;
    test_array *x = array_random(type, nx, 1, -1, 1), *dy = array_random(type, ny, 2, -1, 1);
    test_array *y = array_new(type, ny), *dx = array_new(type, nx), *index = array_new(SR_U8, ny);
    if (max) {
        KERNEL_RUN(maxpool2d, p, x, y, index);
        KERNEL_RUN(maxpool2d_grad, p, dy, index, dx);
    } else {
        KERNEL_RUN(avgpool2d, p, x, y);
        KERNEL_RUN(avgpool2d_grad, p, dy, dx);
    }
    compare(family, i, "y", y, 12, 1);
    compare(family, i, "dx", dx, 12, 2);
}

static void test_pools(void **state) {
    (void)state;
    test_array *params;
    for (int i = 0; (params = golden_find("maxpool", i, "params")) != NULL; i++, arrays_free(NULL))
        for (int t = 0; t < 2; t++)
            check_pool(i, params, wide[t], true);
    for (int i = 0; (params = golden_find("meanpool", i, "params")) != NULL; i++, arrays_free(NULL))
        for (int t = 0; t < 2; t++)
            check_pool(i, params, wide[t], false);
}

static void check_xent(int i, const test_array *v, sr_dtype type) {
    const sr_xent_params p = {param(v, 0), param(v, 1), array_get(v, 2)};
    const test_array *stored = golden_find("xent", i, "labels");
    test_array *x = array_random(type, p.n * p.k, 1, -16, 16), *labels = array_new(SR_I32, p.n);
    test_array *loss = array_new(type, p.n), *prob = array_new(type, p.n * p.k);
    test_array *dloss = array_random(type, p.n, 2, -1, 1), *dx = array_new(type, p.n * p.k);
    for (int64_t k = 0; k < p.n; k++)
        array_set(labels, k, array_get(stored, k));
    KERNEL_RUN(softmax_xent, p, x, labels, loss, prob);
    KERNEL_RUN(softmax_xent_grad, p, prob, labels, dloss, dx);
    compare("xent", i, "loss", loss, 20, 32);
    compare("xent", i, "dx", dx, 20, 2);
}

static void test_xent(void **state) {
    (void)state;
    test_array *params;
    for (int i = 0; (params = golden_find("xent", i, "params")) != NULL; i++, arrays_free(NULL))
        for (int t = 0; t < 2; t++)
            check_xent(i, params, wide[t]);
}

// Gradients through the derivative rules.
static void check_map(const char *name, sr_tensor (*map)(sr_tensor), sr_dtype type) {
    const sr_info info = {.dtype = type, .rank = 1, .dim = {200}};
    test_array *x = array_random(type, 200, 1, -8, 8), *dy = array_random(type, 200, 2, -1, 1);
    test_array *y = array_new(type, 200), *dx = array_new(type, 200);
    const size_t bytes = 200 * sr_dtype_size(type);
    sr_context *context = context_for(type);
    sr_tensor in = sr_constant(context, &info, x->data), out = map(in), grad;
    sr_gradients(out, sr_constant(context, &info, dy->data), &in, 1, &grad);
    assert_ok(sr_read(out, y->data, bytes));
    assert_ok(sr_read(grad, dx->data, bytes));
    compare(name, -1, "y", y, 12, 1);
    compare(name, -1, "dx", dx, 12, 1);
    sr_context_free(context);
}

static void test_maps(void **state) {
    for (int t = 0; t < 2; t++) {
        check_map("gelu", sr_gelu, wide[t]);
        check_map("sigmoid", sr_sigmoid, wide[t]);
        check_map("tanh", sr_tanh_op, wide[t]);
        check_map("softplus", sr_softplus, wide[t]);
        arrays_free(state);
    }
}

static void test_sgd(void **state) {
    (void)state;
    test_array *v;
    for (int i = 0; (v = golden_find("sgd", i, "params")) != NULL; i++, arrays_free(NULL)) {
        const sr_count_params p = {50};
        test_array *w = array_random(SR_F32, 50, 1, -1, 1), *m = array_new(SR_F32, 50);
        for (int step = 0; step < (int)param(v, 5); step++) {
            const double values[8] = {array_get(v, 0),
                                      array_get(v, 1),
                                      array_get(v, 2),
                                      array_get(v, 3),
                                      1,
                                      array_get(v, 4),
                                      step == 0,
                                      0};
            test_array *g = array_random(SR_F32, 50, (uint32_t)step + 10, -1, 1);
            KERNEL_RUN(sgd, p, w, m, g, array_of(SR_F32, 8, values));
        }
        compare("sgd", i, "p", w, 20, 1);
    }
}

// The whole file was compared: names that changed on one side would otherwise go unnoticed.
static void test_everything_was_compared(void **state) {
    (void)state;
    size_t stored = 0;
    for (size_t at = 8; at < file_bytes;) {
        uint64_t count;
        const char *name = (const char *)file + at;
        const bool input = strstr(name, "/params") || strstr(name, "/labels");
        const bool once = strncmp(name, "sgd", 3) == 0;
        memcpy(&count, file + at + 40, sizeof count);
        stored += input ? 0 : once ? count : 2 * count;
        at += 48 + count * sizeof(double);
    }
    assert_true(stored > 10000);
    assert_int_equal(stored, compared);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_conv, arrays_free),
        cmocka_unit_test_teardown(test_transposed_conv, arrays_free),
        cmocka_unit_test_teardown(test_batchnorm, arrays_free),
        cmocka_unit_test_teardown(test_pools, arrays_free),
        cmocka_unit_test_teardown(test_xent, arrays_free),
        cmocka_unit_test_teardown(test_maps, arrays_free),
        cmocka_unit_test_teardown(test_sgd, arrays_free),
        cmocka_unit_test(test_everything_was_compared),
    };
    return cmocka_run_group_tests(tests, read_file, free_file);
}
