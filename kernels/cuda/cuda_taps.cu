// SPDX-License-Identifier: Apache-2.0
// taps2d: kernels/cpu/reference/reference_taps.c. One thread has one point.
#include "kernels/cuda/cuda_index.h"
#include "kernels/cuda/cuda_prepare.h"
#include "kernels/taps.h"

struct taps_args {
    const float *points;
    float *weight;
    int32_t *index;
    void *workspace;
    sr_taps_params p;
};

SR_CUDA_KERNEL(cuda_taps2d, taps_args, 256, 0) {
    const sr_taps_params &p = a.p;
    const int64_t i = sr_thread(), points = p.p * p.q * p.r * p.s;
    if (i >= p.n * points * p.groups)
        return;
    const int64_t row = sr_divide(i, p.groups), group = i - row * p.groups;
    const int32_t taps = sr_taps_share(p.filter);
    sr_taps_place high, wide;
    sr_taps_places(&p, row % points, (double)a.points[2 * i], (double)a.points[2 * i + 1], &high,
                   &wide);
    for (int32_t t = 0; t < taps; t++) {
        const int64_t at = (row * taps + t) * p.groups + group;
        a.index[at] = sr_taps_index(&p, &high, &wide, t);
        a.weight[at] = (float)sr_taps_product(&p, &high, &wide, t);
    }
}

sr_status sr_cuda_prepare_taps2d(const sr_kernel_request *request, sr_prepared *out) {
    taps_args a = {};
    a.p = *sr_cuda_params<sr_taps_params>(request);
    return sr_cuda_elementwise(request, a, &cuda_taps2d_kernel, sr_taps_points(&a.p), out);
}
