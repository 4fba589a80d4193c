// SPDX-License-Identifier: Apache-2.0
// Faults on demand, SOFT_GPU_FAULT, and errors that stay. Each case is a process of its own.
#include <sys/mman.h>

#include "tests/soft_gpu/soft_gpu.h"
#include "tests/soft_gpu/soft_gpu_fixture.h"

#define EXPECT(call, error)                                                                        \
    do {                                                                                           \
        const cudaError_t got = (call);                                                            \
        if (got != (error)) {                                                                      \
            (void)fprintf(stderr, "line %d: %s\n", __LINE__, cudaGetErrorName(got));               \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static void fail_memory(void) {
    (void)setenv("SOFT_GPU_FAULT", "memory:2", 1);
    const driver_calls d = get_driver();
    const CUmemAllocationProp prop = memory_of(0);
    CUmemGenericAllocationHandle handle;
    EXPECT((cudaError_t)d.create(&handle, 4096, &prop, 0), cudaSuccess);
    EXPECT((cudaError_t)d.create(&handle, 4096, &prop, 0), cudaErrorMemoryAllocation);
    EXPECT((cudaError_t)d.create(&handle, 4096, &prop, 0), cudaSuccess);
}

// The error comes later than the launch, and stays; who waits is not left waiting.
static void fail_launch(void) {
    (void)setenv("SOFT_GPU_FAULT", "launch:3", 1);
    const cudaStream_t s = make_stream(), other = make_stream();
    const cudaEvent_t e = make_event();
    float *y = device_alloc(4096);
    const vector_args a = {.y = y, .count = 8};
    for (int i = 0; i < 3; i++)
        EXPECT(launch(s, fill, 1, 8, 0, &a), cudaSuccess);
    (void)cudaEventRecord(e, s);
    (void)cudaStreamWaitEvent(other, e, 0);
    EXPECT(cudaStreamSynchronize(other), cudaErrorLaunchFailure);
    EXPECT(cudaStreamSynchronize(s), cudaErrorLaunchFailure);
    EXPECT(cudaEventQuery(e), cudaErrorLaunchFailure);
    EXPECT(cudaEventSynchronize(e), cudaErrorLaunchFailure);
    EXPECT(launch(s, fill, 1, 8, 0, &a), cudaErrorLaunchFailure);
    EXPECT(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
    EXPECT(cudaGetLastError(), cudaErrorLaunchFailure);
    EXPECT(cudaGetLastError(), cudaErrorLaunchFailure);
    EXPECT(cudaEventDestroy(e), cudaErrorLaunchFailure);
    EXPECT(cudaStreamDestroy(s), cudaErrorLaunchFailure);
    EXPECT((cudaError_t)get_driver().unmap(1, 1), cudaErrorLaunchFailure); // ends in get_driver
}

static void lose_device(void) {
    (void)setenv("SOFT_GPU_FAULT", "lost:2", 1);
    const cudaStream_t s = make_stream();
    const vector_args a = {.y = device_alloc(4096), .count = 8};
    size_t bytes;
    int count;
    EXPECT(launch(s, fill, 1, 8, 0, &a), cudaSuccess);
    EXPECT(launch(s, fill, 1, 8, 0, &a), cudaErrorDevicesUnavailable);
    EXPECT(cudaStreamSynchronize(s), cudaErrorDevicesUnavailable);
    EXPECT(cudaMemGetInfo(&bytes, &bytes), cudaErrorDevicesUnavailable);
    EXPECT(cudaSetDevice(0), cudaErrorDevicesUnavailable);
    EXPECT(cudaGetDeviceCount(&count), cudaSuccess);
}

static void fail_copy(void) {
    (void)setenv("SOFT_GPU_FAULT", "copy:2", 1);
    const cudaStream_t s = make_stream();
    float host[4] = {0.0f}, *x = device_alloc(4096);
    EXPECT(cudaMemcpyAsync(x, host, 16, cudaMemcpyHostToDevice, s), cudaSuccess);
    EXPECT(cudaMemcpyAsync(host, x, 16, cudaMemcpyDeviceToHost, s), cudaErrorECCUncorrectable);
    EXPECT(cudaStreamSynchronize(s), cudaErrorECCUncorrectable);
}

static void set_memory(void) {
    (void)setenv("SOFT_GPU_MEMORY", "8192", 1);
    const driver_calls d = get_driver();
    const CUmemAllocationProp prop = memory_of(1);
    CUmemGenericAllocationHandle handle;
    struct cudaDeviceProp p;
    OK(cudaGetDeviceProperties(&p, 0));
    if (p.totalGlobalMem != 8192)
        exit(1);
    EXPECT((cudaError_t)d.create(&handle, 12288, &prop, 0), cudaErrorMemoryAllocation);
    EXPECT((cudaError_t)d.create(&handle, 8192, &prop, 0), cudaSuccess);
}

static void misspell(void) {
    int count;
    (void)setenv("SOFT_GPU_FAULT", "lunch:2", 1);
    (void)cudaGetDeviceCount(&count);
}

static void expect_count(const char *kind, unsigned long count) {
    if (soft_gpu_count(kind) != count) {
        (void)fprintf(stderr, "%s: %lu, not %lu\n", kind, soft_gpu_count(kind), count);
        exit(1);
    }
}

static void count_events(void) {
    const cudaStream_t s = make_stream();
    const vector_args a = {.y = device_alloc(4096), .count = 8};
    const unsigned long made = soft_gpu_count("made");
    expect_count("memory", 1);
    OK(launch(s, fill, 1, 8, 0, &a));
    OK(launch(s, fill, 1, 8, 0, &a));
    OK(cudaStreamSynchronize(s));
    expect_count("launch", 2);
    expect_count("lost", 2);
    expect_count("copy", 0);
    expect_count("made", made);
    (void)make_event();
    expect_count("made", made + 1);
}

static void test_counts(void **state) {
    (void)state;
    expect_clean(count_events);
}

static void test_memory(void **state) {
    (void)state;
    expect_clean(fail_memory);
    expect_clean(set_memory);
}

static void test_launch(void **state) {
    char text[500];
    (void)state;
    assert_int_equal(run_child(fail_launch, text, sizeof text), 1);
    assert_non_null(strstr(text, "cudaGetDriverEntryPointByVersion"));
    assert_non_null(strstr(text, ": cudaErrorLaunchFailure"));
    assert_null(strstr(text, "line"));
}

static void test_lost(void **state) {
    (void)state;
    expect_clean(lose_device);
}

static void test_copy(void **state) {
    (void)state;
    expect_clean(fail_copy);
}

static void test_misspelt(void **state) {
    (void)state;
    expect_abort(misspell, "SOFT_GPU_FAULT is 'lunch:2'");
}

// A fault that is not ours ends the process as without the software GPU.
static void fault_elsewhere(void) {
    int count;
    OK(cudaGetDeviceCount(&count));
    int *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *page = 1;
}

static void test_other_fault(void **state) {
    char text[CHILD_TEXT_BYTES];
    (void)state;
    assert_int_not_equal(run_child(fault_elsewhere, text, sizeof text), 0);
    assert_null(strstr(text, "software GPU"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),   cmocka_unit_test(test_launch),
        cmocka_unit_test(test_lost),     cmocka_unit_test(test_copy),
        cmocka_unit_test(test_misspelt), cmocka_unit_test(test_other_fault),
        cmocka_unit_test(test_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
