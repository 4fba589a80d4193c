// SPDX-License-Identifier: Apache-2.0
// The kernels of the formulas with a public call, for bf16.
#include "kernels/cuda/cuda_expression.h"

#define SR_EXPRESSION(name, formula, call, ...) SR_CUDA_##call(SR_CUDA_EXPRESSION(name, bf16), )
#include "kernels/expression_list.def"
#undef SR_EXPRESSION

const sr_cuda_kernel *const sr_cuda_functions_bf16[SR_PROGRAMS] = {
#define SR_EXPRESSION(name, formula, call, ...) SR_CUDA_##call(&cuda_##name##_bf16_kernel, NULL),
#include "kernels/expression_list.def"
};
