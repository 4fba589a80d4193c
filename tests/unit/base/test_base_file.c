// SPDX-License-Identifier: Apache-2.0
// Whole files, exact reads, and atomic replacement: a new file appears complete or not at all.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/memory.h"
#include "tests/unit/support/test_support.h"

static char folder[256];

static char *in_folder(const char *name) {
    char *path = sr_path_join(folder, name);
    assert_non_null(path);
    return path;
}

static int entries(void) {
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

static int set_up(void **state) {
    (void)state;
    test_folder_make(folder);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    test_folder_remove(folder);
    return 0;
}

static void write_and_read(void **state) {
    (void)state;
    char *path = in_folder("a.txt");
    assert_ok(sr_file_write_atomic(path, "hello", 5));
    test_assert_content(path, "hello");
    assert_ok(sr_file_write_atomic(path, "", 0));
    test_assert_content(path, "");
    assert_true(sr_path_exists(path));
    assert_false(sr_path_is_folder(path));
    assert_int_equal(1, entries());
    sr_free(path);
}

static void read_errors(void **state) {
    (void)state;
    char *path = in_folder("missing");
    void *data = NULL;
    size_t bytes = 0;
    assert_status(SR_E_NOT_FOUND, sr_file_read(path, 100, &data, &bytes));
    assert_message(path);
    assert_false(sr_path_exists(path));
    assert_ok(sr_file_write_atomic(path, "0123456789", 10));
    assert_status(SR_E_LIMIT, sr_file_read(path, 9, &data, &bytes));
    assert_ok(sr_file_read(path, 10, &data, &bytes));
    sr_free(data);
    data = NULL;
    assert_status(SR_E_IO, sr_file_read(folder, 100, &data, &bytes));
    assert_null(data);
    assert_ok(
        sr_file_read("/proc/self/status", 1 << 20, &data, &bytes)); // reports a size of 0 bytes
    assert_true(bytes > 100);
    sr_free(data);
    for (uint64_t n = 1;; n++) { // out of memory anywhere: an error and no leak
        uint64_t live = sr_memory_get_stats().live_blocks;
        sr_memory_fail_nth(n);
        sr_status status = sr_file_read(path, 100, &data, &bytes);
        sr_memory_fail_nth(0);
        if (status == SR_OK)
            break;
        assert_status(SR_E_MEMORY, status);
        assert_int_equal(live, sr_memory_get_stats().live_blocks);
    }
    sr_free(data);
    sr_free(path);
}

// Such reads must not block or run forever: the FIFO has no writer, and /dev/zero never ends.
static void streams_are_not_read(void **state) {
    (void)state;
    char *path = in_folder("fifo");
    void *data = NULL;
    size_t bytes = 0;
    assert_int_equal(0, mkfifo(path, 0600));
    assert_status(SR_E_IO, sr_file_read(path, 100, &data, &bytes));
    assert_message(path);
    assert_message("a pipe or a device");
    assert_status(SR_E_IO, sr_file_read("/dev/zero", 100, &data, &bytes));
    assert_status(SR_E_IO, sr_file_read("/dev/null", 100, &data, &bytes));
    assert_null(data);
    sr_free(path);
}

static void read_at(void **state) {
    (void)state;
    char *path = in_folder("b");
    assert_ok(sr_file_write_atomic(path, "0123456789", 10));
    int fd = open(path, O_RDONLY);
    char out[8] = "";
    assert_ok(sr_file_read_at(fd, path, 3, out, 4));
    assert_string_equal("3456", out);
    assert_ok(sr_file_read_at(fd, path, 10, out, 0));
    assert_status(SR_E_DATA, sr_file_read_at(fd, path, 7, out, 4));
    assert_message("ends at byte 10");
    close(fd);
    sr_free(path);
}

static void abort_leaves_the_old(void **state) {
    (void)state;
    char *path = in_folder("c");
    assert_ok(sr_file_write_atomic(path, "old", 3));
    int before = entries();
    sr_atomic_file file;
    assert_ok(sr_atomic_open(&file, path));
    assert_ok(sr_atomic_write(&file, "new", 3));
    assert_int_equal(before + 1, entries());
    test_assert_content(path, "old");
    sr_atomic_abort(&file);
    assert_int_equal(before, entries());
    test_assert_content(path, "old");
    sr_atomic_abort(&file); // twice is legal
    assert_ok(sr_atomic_open(&file, path));
    assert_ok(sr_atomic_write(&file, "ne", 2));
    assert_ok(sr_atomic_write(&file, "w!", 2));
    assert_int_equal(4, file.bytes);
    assert_ok(sr_atomic_commit(&file));
    sr_atomic_abort(&file); // also legal after commit
    test_assert_content(path, "new!");
    assert_int_equal(before, entries());
    sr_free(path);
}

// A write that fails halfway (file size limit) keeps the old file and leaves no temporary file.
static void failed_write_leaves_the_old(void **state) {
    (void)state;
    char *path = in_folder("d");
    assert_ok(sr_file_write_atomic(path, "old", 3));
    int before = entries();
    struct rlimit old, small;
    assert_int_equal(0, getrlimit(RLIMIT_FSIZE, &old));
    small = old;
    small.rlim_cur = 1000;
    assert_int_equal(0, setrlimit(RLIMIT_FSIZE, &small));
    char block[4096] = {0};
    sr_status status = sr_file_write_atomic(path, block, sizeof block);
    assert_int_equal(0, setrlimit(RLIMIT_FSIZE, &old));
    assert_status(SR_E_IO, status);
    assert_message("cannot write");
    assert_message("ulimit -f unlimited");
    assert_int_equal(before, entries());
    test_assert_content(path, "old");
    sr_free(path);
    path = in_folder("no/such/folder");
    assert_status(SR_E_NOT_FOUND, sr_file_write_atomic(path, "x", 1));
    assert_message(path);
    assert_message(": cannot create: its folder does not exist; make it first");
    sr_free(path);
}

static void limit_files(rlim_t bytes) {
    struct rlimit limit;
    assert_int_equal(0, getrlimit(RLIMIT_FSIZE, &limit));
    limit.rlim_cur = bytes ? bytes : limit.rlim_max;
    assert_int_equal(0, setrlimit(RLIMIT_FSIZE, &limit));
}

// Lines are added whole or not at all, and a torn last line from before is cut off.
static void lines(void **state) {
    (void)state;
    char *path = in_folder("log"), block[5000];
    int fd;
    assert_ok(sr_file_open_lines(path, &fd));
    assert_ok(sr_file_add_line(fd, path, "one\n", 4));
    limit_files(10);
    assert_status(SR_E_IO, sr_file_add_line(fd, path, "two and more\n", 13));
    limit_files(0);
    test_assert_content(path, "one\n");
    assert_ok(sr_file_add_line(fd, path, "three\n", 6));
    close(fd);
    assert_ok(sr_file_open_lines(path, &fd));
    close(fd);
    test_assert_content(path, "one\nthree\n");
    memset(block, 'x', sizeof block); // longer than the blocks that are searched
    memcpy(block, "one\ntwo\n", 8);
    for (size_t torn = 0; torn < sizeof block; torn += 1 + torn / 2) {
        assert_ok(sr_file_write_atomic(path, block, 8 + torn < sizeof block ? 8 + torn : 8));
        assert_ok(sr_file_open_lines(path, &fd));
        close(fd);
        test_assert_content(path, "one\ntwo\n");
    }
    assert_ok(sr_file_write_atomic(path, "no end", 6));
    assert_ok(sr_file_open_lines(path, &fd));
    close(fd);
    test_assert_content(path, "");
    assert_status(SR_E_IO, sr_file_open_lines(folder, &fd));
    sr_free(path);
}

static void links_and_leftovers(void **state) {
    (void)state;
    char *link = in_folder("link"), *left = in_folder("a.tmp-12-3"), *kept = in_folder("a.tmpl");
    char target[16] = "";
    int before = entries();
    assert_ok(sr_link_atomic(link, "there"));
    assert_ok(sr_link_atomic(link, "elsewhere"));
    assert_int_equal(9, readlink(link, target, sizeof target));
    assert_memory_equal("elsewhere", target, 9);
    assert_int_equal(before + 1, entries());
    assert_ok(sr_file_write_atomic(left, "x", 1));
    assert_ok(sr_file_write_atomic(kept, "x", 1));
    assert_true(sr_file_is_temporary(left));
    assert_false(sr_file_is_temporary(kept));
    sr_remove_temporary_files(folder, 1);
    assert_int_equal(before + 3, entries());
    sr_remove_temporary_files(folder, 12);
    assert_int_equal(before + 2, entries());
    assert_ok(sr_file_write_atomic(left, "x", 1));
    sr_remove_temporary_files(folder, 0);
    assert_int_equal(before + 2, entries());
    sr_free(link);
    sr_free(left);
    sr_free(kept);
}

static void folders(void **state) {
    (void)state;
    char *path = in_folder("x/y//z/"), *blocked = in_folder("a/b");
    assert_ok(sr_make_folders(path));
    assert_ok(sr_make_folders(path));
    assert_true(sr_path_is_folder(path));
    assert_true(sr_path_exists(path));
    assert_ok(sr_sync_folder(path));
    char *file = in_folder("a");
    assert_ok(sr_file_write_atomic(file, "x", 1));
    assert_status(SR_E_IO, sr_make_folders(blocked));
    assert_message("a: cannot make the folder");
    assert_status(SR_E_IO, sr_make_folders(file));
    sr_free(path);
    sr_free(file);
    sr_free(blocked);
}

static void writable_folders(void **state) {
    (void)state;
    char *file = in_folder("a"), *blocked = in_folder("a/b"), *closed = in_folder("closed"),
         *below = in_folder("closed/below/far");
    assert_ok(sr_file_write_atomic(file, "x", 1));
    assert_ok(sr_check_folder_writable(folder));
    assert_ok(sr_check_folder_writable("none-at-all"));
    assert_status(SR_E_IO, sr_check_folder_writable(file));
    assert_status(SR_E_IO, sr_check_folder_writable(blocked));
    assert_message("a: cannot make the folder: File exists");
    assert_int_equal(0, mkdir(closed, 0555));
    if (geteuid() != 0) {
        assert_status(SR_E_IO, sr_check_folder_writable(closed));
        assert_message("cannot write to the folder: Permission denied");
        assert_status(SR_E_IO, sr_check_folder_writable(below));
        assert_message("below/far: cannot make the folder: Permission denied");
    }
    assert_int_equal(0, rmdir(closed));
    sr_free(file);
    sr_free(blocked);
    sr_free(closed);
    sr_free(below);
}

static void joining(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"", "b", "b"}, {"/", "b", "/b"}};
    for (size_t i = 0; i < 4; i++) {
        char *path = sr_path_join(cases[i][0], cases[i][1]);
        assert_string_equal(cases[i][2], path);
        sr_free(path);
    }
}

int main(void) {
    (void)signal(SIGXFSZ, SIG_IGN); // a write beyond the limit then fails with EFBIG
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(write_and_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(read_errors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(streams_are_not_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(read_at, set_up, tear_down),
        cmocka_unit_test_setup_teardown(abort_leaves_the_old, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failed_write_leaves_the_old, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lines, set_up, tear_down),
        cmocka_unit_test_setup_teardown(links_and_leftovers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(folders, set_up, tear_down),
        cmocka_unit_test_setup_teardown(writable_folders, set_up, tear_down),
        cmocka_unit_test(joining),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
