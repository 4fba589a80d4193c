// SPDX-License-Identifier: Apache-2.0
// Writing to existing targets: devices, FIFOs, links, files of other owners and modes.
// tests/dist/check_writers.py checks the same for every command that writes.
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/memory.h"
#include "tests/unit/support/test_support.h"

static char folder[256];
static char paths[8][512]; // handed out in turn

static const char *in_folder(const char *name) {
    static unsigned next;
    char *path = paths[next++ % 8];
    (void)snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
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

static struct stat look(const char *path) {
    struct stat info;
    assert_int_equal(0, lstat(path, &info));
    return info;
}

static void write_old(const char *path) {
    assert_ok(sr_file_write_atomic(path, "old", 3));
}

// A device node of our own, never one of the machine.
static const char *make_device(unsigned minor) {
    const char *path = in_folder("device");
    if (mknod(path, S_IFCHR | 0666, makedev(1, minor)) != 0)
        test_skip("writing to a device: mknod is not permitted");
    return path;
}

static void a_device_stays(void **state) {
    (void)state;
    const char *path = make_device(3);
    const struct stat before = look(path);
    assert_ok(sr_file_write_atomic(path, "new", 3));
    assert_ok(sr_file_write_quickly(path, "new", 3));
    sr_atomic_file file;
    assert_ok(sr_atomic_open_private(&file, path));
    assert_null(file.temporary);
    assert_ok(sr_atomic_commit(&file));
    sr_atomic_abort(&file);
    int fd;
    assert_ok(sr_file_open_lines(path, &fd));
    assert_ok(sr_file_add_line(fd, path, "line\n", 5));
    assert_ok(sr_file_sync(fd, path));
    (void)close(fd);
    assert_true(sr_path_is_stream(path));
    const struct stat after = look(path);
    assert_true(S_ISCHR(after.st_mode));
    assert_int_equal(before.st_mode, after.st_mode);
    assert_int_equal(before.st_ino, after.st_ino);
}

static void a_full_device(void **state) {
    (void)state;
    const char *path = make_device(7);
    assert_status(SR_E_NO_SPACE, sr_file_write_atomic(path, "x", 1));
    assert_message("device");
    assert_true(S_ISCHR(look(path).st_mode));
}

static void *read_fifo(void *user) {
    char *out = user; // [0..63]: what was read; [64...]: the path
    int fd = open(out + 64, O_RDONLY);
    ssize_t n, done = 0;
    while (fd >= 0 && (n = read(fd, out + done, 63 - (size_t)done)) > 0)
        done += n;
    out[done] = '\0';
    (void)close(fd);
    return NULL;
}

static void a_fifo_is_written_to(void **state) {
    (void)state;
    char text[64 + 512];
    pthread_t reader;
    const char *path = in_folder("fifo");
    assert_int_equal(0, mkfifo(path, 0600));
    (void)snprintf(text + 64, sizeof text - 64, "%s", path);
    assert_int_equal(0, pthread_create(&reader, NULL, read_fifo, text));
    assert_ok(sr_file_write_atomic(path, "through", 7));
    assert_int_equal(0, pthread_join(reader, NULL));
    assert_string_equal("through", text);
    assert_true(S_ISFIFO(look(path).st_mode));
}

// A chain of links, relative and absolute, and one whose target does not exist yet.
static void links_lead_to_their_target(void **state) {
    (void)state;
    assert_ok(sr_make_folders(in_folder("far")));
    write_old(in_folder("far/file"));
    assert_int_equal(0, symlink(in_folder("far/second"), in_folder("first")));
    assert_int_equal(0, symlink("file", in_folder("far/second")));
    assert_ok(sr_file_write_atomic(in_folder("first"), "new", 3));
    test_assert_content(in_folder("far/file"), "new");
    assert_true(S_ISLNK(look(in_folder("first")).st_mode));
    assert_true(S_ISLNK(look(in_folder("far/second")).st_mode));
    assert_int_equal(0, unlink(in_folder("far/file")));
    assert_ok(sr_file_write_atomic(in_folder("first"), "dangling", 8));
    test_assert_content(in_folder("far/file"), "dangling");
    assert_true(S_ISREG(look(in_folder("far/file")).st_mode));
    sr_atomic_file file; // the temporary file is created next to the target
    assert_ok(sr_atomic_open(&file, in_folder("first")));
    assert_non_null(strstr(file.temporary, "/far/file.tmp-"));
    sr_atomic_abort(&file);
    assert_int_equal(0, symlink("circle", in_folder("circle")));
    assert_status(SR_E_IO, sr_file_write_atomic(in_folder("circle"), "x", 1));
    assert_message("circle");
}

// /dev/stdout is such a link: it means the open file, whose path may belong to another file by now.
static void links_of_proc_are_open_files(void **state) {
    (void)state;
    char link[64], gone[512], content[8] = "";
    int fd = open(in_folder("held"), O_RDWR | O_CREAT, 0600);
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    assert_int_equal(0, unlink(in_folder("held")));
    assert_ok(sr_file_write_atomic(link, "here", 4));
    assert_int_equal(4, pread(fd, content, sizeof content, 0));
    assert_string_equal("here", content);
    (void)snprintf(gone, sizeof gone, "%s (deleted)", in_folder("held"));
    assert_false(sr_path_exists(gone));
    (void)close(fd);
}

static void modes_stay(void **state) {
    (void)state;
    static const mode_t modes[] = {0640, 0600, 0444, 0666};
    const char *path = in_folder("moded");
    const mode_t mask = umask(077);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        write_old(path);
        assert_int_equal(0, chmod(path, modes[i]));
        assert_ok(sr_file_write_atomic(path, "new", 3));
        assert_int_equal(modes[i], look(path).st_mode & 07777);
        test_assert_content(path, "new");
        assert_int_equal(0, unlink(path));
    }
    (void)umask(mask);
    sr_atomic_file file;
    write_old(path);
    assert_int_equal(0, chmod(path, 0666));
    assert_ok(sr_atomic_open_private(&file, path));
    assert_ok(sr_atomic_commit(&file));
    sr_atomic_abort(&file);
    assert_int_equal(0600, look(path).st_mode & 07777);
}

static void owners_stay(void **state) {
    (void)state;
    const char *path = in_folder("owned");
    write_old(path);
    if (chown(path, 12345, 23456) != 0)
        test_skip("files of other owners (only root can make them)");
    assert_int_equal(0, chmod(path, 0640));
    assert_ok(sr_file_write_atomic(path, "new", 3));
    assert_int_equal(12345, look(path).st_uid);
    assert_int_equal(23456, look(path).st_gid);
    assert_int_equal(0640, look(path).st_mode & 07777);
    test_assert_content(path, "new");
    // A user who may write the file, but cannot give files away, writes into it in place.
    assert_int_equal(0, chmod(path, 0666));
    assert_int_equal(0, chmod(folder, 0777));
    const ino_t inode = look(path).st_ino;
    assert_int_equal(0, seteuid(54321));
    sr_status status = sr_file_write_atomic(path, "foreign", 7);
    sr_status refused = SR_OK;
    assert_int_equal(0, seteuid(0));
    assert_ok(status);
    assert_int_equal(inode, look(path).st_ino);
    assert_int_equal(12345, look(path).st_uid);
    test_assert_content(path, "foreign");
    assert_int_equal(0, chmod(path, 0644)); // a user who may not write the file does not replace it
    assert_int_equal(0, seteuid(54321));
    refused = sr_file_write_atomic(path, "stolen", 6);
    assert_int_equal(0, seteuid(0));
    assert_status(SR_E_IO, refused);
    test_assert_content(path, "foreign");
}

// In a sticky folder such as /tmp, another user's link may be a trap.
static void links_of_third_users(void **state) {
    (void)state;
    assert_int_equal(0, chmod(folder, 01777));
    write_old(in_folder("precious"));
    assert_int_equal(0, symlink("precious", in_folder("trap")));
    assert_int_equal(0, symlink("missing", in_folder("second")));
    assert_ok(sr_file_write_atomic(in_folder("trap"), "own", 3)); // our own
    if (lchown(in_folder("trap"), 12345, 12345) != 0)
        test_skip("links of other owners (only root can make them)");
    assert_int_equal(0, lchown(in_folder("second"), 12345, 12345));
    assert_status(SR_E_IO, sr_file_write_atomic(in_folder("trap"), "new", 3));
    assert_message("user 12345");
    test_assert_content(in_folder("precious"), "own");
    assert_status(SR_E_IO, sr_file_write_atomic(in_folder("second"), "new", 3));
    assert_false(sr_path_exists(in_folder("missing")));
}

// A temporary name that another user has already taken is not opened.
static void taken_names(void **state) {
    (void)state;
    char taken[512];
    unsigned number;
    sr_atomic_file file;
    assert_ok(sr_atomic_open(&file, in_folder("a")));
    assert_int_equal(1, sscanf(strrchr(file.temporary, '-'), "-%u", &number));
    sr_atomic_abort(&file);
    write_old(in_folder("precious"));
    (void)snprintf(taken, sizeof taken, "%s.tmp-%ld-%u", in_folder("a"), (long)getpid(),
                   number + 2);
    assert_int_equal(0, symlink("precious", taken)); // "precious" itself took one number
    assert_ok(sr_file_write_atomic(in_folder("a"), "new", 3));
    test_assert_content(in_folder("a"), "new");
    test_assert_content(in_folder("precious"), "old");
}

static void folders_behind_links(void **state) {
    (void)state;
    char *moved = NULL;
    assert_int_equal(0, symlink("far", in_folder("link")));
    assert_ok(sr_make_folders(in_folder("link/below")));
    assert_true(sr_path_is_folder(in_folder("far/below")));
    assert_ok(sr_move_aside(in_folder("link"), ".old", &moved));
    assert_string_equal(moved, in_folder("far.old"));
    sr_free(moved);
    assert_true(sr_path_is_folder(in_folder("far.old/below")));
    assert_true(S_ISLNK(look(in_folder("link")).st_mode));
    assert_ok(sr_make_folders(in_folder("link/below")));
    assert_status(SR_E_EXISTS, sr_move_aside(in_folder("link"), ".old", &moved));
    assert_true(sr_path_is_folder(in_folder("far/below")));
    assert_status(SR_E_IO, sr_file_write_atomic(in_folder("link"), "x", 1));
    assert_message("is a folder");
}

static void a_link_replaces_only_links(void **state) {
    (void)state;
    write_old(in_folder("last"));
    assert_status(SR_E_EXISTS, sr_link_atomic(in_folder("last"), "target"));
    test_assert_content(in_folder("last"), "old");
}

static void out_of_memory(void **state) {
    (void)state;
    assert_int_equal(0, symlink("target", in_folder("linked")));
    for (uint64_t n = 1;; n++) {
        uint64_t live = sr_memory_get_stats().live_blocks;
        sr_memory_fail_nth(n);
        sr_status status = sr_file_write_atomic(in_folder("linked"), "new", 3);
        sr_memory_fail_nth(0);
        assert_int_equal(live, sr_memory_get_stats().live_blocks);
        if (status == SR_OK)
            break;
        assert_status(SR_E_MEMORY, status);
    }
    test_assert_content(in_folder("target"), "new");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_device_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_device, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_fifo_is_written_to, set_up, tear_down),
        cmocka_unit_test_setup_teardown(links_lead_to_their_target, set_up, tear_down),
        cmocka_unit_test_setup_teardown(links_of_proc_are_open_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(modes_stay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(owners_stay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(links_of_third_users, set_up, tear_down),
        cmocka_unit_test_setup_teardown(taken_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(folders_behind_links, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_link_replaces_only_links, set_up, tear_down),
        cmocka_unit_test_setup_teardown(out_of_memory, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
