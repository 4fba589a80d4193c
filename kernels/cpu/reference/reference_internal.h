// SPDX-License-Identifier: Apache-2.0
// Shared by the reference kernel files.
//
// The reference is written to be obviously correct and to give the same bits with every compiler
// and instruction set: sums have a fixed, explicit order, vectorised loops are elementwise, exp and
// log come from kernels/base/math.h, and products and sums are rounded separately
// (-ffp-contract=off). It accumulates in f32 for f32, bf16 and f16, and in f64 for f64.
#ifndef SR_KERNELS_CPU_REFERENCE_INTERNAL_H
#define SR_KERNELS_CPU_REFERENCE_INTERNAL_H

#include "kernels/kernel.h"
#include "kernels/kernel_params.h"
#include "kernels/reference_order.h"

#define SR_REFERENCE_LEVELS 63 // of a tree of sums

// The 'prepare' function of each kernel, which fills stages, workspace and scratch.
#define SR_KERNEL(id, params, doc, ...)                                                            \
    sr_status sr_reference_prepare_##id(const sr_kernel_request *request, sr_prepared *out);
#include "kernels/kernel_list.def"
#undef SR_KERNEL

// Table of the four typed variants of a kernel function, indexed by sr_dtype.
#define SR_REFERENCE_TYPES(name)                                                                   \
    { name##_f32, name##_bf16, name##_f16, name##_f64 }

typedef struct sr_block_range {
    int64_t begin, end;
} sr_block_range;

static inline sr_block_range sr_block_range_of(int64_t block, int64_t size, int64_t count) {
    const int64_t begin = block * size, end = begin + size;
    return (sr_block_range){begin, end < count ? end : count};
}

// Size of the accumulator: f32 for f32, bf16 and f16; f64 for f64.
static inline size_t sr_accumulator_size(sr_dtype dtype) {
    return dtype == SR_F64 ? sizeof(double) : sizeof(float);
}

static inline void sr_add_stage(sr_prepared *out, sr_kernel_fn run, int64_t blocks) {
    out->stage[out->stages++] = (sr_kernel_stage){.run = run, .blocks = blocks};
}

#endif
