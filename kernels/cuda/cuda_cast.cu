// SPDX-License-Identifier: Apache-2.0
// Conversions: kernels/cpu/reference/reference_cast.c, and normalize and fill_by of
// reference_elementwise.c.
#include "kernels/cuda/cuda_index.h"
#include "kernels/cuda/cuda_prepare.h"
#include "kernels/cuda/cuda_vector.h"

// ---- cast: every dtype to every float dtype, rounded once, and to i32 and u8 ----

struct cast_args {
    const void *x;
    void *y, *workspace;
    int64_t count;
    int32_t from, to; // sr_dtype
};

enum { LANES = 4 }; // elements of a thread that converts

template <class E>
static __device__ void load_integers(const void *p, int64_t i, float (&v)[LANES]) {
    E raw[LANES];
    sr_get((const E *)p + i, raw);
    SR_UNROLL
    for (int k = 0; k < LANES; k++)
        v[k] = (float)raw[k];
}

// Through f32, which represents every source.
static __device__ float load_narrow(const cast_args &a, int64_t i) {
    if (a.from == SR_F32)
        return sr_load<sr_f32>(a.x, i);
    if (a.from == SR_BF16)
        return sr_load<sr_bf16>(a.x, i);
    if (a.from == SR_F16)
        return sr_load<sr_f16>(a.x, i);
    return a.from == SR_U8 ? (float)((const uint8_t *)a.x)[i] : (float)((const int8_t *)a.x)[i];
}

// Towards 0, to the nearest number that exists; NaN: 0.
template <class F> static __device__ F clamped(F v, F least, F most) {
    if (!(v >= least))
        return v < least ? least : (F)0;
    return v > most ? most : v;
}

// Integers are exact in f64.
static __device__ void store_integer(const cast_args &a, int64_t i, double v) {
    if (a.to == SR_I32)
        ((int32_t *)a.y)[i] = (int32_t)clamped(v, -2147483648.0, 2147483647.0);
    else
        ((uint8_t *)a.y)[i] = (uint8_t)clamped(v, 0.0, 255.0);
}

static __device__ bool is_integer(int32_t dtype) {
    return dtype == SR_I32 || dtype == SR_U8;
}

static __device__ void store_narrow(const cast_args &a, int64_t i, float v) {
    if (a.to == SR_F32)
        sr_store<sr_f32>(a.y, i, v);
    else if (a.to == SR_BF16)
        sr_store<sr_bf16>(a.y, i, v);
    else if (a.to == SR_F16)
        sr_store<sr_f16>(a.y, i, v);
    else if (is_integer(a.to))
        store_integer(a, i, (double)v);
    else
        ((double *)a.y)[i] = (double)v;
}

SR_CUDA_KERNEL(cuda_cast_narrow, cast_args, 256, 0) {
    const int64_t i = sr_thread() * LANES;
    if (i + LANES > a.count) {
        for (int64_t k = i; k < a.count; k++)
            store_narrow(a, k, load_narrow(a, k));
        return;
    }
    float v[LANES];
    if (a.from == SR_F32)
        sr_load_vector<sr_f32>(a.x, i, v);
    else if (a.from == SR_BF16)
        sr_load_vector<sr_bf16>(a.x, i, v);
    else if (a.from == SR_F16)
        sr_load_vector<sr_f16>(a.x, i, v);
    else if (a.from == SR_U8)
        load_integers<uint8_t>(a.x, i, v);
    else
        load_integers<int8_t>(a.x, i, v);
    if (a.to == SR_F32)
        sr_store_vector<sr_f32>(a.y, i, v);
    else if (a.to == SR_BF16)
        sr_store_vector<sr_bf16>(a.y, i, v);
    else if (a.to == SR_F16)
        sr_store_vector<sr_f16>(a.y, i, v);
    else if (is_integer(a.to))
        for (int k = 0; k < LANES; k++)
            store_integer(a, i + k, (double)v[k]);
    else
        for (int k = 0; k < LANES; k++)
            ((double *)a.y)[i + k] = (double)v[k];
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
    else if (is_integer(a.to))
        store_integer(a, i, v);
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
    return wide ? sr_cuda_elementwise(request, a, &cuda_cast_wide_kernel, count, out)
                : sr_cuda_elementwise(request, a, &cuda_cast_narrow_kernel,
                                      sr_blocks_for(count, LANES), out);
}

// ---- normalize: x u8, y ----

struct normalize_args {
    const uint8_t *x;
    void *y, *workspace;
    int64_t count;
    int32_t channels;
    float mean[SR_NORMALIZE_MAX_CHANNELS], inverse_std[SR_NORMALIZE_MAX_CHANNELS];
};

// Channels are known when this is compiled, so that each lane's is one of a few registers.
template <class T, int CHANNELS>
static __device__ void normalize_vector(const normalize_args &a, int64_t first) {
    constexpr int N = sr_lanes<T>;
    const int begin = CHANNELS == 1 ? 0 : (int)(first - sr_divide(first, CHANNELS) * CHANNELS);
    float mean[CHANNELS], inverse_std[CHANNELS], y[N] = {}; // of lanes 0, 1, ...
    SR_UNROLL
    for (int k = 0; k < CHANNELS; k++) {
        const int c = begin + k < CHANNELS ? begin + k : begin + k - CHANNELS;
        mean[k] = a.mean[c];
        inverse_std[k] = a.inverse_std[c];
    }
    uint8_t x[N] = {};
    if (first + N <= a.count)
        sr_get(a.x + first, x);
    else
        for (int k = 0; k < N && first + k < a.count; k++)
            x[k] = a.x[first + k];
    SR_UNROLL
    for (int k = 0; k < N; k++)
        y[k] = ((float)x[k] - mean[k % CHANNELS]) * inverse_std[k % CHANNELS];
    sr_store_vector<T>(a.y, first, a.count, y);
}

template <class T> static __device__ void cuda_normalize(const normalize_args &a) {
    const int64_t first = sr_thread() * sr_lanes<T>;
    if (first >= a.count)
        return;
    if (a.channels == 1)
        normalize_vector<T, 1>(a, first);
    else if (a.channels == 2)
        normalize_vector<T, 2>(a, first);
    else if (a.channels == 3)
        normalize_vector<T, 3>(a, first);
    else
        normalize_vector<T, 4>(a, first);
}
static_assert(SR_NORMALIZE_MAX_CHANNELS == 4, "numbers of channels");
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
    return sr_cuda_elementwise(request, a, cuda_normalize_kernels[request->dtype[1]],
                               sr_cuda_vectors(request->dtype[1], a.count), out);
}

// ---- fill_by: s, y ----

struct fill_args {
    const float *s;
    void *y, *workspace;
    int64_t count;
};

template <class T> static __device__ void cuda_fill_by(const fill_args &a) {
    constexpr int N = sr_lanes<T>;
    const int64_t first = sr_thread() * N;
    if (first >= a.count)
        return;
    float y[N];
    SR_UNROLL
    for (int k = 0; k < N; k++)
        y[k] = a.s[0];
    sr_store_vector<T>(a.y, first, a.count, y);
}
SR_CUDA_TYPED(cuda_fill_by, fill_args, 256, 0)

sr_status sr_cuda_prepare_fill_by(const sr_kernel_request *request, sr_prepared *out) {
    const fill_args a = {NULL, NULL, NULL, sr_cuda_params<sr_count_params>(request)->count};
    return sr_cuda_elementwise(request, a, cuda_fill_by_kernels[request->dtype[1]],
                               sr_cuda_vectors(request->dtype[1], a.count), out);
}
