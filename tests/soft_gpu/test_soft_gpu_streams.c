// SPDX-License-Identifier: Apache-2.0
// The software GPU's streams and events.
#include "tests/soft_gpu/soft_gpu_fixture.h"

enum { COUNT = 1024, BYTES = COUNT * 4 };

// A chain over four streams, each step waiting for the one before: always in order.
static void test_waits(void **state) {
    (void)state;
    enum { STREAMS = 4, STEPS = 100 };
    cudaStream_t s[STREAMS];
    cudaEvent_t e[STREAMS];
    float *x = device_iota(COUNT, make_stream()), host[COUNT];
    const vector_args a = {.y = x, .x = x, .count = COUNT, .value = 1.0f};
    for (int i = 0; i < STREAMS; i++) {
        s[i] = make_stream();
        e[i] = make_event();
    }
    for (int n = 0; n < STEPS; n++) {
        if (n > 0)
            OK(cudaStreamWaitEvent(s[n % STREAMS], e[(n - 1) % STREAMS], 0));
        OK(launch(s[n % STREAMS], add, 4, 256, 0, &a));
        OK(cudaEventRecord(e[n % STREAMS], s[n % STREAMS]));
    }
    download(host, x, BYTES, s[(STEPS - 1) % STREAMS]);
    for (int i = 0; i < COUNT; i++)
        assert_true(host[i] == (float)(i + STEPS));
    for (int i = 0; i < STREAMS; i++) {
        OK(cudaStreamDestroy(s[i]));
        OK(cudaEventDestroy(e[i]));
    }
    device_free(x, BYTES);
}

// Somebody who only asks gets an answer, and both answers occur.
static void test_queries(void **state) {
    (void)state;
    const cudaStream_t s = make_stream();
    const cudaEvent_t e = make_event();
    float *x = device_alloc(BYTES);
    const vector_args a = {.y = x, .count = COUNT, .value = 1.0f};
    int not_ready = 0;
    OK(cudaEventQuery(e)); // never recorded
    OK(cudaEventSynchronize(e));
    OK(cudaStreamQuery(s));
    for (int n = 0; n < 100; n++) {
        OK(launch(s, fill, 4, 256, 0, &a));
        OK(cudaEventRecord(e, s));
        for (cudaError_t error; (error = cudaEventQuery(e)) != cudaSuccess; not_ready++)
            assert_int_equal(error, cudaErrorNotReady);
        OK(launch(s, fill, 4, 256, 0, &a));
        for (cudaError_t error; (error = cudaStreamQuery(s)) != cudaSuccess; not_ready++)
            assert_int_equal(error, cudaErrorNotReady);
    }
    assert_true(not_ready > 0);
    assert_int_equal(cudaPeekAtLastError(), cudaSuccess);
    OK(cudaStreamDestroy(s));
    OK(cudaEventDestroy(e));
    device_free(x, BYTES);
}

static void test_elapsed(void **state) {
    (void)state;
    const cudaStream_t s = make_stream();
    const cudaEvent_t untimed = make_event();
    cudaEvent_t begin, end;
    float *x = device_alloc(BYTES), ms = -1.0f;
    const vector_args a = {.y = x, .x = x, .count = 1 << 20};
    OK(cudaEventCreateWithFlags(&begin, cudaEventDefault));
    OK(cudaEventCreateWithFlags(&end, cudaEventDefault));
    OK(cudaEventRecord(begin, s));
    assert_int_equal(cudaEventElapsedTime(&ms, begin, end), cudaErrorInvalidResourceHandle);
    OK(launch(s, nothing, 4096, 1024, 0, &a));
    OK(cudaEventRecord(end, s));
    OK(cudaEventRecord(untimed, s));
    const cudaError_t error = cudaEventElapsedTime(&ms, begin, end);
    assert_true(error == cudaErrorNotReady || error == cudaSuccess);
    OK(cudaEventSynchronize(end));
    OK(cudaEventElapsedTime(&ms, begin, end));
    assert_true(ms > 0.1f && ms < 20000.0f); // four million threads
    OK(cudaEventSynchronize(untimed));
    assert_int_equal(cudaEventElapsedTime(&ms, begin, untimed), cudaErrorInvalidResourceHandle);
    OK(cudaStreamDestroy(s));
    device_free(x, BYTES);
}

// A stream that is destroyed finishes its work.
static void test_destroy(void **state) {
    (void)state;
    float *x = device_alloc(BYTES), host[COUNT];
    const cudaStream_t s = make_stream(), other = make_stream();
    const cudaEvent_t e = make_event();
    vector_args a = {.y = x, .count = COUNT, .value = 6.0f};
    for (int n = 0; n < 20; n++)
        OK(launch(s, fill, 4, 256, 0, &a));
    OK(cudaEventRecord(e, s));
    OK(cudaStreamDestroy(s));
    OK(cudaStreamWaitEvent(other, e, 0));
    download(host, x, BYTES, other);
    assert_true(host[COUNT - 1] == 6.0f);
    OK(cudaDeviceSynchronize());
    OK(cudaStreamDestroy(other));
    device_free(x, BYTES);
}

static void test_devices(void **state) {
    (void)state;
    const cudaStream_t s = make_stream();
    OK(cudaSetDevice(1));
    const cudaStream_t other = make_stream();
    const cudaEvent_t e = make_event();
    assert_int_equal(cudaEventRecord(e, s), cudaErrorInvalidResourceHandle);
    OK(cudaEventRecord(e, other));
    OK(cudaStreamWaitEvent(s, e, 0)); // across devices
    OK(cudaStreamSynchronize(s));
    OK(cudaSetDevice(0));
}

static void use_wrong_event(void) {
    const cudaEvent_t e = make_event();
    OK(cudaEventDestroy(e));
    OK(cudaEventQuery(e));
}

static void test_destroyed_event(void **state) {
    (void)state;
    expect_abort(use_wrong_event, "a call for an event that was destroyed");
}

int main(void) {
    const struct CMUnitTest first[] = {cmocka_unit_test(test_destroyed_event)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waits),   cmocka_unit_test(test_queries),
        cmocka_unit_test(test_elapsed), cmocka_unit_test(test_destroy),
        cmocka_unit_test(test_devices),
    };
    // Processes are forked before this one has threads.
    return cmocka_run_group_tests(first, NULL, NULL) + cmocka_run_group_tests(tests, NULL, NULL);
}
