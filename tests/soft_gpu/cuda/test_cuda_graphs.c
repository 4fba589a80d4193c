// SPDX-License-Identifier: Apache-2.0
// CUDA graphs of work that comes again (kernels/cuda/cuda_batch.h): when there are any, what is in
// them, and that results are those of the same work without. Each case is a process of its own.
#include "kernels/device/stream.h"
#include "kernels/kernel.h"
#include "kernels/kernel_params.h"
#include "tests/soft_gpu/soft_gpu.h"
#include "tests/soft_gpu/soft_gpu_fixture.h"

// Prints what failed on stderr, which the parent expects to be empty, and ends the process.
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #condition, sr_error_message()); \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum {
    COUNT = 16,                    // floats of a piece
    PIECES = 1100,                 // of memory
    BYTES = COUNT * sizeof(float), // of a piece
    KEPT = 1024                    // graphs of a stream
};

typedef struct work {
    sr_device *device;
    sr_stream *stream;
    sr_event *event;
    sr_kernel_request request;
    sr_prepared add;
    sr_address memory;
} work;

static work begin_work(void) {
    const sr_expression_params params = {.count = COUNT};
    static float ones[PIECES * COUNT];
    work w = {0};
    for (int i = 0; i < PIECES * COUNT; i++)
        ones[i] = 1;
    CHECK(sr_device_open("cuda", &w.device) == SR_OK);
    CHECK(sr_stream_create(w.device, NULL, &w.stream) == SR_OK);
    CHECK(sr_event_create(w.device, &w.event) == SR_OK);
    sr_kernel_request_init(&w.request, sr_device_get_properties(w.device)->kind, SR_KERNEL_add,
                           SR_F32, &params, sizeof params);
    CHECK(sr_kernel_prepare(&w.request, &w.add) == SR_OK);
    CHECK(sr_device_alloc(w.device, sizeof ones, "a test", &w.memory) == SR_OK);
    CHECK(sr_device_upload(w.device, w.memory, ones, sizeof ones) == SR_OK);
    return w;
}

static void end_work(work *w) {
    sr_prepared_release(&w->add);
    sr_event_free(w->event);
    sr_stream_free(w->stream);
    sr_device_free(w->device, w->memory);
    sr_device_close(w->device);
}

static sr_address piece(const work *w, int i) {
    return sr_address_add(w->memory, (size_t)i * BYTES);
}

// Piece c = piece a + piece b.
static void put_as(const work *w, const sr_prepared *prepared, int a, int b, int c) {
    const sr_address p[] = {piece(w, a), piece(w, b), piece(w, c)};
    const sr_kernel_call call = {.prepared = prepared, .request = &w->request, .p = p};
    CHECK(sr_stream_launch(w->stream, &call) == SR_OK);
}

static void put(const work *w, int a, int b, int c) {
    put_as(w, &w->add, a, b, c);
}

static void expect(const work *w, int i, float value) {
    float found[COUNT];
    CHECK(sr_stream_wait(w->stream) == SR_OK);
    CHECK(sr_device_download(w->device, found, piece(w, i), BYTES) == SR_OK);
    for (int k = 0; k < COUNT; k++)
        CHECK(found[k] == value);
}

// Kernels launched one by one, and graphs, since the process began.
static void expect_launches(unsigned long alone, unsigned long graphs) {
    CHECK(soft_gpu_count("alone") == alone);
    CHECK(soft_gpu_count("graph") == graphs);
}

// Doubles piece 0 so many times.
static void double_it(const work *w, int times) {
    for (int i = 0; i < times; i++)
        put(w, 0, 0, 0);
    CHECK(sr_event_record(w->event, w->stream) == SR_OK);
}

// From the third time on work is a graph.
static void repeat(void) {
    work w = begin_work();
    double_it(&w, 4);
    double_it(&w, 4);
    expect_launches(8, 0);
    expect(&w, 0, 256);
    double_it(&w, 4);
    double_it(&w, 4);
    expect_launches(8, 2);
    expect(&w, 0, 65536);
    CHECK(soft_gpu_count("launch") == 16);
    CHECK(soft_gpu_count("overlap") == 12); // those of the graph when it was captured
    end_work(&w);
}

// Other work is launched, even if it begins or ends in the same way.
static void do_something_else(void) {
    work w = begin_work();
    for (int i = 0; i < 3; i++)
        double_it(&w, 4);
    double_it(&w, 5);
    put(&w, 0, 0, 0);
    put(&w, 0, 0, 0);
    put(&w, 0, 0, 0);
    put(&w, 0, 0, 1);
    CHECK(sr_stream_flush(w.stream) == SR_OK);
    expect_launches(8 + 5 + 4, 1);
    expect(&w, 0, 1048576);
    expect(&w, 1, 2097152);
    end_work(&w);
}

static void do_little(void) {
    work w = begin_work();
    for (int i = 0; i < 4; i++)
        double_it(&w, 3);
    expect_launches(12, 0);
    expect(&w, 0, 4096);
    end_work(&w);
}

// Runs of a kernel that share nothing they write are branches; what is behind waits for all.
static void branch(void) {
    work w = begin_work();
    for (int i = 0; i < 6; i++) {
        for (int lane = 0; lane < 4; lane++) // 1 to 4: 2, with an addend that all read
            put(&w, 0, 10 + lane, 1 + lane);
        put(&w, 1, 2, 5);
        put(&w, 3, 4, 6);
        put(&w, 5, 6, 7);
        expect(&w, 7, 8);
        CHECK(sr_stream_clear(w.stream, piece(&w, 1), 7 * BYTES) == SR_OK);
    }
    // Three of the first four; the two sums behind them are one branch more.
    CHECK(soft_gpu_count("branch") == 4);
    end_work(&w);
}

// Each reads what the one before has written, or writes what it has read or written.
static void chain(void) {
    work w = begin_work();
    for (int i = 0; i < 6; i++) {
        put(&w, 0, 0, 1); // 2
        put(&w, 1, 0, 2); // 3
        put(&w, 0, 0, 1); // 2
        put(&w, 1, 0, 1); // 3
        put(&w, 1, 2, 3); // 6
        put(&w, 0, 0, 3); // 2
        expect(&w, 3, 2);
        expect(&w, 2, 3);
    }
    CHECK(soft_gpu_count("graph") == 4);
    CHECK(soft_gpu_count("branch") == 0);
    end_work(&w);
}

static void copy_and_clear(void) {
    work w = begin_work();
    for (int i = 0; i < 4; i++) {
        put(&w, 0, 0, 1);
        CHECK(sr_stream_copy(w.stream, piece(&w, 2), piece(&w, 1), BYTES) == SR_OK);
        CHECK(sr_stream_clear(w.stream, piece(&w, 1), BYTES) == SR_OK);
        put(&w, 1, 2, 3);
        CHECK(sr_event_record(w.event, w.stream) == SR_OK);
        expect(&w, 1, 0);
        expect(&w, 3, 2);
    }
    expect_launches(4, 2);
    end_work(&w);
}

// What a stream waits for comes before what it holds back.
static void wait_in_front(void) {
    work w = begin_work();
    work other = w;
    CHECK(sr_stream_create(w.device, NULL, &other.stream) == SR_OK);
    CHECK(sr_event_create(w.device, &other.event) == SR_OK);
    for (int i = 0; i < 4; i++) {
        put(&other, 1, 0, 1);
        CHECK(sr_event_record(other.event, other.stream) == SR_OK);
        put(&w, 2, 0, 3);
        CHECK(sr_stream_wait_event(w.stream, other.event) == SR_OK);
        for (int k = 0; k < 3; k++)
            put(&w, 1, 3, 4);
        CHECK(sr_event_record(w.event, w.stream) == SR_OK);
        CHECK(sr_stream_wait_event(other.stream, w.event) == SR_OK);
        expect(&w, 4, (float)(i + 4));
    }
    CHECK(soft_gpu_count("graph") == 2);
    sr_stream_free(other.stream);
    sr_event_free(other.event);
    end_work(&w);
}

static work *waiting; // whose kernel waits in its launch

// What no graph can hold.
static sr_status launch_and_wait(const sr_kernel_launch *launch) {
    SR_TRY(waiting->add.launch(launch));
    return cudaStreamSynchronize(launch->stream) == cudaSuccess
               ? SR_OK
               : SR_FAIL(SR_E_DEVICE, "a wait in a launch");
}

static void refuse_to_be_captured(void) {
    work w = begin_work();
    sr_prepared waits = w.add;
    waiting = &w;
    waits.launch = launch_and_wait;
    waits.number = UINT64_C(1) << 32;
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 4; k++)
            put_as(&w, &waits, 0, 0, 0);
        CHECK(sr_event_record(w.event, w.stream) == SR_OK);
    }
    expect_launches(16, 0);
    expect(&w, 0, 65536);
    end_work(&w);
}

// A kernel that nobody can tell from another.
static void have_no_number(void) {
    work w = begin_work();
    sr_prepared unknown = w.add;
    unknown.number = 0;
    for (int i = 0; i < 4; i++) {
        put_as(&w, &unknown, 0, 0, 0);
        double_it(&w, 3);
    }
    expect_launches(16, 0);
    expect(&w, 0, 65536);
    end_work(&w);
}

// A kernel prepared again is another one, wherever its state is.
static void prepare_again(void) {
    work w = begin_work();
    for (int i = 0; i < 3; i++)
        double_it(&w, 4);
    expect_launches(8, 1);
    CHECK(sr_stream_wait(w.stream) == SR_OK);
    sr_prepared_release(&w.add);
    CHECK(sr_kernel_prepare(&w.request, &w.add) == SR_OK);
    double_it(&w, 4);
    expect_launches(12, 1);
    expect(&w, 0, 65536);
    end_work(&w);
}

static void repeat_without_graphs(void) {
    work w = begin_work();
    for (int i = 0; i < 4; i++)
        double_it(&w, 4);
    expect_launches(16, 0);
    expect(&w, 0, 65536);
    end_work(&w);
}

static void block(void) {
    (void)setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    repeat_without_graphs();
}

static void ask_for_none(void) {
    (void)setenv("SERRIED_CUDA_GRAPHS", "off", 1);
    repeat_without_graphs();
}

static void ask_for_no_overlap(void) {
    (void)setenv("SERRIED_CUDA_OVERLAP", "off", 1);
    work w = begin_work();
    double_it(&w, 4);
    CHECK(soft_gpu_count("launch") == 4);
    CHECK(soft_gpu_count("overlap") == 0);
    expect(&w, 0, 16);
    end_work(&w);
}

static void ask_for_chains(void) {
    (void)setenv("SERRIED_CUDA_GRAPHS", "chain", 1);
    work w = begin_work();
    for (int i = 0; i < 4; i++) {
        for (int lane = 0; lane < 4; lane++)
            put(&w, 0, 10 + lane, 1 + lane);
        CHECK(sr_event_record(w.event, w.stream) == SR_OK);
    }
    expect_launches(8, 2);
    CHECK(soft_gpu_count("branch") == 0);
    expect(&w, 4, 2);
    end_work(&w);
}

static void use_piece(const work *w, int i) {
    for (int k = 0; k < 4; k++)
        put(w, i, i, i);
    CHECK(sr_event_record(w->event, w->stream) == SR_OK);
}

// The graph that was used longest ago makes room.
static void use_many(void) {
    work w = begin_work();
    for (int i = 0; i <= KEPT; i++)
        for (int k = 0; k < 3; k++)
            use_piece(&w, i);
    CHECK(soft_gpu_count("graph") == KEPT + 1);
    use_piece(&w, 1);
    CHECK(soft_gpu_count("graph") == KEPT + 2);
    use_piece(&w, 0);
    CHECK(soft_gpu_count("graph") == KEPT + 2);
    use_piece(&w, 1);
    CHECK(soft_gpu_count("graph") == KEPT + 3);
    expect(&w, 0, 65536);
    expect(&w, KEPT, 4096);
    end_work(&w);
}

static void test_graphs(void **state) {
    (void)state;
    expect_clean(repeat);
    expect_clean(do_something_else);
    expect_clean(do_little);
    expect_clean(copy_and_clear);
    expect_clean(prepare_again);
    expect_clean(use_many);
}

static void test_order(void **state) {
    (void)state;
    expect_clean(branch);
    expect_clean(chain);
    expect_clean(ask_for_chains);
    expect_clean(wait_in_front);
}

static void test_no_graphs(void **state) {
    char text[1024];
    (void)state;
    assert_int_equal(run_child(refuse_to_be_captured, text, sizeof text), 0);
    assert_string_equal(text,
                        "software GPU: cudaStreamSynchronize is not permitted during a capture\n");
    expect_clean(have_no_number);
    expect_clean(block);
    expect_clean(ask_for_none);
    expect_clean(ask_for_no_overlap);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graphs),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_no_graphs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
