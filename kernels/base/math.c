// SPDX-License-Identifier: Apache-2.0
// Elementary functions (see math.h): those of math_inline.h.
#include "kernels/base/math.h"

#include "kernels/base/math_inline.h"

float sr_expf(float x) {
    return sr_expf_inline(x);
}

float sr_logf(float x) {
    return sr_logf_inline(x);
}

float sr_tanhf(float x) {
    return sr_tanhf_inline(x);
}

float sr_erff(float x) {
    return sr_erff_inline(x);
}

double sr_exp(double x) {
    return sr_exp_inline(x);
}

double sr_log_f64(double x) {
    return sr_log_f64_inline(x);
}

double sr_tanh(double x) {
    return sr_tanh_inline(x);
}

double sr_erf(double x) {
    return sr_erf_inline(x);
}

double sr_sin(double x) {
    return sr_sin_inline(x);
}

double sr_cos(double x) {
    return sr_cos_inline(x);
}

double sr_atan(double x) {
    return sr_atan_inline(x);
}

double sr_pow(double x, double y) {
    return sr_pow_inline(x, y);
}

float sr_expm1f(float x) {
    return sr_expm1f_inline(x);
}

float sr_sinf(float x) {
    return sr_sinf_inline(x);
}

float sr_cosf(float x) {
    return sr_cosf_inline(x);
}

float sr_atanf(float x) {
    return sr_atanf_inline(x);
}

float sr_powf(float x, float y) {
    return sr_powf_inline(x, y);
}

double sr_expm1(double x) {
    return sr_expm1_inline(x);
}
