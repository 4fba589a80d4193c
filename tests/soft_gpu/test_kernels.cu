// SPDX-License-Identifier: Apache-2.0
// Kernels for the tests of the software GPU, in the language of kernels/cuda.
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/cuda_mma.h"
#include "tests/soft_gpu/test_kernels.h"

SR_CUDA_KERNEL(fill, vector_args, 256, 0) {
    const int64_t i = sr_thread();
    if (i < a.count)
        a.y[i] = a.value;
}

SR_CUDA_KERNEL(add, vector_args, 256, 0) {
    const int64_t i = sr_thread();
    if (i < a.count)
        a.y[i] = a.x[i] + a.value;
}

extern "C" __global__ void __launch_bounds__(256)
    add_at_once(const __grid_constant__ vector_args a) {
    const int64_t i = sr_thread();
    if (i < a.count)
        a.y[i] = a.x[i] + a.value;
}
__attribute__((used, section(SR_CUDA_SECTION))) static const sr_cuda_kernel add_at_once_kernel = {
    "add_at_once", (const void *)add_at_once, sizeof(vector_args), 256, 0};

SR_CUDA_KERNEL(read_shifted, vector_args, 256, 0) {
    const int64_t i = sr_thread();
    if (i < a.count)
        a.y[i] = a.x[i + a.shift];
}

SR_CUDA_KERNEL(numbers, vector_args, 256, 0) {
    const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    const unsigned n = block * blockDim.x * blockDim.y * blockDim.z + thread;
    a.y[n] = (float)n;
}

// ---- Shared memory and barriers ----

static __device__ float sum_of_block(const vector_args &a, bool ends_with_barrier) {
    float *sums = (float *)sr_cuda_shared;
    const unsigned t = threadIdx.x;
    const int64_t i = sr_thread();
    sums[t] = i < a.count ? a.x[i] : 0.0f;
    for (unsigned n = blockDim.x / 2; n > 0; n /= 2) {
        if (ends_with_barrier || n == blockDim.x / 2)
            __syncthreads();
        if (t < n)
            sums[t] = sums[t] + sums[t + n];
    }
    return t == 0 ? sums[0] : 0.0f; // others may still be writing
}

SR_CUDA_KERNEL(block_sums, vector_args, 1024, 1) {
    const float sum = sum_of_block(a, true);
    if (threadIdx.x == 0)
        a.y[blockIdx.x] = sum;
}

SR_CUDA_KERNEL(block_sums_racy, vector_args, 1024, 1) {
    const float sum = sum_of_block(a, false);
    if (threadIdx.x == 0)
        a.y[blockIdx.x] = sum;
}

SR_CUDA_KERNEL(reverse_phases, vector_args, 1024, 1) {
    float *values = (float *)sr_cuda_shared;
    const unsigned t = threadIdx.x;
    values[t] = (float)t;
    for (int i = 0; i < a.shift; i++) {
        __syncthreads();
        const float other = values[blockDim.x - 1 - t];
        __syncthreads();
        values[t] = other;
    }
    a.y[sr_thread()] = values[t];
}

SR_CUDA_KERNEL(uneven_barrier, vector_args, 256, 1) {
    if ((int)threadIdx.x != a.shift)
        __syncthreads();
    a.y[sr_thread()] = 1.0f;
}

SR_CUDA_KERNEL(two_barriers, vector_args, 256, 1) {
    if ((int)threadIdx.x == a.shift) {
        __syncthreads();
        a.y[0] = 1.0f;
    } else {
        __syncthreads();
    }
}

SR_CUDA_KERNEL(undeclared_barrier, vector_args, 256, 0) {
    __syncthreads();
    a.y[sr_thread()] = 1.0f;
}

SR_CUDA_KERNEL(write_shared, vector_args, 256, 0) {
    sr_cuda_shared[a.shift] = 1;
    a.y[0] = sr_cuda_shared[a.shift];
}

SR_CUDA_KERNEL(neighbours, vector_args, 256, 1) {
    unsigned char *bytes = sr_cuda_shared;
    const unsigned t = threadIdx.x, other = t ^ (unsigned)a.shift;
    bytes[t] = 0;
    __syncthreads();
    for (int i = 0; i < 3; i++) {
        bytes[t] = (unsigned char)(t + (unsigned)i);
        if (a.count == 0)
            __syncthreads();
        else if (a.count == 1)
            __syncwarp();
        else if (a.count == 2)
            (void)__shfl_xor_sync(0xffffffffu, 1, 1);
        const unsigned char read = bytes[other];
        if (a.count == 0)
            __syncthreads();
        else
            __syncwarp();
        a.y[t] = read;
    }
}

SR_CUDA_KERNEL(count_shared, vector_args, 256, 1) {
    unsigned *counter = (unsigned *)sr_cuda_shared;
    if (threadIdx.x == 0)
        *counter = 0;
    __syncthreads();
    (void)atomicAdd(counter, 1u);
    __syncthreads();
    if (threadIdx.x == 0)
        a.y[0] = (float)*counter;
}

SR_CUDA_KERNEL(collide_shared, vector_args, 256, 1) {
    float *values = (float *)sr_cuda_shared;
    values[a.shift < 0 ? threadIdx.x : (unsigned)a.shift] = 1.0f;
    __syncthreads();
    a.y[threadIdx.x] = values[a.shift < 0 ? threadIdx.x : (unsigned)a.shift];
}

SR_CUDA_KERNEL(fresh_shared, vector_args, 256, 1) {
    float *values = (float *)sr_cuda_shared;
    if (threadIdx.x != (unsigned)a.shift)
        values[threadIdx.x] = 1.0f;
    __syncthreads();
    a.y[threadIdx.x] = values[threadIdx.x];
}

// ---- Warps ----

static __device__ float sum_of_warp(float v) {
    for (int bits = 16; bits > 0; bits /= 2)
        v = v + __shfl_xor_sync(0xffffffffu, v, bits);
    return v;
}

SR_CUDA_KERNEL(warp_sums, vector_args, 256, 1) {
    const float sum = sum_of_warp(a.x[sr_thread()]);
    if (threadIdx.x % 32 == 0)
        a.y[sr_thread() / 32] = sum;
}

SR_CUDA_KERNEL(warp_sums_partial, vector_args, 256, 1) {
    if ((int)threadIdx.x == a.shift)
        return;
    const float sum = sum_of_warp(a.x[sr_thread()]);
    if (threadIdx.x % 32 == 0)
        a.y[sr_thread() / 32] = sum;
}

SR_CUDA_KERNEL(warp_mask, vector_args, 256, 1) {
    const unsigned votes = __ballot_sync(~(unsigned)a.shift, threadIdx.x % 2);
    if (threadIdx.x == 0)
        a.y[0] = (float)__popc(votes);
}

// 8 numbers of each lane, and a vote.
SR_CUDA_KERNEL(shuffles, language_args, 32, 1) {
    const int lane = (int)threadIdx.x;
    int *out = a.out + lane * 8;
    out[0] = __shfl_sync(0xffffffffu, lane * 10, 5);
    out[1] = __shfl_up_sync(0xffffffffu, lane * 10, 3);
    out[2] = __shfl_down_sync(0xffffffffu, lane * 10, 3);
    out[3] = __shfl_xor_sync(0xffffffffu, lane * 10, 7);
    out[4] = __shfl_sync(0xffffffffu, lane * 10, 2, 8);
    out[5] = __shfl_down_sync(0xffffffffu, lane * 10, 3, 8);
    out[6] = (int)__shfl_xor_sync(0xffffffffu, (double)lane, 1);
    __syncwarp();
    out[7] = (int)__ballot_sync(0xffffffffu, lane % 3 == 0);
}

// ---- Tensor cores ----

enum { PRODUCT_STAGES = 3, PRODUCT_PITCH = 24 };

struct product_stage {
    uint16_t a[32][PRODUCT_PITCH], b[16][PRODUCT_PITCH]; // of 16 terms; rows are 48 bytes apart
};

static __device__ void copy_terms(product_stage *to, const vector_args &a, int first) {
    const uint16_t *x = (const uint16_t *)a.x + first;
    const int row = (int)threadIdx.x / 2, column = (int)threadIdx.x % 2 * 8, terms = (int)a.count;
    sr_copy_async<16>(&to->a[row][column], x + row * terms + column, row < PRODUCT_ROWS);
    if (row < 16)
        sr_copy_async<16>(&to->b[row][column], x + (PRODUCT_ROWS + row) * terms + column, true);
}

// y[32][16] = a b by two warps, the next terms under way meanwhile; with a mistake.
SR_CUDA_KERNEL(staged_product, vector_args, 64, 1) {
    product_stage *stages = (product_stage *)(void *)sr_cuda_shared;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, terms = (int)a.count;
    float c[2][4] = {};
    for (int i = 0; i < PRODUCT_STAGES - 1; i++) {
        copy_terms(&stages[i], a, i * 16);
        sr_copy_commit();
    }
    for (int i = 0; i * 16 < terms; i++) {
        const product_stage *s = &stages[i % PRODUCT_STAGES];
        const int next = i + PRODUCT_STAGES - 1;
        uint32_t own[4], other[4];
        if (a.shift != PRODUCT_WITHOUT_WAIT)
            sr_copy_wait<PRODUCT_STAGES - 2>();
        if (a.shift != PRODUCT_WITHOUT_BARRIER)
            __syncthreads();
        if (next * 16 < terms)
            copy_terms(&stages[(a.shift == PRODUCT_WRONG_STAGE ? i : next) % PRODUCT_STAGES], a,
                       next * 16);
        sr_copy_commit();
        const int outside = a.shift == PRODUCT_ROW_OUTSIDE && i % PRODUCT_STAGES == 2 ? 32 : 0;
        const uint16_t *own_rows = s->a[0];
        const int row = warp * 16 + lane % 16 + outside;
        sr_load_matrix(own, own_rows + row * PRODUCT_PITCH + lane / 16 * 8);
        sr_load_matrix(other, &s->b[lane % 8 + lane / 16 * 8][lane / 8 % 2 * 8]);
        if (a.shift == PRODUCT_WITHOUT_LANE && lane == 7)
            continue;
        sr_mma<sr_bf16>(c[0], own, other[0], other[1]);
        sr_mma<sr_bf16>(c[1], own, other[2], other[3]);
    }
    if (a.shift == PRODUCT_NEVER_WAITS) {
        copy_terms(&stages[0], a, 0);
        sr_copy_commit();
    } else {
        sr_copy_wait<0>();
    }
    for (int i = 0; i < 8; i++)
        a.y[(warp * 16 + lane / 4 + i / 2 % 2 * 8) * 16 + i / 4 * 8 + lane % 4 * 2 + i % 2] =
            c[i / 4][i % 4];
}

// y[8][8] = the transposed x[8][8], whose elements are of 16 bits, four times.
SR_CUDA_KERNEL(transpose, vector_args, 32, 1) {
    uint16_t *rows = (uint16_t *)(void *)sr_cuda_shared;
    const int lane = (int)threadIdx.x;
    uint32_t r[4];
    for (int i = lane; i < 256; i += 32)
        rows[i] = ((const uint16_t *)a.x)[i];
    __syncwarp();
    sr_load_matrix_transposed(r, rows + lane * 8);
    for (int i = 0; i < 8; i++) {
        const uint32_t element = r[i / 2] >> i % 2 * 16 & 0xffff;
        a.y[i / 2 * 64 + lane / 4 * 8 + lane % 4 * 2 + i % 2] = (float)element;
    }
}

// ---- The language ----

SR_CUDA_KERNEL(language, language_args, 1, 0) {
    int *out = a.out;
    int n = 0;
    out[n++] = __popc(0xf0f0u) == 8 && __clz(1) == 31 && __clz(0) == 32 && __ffs(8) == 4;
    out[n++] = __umulhi(0x80000000u, 6u) == 3 && __mulhi(-1, 1) == -1;
    out[n++] = __umul64hi(1ull << 63, 6) == 3 && __mul64hi(-1, 1) == -1;
    out[n++] = min(3, 4) == 3 && max(3u, 4u) == 4u && min(1.0f, 2.0f) == 1.0f;
    out[n++] = max(__uint_as_float(0x7fc00000u), 2.0f) == 2.0f;
    out[n++] = __float_as_uint(1.0f) == 0x3f800000u && __int_as_float(0x3f800000) == 1.0f;
    out[n++] = __fmul_rn(3.0f, 0.5f) == 1.5f && __fdiv_rn(1.0f, 4.0f) == 0.25f;
    out[n++] = __fsqrt_rn(2.25f) == 1.5f && __dsqrt_rn(2.25) == 1.5;
    out[n++] = __fmaf_rn(1.0f + 0x1p-12f, 1.0f + 0x1p-12f, -1.0f) == 0x1p-11f + 0x1p-24f;
    out[n++] = __float2int_rn(2.5f) == 2 && __float2int_rn(-3.5f) == -4 && __float2int_rn(3e9f) > 0;
    out[n++] = __ldg(a.x) == 7.0f;
    int counter = 5;
    out[n++] = atomicAdd(&counter, 2) == 5 && atomicMax(&counter, 9) == 7 && counter == 9;
    out[n++] = atomicMin(&counter, 3) == 9 && atomicCAS(&counter, 3, 8) == 3 && counter == 8;
    out[n++] = atomicExch(&counter, 1) == 8 && atomicOr(&counter, 2) == 1 && counter == 3;
    float4 v = make_float4(1.0f, 2.0f, 3.0f, 4.0f);
    out[n++] = v.x + v.w == 5.0f;
    // Products and sums are rounded one after the other.
    const float b = a.x[1]; // 1 + 2^-12
    out[n++] = b * b - 1.0f == 0x1p-11f;
}

// out[2i] and out[2i + 1]: x[i] as bf16 and f16; y[2i] and y[2i + 1]: back.
SR_CUDA_KERNEL(conversions, language_args, 256, 0) {
    const int64_t i = sr_thread();
    if (i >= a.count)
        return;
    const __nv_bfloat16 b = __float2bfloat16_rn(a.x[i]);
    const __half h = __float2half_rn(a.x[i]);
    unsigned short bits[2];
    memcpy(&bits[0], &b, 2);
    memcpy(&bits[1], &h, 2);
    a.out[2 * i] = bits[0];
    a.out[2 * i + 1] = bits[1];
    a.y[2 * i] = __bfloat162float(b);
    a.y[2 * i + 1] = __half2float(h);
}

// ---- Structs, and costs ----

SR_CUDA_KERNEL(take_large, large_args, 1, 0) {
    a.y[0] = a.rest[0];
}

SR_CUDA_KERNEL(take_small, small_args, 1, 0) {
    a.y[0] = 1.0f;
}

SR_CUDA_KERNEL(nothing, vector_args, 1024, 0) {
    if (threadIdx.x == 5000)
        a.y[0] = 1.0f;
}

SR_CUDA_KERNEL(only_barriers, vector_args, 1024, 1) {
    for (int i = 0; i < a.shift; i++)
        __syncthreads();
}
