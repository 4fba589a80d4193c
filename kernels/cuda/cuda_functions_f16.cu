// SPDX-License-Identifier: Apache-2.0
// The kernels of the formulas with a public call, for f16.
#include "kernels/cuda/cuda_expression.h"

#define SR_EXPRESSION(name, formula, call, ...) SR_CUDA_##call(SR_CUDA_EXPRESSION(name, f16), )
#include "kernels/expression_list.def"
#undef SR_EXPRESSION

const sr_cuda_kernel *const sr_cuda_functions_f16[SR_PROGRAMS] = {
#define SR_EXPRESSION(name, formula, call, ...) SR_CUDA_##call(&cuda_##name##_f16_kernel, NULL),
#include "kernels/expression_list.def"
};
