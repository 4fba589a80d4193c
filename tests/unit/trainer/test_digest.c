// SPDX-License-Identifier: Apache-2.0
// Digests: independent of which rank hashes which block and of array order; dependent on everything
// else.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/base/memory.h"
#include "trainer/engine/digest.h"

enum { N = 2 * SR_BLOCK_ELEMENTS + 777, BLOCKS = 3 };

static uint32_t *values;

static int set_up(void **state) {
    (void)state;
    values = sr_alloc_array(N, 4, "test");
    for (uint32_t i = 0; values != NULL && i < N; ++i)
        values[i] = i * 2246822519u;
    return values == NULL;
}

static int tear_down(void **state) {
    (void)state;
    sr_free(values);
    return 0;
}

static void digest_of(const char *second_name, int64_t position, char *hex) {
    static const uint8_t flags[3] = {1, 0, 1};
    sr_hash128 blocks[BLOCKS], flag_block;
    assert_int_equal(sr_digest_block_count(N), BLOCKS);
    sr_digest_hash_blocks(values, SR_F32, N, 0, BLOCKS, blocks);
    sr_digest_hash_blocks(flags, SR_U8, 3, 0, 1, &flag_block);
    const sr_digest_array arrays[] = {
        {.name = "masters", .dtype = SR_F32, .elements = N, .blocks = blocks},
        {.name = second_name, .dtype = SR_U8, .elements = 3, .blocks = &flag_block},
        {.name = "empty", .dtype = SR_I64, .elements = 0},
    };
    assert_int_equal(sr_digest_combine(arrays, 3, position, hex), SR_OK);
}

static void same_bits_same_digest(void **state) {
    (void)state;
    char a[SR_SHA256_HEX], b[SR_SHA256_HEX];
    digest_of("flags", 1000, a);
    digest_of("flags", 1000, b);
    assert_string_equal(a, b);
    assert_int_equal(strlen(a), 64);
    // A known value: format and hashes must not change unnoticed.
    assert_string_equal(a, "1380fea12d23af9f9f8f61b3da90bc192a0b633419f771c741f896fa2e5991d8");
}

static void every_change_shows(void **state) {
    (void)state;
    char a[SR_SHA256_HEX], b[SR_SHA256_HEX];
    digest_of("flags", 1000, a);
    digest_of("flags", 1001, b);
    assert_string_not_equal(a, b);
    digest_of("flagz", 1000, b);
    assert_string_not_equal(a, b);
    for (size_t i = 0; i < 3; ++i) {
        size_t at = i * SR_BLOCK_ELEMENTS + (i == 2 ? 776u : 0u);
        values[at] ^= 1;
        digest_of("flags", 1000, b);
        assert_string_not_equal(a, b);
        values[at] ^= 1;
    }
}

static void owners_and_order_do_not_show(void **state) {
    (void)state;
    char a[SR_SHA256_HEX], b[SR_SHA256_HEX];
    sr_hash128 whole[BLOCKS], parts[BLOCKS];
    sr_digest_hash_blocks(values, SR_F32, N, 0, BLOCKS, whole);
    sr_digest_hash_blocks(&values[(ptrdiff_t)2 * SR_BLOCK_ELEMENTS], SR_F32, N, 2, 1, parts + 2);
    sr_digest_hash_blocks(values, SR_F32, N, 0, 2, parts);
    assert_memory_equal(whole, parts, sizeof whole);
    sr_digest_array x = {.name = "x", .dtype = SR_F32, .elements = N, .blocks = whole};
    sr_digest_array y = {.name = "y", .dtype = SR_F32, .elements = 5, .blocks = whole};
    sr_digest_array xy[] = {x, y}, yx[] = {y, x}, xx[] = {x, x};
    assert_int_equal(sr_digest_combine(xy, 2, 7, a), SR_OK);
    assert_int_equal(sr_digest_combine(yx, 2, 7, b), SR_OK);
    assert_string_equal(a, b);
    assert_int_equal(sr_digest_combine(xx, 2, 7, b), SR_E_ARGUMENT);
    xy[0].dtype = SR_I32; // same bytes, another type
    assert_int_equal(sr_digest_combine(xy, 2, 7, b), SR_OK);
    assert_string_not_equal(a, b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_same_digest),
        cmocka_unit_test(every_change_shows),
        cmocka_unit_test(owners_and_order_do_not_show),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
