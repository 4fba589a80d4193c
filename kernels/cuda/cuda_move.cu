// SPDX-License-Identifier: Apache-2.0
// move_pixels: kernels/cpu/reference/reference_move.c. One thread has four neighbouring bytes of
// the output.
#include "kernels/base/pixel_move.h"
#include "kernels/cuda/cuda_index.h"
#include "kernels/cuda/cuda_prepare.h"

struct move_args {
    const uint8_t *x;
    const sr_pixel_move *moves;
    uint8_t *y;
    void *workspace;
    sr_move_params p;
};

static __device__ __forceinline__ uint32_t moved_byte(const move_args &a, int64_t i) {
    const sr_place at = sr_place_of(i, a.p.p, a.p.q, 3);
    const sr_pixel_move *m = a.moves + at.n;
    if (!sr_move_is_valid(m, a.p.n, a.p.h, a.p.w))
        return 0;
    const int64_t row = sr_move_row(m, at.h), column = sr_move_column(m, at.w);
    if (row < 0 || column < 0)
        return sr_move_color(m, (int)at.c);
    return a.x[((m->picture * a.p.h + row) * a.p.w + column) * 3 + at.c];
}

SR_CUDA_KERNEL(cuda_move_pixels, move_args, 256, 0) {
    const int64_t count = a.p.count * a.p.p * a.p.q * 3, first = 4 * sr_thread();
    uint32_t bytes = 0;
    SR_UNROLL
    for (int k = 0; k < 4; k++)
        if (first + k < count)
            bytes |= moved_byte(a, first + k) << (8 * k);
    if (first + 4 <= count)
        *(uint32_t *)(a.y + first) = bytes;
    else
        for (int k = 0; first + k < count; k++)
            a.y[first + k] = (uint8_t)(bytes >> (8 * k));
}

sr_status sr_cuda_prepare_move_pixels(const sr_kernel_request *request, sr_prepared *out) {
    move_args a = {};
    a.p = *sr_cuda_params<sr_move_params>(request);
    return sr_cuda_elementwise(request, a, &cuda_move_pixels_kernel,
                               sr_blocks_for(a.p.count * a.p.p * a.p.q * 3, 4), out);
}
