// SPDX-License-Identifier: Apache-2.0
// Linked to every test program (cmake/testing.cmake): a program whose cases were all skipped ends
// with the exit code for "not run", not with that of success. The linker directs calls of cmocka's
// functions to those here (--wrap).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define NOT_RUN 77 // SKIP_RETURN_CODE of ctest

// The linker's names. NOLINTBEGIN(bugprone-reserved-identifier)
int __real__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t count,
                                   CMFixtureFunction setup, CMFixtureFunction teardown);
int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t count,
                                   CMFixtureFunction setup, CMFixtureFunction teardown);
void __real__skip(const char *file, int line);
void __wrap__skip(const char *file, int line);

static size_t skipped; // cases of the group

void __wrap__skip(const char *file, int line) {
    skipped++;
    __real__skip(file, line);
}

int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t count,
                                   CMFixtureFunction setup, CMFixtureFunction teardown) {
    skipped = 0;
    const int failed = __real__cmocka_run_group_tests(name, tests, count, setup, teardown);
    return failed == 0 && count > 0 && skipped == count ? NOT_RUN : failed;
}
// NOLINTEND(bugprone-reserved-identifier)
