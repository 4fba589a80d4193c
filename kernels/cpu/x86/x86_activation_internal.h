// SPDX-License-Identifier: Apache-2.0
// Activations and their gradients in fp32. gelu: x Phi(x) with Phi(x) = (1 + erf(x / sqrt 2)) / 2,
// and Phi(x) + x phi(x). sigmoid: s(x) = 1 / (1 + exp(-x)). silu: x s(x), and s(x) (1 + x s(-x)).
//
// erf is a polynomial below 1 and 1 - exp(q(x)) above, q a polynomial for log erfc on [1, 4];
// beyond 4 it is 1 in fp32. exp uses Cody and Waite's reduction (1980) and a polynomial.
// Coefficients are weighted Chebyshev fits made for this file; in fp32 erf is within 2^-23
// absolute, exp within 2 ulp. The reference computes erf and exp in fp64, so results differ from it
// in the last bits and form a separate numerics class.
#ifndef SR_KERNELS_CPU_X86_ACTIVATION_INTERNAL_H
#define SR_KERNELS_CPU_X86_ACTIVATION_INTERNAL_H

#include "kernels/cpu/x86/x86_elementwise_internal.h"

// c[0] + x (c[1] + x (...)), n coefficients
SR_INLINE sr_vf poly_elements(const float *c, int n, sr_vf x) {
    sr_vf y = sr_v_set(c[n - 1]);
    for (int i = n - 2; i >= 0; i--)
        y = sr_v_fma(y, x, sr_v_set(c[i]));
    return y;
}

// 2^k for integers k in [-126, 127].
SR_INLINE sr_vf power_of_two(sr_vf k) {
    return sr_v_as_float(sr_vi_shift_left(sr_vi_add(sr_v_to_int(k), sr_vi_set(127)), 23));
}

// Returns m, and k, of e^x = 2^k m for x in [-104, 0].
SR_INLINE sr_vf exp_parts(sr_vf x, sr_vf *k) {
    static const float c[] = {0x1p-1f, 0x1.5554dcp-3f, 0x1.5554b8p-5f, 0x1.120b7p-7f,
                              0x1.6d753cp-10f}; // (e^r - 1 - r) / r^2
    *k = sr_v_round(sr_v_mul(x, sr_v_set(0x1.715476p+0f)));
    sr_vf r = sr_v_fma(*k, sr_v_set(-0x1.62e4p-1f), x); // ln 2 = 0x1.62e4p-1 + 0x1.7f7d1cp-20
    r = sr_v_fma(*k, sr_v_set(-0x1.7f7d1cp-20f), r);
    const sr_vf tail = sr_v_fma(sr_v_mul(r, r), poly_elements(c, 5, r), r);
    return sr_v_add(sr_v_set(1.0f), tail);
}

// e^x for x <= 0; 0 below -87, where the reference is less than 2^-125. For weights that are
// summed: subnormal ones would be slow and would change nothing.
SR_INLINE sr_vf exp_negative(sr_vf x) {
    const sr_vf low = sr_v_set(-87.0f);
    sr_vf k;
    const sr_vf m = exp_parts(sr_v_max(x, low), &k); // for NaN, that of -87; NaN is restored below
    const sr_vf y = sr_v_pick(sr_v_gt(low, x), sr_v_zero(), sr_v_mul(m, power_of_two(k)));
    return sr_v_pick(sr_v_unordered(x, x), x, y);
}

// e^x for x <= 0, including subnormal results, which may be multiplied by a large x.
SR_INLINE sr_vf exp_subnormal(sr_vf x) {
    sr_vf k;
    const sr_vf m = exp_parts(sr_v_max(x, sr_v_set(-104.0f)), &k); // e^-104 is rounded to 0
    const sr_vf half = sr_v_round(sr_v_mul(k, sr_v_set(0.5f)));
    const sr_vf y = sr_v_mul(sr_v_mul(m, power_of_two(half)), power_of_two(sr_v_sub(k, half)));
    return sr_v_pick(sr_v_unordered(x, x), x, y);
}

SR_INLINE sr_vf erf_elements(sr_vf x) {
    static const float small_c[] = {0x1.06eba8p-3f,  -0x1.81273ep-2f, 0x1.ce2d2p-4f,
                                    -0x1.b7fbb4p-6f, 0x1.5419f4p-8f,  -0x1.a485e6p-11f,
                                    0x1.4ae4bep-14f}; // erf(x) / x - 1 in x^2
    static const float log_c[] = {0x1.8a5a7ep-13f, -0x1.212c0ep+0f, -0x1.443566p-1f,
                                  -0x1.bc1524p-4f, 0x1.9d0324p-6f,  -0x1.138ceap-8f,
                                  0x1.cec68ap-12f, -0x1.6bd896p-16f}; // log erfc(x)
    const sr_vf a = sr_v_abs(x), one = sr_v_set(1.0f);
    const sr_vf near = sr_v_fma(x, poly_elements(small_c, 7, sr_v_mul(x, x)), x);
    const sr_vf clamped = sr_v_min(a, sr_v_set(4.0f));
    const sr_vf far = sr_v_sub(one, exp_negative(poly_elements(log_c, 8, clamped)));
    return sr_v_pick(sr_v_ge(a, one), sr_v_sign(far, x), near); // NaN takes 'near', which is NaN
}

SR_INLINE sr_vf normal_cdf(sr_vf x) {
    const sr_vf e = erf_elements(sr_v_mul(x, sr_v_set(0.70710678118654752440f)));
    return sr_v_mul(sr_v_set(0.5f), sr_v_add(sr_v_set(1.0f), e));
}

SR_INLINE void gelu_at(const sr_kernel_args *args, int64_t i, int n, sr_dtype type) {
    const sr_vf x = sr_v_get(args->p[0], i, n, type);
    sr_v_put(args->p[1], i, sr_v_mul(x, normal_cdf(x)), n, type);
}
ELEMENTWISE(gelu)

SR_INLINE void gelu_grad_at(const sr_kernel_args *args, int64_t i, int n, sr_dtype type) {
    const sr_vf x = sr_v_get(args->p[0], i, n, type), dy = sr_v_get(args->p[1], i, n, type);
    const sr_vf square = sr_v_mul(sr_v_mul(sr_v_set(-0.5f), x), x);
    const sr_vf pdf = sr_v_mul(sr_v_set(0.39894228040143267794f), exp_negative(square));
    const sr_vf slope = sr_v_add(normal_cdf(x), sr_v_mul(x, pdf));
    sr_v_put(args->p[2], i, sr_v_mul(dy, slope), n, type);
}
ELEMENTWISE(gelu_grad)

// s(x), and s(-x) = 1 - s(x) without cancellation. 'e' is at most 1.
SR_INLINE sr_vf sigmoid_elements(sr_vf x, sr_vf *rest) {
    const sr_vf one = sr_v_set(1.0f), e = exp_subnormal(sr_v_sub(sr_v_zero(), sr_v_abs(x)));
    const sr_vf large = sr_v_div(one, sr_v_add(one, e)), small = sr_v_mul(e, large);
    const sr_vmask positive = sr_v_ge(x, sr_v_zero());
    *rest = sr_v_pick(positive, small, large);
    return sr_v_pick(positive, large, small);
}

SR_INLINE void sigmoid_at(const sr_kernel_args *args, int64_t i, int n, sr_dtype type) {
    sr_vf rest;
    const sr_vf s = sigmoid_elements(sr_v_get(args->p[0], i, n, type), &rest);
    sr_v_put(args->p[1], i, s, n, type);
}
ELEMENTWISE(sigmoid)

SR_INLINE void silu_at(const sr_kernel_args *args, int64_t i, int n, sr_dtype type) {
    sr_vf rest;
    const sr_vf x = sr_v_get(args->p[0], i, n, type), s = sigmoid_elements(x, &rest);
    sr_v_put(args->p[1], i, sr_v_mul(x, s), n, type);
}
ELEMENTWISE(silu)

SR_INLINE void silu_grad_at(const sr_kernel_args *args, int64_t i, int n, sr_dtype type) {
    const sr_vf x = sr_v_get(args->p[0], i, n, type), dy = sr_v_get(args->p[1], i, n, type);
    sr_vf rest;
    const sr_vf s = sigmoid_elements(x, &rest);
    const sr_vf slope = sr_v_mul(s, sr_v_fma(x, rest, sr_v_set(1.0f)));
    sr_v_put(args->p[2], i, sr_v_mul(dy, slope), n, type);
}
ELEMENTWISE(silu_grad)

#endif
