// SPDX-License-Identifier: Apache-2.0
// Elementary functions whose bits are our own: no libm, no dependence on its version.
//
// Used by reference kernels and host code wherever a result reaches a checkpoint. Accuracy: fp32
// versions within 2 ulp, fp64 within 4 ulp over the ranges that the kernels use.
#ifndef SR_KERNELS_BASE_MATH_H
#define SR_KERNELS_BASE_MATH_H

#ifdef __cplusplus
extern "C" {
#endif

float sr_expf(float x);
float sr_logf(float x);
float sr_tanhf(float x);
float sr_erff(float x);
double sr_exp(double x);
double sr_log_f64(double x);
double sr_tanh(double x);
double sr_erf(double x);
double sr_sin(double x);
double sr_cos(double x);
double sr_pow(double x, double y);

#ifdef __cplusplus
}
#endif
#endif
