// SPDX-License-Identifier: Apache-2.0
// GPUs that steps are planned for (bench_gpu_internal.h).
//
// Programs do not reach data sheets. Of the H100, matrix products and copies were measured
// (tests/gpu/RESULTS.md). For the H200, 0.80 of the sheet's products of 16-bit numbers (989 TFLOP/s
// dense) and 0.90 of its bandwidth (4.8 TB/s) are assumed. Plans for the A100, which has the
// figures of its sheet, are optimistic by about as much.
#include <string.h>

#include "launcher/bench/bench_gpu_internal.h"

#define TERA 1e12
#define GIB 1073741824.0

// 3 us: the middle of 2 to 4 us in which a host enqueues a kernel; replayed graphs need less.
#define LAUNCH 3e-6

static const sr_gpu gpus[] = {
    {.name = "h200",
     .model = "NVIDIA H200 SXM",
     .reported = "NVIDIA H200",
     .tensor_tf32 = 395 * TERA, // half of 16-bit products, as in the data sheet (495 of 989)
     .tensor_16 = 790 * TERA,
     .plain = 67 * TERA, // data sheet
     .bytes = 4.3 * TERA,
     .launch = LAUNCH,
     .memory = 139 * GIB, // what a program sees of 141 GB
     .source = "0.8 and 0.9 of the data sheet; fp32 without tensor cores: all of it"},
    {.name = "h100",
     .model = "NVIDIA H100 SXM",
     .reported = "NVIDIA H100 80GB HBM3",
     .tensor_tf32 = 357.5 * TERA, // half of 16-bit products, as in the data sheet
     .tensor_16 = 715 * TERA,     // 8192 x 8192 x 8192 by cuBLASLt
     .plain = 67 * TERA,          // data sheet
     .bytes = 2.9 * TERA,         // copies of 2 GiB
     .launch = LAUNCH,
     .memory = 79 * GIB,
     .source = "measured, but for fp32: half of bf16 in TF32, the data sheet's without tensor "
               "cores"},
    {.name = "a100",
     .model = "NVIDIA A100 SXM 80 GB",
     .reported = "NVIDIA A100-SXM4-80GB",
     .tensor_tf32 = 156 * TERA, // data sheet, dense, as the next four
     .tensor_16 = 312 * TERA,
     .plain = 19.5 * TERA,
     .bytes = 2.039 * TERA,
     .launch = LAUNCH,
     .memory = 79 * GIB,
     .source = "peak rates of the data sheet, which no program reaches"},
};

const sr_gpu *sr_gpu_at(size_t i) {
    return i < sizeof gpus / sizeof *gpus ? &gpus[i] : NULL;
}

const sr_gpu *sr_gpu_find(const char *name) {
    size_t i = 0;
    while (i < sizeof gpus / sizeof *gpus && strcmp(gpus[i].name, name) != 0)
        i++;
    return sr_gpu_at(i);
}

const sr_gpu *sr_gpu_of_model(const char *model) {
    size_t i = 0;
    while (i < sizeof gpus / sizeof *gpus && strcmp(gpus[i].reported, model) != 0)
        i++;
    return sr_gpu_at(i);
}

double sr_gpu_flop_rate(const sr_gpu *gpu, sr_gpu_rate rate, sr_dtype dtype) {
    if (rate == SR_GPU_SEPARATE)
        return gpu->plain / 2; // a multiplication and an addition in the time of both at once
    return dtype == SR_F32 ? gpu->tensor_tf32 : gpu->tensor_16;
}
