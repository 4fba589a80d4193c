// SPDX-License-Identifier: Apache-2.0
// The watchdog: what it reports, when it ends the process, and its clock, which pauses while the
// process is stopped.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernels/base/clock.h"
#include "kernels/base/log.h"
#include "kernels/base/process.h"
#include "kernels/base/watch.h"

// Runs 'body' in a child process, captures its stderr in 'text' and returns waitpid's status.
static int run(void (*body)(void), char *text, size_t size) {
    int line[2], state;
    assert_int_equal(pipe(line), 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(line[1], STDERR_FILENO);
        body();
        _exit(0);
    }
    (void)close(line[1]);
    size_t length = 0;
    for (ssize_t n; length + 1 < size && (n = read(line[0], text + length, size - 1 - length)) > 0;)
        length += (size_t)n;
    text[length] = '\0';
    (void)close(line[0]);
    assert_int_equal(waitpid(pid, &state, 0), pid);
    return state;
}

static void start(void) {
    const sr_watch_options options = {
        .report_seconds = 0.3, .act_seconds = 0.2, .who = "rank 3 (here, pid 7)"};
    if (sr_watch_start(&options) != SR_OK)
        _exit(9);
}

static void hang(void) {
    sr_watch outer, inner;
    start();
    sr_watch_begin_work(&outer, "all of it");
    sr_watch_begin(&inner, "a file in %s", "/nowhere");
    sr_clock_sleep_ns(20 * SR_NS_PER_S);
}

static void hang_at_the_end(void) {
    sr_watch wait, end;
    start();
    sr_watch_begin(&wait, "a file");
    sr_watch_begin_end(&end, "MPI to abort");
    sr_clock_sleep_ns(20 * SR_NS_PER_S);
}

static void finish(void) {
    sr_watch first, second;
    start();
    sr_watch_begin(&first, "a first thing");
    sr_watch_begin_work(&second, "a second thing");
    sr_clock_sleep_ns(450 * SR_NS_PER_MS);
    sr_watch_end(&first);
    sr_clock_sleep_ns(250 * SR_NS_PER_MS);
    sr_watch_end(&second);
    sr_watch_stop();
}

static void test_hanging_wait_ends_the_process(void **state) {
    (void)state;
    char text[4096];
    int64_t begin = sr_clock_ns();
    int end = run(hang, text, sizeof text);
    assert_true(WIFEXITED(end) && WEXITSTATUS(end) == 6);
    assert_true(sr_clock_ns() - begin < 5 * SR_NS_PER_S);
    assert_non_null(strstr(text, "rank 3 (here, pid 7): waiting 0 s for a file in /nowhere"));
    assert_non_null(strstr(text, "(deadline.act) for a file in /nowhere: ended"));
    assert_null(strstr(text, "all of it"));
}

static void test_end_of_a_failed_job_has_one_deadline(void **state) {
    (void)state;
    char text[4096];
    int end = run(hang_at_the_end, text, sizeof text);
    assert_true(WIFEXITED(end) && WEXITSTATUS(end) == 6);
    assert_non_null(strstr(text, "waited 0 s (deadline.act) for MPI to abort: ended"));
    assert_null(strstr(text, "for a file"));
}

static void test_finished_wait_is_forgotten(void **state) {
    (void)state;
    char text[4096];
    int end = run(finish, text, sizeof text);
    assert_true(WIFEXITED(end) && WEXITSTATUS(end) == 0);
    assert_non_null(strstr(text, "a first thing"));
    assert_null(strstr(text, "a second thing"));
}

// The message is printed although another thread holds the lock of the messages: here a thread that
// writes to a pipe that nobody reads.
static void *write_much(void *unused) {
    (void)unused;
    for (;;)
        SR_WARN("%0200d", 0);
    return NULL;
}

static void report_nevertheless(void) {
    pthread_t thread;
    char path[] = "/tmp/serried-watch-XXXXXX", text[2048] = "";
    int full[2], file = mkstemp(path);
    if (file < 0 || pipe(full) != 0 || sr_log_open_file(path) != SR_OK)
        _exit(8);
    int before = dup(STDERR_FILENO);
    (void)dup2(full[1], STDERR_FILENO);
    start();
    if (pthread_create(&thread, NULL, write_much, NULL) != 0)
        _exit(8);
    sr_clock_sleep_ns(300 * SR_NS_PER_MS);
    sr_log_alarm("heard");
    sr_clock_sleep_ns(200 * SR_NS_PER_MS);
    off_t size = lseek(file, 0, SEEK_END), from = size > 2000 ? size - 2000 : 0;
    ssize_t n = pread(file, text, sizeof text - 1, from);
    (void)unlink(path);
    text[n > 0 ? n : 0] = '\0';
    (void)dprintf(before, "%s", strstr(text, "heard") ? "in the file" : "lost");
    _exit(0);
}

static void test_alarm_passes_a_stuck_message(void **state) {
    (void)state;
    char text[4096];
    int end = run(report_nevertheless, text, sizeof text);
    assert_true(WIFEXITED(end) && WEXITSTATUS(end) == 0);
    assert_string_equal(text, "in the file");
}

static void count_through_a_stop(void) {
    start();
    sr_clock_sleep_ns(100 * SR_NS_PER_MS);
    pid_t self = getpid(), waker = fork();
    if (waker == 0) {
        while (!sr_process_is_stopped(self))
            sr_clock_sleep_ns(SR_NS_PER_MS);
        sr_clock_sleep_ns(1200 * SR_NS_PER_MS);
        (void)kill(self, SIGCONT);
        _exit(0);
    }
    int64_t real = sr_clock_ns(), watched = sr_watch_clock_ns();
    (void)raise(SIGSTOP);
    real = sr_clock_ns() - real;
    watched = sr_watch_clock_ns() - watched;
    sr_clock_sleep_ns(200 * SR_NS_PER_MS);
    (void)waitpid(waker, NULL, 0);
    _exit(real > 1100 * SR_NS_PER_MS && watched < 900 * SR_NS_PER_MS ? 0 : 1);
}

static void test_clock_pauses_while_stopped(void **state) {
    (void)state;
    char text[4096];
    int end = run(count_through_a_stop, text, sizeof text);
    assert_true(WIFEXITED(end) && WEXITSTATUS(end) == 0);
}

static void test_beats_and_clock(void **state) {
    (void)state;
    uint64_t beats = 0;
    const sr_watch_options options = {.beats = &beats};
    assert_int_equal(sr_watch_start(&options), SR_OK);
    int64_t before = sr_watch_clock_ns();
    sr_clock_sleep_ns(300 * SR_NS_PER_MS);
    int64_t passed = sr_watch_clock_ns() - before;
    sr_watch_stop();
    assert_in_range(passed, 250 * SR_NS_PER_MS, 5 * SR_NS_PER_S);
    assert_true(beats >= 2);
    before = sr_watch_clock_ns();
    sr_clock_sleep_ns(SR_NS_PER_MS);
    assert_true(sr_watch_clock_ns() > before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hanging_wait_ends_the_process),
        cmocka_unit_test(test_end_of_a_failed_job_has_one_deadline),
        cmocka_unit_test(test_finished_wait_is_forgotten),
        cmocka_unit_test(test_alarm_passes_a_stuck_message),
        cmocka_unit_test(test_clock_pauses_while_stopped),
        cmocka_unit_test(test_beats_and_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
