// SPDX-License-Identifier: Apache-2.0
// What every unit test includes: cmocka with its prerequisites, statuses, and temporary folders.
#ifndef SR_TESTS_UNIT_TEST_SUPPORT_H
#define SR_TESTS_UNIT_TEST_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/base/file.h"
#include "kernels/base/memory.h"
#include "kernels/base/status.h"

// Fails the test with the message of the error.
#define assert_ok(expr)                                                                            \
    do {                                                                                           \
        sr_status assert_ok_status_ = (expr);                                                      \
        if (assert_ok_status_ != SR_OK)                                                            \
            fail_msg("%s: %s (%s, %s)", #expr, sr_error_message(),                                 \
                     sr_status_name(assert_ok_status_), sr_error_where());                         \
    } while (0)

#define assert_status(expected, expr) assert_int_equal(expected, expr)

// Asserts that the message of the last error contains this text.
#define assert_message(part)                                                                       \
    do {                                                                                           \
        if (strstr(sr_error_message(), part) == NULL)                                              \
            fail_msg("message '%s' lacks '%s'", sr_error_message(), part);                         \
    } while (0)

// Ends the case as one that cannot run here. tests/run repeats the reason in its last line.
static inline void test_skip(const char *why) {
    print_message("NOT RUN: %s\n", why);
    skip();
}

// Creates a folder under $TMPDIR or /tmp, whose path is stored in out[256]; test_folder_remove
// removes it with all its contents.
static inline void test_folder_make(char *out) {
    const char *root = getenv("TMPDIR");
    (void)snprintf(out, 256, "%s/serried-test-XXXXXX", root ? root : "/tmp");
    assert_non_null(mkdtemp(out));
}

static inline void test_folder_remove(const char *folder) {
    char command[300];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", folder);
    assert_int_equal(0, system(command)); // NOLINT(cert-env33-c): our own path
}

// Asserts that the file consists of this text.
static inline void test_assert_content(const char *path, const char *wanted) {
    void *data = NULL;
    size_t bytes = 0;
    assert_ok(sr_file_read(path, 1 << 20, &data, &bytes));
    assert_string_equal(wanted, data);
    assert_int_equal(strlen(wanted), bytes);
    sr_free(data);
}

#endif
