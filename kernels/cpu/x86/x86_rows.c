// SPDX-License-Identifier: Apache-2.0
// The x86 kernels of normalisation and of sums over rows of channels. Compiled once for each
// instruction set (CMakeLists).
#include "kernels/cpu/x86/x86_batchnorm_internal.h"
#include "kernels/cpu/x86/x86_layernorm_internal.h"
#include "kernels/cpu/x86/x86_rows_internal.h"
#include "kernels/cpu/x86/x86_sum_internal.h"

#define SR_X86_FAMILY rows
#define SR_X86_ROWS "kernels/cpu/x86/x86_rows.def"
#include "kernels/cpu/x86/x86_table_internal.h"
