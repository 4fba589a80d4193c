// SPDX-License-Identifier: Apache-2.0
// Floating-point control of the calling thread: what results are defined with.
//
// Rounding to nearest, subnormal numbers read and written (no FTZ, no DAZ), no traps. A library
// that was linked with -ffast-math turns subnormal numbers off in the thread that loads it, and
// threads inherit from the one that starts them; a kernel of a plug-in may change anything. So
// every thread of serried's begins with this control, and whatever computes asks for it again:
// each share of a pool's work, each sample, each turn of the exchange, each call of the interface
// that computes. A thread that calls serried keeps it afterwards.
#ifndef SR_KERNELS_BASE_FLOAT_CONTROL_H
#define SR_KERNELS_BASE_FLOAT_CONTROL_H

#ifdef __cplusplus
extern "C" {
#endif

// Sets the calling thread's control, that of x87 included.
void sr_float_control_set(void);

#if defined(__x86_64__)
#define SR_MXCSR 0x1f80u       // all exceptions masked, all else 0
#define SR_MXCSR_FLAGS 0x003fu // what has happened

// The same where the control of vector arithmetic differs: a few cycles otherwise.
static inline void sr_float_control(void) {
    if ((__builtin_ia32_stmxcsr() & ~SR_MXCSR_FLAGS) != SR_MXCSR)
        sr_float_control_set();
}
#else
static inline void sr_float_control(void) {
    sr_float_control_set();
}
#endif

#ifdef __cplusplus
}
#endif
#endif
