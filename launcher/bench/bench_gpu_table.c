// SPDX-License-Identifier: Apache-2.0
// GPUs that steps are planned for (bench_gpu_internal.h).
//
// Of the H100 everything but arithmetic in fp32 was measured (tests/gpu/RESULTS.md): matrix
// products of 8192 x 8192 x 8192 by cuBLASLt; 1x1 convolutions by mma.sync with operands in shared
// memory, 1024 to 512 channels, the fastest of twelve shapes; copies of 2 GiB; a graph of 1,000
// empty kernels; 10,000 empty kernels enqueued one by one. Of our kernels that read and write
// everything once, batchnorm_infer_relu reached 0.85 (bf16) and 0.90 (fp16) of the rate of copies
// in steps of ResNet-50, 4.19 GB in 1.7 and 1.6 ms; 0.88 is what is assumed of all of them.
//
// An H200 has the multiprocessors of the H100 and memory of 4.8 TB/s instead of 3.35 in its data
// sheet, of which the H100's share is taken. Nothing was measured on it. Plans for the A100, which
// has the figures of its sheet, are optimistic; it has no times of cuDNN.
#include <string.h>

#include "launcher/bench/bench_gpu_internal.h"

#define TERA 1e12
#define GIB 1073741824.0

#define MIB 1048576.0

#define OWN 0.88
#define LAUNCH 0.79e-6
#define ENQUEUE 3.6e-6

static const sr_gpu gpus[] = {
    {.name = "h200",
     .model = "NVIDIA H200 SXM",
     .reported = "NVIDIA H200",
     .tensor_tf32 = 357.5 * TERA,
     .tensor_16 = 715 * TERA,
     .warp_16 = 275 * TERA,
     .plain = 67 * TERA,
     .bytes = 2.9 * TERA * 4.8 / 3.35,
     .own = OWN,
     .launch = LAUNCH,
     .enqueue = ENQUEUE,
     .memory = 139 * GIB, // what a program sees of 141 GB
     .cache = 50 * MIB,
     .like = "h100",
     .source = "derived from what an H100 was measured to do, and 4.8 TB/s for 3.35"},
    {.name = "h100",
     .model = "NVIDIA H100 SXM",
     .reported = "NVIDIA H100 80GB HBM3",
     .tensor_tf32 = 357.5 * TERA, // half of 16-bit products, as in the data sheet
     .tensor_16 = 715 * TERA,
     .warp_16 = 275 * TERA,
     .plain = 67 * TERA, // data sheet
     .bytes = 2.9 * TERA,
     .own = OWN,
     .launch = LAUNCH,
     .enqueue = ENQUEUE,
     .memory = 79 * GIB,
     .cache = 50 * MIB,
     .measured = true,
     .source = "measured, but for fp32: half of bf16 in TF32, the data sheet without tensor cores"},
    {.name = "a100",
     .model = "NVIDIA A100 SXM 80 GB",
     .reported = "NVIDIA A100-SXM4-80GB",
     .tensor_tf32 = 156 * TERA, // data sheet, dense, as the next ones
     .tensor_16 = 312 * TERA,
     .warp_16 = 312 * TERA, // mma.sync is how its tensor cores are reached
     .plain = 19.5 * TERA,
     .bytes = 2.039 * TERA,
     .own = OWN,
     .launch = LAUNCH,
     .enqueue = ENQUEUE,
     .memory = 79 * GIB,
     .cache = 40 * MIB,
     .source = "peak rates of the data sheet, which no program reaches; launches of an H100"},
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

double sr_gpu_flop_rate(const sr_gpu *gpu, sr_gpu_class numerics, sr_dtype dtype) {
    switch (numerics) {
    case SR_GPU_cudnn:
    case SR_GPU_cublaslt:
        return dtype == SR_F32 ? gpu->tensor_tf32 : gpu->tensor_16;
    case SR_GPU_mma:
        return gpu->warp_16;
    case SR_GPU_tensor:
        return gpu->plain;
    case SR_GPU_reference:
    case SR_GPU_CLASSES:
        break;
    }
    return gpu->plain / 2; // a multiplication and an addition in the time of both at once
}
