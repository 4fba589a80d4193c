// SPDX-License-Identifier: Apache-2.0
// Event files: known bytes, and an event that does not fit on the disk (tests/dist/check_events.py
// reads the files of runs).
#include <glob.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "tests/unit/support/test_support.h"
#include "trainer/report/event_file.h"

static char folder[256];

static int set_up(void **state) {
    (void)state;
    sr_log_set_level(SR_LOG_ERROR);
    test_folder_make(folder);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    test_folder_remove(folder);
    return 0;
}

// Reads and removes the only file; freed with sr_free.
static uint8_t *take_file(size_t *bytes) {
    glob_t found;
    void *data;
    char pattern[300];
    (void)snprintf(pattern, sizeof pattern, "%s/events.out.tfevents.*.0", folder);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    assert_ok(sr_file_read(found.gl_pathv[0], 1 << 20, &data, bytes));
    assert_int_equal(unlink(found.gl_pathv[0]), 0);
    globfree(&found);
    return data;
}

// Where a record ends, and where its event's content (after time and step of one byte) begins.
static const uint8_t *next_record(const uint8_t *record, const uint8_t **content) {
    uint64_t length;
    memcpy(&length, record, sizeof length);
    *content = record + 12 + 9 + 2;
    return record + 12 + length + 4;
}

static void known_bytes(void **state) {
    // field 3 (version); field 7 (session), status 1; field 5 (summary) with one value, "a", 0.5
    static const uint8_t version[] = "\x1a\x0d"
                                     "brain.Event:2",
                         session[] = "\x3a\x02\x08\x01",
                         scalars[] = "\x2a\x0a\x0a\x08\x0a\x01"
                                     "a\x15\x00\x00\x00\x3f";
    static const char *const names[] = {"a", "b"};
    sr_event_file *file;
    size_t bytes;
    (void)state;
    assert_ok(sr_event_file_create(folder, 7, &file));
    sr_event_file_add_scalars(file, 9, names, (double[]){0.5, (double)NAN}, 2);
    sr_event_file_add_scalars(file, 9, names, (double[]){(double)NAN}, 1); // nothing to be written
    sr_event_file_free(file);
    uint8_t *data = take_file(&bytes);
    const uint8_t *content, *at = next_record(data, &content);
    assert_memory_equal(content, version, sizeof version - 1);
    assert_memory_equal(content - 2, "\x10\x00", 2);
    at = next_record(at, &content);
    assert_memory_equal(content, session, sizeof session - 1);
    assert_memory_equal(content - 2, "\x10\x07", 2);
    at = next_record(at, &content);
    assert_memory_equal(content, scalars, sizeof scalars - 1);
    assert_memory_equal(content - 2, "\x10\x09", 2);
    assert_ptr_equal(at, data + bytes);
    sr_free(data);
}

static void an_event_that_does_not_fit_is_left_out(void **state) {
    static const char *const names[] = {"a"};
    char big[1000];
    const sr_event_setting setting = {.name = "note", .type = SR_EVENT_STRING, .text = big};
    struct rlimit old, small;
    sr_event_file *file;
    size_t before, bytes;
    (void)state;
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    assert_ok(sr_event_file_create(folder, 0, &file));
    sr_event_file_add_scalars(file, 1, names, (double[]){1}, 1);
    sr_event_file_add_scalars(file, 2, names, (double[]){2}, 1);
    sr_event_file_free(file);
    sr_free(take_file(&before));

    assert_ok(sr_event_file_create(folder, 0, &file));
    sr_event_file_add_scalars(file, 1, names, (double[]){1}, 1);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = (struct rlimit){.rlim_cur = 500, .rlim_max = old.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    sr_event_file_add_settings(file, &setting, 1); // half of it would be written
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    (void)signal(SIGXFSZ, handler);
    sr_event_file_add_scalars(file, 2, names, (double[]){2}, 1);
    sr_event_file_free(file);
    uint8_t *data = take_file(&bytes);
    const uint8_t *content, *at = data;
    for (int i = 0; i < 4; i++)
        at = next_record(at, &content);
    assert_ptr_equal(at, data + bytes);
    assert_memory_equal(content - 2, "\x10\x02", 2);
    assert_int_equal(bytes, before);
    sr_free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_bytes),
        cmocka_unit_test(an_event_that_does_not_fit_is_left_out),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
