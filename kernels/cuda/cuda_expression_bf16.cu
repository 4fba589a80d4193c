// SPDX-License-Identifier: Apache-2.0
// The kernels of expression_list.def for bf16.
#include "kernels/cuda/cuda_expression.h"

#define SR_EXPRESSION(name, ...) SR_CUDA_EXPRESSION(name, bf16)
#include "kernels/expression_list.def"
#undef SR_EXPRESSION

const sr_cuda_kernel *const sr_cuda_expressions_bf16[SR_PROGRAMS] = {
#define SR_EXPRESSION(name, ...) &cuda_##name##_bf16_kernel,
#include "kernels/expression_list.def"
};
