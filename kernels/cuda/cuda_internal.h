// SPDX-License-Identifier: Apache-2.0
// What the host files of the CUDA module share: devices (device_cuda.c), memory (memory_cuda.c),
// streams and events (stream_cuda.c), launches (cuda_launch.c).
//
// Every call of CUDA that is made stands in api.def. A process drives one device, but has many
// threads, each of which CUDA gives a current device of its own: sr_cuda_enter sets it.
#ifndef SR_KERNELS_CUDA_INTERNAL_H
#define SR_KERNELS_CUDA_INTERNAL_H

#include <cuda_runtime_api.h>

#include "kernels/device/device_internal.h"
#include "kernels/kernel.h"

// The state of an opened device.
typedef struct sr_cuda_device {
    cudaStream_t copies; // of copies that are complete when the call returns
    size_t granularity;  // of its memory
} sr_cuda_device;

// Records that a call of CUDA failed while doing what the format says, as "copying 4 KiB to
// cuda:0". SR_E_MEMORY or SR_E_DEVICE.
sr_status sr_cuda_fail(cudaError_t error, const char *format, ...) SR_PRINTF(2, 3);

// Makes the device current in this thread.
SR_NODISCARD sr_status sr_cuda_enter(const sr_device *device);
// Its state.
static inline sr_cuda_device *sr_cuda_state(const sr_device *device) {
    return device->state;
}

// device_cuda.c
extern const sr_device_ops sr_device_cuda;

// memory_cuda.c
SR_NODISCARD sr_status sr_cuda_memory_open(sr_device *device);
sr_status sr_cuda_reserve(sr_device *device, sr_device_range *range);
sr_status sr_cuda_commit(sr_device *device, sr_device_range *range, size_t bytes);
void sr_cuda_release(sr_device *device, sr_device_range *range);
sr_status sr_cuda_register_host(sr_device *device, void *memory, size_t bytes);
void sr_cuda_unregister_host(sr_device *device, void *memory);

// stream_cuda.c
sr_status sr_cuda_upload(sr_device *device, sr_stream *stream, sr_address to, const void *from,
                         size_t bytes);
sr_status sr_cuda_download(sr_device *device, sr_stream *stream, void *to, sr_address from,
                           size_t bytes);
sr_status sr_cuda_copy(sr_device *device, sr_stream *stream, sr_address to, sr_address from,
                       size_t bytes);
sr_status sr_cuda_stream_create(sr_device *device, const sr_stream_options *options,
                                sr_stream **out);
void sr_cuda_stream_free(sr_stream *stream);
sr_status sr_cuda_stream_clear(sr_stream *stream, sr_address memory, size_t bytes);
sr_status sr_cuda_stream_launch(sr_stream *stream, const sr_kernel_call *call);
sr_status sr_cuda_stream_wait_event(sr_stream *stream, sr_event *event);
sr_status sr_cuda_stream_wait(sr_stream *stream);
sr_status sr_cuda_event_create(sr_device *device, sr_event **out);
void sr_cuda_event_free(sr_event *event);
sr_status sr_cuda_event_record(sr_event *event, sr_stream *stream);
bool sr_cuda_event_done(const sr_event *event);
sr_status sr_cuda_event_wait(sr_event *event, double seconds);
int64_t sr_cuda_event_elapsed_ns(const sr_event *begin, const sr_event *end);

// cuda_launch.c: the launch of every prepared kernel, whose state is an sr_cuda_plan.
sr_status sr_cuda_launch(const sr_kernel_launch *launch);

#endif
