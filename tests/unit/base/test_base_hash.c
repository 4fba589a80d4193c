// SPDX-License-Identifier: Apache-2.0
// Hashes against published values.
#include "kernels/base/hash.h"
#include "kernels/base/memory.h"
#include "tests/unit/support/test_support.h"

static void sha256_of(const char *text, size_t piece, char *hex) {
    sr_sha256 *sha = NULL;
    uint8_t digest[SR_SHA256_BYTES];
    assert_ok(sr_sha256_create(&sha));
    for (size_t i = 0, n = strlen(text); i < n; i += piece)
        assert_ok(sr_sha256_update(sha, text + i, n - i < piece ? n - i : piece));
    assert_ok(sr_sha256_finish(sha, digest, hex));
    sr_sha256_free(sha);
}

// FIPS 180-4 examples, in one piece and in several.
static void sha256(void **state) {
    (void)state;
    char hex[SR_SHA256_HEX];
    sha256_of("abc", 100, hex);
    assert_string_equal("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", hex);
    sha256_of("", 1, hex);
    assert_string_equal("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", hex);
    sha256_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 5, hex);
    assert_string_equal("248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1", hex);
    sr_sha256_free(NULL);
}

static void sha256_out_of_memory(void **state) {
    (void)state;
    sr_sha256 *sha = NULL;
    sr_memory_fail_nth(1);
    assert_status(SR_E_MEMORY, sr_sha256_create(&sha));
    assert_null(sha);
}

// Values of the empty input and 'a' from the xxHash specification's reference program.
static void xxh3(void **state) {
    (void)state;
    assert_true(sr_hash64("", 0) == UINT64_C(0x2d06800538d394c2));
    assert_true(sr_hash64("a", 1) == UINT64_C(0xe6c632b61e964e1f));
    sr_hash128 hash = sr_hash_128("", 0);
    assert_true(hash.high == UINT64_C(0x99aa06d3014798d8) &&
                hash.low == UINT64_C(0x6001c324468d497f));
    assert_true(sr_hash64_seed("abc", 3, 0) == sr_hash64("abc", 3));
    assert_true(sr_hash64_seed("abc", 3, 1) != sr_hash64("abc", 3));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256),
        cmocka_unit_test(sha256_out_of_memory),
        cmocka_unit_test(xxh3),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
