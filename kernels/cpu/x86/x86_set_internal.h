// SPDX-License-Identifier: Apache-2.0
// All x86 kernels, and the table SR_X86_SET of them. Included by the two files that compile it.
#include "kernels/cpu/x86/x86_activation_internal.h"
#include "kernels/cpu/x86/x86_batchnorm_internal.h"
#include "kernels/cpu/x86/x86_conv_dw_internal.h"
#include "kernels/cpu/x86/x86_direct_dw_internal.h"
#include "kernels/cpu/x86/x86_direct_internal.h"
#include "kernels/cpu/x86/x86_elementwise_internal.h"
#if defined(__AVX512F__)
#include "kernels/cpu/x86/x86_pointwise_internal.h"
#endif
#include "kernels/cpu/x86/x86_pool_internal.h"
#include "kernels/cpu/x86/x86_random_internal.h"
#include "kernels/cpu/x86/x86_rows_internal.h"
#include "kernels/cpu/x86/x86_update_internal.h"
#include "kernels/cpu/x86/x86_winograd_dw_internal.h"
#include "kernels/cpu/x86/x86_winograd_internal.h"

#define ONE(name) [SR_KERNEL_##name] = {{{name##_f32}}, {{name##_bf16}}}
#define STAGES(name, ...) [SR_KERNEL_##name] = {__VA_ARGS__}
#define WINOGRAD(name, ...) [SR_X86_WINOGRAD(SR_KERNEL_##name)] = {__VA_ARGS__}
#define POINTWISE(name, ...) [SR_X86_POINTWISE(SR_KERNEL_##name)] = {__VA_ARGS__}
#define DIRECT(name, ...) [SR_X86_DIRECT(SR_KERNEL_##name)] = {__VA_ARGS__}

const sr_x86_set SR_X86_SET = {{
    ONE(relu),
    ONE(relu_grad),
    ONE(gelu),
    ONE(gelu_grad),
    ONE(leaky_relu),
    ONE(leaky_relu_grad),
    ONE(add),
    ONE(sub),
    ONE(mul),
    ONE(scale),
    ONE(scale_by),
    ONE(fill_by),
    ONE(cast),
    ONE(normalize),
    ONE(dropout),
    ONE(bias_add),
    ONE(maxpool2d),
    ONE(maxpool2d_grad),
    ONE(avgpool2d),
    ONE(avgpool2d_grad),
    [SR_KERNEL_sgd] = {{{sgd_f32}}},
    [SR_KERNEL_ema] = {{{ema_f32}}},
    STAGES(reduce_sum, {{sum_f32, sum_join}}, {{sum_bf16, sum_join}}),
    STAGES(channel_sum, {{channel_sum_f32, channel_sum_join}},
           {{channel_sum_bf16, channel_sum_join}}),
    STAGES(channel_dot, {{channel_dot_f32, channel_dot_join}},
           {{channel_dot_bf16, channel_dot_join}}),
    STAGES(batchnorm_train, {{batchnorm_moments_f32, batchnorm_join, batchnorm_normalize_f32}},
           {{batchnorm_moments_bf16, batchnorm_join, batchnorm_normalize_bf16}}),
    STAGES(batchnorm_infer, {{batchnorm_infer_setup, batchnorm_infer_f32}},
           {{batchnorm_infer_setup, batchnorm_infer_bf16}}),
    STAGES(batchnorm_grad, {{batchnorm_products_f32, batchnorm_grad_join, batchnorm_apply_f32}},
           {{batchnorm_products_bf16, batchnorm_grad_join, batchnorm_apply_bf16}}),
    STAGES(conv2d_dw, {{conv_dw_f32, conv_dw_join}}, {{conv_dw_bf16, conv_dw_join}}),
    WINOGRAD(conv2d, {{wg_weights_f32, wg_forward_f32}}, {{wg_weights_bf16, wg_forward_bf16}}),
    WINOGRAD(conv2d_dx, {{wg_weights_f32, wg_dx_f32}}, {{wg_weights_bf16, wg_dx_bf16}}),
    WINOGRAD(conv2d_dw, {{wg_dw_f32, wg_dw_join}}, {{wg_dw_bf16, wg_dw_join}}),
    [SR_X86_WINOGRAD_DW_POINTS] = {{{wg_dw_transform_f32, wg_dw_point, wg_dw_join}},
                                   {{wg_dw_transform_bf16, wg_dw_point, wg_dw_join}}},
    DIRECT(conv2d, {{direct_weights_f32, direct_forward_f32}},
           {{direct_weights_bf16, direct_forward_bf16}}),
    DIRECT(conv2d_dx, {{direct_weights_f32, direct_dx_f32}},
           {{direct_weights_bf16, direct_dx_bf16}}),
    DIRECT(conv2d_dw, {{direct_dw_f32, direct_dw_join}}, {{direct_dw_bf16, direct_dw_join}}),
    DIRECT(linear, {{direct_weights_f32, direct_forward_f32}},
           {{direct_weights_bf16, direct_forward_bf16}}),
    DIRECT(linear_dx, {{direct_weights_f32, direct_dx_f32}},
           {{direct_weights_bf16, direct_dx_bf16}}),
    DIRECT(linear_dw, {{direct_dw_f32, direct_dw_join}}, {{direct_dw_bf16, direct_dw_join}}),
#if defined(__AVX512F__)
    POINTWISE(conv2d, {{pw_weights_f32, pw_forward_f32}}, {{pw_weights_bf16, pw_forward_bf16}}),
    POINTWISE(conv2d_dx, {{pw_weights_f32, pw_dx_f32}}, {{pw_weights_bf16, pw_dx_bf16}}),
#endif
}};
