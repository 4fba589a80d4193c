// SPDX-License-Identifier: Apache-2.0
// Statuses, messages, prefixes and adopted messages, per thread.
#include <pthread.h>

#include "tests/unit/support/test_support.h"

static sr_status fail_at(int value) {
    return SR_FAIL(SR_E_DATA, "record %d: wrong", value);
}

static sr_status forward(int value) {
    SR_TRY(fail_at(value));
    return SR_OK;
}

static sr_status clean_up(int *cleaned) {
    sr_status status;
    SR_TRY_GOTO(fail_at(1), out);
    return SR_OK;
out:
    *cleaned = 1;
    return status;
}

static void message_and_location(void **state) {
    (void)state;
    assert_status(SR_E_DATA, forward(7));
    assert_string_equal("record 7: wrong", sr_error_message());
    assert_non_null(strstr(sr_error_where(), "test_base_status.c:"));
    int cleaned = 0;
    assert_status(SR_E_DATA, clean_up(&cleaned));
    assert_int_equal(1, cleaned);
}

static void prefix_and_adopt(void **state) {
    (void)state;
    (void)fail_at(3);
    sr_error_prefix("shard %s", "a.kpl");
    assert_string_equal("shard a.kpl: record 3: wrong", sr_error_message());
    (void)SR_FAIL(SR_E_IO, "again: %s", sr_error_message()); // arguments may alias the message
    assert_string_equal("again: shard a.kpl: record 3: wrong", sr_error_message());
    assert_status(SR_E_PEER, sr_error_adopt(SR_E_PEER, "peer.c:1", "rank 2 died"));
    assert_string_equal("rank 2 died", sr_error_message());
    assert_string_equal("peer.c:1", sr_error_where());
}

// The first of several failures is kept, and can be restored later and on another thread.
static void the_first_failure_is_kept(void **state) {
    (void)state;
    sr_kept_error kept = {.status = SR_OK};
    (void)SR_FAIL(SR_E_IO, "an error of something else");
    sr_error_keep(&kept, SR_OK);
    assert_status(SR_OK, sr_error_restore(&kept));
    assert_string_equal("an error of something else", sr_error_message());
    sr_error_keep(&kept, fail_at(4));
    sr_error_keep(&kept, fail_at(5));
    sr_error_keep(&kept, sr_error_adopt(SR_E_PEER, "peer.c:1", "rank 2 died"));
    assert_status(SR_E_DATA, sr_error_restore(&kept));
    assert_string_equal("record 4: wrong", sr_error_message());
    assert_non_null(strstr(sr_error_where(), "test_base_status.c:"));
    kept.status = SR_OK; // room for the next one
    sr_error_keep(&kept, fail_at(6));
    (void)fail_at(7);
    assert_status(SR_E_DATA, sr_error_restore(&kept));
    assert_string_equal("record 6: wrong", sr_error_message());
}

static void long_messages_are_cut(void **state) {
    (void)state;
    char text[5000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    (void)SR_FAIL(SR_E_DATA, "%s", text);
    size_t n = strlen(sr_error_message());
    assert_true(n > 1000 && n < sizeof text);
    assert_string_equal("...", sr_error_message() + n - 3);
    sr_error_prefix("p");
    assert_memory_equal("p: x", sr_error_message(), 4);
    assert_string_equal("...", sr_error_message() + n - 3);
    sr_error_prefix("%s", text);
    assert_string_equal("...", sr_error_message() + n - 3);
}

static void *fail_elsewhere(void *argument) {
    (void)argument;
    (void)fail_at(99);
    return NULL;
}

static void message_belongs_to_thread(void **state) {
    (void)state;
    (void)fail_at(1);
    pthread_t thread;
    assert_int_equal(0, pthread_create(&thread, NULL, fail_elsewhere, NULL));
    assert_int_equal(0, pthread_join(thread, NULL));
    assert_string_equal("record 1: wrong", sr_error_message());
}

static void names_and_exit_codes(void **state) {
    (void)state;
    assert_string_equal("SR_E_NON_FINITE", sr_status_name(SR_E_NON_FINITE));
    assert_string_equal("SR_E_?", sr_status_name((sr_status)9999));
    static const struct {
        sr_status status;
        int code;
    } cases[] = {{SR_OK, 0},         {SR_E_IO, 1},         {SR_E_USAGE, 2}, {SR_E_CHECKSUM, 3},
                 {SR_E_NUMERICS, 4}, {SR_E_NON_FINITE, 5}, {SR_E_PEER, 6},  {SR_E_INTERRUPTED, 75}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(cases[i].code, sr_status_exit_code(cases[i].status));
    assert_int_equal(1, sr_status_exit_code((sr_status)9999));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(message_and_location),      cmocka_unit_test(prefix_and_adopt),
        cmocka_unit_test(the_first_failure_is_kept), cmocka_unit_test(long_messages_are_cut),
        cmocka_unit_test(message_belongs_to_thread), cmocka_unit_test(names_and_exit_codes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
