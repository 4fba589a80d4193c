// SPDX-License-Identifier: Apache-2.0
// The product's use of cuBLASLt, where that is the stand-in: which kernels serve where it is
// missing or fails, launches in graphs, and what launches make. Each case is a process of its own.
#include "tests/soft_gpu/soft_gpu_fixture.h"

#include "kernels/device/stream.h"
#include "kernels/kernel.h"
#include "kernels/kernel_params.h"
#include "tests/soft_gpu/soft_gpu.h"

// Prints what failed on stderr, and ends the process.
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #condition, sr_error_message()); \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { N = 24, C = 40, K = 16, ARGS = 4 };
enum { NEAR = 64, GUARD = 256 }; // what workspaces are aligned to; bytes after the test's

typedef struct work {
    sr_device *device;
    sr_kernel_request request; // of linear
    sr_prepared prepared;
    sr_address p[ARGS], workspace;
} work;

static sr_kernel_request request_of(const sr_device *device) {
    const sr_linear_params params = {N, C, K};
    sr_kernel_request request;
    sr_kernel_request_init(&request, sr_device_get_properties(device)->kind, SR_KERNEL_linear,
                           SR_BF16, &params, sizeof params);
    return request;
}

static sr_device *open_device(const char *name) {
    sr_device *device = NULL;
    CHECK(sr_device_open(name, &device) == SR_OK);
    return device;
}

static const char *provider_for(const sr_kernel_request *request) {
    const sr_kernel_entry *entry = sr_kernel_find(request);
    CHECK(entry);
    return entry->provider;
}

static size_t bytes_of(const work *w, int i) {
    return (size_t)sr_kernel_argument_count(&w->request, i) * sr_dtype_size(w->request.dtype[i]);
}

// Ones: every result is C + 1.
static void fill_argument(work *w, int i) {
    const size_t bytes = bytes_of(w, i);
    char *host = malloc(bytes);
    CHECK(host && sr_device_alloc(w->device, bytes, "a test", &w->p[i]) == SR_OK);
    for (size_t k = 0; k < bytes; k += 2) {
        const uint16_t one = sr_f32_to_bf16(1.0f), zero = 0;
        const bool low = w->request.dtype[i] == SR_F32 && k % 4 == 0; // of a float's halves
        memcpy(host + k, low ? &zero : &one, 2);
    }
    CHECK(sr_device_upload(w->device, w->p[i], host, bytes) == SR_OK);
    free(host);
}

static work begin_work(const char *name) {
    work w = {.device = open_device(name)};
    w.request = request_of(w.device);
    CHECK(strcmp(provider_for(&w.request), "cublaslt") == 0);
    CHECK(sr_kernel_prepare(&w.request, &w.prepared) == SR_OK);
    for (int i = 0; i < ARGS; i++)
        fill_argument(&w, i);
    CHECK(sr_device_alloc(w.device, NEAR + w.prepared.workspace + GUARD, "a test", &w.workspace) ==
          SR_OK);
    w.workspace = sr_address_add(w.workspace, NEAR); // what is behind it is 0
    return w;
}

static sr_status launch_on(const work *w, cudaStream_t stream) {
    const sr_kernel_launch launch = {.p = w->p,
                                     .params = w->request.params,
                                     .state = w->prepared.state,
                                     .workspace = w->workspace,
                                     .stream = stream};
    return w->prepared.launch(&launch);
}

static void expect_results(const work *w) {
    uint16_t host[N * K];
    CHECK(sr_device_download(w->device, host, w->p[3], sizeof host) == SR_OK);
    for (int i = 0; i < N * K; i++)
        CHECK(sr_bf16_to_f32(host[i]) == (float)(C + 1));
    char behind[GUARD];
    const sr_address end = sr_address_add(w->workspace, w->prepared.workspace);
    CHECK(sr_device_download(w->device, behind, end, GUARD) == SR_OK);
    for (int i = 0; i < GUARD; i++)
        CHECK(behind[i] == 0);
}

// ---- Launches ----

static void launch_in_a_graph(void) {
    work w = begin_work("cuda");
    const cudaStream_t stream = make_stream();
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(launch_on(&w, stream) == SR_OK);
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; i++) {
        OK(cudaMemsetAsync((void *)w.p[3].at, 0, bytes_of(&w, 3), stream));
        OK(cudaGraphLaunch(exec, stream));
        OK(cudaStreamSynchronize(stream));
        expect_results(&w);
    }
}

// Neither objects of CUDA nor descriptors.
static void launch_again(void) {
    work w = begin_work("cuda");
    const cudaStream_t stream = make_stream();
    CHECK(launch_on(&w, stream) == SR_OK);
    const unsigned long made = soft_gpu_count("made"), parts = soft_gpu_count("cublaslt_made"),
                        multiplied = soft_gpu_count("cublaslt_matmul");
    for (int i = 0; i < 5; i++)
        CHECK(launch_on(&w, stream) == SR_OK);
    OK(cudaStreamSynchronize(stream));
    expect_results(&w);
    CHECK(soft_gpu_count("made") == made);
    CHECK(soft_gpu_count("cublaslt_made") == parts);
    CHECK(soft_gpu_count("cublaslt_matmul") == multiplied + 5);
}

// A second request of the same product has its plan.
static void prepare_again(void) {
    work w = begin_work("cuda");
    sr_prepared again = {0};
    const unsigned long parts = soft_gpu_count("cublaslt_made");
    CHECK(parts > 0);
    CHECK(sr_kernel_prepare(&w.request, &again) == SR_OK);
    CHECK(soft_gpu_count("cublaslt_made") == parts);
    sr_prepared_release(&again);
}

static void use_second_device(void) {
    work w = begin_work("cuda:1");
    const cudaStream_t stream = make_stream();
    CHECK(launch_on(&w, stream) == SR_OK);
    OK(cudaStreamSynchronize(stream));
    expect_results(&w);
}

static void test_launches(void **state) {
    (void)state;
    expect_clean(launch_in_a_graph);
    expect_clean(launch_again);
    expect_clean(prepare_again);
    expect_clean(use_second_device);
}

// ---- What is missing ----

static void expect_text(void (*function)(void), const char *text) {
    char got[2000];
    const int end = run_child(function, got, sizeof got);
    if (end != 0 || !strstr(got, text))
        fail_msg("ended with %d, no text '%s' in: %s", end, text, got);
}

static void expect_details(const sr_device *device, const char *text) {
    char details[SR_DEVICE_IDENTITY];
    CHECK(strstr(sr_device_details(sr_device_get_properties(device), details), text));
}

static void find_version(void) {
    const sr_device *device = open_device("cuda");
    expect_details(device, ", cuBLASLt 13.");
}

static void find_old_one(void) {
    (void)setenv("SOFT_CUBLASLT", "old", 1);
    const sr_device *device = open_device("cuda");
    const sr_kernel_request request = request_of(device);
    expect_details(device, ", no cuBLASLt");
    CHECK(strcmp(provider_for(&request), "reference") == 0);
}

static void find_old_ones(void) {
    (void)setenv("SOFT_CUDNN", "old", 1);
    find_old_one();
}

// No algorithm for a product.
static void find_no_algorithm(void) {
    (void)setenv("SOFT_CUBLASLT", "none", 1);
    const sr_kernel_request request = request_of(open_device("cuda"));
    CHECK(strcmp(provider_for(&request), "reference") == 0);
}

static void want_portable_numerics(void) {
    sr_kernels_use_portable(true);
    const sr_kernel_request request = request_of(open_device("cuda"));
    CHECK(strcmp(provider_for(&request), "reference") == 0);
}

// A failure is an error, and no other choice of who computes.
static void fail_to_begin(void) {
    sr_prepared prepared = {0};
    (void)setenv("SOFT_CUBLASLT", "unready", 1);
    const sr_kernel_request request = request_of(open_device("cuda"));
    CHECK(sr_kernel_prepare(&request, &prepared) == SR_E_DEVICE);
    CHECK(strstr(sr_error_message(), "using cuda:0 failed in cuBLASLt 13."));
    (void)setenv("SOFT_CUBLASLT", "", 1);
    CHECK(sr_kernel_prepare(&request, &prepared) == SR_OK);
}

static void refuse_a_launch(const char *fault, const char *message) {
    (void)setenv("SOFT_GPU_FAULT", fault, 1);
    work w = begin_work("cuda");
    const cudaStream_t stream = make_stream();
    CHECK(launch_on(&w, stream) == SR_E_DEVICE);
    CHECK(strstr(sr_error_message(), message));
    CHECK(launch_on(&w, stream) == SR_OK);
}

static void refuse_to_round(void) {
    refuse_a_launch("refuse:1", "launching cuda_round_bf16: ");
}

static void refuse_to_multiply(void) {
    refuse_a_launch("refuse:2", "a product failed in cuBLASLt 13.");
}

static void test_what_is_missing(void **state) {
    (void)state;
    expect_clean(find_version);
    expect_text(find_old_one, "matrix products in bf16 and fp16 are slow: libcublasLt.so.13 is "
                              "cuBLASLt 12.8.4, not 13; install cuBLAS of CUDA 13");
    expect_text(find_old_ones, "convolutions and matrix products in bf16 and fp16 are slow: "
                               "libcudnn.so.9 ");
    expect_text(find_old_ones, "; libcublasLt.so.13 is cuBLASLt 12.8.4");
    expect_clean(find_no_algorithm);
    expect_clean(want_portable_numerics);
    expect_clean(fail_to_begin);
    expect_clean(refuse_to_round);
    expect_clean(refuse_to_multiply);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_launches),
        cmocka_unit_test(test_what_is_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
