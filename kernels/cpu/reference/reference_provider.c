// SPDX-License-Identifier: Apache-2.0
// The reference provider: one entry for every kernel of kernel_list.def, which serves every request
// that the list allows. Every other provider is checked against it.
#include "kernels/cpu/reference/reference_internal.h"
#include "kernels/reference_entry.h"

static const sr_kernel_entry entries[] = {
#define SR_KERNEL(id, params, doc, ...)                                                            \
    SR_REFERENCE_ENTRY(id, sr_kernel_fits, sr_reference_prepare_##id, "f32 bf16 f16 f64", 0),
#include "kernels/kernel_list.def"
#undef SR_KERNEL
};

extern const sr_provider sr_provider_reference;
const sr_provider sr_provider_reference = {
    .struct_size = sizeof(sr_provider),
    .abi = SR_KERNEL_ABI,
    .name = "reference",
    .entries = entries,
    .count = sizeof entries / sizeof entries[0],
    .numerics = SR_REFERENCE_NUMERICS,
};
