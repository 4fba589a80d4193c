// SPDX-License-Identifier: Apache-2.0
// The file that was checked is the file that is loaded: here files and folders are changed just
// before the loader opens the plug-in. tests/dist/check_plugins.py checks which owners and modes
// the command refuses.
//
//   test_plugin_file GOOD EVIL    two libraries whose plug-ins have those names
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/memory.h"
#include "kernels/base/plugin_file.h"
#include "tests/unit/support/test_support.h"

static const char *good, *evil;
static char top[256];
static void (*before_loading)(void);

// Replaces the C library's dlopen, also for libserried.
void *dlopen(const char *file, int mode) {
    union {
        void *object;
        void *(*function)(const char *, int);
    } real = {.object = dlsym(RTLD_NEXT, "dlopen")};
    if (before_loading)
        before_loading();
    before_loading = NULL;
    return real.function(file, mode);
}

static const char *in_top(const char *name) {
    static char paths[4][400];
    static unsigned next;
    char *path = paths[next++ % 4];
    (void)snprintf(path, sizeof paths[0], "%s/%s", top, name);
    return path;
}

static void copy(const char *from, const char *to) {
    void *data;
    size_t bytes;
    assert_ok(sr_file_read(from, 64 << 20, &data, &bytes));
    assert_ok(sr_file_write_quickly(to, data, bytes));
    sr_free(data);
}

static int set_up(void **state) {
    (void)state;
    test_folder_make(top); // mode 0700
    assert_ok(sr_make_folders(in_top("a/b")));
    copy(good, in_top("a/b/own.so"));
    copy(evil, in_top("other.so"));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    test_folder_remove(top);
    return 0;
}

static void swap_file(void) {
    assert_int_equal(0, rename(in_top("other.so"), in_top("a/b/own.so")));
}

static void swap_folder(void) {
    assert_int_equal(0, rename(in_top("a"), in_top("moved")));
    assert_ok(sr_make_folders(in_top("a/b")));
    copy(evil, in_top("a/b/own.so"));
}

static void load_with(void (*change)(void)) {
    sr_plugin_file *file = NULL;
    before_loading = change;
    assert_ok(sr_plugin_open(in_top("a/b/own.so"), NULL, &file));
    assert_null(before_loading); // it was called
    assert_string_equal("good", file->plugin->name);
}

static void another_file(void **state) {
    (void)state;
    load_with(swap_file);
}

static void another_folder(void **state) {
    (void)state;
    load_with(swap_folder);
}

// Two plug-ins in one process stay separate, whatever the file descriptors they were opened
// through.
static void two_files(void **state) {
    (void)state;
    sr_plugin_file *first = NULL, *second = NULL, *again = NULL;
    assert_ok(sr_plugin_open(in_top("a/b/own.so"), NULL, &first));
    assert_ok(sr_plugin_open(in_top("other.so"), NULL, &second));
    assert_string_equal("good", first->plugin->name);
    assert_string_equal("evil", second->plugin->name);
    assert_string_not_equal(first->hash, second->hash);
    assert_ok(sr_plugin_open(in_top("a/b/own.so"), first->hash, &again));
    assert_ptr_equal(first, again);
    assert_status(SR_E_USAGE, sr_plugin_open(in_top("other.so"), first->hash, &again));
    assert_message("has changed");
}

static void open_folders(void **state) {
    (void)state;
    sr_plugin_file *file = NULL;
    assert_int_equal(0, chmod(in_top("a"), 0770));
    assert_status(SR_E_USAGE, sr_plugin_open(in_top("a/b/own.so"), NULL, &file));
    assert_message("a folder above it can be written by a group");
    assert_int_equal(0, symlink("a/b", in_top("way")));
    assert_status(SR_E_USAGE, sr_plugin_open(in_top("way/own.so"), NULL, &file));
    assert_message("chmod go-w ");
    assert_message(in_top("a"));
    assert_int_equal(0, chmod(in_top("a"), 0700));
    assert_status(SR_E_NOT_FOUND, sr_plugin_open(in_top("a/b/none.so"), NULL, &file));
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    good = argv[1];
    evil = argv[2];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(another_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_folder, set_up, tear_down),
        cmocka_unit_test_setup_teardown(two_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(open_folders, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
