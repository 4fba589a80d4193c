// SPDX-License-Identifier: Apache-2.0
// The arrays of a kernel's problem: inputs that are a function of kernel and argument only, and
// copies with guards.
#ifndef SR_TESTS_UNIT_KERNEL_PROBLEM_H
#define SR_TESTS_UNIT_KERNEL_PROBLEM_H

#include "tests/unit/kernels/cases/kernel_cases.h"

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

// Fails if the kernel wrote past the end of an argument.
void check_guards(const problem *c, const arrays *a, const char *name);
// Fails if results of both have other bits; 'what' says what that means.
void assert_same_bits(const problem *c, const arrays *a, const arrays *b, const char *name,
                      const char *what);
// Makes the values of inputs absolute.
void make_absolute(const problem *c, arrays *a);
// Fails if a result differs from the reference's by more than
//     roundoff(T) |want| + (8 + 2 sqrt(terms)) 2^-24 magnitude
// where 'magnitude' is the result of the reference kernel on the absolute values of the inputs (the
// sum of the absolute values of all terms), or a stated bound: sums of n rounded terms in any order
// differ by a few sqrt(n) roundings of that sum (Higham 2002, 4.2 and 2.8), and one missing or
// wrong term makes a far larger difference. With T bf16 or f16 the result is rounded once more, and
// so are its terms where the problem says so.
// Winograd convolutions add and subtract values of whole tiles, and attention has exponentials of
// sums: for them 'magnitude' is the largest of the array and of the results.
void assert_close(const problem *c, const arrays *got, const arrays *want, const arrays *magnitude,
                  const sr_kernel_entry *entry);

#endif
