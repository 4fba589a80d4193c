// SPDX-License-Identifier: Apache-2.0
// Arrays of any dtype, and functions that run one kernel of one provider on them.
#ifndef SR_TESTS_UNIT_KERNEL_FIXTURE_H
#define SR_TESTS_UNIT_KERNEL_FIXTURE_H

#include "kernels/kernel.h"
#include "kernels/kernel_params.h"

// The four activation types.
extern const sr_dtype fixture_types[4];

// Zeros, to be freed by test_free.
double *zeros(int64_t count);

typedef struct test_array {
    sr_dtype dtype;
    int64_t count;
    void *data;
} test_array;

// Zero-filled; arrays_free (a cmocka teardown) frees all arrays of a test.
test_array *array_new(sr_dtype dtype, int64_t count);
// Uniform in [low, high), a function of seed and element only.
test_array *array_random(sr_dtype dtype, int64_t count, uint32_t seed, double low, double high);
test_array *array_of(sr_dtype dtype, int64_t count, const double *values);
double array_get(const test_array *array, int64_t i);
void array_set(test_array *array, int64_t i, double value);
int arrays_free(void **state);

// The value rounded to this dtype.
double round_to(sr_dtype dtype, double value);
// Largest relative rounding error of the dtype, and of the sums that its kernels form.
double unit_roundoff(sr_dtype dtype);
double sum_roundoff(sr_dtype dtype);
sr_dtype parameter_type(sr_dtype activation);

// The provider of this name, of the device of the tests; NULL if that has none.
const sr_provider *provider_of_test(const char *name);
// Makes a request one for the device of the tests if the provider is the reference, or has no
// kernels for CPUs; not in f64, which is for CPUs alone.
void use_device_of(const char *provider, sr_kernel_request *request);
// Runs the kernel of a provider ("reference") on the arguments (NULL: absent). The blocks of each
// stage run in order on zeroed scratch, then once more in reverse on scratch with other contents:
// the bits must be equal. On the device of the tests (use_device_of) it runs twice with different
// contents of the workspace. Fails the test if the provider does not serve the request.
void kernel_run(const char *provider, sr_kernel_id kernel, const void *params, size_t bytes,
                int count, test_array *const *args);
// The same, run once, returning the status.
sr_status kernel_try(const char *provider, sr_kernel_id kernel, const void *params, size_t bytes,
                     int count, test_array *const *args);
#define KERNEL_RUN(kernel, params, ...)                                                            \
    kernel_run("reference", SR_KERNEL_##kernel, &(params), sizeof(params),                         \
               (int)(sizeof((test_array *[]){__VA_ARGS__}) / sizeof(test_array *)),                \
               (test_array *[]){__VA_ARGS__})

// Compares the hash of everything that kernel_run has computed so far in this process, in that
// order, with the golden one of this version of the reference's numerics.
void assert_digest(int version, uint64_t golden);

// |got - want| <= unit_roundoff |want| + terms sum_roundoff magnitude + tiny
void assert_near(const char *what, int64_t i, sr_dtype dtype, double got, double want, double terms,
                 double magnitude);

#endif
