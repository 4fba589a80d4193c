// SPDX-License-Identifier: Apache-2.0
// The x86 kernels for processors with AVX2, FMA and F16C; compiled with those flags (CMakeLists).
#define SR_X86_SET sr_x86_avx2
#include "kernels/cpu/x86/x86_set_internal.h"
