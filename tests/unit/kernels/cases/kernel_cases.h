// SPDX-License-Identifier: Apache-2.0
// The problems of kernels that test_kernels_providers.c and numerics_digests.c run: each is a
// kernel with parameters and the arrays that these imply.
#ifndef SR_TESTS_UNIT_KERNEL_CASES_H
#define SR_TESTS_UNIT_KERNEL_CASES_H

#include <stdbool.h>

#include "kernels/kernel.h"
#include "kernels/kernel_params.h"

enum { MAX_ARGS = SR_KERNEL_MAX_ARGS };

// How an argument is made, or what it is.
typedef enum arg_role {
    NONE = 0, // absent
    ACTIVATION,
    PARAMETER,           // f32
    POSITIVE,            // f32 in [0.5, 1.5)
    POSITIVE_ACTIVATION, // in [0.5, 1.5)
    BYTES,               // u8
    SIGNS,               // u8: bits; as an output, those of another one
    KEY,                 // i32
    HYPER,               // f32[8] or f32[16] of an optimiser
    TABLE,               // f32: that of sr_update_params with pieces
    INDEX,               // u8 from the reference maxpool2d of the same shape
    DOUBLE,              // f64
    NUMBERS,             // i32 from -1 to 'bound'
    ORDER,               // i32: permutations of 0 to 'bound' - 1
    MOVES,               // i32: sr_pixel_move of all kinds, a few of which are not valid
} arg_role;

typedef struct argument {
    arg_role role;
    bool output;  // written
    bool updated; // read and written
    int64_t count;
    double bound; // magnitude of an output; 0: from the reference on absolute values. Of NUMBERS,
                  // the largest
    double inner; // of an output: the magnitude of its terms together, if they are rounded to T
} argument;

typedef struct problem {
    sr_kernel_request request;
    argument arg[MAX_ARGS];
    double terms; // of the longest sum
} problem;

// Passes the problems of a kernel, one after the other, to check_problem; NULL: the kernel has
// none.
extern void (*const kernel_cases[SR_KERNEL_COUNT])(sr_kernel_id kernel);
// Leaves out the problems that were added after the digests of all kinds of processors had been
// written (tests/numerics): a new problem of an old kernel is one of these.
extern bool kernel_cases_of_digests;
// Defined by the program that runs them.
void check_problem(const problem *c);

#endif
