// SPDX-License-Identifier: Apache-2.0
// The kernels of the formulas without a public call, for f32.
#include "kernels/cuda/cuda_expression.h"

#define SR_EXPRESSION(name, formula, call, ...) SR_CUDA_##call(, SR_CUDA_EXPRESSION(name, f32))
#include "kernels/expression_list.def"
#undef SR_EXPRESSION

const sr_cuda_kernel *const sr_cuda_derivatives_f32[SR_PROGRAMS] = {
#define SR_EXPRESSION(name, formula, call, ...) SR_CUDA_##call(NULL, &cuda_##name##_f32_kernel),
#include "kernels/expression_list.def"
};
