// SPDX-License-Identifier: Apache-2.0
// What the host files of the CUDA module share: devices (device_cuda.c), memory (memory_cuda.c),
// streams and events (stream_cuda.c), launches (cuda_launch.c), errors (errors_cuda.c).
//
// Every call of CUDA that is made stands in api.def. A process drives one device, but has many
// threads, each of which CUDA gives a current device of its own: sr_cuda_enter sets it.
#ifndef SR_KERNELS_CUDA_INTERNAL_H
#define SR_KERNELS_CUDA_INTERNAL_H

#include <cuda_runtime_api.h>
#include <pthread.h>

#include "kernels/device/device_internal.h"
#include "kernels/kernel.h"

// What was launched on a stream and is not known to have run.
typedef struct sr_cuda_log {
    struct sr_cuda_log *next;
    uint64_t stream;            // its number
    int64_t launched, reached;  // kernels; how many of them have run for certain
    sr_kernel_site first, last; // of those that have not
} sr_cuda_log;

// An end of a log.
typedef struct sr_cuda_mark {
    uint64_t stream; // 0: of none
    int64_t launched;
} sr_cuda_mark;

// What work that comes again becomes (cuda_batch.h), by SERRIED_CUDA_GRAPHS.
typedef enum sr_cuda_graphs {
    SR_CUDA_GRAPHS_BRANCHED, // unset: graphs
    SR_CUDA_GRAPHS_CHAINED,  // "chain": graphs without branches
    SR_CUDA_GRAPHS_NONE      // "off", or CUDA_LAUNCH_BLOCKING=1: launches
} sr_cuda_graphs;

// The state of an opened device.
typedef struct sr_cuda_device {
    cudaStream_t copies; // of copies that are complete when the call returns
    size_t granularity;  // of its memory
    pthread_mutex_t memory_lock;
    struct sr_cuda_slab *slabs; // this and the next under memory_lock
    size_t mapped;              // bytes of memory
    bool blocking;              // CUDA_LAUNCH_BLOCKING=1: a launch returns when the kernel has run
    sr_cuda_graphs graphs;
    pthread_mutex_t log_lock;
    sr_cuda_log *logs; // of its streams; this and the next under log_lock
    uint64_t streams;  // that there have been
} sr_cuda_device;

// Makes the device current in this thread.
SR_NODISCARD sr_status sr_cuda_enter(const sr_device *device);
// Its state.
static inline sr_cuda_device *sr_cuda_state(const sr_device *device) {
    return device->state;
}

// errors_cuda.c
#define SR_CUDA_SITE 160 // bytes of a site's text
// Records that a call of CUDA failed while doing what the format says, as "copying 4 KiB to
// cuda:0"; or, if it failed because an earlier kernel did, which kernel that may have been. Without
// a device it is the former. SR_E_MEMORY or SR_E_DEVICE.
sr_status sr_cuda_fail(const sr_device *device, cudaError_t error, const char *format, ...)
    SR_PRINTF(3, 4);
// Whether every call fails from now on, with this error.
bool sr_cuda_is_lost(const sr_device *device, cudaError_t *error);
// Records which kernels may be the reason.
sr_status sr_cuda_fail_lost(const sr_device *device, cudaError_t error);
// "model.c:12: conv2d", or "conv2d"; returns out.
const char *sr_cuda_site_text(const sr_kernel_site *site, char out[SR_CUDA_SITE]);
// Logs: any thread.
void sr_cuda_log_begin(const sr_device *device, sr_cuda_log *log);
void sr_cuda_log_end(const sr_device *device, const sr_cuda_log *log);
void sr_cuda_log_launch(const sr_device *device, sr_cuda_log *log, const sr_kernel_site *site);
void sr_cuda_log_mark(const sr_device *device, const sr_cuda_log *log, sr_cuda_mark *out);
sr_cuda_mark sr_cuda_log_read(const sr_device *device, const sr_cuda_mark *mark);
// The stream has come to the mark.
void sr_cuda_log_reached(const sr_device *device, sr_cuda_mark mark);

// device_cuda.c
extern const sr_device_ops sr_device_cuda;

// memory_cuda.c
SR_NODISCARD sr_status sr_cuda_memory_open(sr_device *device);
sr_status sr_cuda_reserve(sr_device *device, sr_device_range *range);
sr_status sr_cuda_commit(sr_device *device, sr_device_range *range, size_t bytes);
void sr_cuda_release(sr_device *device, sr_device_range *range);
bool sr_cuda_get_memory(sr_device *device, sr_device_memory *out);
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
sr_status sr_cuda_stream_flush(sr_stream *stream);
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

// cuda_launch.c: the launch of prepared kernels whose state is an sr_cuda_plan.
sr_status sr_cuda_launch(const sr_kernel_launch *launch);

#endif
