// SPDX-License-Identifier: Apache-2.0
// Option tables: every type round-trips, and every kind of error is reported.
#include <math.h>
#include <stdbool.h>

#include "kernels/base/options.h"
#include "kernels/base/table.h"
#include "tests/unit/support/test_support.h"

typedef struct everything {
    bool flag;
    int64_t count, size;
    double rate, wait;
    const char *name;
    int mode;
    sr_length length;
    sr_int_list ints;
    sr_float_list floats;
    sr_string_list strings;
    double positive;
    sr_alternative other;
} everything;

// Descriptors, of which the first has an option.
typedef struct thing {
    sr_descriptor head;
    const sr_option_table *options;
} thing;
static const sr_option thing_row = {
    .name = "width", .type = SR_OPT_INT, .default_text = "8", .min = 1, .max = 100};
static const sr_option_table thing_table = {
    .name = "thing.wide", .options = &thing_row, .count = 1, .struct_size = sizeof(int64_t)};
static const thing wide = {.head = {.name = "wide"}, .options = &thing_table};
static const thing bare = {.head = {.name = "bare"}};
static const thing *const things[] = {&wide, &bare};

static const void *all_things(size_t *count) {
    *count = 2;
    return things;
}

static const sr_option_table *options_of(const void *descriptor) {
    return ((const thing *)descriptor)->options;
}

static const sr_alternatives thing_alternatives = {
    .what = "thing", .all = all_things, .options = options_of};

static const char *const modes[] = {"fast", "exact", "balanced", NULL};

#define FIELD(type_, field, ...)                                                                   \
    { .name = #field, .type = type_, .offset = offsetof(everything, field), __VA_ARGS__ }
static const sr_option rows[] = {
    FIELD(SR_OPT_BOOL, flag, .default_text = "true"),
    FIELD(SR_OPT_INT, count, .default_text = "8", .min = 1, .max = 1000000),
    FIELD(SR_OPT_SIZE, size, .default_text = "64MiB", .max = 0x1.0p62),
    FIELD(SR_OPT_FLOAT, rate, .default_text = "0.1", .min = 0, .max = 1),
    FIELD(SR_OPT_DURATION, wait, .default_text = "500ms", .max = 7200),
    FIELD(SR_OPT_STRING, name, .default_text = "resnet50"),
    FIELD(SR_OPT_ENUM, mode, .default_text = "exact", .choices = modes),
    FIELD(SR_OPT_LENGTH, length, .default_text = "90ep"),
    FIELD(SR_OPT_INTS, ints, .default_text = "[30, 60, 80]", .min = 0, .max = 100),
    FIELD(SR_OPT_FLOATS, floats, .default_text = NULL),
    FIELD(SR_OPT_STRINGS, strings, .default_text = "[]"),
    FIELD(SR_OPT_FLOAT, positive, .min = 0, .max = (double)INFINITY),
    FIELD(SR_OPT_ALTERNATIVE, other, .default_text = "wide"),
};
static const sr_option_table table = {.name = "test.all",
                                      .options = rows,
                                      .count = sizeof rows / sizeof *rows,
                                      .struct_size = sizeof(everything),
                                      .alternatives = &thing_alternatives};

static sr_arena arena;
static everything options;

static int set_up(void **state) {
    (void)state;
    sr_arena_init(&arena);
    memset(&options, 0xee, sizeof options);
    return sr_options_defaults(&table, &options, &arena) == SR_OK ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    sr_arena_release(&arena);
    return 0;
}

static sr_status set(const char *name, const char *text) {
    return sr_options_set(&table, &options, name, text, &arena);
}

static void defaults(void **state) {
    (void)state;
    assert_true(options.flag);
    assert_int_equal(8, options.count);
    assert_int_equal(64 << 20, options.size);
    assert_true(options.rate == 0.1 && options.wait == 0.5);
    assert_string_equal("resnet50", options.name);
    assert_int_equal(1, options.mode);
    assert_true(options.length.count == 90.0 && options.length.unit == SR_LENGTH_EPOCHS);
    assert_int_equal(3, options.ints.count);
    assert_int_equal(80, options.ints.items[2]);
    assert_int_equal(0, options.floats.count);
    assert_null(options.floats.items);
    assert_int_equal(0, options.strings.count);
}

// 'text' is parsed, formatted as 'written', and parsed again to the same bits.
static void there_and_back(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"flag", "no", "false"},
        {"flag", "on", "true"},
        {"count", "1e6", "1000000"},
        {"count", " 7 ", "7"},
        {"length", "90%", "90%"},
        {"length", "12.5%", "12.5%"},
        {"length", "3 steps", "3it"},
        {"size", "4096", "4KiB"},
        {"size", "1.5 GiB", "1536MiB"},
        {"size", "1000kB", "1000000B"},
        {"size", "0", "0B"},
        {"size", "9007199254740993", "9007199254740993B"},
        {"size", "3TiB", "3TiB"},
        {"rate", "0.30000000000000004", "0.30000000000000004"},
        {"rate", "1e-3", "0.001"},
        {"wait", "90", "90s"},
        {"wait", "120s", "2min"},
        {"wait", "1.5h", "90min"},
        {"wait", "7200 s", "2h"},
        {"wait", "250us", "0.00025s"},
        {"wait", "1ms", "1ms"},
        {"wait", "0", "0s"},
        {"name", "a b, 'c'", "a b, 'c'"},
        {"name", "", ""},
        {"mode", "fast", "fast"},
        {"length", "5000it", "5000it"},
        {"length", "0.5 epochs", "0.5ep"},
        {"length", "100000samples", "100000samples"},
        {"length", "3 steps", "3it"},
        {"ints", "1,2", "[1, 2]"},
        {"ints", " [ 1 , 2 ] ", "[1, 2]"},
        {"ints", "", "[]"},
        {"ints", "5", "[5]"},
        {"floats", "[0.1, 1e3, -2]", "[0.1, 1000, -2]"},
        {"strings", "[a, 'b, c', \"d\\\"e\"]", "[a, \"b, c\", \"d\\\"e\"]"},
        {"strings", "two words, x", "[two words, x]"},
        {"strings", "['']", "[\"\"]"},
        {"strings", "['\n', ' x']", "[\"\n\", \" x\"]"},
        {"other", "bare", "bare"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const sr_option *row = sr_options_find(&table, cases[i][0]);
        assert_non_null(row);
        sr_text first, second;
        sr_text_init(&first);
        sr_text_init(&second);
        assert_ok(set(cases[i][0], cases[i][1]));
        sr_options_format(row, &options, &first);
        assert_string_equal(cases[i][2], first.data);
        assert_ok(set(cases[i][0], first.data));
        sr_options_format(row, &options, &second);
        assert_string_equal(first.data, second.data);
        sr_text_release(&first);
        sr_text_release(&second);
    }
}

static void errors(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"conut", "1", "test.all: unknown key 'conut'; did you mean 'count'?"},
        {"zzzzzz", "1", "known keys: flag, count"},
        {"flag", "maybe", "test.all.flag: expected true or false, got 'maybe'"},
        {"count", "many", "expected an integer"},
        {"count", "1.5", "expected an integer"},
        {"count", "5x", "expected an integer"},
        {"count", "", "expected an integer"},
        {"count", "99999999999999999999", "expected an integer"},
        {"count", "0", "must be 1 to 1000000, got '0'"},
        {"rate", "nan", "expected a number"},
        {"rate", "0.1.2", "expected a number"},
        {"rate", "2", "must be 0 to 1"},
        {"positive", "-1", "must be at least 0"},
        {"size", "3 parsecs", "expected a size"},
        {"size", "1e30", "expected a size"},
        {"size", "inf", "expected a size"},
        {"size", "5000000TiB", "must be 0B to 4194304TiB, got '5000000TiB'"},
        {"wait", "3h", "must be 0s to 2h, got '3h'"},
        {"wait", "5 fortnights", "expected a duration"},
        {"mode", "fats", "did you mean 'fast'?; one of: fast, exact, balanced"},
        {"mode", "nonsense", "unknown value 'nonsense'; one of"},
        {"length", "90", "expected a length"},
        {"length", "1.5it", "expected a length"},
        {"length", "-1ep", "expected a length"},
        {"ints", "[1, 2", "ends with ']'"},
        {"ints", "[", "ends with ']'"},
        {"ints", "1,,2", "without empty items"},
        {"ints", "[1, 2,]", "without empty items"},
        {"ints", "1, a", "expected a list of integers"},
        {"ints", "1, 101", "must be 0 to 100"},
        {"floats", "1, b", "expected a list of numbers"},
        {"strings", "['a", "expected a"},
        {"strings", "'a' b", "comma"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        everything before = options;
        assert_status(SR_E_USAGE, set(cases[i][0], cases[i][1]));
        assert_message(cases[i][2]);
        assert_memory_equal(&before, &options, sizeof options);
    }
}

static void out_of_memory(void **state) {
    (void)state;
    sr_arena empty;
    sr_arena_init(&empty);
    static const char *const lists[] = {"name", "ints", "floats", "strings"};
    for (size_t i = 0; i < 4; i++) {
        sr_memory_fail_nth(1);
        assert_status(SR_E_MEMORY, sr_options_set(&table, &options, lists[i], "1", &empty));
    }
    sr_memory_fail_nth(0);
    sr_arena_release(&empty);
}

static void alternatives(void **state) {
    (void)state;
    assert_string_equal(options.other.name, "wide");
    assert_int_equal(*(const int64_t *)options.other.options, 8);
    assert_ok(set("other.width", "9"));
    assert_int_equal(*(const int64_t *)options.other.options, 9);
    assert_status(SR_E_USAGE, set("other.width", "0"));
    assert_message("thing.wide.width: must be 1 to 100, got '0'");
    assert_status(SR_E_USAGE, set("other.wdth", "1"));
    assert_message("thing.wide: unknown key 'wdth'; did you mean 'width'?");
    assert_status(SR_E_USAGE, set("other", "wade"));
    assert_message("test.all.other: unknown thing 'wade'; did you mean 'wide'?");
    assert_status(SR_E_USAGE, set("other", "elephant"));
    assert_message("unknown thing 'elephant'; 'serried info things' lists all");
    assert_int_equal(*(const int64_t *)options.other.options, 9);
    assert_ok(set("other", "bare"));
    assert_status(SR_E_USAGE, set("other.width", "9"));
    assert_message("test.all: other 'bare' has no option 'width'");
    assert_ok(set("other", "wide"));
    assert_int_equal(*(const int64_t *)options.other.options, 8); // not what it was before
    assert_null(sr_options_of(&thing_alternatives, "bare"));
    assert_ptr_equal(sr_options_of(&thing_alternatives, "wide"), &thing_table);
}

// For alternatives that have such an option, until another value is set.
static void presets_are_other_defaults(void **state) {
    static const char *const preset[] = {"width", "12", "height", "3", NULL};
    sr_option_table with_preset = table;
    const sr_alternative *other = &options.other;
    (void)state;
    with_preset.preset = preset;
    assert_ok(sr_options_defaults(&with_preset, &options, &arena));
    assert_int_equal(*(const int64_t *)other->options, 12);
    assert_ok(sr_options_set(&with_preset, &options, "other.width", "9", &arena));
    assert_int_equal(*(const int64_t *)other->options, 9);
    assert_ok(sr_options_set(&with_preset, &options, "other", "bare", &arena));
    assert_ok(sr_options_set(&with_preset, &options, "other", "wide", &arena));
    assert_int_equal(*(const int64_t *)other->options, 12);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(presets_are_other_defaults, set_up, tear_down),
        cmocka_unit_test_setup_teardown(defaults, set_up, tear_down),
        cmocka_unit_test_setup_teardown(there_and_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(errors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(alternatives, set_up, tear_down),
        cmocka_unit_test_setup_teardown(out_of_memory, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
