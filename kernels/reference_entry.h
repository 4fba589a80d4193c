// SPDX-License-Identifier: Apache-2.0
// Entries of the reference providers for all kinds of devices.
#ifndef SR_KERNELS_REFERENCE_ENTRY_H
#define SR_KERNELS_REFERENCE_ENTRY_H

#include "kernels/kernel.h"
#include "kernels/kernel_varies.h"

// The entry of kernel 'id' of kernel_list.def, with its functions and the activation dtypes that
// the provider has, as "f32 bf16". keys: the arguments of which lanes may have their own, bits.
#define SR_REFERENCE_ENTRY(id, supporting, preparing, activations, keys)                           \
    {                                                                                              \
        .struct_size = sizeof(sr_kernel_entry), .abi = SR_KERNEL_ABI, .kernel = SR_KERNEL_##id,    \
        .name = #id "/reference", .provider = SR_KERNEL_REFERENCE,                                 \
        .numerics_class = SR_KERNEL_REFERENCE, .supports = (supporting), .prepare = (preparing),   \
        .dtypes = SR_VARIES_##id ? (activations) : "f32", .lanes = (keys) != 0, .apart = (keys),   \
    }

#endif
