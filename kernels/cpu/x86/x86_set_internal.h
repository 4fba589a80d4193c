// SPDX-License-Identifier: Apache-2.0
// All x86 kernels, and the table SR_X86_SET of their stage functions by x86_list.def. Included by
// the two files that compile it.
#include "kernels/cpu/x86/x86_activation_internal.h"
#include "kernels/cpu/x86/x86_attention_internal.h"
#include "kernels/cpu/x86/x86_batchnorm_internal.h"
#include "kernels/cpu/x86/x86_conv_dw_internal.h"
#include "kernels/cpu/x86/x86_depthwise_dw_internal.h"
#include "kernels/cpu/x86/x86_depthwise_internal.h"
#include "kernels/cpu/x86/x86_direct_dw_internal.h"
#include "kernels/cpu/x86/x86_direct_internal.h"
#include "kernels/cpu/x86/x86_elementwise_internal.h"
#include "kernels/cpu/x86/x86_expression_internal.h"
#include "kernels/cpu/x86/x86_layernorm_internal.h"
#if defined(__AVX512F__)
#include "kernels/cpu/x86/x86_amx_internal.h"
#include "kernels/cpu/x86/x86_dot_dw_internal.h"
#include "kernels/cpu/x86/x86_dot_internal.h"
#include "kernels/cpu/x86/x86_pointwise_internal.h"
#endif
#include "kernels/cpu/x86/x86_pool_internal.h"
#include "kernels/cpu/x86/x86_random_internal.h"
#include "kernels/cpu/x86/x86_rows_internal.h"
#include "kernels/cpu/x86/x86_softmax_internal.h"
#include "kernels/cpu/x86/x86_sum_internal.h"
#include "kernels/cpu/x86/x86_update_internal.h"
#include "kernels/cpu/x86/x86_winograd_dw_internal.h"
#include "kernels/cpu/x86/x86_winograd_internal.h"

#define AVX2_STAGES(...)                                                                           \
    {                                                                                              \
        { __VA_ARGS__ }                                                                            \
    }
#if defined(__AVX512F__)
#define AVX512_STAGES(...)                                                                         \
    {                                                                                              \
        { __VA_ARGS__ }                                                                            \
    }
#else
#define AVX512_STAGES(...)                                                                         \
    {                                                                                              \
        { NULL }                                                                                   \
    }
#endif
// The AVX-512 set has them.
#define AMX_STAGES(...) AVX512_STAGES(__VA_ARGS__)
#define DOT_STAGES(...) AVX512_STAGES(__VA_ARGS__)
#define SR_X86(place, id, suffix, class, set, fits, plan, variants, stages) set##_STAGES(stages),
#define ANY(name) name,

const sr_x86_set SR_X86_SET = {{
    {
#define TYPED(name) name##_f32,
#define F32(name) name##_f32,
#define BF16(name) NULL,
#include "kernels/cpu/x86/x86_list.def"
#undef TYPED
#undef F32
#undef BF16
    },
    {
#define TYPED(name) name##_bf16,
#define F32(name) NULL,
#define BF16(name) name##_bf16,
#include "kernels/cpu/x86/x86_list.def"
#undef TYPED
#undef BF16
    },
    {
#define TYPED(name) name##_f16,
#define BF16(name) NULL,
#include "kernels/cpu/x86/x86_list.def"
    },
}};
