// SPDX-License-Identifier: Apache-2.0
// The x86 kernels of elements, attention, softmax, cross-entropy, pooling, resizing and updates.
// Compiled once for each instruction set (CMakeLists).
#include "kernels/cpu/x86/x86_activation_internal.h"
#include "kernels/cpu/x86/x86_attention_internal.h"
#include "kernels/cpu/x86/x86_elementwise_internal.h"
#include "kernels/cpu/x86/x86_pool_internal.h"
#include "kernels/cpu/x86/x86_random_internal.h"
#include "kernels/cpu/x86/x86_resize_internal.h"
#include "kernels/cpu/x86/x86_softmax_internal.h"
#include "kernels/cpu/x86/x86_update_internal.h"
#include "kernels/cpu/x86/x86_xent_internal.h"

#define SR_X86_FAMILY elements
#define SR_X86_ROWS "kernels/cpu/x86/x86_elements.def"
#include "kernels/cpu/x86/x86_table_internal.h"
