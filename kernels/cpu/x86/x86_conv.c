// SPDX-License-Identifier: Apache-2.0
// The x86 kernels of other convolutions, linear layers and matmul. Compiled once for each
// instruction set (CMakeLists); products of bf16 and of rows exist for AVX-512 alone.
#include "kernels/cpu/x86/x86_conv_dw_internal.h"
#include "kernels/cpu/x86/x86_direct_dw_internal.h"
#include "kernels/cpu/x86/x86_direct_internal.h"
#include "kernels/cpu/x86/x86_winograd_dw_internal.h"
#include "kernels/cpu/x86/x86_winograd_few_internal.h"
#include "kernels/cpu/x86/x86_winograd_internal.h"
#if defined(__AVX512F__)
#include "kernels/cpu/x86/x86_amx_internal.h"
#include "kernels/cpu/x86/x86_dot_dw_internal.h"
#include "kernels/cpu/x86/x86_dot_internal.h"
#include "kernels/cpu/x86/x86_pointwise_internal.h"
#endif

#define SR_X86_FAMILY conv
#define SR_X86_ROWS "kernels/cpu/x86/x86_conv.def"
#include "kernels/cpu/x86/x86_table_internal.h"
