// SPDX-License-Identifier: Apache-2.0
// The x86 kernels of elementwise formulas. Compiled once for each instruction set (CMakeLists).
#include "kernels/cpu/x86/x86_expression_internal.h"

#define SR_X86_FAMILY formulas
#define SR_X86_ROWS "kernels/cpu/x86/x86_formulas.def"
#include "kernels/cpu/x86/x86_table_internal.h"
