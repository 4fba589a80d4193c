// SPDX-License-Identifier: Apache-2.0
// What the .cu files share on the host: making plans.
#ifndef SR_KERNELS_CUDA_PREPARE_H
#define SR_KERNELS_CUDA_PREPARE_H

#include "kernels/base/memory.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/cuda_reference.h"
#include "kernels/cuda/cuda_sum.h"
#include "kernels/reference_order.h"

#define SR_CUDA_ELEMENTS 256 // threads of a block that do not work together
#define SR_CUDA_COLUMN 512   // threads of a block of sr_merge_column, at most

// The params of a request.
template <class P> static inline const P *sr_cuda_params(const sr_kernel_request *request) {
    return (const P *)(const void *)request->params;
}

// Elements of 16 bytes: sr_lanes of cuda_vector.h.
static inline int64_t sr_cuda_lanes(sr_dtype dtype) {
    return 16 / (int64_t)sr_dtype_size(dtype);
}

// Threads for 'count' elements of a dtype, 16 bytes to each.
static inline int64_t sr_cuda_vectors(sr_dtype dtype, int64_t count) {
    return sr_blocks_for(count, sr_cuda_lanes(dtype));
}

// A plan that is being built. After a failure nothing is added; 'done' returns the failure.
struct sr_cuda_making {
    sr_prepared *out;
    sr_cuda_plan *plan;
    sr_status status;

    template <class A>
    sr_cuda_making(const sr_kernel_request *request, const A &arguments, sr_prepared *prepared)
        : out(prepared), plan(NULL),
          status(sr_cuda_plan_create(request, &arguments, sizeof arguments, prepared, &plan)) {}

    // Blocks of x by y threads.
    void add_grid(const sr_cuda_kernel *kernel, int64_t blocks_x, int64_t blocks_y,
                  int64_t blocks_z, int threads_x, int threads_y, size_t shared) {
        if (status == SR_OK &&
            (blocks_x > INT32_MAX || blocks_y > UINT16_MAX || blocks_z > UINT16_MAX))
            status = SR_FAIL(SR_E_UNSUPPORTED,
                             "%s: %lld x %lld x %lld blocks; a grid has at most 2^31 - 1 x 65,535 "
                             "x 65,535",
                             kernel->name, (long long)blocks_x, (long long)blocks_y,
                             (long long)blocks_z);
        if (status != SR_OK)
            return;
        const sr_cuda_part part = {kernel,
                                   {(uint32_t)blocks_x, (uint32_t)blocks_y, (uint32_t)blocks_z},
                                   {(uint32_t)threads_x, (uint32_t)threads_y, 1},
                                   shared};
        status = sr_cuda_plan_add_part(plan, &part);
    }

    // For each of 'columns', which have n sums each, threads of one block: for sr_merge_column.
    // Blocks have as few columns as fill a sector of memory, so that there are many; more of short
    // ones.
    void add_columns(const sr_cuda_kernel *kernel, int64_t columns, int64_t n) {
        const int64_t batches = sr_blocks_for(n, SR_CUDA_BATCH);
        const int64_t most = SR_CUDA_COLUMN / (columns < 8 ? columns : 8);
        const int64_t high = batches < 1 ? 1 : batches < most ? batches : most;
        const int64_t wide = 128 / high > 8 ? 128 / high : 8;
        const int64_t used = wide < columns ? wide : columns;
        add_grid(kernel, sr_blocks_for(columns, used), 1, 1, (int)used, (int)high, 0);
    }

    void add(const sr_cuda_kernel *kernel, int64_t blocks, int threads, size_t shared = 0) {
        if (status == SR_OK)
            status = sr_cuda_plan_add(plan, kernel, blocks, threads, shared);
    }

    // One thread for each of 'count' elements.
    void add_elements(const sr_cuda_kernel *kernel, int64_t count) {
        add(kernel, sr_blocks_for(count, SR_CUDA_ELEMENTS), SR_CUDA_ELEMENTS);
    }

    sr_status done() {
        if (status != SR_OK) {
            sr_free(plan);
            out->launch = NULL;
            out->state = NULL;
            out->state_free = NULL;
        }
        return status;
    }
};

// A request that is one kernel with 'count' threads.
template <class A>
static inline sr_status sr_cuda_elementwise(const sr_kernel_request *request, const A &arguments,
                                            const sr_cuda_kernel *kernel, int64_t count,
                                            sr_prepared *out) {
    sr_cuda_making making(request, arguments, out);
    making.add_elements(kernel, count);
    return making.done();
}

#endif
