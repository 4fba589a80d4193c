// SPDX-License-Identifier: Apache-2.0
// gelu and its gradient with the reference's bits: erf and exp in f64 by the operations of
// kernels/base/math.c. About three times the arithmetic of x86_activation_internal.h, whose class
// is another.
#ifndef SR_KERNELS_CPU_X86_GELU_INTERNAL_H
#define SR_KERNELS_CPU_X86_GELU_INTERNAL_H

#include <math.h>

#include "kernels/cpu/x86/x86_double_internal.h"
#include "kernels/cpu/x86/x86_elementwise_internal.h"

SR_INLINE sr_vf exact_cdf(sr_vf x) {
    const sr_vf e = sr_v_erff(sr_v_mul(x, sr_v_set((float)0.70710678118654752440)));
    return sr_v_mul(sr_v_set(0.5f), sr_v_add(sr_v_set(1.0f), e));
}

SR_INLINE void exact_gelu_at(const sr_kernel_args *args, int64_t i, int n, sr_dtype type) {
    const sr_vf x = sr_v_get(args->p[0], i, n, type);
    sr_v_put(args->p[1], i, sr_v_mul(x, exact_cdf(x)), n, type);
}
ELEMENTWISE(exact_gelu)

SR_INLINE void exact_gelu_grad_at(const sr_kernel_args *args, int64_t i, int n, sr_dtype type) {
    const sr_vf x = sr_v_get(args->p[0], i, n, type), dy = sr_v_get(args->p[1], i, n, type);
    const sr_vf square = sr_v_mul(sr_v_mul(sr_v_set(-0.5f), x), x);
    const sr_vf pdf = sr_v_mul(sr_v_set((float)0.39894228040143267794), sr_v_expf(square));
    const sr_vf slope = sr_v_add(exact_cdf(x), sr_v_mul(x, pdf));
    sr_v_put(args->p[2], i, sr_v_mul(dy, slope), n, type);
}
ELEMENTWISE(exact_gelu_grad)

#endif
