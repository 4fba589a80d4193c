// SPDX-License-Identifier: Apache-2.0
// Counting, alignment, growth, injected failures, arenas.
#include "kernels/base/memory.h"
#include "kernels/base/memory_owners.h"
#include "tests/unit/support/test_support.h"

static void aligned_zeroed_counted(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4096, (1 << 20) - 1, 1 << 20, (1 << 20) + 5};
    sr_memory_stats before = sr_memory_get_stats();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *memory = sr_alloc(sizes[i], "a test");
        assert_non_null(memory);
        assert_int_equal(0, (uintptr_t)memory % 64);
        for (size_t j = 0; j < sizes[i]; j++)
            if (memory[j] != 0)
                fail_msg("byte %zu of %zu is not zero", j, sizes[i]);
        memset(memory, 0xff, sizes[i]);
        assert_int_equal(before.live_bytes + sizes[i], sr_memory_get_stats().live_bytes);
        sr_free(memory);
    }
    sr_free(NULL);
    sr_memory_stats after = sr_memory_get_stats();
    assert_int_equal(before.allocations + 9, after.allocations);
    assert_int_equal(before.live_blocks, after.live_blocks);
    assert_int_equal(before.live_bytes, after.live_bytes);
    assert_true(after.peak_bytes >= before.live_bytes + (1 << 20) + 5);
}

static sr_memory_owner owner_of(const char *what) {
    static sr_memory_owner rows[SR_MEMORY_OWNERS];
    const size_t count = sr_memory_get_owners(rows);
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].what, what) == 0)
            return rows[i];
    return (sr_memory_owner){.what = NULL};
}

static void counted_by_owner(void **state) {
    (void)state;
    assert_null(owner_of("owner of a test").what);
    void *first = sr_alloc(100, "owner of a test"), *second = sr_alloc(23, "owner of a test");
    assert_int_equal(2, owner_of("owner of a test").blocks);
    assert_int_equal(123, owner_of("owner of a test").bytes);
    sr_free(first);
    second = sr_realloc(second, 23, 40, "another owner");
    assert_int_equal(0, owner_of("owner of a test").bytes);
    assert_int_equal(0, owner_of("owner of a test").blocks);
    assert_int_equal(123, owner_of("owner of a test").peak_bytes);
    assert_int_equal(40, owner_of("another owner").bytes);
    sr_free(second);
}

// There are more names than table entries: those that come later are counted together.
static void owners_are_bounded(void **state) {
    (void)state;
    enum { NAMES = 2 * SR_MEMORY_OWNERS };
    static void *blocks[NAMES];
    static sr_memory_owner rows[SR_MEMORY_OWNERS];
    for (int i = 0; i < NAMES; i++) {
        char name[2 * SR_MEMORY_OWNER_BYTES];
        (void)snprintf(name, sizeof name, "%d: a name that is longer than what is kept of it", i);
        blocks[i] = sr_alloc(10, name);
    }
    assert_int_equal(SR_MEMORY_OWNERS, sr_memory_get_owners(rows));
    assert_true(owner_of("others").bytes >= 10 * (NAMES - SR_MEMORY_OWNERS));
    for (int i = 0; i < NAMES; i++)
        sr_free(blocks[i]);
    assert_int_equal(0, owner_of("others").bytes);
    assert_int_equal(SR_MEMORY_OWNERS, sr_memory_get_owners(rows));
}

static void overflow_is_refused(void **state) {
    (void)state;
    assert_null(sr_alloc_array(SIZE_MAX / 2, 4, "a test"));
    assert_message("overflow");
    assert_null(sr_alloc(SIZE_MAX - 10, "the moon"));
    assert_message("the moon");
    void *array = NULL;
    size_t capacity = 0;
    assert_status(SR_E_MEMORY, sr_grow(&array, &capacity, SIZE_MAX / 2, 8, "a test"));
    assert_null(array);
}

static void realloc_keeps_and_zeroes(void **state) {
    (void)state;
    char *memory = sr_alloc(4, "a test");
    memcpy(memory, "abc", 4);
    memory = sr_realloc(memory, 4, 100, "a test");
    assert_string_equal("abc", memory);
    for (int i = 4; i < 100; i++)
        assert_int_equal(0, memory[i]);
    memory = sr_realloc(memory, 100, 2, "a test");
    assert_memory_equal("ab", memory, 2);
    sr_memory_fail_nth(1);
    assert_null(sr_realloc(memory, 2, 50, "a test"));
    assert_memory_equal("ab", memory, 2);
    sr_free(memory);
}

static void grow_doubles(void **state) {
    (void)state;
    int *array = NULL;
    size_t capacity = 0;
    uint64_t before = sr_memory_get_stats().allocations;
    for (int i = 0; i < 1000; i++) {
        assert_ok(sr_grow((void **)&array, &capacity, (size_t)i + 1, sizeof *array, "a test"));
        array[i] = i;
    }
    assert_int_equal(1024, capacity);
    assert_int_equal(8, sr_memory_get_stats().allocations - before); // 8, 16, ... 1024
    for (int i = 0; i < 1000; i++)
        assert_int_equal(i, array[i]);
    sr_free(array);
}

static void nth_fails_once(void **state) {
    (void)state;
    sr_memory_fail_nth(3);
    void *a = sr_alloc(1, "a"), *b = sr_alloc(1, "b"), *c = sr_alloc(1, "c"), *d = sr_alloc(1, "d");
    assert_true(a && b && d);
    assert_null(c);
    assert_message("for c");
    sr_free(a);
    sr_free(b);
    sr_free(d);
    sr_memory_fail_nth(1);
    sr_memory_fail_nth(0);
    char *text = sr_strdup("hello");
    assert_string_equal("hello", text);
    sr_free(text);
    sr_memory_fail_nth(1);
    assert_null(sr_strdup("hello"));
}

// Repeated use of an arena allocates nothing after the first round, whatever the order of sizes.
static void arena_is_steady(void **state) {
    (void)state;
    sr_arena arena;
    sr_arena_init(&arena);
    uint64_t allocations = 0;
    for (int round = 0; round < 4; round++) {
        for (size_t i = 0; i < 200; i++) {
            size_t bytes = i % 17 == 0 ? 30000 : i * 3;
            unsigned char *memory = sr_arena_alloc(&arena, bytes);
            assert_non_null(memory);
            assert_int_equal(0, (uintptr_t)memory % 16);
            for (size_t j = 0; j < bytes; j++)
                if (memory[j] != 0)
                    fail_msg("round %d: byte %zu is not zero", round, j);
            memset(memory, 0xaa, bytes);
        }
        uint64_t now = sr_memory_get_stats().allocations;
        if (round > 0)
            assert_int_equal(allocations, now);
        assert_string_equal("kept", sr_arena_strdup(&arena, "kept"));
        allocations = sr_memory_get_stats().allocations;
        sr_arena_reset(&arena);
    }
    uint64_t live = sr_memory_get_stats().live_blocks;
    sr_arena_release(&arena);
    assert_true(sr_memory_get_stats().live_blocks < live);
    sr_arena_release(&arena); // twice is legal
}

static void arena_failure_is_an_error(void **state) {
    (void)state;
    sr_arena arena;
    sr_arena_init(&arena);
    sr_memory_fail_nth(1);
    assert_null(sr_arena_alloc(&arena, 10));
    assert_non_null(sr_arena_alloc(&arena, 10));
    sr_memory_fail_nth(1);
    assert_null(sr_arena_alloc(&arena, 100000));
    assert_non_null(sr_arena_alloc(&arena, 100000));
    assert_null(sr_arena_alloc(&arena, SIZE_MAX - 1));
    sr_arena_release(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aligned_zeroed_counted),
        cmocka_unit_test(counted_by_owner),
        cmocka_unit_test(owners_are_bounded),
        cmocka_unit_test(overflow_is_refused),
        cmocka_unit_test(realloc_keeps_and_zeroes),
        cmocka_unit_test(grow_doubles),
        cmocka_unit_test(nth_fails_once),
        cmocka_unit_test(arena_is_steady),
        cmocka_unit_test(arena_failure_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
