// SPDX-License-Identifier: Apache-2.0
// Constants and coefficients of math.c that other code uses, too: kernels that compute sr_expf,
// sr_logf and sr_erff with the same bits for many numbers at a time
// (kernels/cpu/x86/x86_double_internal.h).
#ifndef SR_KERNELS_BASE_MATH_TABLES_H
#define SR_KERNELS_BASE_MATH_TABLES_H

#include "kernels/base/device_code.h"

#define SR_MATH_INV_LN2 0x1.71547652b82fep+0
#define SR_MATH_LN2_HIGH 0x1.62e42feep-1 // 32 bits, so that k * SR_MATH_LN2_HIGH is exact
#define SR_MATH_LN2_LOW 0x1.a39ef35793c76p-33
#define SR_MATH_ROUNDER 0x1.8p52 // adding and subtracting it rounds to an integer
#define SR_MATH_SQRT2 1.4142135623730951

// (e^r - 1 - r) / r^2 on |r| <= ln2 / 2, to 2^-32, for fp32.
#define SR_MATH_EXPF_DEGREE 5
SR_DEVICE_TABLE double sr_math_expf[SR_MATH_EXPF_DEGREE + 1] = {
    0x1.0000000b9129bp-1, 0x1.5555555a78ed4p-3,  0x1.5554e9063586ep-5,
    0x1.1110e0f238322p-7, 0x1.6d43246b523b4p-10, 0x1.a124f19fe89acp-13};

// (log(1 + f) - 2 s) / s^3 in z = s^2, where s = f / (2 + f): 2^-57.
#define SR_MATH_LOG_DEGREE 6
SR_DEVICE_TABLE double sr_math_log[SR_MATH_LOG_DEGREE + 1] = {
    0x1.5555555555558p-1, 0x1.9999999995204p-2, 0x1.2492492e09d4dp-2, 0x1.c71c62c639fdep-3,
    0x1.7462bd8f7796ep-3, 0x1.39fd392179a95p-3, 0x1.2b6688a387e03p-3};

// (erf(x) / x - 2 / sqrt(pi)) / z in z = x^2 on |x| <= 1: 2^-57.
#define SR_MATH_ERF_DEGREE 11
#define SR_MATH_ERF_SLOPE 0x1.06eba8214db69p-3 // 2 / sqrt(pi) - 1
SR_DEVICE_TABLE double sr_math_erf[SR_MATH_ERF_DEGREE + 1] = {
    -0x1.812746b0379e7p-2,  0x1.ce2f21a042bd7p-4,  -0x1.b82ce312882f8p-6,  0x1.565bcd0e434bbp-8,
    -0x1.c02db3f4735cbp-11, 0x1.f9a324ddf0f34p-14, -0x1.f4d21efdafc7dp-17, 0x1.b9e2333703249p-20,
    -0x1.5f39372686202p-23, 0x1.f8d476ab1a455p-27, -0x1.3c1e91b012003p-30, 0x1.0f8a27a51ad26p-34};

// erfc(middle + t) on [1, 2], [2, 3], [3, 4] and [4, 6], interleaved: absolute error 2^-58.
#define SR_MATH_ERFC_PIECES 4
#define SR_MATH_ERFC_DEGREE 18
SR_DEVICE_TABLE double sr_math_erfc_middle[SR_MATH_ERFC_PIECES] = {1.5, 2.5, 3.5, 5.0};
SR_DEVICE_TABLE double sr_math_erfc[SR_MATH_ERFC_DEGREE + 1][SR_MATH_ERFC_PIECES] = {
    {0x1.15aaa8ec85205p-5, 0x1.aab859b20ac9ep-12, 0x1.8ef2a9a18d857p-21, 0x1.b0c1a759f7739p-40},
    {-0x1.e723726b824aap-4, -0x1.1d83170fbf6fep-9, -0x1.6a597219a93a2p-18, -0x1.13af279f14cf6p-36},
    {0x1.6d5a95d0a1b7fp-3, 0x1.64e3dcd3af4bap-8, 0x1.3d0e43d674155p-16, 0x1.589b1dcb78698p-34},
    {-0x1.1c2a02beb6a4ep-3, -0x1.119da0c46cc24p-7, -0x1.62ccea63cb745p-15, -0x1.196e340987532p-32},
    {0x1.6d5a95d0a1b9ap-5, 0x1.1a89b97ceac96p-7, 0x1.1c07721ac8211p-14, 0x1.516d6207eb01dp-31},
    {0x1.e723726b6512p-7, -0x1.90e81283ff8b5p-8, -0x1.586bafc9ab406p-14, -0x1.3c4f4c2a50e4p-30},
    {-0x1.3ca3d72c48d5p-6, 0x1.6ecdbf67c65f1p-9, 0x1.46153fb97ff5ap-14, 0x1.e2343f30515b6p-30},
    {0x1.36d73a692d053p-8, -0x1.1c610bc6bd299p-11, -0x1.e827fafe32457p-15, -0x1.32d1204d7b2c5p-29},
    {0x1.35ae4e3a506c1p-9, -0x1.11551df044b95p-12, 0x1.1f6304e077732p-15, 0x1.4bd3bf004fb8fp-29},
    {-0x1.c0380e362faa7p-10, 0x1.0671781e280a1p-12, -0x1.0135257cedc46p-16, -0x1.34db81a8ff945p-29},
    {0x1.85b5f31adf4f4p-14, -0x1.4a84493339eeep-14, 0x1.37741272e2869p-18, 0x1.f3e62cfdcfa98p-30},
    {0x1.0acf49b689f6bp-12, -0x1.58bb5d8278748p-18, -0x1.dd8072e583d32p-22, -0x1.624c63c215afcp-30},
    {-0x1.45daf1c03c5edp-14, 0x1.d872aabe96ecdp-17, -0x1.dc7ed6eabd196p-22, 0x1.b6748c7fe9ab6p-31},
    {-0x1.2d5ccda7d2cefp-16, -0x1.3ad85533fab85p-18, 0x1.43f1cc9e1c7f4p-22, -0x1.d4f57487c41c7p-32},
    {0x1.d8d8db718a3fp-17, -0x1.85e65ab3732c9p-23, -0x1.8c9213e07c95fp-24, 0x1.b8ce3c9b231b3p-33},
    {-0x1.3122d618518c5p-21, 0x1.597ec5a050063p-21, 0x1.83249e91c4d02p-28, -0x1.788ba6f9fde89p-34},
    {-0x1.9aed5951c72f6p-20, -0x1.7f62d9bbdb89ap-23, 0x1.1e3dc7fad2752p-27, 0x1.04b4d65ea49cdp-35},
    {0x1.2d677be6d86b7p-22, -0x1.8740b4b8e7e0ep-26, -0x1.0853ec544d76dp-28, -0x1.8934aab83b8c1p-38},
    {0x1.b20a125165c54p-24, 0x1.801ee99217fe9p-26, 0x1.388d875ce5567p-31, 0x1.960542987e2f8p-44},
};

#endif
