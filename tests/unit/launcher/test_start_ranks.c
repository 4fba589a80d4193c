// SPDX-License-Identifier: Apache-2.0
// The watch over the ranks: a rank that has ended its run is killed for not exiting once no other
// rank is in its run any more, and not before.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernels/base/clock.h"
#include "launcher/start/start_internal.h"
#include "tests/unit/support/test_support.h"

#define ACT_SECONDS 1.0
#define WORK_NS (3 * SR_NS_PER_S) // longer than a rank without a heartbeat may live
#define PATIENCE_NS (60 * SR_NS_PER_S)

// Rank 0 works and exits; rank 1 ends its run at once and is stopped on its way out.
static pid_t start(int rank) {
    const pid_t pid = fork();
    if (pid != 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    sr_board_entry *entry = sr_board_join(rank, ACT_SECONDS, ACT_SECONDS);
    if (!entry)
        _exit(1);
    for (int64_t end = sr_clock_ns() + WORK_NS; rank == 0 && sr_clock_ns() < end;) {
        __atomic_add_fetch(&entry->beats, 1, __ATOMIC_RELAXED);
        sr_clock_sleep_ns(10 * SR_NS_PER_MS);
    }
    __atomic_add_fetch(&entry->beats, 1, __ATOMIC_RELAXED); // without one it is not watched
    sr_board_leave(entry);
    if (rank != 0)
        (void)raise(SIGSTOP);
    _exit(0);
}

// Watches until the process has ended; returns its status of waitpid.
static int watch(sr_rank_watch *ranks, pid_t pid) {
    int status = 0;
    for (int64_t end = sr_clock_ns() + PATIENCE_NS; waitpid(pid, &status, WNOHANG) == 0;) {
        assert_true(sr_clock_ns() < end);
        sr_ranks_wait(ranks, NULL, 0);
    }
    return status;
}

static void test_a_rank_waits_for_the_last_run(void **state) {
    (void)state;
    char folder[256], path[300];
    sr_board board;
    sr_rank_watch *ranks = NULL;
    test_folder_make(folder);
    (void)snprintf(path, sizeof path, "%s/board", folder);
    assert_int_equal(setenv(SR_BOARD_VARIABLE, path, 1), 0);
    assert_ok(sr_board_create(path, 2, &board));
    const pid_t stopped = start(1), working = start(0);
    assert_ok(sr_ranks_watch(&board, &ranks));
    assert_int_equal(watch(ranks, working), 0);
    int status = 0;
    assert_int_equal(waitpid(stopped, &status, WNOHANG), 0);
    status = watch(ranks, stopped);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
    char culprit[64], expected[64];
    (void)snprintf(expected, sizeof expected, "rank 1 (pid %d)", (int)stopped);
    assert_string_equal(sr_ranks_culprit(ranks, culprit, sizeof culprit), expected);
    sr_ranks_free(ranks);
    sr_board_release(&board);
    test_folder_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_rank_waits_for_the_last_run)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
