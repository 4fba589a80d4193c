// SPDX-License-Identifier: Apache-2.0
// The x86 kernels of depthwise convolutions. Compiled once for each instruction set (CMakeLists).
#include "kernels/cpu/x86/x86_depthwise_dw_internal.h"
#include "kernels/cpu/x86/x86_depthwise_internal.h"

#define SR_X86_FAMILY depthwise
#define SR_X86_ROWS "kernels/cpu/x86/x86_depthwise.def"
#include "kernels/cpu/x86/x86_table_internal.h"
