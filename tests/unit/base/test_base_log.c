// SPDX-License-Identifier: Apache-2.0
// What is written where: levels, ranks, the log file, and progress lines without a terminal.
#include <fcntl.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "tests/unit/support/test_support.h"

static char folder[256];
static int real_stderr = -1;
static char *captured, *log_path;

static int set_up(void **state) {
    (void)state;
    (void)unsetenv("SERRIED_TERMINAL");
    test_folder_make(folder);
    captured = sr_path_join(folder, "stderr");
    log_path = sr_path_join(folder, "rank.log");
    int fd = open(captured, O_WRONLY | O_CREAT | O_APPEND, 0600);
    real_stderr = dup(STDERR_FILENO);
    if (fd < 0 || real_stderr < 0 || dup2(fd, STDERR_FILENO) < 0)
        return -1;
    return close(fd);
}

static int tear_down(void **state) {
    (void)state;
    sr_log_close_file();
    sr_log_set_rank(0, 1);
    sr_log_set_level(SR_LOG_INFO);
    (void)dup2(real_stderr, STDERR_FILENO);
    (void)close(real_stderr);
    sr_free(captured);
    sr_free(log_path);
    test_folder_remove(folder);
    return 0;
}

static void levels(void **state) {
    (void)state;
    SR_INFO("plain %d", 1);
    SR_WARN("careful");
    SR_ERROR("broken");
    SR_DEBUG("hidden");
    sr_log_set_level(SR_LOG_ERROR);
    SR_WARN("hidden too");
    SR_ERROR("last");
    test_assert_content(captured, "plain 1\nwarning: careful\nerror: broken\nerror: last\n");
}

static void ranks_write_to_files(void **state) {
    (void)state;
    sr_log_set_rank(3, 8);
    SR_INFO("nobody hears");
    SR_ERROR("everybody hears");
    assert_ok(sr_log_open_file(log_path));
    SR_INFO("in the file");
    SR_ERROR("also only there");
    sr_log_close_file();
    test_assert_content(captured, "rank 3: error: everybody hears\n");
    test_assert_content(log_path, "rank 3: in the file\nrank 3: error: also only there\n");
    assert_status(SR_E_IO, sr_log_open_file(folder));
    assert_message(folder);
}

static void rank_0_writes_to_both(void **state) {
    (void)state;
    sr_log_set_rank(0, 2);
    assert_ok(sr_log_open_file(log_path));
    SR_INFO("heard");
    test_assert_content(captured, "heard\n");
    test_assert_content(log_path, "rank 0: heard\n");
}

static void progress_without_terminal(void **state) {
    (void)state;
    assert_false(sr_log_has_color());
    for (int i = 0; i < 5; i++)
        sr_log_progress(i == 0 ? "step 1" : "step n", 1000.0);
    sr_log_progress("step 9", 0.0);
    sr_log_progress_end();
    sr_log_progress("epoch 2", 1000.0);
    sr_log_set_rank(1, 2);
    sr_log_progress("not rank 0", 0.0);
    test_assert_content(captured, "step 1\nstep 9\nepoch 2\n");
}

// mpirun carries stderr through a pipe; the launcher then passes on the width of its terminal.
static void live_line_through_a_pipe(void **state) {
    (void)state;
    assert_int_equal(0, setenv("SERRIED_TERMINAL", "10", 1));
    assert_int_equal(0, setenv("TERM", "xterm", 1));
    assert_int_equal(0, setenv("NO_COLOR", "1", 1));
    sr_log_progress("step 1 of many", 1000.0);
    sr_log_progress("\xc3\xa4\xc3\xb6\xc3\xbc and more", 1000.0); // cut by characters, not bytes
    SR_INFO("news");
    sr_log_progress("on", 1000.0);
    sr_log_progress_end();
    assert_int_equal(0, setenv("TERM", "dumb", 1));
    sr_log_progress("plain", 0.0);
    test_assert_content(captured, "\r\033[Kstep 1 of\r\033[K\xc3\xa4\xc3\xb6\xc3\xbc and m"
                                  "\r\033[Knews\n\r\033[Kon\r\033[Kplain\n");
}

static void long_lines_are_cut(void **state) {
    (void)state;
    char text[9000];
    memset(text, 'y', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    SR_INFO("%s", text);
    void *data = NULL;
    size_t bytes = 0;
    assert_ok(sr_file_read(captured, 1 << 20, &data, &bytes));
    assert_true(bytes > 2000 && bytes < 9000);
    assert_string_equal("...\n", (char *)data + bytes - 4);
    sr_free(data);
}

// A full disk loses log lines but does not end the run, and is reported once.
static void lost_lines_are_reported_once(void **state) {
    (void)state;
    if (access("/dev/full", W_OK) != 0)
        test_skip("/dev/full does not exist");
    assert_ok(sr_log_open_file("/dev/full"));
    SR_INFO("one");
    SR_INFO("two");
    sr_log_close_file();
    test_assert_content(captured,
                        "warning: cannot write to the log file: No space left on device; lines are "
                        "lost\none\ntwo\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(levels, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ranks_write_to_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rank_0_writes_to_both, set_up, tear_down),
        cmocka_unit_test_setup_teardown(progress_without_terminal, set_up, tear_down),
        cmocka_unit_test_setup_teardown(live_line_through_a_pipe, set_up, tear_down),
        cmocka_unit_test_setup_teardown(long_lines_are_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lost_lines_are_reported_once, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
