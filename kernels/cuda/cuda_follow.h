// SPDX-License-Identifier: Apache-2.0
// How a kernel follows the one in front of it on its stream (PTX ISA 9.0, griddepcontrol; GPUs of
// compute capability 9.0).
#ifndef SR_KERNELS_CUDA_FOLLOW_H
#define SR_KERNELS_CUDA_FOLLOW_H

#include "kernels/cuda/cuda_plan.h"

// The blocks of a kernel may be on the GPU before those in front have ended (cuda_launch.c). This
// waits until they have, and what they wrote is seen; then the next kernel's blocks may come, which
// wait for this one in turn.
static __device__ __forceinline__ void sr_follow(void) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == SR_CUDA_OVERLAPPING
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

#endif
