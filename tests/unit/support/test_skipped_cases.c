// SPDX-License-Identifier: Apache-2.0
// What a test program ends with if all, some or none of its cases are skipped, or one fails. Each
// is this program itself, with the cases that its arguments name.
#include "tests/unit/support/test_support.h"

#include <sys/wait.h>

static const char *self;

static int run(const char *cases) {
    char command[1024];
    (void)snprintf(command, sizeof command, "'%s' %s >/dev/null 2>&1", self, cases);
    const int status = system(command); // NOLINT(cert-env33-c): our own path
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_all_skipped_is_not_run(void **state) {
    (void)state;
    assert_int_equal(77, run("skip"));
    assert_int_equal(77, run("skip skip skip"));
}

static void test_some_skipped_is_passed(void **state) {
    (void)state;
    assert_int_equal(0, run("pass"));
    assert_int_equal(0, run("skip pass"));
    assert_int_equal(0, run("pass skip skip"));
}

static void test_failed_is_failed(void **state) {
    (void)state;
    assert_int_equal(1, run("fail"));
    assert_int_equal(1, run("skip fail"));
    assert_int_equal(2, run("fail skip pass fail"));
}

static void one_skip(void **state) {
    (void)state;
    test_skip("a case for test_skipped_cases");
}
static void one_pass(void **state) {
    (void)state;
}
static void one_fail(void **state) {
    (void)state;
    fail();
}

static int run_cases(int count, char **names) {
    struct CMUnitTest tests[4];
    for (int i = 0; i < count; i++) {
        const CMUnitTestFunction function = strcmp(names[i], "skip") == 0   ? one_skip
                                            : strcmp(names[i], "pass") == 0 ? one_pass
                                                                            : one_fail;
        tests[i] = (struct CMUnitTest){.name = names[i], .test_func = function};
    }
    return _cmocka_run_group_tests("cases", tests, (size_t)count, NULL, NULL);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_skipped_is_not_run),
        cmocka_unit_test(test_some_skipped_is_passed),
        cmocka_unit_test(test_failed_is_failed),
    };
    self = argv[0];
    return argc > 1 && argc <= 5 ? run_cases(argc - 1, argv + 1)
                                 : cmocka_run_group_tests(tests, NULL, NULL);
}
