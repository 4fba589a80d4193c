// SPDX-License-Identifier: Apache-2.0
// Tensor cores and copies by cp.async on the software GPU: results of a product whose terms arrive
// in stages, with both ways of rounding, and the mistakes that are made with them.
#include "tests/soft_gpu/soft_gpu_fixture.h"

enum { TERMS = 16 * 9, COLUMNS = 16, ROWS = 32, INPUTS = (PRODUCT_ROWS + COLUMNS) * TERMS };

static product_mistake mistake;

// Rows from PRODUCT_ROWS on are the columns of the other factor. Their sums are exact.
static float integer(int row, int term) {
    return (float)((row * 7 + term * 5) % 15 - 7);
}

// 1, and then products of 1.5 2^-24.
static float small(int row, int term) {
    return term == 0 ? 1.0f : row < PRODUCT_ROWS ? 0x1p-12f : 0x1.8p-12f;
}

static float (*element)(int row, int term);

static uint16_t to_bf16(float x) { // of a number that is one
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static void multiply(float *y) {
    static uint16_t x[INPUTS];
    const cudaStream_t s = make_stream();
    void *to = device_alloc(sizeof x);
    for (int i = 0; i < INPUTS; i++)
        x[i] = to_bf16(element(i / TERMS, i % TERMS));
    const vector_args a = {.y = device_alloc(ROWS * COLUMNS * sizeof *y),
                           .x = to,
                           .count = TERMS,
                           .shift = (int)mistake};
    upload(to, x, sizeof x, s);
    OK(launch(s, staged_product, 1, 64, PRODUCT_BYTES, &a));
    OK(cudaStreamSynchronize(s));
    download(y, a.y, ROWS * COLUMNS * sizeof *y, s);
}

static float sum_of(int row, int column) {
    float sum = 0;
    for (int t = 0; row < PRODUCT_ROWS && t < TERMS; t++)
        sum += element(row, t) * element(PRODUCT_ROWS + column, t);
    return sum;
}

// Ends with 8 if a sum is not this one.
static void compare(float (*sum)(int row, int column)) {
    float y[ROWS * COLUMNS];
    multiply(y);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        if (y[i] != sum(i / COLUMNS, i % COLUMNS))
            exit(8);
}

static void product(void) {
    compare(sum_of);
}

static void test_product(void **state) {
    (void)state;
    mistake = PRODUCT_RIGHT;
    element = integer;
    expect_clean(product);
    assert_int_equal(setenv("SOFT_GPU_SUMS", "toward-zero", 1), 0);
    expect_clean(product);
    assert_int_equal(setenv("SOFT_GPU_SUMS", "up", 1), 0);
    expect_abort(product, "SOFT_GPU_SUMS=up: not nearest or toward-zero");
    assert_int_equal(unsetenv("SOFT_GPU_SUMS"), 0);
}

static float rounded_up(int row, int column) {
    (void)column;
    return row < PRODUCT_ROWS ? 1.0f + (TERMS - 1) * 0x1p-23f : 0.0f;
}

static float cut(int row, int column) {
    (void)column;
    return row < PRODUCT_ROWS ? 1.0f : 0.0f;
}

static void nearest(void) {
    compare(rounded_up);
}

static void toward_zero(void) {
    compare(cut);
}

static void test_rounding(void **state) {
    (void)state;
    mistake = PRODUCT_RIGHT;
    element = small;
    expect_clean(nearest);
    assert_int_equal(setenv("SOFT_GPU_SUMS", "toward-zero", 1), 0);
    expect_clean(toward_zero);
    assert_int_equal(unsetenv("SOFT_GPU_SUMS"), 0);
}

// The seed decides when a copy is made: one of a few runs shows what is wrong.
static void product_often(void) {
    static const product_mistake wrong[] = {PRODUCT_WITHOUT_WAIT, PRODUCT_WITHOUT_BARRIER,
                                            PRODUCT_WRONG_STAGE};
    const int which = (int)mistake;
    mistake = right ? PRODUCT_RIGHT : wrong[which];
    for (int i = 0; i < 10; i++)
        compare(sum_of);
}

static void test_order(void **state) {
    (void)state;
    element = integer;
    for (int which = 0; which < 3; which++) {
        mistake = (product_mistake)which;
        shows(product_often);
    }
}

static void test_misuse(void **state) {
    (void)state;
    element = integer;
    mistake = PRODUCT_ROW_OUTSIDE;
    expect_abort(product, "ldmatrix (");
    expect_abort(product, "is not 16 aligned bytes of the shared memory of the block");
    mistake = PRODUCT_WITHOUT_LANE;
    expect_abort(product, "lanes 0x");
    mistake = PRODUCT_NEVER_WAITS;
    expect_abort(product, "has ended without waiting for its copies by cp.async");
}

static void test_transpose(void **state) {
    (void)state;
    const cudaStream_t s = make_stream();
    uint16_t x[256];
    float y[256];
    void *to = device_alloc(sizeof x);
    for (int i = 0; i < 256; i++)
        x[i] = (uint16_t)(i * 251);
    const vector_args a = {.y = device_alloc(sizeof y), .x = to};
    upload(to, x, sizeof x, s);
    OK(launch(s, transpose, 1, 32, sizeof x, &a));
    download(y, a.y, sizeof y, s);
    for (int i = 0; i < 256; i++)
        assert_true(y[i] == (float)x[i / 64 * 64 + i % 8 * 8 + i / 8 % 8]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_product),   cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_order),     cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_transpose),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
