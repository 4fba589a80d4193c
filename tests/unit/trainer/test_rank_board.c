// SPDX-License-Identifier: Apache-2.0
// The rank board: what a rank reports is what the starting process reads, and a rank that joins a
// paused job waits.
#include <poll.h>
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

#include "tests/unit/support/test_support.h"
#include "trainer/run/rank_board.h"

static char folder[256], path[300];

static int enter(void **state) {
    (void)state;
    test_folder_make(folder);
    (void)snprintf(path, sizeof path, "%s/board", folder);
    return setenv(SR_BOARD_VARIABLE, path, 1);
}

static int leave(void **state) {
    (void)state;
    test_folder_remove(folder);
    return 0;
}

static void test_entry_is_read(void **state) {
    (void)state;
    sr_board board;
    assert_int_equal(sr_board_create(path, 2, &board), SR_OK);
    assert_int_equal(sr_board_read(&board, 1).pid, 0);
    sr_board_entry *entry = sr_board_join(1, 1.0, 2.0);
    assert_non_null(entry);
    const sr_board_entry seen = sr_board_read(&board, 1);
    assert_int_equal(seen.pid, getpid());
    assert_true(seen.report_seconds == 1.0 && seen.act_seconds == 2.0);
    assert_int_equal(seen.ended, 0);
    sr_board_leave(entry);
    assert_int_equal(sr_board_read(&board, 1).ended, 1);
    assert_int_equal(sr_board_read(&board, 0).pid, 0);
    assert_null(sr_board_join(2, 1.0, 2.0)); // the board has two entries
    sr_board_release(&board);
    assert_int_equal(unlink(path), 0);
}

// Joins, then writes one byte.
static pid_t join_in_child(int *end) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(sr_board_join(0, 1.0, 2.0) && write(ends[1], "x", 1) == 1 ? 0 : 1);
    }
    (void)close(ends[1]);
    *end = ends[0];
    return pid;
}

static void test_a_paused_rank_waits(void **state) {
    (void)state;
    sr_board board;
    int end = -1, status = -1;
    assert_int_equal(sr_board_create(path, 1, &board), SR_OK);
    sr_board_pause(&board, true);
    const pid_t pid = join_in_child(&end);
    struct pollfd joined = {.fd = end, .events = POLLIN};
    while (sr_board_read(&board, 0).pid != pid)
        (void)usleep(1000);
    assert_int_equal(poll(&joined, 1, 200), 0);
    sr_board_pause(&board, false);
    assert_int_equal(poll(&joined, 1, 10000), 1);
    assert_int_equal(joined.revents & POLLIN, POLLIN);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    (void)close(end);
    sr_board_release(&board);
    assert_int_equal(unlink(path), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entry_is_read),
        cmocka_unit_test(test_a_paused_rank_waits),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
