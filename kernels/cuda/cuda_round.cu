// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cuda_round.h"

#include "kernels/cuda/cuda_vector.h"

enum { THREADS = 256, ELEMENTS = 8 }; // of a block; of a thread: 16 bytes of a result

template <class T>
static __device__ void round_some(void *to, const void *from, int64_t i, int64_t count) {
    float v[ELEMENTS];
    if (i >= count)
        return;
    sr_load_vector<sr_f32>(from, i, count, v);
    sr_store_vector<T>(to, i, count, v);
}

template <class T> static __device__ void cuda_round(const sr_cuda_round_args &a) {
    const int64_t thread = sr_thread(), first = (a.count[0] + ELEMENTS - 1) / ELEMENTS;
    if (thread < first)
        round_some<T>(a.to[0], a.from[0], thread * ELEMENTS, a.count[0]);
    else
        round_some<T>(a.to[1], a.from[1], (thread - first) * ELEMENTS, a.count[1]);
}
SR_CUDA_TYPED(cuda_round, sr_cuda_round_args, 256, 0)

sr_status sr_cuda_round(sr_dtype dtype, sr_cuda_round_args *arguments, void *stream) {
    const int64_t threads =
        sr_blocks_for(arguments->count[0], ELEMENTS) + sr_blocks_for(arguments->count[1], ELEMENTS);
    const sr_cuda_part part = {cuda_round_kernels[dtype],
                               {(uint32_t)sr_blocks_for(threads, THREADS), 1, 1},
                               {THREADS, 1, 1},
                               0};
    return sr_cuda_launch_part(&part, arguments, stream);
}
