// SPDX-License-Identifier: Apache-2.0
// bf16 and fp16 conversions: all 65536 patterns, and rounding against an independent definition.
#include <math.h>

#include "kernels/base/dtype.h"
#include "kernels/base/rng.h"
#include "tests/unit/support/test_support.h"

static float from_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

// The value of a 16-bit pattern by the definition of the format, in double arithmetic.
static double define(uint16_t h, int exponent_bits) {
    int mantissa_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = (h >> mantissa_bits) & ((1 << exponent_bits) - 1);
    double mantissa = h & ((1 << mantissa_bits) - 1), value;
    if (exponent == (1 << exponent_bits) - 1)
        value = mantissa != 0.0 ? (double)NAN : (double)INFINITY;
    else if (exponent == 0)
        value = ldexp(mantissa, 1 - bias - mantissa_bits);
    else
        value = ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
    return h & 0x8000 ? -value : value;
}

static void f16_all_patterns(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        double wanted = define((uint16_t)h, 5), got = (double)sr_f16_to_f32((uint16_t)h);
        if (isnan(wanted)) {
            assert_true(isnan(got));
            assert_true(isnan(sr_f16_to_f32(sr_f32_to_f16((float)got))));
            continue;
        }
        if (got != wanted || signbit(got) != signbit(wanted) || sr_f32_to_f16((float)got) != h)
            fail_msg("fp16 %04x: %g, wanted %g", h, got, wanted);
    }
}

static void bf16_all_patterns(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        double wanted = define((uint16_t)h, 8), got = (double)sr_bf16_to_f32((uint16_t)h);
        if (isnan(wanted)) {
            assert_true(isnan(got));
            assert_true(isnan(sr_bf16_to_f32(sr_f32_to_bf16((float)got))));
            continue;
        }
        if (got != wanted || sr_f32_to_bf16((float)got) != h)
            fail_msg("bf16 %04x: %g, wanted %g", h, got, wanted);
    }
}

// Nearest of the two neighbours a <= x <= b of consecutive patterns, ties to the even pattern.
static uint16_t nearest(double x, uint16_t a, double value_a, double value_b) {
    double down = x - value_a, up = value_b - x;
    if (down != up)
        return down < up ? a : (uint16_t)(a + 1);
    return a % 2 == 0 ? a : (uint16_t)(a + 1);
}

// Every midpoint between neighbours and the fp32 values next to it. The pattern after the largest
// finite value is infinity, which counts as the next power of two.
static void rounding(int exponent_bits, float (*to_f32)(uint16_t), uint16_t (*to_16)(float)) {
    uint16_t infinity = (uint16_t)(((1 << exponent_bits) - 1) << (15 - exponent_bits));
    double top = exponent_bits == 5 ? 65536.0 : 0x1p128;
    for (uint16_t a = 0; a < infinity; a++) {
        double low = (double)to_f32(a);
        double high = a + 1 == infinity ? top : (double)to_f32((uint16_t)(a + 1));
        float middle = (float)((low + high) / 2.0);
        float cases[] = {nextafterf(middle, 0.0f), middle, nextafterf(middle, INFINITY)};
        for (int i = 0; i < 3; i++) {
            if (isinf(cases[i]) || (double)cases[i] < low)
                continue;
            uint16_t wanted = nearest((double)cases[i], a, low, high);
            if (to_16(cases[i]) != wanted || to_16(-cases[i]) != (wanted | 0x8000))
                fail_msg("%a: %04x, wanted %04x", (double)cases[i], to_16(cases[i]), wanted);
        }
    }
    assert_int_equal(infinity, to_16(INFINITY));
    assert_int_equal(infinity | 0x8000, to_16(-INFINITY));
}

static float bf16_widen(uint16_t h) {
    return sr_bf16_to_f32(h);
}

static uint16_t bf16_narrow(float f) {
    return sr_f32_to_bf16(f);
}

static void f16_rounding(void **state) {
    (void)state;
    rounding(5, sr_f16_to_f32, sr_f32_to_f16);
    assert_int_equal(0, sr_f32_to_f16(0x1p-26f));
    assert_int_equal(0x7c00, sr_f32_to_f16(1e30f));
}

static void bf16_rounding(void **state) {
    (void)state;
    rounding(8, bf16_widen, bf16_narrow);
}

static void nan_stays_nan(void **state) {
    (void)state;
    sr_rng rng;
    sr_rng_init(&rng, 1, 0, 0, 0);
    for (int i = 0; i < 100000; i++) {
        uint32_t bits = sr_rng_u32(&rng) | 0x7f800000u;
        float f = from_bits(bits);
        assert_int_equal(isnan(f) != 0, isnan(sr_f16_to_f32(sr_f32_to_f16(f))) != 0);
        assert_int_equal(isnan(f) != 0, isnan(sr_bf16_to_f32(sr_f32_to_bf16(f))) != 0);
    }
    assert_true(isnan(sr_bf16_to_f32(sr_f32_to_bf16(from_bits(0x7f800001u)))));
    assert_true(isnan(sr_f16_to_f32(sr_f32_to_f16(from_bits(0x7f800001u)))));
}

static void sizes_and_names(void **state) {
    (void)state;
    static const size_t sizes[] = {4, 2, 2, 8, 1, 1, 4, 8};
    for (int i = 0; i < SR_DTYPE_COUNT; i++)
        assert_int_equal(sizes[i], sr_dtype_size((sr_dtype)i));
    assert_string_equal("bf16", sr_dtype_name(SR_BF16));
    assert_string_equal("?", sr_dtype_name(SR_DTYPE_COUNT));
    assert_int_equal(0, sr_dtype_size(SR_DTYPE_COUNT));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f16_all_patterns), cmocka_unit_test(bf16_all_patterns),
        cmocka_unit_test(f16_rounding),     cmocka_unit_test(bf16_rounding),
        cmocka_unit_test(nan_stays_nan),    cmocka_unit_test(sizes_and_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
