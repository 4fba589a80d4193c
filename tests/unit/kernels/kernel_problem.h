// SPDX-License-Identifier: Apache-2.0
// The arrays of a kernel's problem: inputs that are a function of kernel and argument only, and
// copies with guards.
#ifndef SR_TESTS_UNIT_KERNEL_PROBLEM_H
#define SR_TESTS_UNIT_KERNEL_PROBLEM_H

#include "tests/unit/kernels/kernel_cases.h"

enum { GUARD = 64 }; // bytes after each array

typedef struct arrays {
    void *p[MAX_ARGS]; // NULL: absent, or not made
} arrays;

// Every argument that is read.
arrays make_inputs(const problem *c);
// Copies of the inputs; outputs are filled with garbage. After each is a guard that must not
// change.
arrays copy_arrays(const problem *c, const arrays *inputs);
void free_arrays(arrays *a);
size_t bytes_of(const problem *c, int i);
// Written by the kernel.
bool is_result(const argument *a);

#endif
