// SPDX-License-Identifier: Apache-2.0
// Capture of streams into graphs on the software GPU, and what it forbids.
#include <pthread.h>

#include "tests/soft_gpu/soft_gpu_fixture.h"

enum { COUNT = 1024, BYTES = COUNT * 4 };

static cudaStream_t a, b;
static cudaEvent_t fork_event, join_event;
static float *x, *y, *z;

static int start(void **state) {
    (void)state;
    a = make_stream();
    b = make_stream();
    fork_event = make_event();
    join_event = make_event();
    x = device_alloc(BYTES);
    y = device_alloc(BYTES);
    z = device_alloc(BYTES);
    return 0;
}

static vector_args arguments(float *to, const float *from, float value) {
    return (vector_args){.y = to, .x = from, .count = COUNT, .value = value};
}

// x = 1; on the other stream y = x + 2, without its wait where 'waits' is false; z = y + 3.
static cudaError_t capture(bool waits, cudaGraph_t *graph) {
    const vector_args first = arguments(x, NULL, 1.0f), second = arguments(y, x, 2.0f),
                      third = arguments(z, y, 3.0f);
    OK(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
    if (!waits)
        OK(cudaEventRecord(fork_event, a));
    OK(launch(a, fill, 4, 256, 0, &first));
    if (waits)
        OK(cudaEventRecord(fork_event, a));
    OK(cudaStreamWaitEvent(b, fork_event, 0));
    OK(launch(b, add, 4, 256, 0, &second));
    OK(cudaEventRecord(join_event, b));
    OK(cudaStreamWaitEvent(a, join_event, 0));
    OK(launch(a, add, 4, 256, 0, &third));
    return cudaStreamEndCapture(a, graph);
}

// Runs the graph after its buffers were set to another value; returns how often z was wrong.
static int run(cudaGraph_t graph) {
    cudaGraphExec_t exec;
    int wrong = 0;
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphDestroy(graph));
    for (int n = 0; n < 40; n++) {
        float host[COUNT];
        OK(cudaMemsetAsync(x, 0, BYTES, a));
        OK(cudaGraphLaunch(exec, a));
        download(host, z, BYTES, a);
        wrong += host[COUNT - 1] != 6.0f;
    }
    OK(cudaGraphExecDestroy(exec));
    return wrong;
}

static void test_replay(void **state) {
    (void)state;
    cudaGraph_t graph;
    cudaGraphNode_t nodes[3];
    size_t count = 0;
    float host[COUNT];
    OK(cudaMemsetAsync(z, 0, BYTES, a));
    OK(capture(true, &graph));
    download(host, z, BYTES, a);
    assert_true(host[0] == 0.0f); // nothing ran
    OK(cudaGraphGetNodes(graph, NULL, &count));
    assert_int_equal(count, 3);
    OK(cudaGraphGetNodes(graph, nodes, &count));
    assert_non_null(nodes[2]);
    assert_int_equal(run(graph), 0);
}

static void test_missing_dependency(void **state) {
    (void)state;
    cudaGraph_t graph;
    OK(capture(false, &graph));
    assert_true(run(graph) > 0);
}

// Copies from registered memory and sets are captured, too; the memory is read at each launch.
static void test_copies(void **state) {
    (void)state;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    float *pinned, host[COUNT];
    OK(cudaHostAlloc((void **)&pinned, BYTES, 0));
    OK(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
    OK(cudaMemcpyAsync(x, pinned, BYTES, cudaMemcpyHostToDevice, a));
    OK(cudaMemsetAsync(x + 1, 0, 4, a));
    OK(cudaStreamEndCapture(a, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphDestroy(graph));
    for (int n = 0; n < 5; n++) {
        pinned[0] = pinned[1] = (float)n;
        OK(cudaGraphLaunch(exec, a));
        download(host, x, BYTES, a);
        assert_true(host[0] == (float)n && host[1] == 0.0f);
    }
    OK(cudaGraphLaunch(exec, a));
    OK(cudaGraphExecDestroy(exec)); // what was launched still runs
    OK(cudaStreamSynchronize(a));
    OK(cudaFreeHost(pinned));
}

static enum cudaStreamCaptureStatus status_of(cudaStream_t stream) {
    enum cudaStreamCaptureStatus status;
    OK(cudaStreamIsCapturing(stream, &status));
    return status;
}

// After a call that is forbidden the capture is invalid.
static void expect_invalid(void) {
    cudaGraph_t graph = (cudaGraph_t)(void *)&graph;
    const vector_args args = arguments(x, NULL, 1.0f);
    assert_int_equal(status_of(a), cudaStreamCaptureStatusInvalidated);
    assert_int_equal(launch(a, fill, 4, 256, 0, &args), cudaErrorStreamCaptureInvalidated);
    assert_int_equal(cudaStreamEndCapture(a, &graph), cudaErrorStreamCaptureInvalidated);
    assert_null(graph);
    assert_int_equal(status_of(a), cudaStreamCaptureStatusNone);
}

static void test_forbidden_calls(void **state) {
    (void)state;
    float host[COUNT] = {0.0f};
    void *pinned;
    for (int call = 0; call < 8; call++) {
        OK(cudaEventRecord(join_event, b));
        OK(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
        assert_int_equal(status_of(a), cudaStreamCaptureStatusActive);
        const cudaError_t error =
            call == 0   ? cudaStreamSynchronize(a)
            : call == 1 ? cudaStreamQuery(a)
            : call == 2 ? cudaDeviceSynchronize()
            : call == 3 ? cudaMemcpyAsync(x, host, BYTES, cudaMemcpyHostToDevice, a)
            : call == 4 ? cudaMemcpyAsync(host, x, BYTES, cudaMemcpyDeviceToHost, a)
            : call == 5 ? cudaEventQuery(join_event)
            : call == 6 ? cudaEventSynchronize(join_event)
                        : cudaHostAlloc(&pinned, BYTES, 0);
        assert_int_equal(error, cudaErrorStreamCaptureUnsupported);
        expect_invalid();
    }
}

// An event that was not recorded in the capture.
static void test_isolation(void **state) {
    (void)state;
    OK(cudaEventRecord(join_event, b));
    OK(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
    assert_int_equal(cudaStreamWaitEvent(a, join_event, 0), cudaErrorStreamCaptureIsolation);
    expect_invalid();
}

static void test_captured_event(void **state) {
    (void)state;
    cudaGraph_t graph;
    OK(cudaStreamBeginCapture(a, cudaStreamCaptureModeRelaxed));
    OK(cudaEventRecord(fork_event, a));
    assert_int_equal(cudaEventQuery(fork_event), cudaErrorCapturedEvent);
    assert_int_equal(cudaEventSynchronize(fork_event), cudaErrorCapturedEvent);
    OK(cudaStreamSynchronize(b)); // other streams are free
    OK(cudaStreamEndCapture(a, &graph));
    OK(cudaGraphDestroy(graph));
    OK(cudaEventRecord(fork_event, a));
    OK(cudaEventSynchronize(fork_event));
}

static void test_unjoined(void **state) {
    (void)state;
    cudaGraph_t graph;
    const vector_args args = arguments(x, NULL, 1.0f);
    OK(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
    OK(cudaEventRecord(fork_event, a));
    OK(cudaStreamWaitEvent(b, fork_event, 0));
    OK(launch(b, fill, 4, 256, 0, &args));
    assert_int_equal(cudaStreamEndCapture(b, &graph), cudaErrorStreamCaptureUnmatched);
    assert_int_equal(cudaStreamEndCapture(a, &graph), cudaErrorStreamCaptureUnjoined);
    assert_int_equal(status_of(b), cudaStreamCaptureStatusNone);
}

static void *end_elsewhere(void *user) {
    cudaGraph_t graph;
    *(cudaError_t *)user = cudaStreamEndCapture(a, &graph);
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    cudaGraph_t graph;
    pthread_t thread;
    cudaError_t error;
    assert_int_equal(cudaStreamEndCapture(a, &graph), cudaErrorIllegalState);
    OK(cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal));
    assert_int_equal(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal), cudaErrorIllegalState);
    assert_int_equal(pthread_create(&thread, NULL, end_elsewhere, &error), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(error, cudaErrorStreamCaptureWrongThread);
    OK(cudaStreamEndCapture(a, &graph));
    OK(cudaGraphDestroy(graph));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replay),    cmocka_unit_test(test_missing_dependency),
        cmocka_unit_test(test_copies),    cmocka_unit_test(test_forbidden_calls),
        cmocka_unit_test(test_isolation), cmocka_unit_test(test_captured_event),
        cmocka_unit_test(test_unjoined),  cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
