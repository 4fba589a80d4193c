// SPDX-License-Identifier: Apache-2.0
// Kernels that are a library's, on the test's device, beside sums in f64.
#ifndef SR_TESTS_UNIT_LIBRARY_KERNELS_H
#define SR_TESTS_UNIT_LIBRARY_KERNELS_H

#include "tests/unit/kernels/kernel_problem.h"

typedef struct library {
    const char *provider, *name; // "cublaslt", "cuBLASLt"
    const char *stand_in;        // variable that sets how the stand-in of the software GPU behaves
    void (*check)(const problem *c, const arrays *inputs, const void *got); // the last argument
    int checked, refused;                                                   // problems
} library;

// Whether the device has the library; if not, the test is skipped. Without it its provider has
// entries that serve no request.
bool library_is_there(const library *l);
// In bf16 and f16, where an entry serves: the result is checked, and has the same bits in further
// runs, with other contents of the workspace.
void library_check_problem(library *l, const problem *c);
// A problem with the arguments that kernel_list.def says, and a bias if the kernel has one; calls
// check_problem.
void library_check(sr_kernel_id kernel, sr_dtype t, const void *params, size_t bytes, bool bias);
// An element of an array of f32, bf16 or f16.
double library_number(sr_dtype dtype, const void *p, int64_t i);
// An argument in f64, rounded to the type of the activations; test_free frees it.
double *library_rounded(const problem *c, const arrays *inputs, int i);

#endif
