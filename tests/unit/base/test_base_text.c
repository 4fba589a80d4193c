// SPDX-License-Identifier: Apache-2.0
// Growing strings, JSON output, byte counts, near misses.
#include <math.h>

#include "kernels/base/memory.h"
#include "kernels/base/text.h"
#include "tests/unit/support/test_support.h"

static void grows(void **state) {
    (void)state;
    sr_text text;
    sr_text_init(&text);
    assert_string_equal("", text.data);
    for (int i = 0; i < 1000; i++)
        sr_text_add(&text, "%d,", i % 10);
    assert_ok(sr_text_check(&text));
    assert_int_equal(2000, text.length);
    assert_memory_equal("0,1,2,", text.data, 6);
    sr_text_clear(&text);
    assert_string_equal("", text.data);
    sr_text_add_bytes(&text, "a\0b", 3);
    assert_int_equal(3, text.length);
    assert_memory_equal("a\0b\0", text.data, 4);
    sr_text_release(&text);
    assert_string_equal("", text.data);
}

static void failure_persists(void **state) {
    (void)state;
    sr_text text;
    sr_text_init(&text);
    sr_text_add(&text, "12345");
    sr_memory_fail_nth(1);
    sr_text_add(&text, "%0100d", 1);
    sr_text_add(&text, "more");
    assert_string_equal("12345", text.data);
    assert_status(SR_E_MEMORY, sr_text_check(&text));
    sr_text_clear(&text);
    sr_text_add(&text, "again");
    assert_ok(sr_text_check(&text));
    assert_string_equal("again", text.data);
    sr_text_release(&text);
}

static void json_strings(void **state) {
    (void)state;
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"", "\"\""},
        {"plain", "\"plain\""},
        {"q\" b\\ /", "\"q\\\" b\\\\ /\""},
        {"\b\f\n\r\t\x01\x1f", "\"\\b\\f\\n\\r\\t\\u0001\\u001f\""},
        {"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\""},
        {"a\xff"
         "b",
         "\"a\xef\xbf\xbd"
         "b\""},
        {"\xc3", "\"\xef\xbf\xbd\""},                                 // cut short
        {"\xc0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\""},                 // overlong
        {"\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""}, // surrogate
        {"\xf4\x90\x80\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
        {"\x7f\xc2\x9b\xc2\xa0", "\"\\u007f\\u009b\xc2\xa0\""}, // of terminals
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sr_text text;
        sr_text_init(&text);
        sr_text_add_json_string(&text, cases[i].in);
        assert_string_equal(cases[i].out, text.data);
        sr_text_release(&text);
    }
}

static void utf8(void **state) {
    (void)state;
    static const struct {
        const char *in, *visible;
        bool valid;
    } cases[] = {
        {"", "", true},
        {"caf\xc3\xa9", "caf\xc3\xa9", true},
        {"caf\xe9", "caf\\xe9", false},
        {"a\x1b[31m\n", "a\\x1b[31m\\x0a", true},
        {"\xc2\x9b"
         "31m\xc2\xa0\x7f",
         "\\x9b31m\xc2\xa0\\x7f", true}, // CSI of one character
        {"\xf0\x9f\x90\xb1", "\xf0\x9f\x90\xb1", true},
        {"\xed\xa0\x80", "\\xed\\xa0\\x80", false}, // a surrogate
        {"\xc3", "\\xc3", false},                   // cut off
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sr_text text;
        sr_text_init(&text);
        sr_text_add_visible(&text, cases[i].in);
        assert_string_equal(cases[i].visible, text.data);
        assert_int_equal(cases[i].valid, sr_text_is_utf8(cases[i].in));
        sr_text_release(&text);
    }
}

static void csv_cells(void **state) {
    (void)state;
    static const char *const cases[][2] = {{"a b", "a b"},
                                           {"", ""},
                                           {"a,b", "\"a,b\""},
                                           {"a\"b", "\"a\"\"b\""},
                                           {"a\nb\x1b", "a\\x0ab\\x1b"},
                                           {"\xe9", "\\xe9"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sr_text text;
        sr_text_init(&text);
        sr_text_add_csv_cell(&text, cases[i][0]);
        assert_string_equal(cases[i][1], text.data);
        sr_text_release(&text);
    }
}

static void visible_messages(void **state) {
    (void)state;
    char out[32];
    assert_string_equal("a\n\tb\\x1b\\xff\\x0d",
                        sr_text_visible_message("a\n\tb\x1b\xff\r", out, sizeof out));
    assert_string_equal("caf",
                        sr_text_visible_message("caf\xc3\xa9", out, 5)); // not half a character
    assert_string_equal("caf\xc3\xa9", sr_text_visible_message("caf\xc3\xa9", out, 6));
    assert_string_equal("", sr_text_visible_message("\x1b", out, 4));
}

static void json_numbers(void **state) {
    (void)state;
    static const double values[] = {0.0,       -0.0,
                                    1.0,       0.1,
                                    1.0 / 3.0, 1e300,
                                    5e-324,    123456789012345680.0,
                                    -2.5,      0.30000000000000004};
    sr_text text;
    sr_text_init(&text);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        sr_text_clear(&text);
        sr_text_add_json_number(&text, values[i]);
        assert_true(strtod(text.data, NULL) == values[i]);
    }
    sr_text_clear(&text);
    sr_text_add_json_number(&text, 0.1);
    assert_string_equal("0.1", text.data);
    sr_text_clear(&text);
    sr_text_add_json_number(&text, (double)NAN);
    sr_text_add_json_number(&text, (double)-INFINITY);
    assert_string_equal("nullnull", text.data);
    sr_text_release(&text);
}

static void json_members(void **state) {
    (void)state;
    sr_text text;
    sr_text_init(&text);
    sr_text_add_json_string_member(&text, "a", "\"x\"");
    sr_text_add_json_string_member(&text, "b", NULL);
    sr_text_add_json_number_member(&text, "c", 0.5);
    assert_string_equal(text.data, ", \"a\": \"\\\"x\\\"\", \"b\": null, \"c\": 0.5");
    sr_text_release(&text);
}

static void byte_counts(void **state) {
    (void)state;
    char out[16];
    assert_string_equal("0 B", sr_text_bytes(0, out));
    assert_string_equal("1023 B", sr_text_bytes(1023, out));
    assert_string_equal("1.0 KiB", sr_text_bytes(1024, out));
    assert_string_equal("1.5 GiB", sr_text_bytes(UINT64_C(3) << 29, out));
    assert_string_equal("1.0 MiB", sr_text_bytes((1 << 20) - 1, out));
    assert_string_equal("16.0 EiB", sr_text_bytes(UINT64_MAX, out));
}

static void near_misses(void **state) {
    (void)state;
    static const char *const words[] = {"momentum", "weight_decay", "lr", "nesterov", "batch"};
    assert_string_equal("momentum", sr_text_nearest("momemtum", words, 5));
    assert_string_equal("momentum", sr_text_nearest("momentmu", words, 5)); // a swap counts once
    assert_string_equal("lr", sr_text_nearest("lt", words, 5));
    assert_string_equal("weight_decay", sr_text_nearest("weightdecay", words, 5));
    assert_string_equal("batch", sr_text_nearest("batch", words, 5));
    assert_null(sr_text_nearest("optimizer", words, 5));
    assert_null(sr_text_nearest("xy", words, 5));
    char longer[200];
    memset(longer, 'm', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_null(sr_text_nearest(longer, words, 5));
    assert_null(sr_text_nearest("lr", words, 0));
    // Case, dashes and underscores do not count.
    static const char *const names[] = {"adam", "adamw", "mobilenet-v3-large"};
    assert_string_equal("adamw", sr_text_nearest("adamW", names, 3));
    assert_string_equal("mobilenet-v3-large", sr_text_nearest("MobileNet_V3_large", names, 3));
    // What continues a word is nearer than what differs from it.
    static const char *const models[] = {"resnet50", "resnext50_32x4d", "mobilenet_v2",
                                         "mobilenet_v3_small", "mobilenet_v3_large"};
    assert_string_equal("resnext50_32x4d", sr_text_nearest("ResNeXt50", models, 5));
    assert_string_equal("resnet50", sr_text_nearest("resnet", models, 5));
    assert_string_equal("mobilenet_v3_small", sr_text_nearest("mobilenet_v3_sma", models, 5));
    assert_null(sr_text_nearest("mobilenet_v3", models, 5)); // several, and none near
    assert_string_equal("resnet50", sr_text_nearest("resnet5O", models, 5));
    assert_true(sr_text_same_word("Weight-Decay", "weight_decay"));
    assert_false(sr_text_same_word("adam", "adamw"));
    assert_false(sr_text_same_word(longer, longer));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows),        cmocka_unit_test(failure_persists),
        cmocka_unit_test(json_strings), cmocka_unit_test(json_numbers),
        cmocka_unit_test(json_members), cmocka_unit_test(utf8),
        cmocka_unit_test(csv_cells),    cmocka_unit_test(visible_messages),
        cmocka_unit_test(byte_counts),  cmocka_unit_test(near_misses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
