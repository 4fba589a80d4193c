// SPDX-License-Identifier: Apache-2.0
// Philox known answers (Random123's kat_vectors), and the distributions of what is derived from
// them.
#include <math.h>

#include "kernels/base/rng.h"
#include "tests/unit/support/test_support.h"

static void known_answers(void **state) {
    (void)state;
    static const struct {
        uint64_t seed;
        uint32_t counter[4], words[4];
    } cases[] = {
        {0, {0, 0, 0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX,
         {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {UINT64_C(0x299f31d0a4093822),
         {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < 3; i++) {
        const uint32_t *c = cases[i].counter;
        sr_rng4 got = sr_philox(cases[i].seed, c[0], c[1], c[2], c[3]);
        assert_memory_equal(cases[i].words, got.v, sizeof got.v);
    }
}

static void stream_is_the_block_function(void **state) {
    (void)state;
    sr_rng rng;
    sr_rng_init(&rng, 42, 1, 2, 3);
    for (uint32_t n = 0; n < 40; n++)
        assert_int_equal(sr_philox(42, 1, 2, 3, n / 4).v[n % 4], sr_rng_u32(&rng));
}

static void unit_range(void **state) {
    (void)state;
    assert_true(sr_rng_unit(0) == 0.0f);
    assert_true(sr_rng_unit(UINT32_MAX) == 1.0f - 0x1p-24f);
}

// Chi-squared test against uniform, 9 degrees of freedom: 40 has a probability below 1e-5.
static void below_is_uniform(void **state) {
    (void)state;
    sr_rng rng;
    sr_rng_init(&rng, 7, 0, 0, 0);
    int counts[10] = {0};
    for (int i = 0; i < 100000; i++)
        counts[sr_rng_below(&rng, 10)]++;
    double chi = 0;
    for (int i = 0; i < 10; i++)
        chi += (counts[i] - 10000.0) * (counts[i] - 10000.0) / 10000.0;
    assert_true(chi < 40);
    for (int i = 0; i < 100; i++)
        assert_int_equal(0, sr_rng_below(&rng, 1));
    int high = 0; // a range where a plain product would be off by half
    for (int i = 0; i < 30000; i++)
        high += sr_rng_below(&rng, 0xc0000000u) >= 0x80000000u;
    assert_true(abs(high - 10000) < 500);
}

static void uniform_and_normal(void **state) {
    (void)state;
    sr_rng rng;
    sr_rng_init(&rng, 3, 1, 4, 1);
    double sum = 0, squares = 0, fourth = 0, uniform = 0;
    enum { N = 200000 };
    for (int i = 0; i < N; i++) {
        double u = sr_rng_uniform(&rng, -2.0, 4.0), x = sr_rng_normal(&rng);
        assert_true(u >= -2.0 && u <= 4.0 && isfinite(x));
        uniform += u;
        sum += x;
        squares += x * x;
        fourth += x * x * x * x;
    }
    assert_true(fabs(uniform / N - 1.0) < 0.02);
    assert_true(fabs(sum / N) < 0.012);
    assert_true(fabs(squares / N - 1.0) < 0.016);
    assert_true(fabs(fourth / N - 3.0) < 0.15);
}

// The bits of normals are part of the contract: initial weights are drawn from them.
static void normal_bits(void **state) {
    (void)state;
    static const double wanted[4] = {0x1.3b27cf3b9f301p+0, -0x1.18012842abd16p+0,
                                     0x1.58095ed4e701dp-2, 0x1.02038fdd57344p+0};
    sr_rng rng;
    sr_rng_init(&rng, 1, 2, 3, 4);
    for (int i = 0; i < 4; i++) {
        double x = sr_rng_normal(&rng);
        if (x != wanted[i])
            fail_msg("normal %d: %a, wanted %a", i, x, wanted[i]);
    }
}

static void shuffle_is_a_fair_permutation(void **state) {
    (void)state;
    int counts[24] = {0};
    sr_rng rng;
    sr_rng_init(&rng, 11, 0, 0, 0);
    for (int i = 0; i < 24000; i++) {
        uint32_t p[4] = {0, 1, 2, 3}, seen = 0;
        sr_rng_shuffle(&rng, p, 4);
        for (int j = 0; j < 4; j++)
            seen |= 1u << p[j];
        assert_int_equal(15, seen);
        uint32_t rank = p[0] * 6; // Lehmer code
        rank += (p[1] - (p[0] < p[1])) * 2;
        rank += p[2] > p[3];
        counts[rank]++;
    }
    for (int i = 0; i < 24; i++)
        assert_true(abs(counts[i] - 1000) < 160);
    sr_rng_shuffle(&rng, NULL, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(stream_is_the_block_function),
        cmocka_unit_test(unit_range),
        cmocka_unit_test(below_is_uniform),
        cmocka_unit_test(uniform_and_normal),
        cmocka_unit_test(normal_bits),
        cmocka_unit_test(shuffle_is_a_fair_permutation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
