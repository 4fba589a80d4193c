// SPDX-License-Identifier: Apache-2.0
// What kernels of libraries have in common: the requests that they can serve, and lanes side by
// side (kernels/kernel_lanes.h).
#ifndef SR_KERNELS_CUDA_LANES_H
#define SR_KERNELS_CUDA_LANES_H

#include "kernels/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

// Whether a request is in bf16 or f16, or in fp32 whose factors may be rounded to TF32, and none of
// its arguments is empty.
bool sr_cuda_is_for_libraries(const sr_kernel_request *request);

// Of what lies in a workspace: what libraries ask for, and whole sectors of memory.
#define SR_CUDA_LIBRARY_ALIGNMENT ((size_t)256)

static inline size_t sr_cuda_align(size_t bytes) {
    return (bytes + SR_CUDA_LIBRARY_ALIGNMENT - 1) / SR_CUDA_LIBRARY_ALIGNMENT *
           SR_CUDA_LIBRARY_ALIGNMENT;
}

// The pointer for a call of a library.
static inline void *sr_cuda_pointer(sr_address address) {
    return (void *)address.at;
}

// 'prepare' of an entry.
typedef sr_status (*sr_cuda_prepare_fn)(const sr_kernel_request *request, sr_prepared *out);

// Whether a library's kernel gives each of several lanes the bits that it has alone, on the current
// device: 'lanes' is the request of all, 'lane' that of one. No library promises it, so both run on
// fixed numbers when they are first asked for in a process, and the answer is kept. False if they
// cannot run, for lack of memory for example. Any thread.
bool sr_cuda_keeps_lanes(const sr_kernel_request *lanes, const sr_kernel_request *lane,
                         sr_cuda_prepare_fn prepare);

#ifdef __cplusplus
}
#endif
#endif
