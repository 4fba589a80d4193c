// SPDX-License-Identifier: Apache-2.0
// The product's CUDA device on the software GPU: what errors say and which operators they name, and
// memory: limits, small allocations, what others have. Each case is a process of its own.
#include "tests/soft_gpu/soft_gpu_fixture.h"

#include "kernels/device/stream.h"
#include "kernels/kernel.h"
#include "kernels/kernel_params.h"

#define MIB ((size_t)1 << 20)

// Prints what failed on stderr, which the parent expects to be empty, and ends the process.
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #condition, sr_error_message()); \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

// The last message has this text.
#define SAYS(text) CHECK(strstr(sr_error_message(), text))

static sr_device *open_cuda(void) {
    sr_device *device = NULL;
    CHECK(sr_device_open("cuda", &device) == SR_OK);
    return device;
}

// ---- Launches ----

enum { COUNT = 1000 };

typedef struct work {
    sr_device *device;
    sr_stream *stream, *other;
    sr_kernel_request request;
    sr_prepared prepared;
    sr_address x;
} work;

static work begin_work(void) {
    const sr_expression_params params = {.count = COUNT};
    work w = {.device = open_cuda()};
    CHECK(sr_stream_create(w.device, NULL, &w.stream) == SR_OK);
    CHECK(sr_stream_create(w.device, NULL, &w.other) == SR_OK);
    sr_kernel_request_init(&w.request, sr_device_get_properties(w.device)->kind, SR_KERNEL_add,
                           SR_F32, &params, sizeof params);
    CHECK(sr_kernel_prepare(&w.request, &w.prepared) == SR_OK);
    CHECK(sr_device_alloc(w.device, COUNT * sizeof(float), "a test", &w.x) == SR_OK);
    return w;
}

static sr_status put(const work *w, sr_stream *stream, const char *what, int line) {
    const sr_address p[] = {w->x, w->x, w->x};
    const sr_kernel_call call = {.prepared = &w->prepared,
                                 .request = &w->request,
                                 .p = p,
                                 .site = {.what = what, .file = "net.c", .line = line}};
    return sr_stream_launch(stream, &call);
}

// A launch that is not held back.
static sr_status put_now(const work *w, sr_stream *stream, const char *what, int line) {
    SR_TRY(put(w, stream, what, line));
    return sr_stream_flush(stream);
}

static void put_three(const work *w, sr_stream *stream) {
    CHECK(put(w, stream, "first", 1) == SR_OK);
    CHECK(put(w, stream, "second", 2) == SR_OK);
    CHECK(put_now(w, stream, "third", 3) == SR_OK);
}

static void set_fault(const char *text) {
    (void)setenv("SOFT_GPU_FAULT", text, 1);
}

static void end_work(work *w) {
    sr_prepared_release(&w->prepared);
    sr_stream_free(w->stream);
    sr_stream_free(w->other);
    sr_device_close(w->device);
}

// ---- Errors ----

#define FAILED "unspecified launch failure (cudaErrorLaunchFailure)"

// Every later call says the same, whichever stream it is about; closing still works.
static void fail_later(void) {
    float host[4] = {0};
    set_fault("launch:2");
    work w = begin_work();
    put_three(&w, w.stream);
    CHECK(sr_stream_wait(w.stream) == SR_E_DEVICE);
    SAYS("cuda: one of 3 kernels, from net.c:1: first to net.c:3: third (CUDA_LAUNCH_BLOCKING=1 "
         "finds which one): " FAILED);
    CHECK(sr_stream_wait(w.other) == SR_E_DEVICE);
    SAYS("one of 3 kernels, from net.c:1: first");
    CHECK(sr_device_upload(w.device, w.x, host, sizeof host) == SR_E_DEVICE);
    SAYS("one of 3 kernels, from net.c:1: first");
    CHECK(put_now(&w, w.other, "innocent", 9) == SR_E_DEVICE);
    SAYS("one of 3 kernels, from net.c:1: first");
    CHECK(!strstr(sr_error_message(), "innocent"));
    CHECK(sr_device_alloc(w.device, COUNT, "more", &w.x) == SR_E_DEVICE);
    SAYS("one of 3 kernels, from net.c:1: first");
    end_work(&w);
}

// What somebody has waited for did not fail.
static void fail_after_waits(void) {
    sr_event *event;
    set_fault("launch:7");
    work w = begin_work();
    CHECK(sr_event_create(w.device, &event) == SR_OK);
    put_three(&w, w.stream);
    CHECK(sr_stream_wait(w.stream) == SR_OK);
    put_three(&w, w.stream);
    CHECK(sr_event_record(event, w.stream) == SR_OK);
    CHECK(sr_event_wait(event, 10) == SR_OK);
    CHECK(put(&w, w.stream, "fourth", 4) == SR_OK);
    CHECK(sr_stream_wait(w.stream) == SR_E_DEVICE);
    SAYS("cuda: net.c:4: fourth: " FAILED);
    sr_event_free(event);
    end_work(&w);
}

// An event that is not at the end says nothing of what is behind it.
static void fail_behind_an_event(void) {
    sr_event *event;
    set_fault("launch:3");
    work w = begin_work();
    CHECK(sr_event_create(w.device, &event) == SR_OK);
    CHECK(put(&w, w.stream, "first", 1) == SR_OK);
    CHECK(sr_event_record(event, w.stream) == SR_OK);
    CHECK(put_now(&w, w.stream, "second", 2) == SR_OK);
    CHECK(sr_event_wait(event, 10) == SR_OK);
    CHECK(put(&w, w.stream, "third", 3) == SR_OK);
    CHECK(sr_stream_wait(w.stream) == SR_E_DEVICE);
    SAYS("cuda: one of 3 kernels, from net.c:1: first to net.c:3: third");
    sr_event_free(event);
    end_work(&w);
}

static void fail_while_launches_block(void) {
    (void)setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    set_fault("launch:2");
    work w = begin_work();
    CHECK(put(&w, w.stream, "first", 1) == SR_OK);
    CHECK(put(&w, w.stream, "second", 2) == SR_E_DEVICE);
    SAYS("net.c:2: second: launching cuda_");
    SAYS(": " FAILED);
    CHECK(sr_stream_wait(w.stream) == SR_E_DEVICE);
    SAYS("cuda: " FAILED);
    end_work(&w);
}

static void fail_on_one_of_two_streams(void) {
    set_fault("launch:4");
    work w = begin_work();
    put_three(&w, w.stream);
    CHECK(put_now(&w, w.other, "aside", 4) == SR_OK);
    CHECK(sr_stream_wait(w.other) == SR_E_DEVICE);
    SAYS("one of 3 kernels, from net.c:1: first to net.c:3: third");
    SAYS("net.c:4: aside");
    SAYS(", or ");
    end_work(&w);
}

static void fail_without_kernels(void) {
    float host[4] = {0};
    set_fault("copy:1");
    work w = begin_work();
    CHECK(sr_device_upload(w.device, w.x, host, sizeof host) == SR_E_DEVICE);
    SAYS("cuda: uncorrectable ECC error encountered (cudaErrorECCUncorrectable)");
    end_work(&w);
}

static void lose_the_device(void) {
    set_fault("lost:3");
    work w = begin_work();
    CHECK(put(&w, w.stream, "first", 1) == SR_OK);
    CHECK(put_now(&w, w.stream, "second", 2) == SR_OK);
    CHECK(put_now(&w, w.stream, "third", 3) == SR_E_DEVICE);
    SAYS("cuda: one of 2 kernels, from net.c:1: first to net.c:2: second");
    SAYS("(cudaErrorDevicesUnavailable)");
    end_work(&w);
}

// A launch that is refused is named, and the device goes on.
static void refuse_a_launch(void) {
    set_fault("refuse:2");
    work w = begin_work();
    CHECK(put(&w, w.stream, "first", 1) == SR_OK);
    CHECK(put_now(&w, w.stream, "second", 2) == SR_E_DEVICE);
    SAYS("net.c:2: second: launching cuda_");
    SAYS("too many resources requested for launch (cudaErrorLaunchOutOfResources)");
    CHECK(put(&w, w.stream, "third", 3) == SR_OK);
    CHECK(sr_stream_wait(w.stream) == SR_OK);
    end_work(&w);
}

static void test_errors(void **state) {
    (void)state;
    expect_clean(fail_later);
    expect_clean(fail_after_waits);
    expect_clean(fail_behind_an_event);
    expect_clean(fail_while_launches_block);
    expect_clean(fail_on_one_of_two_streams);
    expect_clean(fail_without_kernels);
    expect_clean(lose_the_device);
    expect_clean(refuse_a_launch);
}

// ---- Memory ----

static uint64_t own(sr_device *device) {
    sr_device_memory memory;
    CHECK(sr_device_get_memory(device, &memory));
    return memory.own;
}

static void run_out(void) {
    sr_address a, range;
    (void)setenv("SOFT_GPU_MEMORY", "67108864", 1);
    sr_device *device = open_cuda();
    CHECK(sr_device_alloc(device, 60 * MIB, "sixty", &a) == SR_OK);
    CHECK(sr_device_alloc(device, 8 * MIB, "eight", &range) == SR_E_DEVICE_MEMORY);
    SAYS("eight: cuda has 4.0 MiB of memory left, 8.0 MiB more is needed; lower the batch");
    CHECK(sr_device_reserve(device, 64 * MIB, "values", &range) == SR_OK); // of addresses
    CHECK(sr_device_commit(device, range, 3 * MIB) == SR_OK);
    CHECK(sr_device_commit(device, range, 6 * MIB) == SR_E_DEVICE_MEMORY);
    SAYS("cuda has 1.0 MiB of memory left, 3.0 MiB more is needed");
    CHECK(sr_device_commit(device, range, 65 * MIB) == SR_E_MEMORY);
    SAYS("64.0 MiB of this machine that are reserved");
    sr_device_free(device, a);
    CHECK(sr_device_commit(device, range, 6 * MIB) == SR_OK); // still usable
    CHECK(own(device) == 6 * MIB);
    sr_device_close(device);
}

static void fail_an_allocation(void) {
    sr_address a;
    set_fault("memory:2");
    sr_device *device = open_cuda();
    CHECK(sr_device_alloc(device, MIB, "first", &a) == SR_OK);
    CHECK(sr_device_alloc(device, MIB, "second", &a) == SR_E_DEVICE_MEMORY);
    SAYS("second: cuda has 1023.0 MiB of memory left, 1.0 MiB more is needed");
    CHECK(sr_device_alloc(device, MIB, "third", &a) == SR_OK);
    CHECK(own(device) == 2 * MIB);
    sr_device_close(device);
}

static void share_with_others(void) {
    sr_address a;
    sr_device_memory memory;
    (void)setenv("SOFT_GPU_MEMORY", "67108864", 1);
    (void)setenv("SOFT_GPU_OTHERS", "50331648", 1);
    sr_device *device = open_cuda();
    CHECK(sr_device_alloc(device, 4 * MIB, "four", &a) == SR_OK);
    CHECK(sr_device_get_memory(device, &memory));
    CHECK(memory.total == 64 * MIB && memory.available == 12 * MIB && memory.own == 4 * MIB);
    CHECK(sr_device_alloc(device, 13 * MIB, "thirteen", &a) == SR_E_DEVICE_MEMORY);
    SAYS("cuda has 12.0 MiB of memory left");
    sr_device_close(device);
}

// ---- Small allocations ----

static void use_large_pages(void) {
    (void)setenv("SOFT_GPU_PAGE", "2097152", 1);
}

static void expect_bytes(sr_device *device, sr_address at, size_t bytes, int value) {
    unsigned char *host = malloc(bytes);
    CHECK(host && sr_device_download(device, host, at, bytes) == SR_OK);
    for (size_t i = 0; i < bytes; i++)
        CHECK(host[i] == value);
    free(host);
}

static void fill_with(sr_device *device, sr_address at, size_t bytes, int value) {
    void *host = malloc(bytes);
    CHECK(host);
    memset(host, value, bytes);
    CHECK(sr_device_upload(device, at, host, bytes) == SR_OK);
    free(host);
}

// A hundred buffers have two pieces of 2 MiB, not a hundred; each is zero and nobody else's.
static void share_pieces(void) {
    enum { BUFFERS = 100, BYTES = 30000 };
    sr_address at[BUFFERS];
    use_large_pages();
    sr_device *device = open_cuda();
    for (int i = 0; i < BUFFERS; i++) {
        CHECK(sr_device_alloc(device, BYTES, "small", &at[i]) == SR_OK);
        CHECK(at[i].at % 256 == 0);
        expect_bytes(device, at[i], BYTES, 0);
        fill_with(device, at[i], BYTES, i + 1);
    }
    CHECK(own(device) == 4 * MIB);
    for (int i = 0; i < BUFFERS; i++)
        expect_bytes(device, at[i], BYTES, i + 1);
    // Places are given out again, cleared, where there is enough room.
    sr_address longer;
    for (int i = 70; i < 80; i++)
        sr_device_free(device, at[i]);
    CHECK(sr_device_alloc(device, (size_t)10 * 32768, "longer", &longer) == SR_OK);
    CHECK(longer.at == at[70].at && own(device) == 4 * MIB);
    expect_bytes(device, longer, (size_t)10 * 32768, 0);
    expect_bytes(device, at[69], BYTES, 70);
    expect_bytes(device, at[80], BYTES, 81);
    sr_device_free(device, longer);
    for (int i = 0; i < BUFFERS; i++)
        if (i < 70 || i >= 80)
            sr_device_free(device, at[i]);
    CHECK(own(device) == 0);
    sr_device_close(device);
}

static void round_large_ones(void) {
    sr_address large, range;
    use_large_pages();
    sr_device *device = open_cuda();
    CHECK(sr_device_alloc(device, 3 * MIB, "large", &large) == SR_OK);
    CHECK(own(device) == 4 * MIB);
    // A range that grows in a place among others keeps what it has, and the new part is zero.
    CHECK(sr_device_reserve(device, MIB, "range", &range) == SR_OK);
    CHECK(sr_device_commit(device, range, 5000) == SR_OK);
    fill_with(device, range, 5000, 7);
    CHECK(sr_device_commit(device, range, 300000) == SR_OK);
    expect_bytes(device, range, 5000, 7);
    expect_bytes(device, sr_address_add(range, 8192), 300000 - 8192, 0);
    CHECK(own(device) == 6 * MIB);
    sr_device_free(device, range);
    sr_device_free(device, large);
    CHECK(own(device) == 0);
    CHECK(sr_device_alloc(device, 100, "left to the device", &range) == SR_OK);
    sr_device_close(device);
}

static void fail_a_piece(void) {
    sr_address a;
    use_large_pages();
    set_fault("memory:1");
    sr_device *device = open_cuda();
    CHECK(sr_device_alloc(device, 100, "small", &a) == SR_E_DEVICE_MEMORY);
    SAYS("small: cuda has 1.0 GiB of memory left, 2.0 MiB more is needed");
    CHECK(own(device) == 0 && sr_device_alloc(device, 100, "small", &a) == SR_OK);
    sr_device_close(device);
}

static void test_memory(void **state) {
    (void)state;
    expect_clean(run_out);
    expect_clean(fail_an_allocation);
    expect_clean(share_with_others);
    expect_clean(share_pieces);
    expect_clean(round_large_ones);
    expect_clean(fail_a_piece);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
