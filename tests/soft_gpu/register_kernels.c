// SPDX-License-Identifier: Apache-2.0
// Linked into a module that is built for the software GPU: registers its kernels, as code that nvcc
// generates does for the real runtime.
#include "kernels/cuda/cuda_plan.h"
#include "tests/soft_gpu/soft_gpu.h"

extern const sr_cuda_kernel begin[] __asm__("__start_" SR_CUDA_SECTION)
    __attribute__((weak, visibility("hidden")));
extern const sr_cuda_kernel end[] __asm__("__stop_" SR_CUDA_SECTION)
    __attribute__((weak, visibility("hidden")));

__attribute__((constructor)) static void register_kernels(void) {
    soft_gpu_register(begin, end);
}
