// SPDX-License-Identifier: Apache-2.0
// Conversions: kernels/cpu/reference/reference_cast.c, and normalize and fill_by of
// reference_elementwise.c.
#include "kernels/cuda/cuda_index.h"
#include "kernels/cuda/cuda_prepare.h"

// ---- cast: every dtype to every float dtype, rounded once ----

struct cast_args {
    const void *x;
    void *y, *workspace;
    int64_t count;
    int32_t from, to; // sr_dtype
};

// Through f32, which represents every source.
SR_CUDA_KERNEL(cuda_cast_narrow, cast_args, 256, 0) {
    const int64_t i = sr_thread();
    if (i >= a.count)
        return;
    float v = 0;
    if (a.from == SR_F32)
        v = sr_load<sr_f32>(a.x, i);
    else if (a.from == SR_BF16)
        v = sr_load<sr_bf16>(a.x, i);
    else if (a.from == SR_F16)
        v = sr_load<sr_f16>(a.x, i);
    else if (a.from == SR_U8)
        v = (float)((const uint8_t *)a.x)[i];
    else
        v = (float)((const int8_t *)a.x)[i];
    if (a.to == SR_F32)
        sr_store<sr_f32>(a.y, i, v);
    else if (a.to == SR_BF16)
        sr_store<sr_bf16>(a.y, i, v);
    else if (a.to == SR_F16)
        sr_store<sr_f16>(a.y, i, v);
    else
        ((double *)a.y)[i] = (double)v;
}

// Through f64, which represents every source except i64 beyond 2^53.
SR_CUDA_KERNEL(cuda_cast_wide, cast_args, 256, 0) {
    const int64_t i = sr_thread();
    if (i >= a.count)
        return;
    double v = 0;
    if (a.from == SR_F64)
        v = ((const double *)a.x)[i];
    else if (a.from == SR_I32)
        v = (double)((const int32_t *)a.x)[i];
    else
        v = (double)((const int64_t *)a.x)[i];
    if (a.to == SR_F32)
        sr_store<sr_f32>(a.y, i, (float)v);
    else if (a.to == SR_BF16)
        sr_store<sr_bf16>(a.y, i, sr_f64_to_f32_odd(v));
    else if (a.to == SR_F16)
        sr_store<sr_f16>(a.y, i, sr_f64_to_f32_odd(v));
    else
        ((double *)a.y)[i] = v;
}

// Equal dtypes: count bytes.
SR_CUDA_KERNEL(cuda_cast_copy, cast_args, 256, 0) {
    const int64_t first = sr_thread() * 16;
    if (first + 16 <= a.count) {
        ((uint4 *)a.y)[first / 16] = ((const uint4 *)a.x)[first / 16];
        return;
    }
    for (int64_t i = first; i < a.count; i++)
        ((uint8_t *)a.y)[i] = ((const uint8_t *)a.x)[i];
}

sr_status sr_cuda_prepare_cast(const sr_kernel_request *request, sr_prepared *out) {
    const int64_t count = sr_cuda_params<sr_count_params>(request)->count;
    const sr_dtype from = request->dtype[0], to = request->dtype[1];
    cast_args a = {NULL, NULL, NULL, count, from, to};
    if (from == to) {
        a.count = count * (int64_t)sr_dtype_size(from);
        return sr_cuda_elementwise(request, a, &cuda_cast_copy_kernel, sr_blocks_for(a.count, 16),
                                   out);
    }
    const bool wide = from == SR_F64 || from == SR_I32 || from == SR_I64;
    return sr_cuda_elementwise(request, a, wide ? &cuda_cast_wide_kernel : &cuda_cast_narrow_kernel,
                               count, out);
}

// ---- normalize: x u8, y ----

struct normalize_args {
    const uint8_t *x;
    void *y, *workspace;
    int64_t count;
    int32_t channels;
    float mean[SR_NORMALIZE_MAX_CHANNELS], inverse_std[SR_NORMALIZE_MAX_CHANNELS];
};

template <class T> static __device__ void cuda_normalize(const normalize_args &a) {
    const int64_t i = sr_thread();
    if (i >= a.count)
        return;
    const int c = (int)(i - sr_divide(i, a.channels) * a.channels);
    sr_store<T>(a.y, i, ((float)a.x[i] - a.mean[c]) * a.inverse_std[c]);
}
SR_CUDA_TYPED(cuda_normalize, normalize_args, 256, 0)

sr_status sr_cuda_prepare_normalize(const sr_kernel_request *request, sr_prepared *out) {
    const sr_normalize_params *p = sr_cuda_params<sr_normalize_params>(request);
    if (p->channels < 1 || p->channels > SR_NORMALIZE_MAX_CHANNELS)
        return SR_FAIL(SR_E_UNSUPPORTED, "normalize: %lld channels; the limit is %d",
                       (long long)p->channels, SR_NORMALIZE_MAX_CHANNELS);
    normalize_args a = {NULL, NULL, NULL, p->rows * p->channels, (int32_t)p->channels, {}, {}};
    for (int c = 0; c < SR_NORMALIZE_MAX_CHANNELS; c++) {
        a.mean[c] = (float)p->mean[c];
        a.inverse_std[c] = (float)p->inverse_std[c];
    }
    return sr_cuda_elementwise(request, a, cuda_normalize_kernels[request->dtype[1]], a.count, out);
}

// ---- fill_by: s, y ----

struct fill_args {
    const float *s;
    void *y, *workspace;
    int64_t count;
};

template <class T> static __device__ void cuda_fill_by(const fill_args &a) {
    const int64_t i = sr_thread();
    if (i < a.count)
        sr_store<T>(a.y, i, a.s[0]);
}
SR_CUDA_TYPED(cuda_fill_by, fill_args, 256, 0)

sr_status sr_cuda_prepare_fill_by(const sr_kernel_request *request, sr_prepared *out) {
    const fill_args a = {NULL, NULL, NULL, sr_cuda_params<sr_count_params>(request)->count};
    return sr_cuda_elementwise(request, a, cuda_fill_by_kernels[request->dtype[1]], a.count, out);
}
