// SPDX-License-Identifier: Apache-2.0
// JSON trees: values and order, exact integers, and every refusal with its reason.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "trainer/checkpoint/json_tree.h"

static void parses_values(void **state) {
    (void)state;
    static const char text[] = "{\"a\": [1, -2, 3.5, true, null, \"x\\u00e9\"], \"b\": {\"c\": "
                               "9007199254740993}, \"u\": 18446744073709551615}";
    sr_arena arena;
    const sr_json *root;
    int64_t i;
    uint64_t u;
    double d;
    sr_arena_init(&arena);
    assert_int_equal(sr_json_parse(text, strlen(text), 100, "t", &arena, &root), SR_OK);
    assert_int_equal(root->count, 3);
    const sr_json *a = sr_json_get(root, "a");
    assert_int_equal(a->count, 6);
    assert_true(sr_json_int64(a->first, &i) && i == 1);
    assert_true(sr_json_int64(a->first->next, &i) && i == -2);
    assert_false(sr_json_uint64(a->first->next, &u));
    const sr_json *fraction = a->first->next->next;
    assert_false(sr_json_int64(fraction, &i));
    assert_true(sr_json_double(fraction, &d) && d == 3.5);
    assert_string_equal(fraction->next->text, "true");
    assert_int_equal(fraction->next->next->type, SR_JSON_NULL);
    assert_string_equal(sr_json_string(fraction->next->next->next), "x\xc3\xa9");
    // 2^53 + 1 is kept exactly: it is never converted to a double.
    assert_true(sr_json_int64(sr_json_get(sr_json_get(root, "b"), "c"), &i));
    assert_true(i == INT64_C(9007199254740993));
    assert_true(sr_json_uint64(sr_json_get(root, "u"), &u) && u == UINT64_MAX);
    assert_false(sr_json_int64(sr_json_get(root, "u"), &i));
    assert_null(sr_json_get(root, "none"));
    assert_null(sr_json_string(NULL));
    sr_arena_release(&arena);
}

static void refuse(const char *text, size_t bytes, sr_status expected, const char *word) {
    sr_arena arena;
    const sr_json *root;
    sr_arena_init(&arena);
    assert_int_equal(sr_json_parse(text, bytes, 20, "thing", &arena, &root), expected);
    assert_non_null(strstr(sr_error_message(), "thing"));
    if (strstr(sr_error_message(), word) == NULL)
        fail_msg("'%s' lacks '%s'", sr_error_message(), word);
    sr_arena_release(&arena);
}

static void refuses_the_rest(void **state) {
    (void)state;
#define REFUSE(text, code, word) refuse(text, sizeof(text) - 1, code, word)
    REFUSE("{\"a\":1,\"b\":2,\"a\":3}", SR_E_DATA, "duplicate key");
    REFUSE("{\"a\":[{\"x\":1,\"x\":1}]}", SR_E_DATA, "duplicate key");
    REFUSE("[\"a\\u0000b\"]", SR_E_DATA, "zero byte");
    REFUSE("[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]", SR_E_DATA, "deep");
    REFUSE("[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]", SR_E_LIMIT, "more values");
    REFUSE("{\"a\":1} x", SR_E_DATA, "byte");
    REFUSE("{\"a\":", SR_E_DATA, "invalid");
    REFUSE("[\"\xff\"]", SR_E_DATA, "invalid");
    REFUSE("", SR_E_DATA, "");
}

static void survives_failing_memory(void **state) {
    (void)state;
    static const char text[] = "{\"a\":{\"b\":1,\"c\":[2]},\"d\":\"e\"}";
    for (uint64_t n = 1; n < 4; ++n) {
        sr_arena arena;
        const sr_json *root;
        sr_arena_init(&arena);
        sr_memory_fail_nth(n);
        sr_status status = sr_json_parse(text, strlen(text), 100, "t", &arena, &root);
        sr_memory_fail_nth(0);
        assert_true(status == SR_OK || status == SR_E_MEMORY);
        assert_true(n > 1 || status == SR_E_MEMORY);
        sr_arena_release(&arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parses_values),
        cmocka_unit_test(refuses_the_rest),
        cmocka_unit_test(survives_failing_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
