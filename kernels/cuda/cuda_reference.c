// SPDX-License-Identifier: Apache-2.0
// The provider of CUDA's reference kernels: one entry for every kernel of kernel_list.def, which
// serves every request whose activations are not f64.
#include "kernels/cuda/cuda_reference.h"

#include "kernels/reference_entry.h"
#include "kernels/reference_order.h"

// The key of kernels with draws, of which each lane has its own (cuda_drop.h).
#define KEYS_OF(id)                                                                                \
    ((id) == SR_KERNEL_drop_path ? 1U << 1 : (id) == SR_KERNEL_add_groupnorm ? 1U << 2 : 0)

static bool supports(const sr_kernel_request *request) {
    int count;
    const sr_kernel_argument *arguments = sr_kernel_arguments(request->kernel, &count);
    if (!sr_kernel_fits(request) || (request->per_lane & ~KEYS_OF(request->kernel)) != 0)
        return false;
    for (int i = 0; i < count; i++)
        if (arguments[i].type == SR_ARG_T && request->dtype[i] == SR_F64)
            return false;
    return true;
}

static const sr_kernel_entry entries[] = {
#define SR_KERNEL(id, params, doc, ...)                                                            \
    SR_REFERENCE_ENTRY(id, supports, sr_cuda_prepare_##id, "f32 bf16 f16", KEYS_OF(SR_KERNEL_##id)),
#include "kernels/kernel_list.def"
#undef SR_KERNEL
};

const sr_provider sr_provider_cuda_reference = {
    .struct_size = sizeof(sr_provider),
    .abi = SR_KERNEL_ABI,
    .name = "reference",
    .device = "cuda",
    .entries = entries,
    .count = sizeof entries / sizeof entries[0],
    .numerics = SR_REFERENCE_NUMERICS,
};
