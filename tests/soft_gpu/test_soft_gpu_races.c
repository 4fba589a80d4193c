// SPDX-License-Identifier: Apache-2.0
// Races between the threads of a block, in kernels that report their accesses (soft_hooks.c). Each
// mistake is a process of its own, beside the same kernel without it.
#include "tests/soft_gpu/soft_gpu_fixture.h"

static kernel_function kernel;
static int64_t way;
static int shift;

static void run(void) {
    const cudaStream_t s = make_stream();
    const vector_args a = {
        .y = device_alloc(4096), .x = device_iota(1024, s), .count = way, .shift = shift};
    OK(launch(s, kernel, 2, 256, 1024, &a));
    OK(cudaStreamSynchronize(s));
}

static void clean(kernel_function function, int64_t count, int by) {
    kernel = function;
    way = count;
    shift = by;
    expect_clean(run);
}

static void race(kernel_function function, int64_t count, int by, const char *message) {
    kernel = function;
    way = count;
    shift = by;
    expect_abort(run, message);
}

static void test_sums(void **state) {
    (void)state;
    clean(block_sums, 512, 0);
    race(block_sums_racy, 512, 0, "kernel block_sums_racy, block (");
    race(block_sums_racy, 512, 0, "no barrier is between");
    clean(reverse_phases, 0, 4);
}

static void test_neighbours(void **state) {
    (void)state;
    clean(neighbours, 0, 1);
    clean(neighbours, 0, 64);
    clean(neighbours, 1, 1);
    race(neighbours, 1, 64, "no barrier is between"); // of another warp
    race(neighbours, 2, 1, "no barrier is between");
    race(neighbours, 3, 1, "no barrier is between");
    clean(neighbours, 3, 0); // each its own
}

static void test_atomics(void **state) {
    (void)state;
    clean(count_shared, 0, 0);
}

static void test_writes(void **state) {
    (void)state;
    clean(collide_shared, 0, -1);
    race(collide_shared, 0, 3, "writes byte 12 of shared memory, which thread number ");
}

static void test_uninitialised(void **state) {
    (void)state;
    clean(fresh_shared, 0, -1);
    race(fresh_shared, 0, 5,
         "thread (5, 0, 0): reads byte 20 of shared memory, which nobody wrote");
}

static void multiply(void) {
    const cudaStream_t s = make_stream();
    const vector_args a = {
        .y = device_alloc(4096), .x = device_iota(8192, s), .count = 160, .shift = shift};
    OK(launch(s, staged_product, 1, 64, PRODUCT_BYTES, &a));
    OK(cudaStreamSynchronize(s));
}

static void test_stages(void **state) {
    (void)state;
    shift = PRODUCT_RIGHT;
    expect_clean(multiply);
    shift = PRODUCT_WITHOUT_WAIT;
    expect_abort(multiply, "of shared memory");
    shift = PRODUCT_WITHOUT_BARRIER;
    expect_abort(multiply, "no barrier is between");
    shift = PRODUCT_WRONG_STAGE;
    expect_abort(multiply, "no barrier is between");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),          cmocka_unit_test(test_neighbours),
        cmocka_unit_test(test_atomics),       cmocka_unit_test(test_writes),
        cmocka_unit_test(test_uninitialised), cmocka_unit_test(test_stages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
