// SPDX-License-Identifier: Apache-2.0
// fp32 as the stand-ins for NVIDIA's libraries multiply it: TF32, which has 10 bits behind the
// point. What tensor cores are given they cut off behind those.
#ifndef SR_TESTS_SOFT_TF32_H
#define SR_TESTS_SOFT_TF32_H

#include "kernels/cuda/cuda_kernel.h"

// In place of an element type of cuda_kernel.h: factors are loaded as TF32, results stored as fp32.
struct sr_tf32 : sr_f32 {
    static __device__ float load(const type *p) {
        return __uint_as_float(__float_as_uint(*p) & 0xffffe000u);
    }
};

#endif
