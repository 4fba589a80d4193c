// SPDX-License-Identifier: Apache-2.0
// Prepared CUDA kernels: which functions a request launches, on which grid, with which arguments.
//
// A function of a .cu file takes one struct by value. It begins with the pointers of the request's
// arguments, in the order of kernel_list.def, that of the workspace, and that of the packed
// argument if there is one; what follows is the kernel's own: params, strides, factors. There are
// no pointers elsewhere in it. A request is one or more functions with the same struct, launched
// one after the other on a stream (cuda_launch.c).
#ifndef SR_KERNELS_CUDA_PLAN_H
#define SR_KERNELS_CUDA_PLAN_H

#include "kernels/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_CUDA_PARTS 5            // functions of a request
#define SR_CUDA_ARGUMENT_BYTES 512 // of a struct
#define SR_CUDA_THREADS 1024       // of a block, at most
// The architecture whose machine code follows kernels that have not ended (cuda_follow.h), as of
// __CUDA_ARCH__.
#define SR_CUDA_OVERLAPPING 900

// A function of a .cu file, defined by SR_CUDA_KERNEL (cuda_kernel.h). All of them are in the
// section SR_CUDA_SECTION of the module.
typedef struct sr_cuda_kernel {
    const char *name;
    const void *function;
    size_t argument_bytes; // of its struct
    int threads;           // of a block: its launch bound
    int barriers;          // 1: has barriers or warp operations; 0: threads know nothing of others
} sr_cuda_kernel;

#define SR_CUDA_SECTION "sr_cuda_kernels"

// A function with its grid.
typedef struct sr_cuda_part {
    const sr_cuda_kernel *kernel;
    uint32_t blocks[3], threads[3];
    size_t shared; // bytes of dynamic shared memory
} sr_cuda_part;

// The state of a prepared kernel.
typedef struct sr_cuda_plan {
    int parts, pointers; // pointers: of the request's arguments and the workspace
    sr_cuda_part part[SR_CUDA_PARTS];
    int packs;        // the argument that is packed, which is NULL where it is already; -1: none
    size_t packed_at; // in the workspace
    size_t bytes;
    uint64_t arguments[SR_CUDA_ARGUMENT_BYTES / 8];
} sr_cuda_plan;

// Makes *out a launch without parts; 'arguments' are copied, including their pointers, which each
// launch fills in. SR_E_MEMORY.
SR_NODISCARD sr_status sr_cuda_plan_create(const sr_kernel_request *request, const void *arguments,
                                           size_t bytes, sr_prepared *out, sr_cuda_plan **plan);
// Adds a part of so many blocks and threads in one dimension.
SR_NODISCARD sr_status sr_cuda_plan_add(sr_cuda_plan *plan, const sr_cuda_kernel *kernel,
                                        int64_t blocks, int threads, size_t shared);
// Adds a part of any grid. SR_E_UNSUPPORTED beyond the limits of a grid.
SR_NODISCARD sr_status sr_cuda_plan_add_part(sr_cuda_plan *plan, const sr_cuda_part *part);
// Lets the plan pack an argument, behind the workspace so far.
void sr_cuda_plan_pack(sr_cuda_plan *plan, const sr_kernel_packing *packing, sr_prepared *out);
// From now on kernels of this process may be on the GPU before those in front have ended.
void sr_cuda_launch_overlapping(void);
// Enqueues one function with its struct of arguments (cuda_launch.c).
SR_NODISCARD sr_status sr_cuda_launch_part(const sr_cuda_part *part, void *arguments, void *stream);

#ifdef __cplusplus
}
#endif
#endif
