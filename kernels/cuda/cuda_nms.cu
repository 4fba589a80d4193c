// SPDX-License-Identifier: Apache-2.0
// Non-maximum suppression: kernels/cpu/reference/reference_nms.c. A block has a sample. All its
// threads walk along the order together; where a box is kept, they share those after it.
#include "kernels/boxes.h"
#include "kernels/cuda/cuda_prepare.h"

struct nms_args {
    const void *boxes, *scores;
    const int32_t *order, *classes;
    int32_t *index, *count;
    uint8_t *removed; // of each place of the order
    sr_nms_params p;
};

template <class T> static __device__ void load_box(const nms_args &a, int64_t i, float (&box)[4]) {
    for (int k = 0; k < 4; k++)
        box[k] = sr_load<T>(a.boxes, 4 * i + k);
}

// Marks the boxes after place 'at' of the order that overlap the box there; first: number of the
// sample's first box.
template <class T> static __device__ void suppress(const nms_args &a, int64_t first, int64_t at) {
    const int64_t kept = first + a.order[first + at];
    float own[4], other[4];
    load_box<T>(a, kept, own);
    for (int64_t j = at + 1 + threadIdx.x; j < a.p.boxes; j += blockDim.x) {
        const int64_t box = first + a.order[first + j];
        if (a.removed[first + j] || (a.classes != NULL && a.classes[box] != a.classes[kept]))
            continue;
        load_box<T>(a, box, other);
        a.removed[first + j] = (double)sr_boxes_overlap_f32(own, other) > a.p.overlap;
    }
}

template <class T> static __device__ void cuda_nms(const nms_args &a) {
    const sr_nms_params &p = a.p;
    const int64_t sample = blockIdx.x, first = sample * p.boxes;
    int32_t *const index = a.index + sample * p.capacity;
    int64_t kept = 0;
    for (int64_t i = threadIdx.x; i < p.boxes; i += blockDim.x) {
        const double score = (double)sr_load<T>(a.scores, first + a.order[first + i]);
        a.removed[first + i] = p.only_above && !(score > p.above);
    }
    __syncthreads();
    // A thread that is behind reads flags before the next kept box; those of the others are after
    // it.
    for (int64_t i = 0; i < p.boxes && kept < p.capacity; i++) {
        if (a.removed[first + i])
            continue;
        if (threadIdx.x == 0)
            index[kept] = a.order[first + i];
        kept++;
        suppress<T>(a, first, i);
        __syncthreads();
    }
    for (int64_t i = kept + threadIdx.x; i < p.capacity; i += blockDim.x)
        index[i] = -1;
    if (threadIdx.x == 0)
        a.count[sample] = (int32_t)kept;
}
SR_CUDA_TYPED(cuda_nms, nms_args, 512, 1)

sr_status sr_cuda_prepare_nms(const sr_kernel_request *request, sr_prepared *out) {
    nms_args a = {};
    a.p = *sr_cuda_params<sr_nms_params>(request);
    const int64_t warps = sr_blocks_for(a.p.boxes, 32);
    sr_cuda_making making(request, a, out);
    making.add(cuda_nms_kernels[request->dtype[0]], a.p.samples,
               warps < 16 ? (int)warps * 32 : 512);
    out->workspace = (size_t)(a.p.samples * a.p.boxes);
    return making.done();
}
