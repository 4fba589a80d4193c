// SPDX-License-Identifier: Apache-2.0
// Elementary functions with defined bits, independent of libm and its version.
//
// Reference kernels use them, and host code whose results reach a checkpoint. Accuracy: fp32
// versions within 2 ulp, fp64 versions within 4 ulp over the ranges that the kernels use.
#ifndef SR_KERNELS_BASE_MATH_H
#define SR_KERNELS_BASE_MATH_H

#ifdef __cplusplus
extern "C" {
#endif

// e^x, without libm. NaN gives NaN, here and below.
float sr_expf(float x);
// Natural logarithm.
float sr_logf(float x);
// Hyperbolic tangent.
float sr_tanhf(float x);
// Error function.
float sr_erff(float x);
// e^x - 1.
float sr_expm1f(float x);
// Sine, of radians.
float sr_sinf(float x);
// Cosine, of radians.
float sr_cosf(float x);
// Inverse tangent, in radians.
float sr_atanf(float x);
// x to the power of y.
float sr_powf(float x, float y);
// e^x.
double sr_exp(double x);
// e^x - 1.
double sr_expm1(double x);
// Natural logarithm (the name sr_log is taken by the function for messages).
double sr_log_f64(double x);
// Hyperbolic tangent.
double sr_tanh(double x);
// Error function.
double sr_erf(double x);
// Sine, of radians.
double sr_sin(double x);
// Cosine, of radians.
double sr_cos(double x);
// Inverse tangent, in radians.
double sr_atan(double x);
// x to the power of y.
double sr_pow(double x, double y);

#ifdef __cplusplus
}
#endif
#endif
