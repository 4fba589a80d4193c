// SPDX-License-Identifier: Apache-2.0
// The reference provider: one entry for every kernel of kernel_list.def, and the dtypes that each
// argument may have. It serves every shape; every other provider is checked against it.
#include "kernels/cpu/reference/reference_internal.h"

// One letter per argument:
//   T activation (f32, bf16, f16, f64; the same for all T)
//   P parameter (f32, or f64 with f64)      p the same, or absent
//   F f32   I i32   U u8   * any float, or the dtype of the first argument   ? any dtype
static const char *const signatures[SR_KERNEL_COUNT] = {
    [SR_KERNEL_conv2d] = "TPpT",
    [SR_KERNEL_conv2d_dx] = "TPT",
    [SR_KERNEL_conv2d_dw] = "TTP",
    [SR_KERNEL_linear] = "TPpT",
    [SR_KERNEL_linear_dx] = "TPT",
    [SR_KERNEL_linear_dw] = "TTP",
    [SR_KERNEL_bias_add] = "TPT",
    [SR_KERNEL_channel_sum] = "TP",
    [SR_KERNEL_channel_dot] = "TTpP",
    [SR_KERNEL_batchnorm_train] = "TppTPP",
    [SR_KERNEL_batchnorm_grad] = "TTpPPTPP",
    [SR_KERNEL_batchnorm_infer] = "TppPPT",
    [SR_KERNEL_relu] = "TT",
    [SR_KERNEL_relu_grad] = "TTT",
    [SR_KERNEL_gelu] = "TT",
    [SR_KERNEL_gelu_grad] = "TTT",
    [SR_KERNEL_leaky_relu] = "TT",
    [SR_KERNEL_leaky_relu_grad] = "TTT",
    [SR_KERNEL_tanh] = "TT",
    [SR_KERNEL_tanh_grad] = "TTT",
    [SR_KERNEL_sigmoid] = "TT",
    [SR_KERNEL_sigmoid_grad] = "TTT",
    [SR_KERNEL_softplus] = "TT",
    [SR_KERNEL_softplus_grad] = "TTT",
    [SR_KERNEL_add] = "TTT",
    [SR_KERNEL_sub] = "TTT",
    [SR_KERNEL_mul] = "TTT",
    [SR_KERNEL_scale] = "TT",
    [SR_KERNEL_scale_by] = "TPT",
    [SR_KERNEL_fill_by] = "PT",
    [SR_KERNEL_cast] = "?*",
    [SR_KERNEL_normalize] = "UT",
    [SR_KERNEL_dropout] = "TIT",
    [SR_KERNEL_random_normal] = "IT",
    [SR_KERNEL_mix_batch] = "TIITIP",
    [SR_KERNEL_maxpool2d] = "TTU",
    [SR_KERNEL_maxpool2d_grad] = "TUT",
    [SR_KERNEL_avgpool2d] = "TT",
    [SR_KERNEL_avgpool2d_grad] = "TT",
    [SR_KERNEL_upsample2d] = "TT",
    [SR_KERNEL_upsample2d_grad] = "TT",
    [SR_KERNEL_reduce_sum] = "TP",
    [SR_KERNEL_softmax_xent] = "TIPP",
    [SR_KERNEL_softmax_xent_grad] = "PIPT",
    [SR_KERNEL_topk_hits] = "TIF",
    [SR_KERNEL_softmax] = "TP",
    [SR_KERNEL_sgd] = "FFFF",
    [SR_KERNEL_ema] = "FFF",
};

static bool is_float(sr_dtype dtype) {
    return dtype == SR_F32 || dtype == SR_BF16 || dtype == SR_F16 || dtype == SR_F64;
}

// Dtype of the first T of a signature, or SR_DTYPE_COUNT.
static sr_dtype activation_of(const sr_kernel_request *request, const char *signature) {
    for (int i = 0; signature[i]; i++)
        if (signature[i] == 'T')
            return request->dtype[i];
    return SR_DTYPE_COUNT;
}

static bool fits(char letter, sr_dtype dtype, sr_dtype activation, sr_dtype first) {
    const sr_dtype parameter = activation == SR_F64 ? SR_F64 : SR_F32;
    switch (letter) {
    case 'T':
        return is_float(dtype) && dtype == activation;
    case 'P':
        return dtype == parameter;
    case 'p':
        return dtype == parameter || dtype == SR_DTYPE_COUNT;
    case 'F':
        return dtype == SR_F32;
    case 'I':
        return dtype == SR_I32;
    case 'U':
        return dtype == SR_U8;
    case '*':
        return is_float(dtype) || dtype == first;
    default:
        return (unsigned)dtype < (unsigned)SR_DTYPE_COUNT;
    }
}

static bool supports(const sr_kernel_request *request) {
    const char *signature = signatures[request->kernel];
    const sr_dtype activation = activation_of(request, signature);
    int i = 0;
    for (; signature[i] && i < request->args; i++)
        if (!fits(signature[i], request->dtype[i], activation, request->dtype[0]))
            return false;
    return !signature[i] && i == request->args;
}

// Updates have no activations: their parameters are f32.
#define DTYPES(id) ((id) == SR_KERNEL_sgd || (id) == SR_KERNEL_ema ? "f32" : "f32 bf16 f16 f64")

static const sr_kernel_entry entries[] = {
#define SR_KERNEL(id, arg_count, params, doc)                                                      \
    {                                                                                              \
        .struct_size = sizeof(sr_kernel_entry),                                                    \
        .abi = SR_KERNEL_ABI,                                                                      \
        .kernel = SR_KERNEL_##id,                                                                  \
        .name = #id "/reference",                                                                  \
        .provider = "reference",                                                                   \
        .numerics_class = "reference",                                                             \
        .supports = supports,                                                                      \
        .prepare = sr_reference_prepare_##id,                                                      \
        .dtypes = DTYPES(SR_KERNEL_##id),                                                          \
    },
#include "kernels/kernel_list.def"
#undef SR_KERNEL
};

extern const sr_provider sr_provider_reference;
const sr_provider sr_provider_reference = {
    .struct_size = sizeof(sr_provider),
    .abi = SR_KERNEL_ABI,
    .name = "reference",
    .entries = entries,
    .count = sizeof entries / sizeof entries[0],
    .numerics = SR_REFERENCE_NUMERICS,
};
