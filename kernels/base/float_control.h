// SPDX-License-Identifier: Apache-2.0
// Sets the floating-point environment that defines results, for the calling thread.
//
// Round to nearest, subnormal numbers supported (no FTZ, no DAZ), no traps. A library linked with
// -ffast-math turns subnormal numbers off in the thread that loads it, threads inherit the setting
// from the thread that starts them, and a plug-in's kernel may change anything. So every thread
// that serried starts begins with this environment, and it is restored before each computation:
// each share of a pool's work, each sample, each turn of the exchange, each API call that computes.
// A thread that calls serried keeps this environment afterwards.
#ifndef SR_KERNELS_BASE_FLOAT_CONTROL_H
#define SR_KERNELS_BASE_FLOAT_CONTROL_H

#ifdef __cplusplus
extern "C" {
#endif

// Sets the calling thread's environment, including that of the x87.
void sr_float_control_set(void);

#if defined(__x86_64__)
#define SR_MXCSR 0x1f80u       // all exceptions masked, all else 0
#define SR_MXCSR_FLAGS 0x003fu // sticky exception flags

// The same, but only if MXCSR differs; the check costs a few cycles.
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
