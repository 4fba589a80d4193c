// SPDX-License-Identifier: Apache-2.0
// Libraries that the module for GPUs opens at run time: where they are found, and what is refused.
//
//     test_cuda_library LIBRARY    one with a function sr_plugin_entry
#include "kernels/cuda/cuda_library.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/support/test_support.h"

#define FILE_NAME "libserried-test-packaged.so.13"

static const char *library_path;
static char top[256];

static const sr_cuda_library unopened = {
    .name = "Test", .file = FILE_NAME, .product = "the test", .major = 13, .version = "not found"};

static int make_top(void **state) {
    (void)state;
    test_folder_make(top);
    return 0;
}

static int remove_top(void **state) {
    (void)state;
    test_folder_remove(top);
    return 0;
}

// A virtual environment with a package of NVIDIA's that has the library.
static void make_environment(void) {
    static const char *const folders[] = {"lib",    "python3.11", "site-packages",
                                          "nvidia", "cu13",       "lib"};
    char path[512];
    (void)snprintf(path, sizeof path, "%s", top);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const size_t length = strlen(path);
        (void)snprintf(path + length, sizeof path - length, "/%s", folders[i]);
        assert_int_equal(0, mkdir(path, 0700));
    }
    const size_t length = strlen(path);
    (void)snprintf(path + length, sizeof path - length, "/" FILE_NAME);
    assert_int_equal(0, symlink(library_path, path));
}

static bool open_with(sr_cuda_library *library, const char *name, void **function) {
    const char *const names[] = {"sr_plugin_entry", name};
    void *functions[2] = {NULL, NULL};
    *library = unopened;
    const bool opened = sr_cuda_library_open(library, names, 2, functions);
    *function = functions[0];
    return opened;
}

static void test_places(void **state) {
    (void)state;
    sr_cuda_library library;
    void *function;
    assert_int_equal(0, unsetenv("VIRTUAL_ENV"));
    assert_false(open_with(&library, "sr_plugin_entry", &function));
    assert_string_equal(library.missing,
                        "no " FILE_NAME " was found; install the test, or set LD_LIBRARY_PATH to "
                        "its folder");
    assert_int_equal(0, setenv("VIRTUAL_ENV", top, 1));
    assert_false(open_with(&library, "sr_plugin_entry", &function));
    make_environment();
    assert_true(open_with(&library, "sr_plugin_entry", &function));
    assert_non_null(function);
    assert_string_equal(library.missing, "");
    assert_false(open_with(&library, "sr_absent", &function));
    assert_string_equal(library.missing, FILE_NAME " lacks sr_absent; install the test");
}

static void test_versions(void **state) {
    (void)state;
    sr_cuda_library library = unopened;
    assert_false(sr_cuda_library_accept(&library, 120804));
    assert_string_equal(library.version, "not found");
    assert_string_equal(library.missing, FILE_NAME " is Test 12.8.4, not 13; install the test");
    library = unopened;
    assert_false(sr_cuda_library_accept(&library, 140000));
    library = unopened;
    assert_true(sr_cuda_library_accept(&library, 130100));
    assert_string_equal(library.version, "Test 13.1.0");
}

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    library_path = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_places, make_top, remove_top),
        cmocka_unit_test(test_versions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
