// SPDX-License-Identifier: Apache-2.0
// Lanes side by side by the kernels of libraries, where those are the stand-ins: which requests
// they serve, and that lanes run one by one where a library has no kernel for all of them, gives
// them other bits, or cannot be asked. Each case is a process of its own.
#include "kernels/kernel_lanes.h"
#include "kernels/kernel_params.h"
#include "tests/soft_gpu/soft_gpu.h"
#include "tests/soft_gpu/soft_gpu_fixture.h"

// Prints what failed on stderr, and ends the process.
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #condition, sr_error_message()); \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { LANES = 2, ALL = 0xf }; // ALL: arguments vary

static sr_device *open_device(void) {
    sr_device *device = NULL;
    CHECK(sr_device_open("cuda", &device) == SR_OK);
    return device;
}

static sr_kernel_request request_of(const sr_device *device, sr_kernel_id kernel,
                                    const void *params, size_t bytes) {
    sr_kernel_request request;
    sr_kernel_request_init(&request, sr_device_get_properties(device)->kind, kernel, SR_BF16,
                           params, bytes);
    return request;
}

// Of three samples.
static sr_kernel_request conv_of(const sr_device *device, sr_kernel_id kernel) {
    const sr_conv_params params = {.n = 3,
                                   .h = 6,
                                   .w = 6,
                                   .c = 16,
                                   .k = 24,
                                   .r = 3,
                                   .s = 3,
                                   .p = 6,
                                   .q = 6,
                                   .stride_h = 1,
                                   .stride_w = 1,
                                   .pad_top = 1,
                                   .pad_left = 1,
                                   .pad_bottom = 1,
                                   .pad_right = 1,
                                   .dilation_h = 1,
                                   .dilation_w = 1,
                                   .groups = 1};
    return request_of(device, kernel, &params, sizeof params);
}

// Of one pixel, so that a gradient of filters is a product of matrices.
static sr_kernel_request pointwise_of(const sr_device *device) {
    sr_kernel_request request = conv_of(device, SR_KERNEL_conv2d_dw);
    sr_conv_params *p = (void *)request.params;
    p->r = p->s = 1;
    p->pad_top = p->pad_left = p->pad_bottom = p->pad_right = 0;
    return request;
}

static sr_kernel_request linear_of(const sr_device *device, sr_kernel_id kernel) {
    const sr_linear_params params = {24, 40, 16};
    return request_of(device, kernel, &params, sizeof params);
}

static sr_kernel_request matmul_of(const sr_device *device) {
    const sr_matmul_params params = {.rows = 8,
                                     .terms = 40,
                                     .columns = 16,
                                     .a_count = 1,
                                     .b_count = 1,
                                     .dim = {1, 1, 1},
                                     .alpha = 1};
    return request_of(device, SR_KERNEL_matmul, &params, sizeof params);
}

// Whether the provider serves lanes side by side; it always serves one.
static bool serves_lanes(const sr_kernel_request *lane, uint32_t varies, const char *provider) {
    sr_kernel_request all;
    CHECK(strcmp(sr_kernel_find(lane)->provider, provider) == 0);
    if (!sr_kernel_join_lanes(lane, LANES, varies, &all))
        return false;
    CHECK(sr_kernel_find(&all)->lanes);
    CHECK(strcmp(sr_kernel_find(&all)->provider, provider) == 0);
    return true;
}

static void expect_cudnn(bool forward, bool dx) {
    const sr_device *device = open_device();
    const sr_kernel_request y = conv_of(device, SR_KERNEL_conv2d),
                            x = conv_of(device, SR_KERNEL_conv2d_dx),
                            w = conv_of(device, SR_KERNEL_conv2d_dw);
    CHECK(serves_lanes(&y, 1 | 8, "cudnn") == forward);
    CHECK(serves_lanes(&x, 1 | 4, "cudnn") == dx);
    CHECK(!serves_lanes(&w, 7, "cudnn"));
}

// Rows, and batches.
static void expect_cublaslt(bool rows, bool batches) {
    const sr_device *device = open_device();
    const sr_kernel_request y = linear_of(device, SR_KERNEL_linear),
                            x = linear_of(device, SR_KERNEL_linear_dx),
                            w = linear_of(device, SR_KERNEL_linear_dw),
                            filters = pointwise_of(device), c = matmul_of(device);
    CHECK(serves_lanes(&y, 1 | 8, "cublaslt") == rows);
    CHECK(serves_lanes(&x, 1 | 4, "cublaslt") == rows);
    CHECK(serves_lanes(&c, 1 | 4, "cublaslt") == rows);
    CHECK(serves_lanes(&c, 7, "cublaslt") == batches);
    CHECK(serves_lanes(&w, 7, "cublaslt") == batches);
    CHECK(serves_lanes(&filters, 7, "cublaslt") == batches);
}

// ---- What is served ----

static void serve(void) {
    expect_cudnn(true, true);
    expect_cublaslt(true, true);
}

static size_t workspace_of(const sr_kernel_request *request) {
    sr_prepared prepared;
    CHECK(sr_kernel_prepare_as(request, sr_kernel_find(request), 0, &prepared) == SR_OK);
    const size_t bytes = prepared.workspace;
    sr_prepared_release(&prepared);
    return bytes;
}

// Lanes have the engine or algorithm of one, while a request of as many samples without lanes has
// another one, which shows in its workspace: whichever is made first.
static void expect_choices(const sr_kernel_request *lane) {
    for (int64_t factor = 1; factor <= 2; factor++) {
        sr_kernel_request one = *lane, same, all;
        one.params[0] *= (uint64_t)factor; // samples or rows
        same = one;
        same.params[0] *= LANES;
        CHECK(sr_kernel_join_lanes(&one, LANES, 1 | 8, &all));
        const size_t first = workspace_of(factor == 1 ? &all : &same),
                     second = workspace_of(factor == 1 ? &same : &all);
        CHECK(first != second);
    }
}

static void keep_choices(void) {
    const sr_device *device = open_device();
    const sr_kernel_request y = conv_of(device, SR_KERNEL_conv2d),
                            linear = linear_of(device, SR_KERNEL_linear);
    expect_choices(&y);
    expect_choices(&linear);
}

// Bits show which engine computes.
static void keep_engine(void) {
    (void)setenv("SOFT_CUDNN", "rough", 1);
    expect_cudnn(true, true);
}

// Arguments that no lane has of its own, or each has though it has no samples.
static void serve_no_others(void) {
    const sr_device *device = open_device();
    sr_kernel_request y = conv_of(device, SR_KERNEL_conv2d),
                      linear = linear_of(device, SR_KERNEL_linear), all;
    CHECK(!sr_kernel_join_lanes(&y, LANES, ALL, &all)); // filters
    CHECK(!sr_kernel_join_lanes(&linear, LANES, ALL, &all));
    y.lanes = LANES; // which do not divide the samples
    CHECK(!sr_kernel_find_in(&y, "cudnn"));
    linear.lanes = 5;
    CHECK(!sr_kernel_find_in(&linear, "cublaslt"));
}

// Kernels are run when lanes are first asked for, and never again; their memory is freed.
static void ask_again(void) {
    sr_device *device = open_device();
    const sr_kernel_request y = conv_of(device, SR_KERNEL_conv2d),
                            linear = linear_of(device, SR_KERNEL_linear);
    sr_device_memory before, after;
    CHECK(sr_device_get_memory(device, &before));
    CHECK(serves_lanes(&y, 1 | 8, "cudnn") && serves_lanes(&linear, 1 | 8, "cublaslt"));
    const unsigned long convolved = soft_gpu_count("cudnn_executed"),
                        multiplied = soft_gpu_count("cublaslt_matmul"),
                        made = soft_gpu_count("made");
    CHECK(convolved > LANES && multiplied > LANES);
    CHECK(serves_lanes(&y, 1 | 8, "cudnn") && serves_lanes(&linear, 1 | 8, "cublaslt"));
    CHECK(soft_gpu_count("cudnn_executed") == convolved);
    CHECK(soft_gpu_count("cublaslt_matmul") == multiplied);
    CHECK(soft_gpu_count("made") == made);
    CHECK(sr_device_get_memory(device, &after));
    CHECK(after.available == before.available);
}

static void test_served(void **state) {
    (void)state;
    expect_clean(serve);
    expect_clean(keep_choices);
    expect_clean(keep_engine);
    expect_clean(serve_no_others);
    expect_clean(ask_again);
}

// ---- What runs lane by lane ----

static void have_other_bits(void) {
    (void)setenv("SOFT_CUDNN", "samples", 1);
    (void)setenv("SOFT_CUBLASLT", "size", 1);
    expect_cudnn(false, false);
    expect_cublaslt(false, false);
}

static void have_no_kernel(void) {
    (void)setenv("SOFT_CUDNN", "few", 1);
    (void)setenv("SOFT_CUBLASLT", "own", 1);
    expect_cudnn(false, false);
    expect_cublaslt(false, false);
}

// The algorithm of one lane has matrices that are aligned to 64 bytes: in a batch one of x, dy and
// dw has smaller ones.
static void have_no_alignment(void) {
    static const sr_linear_params params[] = {{1, 8, 32}, {1, 32, 8}, {32, 1, 1}};
    const sr_device *device = open_device();
    for (int i = 0; i < 3; i++) {
        const sr_kernel_request w =
            request_of(device, SR_KERNEL_linear_dw, &params[i], sizeof params[i]);
        CHECK(!serves_lanes(&w, 7, "cublaslt"));
    }
}

static void have_no_memory(void) {
    (void)setenv("SOFT_GPU_MEMORY", "4096", 1);
    expect_cudnn(false, false);
    expect_cublaslt(false, false);
}

static void fail_to_launch(void) {
    (void)setenv("SOFT_GPU_FAULT", "refuse:1", 1);
    const sr_device *device = open_device();
    const sr_kernel_request y = conv_of(device, SR_KERNEL_conv2d),
                            x = conv_of(device, SR_KERNEL_conv2d_dx);
    CHECK(!serves_lanes(&y, 1 | 8, "cudnn"));
    CHECK(serves_lanes(&x, 1 | 4, "cudnn"));
}

static void test_one_by_one(void **state) {
    (void)state;
    expect_clean(have_other_bits);
    expect_clean(have_no_kernel);
    expect_clean(have_no_alignment);
    expect_clean(have_no_memory);
    expect_clean(fail_to_launch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_served),
        cmocka_unit_test(test_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
