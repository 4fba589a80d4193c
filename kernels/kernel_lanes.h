// SPDX-License-Identifier: Apache-2.0
// Kernels that compute several lanes at once.
//
// The arguments of the lanes lie behind each other in memory, so an argument with samples is one
// tensor with the samples of all lanes, and the params of the request are those of all samples.
// Arguments without samples are shared by the lanes (weights), or each lane has its own (sums over
// its samples, keys of random numbers): bits of sr_kernel_request.per_lane. Arguments of the latter
// kind may lie apart (sr_kernel_request.apart). A kernel gives each lane the bits that it has
// alone.
#ifndef SR_KERNELS_KERNEL_LANES_H
#define SR_KERNELS_KERNEL_LANES_H

#include "kernels/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_KERNEL_MAX_LANES 256 // of a request, and of fold_lanes

// Makes the request of 'lanes' lanes, at least 2, from that of one. varies: bit i: argument i of
// each lane is another one; 'apart' of the request says which of them are not behind each other.
// Returns false if the lanes must run one by one: the kernel mixes
// samples, an argument is not as 'varies' says, they share a result, or no entry of the same class
// serves them.
bool sr_kernel_join_lanes(const sr_kernel_request *lane, int lanes, uint32_t varies,
                          sr_kernel_request *out);
// Which inputs each lane of a request has of its own, besides samples: of
// sr_kernel_request.per_lane those that are no results, of which every lane has its own.
uint16_t sr_kernel_lane_inputs(const sr_kernel_request *request);
// Whether requests of this kernel of the list can be of several lanes.
bool sr_kernel_has_lanes(sr_kernel_id kernel);

#ifdef __cplusplus
}
#endif
#endif
