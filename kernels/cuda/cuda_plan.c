// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cuda_plan.h"

#include <string.h>

#include "kernels/base/memory.h"
#include "kernels/cuda/cuda_internal.h"

sr_status sr_cuda_plan_create(const sr_kernel_request *request, const void *arguments, size_t bytes,
                              sr_prepared *out, sr_cuda_plan **plan) {
    const size_t head = (size_t)(request->args + 1) * sizeof(void *);
    if (bytes < head || bytes > SR_CUDA_ARGUMENT_BYTES)
        return SR_FAIL(SR_E_INTERNAL, "a struct of arguments has %zu bytes, not %zu to %d", bytes,
                       head, SR_CUDA_ARGUMENT_BYTES);
    sr_cuda_plan *p = sr_alloc(sizeof *p, "a kernel");
    if (!p)
        return SR_E_MEMORY;
    p->pointers = request->args + 1;
    p->packs = -1;
    p->bytes = bytes;
    memcpy(p->arguments, arguments, bytes);
    out->launch = sr_cuda_launch;
    out->state = p;
    out->state_free = sr_free;
    *plan = p;
    return SR_OK;
}

void sr_cuda_plan_pack(sr_cuda_plan *plan, const sr_kernel_packing *packing, sr_prepared *out) {
    plan->packs = packing->argument;
    plan->packed_at = out->workspace;
    out->packing = *packing;
    out->workspace += packing->bytes;
}

sr_status sr_cuda_plan_add(sr_cuda_plan *plan, const sr_cuda_kernel *kernel, int64_t blocks,
                           int threads, size_t shared) {
    if (blocks > INT32_MAX)
        return SR_FAIL(SR_E_UNSUPPORTED, "%s: %lld blocks; a grid has at most 2^31 - 1",
                       kernel->name, (long long)blocks);
    const sr_cuda_part part = {.kernel = kernel,
                               .blocks = {(uint32_t)blocks, 1, 1},
                               .threads = {(uint32_t)threads, 1, 1},
                               .shared = shared};
    return sr_cuda_plan_add_part(plan, &part);
}

sr_status sr_cuda_plan_add_part(sr_cuda_plan *plan, const sr_cuda_part *part) {
    const sr_cuda_kernel *k = part->kernel;
    const uint64_t threads = (uint64_t)part->threads[0] * part->threads[1] * part->threads[2];
    if (plan->parts == SR_CUDA_PARTS)
        return SR_FAIL(SR_E_INTERNAL, "%s: more than %d functions", k->name, SR_CUDA_PARTS);
    if (plan->bytes != k->argument_bytes || threads == 0 || threads > (uint64_t)k->threads)
        return SR_FAIL(SR_E_INTERNAL, "%s takes %zu bytes and %d threads, not %zu and %llu",
                       k->name, k->argument_bytes, k->threads, plan->bytes,
                       (unsigned long long)threads);
    if (part->blocks[1] > UINT16_MAX || part->blocks[2] > UINT16_MAX)
        return SR_FAIL(SR_E_UNSUPPORTED, "%s: %u x %u blocks; a grid has at most 65,535 each",
                       k->name, part->blocks[1], part->blocks[2]);
    if (part->blocks[0] > 0 && part->blocks[1] > 0 && part->blocks[2] > 0)
        plan->part[plan->parts++] = *part;
    return SR_OK;
}
