// SPDX-License-Identifier: Apache-2.0
// Means and centred squares, joined pairwise as by Chan, Golub & LeVeque (1979), so that a variance
// does not cancel.
#ifndef SR_KERNELS_CUDA_STATISTICS_H
#define SR_KERNELS_CUDA_STATISTICS_H

#include "kernels/cuda/cuda_kernel.h"

// Of some elements.
struct statistics {
    float mean, squares;
};

// The statistics of a number of elements and others, which are 'share' of all; weight: the number
// times the share.
static __device__ __forceinline__ statistics merge_by_share(const statistics &a,
                                                            const statistics &b, float share,
                                                            float weight) {
    const float delta = b.mean - a.mean;
    return {a.mean + delta * share, a.squares + (b.squares + delta * delta * weight)};
}

// The statistics of na elements and nb others.
static __device__ __forceinline__ statistics merge_statistics(const statistics &a,
                                                              const statistics &b, int64_t na,
                                                              int64_t nb) {
    const float share = (float)nb / (float)(na + nb);
    return merge_by_share(a, b, share, (float)na * share);
}

#endif
