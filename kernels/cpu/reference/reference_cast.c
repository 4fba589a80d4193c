// SPDX-License-Identifier: Apache-2.0
// Reference cast: every dtype to every float dtype, rounded once to nearest even, and to i32 and
// u8, rounded towards 0 to the nearest one that exists, NaN to 0; equal dtypes are copied.
//
// Values are converted through f64, which represents every source exactly except i64 beyond 2^53.
#include <string.h>

#include "kernels/cpu/reference/reference_internal.h"

#define CHUNK 256

#define LOAD_LOOP(type, expression)                                                                \
    do {                                                                                           \
        const type *v = (const type *)from + begin;                                                \
        for (int64_t i = 0; i < n; i++)                                                            \
            out[i] = (expression);                                                                 \
    } while (0)

static void load(sr_dtype dtype, const void *from, int64_t begin, int64_t n, double *out) {
    switch (dtype) {
    case SR_F32:
        LOAD_LOOP(float, (double)v[i]);
        break;
    case SR_BF16:
        LOAD_LOOP(uint16_t, (double)sr_bf16_to_f32(v[i]));
        break;
    case SR_F16:
        LOAD_LOOP(uint16_t, (double)sr_f16_to_f32(v[i]));
        break;
    case SR_F64:
        LOAD_LOOP(double, v[i]);
        break;
    case SR_U8:
        LOAD_LOOP(uint8_t, (double)v[i]);
        break;
    case SR_I8:
        LOAD_LOOP(int8_t, (double)v[i]);
        break;
    case SR_I32:
        LOAD_LOOP(int32_t, (double)v[i]);
        break;
    case SR_I64:
        LOAD_LOOP(int64_t, (double)v[i]);
        break;
    case SR_DTYPE_COUNT:
        break;
    }
}

static double clamped(double v, double least, double most) {
    if (!(v >= least)) // NaN, too
        return v < least ? least : 0;
    return v > most ? most : v;
}

static void store(sr_dtype dtype, const double *v, int64_t begin, int64_t n, void *to) {
    if (dtype == SR_F32)
        for (int64_t i = 0; i < n; i++)
            ((float *)to)[begin + i] = (float)v[i];
    else if (dtype == SR_BF16)
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)to)[begin + i] = sr_f32_to_bf16(sr_f64_to_f32_odd(v[i]));
    else if (dtype == SR_F16)
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)to)[begin + i] = sr_f32_to_f16(sr_f64_to_f32_odd(v[i]));
    else if (dtype == SR_I32)
        for (int64_t i = 0; i < n; i++)
            ((int32_t *)to)[begin + i] = (int32_t)clamped(v[i], INT32_MIN, INT32_MAX);
    else if (dtype == SR_U8)
        for (int64_t i = 0; i < n; i++)
            ((uint8_t *)to)[begin + i] = (uint8_t)clamped(v[i], 0, UINT8_MAX);
    else
        for (int64_t i = 0; i < n; i++)
            ((double *)to)[begin + i] = v[i];
}

// Two dtypes fit into the pointer-sized state, so nothing is allocated.
static uintptr_t pack(sr_dtype from, sr_dtype to) {
    return (uintptr_t)from * SR_DTYPE_COUNT + (uintptr_t)to;
}

static sr_status run(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    const uintptr_t types = (uintptr_t)args->state;
    const sr_dtype from = (sr_dtype)(types / SR_DTYPE_COUNT),
                   to = (sr_dtype)(types % SR_DTYPE_COUNT);
    const sr_block_range r = sr_block_range_of(block, SR_REFERENCE_BLOCK,
                                               ((const sr_count_params *)args->params)->count);
    const size_t size = sr_dtype_size(from);
    if (from == to) {
        memcpy((char *)args->p[1] + (size_t)r.begin * size,
               (const char *)args->p[0] + (size_t)r.begin * size, (size_t)(r.end - r.begin) * size);
        return SR_OK;
    }
    double chunk[CHUNK] = {0};
    for (int64_t i = r.begin; i < r.end; i += CHUNK) {
        const int64_t n = r.end - i < CHUNK ? r.end - i : CHUNK;
        load(from, args->p[0], i, n, chunk);
        store(to, chunk, i, n, args->p[1]);
    }
    return SR_OK;
}

sr_status sr_reference_prepare_cast(const sr_kernel_request *request, sr_prepared *out) {
    const int64_t count = ((const sr_count_params *)(const void *)request->params)->count;
    sr_add_stage(out, run, sr_blocks_of(count, SR_REFERENCE_BLOCK));
    out->state = (void *)pack(request->dtype[0], request->dtype[1]);
    return SR_OK;
}
