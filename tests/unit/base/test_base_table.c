// SPDX-License-Identifier: Apache-2.0
// Tables of descriptors: order, lookup, and which descriptors are refused.
#include "kernels/base/table.h"

#include "kernels/base/memory.h"
#include "tests/unit/support/test_support.h"

typedef struct thing {
    uint32_t struct_size, abi;
    const char *name, *help;
    int value;
} thing;

#define THING(text, number)                                                                        \
    { .struct_size = sizeof(thing), .abi = 3, .name = (text), .value = (number) }

static const thing one = THING("one", 1), two = THING("two", 2), three = THING("three", 3);
static const thing *const built_in[] = {&one, &two};

static sr_status check(const void *descriptor) {
    const thing *t = descriptor;
    return t->value >= 0 ? SR_OK : SR_FAIL(SR_E_USAGE, "it is negative");
}

static sr_table make(void) {
    return (sr_table){.what = "thing",
                      .struct_size = sizeof(thing),
                      .abi = 3,
                      .built_in = built_in,
                      .built_in_count = 2,
                      .check = check};
}

static void release(sr_table *table) {
    sr_free(table->all);
    sr_free(table->origins);
}

static void test_order(void **state) {
    const thing *const more[] = {&three, NULL};
    sr_table table = make();
    size_t count;
    (void)state;
    const thing *const *all = sr_table_all(&table, &count);
    assert_int_equal(count, 2);
    assert_ptr_equal(all[1], &two);
    assert_ok(sr_table_add(&table, NULL, "nobody"));
    assert_ok(sr_table_add(&table, more, "more.so"));
    all = sr_table_all(&table, &count);
    assert_int_equal(count, 3);
    assert_ptr_equal(all[0], &one);
    assert_ptr_equal(all[2], &three);
    assert_ptr_equal(sr_table_find(&table, "three"), &three);
    assert_null(sr_table_find(&table, "four"));
    assert_string_equal(sr_table_item(all, 1).name, "two");
    release(&table);
}

static void test_choose(void **state) {
    sr_table table = make();
    const void *found = NULL;
    (void)state;
    assert_ok(sr_table_choose(&table, "two", &found));
    assert_ptr_equal(found, &two);
    assert_int_equal(sr_table_choose(&table, "tow", &found), SR_E_USAGE);
    assert_message("unknown thing 'tow'; did you mean 'two'?");
    assert_int_equal(sr_table_choose(&table, "something", &found), SR_E_USAGE);
    assert_message("see 'serried info things'");
}

// A list with one invalid descriptor is refused as a whole, with this message.
static void refuse(thing wrong, sr_status status, const char *words) {
    const thing *const list[] = {&three, &wrong, NULL};
    sr_table table = make();
    size_t count;
    assert_int_equal(sr_table_add(&table, list, "x.so"), status);
    assert_message(words);
    const thing *const *all = sr_table_all(&table, &count);
    assert_int_equal(count, 2);
    assert_ptr_equal(all[0], &one);
    assert_null(sr_table_find(&table, "three"));
    const thing *const good[] = {&three, NULL};
    assert_ok(sr_table_add(&table, good, "y.so"));
    assert_int_equal(sr_table_add(&table, good, "z.so"), SR_E_USAGE);
    assert_non_null(
        strstr(sr_error_message(), "z.so: the thing 'three' exists already, from y.so"));
    release(&table);
}

static void test_refusals(void **state) {
    (void)state;
    thing t = THING("four", 4);
    t.abi = 2;
    refuse(t, SR_E_UNSUPPORTED, "x.so: a thing for interface 2, but this serried has interface 3");
    t = (thing)THING("four", 4);
    t.struct_size = 8;
    refuse(t, SR_E_UNSUPPORTED, "x.so: the descriptor of a thing has 8 bytes, but this serried's");
    refuse((thing)THING("", 4), SR_E_USAGE, "x.so: a thing has no name");
    refuse((thing)THING(NULL, 4), SR_E_USAGE, "x.so: a thing has no name");
    refuse((thing)THING("one", 4), SR_E_USAGE,
           "x.so: the thing 'one' exists already, from serried itself");
    refuse((thing)THING("three", 4), SR_E_USAGE, "the thing 'three' exists already, from x.so");
    refuse((thing)THING("four", -1), SR_E_USAGE, "x.so: thing 'four': it is negative");
}

// Every allocation of an addition may fail; the table is then unchanged.
static void test_memory(void **state) {
    const thing *const list[] = {&three, NULL};
    (void)state;
    for (uint64_t n = 1; n <= 2; n++) {
        sr_table table = make();
        size_t count;
        sr_memory_fail_nth(n);
        assert_int_equal(sr_table_add(&table, list, "x.so"), SR_E_MEMORY);
        sr_memory_fail_nth(0);
        (void)sr_table_all(&table, &count);
        assert_int_equal(count, 2);
        assert_null(sr_table_find(&table, "three"));
        assert_ok(sr_table_add(&table, list, "x.so"));
        assert_ptr_equal(sr_table_find(&table, "three"), &three);
        release(&table);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_choose),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
