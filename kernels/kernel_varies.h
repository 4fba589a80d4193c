// SPDX-License-Identifier: Apache-2.0
// SR_VARIES_id, for each kernel of kernel_list.def: whether an argument has the activation dtype,
// so that the kernel exists for several dtypes. For the listings of providers.
#ifndef SR_KERNELS_KERNEL_VARIES_H
#define SR_KERNELS_KERNEL_VARIES_H

#define VARIES_T 1
#define VARIES_P 0
#define VARIES_F32 0
#define VARIES_F64 0
#define VARIES_I32 0
#define VARIES_U8 0
#define VARIES_ANY 1
#define VARIES_CAST 1
#define IN(type, name, elements) VARIES_##type |
#define OPT(type, name, elements) VARIES_##type |
#define OUT(type, name, elements) VARIES_##type |
#define OPT_OUT(type, name, elements) VARIES_##type |
#define UPD(type, name, elements) VARIES_##type |
#define SR_KERNEL(id, params, doc, ...) SR_VARIES_##id = (__VA_ARGS__ 0),
enum {
#include "kernels/kernel_list.def"
};
#undef SR_KERNEL
#undef UPD
#undef OPT_OUT
#undef OUT
#undef OPT
#undef IN
#undef VARIES_CAST
#undef VARIES_ANY
#undef VARIES_U8
#undef VARIES_I32
#undef VARIES_F64
#undef VARIES_F32
#undef VARIES_P
#undef VARIES_T

#endif
