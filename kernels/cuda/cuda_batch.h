// SPDX-License-Identifier: Apache-2.0
// Work that a stream holds back, and the CUDA graphs that repeat it.
//
// Launches, clears and copies inside the device are collected until something looks at the stream:
// an event, a copy from or to the host, a wait. A batch that comes twice, kernel by kernel and
// address by address, is a CUDA graph from then on: one call and no gap between kernels in place of
// a call for each. So whoever enqueues the same work in every step gets graphs without knowing of
// them, and one who does not gets what was asked for. A batch is only ever compared as a whole;
// nothing is updated in a graph.
#ifndef SR_KERNELS_CUDA_BATCH_H
#define SR_KERNELS_CUDA_BATCH_H

#include "kernels/cuda/cuda_internal.h"

// Of one stream; a thread at a time.
typedef struct sr_cuda_batch sr_cuda_batch;

// SR_E_MEMORY.
SR_NODISCARD sr_status sr_cuda_batch_create(sr_device *device, cudaStream_t stream,
                                            sr_cuda_batch **out);
// The stream has no work; NULL is legal.
void sr_cuda_batch_free(sr_cuda_batch *batch);
// Holds back a launch. SR_E_MEMORY.
SR_NODISCARD sr_status sr_cuda_batch_add(sr_cuda_batch *batch, const sr_kernel_call *call);
// Holds back zeros for so many bytes.
SR_NODISCARD sr_status sr_cuda_batch_add_clear(sr_cuda_batch *batch, sr_address memory,
                                               size_t bytes);
// Holds back a copy inside the device.
SR_NODISCARD sr_status sr_cuda_batch_add_copy(sr_cuda_batch *batch, sr_address to, sr_address from,
                                              size_t bytes);
// Puts what is held back on the stream and in its log. After an error nothing is held back. A batch
// that is to be a graph is still known until sr_cuda_batch_end, so that an event can be recorded
// before the host spends time on it.
SR_NODISCARD sr_status sr_cuda_batch_run(sr_cuda_batch *batch, sr_cuda_log *log);
// Makes the graph of the last run, if it is to have one. Before anything else is held back.
void sr_cuda_batch_end(sr_cuda_batch *batch);

#endif
