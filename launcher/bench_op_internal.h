// SPDX-License-Identifier: Apache-2.0
// The cases of `serried bench op`: kernels with the shapes of ResNet-50 at 224 pixels.
#ifndef SR_LAUNCHER_BENCH_OP_INTERNAL_H
#define SR_LAUNCHER_BENCH_OP_INTERNAL_H

#include <stdbool.h>

#include "kernels/kernel.h"
#include "kernels/kernel_params.h"

typedef struct sr_bench_case {
    char shape[64]; // "56x56 64->256 1x1 /2"
    sr_kernel_request request;
    int64_t count[SR_KERNEL_MAX_ARGS]; // elements of each argument, 0 where absent
    uint32_t updated;                  // bit i: argument i is read and written
    double flops;                      // 0: counted in bytes only
} sr_bench_case;

// Calls 'visit' for every case with T = dtype and 'batch' images, until it returns false.
typedef bool (*sr_bench_visit)(void *user, const sr_bench_case *c);
void sr_bench_op_cases(sr_dtype dtype, int64_t batch, sr_bench_visit visit, void *user);
// Bytes that the kernel must read and write.
double sr_bench_case_bytes(const sr_bench_case *c);

#endif
