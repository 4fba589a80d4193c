// SPDX-License-Identifier: Apache-2.0
// Kernels of class "reference" that are a pair of others, one after the other, with what the first
// one writes in the workspace.
#ifndef SR_KERNELS_CUDA_PAIR_H
#define SR_KERNELS_CUDA_PAIR_H

#include "kernels/base/memory.h"
#include "kernels/cuda/cuda_lanes.h"
#include "kernels/cuda/cuda_reference.h"

typedef struct sr_cuda_member {
    sr_kernel_request request;
    sr_prepared prepared;
} sr_cuda_member;

// The state of such a kernel.
typedef struct sr_cuda_pair {
    sr_cuda_member first, second;
    size_t between; // bytes of the workspace before those of the members
} sr_cuda_pair;

// Launches a member with these arguments; of: the launch of the pair.
static inline sr_status sr_cuda_member_launch(const sr_kernel_launch *of, const sr_cuda_member *p,
                                              const sr_address *arguments) {
    const sr_cuda_pair *pair = of->state;
    const sr_kernel_launch launch = {.p = arguments,
                                     .params = p->request.params,
                                     .state = p->prepared.state,
                                     .workspace = sr_address_add(of->workspace, pair->between),
                                     .stream = of->stream};
    return p->prepared.launch(&launch);
}

static inline void sr_cuda_pair_free(void *state) {
    sr_cuda_pair *pair = state;
    sr_prepared_release(&pair->first.prepared);
    sr_prepared_release(&pair->second.prepared);
    sr_free(pair);
}

// Prepares a pair; prepare: makes the requests of its members, and prepares these.
static inline sr_status
sr_cuda_pair_prepare(const sr_kernel_request *request,
                     sr_status (*prepare)(const sr_kernel_request *request, sr_cuda_pair *pair),
                     sr_status (*launch)(const sr_kernel_launch *launch), sr_prepared *out) {
    sr_cuda_pair *pair = sr_alloc(sizeof *pair, "pair of kernels");
    if (!pair)
        return SR_E_MEMORY;
    *pair = (sr_cuda_pair){.between = 0};
    const sr_status status = prepare(request, pair);
    if (status != SR_OK) {
        sr_cuda_pair_free(pair);
        return status;
    }
    const size_t first = pair->first.prepared.workspace, second = pair->second.prepared.workspace;
    out->workspace = pair->between + (first > second ? first : second);
    out->launch = launch;
    out->state = pair;
    out->state_free = sr_cuda_pair_free;
    return SR_OK;
}

#endif
