// SPDX-License-Identifier: Apache-2.0
// What cuDNN was measured to take for convolutions and their gradients on one GPU
// (tests/gpu/results/cudnn.tsv): the first engine of its heuristics, which is the one that is
// taken.
//
// A number of samples between two that were measured has a time between theirs. More samples take
// as much longer as they are more; fewer are not known, as then a GPU is not full. On a GPU whose
// times are derived from another one's, the time shrinks by as much as the longer one of the times
// that products and bytes take at the measured rates.
#include <string.h>

#include "launcher/bench/bench_gpu_internal.h"

typedef struct row {
    sr_kernel_id id;
    sr_dtype dtype;
    int64_t n, h, w, c, k, r, s, stride;
    double seconds;
} row;

static const row rows[] = {
#define SR_GPU_TIME(id, dtype, n, h, w, c, k, r, s, stride, us)                                    \
    {SR_KERNEL_##id, dtype, n, h, w, c, k, r, s, stride, (us)*1e-6},
#include "launcher/bench/bench_gpu_times.def"
#undef SR_GPU_TIME
};

static bool is_of(const row *t, sr_kernel_id id, sr_dtype dtype, const sr_conv_params *p) {
    const bool same = p->pad_top == (p->r - 1) / 2 && p->pad_left == (p->s - 1) / 2 &&
                      p->dilation_h == 1 && p->dilation_w == 1 && p->groups == 1 &&
                      p->stride_h == p->stride_w && p->p == (p->h - 1) / p->stride_h + 1 &&
                      p->q == (p->w - 1) / p->stride_w + 1;
    return same && t->id == id && t->dtype == dtype && t->h == p->h && t->w == p->w &&
           t->c == p->c && t->k == p->k && t->r == p->r && t->s == p->s && t->stride == p->stride_h;
}

static double between(const row *below, const row *above, int64_t n) {
    if (!below)
        return 0;
    if (!above)
        return below->seconds * (double)n / (double)below->n;
    if (below == above)
        return below->seconds;
    const double share = (double)(n - below->n) / (double)(above->n - below->n);
    return below->seconds + share * (above->seconds - below->seconds);
}

// Seconds by products or bytes, whichever is longer.
static double limit_of(const sr_gpu *gpu, const sr_conv_params *p, int64_t n) {
    const double x = (double)(n * p->h * p->w * p->c), y = (double)(n * p->p * p->q * p->k);
    const double flops = 2 * y * (double)(p->c * p->r * p->s) / gpu->tensor_16;
    const double bytes = 2 * (x + y) / gpu->bytes;
    return flops > bytes ? flops : bytes;
}

double sr_gpu_measured(const sr_gpu *gpu, sr_kernel_id id, sr_dtype dtype, const sr_conv_params *p,
                       int64_t n) {
    const row *below = NULL, *above = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const row *t = &rows[i];
        if (!is_of(t, id, dtype, p))
            continue;
        if (t->n <= n && (!below || t->n > below->n))
            below = t;
        if (t->n >= n && (!above || t->n < above->n))
            above = t;
    }
    const double seconds = between(below, above, n);
    if (gpu->measured)
        return seconds;
    const sr_gpu *like = gpu->like ? sr_gpu_find(gpu->like) : NULL;
    return like ? seconds * limit_of(gpu, p, n) / limit_of(like, p, n) : 0;
}
