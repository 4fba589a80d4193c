// SPDX-License-Identifier: Apache-2.0
// The x86 kernels for processors with AVX-512 F, BW, DQ and VL; compiled with those flags.
#define SR_X86_SET sr_x86_avx512
#include "kernels/cpu/x86/x86_set_internal.h"
