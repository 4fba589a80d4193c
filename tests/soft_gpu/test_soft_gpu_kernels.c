// SPDX-License-Identifier: Apache-2.0
// Kernels on the software GPU: grids, barriers, warps, the language and its conversions.
#include "tests/soft_gpu/soft_gpu_fixture.h"

#include <math.h>

static cudaStream_t stream;

static int start(void **state) {
    (void)state;
    stream = make_stream();
    return 0;
}

static void test_grid(void **state) {
    (void)state;
    enum { COUNT = 2 * 3 * 4 * 5 * 6 * 2 };
    float *y = device_alloc(COUNT * 4), host[COUNT];
    vector_args a = {.y = y};
    void *list[] = {&a};
    union {
        kernel_function kernel;
        void *object;
    } function = {numbers};
    cudaLaunchConfig_t config = {.gridDim = {2, 3, 4}, .blockDim = {5, 6, 2}, .stream = stream};
    OK(cudaLaunchKernelExC(&config, function.object, list));
    download(host, y, sizeof host, stream);
    for (int i = 0; i < COUNT; i++)
        assert_true(host[i] == (float)i);
    config.gridDim.y = 65536;
    assert_int_equal(cudaLaunchKernelExC(&config, function.object, list),
                     cudaErrorInvalidConfiguration);
    config.gridDim.y = 0;
    assert_int_equal(cudaLaunchKernelExC(&config, function.object, list),
                     cudaErrorInvalidConfiguration);
    config.gridDim.y = 1;
    config.blockDim.z = 65;
    assert_int_equal(cudaLaunchKernelExC(&config, function.object, list),
                     cudaErrorInvalidConfiguration);
    device_free(y, sizeof host);
}

// Null pointers, and pointers to the end of memory, are arguments like others.
static void test_pointers(void **state) {
    (void)state;
    float *y = device_alloc(4096), host[4];
    const vector_args a = {.y = y, .x = NULL, .count = 4, .value = 2.0f};
    OK(launch(stream, fill, 1, 32, 0, &a));
    const vector_args end = {.y = y, .x = y + 1024, .count = 4, .value = 2.0f};
    OK(launch(stream, fill, 1, 32, 0, &end));
    download(host, y, sizeof host, stream);
    assert_true(host[3] == 2.0f);
    device_free(y, 4096);
}

static void test_barriers(void **state) {
    (void)state;
    float *x = device_iota(10000, stream), *y = device_alloc(4096), host[1024];
    for (unsigned threads = 1; threads <= 1024; threads *= 2) {
        vector_args a = {.y = y, .x = x, .count = 2 * threads, .shift = 5};
        OK(launch(stream, block_sums, 2, threads, threads * 4, &a));
        download(host, y, sizeof host, stream);
        const double n = threads;
        assert_true((double)host[0] == n * (n - 1) / 2);
        assert_true((double)host[1] == n * n + n * (n - 1) / 2);
        OK(launch(stream, reverse_phases, 1, threads, threads * 4, &a));
        download(host, y, sizeof host, stream);
        for (unsigned i = 0; i < threads; i++)
            assert_true(host[i] == (float)(threads - 1 - i));
    }
    device_free(x, 40000);
    device_free(y, 4096);
}

static void test_warps(void **state) {
    (void)state;
    float *x = device_iota(256, stream), *y = device_alloc(4096), host[8];
    const vector_args a = {.y = y, .x = x, .count = 256};
    OK(launch(stream, warp_sums, 1, 256, 0, &a));
    download(host, y, sizeof host, stream);
    for (int i = 0; i < 8; i++)
        assert_true(host[i] == (float)(i * 1024 + 496));
    OK(launch(stream, warp_mask, 1, 32, 0, &a));
    download(host, y, 4, stream);
    assert_true(host[0] == 16.0f);
    // The last warp of a block may be a part of one; its mask may name lanes that never existed.
    OK(launch(stream, warp_mask, 1, 21, 0, &a));
    download(host, y, 4, stream);
    assert_true(host[0] == 10.0f);
    device_free(x, 1024);
    device_free(y, 4096);
}

static void launch_language(void (*kernel)(const language_args), unsigned threads,
                            language_args args) {
    union {
        void (*kernel)(const language_args);
        void *object;
    } function = {kernel};
    void *list[] = {&args};
    const cudaLaunchConfig_t config = {
        .gridDim = {1, 1, 1}, .blockDim = {threads, 1, 1}, .stream = stream};
    OK(cudaLaunchKernelExC(&config, function.object, list));
}

static void test_shuffles(void **state) {
    (void)state;
    int *out = device_alloc(4096), host[256];
    launch_language(shuffles, 32, (language_args){.out = out});
    download(host, out, sizeof host, stream);
    for (int lane = 0; lane < 32; lane++) {
        const int *h = host + lane * 8;
        assert_int_equal(h[0], 50);
        assert_int_equal(h[1], lane < 3 ? lane * 10 : lane * 10 - 30);
        assert_int_equal(h[2], lane > 28 ? lane * 10 : lane * 10 + 30);
        assert_int_equal(h[3], (lane ^ 7) * 10);
        assert_int_equal(h[4], (lane / 8 * 8 + 2) * 10);
        assert_int_equal(h[5], lane % 8 > 4 ? lane * 10 : lane * 10 + 30);
        assert_int_equal(h[6], lane ^ 1);
        assert_int_equal(h[7], 0x49249249);
    }
    device_free(out, 4096);
}

static void test_language(void **state) {
    (void)state;
    int *out = device_alloc(4096), host[17];
    float *x = device_alloc(4096);
    const float values[2] = {7.0f, 1.0f + 0x1p-12f};
    upload(x, values, sizeof values, stream);
    OK(cudaMemsetAsync(out, 0, 4096, stream));
    launch_language(language, 1, (language_args){.x = x, .out = out});
    download(host, out, sizeof host, stream);
    for (int i = 0; i < 16; i++)
        if (host[i] != 1)
            fail_msg("line %d", i);
    assert_int_equal(host[16], 0);
    device_free(out, 4096);
    device_free(x, 4096);
}

// The nearest value of a type with so many bits of exponent and mantissa, ties to even.
static double nearest(double x, int mantissa, int exponent_min, double largest) {
    if (x == 0.0 || isnan(x) || isinf(x))
        return x;
    int exponent;
    (void)frexp(x, &exponent);
    exponent = exponent - 1 < exponent_min ? exponent_min : exponent - 1;
    const double step = ldexp(1.0, exponent - mantissa);
    const double rounded = nearbyint(x / step) * step;
    return fabs(rounded) > largest ? copysign((double)INFINITY, x) : rounded;
}

static void check_float(double is, double expected, float x) {
    if (!(is == expected || (isnan(is) && isnan(expected))))
        fail_msg("%a became %a, not %a", (double)x, is, expected);
}

static void test_conversions(void **state) {
    (void)state;
    enum { COUNT = 8192 };
    static const float special[] = {0.0f,      -0.0f,      INFINITY,   -INFINITY,     NAN,
                                    65504.0f,  65519.9f,   65520.0f,   1e-8f,         0x1p-24f,
                                    0x1p-25f,  0x1.8p-25f, 0x1p-133f,  3.3895314e38f, 3.4e38f,
                                    0x1.01p0f, 0x1.03p0f,  0x1.002p0f, 0x1.006p0f,    0x1.fffp-15f};
    static float x[COUNT], y[2 * COUNT];
    uint32_t bits = 1;
    for (int i = 0; i < COUNT; i++) {
        bits = bits * 1664525u + 1013904223u;
        memcpy(&x[i], &bits, 4);
    }
    for (int i = COUNT / 2; i < COUNT; i++) // in the range of halves
        x[i] = ldexpf((float)((double)(i * 7919 % 65536) / 32768.0 - 1.0), i % 44 - 28);
    memcpy(x, special, sizeof special);
    float *dx = device_alloc(sizeof x), *dy = device_alloc(sizeof y);
    int *out = device_alloc(2 * sizeof x);
    upload(dx, x, sizeof x, stream);
    for (int i = 0; i < COUNT; i += 256)
        launch_language(
            conversions, 256,
            (language_args){.y = dy + 2 * i, .x = dx + i, .out = out + 2 * i, .count = 256});
    download(y, dy, sizeof y, stream);
    for (int i = 0; i < COUNT; i++) {
        check_float((double)y[2 * i], nearest((double)x[i], 7, -126, 0x1.fep127), x[i]);
        check_float((double)y[2 * i + 1], nearest((double)x[i], 10, -14, 65504.0), x[i]);
    }
    device_free(dx, sizeof x);
    device_free(dy, sizeof y);
    device_free(out, 2 * sizeof x);
}

static void test_attributes(void **state) {
    (void)state;
    struct cudaFuncAttributes f;
    union {
        kernel_function kernel;
        void *object;
    } function = {write_shared};
    float *y = device_alloc(4096);
    const vector_args a = {.y = y, .shift = 232447};
    OK(cudaFuncGetAttributes(&f, function.object));
    assert_int_equal(f.maxThreadsPerBlock, 256);
    assert_int_equal(f.maxDynamicSharedSizeBytes, 49152);
    assert_int_equal(launch(stream, write_shared, 1, 1, 232448, &a), cudaErrorInvalidValue);
    assert_int_equal(
        cudaFuncSetAttribute(function.object, cudaFuncAttributeMaxDynamicSharedMemorySize, 232449),
        cudaErrorInvalidValue);
    OK(cudaFuncSetAttribute(function.object, cudaFuncAttributeMaxDynamicSharedMemorySize, 232448));
    OK(launch(stream, write_shared, 1, 1, 232448, &a));
    OK(cudaStreamSynchronize(stream));
    OK(cudaFuncGetAttributes(&f, function.object));
    assert_int_equal(f.maxDynamicSharedSizeBytes, 232448);
    assert_int_equal(cudaFuncGetAttributes(&f, &f), cudaErrorInvalidDeviceFunction);
    device_free(y, 4096);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grid),        cmocka_unit_test(test_pointers),
        cmocka_unit_test(test_barriers),    cmocka_unit_test(test_warps),
        cmocka_unit_test(test_shuffles),    cmocka_unit_test(test_language),
        cmocka_unit_test(test_conversions), cmocka_unit_test(test_attributes),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
