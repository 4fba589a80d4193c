// SPDX-License-Identifier: Apache-2.0
// Symbolic links of a data set: inside it they are allowed, outside of it only where the user names
// them.
#include <unistd.h>

#include "dataio/record/links.h"
#include "kernels/base/file.h"
#include "tests/unit/support/test_support.h"

static char top[256];
static char paths[4][400];

static const char *in_top(const char *name) {
    static unsigned next;
    char *path = paths[next++ % 4];
    (void)snprintf(path, sizeof paths[0], "%s/%s", top, name);
    return path;
}

static int set_up(void **state) {
    (void)state;
    test_folder_make(top);
    assert_ok(sr_make_folders(in_top("set/train")));
    assert_ok(sr_make_folders(in_top("far/deep")));
    assert_ok(sr_make_folders(in_top("set-2"))); // its name begins with the set's name
    assert_int_equal(0, unsetenv(SR_LINKS_VARIABLE));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    test_folder_remove(top);
    return 0;
}

static void put_link(const char *name, const char *target) {
    assert_int_equal(0, symlink(target, in_top(name)));
}

static void refused(const char *link, const char *target) {
    assert_status(SR_E_USAGE, sr_links_check(in_top("set")));
    assert_message(in_top(link));
    assert_message(target);
    assert_message(SR_LINKS_VARIABLE "=");
    assert_int_equal(0, unlink(in_top(link)));
    assert_ok(sr_links_check(in_top("set")));
}

static void links_that_leave(void **state) {
    (void)state;
    assert_ok(sr_links_check(in_top("set")));
    put_link("set/root", "/");
    refused("set/root", "to /;");
    put_link("set/beside", "../far");
    refused("set/beside", "/far;");
    put_link("set/similar", "../set-2");
    refused("set/similar", "/set-2;");
    put_link("set/train/root.data", "../../far/deep"); // in the folder of a split
    refused("set/train/root.data", "/far/deep;");
    put_link("far/again", "/etc"); // through a second link
    put_link("set/chain", "../far/again");
    refused("set/chain", "to /etc;");
}

static void links_that_stay(void **state) {
    (void)state;
    put_link("set/val", "train");
    put_link("set/self", ".");
    put_link("set/nothing", "../far/not-there");
    put_link("linked-set", "set"); // as the user named it
    assert_ok(sr_links_check(in_top("set")));
    assert_ok(sr_links_check(in_top("linked-set")));
    assert_ok(sr_links_check(in_top("not-there/at/all")));
    put_link("beside", "/");
    assert_ok(sr_links_check(in_top("not-there"))); // its neighbours do not belong to it
}

// Where files are written, links to what does not exist yet count, too.
static void links_that_are_written_through(void **state) {
    (void)state;
    static const char *const leaving[] = {
        "../far/not-there",
        "../far/not/there",
        "/nonexistent/at/all",
        "train/../../new",
    };
    static const char *const staying[] = {"new", "train/new", "user@host.123", "new/deep",
                                          "../set/n"};
    assert_ok(sr_links_check_output(in_top("set"), "run folder"));
    for (size_t i = 0; i < sizeof leaving / sizeof *leaving; i++) {
        for (int deep = 0; deep <= 1; deep++) {
            const char *link = deep ? "set/train/log.txt" : "set/log.txt";
            if (deep && i != 2)
                continue; // the others stay inside from there
            put_link(link, leaving[i]);
            assert_status(SR_E_USAGE, sr_links_check_output(in_top("set"), "run folder"));
            assert_message(in_top(link));
            assert_message("leads out of the run folder, to /");
            assert_ok(sr_links_check(in_top("set"))); // nothing is read through it
            assert_int_equal(0, unlink(in_top(link)));
        }
    }
    for (size_t i = 0; i < sizeof staying / sizeof *staying; i++) {
        put_link("set/log.txt", staying[i]);
        assert_ok(sr_links_check_output(in_top("set"), "run folder"));
        assert_int_equal(0, unlink(in_top("set/log.txt")));
    }
    put_link("far/again", "../new"); // through a second link
    put_link("set/chain", "../far/again");
    assert_status(SR_E_USAGE, sr_links_check_output(in_top("set"), "run folder"));
    assert_int_equal(0, setenv(SR_LINKS_VARIABLE, top, 1));
    assert_ok(sr_links_check_output(in_top("set"), "run folder"));
    assert_ok(sr_links_check_output(in_top("not-there"), "run folder"));
}

static void links_that_are_named(void **state) {
    (void)state;
    char named[900];
    put_link("set/one", "../far/deep");
    put_link("alias", "far");
    assert_int_equal(0, setenv(SR_LINKS_VARIABLE, in_top("far/deep"), 1));
    assert_ok(sr_links_check(in_top("set")));
    (void)snprintf(named, sizeof named, "/nowhere::%s:/usr", in_top("alias")); // itself a link
    assert_int_equal(0, setenv(SR_LINKS_VARIABLE, named, 1));
    assert_ok(sr_links_check(in_top("set")));
    assert_int_equal(0, setenv(SR_LINKS_VARIABLE, in_top("far/dee"), 1));
    assert_status(SR_E_USAGE, sr_links_check(in_top("set")));
    assert_int_equal(0, setenv(SR_LINKS_VARIABLE, "/", 1));
    assert_ok(sr_links_check(in_top("set")));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(links_that_leave, set_up, tear_down),
        cmocka_unit_test_setup_teardown(links_that_stay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(links_that_are_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(links_that_are_written_through, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
