// SPDX-License-Identifier: Apache-2.0
// Special numbers: how every provider treats NaN, infinities, negative zero and subnormal numbers,
// compared with the reference. If a kernel loses a NaN, a run continues with wrong values.
//
// Kernels of numerics class "reference" must give the reference's bits (except for a NaN's own
// bits); the results of others must be finite where the reference's are.
#include <ctype.h>
#include <math.h>

#include "tests/unit/kernels/kernel_fixture.h"
#include "tests/unit/support/device_run.h"
#include "tests/unit/support/test_support.h"

enum { ROWS = 9, CHANNELS = 19, COUNT = ROWS * CHANNELS, LONG_ROWS = 3 };

// One letter for each argument, inputs first: x specials, p the same in f32, w f32 [CHANNELS], v
// the same, positive, s f32 [1], m f32 [ROWS], d the same, positive, l labels i32 [ROWS]; then
// results: y like x, q like p, o f32 (bf16 where x is f32), h f16, i u8, c f32 [CHANNELS], r f32
// [ROWS], t f32 [1]; k a key. L, M and R are l, m and r of LONG_ROWS.
typedef struct special_case {
    sr_kernel_id kernel;
    const char *arguments;
} special_case;

#define LETTER_T "x"
#define LETTER_P "s"
#define IN(type, name, elements) LETTER_##type
#define OUT(type, name, elements) "y"
static const special_case by_count[] = {
#define SR_EXPRESSION(name, formula, call, arguments, ...) {SR_KERNEL_##name, arguments},
#include "kernels/expression_list.def"
#undef SR_EXPRESSION
    {SR_KERNEL_cast, "xo"},
    {SR_KERNEL_cast, "xh"},
    {SR_KERNEL_reduce_sum, "xt"},
};
static const special_case by_rows[] = {
    {SR_KERNEL_bias_add, "xwy"},
    {SR_KERNEL_channel_sum, "xc"},
    {SR_KERNEL_channel_dot, "xxwc"},
    {SR_KERNEL_batchnorm_train, "xwwycc"},
    {SR_KERNEL_batchnorm_grad, "xxwwvycc"},
    {SR_KERNEL_batchnorm_infer, "xwwwvy"},
    {SR_KERNEL_batchnorm_moments, "xcc"},
    {SR_KERNEL_batchnorm_sums, "xxwvcc"},
    {SR_KERNEL_batchnorm_dx, "xxwwvwwy"},
    {SR_KERNEL_batchnorm_train_relu, "xxwwycc-"},
    {SR_KERNEL_batchnorm_train_relu, "xxwwyccb"},
    {SR_KERNEL_batchnorm_train_pair_relu, "xxwwwwwvycc-"},
    {SR_KERNEL_batchnorm_train_pair_relu, "xxwwwwwvyccb"},
    {SR_KERNEL_batchnorm_infer_relu, "xxwwwvy-"},
    {SR_KERNEL_batchnorm_infer_relu, "xxwwwvyb"},
    {SR_KERNEL_batchnorm_relu_grad, "xxwwwvycc"},
    {SR_KERNEL_batchnorm_add_relu_grad, "xbxxwwvyycc"},
    {SR_KERNEL_softmax, "xy"},
    {SR_KERNEL_softmax_grad, "xxy"},
    {SR_KERNEL_log_softmax, "xy"},
    {SR_KERNEL_log_softmax_grad, "xxy"},
};
static const special_case by_groups[] = {
    {SR_KERNEL_groupnorm, "xwwyrr"},
    {SR_KERNEL_groupnorm_grad, "xxwmdycc"},
    {SR_KERNEL_groupnorm_add_grad, "xxxwmdycc"},
};
static const special_case by_sums[] = {
    {SR_KERNEL_add_groupnorm, "xxkwwyyrr"},
};
static const special_case by_window[] = {
    {SR_KERNEL_maxpool2d, "xyi"},
    {SR_KERNEL_avgpool2d, "xy"},
    {SR_KERNEL_avgpool2d_grad, "xy"},
};

static const special_case by_labels[] = {
    {SR_KERNEL_softmax_xent, "xlrq"},
    {SR_KERNEL_softmax_xent_grad, "plmy"},
};
static const special_case by_long_rows[] = {
    {SR_KERNEL_softmax_xent, "xLRq"},
    {SR_KERNEL_softmax_xent_grad, "pLMy"},
};

static void poke(test_array *x, int row, int channel, double value) {
    array_set(x, (int64_t)row * CHANNELS + channel, value);
}

// Each channel has its own kind of special number.
static test_array *specials(sr_dtype t, uint32_t seed) {
    test_array *x = array_random(t, COUNT, seed, -2, 2);
    poke(x, 3, 0, (double)NAN);
    poke(x, 4, 1, (double)INFINITY);
    poke(x, 0, 2, -(double)INFINITY); // the first row is a shift in some kernels
    poke(x, 1, 3, (double)INFINITY);
    poke(x, 2, 3, -(double)INFINITY);
    poke(x, 0, 17, (double)NAN); // in the elements of a vector's tail
    for (int row = 0; row < ROWS; row++) {
        poke(x, row, 4, -0.0);
        poke(x, row, 5, row % 2 ? 0x1p-130 : -0x1p-128);
        poke(x, row, 6, row % 2 ? 0x1p-24 : -0x1.8p-16); // subnormal in f16
        poke(x, row, 7, row % 2 ? 65504 : -65504);       // the largest in f16
    }
    return x;
}

static test_array *argument(char letter, sr_dtype t, uint32_t seed) {
    const int64_t rows = isupper(letter) ? LONG_ROWS : ROWS;
    const sr_dtype other = t == SR_F32 ? SR_BF16 : SR_F32;
    switch (tolower(letter)) {
    case 'x':
        return specials(t, seed);
    case 'p':
        return specials(SR_F32, seed);
    case 'l':
        return array_random(SR_I32, rows, seed, -1.9, CHANNELS + 2);
    case 'w':
        return array_random(SR_F32, CHANNELS, seed, -1, 1);
    case 'v':
        return array_random(SR_F32, CHANNELS, seed, 0.5, 1.5);
    case 'k':
        return array_random(SR_I32, 4, seed, -2e9, 2e9);
    case 's':
        return array_random(SR_F32, 1, seed, 0.5, 1.5);
    case 'm':
        return array_random(SR_F32, rows, seed, -1, 1);
    case 'd':
        return array_random(SR_F32, rows, seed, 0.5, 1.5);
    case 'y':
        return array_new(t, COUNT);
    case 'q':
        return array_new(SR_F32, COUNT);
    case 'o':
        return array_new(other, COUNT);
    case 'h':
        return array_new(SR_F16, COUNT);
    case 'b':
        return array_random(SR_U8, ROWS * SR_SIGN_BYTES(CHANNELS), seed, 0, 256);
    case 'i':
        return array_new(SR_U8, COUNT);
    case 'c':
        return array_new(SR_F32, CHANNELS);
    case 'r':
        return array_new(SR_F32, rows);
    default:
        return array_new(SR_F32, 1);
    }
}

static void compare(const sr_kernel_entry *entry, int i, const test_array *got,
                    const test_array *want) {
    const bool bits = strcmp(entry->numerics_class, "reference") == 0;
    for (int64_t k = 0; k < want->count; k++) {
        const double a = array_get(got, k), b = array_get(want, k);
        const bool same = (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
        if (bits ? !same : isfinite(a) != isfinite(b))
            fail_msg("%s %s: argument %d, row %lld, channel %lld: %g, the reference has %g",
                     entry->name, sr_dtype_name(got->dtype), i, (long long)(k / CHANNELS),
                     (long long)(k % CHANNELS), a, b);
    }
}

static void check(const char *provider, const special_case *c, sr_dtype t, const void *params,
                  size_t bytes) {
    test_array *args[SR_KERNEL_MAX_ARGS], *want[SR_KERNEL_MAX_ARGS];
    sr_kernel_request request = {.kernel = c->kernel};
    memcpy(request.params, params, bytes);
    for (; c->arguments[request.args] != '\0'; request.args++) {
        const int i = request.args;
        const bool absent = c->arguments[i] == '-';
        args[i] = absent ? NULL : argument(c->arguments[i], t, (uint32_t)i + 1);
        want[i] = absent ? NULL : argument(c->arguments[i], t, (uint32_t)i + 1);
        request.dtype[i] = absent ? SR_DTYPE_COUNT : args[i]->dtype;
    }
    const sr_kernel_entry *entry = sr_kernel_find_in(&request, provider);
    if (entry) { // the provider test checks which entries must exist
        assert_ok(kernel_try(provider, c->kernel, params, bytes, request.args, args));
        assert_ok(kernel_try("reference", c->kernel, params, bytes, request.args, want));
    }
    for (int i = 0; i < request.args && entry; i++)
        if (args[i])
            compare(entry, i, args[i], want[i]);
    (void)arrays_free(NULL);
}

static void check_all(const special_case *cases, size_t count, const void *params, size_t bytes) {
    static const sr_dtype types[] = {SR_F32, SR_BF16, SR_F16};
    size_t providers;
    const sr_provider *const *provider = sr_providers(&providers);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < providers; k++)
            for (int t = 0; t < 3; t++)
                check(provider[k]->name, &cases[i], types[t], params, bytes);
}
#define CHECK_ALL(cases, params)                                                                   \
    check_all(cases, sizeof(cases) / sizeof(cases)[0], &(params), sizeof(params))

static void test_elements(void **state) {
    (void)state;
    const sr_expression_params params = {.count = COUNT, .constant = {-0.3, 0.7}};
    CHECK_ALL(by_count, params);
}

static void test_rows(void **state) {
    (void)state;
    const sr_batchnorm_params params = {ROWS, CHANNELS, 1e-2};
    CHECK_ALL(by_rows, params);
}

static void test_groups(void **state) {
    (void)state;
    sr_groupnorm_params params = {
        .samples = ROWS, .pixels = 1, .channels = CHANNELS, .groups = 1, .eps = 1e-2};
    sr_add_groupnorm_params sums = {.drop_rows = 3, .probability = 0.5, .scope = 1};
    for (params.uncentred = 0; params.uncentred < 2; params.uncentred++) {
        sums.norm = params;
        CHECK_ALL(by_groups, params);
        CHECK_ALL(by_sums, sums);
    }
}

static void test_windows(void **state) {
    (void)state;
    const sr_pool_params params = {1, 3, 3, CHANNELS, 3, 3, 3, 3, 1, 1, 1, 1, 1, 1, 0, 0};
    CHECK_ALL(by_window, params);
}

// The same numbers as rows of few and of many classes.
static void test_labels(void **state) {
    (void)state;
    for (int smooth = 0; smooth < 2; smooth++) {
        const sr_xent_params few = {ROWS, CHANNELS, 0.1 * smooth};
        const sr_xent_params many = {LONG_ROWS, COUNT / LONG_ROWS, 0.1 * smooth};
        CHECK_ALL(by_labels, few);
        CHECK_ALL(by_long_rows, many);
    }
}

// ---- the smallest sigmoids ----

// x where 1 / (1 + exp(-x)) becomes subnormal and then 0; some roundings, of subnormal ones two.
static void check_sigmoid(const char *provider, sr_kernel_id kernel, test_array *x) {
    enum { ROUNDINGS = 16 };
    const sr_expression_params params = {.count = x->count};
    test_array *y = array_new(SR_F32, x->count);
    assert_ok(kernel_try(provider, kernel, &params, sizeof params, 2, (test_array *[]){x, y}));
    for (int64_t i = 0; i < x->count; i++) {
        const double at = array_get(x, i), factor = kernel == SR_KERNEL_silu ? at : 1;
        const double want = factor / (1 + exp(-at));
        const double bound = ROUNDINGS * 0x1p-24 * fabs(want) + 2 * 0x1p-149 * fabs(factor);
        if (!(fabs(array_get(y, i) - want) <= bound))
            fail_msg("%s %s(%g): %g, not %g", provider, sr_kernel_name(kernel), at, array_get(y, i),
                     want);
    }
}

static void test_small_sigmoids(void **state) {
    enum { ALL = 2001 };
    size_t providers;
    const sr_provider *const *provider = sr_providers(&providers);
    test_array *x = array_new(SR_F32, ALL);
    (void)state;
    for (int i = 0; i < ALL; i++)
        array_set(x, i, -110 + 0.02 * i);
    for (size_t i = 0; i < providers; i++) {
        const sr_kernel_request request = {
            .kernel = SR_KERNEL_silu, .args = 2, .dtype = {SR_F32, SR_F32}};
        if (!sr_kernel_find_in(&request, provider[i]->name))
            continue;
        check_sigmoid(provider[i]->name, SR_KERNEL_sigmoid, x);
        check_sigmoid(provider[i]->name, SR_KERNEL_silu, x);
    }
}

// ---- every f16 ----

enum { POSITIVE = 0x7c00, NEAR = 6, PATTERNS = 65536 };

static float from_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

// Of a NaN all bits count on a CPU alone.
static bool is_same(const test_array *y, void *want, int64_t k) {
    const size_t size = sr_dtype_size(y->dtype);
    const test_array wanted = {.dtype = y->dtype, .count = y->count, .data = want};
    if (memcmp((char *)y->data + (size_t)k * size, (char *)want + (size_t)k * size, size) == 0)
        return true;
    return device_of_test() && isnan(array_get(y, k)) && isnan(array_get(&wanted, k));
}

// Runs the cast of every provider that has it, and compares bits.
static void check_cast(const test_array *x, test_array *y, void *want) {
    const sr_count_params params = {x->count};
    sr_kernel_request request = {
        .kernel = SR_KERNEL_cast, .args = 2, .dtype = {x->dtype, y->dtype}};
    memcpy(request.params, &params, sizeof params);
    size_t providers;
    const sr_provider *const *provider = sr_providers(&providers);
    for (size_t i = 0; i < providers; i++) {
        if (sr_kernel_find_in(&request, provider[i]->name) == NULL)
            continue;
        test_array from = *x;
        assert_ok(kernel_try(provider[i]->name, SR_KERNEL_cast, &params, sizeof params, 2,
                             (test_array *[]){&from, y}));
        for (int64_t k = 0; k < y->count; k++)
            if (!is_same(y, want, k))
                fail_msg("%s: %a becomes %a", provider[i]->name, array_get(x, k), array_get(y, k));
    }
}

static void test_f16_widens(void **state) {
    (void)state;
    test_array *x = array_new(SR_F16, PATTERNS), *y = array_new(SR_F32, PATTERNS);
    test_array *want = array_new(SR_F32, PATTERNS);
    for (uint32_t h = 0; h < PATTERNS; h++) {
        ((uint16_t *)x->data)[h] = (uint16_t)h;
        ((float *)want->data)[h] = sr_f16_to_f32((uint16_t)h);
    }
    check_cast(x, y, want->data);
}

// Each f16, the middle between it and the next, and the f32 numbers beside them; then special ones.
static void test_f16_rounds(void **state) {
    static const uint32_t special[] = {0x7f800000, 0xff800000, 0x7f800001, 0xffbfffff,
                                       0x7fc00000, 0xffc12345, 0x7fffe000, 0x7f7fffff,
                                       0xff7fffff, 0x00000001, 0x807fffff, 0x80000000};
    enum { SPECIAL = sizeof special / sizeof special[0], ALL = 2 * NEAR * POSITIVE + SPECIAL };
    (void)state;
    test_array *x = array_new(SR_F32, ALL), *y = array_new(SR_F16, ALL);
    test_array *want = array_new(SR_F16, ALL);
    float *to = x->data;
    for (int h = 0; h < POSITIVE; h++) {
        const float low = sr_f16_to_f32((uint16_t)h);
        const float high = h + 1 < POSITIVE ? sr_f16_to_f32((uint16_t)(h + 1)) : 65536.0f;
        const float middle = (low + high) / 2;
        const float near[NEAR] = {low,    nextafterf(low, 1e6f),    nextafterf(high, 0),
                                  middle, nextafterf(middle, 1e6f), nextafterf(middle, 0)};
        for (int i = 0; i < NEAR; i++) {
            *to++ = near[i];
            *to++ = -near[i];
        }
    }
    for (int i = 0; i < SPECIAL; i++)
        *to++ = from_bits(special[i]);
    for (int64_t i = 0; i < ALL; i++)
        ((uint16_t *)want->data)[i] = sr_f32_to_f16(((const float *)x->data)[i]);
    check_cast(x, y, want->data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_elements, arrays_free),
        cmocka_unit_test_teardown(test_rows, arrays_free),
        cmocka_unit_test_teardown(test_groups, arrays_free),
        cmocka_unit_test_teardown(test_windows, arrays_free),
        cmocka_unit_test_teardown(test_labels, arrays_free),
        cmocka_unit_test_teardown(test_small_sigmoids, arrays_free),
        cmocka_unit_test_teardown(test_f16_widens, arrays_free),
        cmocka_unit_test_teardown(test_f16_rounds, arrays_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
