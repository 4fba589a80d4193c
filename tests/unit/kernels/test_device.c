// SPDX-License-Identifier: Apache-2.0
// Devices and streams, each test on every device: memory, ranges that grow in place, order of work,
// failures that persist until the wait, events, kernels; and that "cpu-async" is strict: the host
// cannot access its memory, accesses outside of it are refused, a missing wait is a wrong result.
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/base/clock.h"
#include "kernels/base/memory.h"
#include "kernels/device/cpu_stream.h"
#include "kernels/device/device_internal.h"
#include "kernels/kernel.h"
#include "kernels/kernel_params.h"
#include "tests/unit/support/device_support.h"

static const char *const names[] = {"cpu", "cpu-async"};

static sr_device *open_device(int which) {
    sr_device *device;
    assert_ok(sr_device_open(names[which], &device));
    assert_string_equal(names[which], sr_device_name(device));
    return device;
}

static sr_stream *open_stream(sr_device *device) {
    static const sr_stream_options two = {.threads = 2};
    sr_stream *stream;
    assert_ok(sr_stream_create(device, &two, &stream));
    assert_int_equal(2, sr_cpu_stream_threads(stream));
    assert_ptr_equal(device, sr_stream_device(stream));
    return stream;
}

static void test_names(void **state) {
    (void)state;
    sr_device *device = NULL;
    assert_status(SR_E_USAGE, sr_device_open("cpu-asinc", &device));
    assert_null(device);
    assert_message("unknown device 'cpu-asinc'");
    assert_message("did you mean 'cpu-async'?");
    assert_status(SR_E_USAGE, sr_device_open("cpu:1", &device));
    assert_message("this machine has 1 device 'cpu', from number 0 on");
    assert_status(SR_E_USAGE, sr_device_open("cpu:one", &device));
    assert_message("the number of a device");
    assert_int_equal(0, setenv("SERRIED_TEST_DEVICE", "cpu-async", 1));
    assert_ok(sr_device_open(NULL, &device));
    assert_string_equal("cpu-async", sr_device_name(device));
    assert_false(sr_device_get_properties(device)->unified);
    sr_device_close(device);
    assert_int_equal(0, unsetenv("SERRIED_TEST_DEVICE"));
    assert_ok(sr_device_open("cpu:0", &device));
    const sr_device_properties *p = sr_device_get_properties(device);
    assert_string_equal("cpu:0", sr_device_name(device));
    assert_true(p->unified && !p->asynchronous && p->kind == SR_DEVICE_CPU);
    assert_true(p->memory > 0 && p->model[0] && p->memory_owner[0]);
    int count = 0;
    assert_ok(sr_device_count("cpu", &count));
    assert_true(count == 1 && p->count == 1 && p->ordinal == 0);
    sr_device_close(device);
    sr_device_close(NULL);
}

static sr_status add_kind(const sr_device_ops *ops) {
    const sr_device_ops *const list[] = {ops, NULL};
    return sr_device_add_kinds(list, "module.so");
}

// What a module may add: tables of this build's interface, with a new name.
static void test_kinds_of_modules(void **state) {
    static const sr_device_ops taken = {
        .struct_size = sizeof taken, .abi = SR_DEVICE_ABI, .name = "cpu", .help = "a test"};
    static const sr_device_ops silent = {
        .struct_size = sizeof silent, .abi = SR_DEVICE_ABI, .name = "silent", .help = "a test"};
    static const sr_device_ops old = {
        .struct_size = sizeof old, .abi = SR_DEVICE_ABI - 1, .name = "older", .help = "a test"};
    sr_device *device;
    (void)state;
    assert_status(SR_E_USAGE, add_kind(&taken));
    assert_message("module.so");
    assert_status(SR_E_UNSUPPORTED, add_kind(&old));
    assert_status(SR_E_UNSUPPORTED, add_kind(&silent));
    assert_message("does not say what it is");
    static sr_device_ops other;
    other = sr_device_cpu;
    other.name = "cpu-of-a-module";
    assert_ok(add_kind(&other));
    assert_ok(sr_device_open("cpu-of-a-module", &device));
    sr_device_close(device);
}

static void expect_bytes(sr_device *device, sr_address memory, size_t bytes, int value) {
    void *mapped;
    assert_ok(sr_device_map(device, memory, bytes, &mapped));
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(value, ((unsigned char *)mapped)[i]);
    assert_ok(sr_device_unmap(device, memory, bytes, mapped, false));
}

static void expect_repeats(sr_device *device, sr_address memory) {
    char repeated[12] = "";
    assert_ok(sr_device_upload(device, memory, "123", 3));
    assert_ok(sr_device_repeat(device, memory, 3, 11));
    assert_ok(sr_device_download(device, repeated, memory, sizeof repeated));
    assert_memory_equal("12312312312", repeated, sizeof repeated);
}

static void test_memory(void **state) {
    (void)state;
    for (int which = 0; which < 2; which++) {
        sr_device *device = open_device(which);
        static const size_t sizes[] = {0, 1, 4096, 100000};
        sr_address memory[4], much = sr_address_none();
        for (int i = 0; i < 4; i++) {
            assert_ok(sr_device_alloc(device, sizes[i], "a test", &memory[i]));
            assert_int_equal(0, memory[i].at % 64);
            expect_bytes(device, memory[i], sizes[i], 0);
            assert_ok(sr_device_upload(device, memory[i], "1234567890", i ? 1 : 0));
        }
        const sr_address inside = sr_address_add(memory[3], 777);
        char text[4] = "";
        assert_ok(sr_device_upload(device, inside, "abc", 4));
        assert_ok(sr_device_copy(device, memory[2], inside, 4));
        assert_ok(sr_device_download(device, text, memory[2], 4));
        assert_string_equal("abc", text);
        expect_repeats(device, memory[2]);
        sr_device_free(device, memory[1]);
        memset(text, 0, sizeof text);
        assert_ok(sr_device_download(device, text, inside, 4)); // the others remain
        assert_string_equal("abc", text);
        sr_device_free(device, sr_address_none());
        assert_status(SR_E_MEMORY, sr_device_alloc(device, (size_t)1 << 60, "a giant", &much));
        assert_message("a giant: ");
        sr_device_close(device); // frees the rest
    }
}

// A byte here and there of memory that is sparse makes a page resident each, not a huge one.
static void test_sparse_memory(void **state) {
    (void)state;
    enum { TOUCHED = 4 };
    const size_t bytes = (size_t)TOUCHED << 22, apart = bytes / TOUCHED, page = 4096;
    for (int which = 0; which < 2; which++) {
        sr_device *device = open_device(which);
        sr_address memory;
        void *mapped;
        unsigned char resident[((size_t)TOUCHED << 22) / 4096];
        assert_ok(sr_device_alloc_sparse(device, bytes, "a test", &memory));
        for (size_t i = 0; i < TOUCHED; i++)
            assert_ok(sr_device_upload(device, sr_address_add(memory, i * apart), "x", 1));
        expect_bytes(device, sr_address_add(memory, 1), page, 0);
        assert_ok(sr_device_map(device, memory, bytes, &mapped));
        if (which == 0) {
            size_t count = 0;
            assert_int_equal(0, mincore(mapped, bytes, resident));
            for (size_t i = 0; i < sizeof resident; i++)
                count += resident[i] & 1;
            assert_in_range(count, TOUCHED, TOUCHED + 1);
        }
        assert_ok(sr_device_unmap(device, memory, bytes, mapped, false));
        sr_device_close(device);
    }
}

// A map is the memory itself or a copy; either way the device has what was written.
static void test_host_access(void **state) {
    (void)state;
    for (int which = 0; which < 2; which++) {
        sr_device *device = open_device(which);
        sr_address memory;
        void *mapped;
        char text[8] = "";
        assert_ok(sr_device_alloc(device, 100, "a test", &memory));
        assert_ok(sr_device_map(device, memory, 8, &mapped));
        memcpy(mapped, "serried", 8);
        assert_ok(sr_device_unmap(device, memory, 8, mapped, true));
        assert_ok(sr_device_download(device, text, memory, 8));
        assert_string_equal("serried", text);
        assert_int_equal(which == 0, !sr_address_is_none(sr_device_host_address(device, text)));
        assert_ok(sr_device_register_host(device, text, sizeof text));
        sr_device_unregister_host(device, text);
        sr_device_close(device);
    }
}

static void test_a_range_grows_in_place(void **state) {
    (void)state;
    for (int which = 0; which < 2; which++) {
        sr_device *device = open_device(which);
        const size_t limit = 1 << 20;
        unsigned char sevens[5000];
        sr_address range;
        memset(sevens, 7, sizeof sevens);
        assert_ok(sr_device_reserve(device, limit, "range of a test", &range));
        assert_ok(sr_device_commit(device, range, sizeof sevens));
        assert_ok(sr_device_upload(device, range, sevens, sizeof sevens));
        assert_ok(sr_device_commit(device, range, 100)); // never shrinks
        assert_ok(sr_device_commit(device, range, limit));
        expect_bytes(device, range, sizeof sevens, 7);
        expect_bytes(device, sr_address_add(range, 8192), limit - 8192, 0);
        assert_status(SR_E_MEMORY, sr_device_commit(device, range, limit + 1));
        assert_message("over the");
        sr_device_free(device, range);
        sr_device_close(device);
    }
}

// Whether reading a byte that is 0 faults; a child tries it, so that the test continues.
static bool faults(const void *at) {
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit no_core = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &no_core);
        (void)signal(SIGSEGV, SIG_DFL);
        (void)signal(SIGBUS, SIG_DFL);
        _exit(atomic_load((const atomic_uchar *)at));
    }
    int status = 0;
    assert_int_equal(child, waitpid(child, &status, 0));
    // A sanitizer turns the signal into its own exit code.
    return WIFSIGNALED(status) ? WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGBUS
                               : WEXITSTATUS(status) != 0;
}

static void test_the_host_cannot_read_cpu_async(void **state) {
    (void)state;
    sr_device *device = open_device(1);
    sr_address memory;
    assert_ok(sr_device_alloc(device, 64, "a test", &memory));
    assert_true(faults((const void *)memory.at));
    sr_device_close(device);
}

// Ranges lie side by side: kernels find no other one behind the end, nor where one was freed.
static void test_kernels_fault_outside_of_cpu_async(void **state) {
    enum { RANGES = 6, BYTES = 8192 };
    const unsigned char *seen[RANGES];
    sr_address memory[RANGES];
    void *at = NULL;
    (void)state;
    sr_device *device = open_device(1);
    for (int i = 0; i < RANGES; i++) {
        assert_ok(sr_device_alloc(device, BYTES, "a test", &memory[i]));
        assert_ok(sr_cpu_pointer(device, memory[i], &at));
        seen[i] = at;
    }
    for (int i = 0; i < RANGES; i++) {
        assert_false(faults(seen[i] + BYTES - 1));
        assert_true(faults(seen[i] + BYTES));
    }
    sr_device_free(device, memory[2]);
    assert_true(faults(seen[2]));
    assert_ok(sr_device_alloc(device, BYTES, "a test", &memory[2]));
    assert_true(faults(seen[2]));
    sr_device_close(device);
}

// cpu-async takes no address of the host, nor one that was freed.
static void test_cpu_async_refuses_foreign_addresses(void **state) {
    (void)state;
    sr_device *device = open_device(1);
    char text[8] = "";
    sr_address memory;
    assert_ok(sr_device_alloc(device, 64, "a test", &memory));
    assert_status(SR_E_ARGUMENT, sr_device_copy(device, memory, (sr_address){(uintptr_t)text}, 8));
    assert_message("is not memory of device cpu-async");
    sr_device_free(device, memory);
    assert_status(SR_E_ARGUMENT, sr_device_upload(device, memory, text, 8));
    sr_device_close(device);
}

static void test_cpu_async_refuses_what_is_beyond_an_allocation(void **state) {
    (void)state;
    sr_device *device = open_device(1);
    sr_stream *stream = open_stream(device);
    char text[1001] = "";
    sr_address memory, range;
    assert_ok(sr_device_alloc(device, 1000, "a test", &memory));
    assert_ok(sr_device_upload(device, memory, text, 1000));
    assert_status(SR_E_ARGUMENT, sr_device_upload(device, memory, text, 1001));
    assert_message("1001 bytes at byte 0 of memory of 1000 bytes on device cpu-async");
    const sr_address inside = sr_address_add(memory, 600);
    assert_ok(sr_stream_clear(stream, inside, 400));
    assert_status(SR_E_ARGUMENT, sr_stream_clear(stream, inside, 401));
    assert_status(SR_E_ARGUMENT, sr_stream_copy(stream, memory, inside, 500));
    assert_status(SR_E_ARGUMENT, sr_stream_copy(stream, inside, memory, 500));
    assert_status(SR_E_ARGUMENT, sr_stream_download(stream, text, inside, 500));
    assert_ok(sr_device_reserve(device, 1 << 20, "range of a test", &range));
    assert_ok(sr_device_commit(device, range, 5000));
    assert_status(SR_E_ARGUMENT, sr_stream_clear(stream, range, 5001));
    assert_ok(sr_device_commit(device, range, 5001));
    assert_ok(sr_stream_clear(stream, range, 5001));
    assert_ok(sr_stream_wait(stream));
    sr_stream_free(stream);
    sr_device_close(device);
}

// So that what still uses one does not find other memory there.
static void test_cpu_async_does_not_use_freed_addresses_again(void **state) {
    (void)state;
    sr_device *device = open_device(1);
    sr_address freed[40];
    for (int i = 0; i < 40; i++) {
        assert_ok(sr_device_alloc(device, 5000, "a test", &freed[i]));
        for (int k = 0; k < i; k++)
            assert_false(sr_address_equal(freed[i], freed[k]));
        sr_device_free(device, freed[i]);
    }
    for (int i = 0; i < 100; i++) { // more than are kept
        sr_address memory;
        assert_ok(sr_device_alloc(device, 64, "a test", &memory));
        sr_device_free(device, memory);
    }
    sr_device_close(device);
}

// ---- Streams ----

typedef struct log {
    int order[2048], count;
} log_of_calls;

typedef struct stream_call {
    log_of_calls *log;
    int number;
} stream_call;

static sr_status note(void *user) {
    stream_call *c = user;
    c->log->order[c->log->count++] = c->number;
    return SR_OK;
}

static sr_status fail_now(void *user) {
    stream_call *c = user;
    return SR_FAIL(SR_E_DATA, "call %d went wrong", c->number);
}

// More than the queue's capacity: the caller waits for space, nothing is lost or reordered.
static void test_work_runs_in_order(void **state) {
    enum { CALLS = 2000 };
    static log_of_calls log;
    static stream_call calls[CALLS];
    (void)state;
    for (int which = 0; which < 2; which++) {
        sr_device *device = open_device(which);
        sr_stream *stream = open_stream(device);
        log.count = 0;
        for (int i = 0; i < CALLS; i++) {
            calls[i] = (stream_call){&log, i};
            assert_ok(sr_cpu_stream_call(stream, note, &calls[i]));
        }
        assert_ok(sr_stream_wait(stream));
        assert_int_equal(CALLS, log.count);
        for (int i = 0; i < CALLS; i++)
            assert_int_equal(i, log.order[i]);
        sr_stream_free(stream);
        sr_device_close(device);
    }
}

// Two calls fail; what is behind the first of them is skipped.
static void put_failing_work(sr_stream *stream, stream_call calls[4], sr_address memory) {
    assert_ok(sr_cpu_stream_call(stream, note, &calls[0]));
    assert_ok(sr_cpu_stream_call(stream, fail_now, &calls[1]));
    assert_ok(sr_cpu_stream_call(stream, fail_now, &calls[2]));
    assert_ok(sr_cpu_stream_call(stream, note, &calls[3]));
    assert_ok(sr_stream_upload(stream, memory, "skipped", 8));
}

static void failure_persists(sr_device *device, sr_stream *stream) {
    static log_of_calls log;
    stream_call calls[4] = {{&log, 1}, {&log, 2}, {&log, 3}, {&log, 4}};
    sr_address memory;
    sr_event *behind;
    log.count = 0;
    assert_ok(sr_device_alloc(device, 64, "a test", &memory));
    assert_ok(sr_event_create(device, &behind));
    put_failing_work(stream, calls, memory);
    assert_ok(sr_event_record(behind, stream));
    assert_ok(sr_event_wait(behind, 60)); // who waits for a failed stream is not left hanging
    assert_status(SR_E_DATA, sr_stream_wait(stream));
    assert_string_equal("call 2 went wrong", sr_error_message());
    assert_int_equal(1, log.count);
    expect_bytes(device, memory, 8, 0);
    assert_ok(sr_cpu_stream_call(stream, note, &calls[3])); // the stream works again
    assert_ok(sr_stream_wait(stream));
    assert_int_equal(2, log.count);
    sr_event_free(behind);
}

static void test_a_failure_persists_until_the_wait(void **state) {
    (void)state;
    for (int which = 0; which < 2; which++) {
        sr_device *device = open_device(which);
        sr_stream *stream = open_stream(device);
        failure_persists(device, stream);
        sr_stream_free(stream);
        sr_device_close(device);
    }
}

static sr_status hold(void *user) {
    atomic_bool *go = user;
    while (!atomic_load(go))
        sr_clock_sleep_ns(SR_NS_PER_MS / 10);
    return SR_OK;
}

// "serried" goes up, to the next eight bytes and down; where it went up, zeros are left.
static void put_copies(sr_stream *stream, sr_address memory, char text[8]) {
    assert_ok(sr_stream_upload(stream, memory, "serried", 8));
    assert_ok(sr_stream_copy(stream, sr_address_add(memory, 8), memory, 8));
    assert_ok(sr_stream_clear(stream, memory, 8));
    assert_ok(sr_stream_download(stream, text, sr_address_add(memory, 8), 8));
}

static void copies_and_events(sr_device *device, sr_stream *stream, sr_event *before,
                              sr_event *after) {
    atomic_bool go = false;
    sr_address memory;
    char text[8] = "";
    assert_ok(sr_device_alloc(device, 64, "a test", &memory));
    assert_true(sr_event_done(before)); // never recorded
    assert_ok(sr_event_record(before, stream));
    assert_ok(sr_cpu_stream_call(stream, hold, &go));
    put_copies(stream, memory, text);
    assert_ok(sr_event_record(after, stream));
    assert_ok(sr_event_wait(before, 60));
    assert_false(sr_event_done(after));
    assert_status(SR_E_TIMEOUT, sr_event_wait(after, 0.02));
    atomic_store(&go, true);
    assert_ok(sr_event_wait(after, 60));
    assert_true(sr_event_elapsed_ns(before, after) > 0);
    assert_string_equal("serried", text);
    expect_bytes(device, memory, 8, 0);
    assert_ok(sr_stream_wait(stream));
}

static void test_copies_and_events(void **state) {
    (void)state;
    for (int which = 0; which < 2; which++) {
        sr_device *device = open_device(which);
        sr_stream *stream = open_stream(device);
        sr_event *before, *after;
        assert_ok(sr_event_create(device, &before));
        assert_ok(sr_event_create(device, &after));
        copies_and_events(device, stream, before, after);
        sr_event_free(before);
        sr_event_free(after);
        sr_stream_free(stream);
        sr_device_close(device);
    }
}

// A stream waits for the mark that an event has when the wait is put on it, not for a later one.
static void stream_waits(sr_stream *first, sr_stream *second, sr_event *event) {
    static log_of_calls log;
    stream_call one = {&log, 1}, two = {&log, 2};
    atomic_bool go = false, later = false;
    log.count = 0;
    assert_ok(sr_cpu_stream_call(first, hold, &go));
    assert_ok(sr_cpu_stream_call(first, note, &one));
    assert_ok(sr_event_record(event, first));
    assert_ok(sr_stream_wait_event(second, event));
    assert_ok(sr_cpu_stream_call(second, note, &two));
    assert_ok(sr_cpu_stream_call(first, hold, &later));
    assert_ok(sr_event_record(event, first));
    atomic_store(&go, true);
    assert_ok(sr_stream_wait(second));
    assert_false(sr_event_done(event));
    assert_true(log.count == 2 && log.order[0] == 1);
    atomic_store(&later, true);
    assert_ok(sr_stream_wait(first));
    assert_true(sr_event_done(event));
}

static void test_a_stream_waits_for_an_event(void **state) {
    (void)state;
    for (int which = 0; which < 2; which++) {
        sr_device *device = open_device(which);
        sr_stream *first = open_stream(device), *second = open_stream(device);
        sr_event *event;
        assert_ok(sr_event_create(device, &event));
        stream_waits(first, second, event);
        sr_stream_free(first);
        sr_stream_free(second);
        sr_event_free(event);
        sr_device_close(device);
    }
}

// The second stream copies what the first one uploads; returns whether it was too early.
static bool reads_too_early(sr_stream *first, sr_stream *second, sr_event *event, bool waits) {
    static const int old = 1, new = 2;
    sr_device *device = sr_stream_device(first);
    const sr_address x = device_copy(device, &old, sizeof old), y = device_copy(device, &old, 4);
    int got = 0;
    assert_ok(sr_stream_upload(first, x, &new, sizeof new));
    assert_ok(sr_event_record(event, first));
    if (waits)
        assert_ok(sr_stream_wait_event(second, event));
    assert_ok(sr_stream_copy(second, y, x, sizeof new));
    assert_ok(sr_stream_download(second, &got, y, sizeof got));
    assert_ok(sr_stream_wait(second));
    assert_ok(sr_stream_wait(first));
    sr_device_free(device, x);
    sr_device_free(device, y);
    return got != new;
}

// The second stream writes where the first one reads; returns whether it was too early.
static bool writes_too_early(sr_stream *first, sr_stream *second, sr_event *event, bool waits) {
    static const int old = 1, new = 2;
    sr_device *device = sr_stream_device(first);
    const sr_address x = device_copy(device, &old, sizeof old);
    int got = 0;
    assert_ok(sr_stream_download(first, &got, x, sizeof got));
    assert_ok(sr_event_record(event, first));
    if (waits)
        assert_ok(sr_stream_wait_event(second, event));
    assert_ok(sr_stream_upload(second, x, &new, sizeof new));
    assert_ok(sr_stream_wait(second));
    assert_ok(sr_stream_wait(first));
    sr_device_free(device, x);
    return got != old;
}

// Of so many reads and as many writes, how many are too early.
static void count_too_early(int tries, bool waits, int *reads, int *writes) {
    sr_device *device = open_device(1);
    sr_stream *first = open_stream(device), *second = open_stream(device);
    sr_event *event;
    *reads = *writes = 0;
    assert_ok(sr_event_create(device, &event));
    for (int i = 0; i < tries; i++) {
        *reads += reads_too_early(first, second, event, waits);
        *writes += writes_too_early(first, second, event, waits);
    }
    sr_stream_free(first);
    sr_stream_free(second);
    sr_event_free(event);
    sr_device_close(device);
}

static void test_a_wait_keeps_the_order(void **state) {
    int reads, writes;
    (void)state;
    count_too_early(200, true, &reads, &writes);
    assert_true(reads == 0 && writes == 0);
}

static void test_cpu_async_shows_a_missing_wait(void **state) {
    int reads, writes;
    (void)state;
#ifdef __SANITIZE_THREAD__
    test_skip("ThreadSanitizer reports the race, which is meant");
#endif
    count_too_early(200, false, &reads, &writes);
    print_message("of 200, %d read and %d written too early\n", reads, writes);
    assert_true(reads >= 10 && writes >= 10);
}

// A direct stream of the CPU has run its work when a call returns; cpu-async has none.
static void test_direct_streams(void **state) {
    static const sr_stream_options direct = {.direct = true};
    (void)state;
    for (int which = 0; which < 2; which++) {
        sr_device *device = open_device(which);
        sr_stream *stream;
        sr_event *event;
        sr_address memory;
        char text[8] = "";
        assert_ok(sr_stream_create(device, &direct, &stream));
        assert_ok(sr_event_create(device, &event));
        assert_ok(sr_device_alloc(device, 64, "a test", &memory));
        assert_ok(sr_stream_upload(stream, memory, "serried", 8));
        assert_ok(sr_stream_download(stream, text, memory, 8));
        assert_ok(sr_event_record(event, stream));
        if (which == 0) {
            assert_true(sr_event_done(event));
            assert_string_equal("serried", text);
        }
        assert_ok(sr_stream_wait(stream));
        assert_string_equal("serried", text);
        sr_event_free(event);
        sr_stream_free(stream);
        sr_device_close(device);
    }
}

// ---- Kernels ----

static void prepare_add(int64_t count, sr_kernel_request *request, sr_prepared *prepared) {
    const sr_expression_params params = {.count = count};
    sr_kernel_request_init(request, SR_DEVICE_CPU, SR_KERNEL_add, SR_F32, &params, sizeof params);
    assert_ok(sr_kernel_prepare(request, prepared));
}

static void test_launches(void **state) {
    enum { COUNT = 200000 };
    static float a[COUNT], b[COUNT], sum[COUNT];
    static const sr_stream_options team = {.threads = 2}, direct = {.direct = true};
    (void)state;
    for (int i = 0; i < COUNT; i++) {
        a[i] = (float)i;
        b[i] = 0.5f;
    }
    for (int which = 0; which < 4; which++) {
        sr_device *device = open_device(which % 2);
        const sr_address x = device_copy(device, a, sizeof a), y = device_copy(device, b, sizeof b);
        const sr_address p[] = {x, y, x};
        sr_kernel_request request;
        sr_prepared prepared;
        sr_stream *stream;
        assert_ok(sr_stream_create(device, which < 2 ? &team : &direct, &stream));
        prepare_add(COUNT, &request, &prepared);
        const sr_kernel_call call = {.prepared = &prepared, .request = &request, .p = p};
        assert_ok(sr_stream_launch(stream, &call));
        assert_ok(sr_stream_launch(stream, &call));
        assert_ok(sr_stream_download(stream, sum, x, sizeof sum));
        assert_ok(sr_stream_wait(stream));
        for (int i = 0; i < COUNT; i++)
            assert_true(sum[i] == (float)i + 1);
        sr_stream_free(stream);
        sr_prepared_release(&prepared);
        sr_device_close(device);
    }
}

// Arguments that the kernel would access beyond their end, and one that is the host's.
static void test_cpu_async_checks_arguments(void **state) {
    static float host[100];
    (void)state;
    sr_device *device = open_device(1);
    sr_stream *stream = open_stream(device);
    const sr_address x = device_copy(device, host, sizeof host);
    const sr_address p[] = {x, sr_address_add(x, sizeof(float)), x};
    const sr_address q[] = {x, x, {(uintptr_t)host}};
    sr_kernel_request request;
    sr_prepared prepared;
    prepare_add(100, &request, &prepared);
    sr_kernel_call call = {.prepared = &prepared, .request = &request, .p = p};
    assert_status(SR_E_ARGUMENT, sr_stream_launch(stream, &call));
    assert_message("argument 1 of kernel add: 400 bytes at byte 4 of memory of 400 bytes");
    call.p = q;
    assert_status(SR_E_ARGUMENT, sr_stream_launch(stream, &call));
    assert_message("argument 2 of kernel add");
    assert_message("is not memory of device cpu-async");
    assert_ok(sr_stream_wait(stream));
    sr_prepared_release(&prepared);
    sr_stream_free(stream);
    sr_device_close(device);
}

static sr_status fail_block(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)args;
    (void)worker;
    return block == 5 ? SR_FAIL(SR_E_DATA, "block 5 went wrong") : SR_OK;
}

// The failure of a kernel names the operator and the line of model code.
static void test_a_failing_launch_is_named(void **state) {
    const sr_prepared prepared = {.stages = 1, .stage = {{.run = fail_block, .blocks = 9}}};
    const sr_kernel_request request = {.args = 0};
    const sr_kernel_call call = {.prepared = &prepared,
                                 .request = &request,
                                 .site = {.what = "conv2d", .file = "model.c", .line = 12}};
    (void)state;
    for (int which = 0; which < 2; which++) {
        sr_device *device = open_device(which);
        sr_stream *stream = open_stream(device);
        assert_ok(sr_stream_launch(stream, &call));
        assert_status(SR_E_DATA, sr_stream_wait(stream));
        assert_string_equal("model.c:12: conv2d: block 5 went wrong", sr_error_message());
        sr_stream_free(stream);
        sr_device_close(device);
    }
}

typedef struct team {
    sr_stream *stream;
    atomic_int blocks[100];
    atomic_int wrong;
} team;

static void count_block(void *user, int64_t block, int worker) {
    team *t = user;
    atomic_fetch_add(&t->blocks[block], 1);
    if (worker != block % 2)
        atomic_fetch_add(&t->wrong, 1);
}

static sr_status run_team(void *user) {
    team *t = user;
    sr_cpu_team_run(t->stream, 100, count_block, t);
    return SR_OK;
}

// Each block runs once, on a fixed worker; the threads of a stream block signals.
static void test_a_team(void **state) {
    (void)state;
    for (int which = 0; which < 2; which++) {
        sr_device *device = open_device(which);
        team t = {.stream = open_stream(device)};
        assert_ok(sr_cpu_stream_call(t.stream, run_team, &t));
        assert_ok(sr_stream_wait(t.stream));
        for (int i = 0; i < 100; i++)
            assert_int_equal(1, atomic_load(&t.blocks[i]));
        assert_int_equal(0, atomic_load(&t.wrong));
        sr_stream_free(t.stream);
        sr_device_close(device);
    }
}

static sr_status read_mask(void *user) {
    (void)pthread_sigmask(SIG_SETMASK, NULL, user);
    return SR_OK;
}

static void test_signals_are_not_a_streams_business(void **state) {
    (void)state;
    sr_device *device = open_device(0);
    sr_stream *stream = open_stream(device);
    sigset_t mask;
    (void)sigemptyset(&mask);
    assert_ok(sr_cpu_stream_call(stream, read_mask, &mask));
    assert_ok(sr_stream_wait(stream));
    assert_int_equal(1, sigismember(&mask, SIGTERM));
    assert_int_equal(1, sigismember(&mask, SIGINT));
    sr_stream_free(stream);
    sr_device_close(device);
}

static void test_failed_allocations_leak_nothing(void **state) {
    (void)state;
    const uint64_t before = sr_memory_get_stats().live_blocks;
    for (uint64_t n = 1; n < 12; n++) {
        sr_device *device = NULL;
        sr_stream *stream = NULL;
        sr_address memory = sr_address_none();
        static const sr_stream_options two = {.threads = 2};
        sr_memory_fail_nth(n);
        sr_status status = sr_device_open("cpu", &device);
        if (status == SR_OK)
            status = sr_device_alloc(device, 100, "a test", &memory);
        if (status == SR_OK)
            status = sr_stream_create(device, &two, &stream);
        sr_memory_fail_nth(0);
        assert_true(status == SR_OK || status == SR_E_MEMORY);
        sr_stream_free(stream);
        sr_device_close(device);
        assert_int_equal(before, sr_memory_get_stats().live_blocks);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_sparse_memory),
        cmocka_unit_test(test_kinds_of_modules),
        cmocka_unit_test(test_host_access),
        cmocka_unit_test(test_a_range_grows_in_place),
        cmocka_unit_test(test_the_host_cannot_read_cpu_async),
        cmocka_unit_test(test_kernels_fault_outside_of_cpu_async),
        cmocka_unit_test(test_cpu_async_refuses_foreign_addresses),
        cmocka_unit_test(test_cpu_async_refuses_what_is_beyond_an_allocation),
        cmocka_unit_test(test_cpu_async_does_not_use_freed_addresses_again),
        cmocka_unit_test(test_work_runs_in_order),
        cmocka_unit_test(test_a_failure_persists_until_the_wait),
        cmocka_unit_test(test_copies_and_events),
        cmocka_unit_test(test_a_stream_waits_for_an_event),
        cmocka_unit_test(test_a_wait_keeps_the_order),
        cmocka_unit_test(test_cpu_async_shows_a_missing_wait),
        cmocka_unit_test(test_direct_streams),
        cmocka_unit_test(test_launches),
        cmocka_unit_test(test_cpu_async_checks_arguments),
        cmocka_unit_test(test_a_failing_launch_is_named),
        cmocka_unit_test(test_a_team),
        cmocka_unit_test(test_signals_are_not_a_streams_business),
        cmocka_unit_test(test_failed_allocations_leak_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
