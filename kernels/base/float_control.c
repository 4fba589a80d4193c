// SPDX-License-Identifier: Apache-2.0
// Floating-point control (see float_control.h): MXCSR and the control word of x87 (Intel SDM vol.
// 1, 10.2.3 and 8.1.5), FPCR (Arm ARM, C5.2.8); elsewhere C's default environment. The wanted value
// is zero in each, apart from x86's exception masks.
#include "kernels/base/float_control.h"

#include <stdint.h>

#if defined(__x86_64__)
void sr_float_control_set(void) {
    static const uint16_t extended =
        0x037f; // all exceptions masked, 64-bit significand, round to nearest
    __builtin_ia32_ldmxcsr(SR_MXCSR);
    __asm__ volatile("fldcw %0" : : "m"(extended));
}
#elif defined(__aarch64__)
void sr_float_control_set(void) {
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    if (control != 0)
        __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
}
#else
#include <fenv.h>

void sr_float_control_set(void) {
    (void)fesetenv(FE_DFL_ENV);
}
#endif
