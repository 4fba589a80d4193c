// SPDX-License-Identifier: Apache-2.0
// Samples that drop_path drops or keeps (kernels/draws.h), also of lanes side by side, which have a
// key and numbers of samples each.
#ifndef SR_KERNELS_CUDA_DROP_H
#define SR_KERNELS_CUDA_DROP_H

#include "kernels/cuda/cuda_index.h"
#include "kernels/cuda/cuda_prepare.h"
#include "kernels/draws.h"

struct sr_drop {
    double probability;
    int64_t samples; // of a lane
    uint32_t scope;
    int32_t key_step; // numbers between the keys of two lanes
    float scale;      // of what is kept

    // Of all samples, those of the lanes one after the other.
    __device__ bool keeps(const int32_t *key, int64_t sample) const {
        const int64_t lane = sr_divide(sample, samples);
        return sr_draw_keeps(key + lane * key_step, scope, sample - lane * samples, probability);
    }
};

// key: the argument; samples: of all lanes. An entry that has this serves lanes with keys, which
// may be apart (sr_kernel_entry.apart).
static inline sr_drop sr_drop_of(const sr_kernel_request *request, int key, int64_t samples,
                                 double probability, uint32_t scope) {
    const bool own = request->per_lane >> key & 1, apart = request->apart >> key & 1;
    sr_drop drop = {};
    drop.probability = probability;
    drop.samples = own ? samples / request->lanes : samples;
    drop.scope = scope;
    drop.key_step = !own ? 0 : apart ? SR_KERNEL_LANE_ALIGN / (int32_t)sizeof(int32_t) : 4;
    drop.scale = (float)(1.0 / (1.0 - probability));
    return drop;
}

#endif
