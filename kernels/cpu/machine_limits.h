// SPDX-License-Identifier: Apache-2.0
// Measured limits of this machine: benchmarks report their results as a share of them.
#ifndef SR_KERNELS_CPU_MACHINE_LIMITS_H
#define SR_KERNELS_CPU_MACHINE_LIMITS_H

#include "kernels/base/pool.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_machine_limits {
    double flops;     // fp32 per second: fused multiply-adds with an operand from the first cache
    double copy_rate; // bytes per second, read and written, of copies far larger than the caches
} sr_machine_limits;

// Measures with all threads of the pool at once, for about half a second.
SR_NODISCARD sr_status sr_machine_limits_measure(sr_pool *pool, sr_machine_limits *out);

#ifdef __cplusplus
}
#endif
#endif
