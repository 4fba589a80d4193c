// SPDX-License-Identifier: Apache-2.0
// Provider "onednn": convolutions and matrix products by oneDNN (its C API 2.x, with operation
// descriptors).
//
// oneDNN computes on one thread (onednn_engine.c); a stage is cut into blocks of images, which run
// in parallel. Activations are plain NHWC; weights are packed once per run into the layout that the
// primitive prefers.
//
// Source: oneDNN 2.6 developer guide. Deliberately not used: its batch normalisation, pooling and
// elementwise primitives (statistics and rounding are ours), Winograd (other error bounds).
#include <pthread.h>
#include <stdio.h>

#include "kernels/base/cpuid.h"
#include "kernels/cpu/onednn/onednn_internal.h"

static void thread_init(void) {
    (void)sr_onednn_single_thread();
}

// f32, bf16 or f16 on a processor that oneDNN is fast on.
static bool dtypes_fit(const sr_kernel_request *request) {
    const sr_dtype t = sr_kernel_activation(request);
    return (sr_cpu_features() & SR_CPU_AVX2) != 0 && (t == SR_F32 || t == SR_BF16 || t == SR_F16) &&
           sr_kernel_fits(request);
}

// Arithmetic in f32, for every T.
static bool supports_gemm(const sr_kernel_request *request) {
    return dtypes_fit(request);
}
static bool supports_f32(const sr_kernel_request *request) {
    return dtypes_fit(request) &&
           (request->dtype[0] == SR_F32 || sr_onednn_widens(request->dtype[0]));
}
// Products of bf16 on AMX tiles, sums in f32: several times as fast as the kernels of provider x86,
// whose arithmetic is f32.
static bool supports_bf16(const sr_kernel_request *request) {
    return dtypes_fit(request) && request->dtype[0] == SR_BF16 && sr_onednn_native_bf16();
}
// oneDNN 2.6 adds memory that nothing was written to where a row has fewer pixels than a stride,
// and with dilation where 16 does not divide the channels of x (measured: with more than 32 of
// them).
static bool supports_dw_bf16(const sr_kernel_request *request) {
    const sr_conv_params *p = (const void *)request->params;
    const bool dilated = p->dilation_h > 1 || p->dilation_w > 1;
    return supports_bf16(request) && p->w >= p->stride_w && (!dilated || p->c % 16 == 0);
}

#define ENTRY(id, suffix, class, fits, types, features, first)                                     \
    {                                                                                              \
        .struct_size = sizeof(sr_kernel_entry), .abi = SR_KERNEL_ABI, .kernel = SR_KERNEL_##id,    \
        .name = #id "/onednn" suffix, .provider = "onednn", .numerics_class = class,               \
        .supports = fits, .prepare = sr_onednn_prepare_##id, .dtypes = types, .needs = features,   \
        .outranks = first                                                                          \
    }

static const sr_kernel_entry entries[] = {
    ENTRY(conv2d, "", "onednn-direct-f32", supports_f32, "f32 bf16 f16", SR_CPU_AVX2, false),
    ENTRY(conv2d_dx, "", "onednn-direct-f32", supports_f32, "f32 bf16 f16", SR_CPU_AVX2, false),
    ENTRY(conv2d_dw, "", "onednn-direct-f32", supports_f32, "f32 bf16 f16", SR_CPU_AVX2, false),
    ENTRY(conv2d, "-amx", "onednn-direct-bf16", supports_bf16, "bf16", SR_CPU_AMX_BF16, true),
    ENTRY(conv2d_dx, "-amx", "onednn-direct-bf16", supports_bf16, "bf16", SR_CPU_AMX_BF16, true),
    ENTRY(conv2d_dw, "-amx", "onednn-direct-bf16", supports_dw_bf16, "bf16", SR_CPU_AMX_BF16, true),
    ENTRY(linear, "", "onednn-gemm-f32", supports_gemm, "f32 bf16 f16", SR_CPU_AVX2, false),
    ENTRY(linear_dx, "", "onednn-gemm-f32", supports_gemm, "f32 bf16 f16", SR_CPU_AVX2, false),
    ENTRY(linear_dw, "", "onednn-gemm-f32", supports_gemm, "f32 bf16 f16", SR_CPU_AVX2, false),
    ENTRY(matmul, "", "onednn-gemm-f32", supports_gemm, "f32 bf16 f16", SR_CPU_AVX2, false),
};

static pthread_once_t version_once = PTHREAD_ONCE_INIT;
static char version_text[80];

static void write_version(void) {
    const dnnl_version_t *v = dnnl_version();
    uint32_t cache[SR_ONEDNN_CACHES];
    const int n = snprintf(version_text, sizeof version_text, "oneDNN %d.%d.%d", v->major, v->minor,
                           v->patch);
    if (sr_onednn_caches(cache))
        (void)snprintf(version_text + n, sizeof version_text - (size_t)n,
                       ", caches %u KiB %u KiB %u KiB", cache[0] >> 10, cache[1] >> 10,
                       cache[2] >> 10);
}

static const char *version(void) {
    (void)pthread_once(&version_once, write_version);
    return version_text;
}

extern const sr_provider sr_provider_onednn;
const sr_provider sr_provider_onednn = {
    .struct_size = sizeof(sr_provider),
    .abi = SR_KERNEL_ABI,
    .name = "onednn",
    .entries = entries,
    .count = sizeof entries / sizeof entries[0],
    .thread_init = thread_init,
    .version = version,
    .numerics = SR_ONEDNN_NUMERICS,
    .features = SR_CPU_AVX2 | SR_CPU_AVX512 | SR_CPU_AMX_BF16, // those that make_engine asks for
};
