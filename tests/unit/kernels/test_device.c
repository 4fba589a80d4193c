// SPDX-License-Identifier: Apache-2.0
// Devices and streams, each test on every device: memory, ranges that grow in place, order of work,
// failures that persist until the wait, events, and that the host cannot access the memory of
// "cpu-async".
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/base/clock.h"
#include "kernels/base/memory.h"
#include "kernels/device/device.h"
#include "tests/unit/support/test_support.h"

static const char *const names[] = {"cpu", "cpu-async"};

static sr_device *open_device(int which) {
    sr_device *device;
    assert_ok(sr_device_open(names[which], &device));
    assert_string_equal(names[which], sr_device_name(device));
    return device;
}

static sr_stream *open_stream(sr_device *device) {
    sr_stream *stream;
    assert_ok(sr_stream_create(device, 2, &stream));
    assert_int_equal(2, sr_stream_threads(stream));
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
    assert_message("cpu, cpu-async");
    assert_int_equal(0, setenv("SERRIED_TEST_DEVICE", "cpu-async", 1));
    assert_ok(sr_device_open(NULL, &device));
    assert_string_equal("cpu-async", sr_device_name(device));
    assert_false(sr_device_host_access(device));
    sr_device_close(device);
    assert_int_equal(0, unsetenv("SERRIED_TEST_DEVICE"));
    assert_ok(sr_device_open(NULL, &device));
    assert_string_equal("cpu", sr_device_name(device));
    assert_true(sr_device_host_access(device));
    sr_device_close(device);
    sr_device_close(NULL);
}

static void expect_bytes(const unsigned char *memory, size_t begin, size_t end, int value) {
    for (size_t i = begin; i < end; i++)
        assert_int_equal(value, memory[i]);
}

static void test_memory(void **state) {
    (void)state;
    for (int which = 0; which < 2; which++) {
        sr_device *device = open_device(which);
        static const size_t sizes[] = {0, 1, 4096, 100000};
        void *memory[4];
        for (int i = 0; i < 4; i++) {
            assert_ok(sr_device_alloc(device, sizes[i], "a test", &memory[i]));
            assert_int_equal(0, (uintptr_t)memory[i] % 64);
            expect_bytes(sr_device_kernel_address(device, memory[i]), 0, sizes[i], 0);
            sr_device_copy(device, memory[i], "12345678901234567890", i ? 1 : 0);
        }
        unsigned char *inside = (unsigned char *)memory[3] + 777;
        char text[4] = "";
        sr_device_copy(device, inside, "abc", 4);
        sr_device_copy(device, text, inside, 4);
        assert_string_equal("abc", text);
        assert_ptr_equal(text, sr_device_kernel_address(device, text)); // host memory: unchanged
        sr_device_free(device, memory[1]);
        sr_device_copy(device, text, inside, 4); // the others remain
        assert_string_equal("abc", text);
        sr_device_free(device, NULL);
        void *much;
        assert_status(SR_E_MEMORY, sr_device_alloc(device, (size_t)1 << 60, "a giant", &much));
        assert_message("a giant: ");
        sr_device_close(device); // frees the rest
    }
}

static void test_a_range_grows_in_place(void **state) {
    (void)state;
    for (int which = 0; which < 2; which++) {
        sr_device *device = open_device(which);
        void *range;
        assert_ok(sr_device_reserve(device, 1 << 20, "range of a test", &range));
        unsigned char *memory = sr_device_kernel_address(device, range);
        assert_ok(sr_device_commit(device, range, 5000));
        memset(memory, 7, 5000);
        assert_ok(sr_device_commit(device, range, 100)); // never shrinks
        assert_ok(sr_device_commit(device, range, 1 << 20));
        assert_ptr_equal(memory, sr_device_kernel_address(device, range));
        expect_bytes(memory, 0, 5000, 7);
        expect_bytes(memory, 8192, 1 << 20, 0);
        assert_status(SR_E_MEMORY, sr_device_commit(device, range, (1 << 20) + 1));
        assert_message("over the");
        sr_device_free(device, range);
        sr_device_close(device);
    }
}

// The host's access must fault; a child tries it, so that the test continues.
static void test_the_host_cannot_read_cpu_async(void **state) {
    (void)state;
    sr_device *device = open_device(1);
    void *memory;
    assert_ok(sr_device_alloc(device, 64, "a test", &memory));
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit no_core = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &no_core);
        (void)signal(SIGSEGV, SIG_DFL);
        _exit(atomic_load((atomic_uchar *)memory));
    }
    int status = 0;
    assert_int_equal(child, waitpid(child, &status, 0));
    // A sanitizer turns the signal into its own exit code.
    assert_true(WIFSIGNALED(status) ? WTERMSIG(status) == SIGSEGV : WEXITSTATUS(status) != 0);
    sr_device_close(device);
}

// ---- Streams ----

typedef struct log {
    int order[256], count;
    sr_status fail; // what fail_now returns
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
    (void)state;
    for (int which = 0; which < 2; which++) {
        sr_device *device = open_device(which);
        sr_stream *stream = open_stream(device);
        log_of_calls log = {.count = 0};
        stream_call calls[200];
        for (int i = 0; i < 200; i++) {
            calls[i] = (stream_call){&log, i};
            assert_ok(sr_stream_call(stream, note, &calls[i]));
        }
        assert_ok(sr_stream_wait(stream));
        assert_int_equal(200, log.count);
        for (int i = 0; i < 200; i++)
            assert_int_equal(i, log.order[i]);
        sr_stream_free(stream);
        sr_device_close(device);
    }
}

static void test_a_failure_persists_until_the_wait(void **state) {
    (void)state;
    for (int which = 0; which < 2; which++) {
        sr_device *device = open_device(which);
        sr_stream *stream = open_stream(device);
        log_of_calls log = {.count = 0};
        stream_call first = {&log, 1}, bad = {&log, 2}, worse = {&log, 3}, last = {&log, 4};
        unsigned char from[4] = {1, 2, 3, 4}, to[4] = {0};
        assert_ok(sr_stream_call(stream, note, &first));
        assert_ok(sr_stream_call(stream, fail_now, &bad));
        assert_ok(sr_stream_call(stream, fail_now, &worse));
        assert_ok(sr_stream_call(stream, note, &last));
        assert_ok(sr_stream_copy(stream, to, from, sizeof from));
        assert_status(SR_E_DATA, sr_stream_wait(stream));
        assert_string_equal("call 2 went wrong", sr_error_message());
        assert_int_equal(1, log.count);
        assert_int_equal(0, to[3]);
        assert_ok(sr_stream_call(stream, note, &last)); // the stream works again
        assert_ok(sr_stream_wait(stream));
        assert_int_equal(2, log.count);
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

static void test_copies_and_events(void **state) {
    (void)state;
    for (int which = 0; which < 2; which++) {
        sr_device *device = open_device(which);
        sr_stream *stream = open_stream(device);
        sr_event before, after;
        atomic_bool go = false;
        void *memory;
        char text[8] = "";
        assert_ok(sr_device_alloc(device, 64, "a test", &memory));
        sr_event_record(stream, &before);
        assert_true(sr_event_done(&before)); // nothing was on the stream
        assert_ok(sr_stream_call(stream, hold, &go));
        assert_ok(sr_stream_copy(stream, memory, "serried", 8));
        assert_ok(sr_stream_copy(stream, text, memory, 8));
        sr_event_record(stream, &after);
        assert_true(sr_event_done(&before));
        assert_false(sr_event_done(&after));
        atomic_store(&go, true);
        while (!sr_event_done(&after)) // CTest's deadline ends the test
            sr_clock_sleep_ns(SR_NS_PER_MS / 10);
        assert_string_equal("serried", text);
        assert_ok(sr_stream_wait(stream));
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
    sr_stream_team_run(t->stream, 100, count_block, t);
    return SR_OK;
}

// Each block runs once, on a fixed worker; the threads of a stream block signals.
static void test_a_team(void **state) {
    (void)state;
    for (int which = 0; which < 2; which++) {
        sr_device *device = open_device(which);
        team t = {.stream = open_stream(device)};
        assert_ok(sr_stream_call(t.stream, run_team, &t));
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
    assert_ok(sr_stream_call(stream, read_mask, &mask));
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
        void *memory = NULL;
        sr_memory_fail_nth(n);
        sr_status status = sr_device_open("cpu", &device);
        if (status == SR_OK)
            status = sr_device_alloc(device, 100, "a test", &memory);
        if (status == SR_OK)
            status = sr_stream_create(device, 2, &stream);
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
        cmocka_unit_test(test_a_range_grows_in_place),
        cmocka_unit_test(test_the_host_cannot_read_cpu_async),
        cmocka_unit_test(test_work_runs_in_order),
        cmocka_unit_test(test_a_failure_persists_until_the_wait),
        cmocka_unit_test(test_copies_and_events),
        cmocka_unit_test(test_a_team),
        cmocka_unit_test(test_signals_are_not_a_streams_business),
        cmocka_unit_test(test_failed_allocations_leak_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
