// SPDX-License-Identifier: Apache-2.0
// Mistakes that the software GPU must find, each in a process of its own, beside the same program
// without the mistake.
#include "tests/soft_gpu/soft_gpu_fixture.h"

enum { COUNT = 1000, BYTES = COUNT * 4, BLOCKS = 4, THREADS = 256 };

// A mistake that CUDA refuses: the call returns an error, and a message says which.
static void refused(void (*function)(void), const char *message) {
    char text[CHILD_TEXT_BYTES];
    right = true;
    expect_clean(function);
    right = false;
    assert_int_equal(run_child(function, text, sizeof text), 7);
    if (!strstr(text, "software GPU: ") || !strstr(text, message))
        fail_msg("no message '%s' but: %s", message, text);
}

static void finish(cudaError_t error, cudaError_t refusal) {
    if (error != cudaSuccess)
        exit(error == refusal ? 7 : 6);
}

static vector_args arguments(float *y, const float *x) {
    return (vector_args){.y = y, .x = x, .count = COUNT, .value = 1.0f};
}

// ---- Between streams and the host ----

static void miss_wait(void) {
    const cudaStream_t a = make_stream(), b = make_stream();
    const cudaEvent_t filled = make_event(), read = make_event();
    float *x = device_alloc(BYTES), *y = device_alloc(BYTES), host[COUNT];
    int wrong = 0;
    for (int n = 0; n < 60; n++) {
        vector_args fill_x = arguments(x, NULL), add_x = arguments(y, x);
        fill_x.value = (float)n;
        OK(launch(a, fill, BLOCKS, THREADS, 0, &fill_x));
        OK(cudaEventRecord(filled, a));
        if (right)
            OK(cudaStreamWaitEvent(b, filled, 0));
        OK(launch(b, add, BLOCKS, THREADS, 0, &add_x));
        OK(cudaEventRecord(read, b));
        OK(cudaStreamWaitEvent(a, read, 0));
        download(host, y, BYTES, b);
        wrong += host[COUNT - 1] != (float)(n + 1);
    }
    exit(wrong > 0 ? 8 : 0);
}

static void test_missing_wait(void **state) {
    (void)state;
    shows(miss_wait);
}

static void read_late(void) {
    const cudaStream_t s = make_stream();
    float *x = device_alloc(BYTES), host[COUNT], *pinned;
    int wrong = 0;
    OK(cudaHostAlloc((void **)&pinned, BYTES, 0));
    for (int n = 0; n < 60; n++) {
        for (int i = 0; i < COUNT; i++)
            pinned[i] = (float)n;
        OK(cudaMemcpyAsync(x, pinned, BYTES, cudaMemcpyHostToDevice, s));
        if (right)
            OK(cudaStreamSynchronize(s));
        for (int i = 0; i < COUNT; i++)
            pinned[i] = -1.0f;
        download(host, x, BYTES, s);
        wrong += host[COUNT - 1] != (float)n;
    }
    exit(wrong > 0 ? 8 : 0);
}

static void test_host_memory_reused(void **state) {
    (void)state;
    shows(read_late);
}

static void begin_at_once(void) {
    const cudaStream_t s = make_stream();
    float *x = device_iota(COUNT, s), *y = device_alloc(BYTES);
    vector_args a = arguments(y, x);
    OK(launch_overlapping(s, right ? add : add_at_once, BLOCKS, THREADS, &a));
    OK(cudaStreamSynchronize(s));
}

static void test_missing_wait_in_kernel(void **state) {
    (void)state;
    both(begin_at_once, "kernel add_at_once");
    both(begin_at_once, "may begin before the kernel in front has ended");
}

static void touch(void) {
    float *x = device_alloc(BYTES), host = 0.0f;
    const cudaStream_t s = make_stream();
    if (right)
        download(&host, x, 4, s);
    else
        host = x[3];
    exit(host == 1.0f ? 5 : 0);
}

static void test_host_touch(void **state) {
    (void)state;
    both(touch, "the host touched device memory");
}

// ---- Pointers ----

static void pass_host_pointer(void) {
    const cudaStream_t s = make_stream();
    static float host[COUNT];
    float *y = device_alloc(BYTES);
    float *x = device_iota(COUNT, s);
    vector_args a = arguments(y, right ? x : host);
    OK(launch(s, add, BLOCKS, THREADS, 0, &a));
    OK(cudaStreamSynchronize(s));
}

static void test_host_pointer(void **state) {
    (void)state;
    both(pass_host_pointer, "kernel add: argument 1 is a pointer of the host");
}

static void use_freed(void) {
    const cudaStream_t s = make_stream();
    float *x = device_iota(COUNT, s), *y = device_alloc(BYTES);
    vector_args a = arguments(y, x);
    if (!right)
        device_free(x, BYTES);
    OK(launch(s, add, BLOCKS, THREADS, 0, &a));
    OK(cudaStreamSynchronize(s));
}

static void test_stale_pointer(void **state) {
    (void)state;
    both(use_freed, "kernel add: argument 1 is a stale pointer");
}

// Freed while the kernel is left lying, or runs.
static void free_early(void) {
    const cudaStream_t s = make_stream();
    for (int n = 0; n < 40; n++) {
        float *x = device_iota(COUNT, s), *y = device_alloc(BYTES);
        vector_args a = arguments(y, x);
        OK(launch(s, add, BLOCKS, THREADS, 0, &a));
        if (right)
            OK(cudaStreamSynchronize(s));
        device_free(x, BYTES);
        OK(cudaStreamSynchronize(s));
        device_free(y, BYTES);
    }
}

static void test_free_before_kernel(void **state) {
    (void)state;
    both(free_early, "kernel add");
}

static void read_beyond(void) {
    const cudaStream_t s = make_stream();
    float *x = device_iota(1024, s), *y = device_alloc(4096);
    vector_args a = {.y = y, .x = x, .count = 1024, .shift = right ? 0 : 1};
    OK(launch(s, read_shifted, 4, 256, 0, &a));
    OK(cudaStreamSynchronize(s));
}

static void test_out_of_bounds(void **state) {
    (void)state;
    both(read_beyond, "kernel read_shifted, block (3, 0, 0), thread (255, 0, 0): accesses memory "
                      "out of bounds: 0 bytes behind the end of an allocation of 4096 bytes");
}

static void read_fresh(void) {
    const cudaStream_t s = make_stream();
    float *x = device_alloc(BYTES), *y = device_alloc(BYTES), host[COUNT];
    vector_args a = arguments(y, x);
    if (right)
        OK(cudaMemsetAsync(x, 0, BYTES, s));
    OK(launch(s, add, BLOCKS, THREADS, 0, &a));
    download(host, y, BYTES, s);
    for (int i = 0; i < COUNT; i++)
        if (host[i] != 1.0f)
            exit(isnan(host[i]) ? 8 : 5);
}

static void test_uninitialised(void **state) {
    (void)state;
    shows(read_fresh);
}

static void hide_pointer(void) {
    const cudaStream_t s = make_stream();
    float *y = device_alloc(BYTES);
    vector_args a = arguments(y, NULL);
    a.count = 1;
    const uint64_t word = (uint64_t)(uintptr_t)y;
    if (!right)
        memcpy(&a.shift, &word, 8); // and 'value' behind it
    OK(launch(s, fill, 1, 1, 0, &a));
    OK(cudaStreamSynchronize(s));
}

static void test_pointer_elsewhere(void **state) {
    (void)state;
    both(hide_pointer, "kernel fill: word 3 of its struct is an address of the device");
}

// ---- Blocks ----

static void sum_blocks(void) {
    const cudaStream_t s = make_stream();
    float *x = device_iota(2048, s), *y = device_alloc(32), host[8];
    vector_args a = {.y = y, .x = x, .count = 2048};
    OK(launch(s, right ? block_sums : block_sums_racy, 8, 256, 1024, &a));
    download(host, y, 32, s);
    for (int i = 0; i < 8; i++)
        if (host[i] != 65536.0f * (float)i + 32640.0f)
            exit(8);
}

static void test_missing_barrier(void **state) {
    (void)state;
    shows(sum_blocks);
}

static void leave_barrier(void) {
    const cudaStream_t s = make_stream();
    vector_args a = arguments(device_alloc(BYTES), NULL);
    a.shift = right ? -1 : 77;
    OK(launch(s, uneven_barrier, 2, 128, 0, &a));
    OK(cudaStreamSynchronize(s));
}

static void test_uneven_barrier(void **state) {
    (void)state;
    both(leave_barrier, "kernel uneven_barrier, block (");
    both(leave_barrier, "thread (77, 0, 0)");
}

static void use_two_barriers(void) {
    const cudaStream_t s = make_stream();
    vector_args a = arguments(device_alloc(BYTES), NULL);
    a.shift = right ? -1 : 5;
    OK(launch(s, two_barriers, 2, 128, 0, &a));
    OK(cudaStreamSynchronize(s));
}

static void test_two_barriers(void **state) {
    (void)state;
    both(use_two_barriers, "waits at the barrier in line");
}

static void miss_lane(void) {
    const cudaStream_t s = make_stream();
    vector_args a = arguments(device_alloc(BYTES), device_iota(COUNT, s));
    a.shift = right ? -1 : 40;
    OK(launch(s, warp_sums_partial, 2, 128, 0, &a));
    OK(cudaStreamSynchronize(s));
}

static void test_lane_that_ended(void **state) {
    (void)state;
    both(miss_lane, "kernel warp_sums_partial, block (");
    both(miss_lane, "__shfl_xor_sync (");
}

static void give_mask(void) {
    const cudaStream_t s = make_stream();
    vector_args a = arguments(device_alloc(BYTES), NULL);
    a.shift = right ? 0 : 16;
    OK(launch(s, warp_mask, 1, 32, 0, &a));
    OK(cudaStreamSynchronize(s));
}

static void test_mask(void **state) {
    (void)state;
    both(give_mask, "its mask 0xffffffef misses");
}

static void hide_barrier(void) {
    const cudaStream_t s = make_stream();
    vector_args a = arguments(device_alloc(BYTES), NULL);
    a.shift = -1;
    OK(launch(s, right ? uneven_barrier : undeclared_barrier, 1, 128, 0, &a));
    OK(cudaStreamSynchronize(s));
}

static void test_undeclared_barrier(void **state) {
    (void)state;
    both(hide_barrier, "kernel undeclared_barrier, block (0, 0, 0), thread (0, 0, 0): "
                       "__syncthreads in a kernel that is registered without barriers");
}

static int shared_byte;

static void overrun_shared(void) {
    const cudaStream_t s = make_stream();
    vector_args a = arguments(device_alloc(BYTES), NULL);
    a.shift = right ? 99 : shared_byte;
    OK(launch(s, write_shared, 1, 1, 100, &a));
    OK(cudaStreamSynchronize(s));
}

static void test_shared_overrun(void **state) {
    (void)state;
    shared_byte = 100; // found after the block
    both(overrun_shared, "kernel write_shared: wrote to byte 100 of its 100 bytes of shared");
    shared_byte = 112; // a fault
    both(overrun_shared, "kernel write_shared, block (0, 0, 0), thread (0, 0, 0): accesses byte "
                         "112 of its 100 bytes of shared memory");
}

// ---- What CUDA refuses ----

static void exceed_bound(void) {
    const cudaStream_t s = make_stream();
    vector_args a = arguments(device_alloc(BYTES), NULL);
    finish(launch(s, fill, 1, right ? 256 : 257, 0, &a), cudaErrorLaunchOutOfResources);
    OK(cudaStreamSynchronize(s));
}

static void test_launch_bound(void **state) {
    (void)state;
    refused(exceed_bound, "kernel fill: 257 threads; its launch bound is 256");
}

static void exceed_struct(void) {
    static large_args large;
    const cudaStream_t s = make_stream();
    vector_args a = arguments(device_alloc(BYTES), NULL);
    large.y = a.y;
    void *list[] = {right ? (void *)&a : (void *)&large};
    const cudaLaunchConfig_t config = {.gridDim = {1, 1, 1}, .blockDim = {1, 1, 1}, .stream = s};
    union {
        void (*kernel)(large_args);
        kernel_function small;
        void *object;
    } function = {take_large};
    if (right)
        function.small = fill;
    finish(cudaLaunchKernelExC(&config, function.object, list), cudaErrorInvalidValue);
    OK(cudaStreamSynchronize(s));
}

static void test_large_struct(void **state) {
    (void)state;
    refused(exceed_struct, "kernel take_large: its struct of 5008 bytes");
}

static void exceed_shared(void) {
    const cudaStream_t s = make_stream();
    vector_args a = arguments(device_alloc(BYTES), NULL);
    a.shift = 5;
    finish(launch(s, write_shared, 1, 1, right ? 49152 : 49153, &a), cudaErrorInvalidValue);
    OK(cudaStreamSynchronize(s));
}

static void test_much_shared(void **state) {
    (void)state;
    refused(exceed_shared, "kernel write_shared: 49153 bytes of shared memory; it may have 49152");
}

static void launch_elsewhere(void) {
    const cudaStream_t s = make_stream();
    vector_args a = arguments(device_alloc(BYTES), NULL);
    OK(cudaSetDevice(right ? 0 : 1));
    finish(launch(s, fill, 1, 1, 0, &a), cudaErrorInvalidResourceHandle);
    OK(cudaStreamSynchronize(s));
}

static void test_stream_of_other_device(void **state) {
    (void)state;
    refused(launch_elsewhere, "kernel fill: the stream is of device 0, but device 1 is current");
}

static void use_foreign_memory(void) {
    vector_args a = arguments(device_alloc(BYTES), NULL);
    OK(cudaSetDevice(1));
    const cudaStream_t s = make_stream();
    if (right)
        a.y = device_alloc(BYTES);
    OK(launch(s, fill, 1, 1, 0, &a));
    OK(cudaStreamSynchronize(s));
}

static void test_memory_of_other_device(void **state) {
    (void)state;
    both(use_foreign_memory, "kernel fill: argument 0 is memory to which device 1 has no access");
}

static void launch_nothing(void) {
    const cudaStream_t s = make_stream();
    vector_args a = arguments(device_alloc(BYTES), NULL);
    finish(launch(s, right ? fill : (kernel_function)(void (*)(void))launch_nothing, 1, 1, 0, &a),
           cudaErrorInvalidDeviceFunction);
    OK(cudaStreamSynchronize(s));
}

static void test_unknown_kernel(void **state) {
    (void)state;
    refused(launch_nothing, "which is no kernel");
}

static void use_destroyed(void) {
    const cudaStream_t s = make_stream();
    vector_args a = arguments(device_alloc(BYTES), NULL);
    if (!right)
        OK(cudaStreamDestroy(s));
    OK(launch(s, fill, 1, 1, 0, &a));
    OK(cudaStreamSynchronize(s));
}

static void test_destroyed_stream(void **state) {
    (void)state;
    both(use_destroyed, "a call on a stream that was destroyed");
}

static void allocate_in_capture(void) {
    const cudaStream_t s = make_stream();
    const driver_calls d = get_driver();
    const CUmemAllocationProp prop = memory_of(0);
    CUmemGenericAllocationHandle handle;
    cudaGraph_t graph;
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    if (right)
        OK(cudaStreamEndCapture(s, &graph));
    finish((cudaError_t)d.create(&handle, 4096, &prop, 0), cudaErrorStreamCaptureUnsupported);
}

static void test_allocation_in_capture(void **state) {
    (void)state;
    refused(allocate_in_capture, "cuMemCreate is not permitted during a capture");
}

static void wait_in_capture(void) {
    const cudaStream_t s = make_stream();
    cudaGraph_t graph;
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    if (right)
        OK(cudaStreamEndCapture(s, &graph));
    finish(cudaStreamSynchronize(s), cudaErrorStreamCaptureUnsupported);
}

static void test_wait_in_capture(void **state) {
    (void)state;
    refused(wait_in_capture, "cudaStreamSynchronize is not permitted during a capture");
}

static void copy_beyond(void) {
    const cudaStream_t s = make_stream();
    static float host[3000];
    float *x = device_alloc(4096);
    finish(cudaMemcpyAsync(x, host, right ? 4096 : 4097, cudaMemcpyHostToDevice, s),
           cudaErrorInvalidValue);
    OK(cudaStreamSynchronize(s));
}

static void test_copy_out_of_bounds(void **state) {
    (void)state;
    refused(copy_beyond, "cudaMemcpyAsync: its target, 4097 bytes at");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing_wait),
        cmocka_unit_test(test_host_memory_reused),
        cmocka_unit_test(test_missing_wait_in_kernel),
        cmocka_unit_test(test_host_touch),
        cmocka_unit_test(test_host_pointer),
        cmocka_unit_test(test_stale_pointer),
        cmocka_unit_test(test_free_before_kernel),
        cmocka_unit_test(test_out_of_bounds),
        cmocka_unit_test(test_uninitialised),
        cmocka_unit_test(test_pointer_elsewhere),
        cmocka_unit_test(test_missing_barrier),
        cmocka_unit_test(test_uneven_barrier),
        cmocka_unit_test(test_two_barriers),
        cmocka_unit_test(test_lane_that_ended),
        cmocka_unit_test(test_mask),
        cmocka_unit_test(test_undeclared_barrier),
        cmocka_unit_test(test_shared_overrun),
        cmocka_unit_test(test_launch_bound),
        cmocka_unit_test(test_large_struct),
        cmocka_unit_test(test_much_shared),
        cmocka_unit_test(test_stream_of_other_device),
        cmocka_unit_test(test_memory_of_other_device),
        cmocka_unit_test(test_unknown_kernel),
        cmocka_unit_test(test_destroyed_stream),
        cmocka_unit_test(test_allocation_in_capture),
        cmocka_unit_test(test_wait_in_capture),
        cmocka_unit_test(test_copy_out_of_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
