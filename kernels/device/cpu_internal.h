// SPDX-License-Identifier: Apache-2.0
// Shared by "cpu" and "cpu-async": their properties (device_cpu.c), and streams, events and copies
// (stream_cpu.c).
#ifndef SR_KERNELS_DEVICE_CPU_INTERNAL_H
#define SR_KERNELS_DEVICE_CPU_INTERNAL_H

#include <stdatomic.h>

#include "kernels/base/cpuid.h"
#include "kernels/device/device_internal.h"

SR_NODISCARD sr_status sr_cpu_describe(sr_device_properties *out, bool unified);
uint32_t sr_cpu_device_features(int ordinal);
char *sr_cpu_numerics(int ordinal, uint32_t features, char out[SR_DEVICE_TEXT]);
char *sr_cpu_identity(int ordinal, char out[SR_DEVICE_IDENTITY]);

// The state of "cpu-async" begins with this: the source of its streams' random delays.
typedef struct sr_cpu_delays {
    uint64_t seed;
    atomic_uint streams; // created so far
} sr_cpu_delays;

sr_status sr_cpu_upload(sr_device *device, sr_stream *stream, sr_address to, const void *from,
                        size_t bytes);
sr_status sr_cpu_download(sr_device *device, sr_stream *stream, void *to, sr_address from,
                          size_t bytes);
sr_status sr_cpu_copy(sr_device *device, sr_stream *stream, sr_address to, sr_address from,
                      size_t bytes);

sr_status sr_cpu_stream_create(sr_device *device, const sr_stream_options *options,
                               sr_stream **out);
void sr_cpu_stream_free(sr_stream *stream);
sr_status sr_cpu_stream_clear(sr_stream *stream, sr_address memory, size_t bytes);
sr_status sr_cpu_stream_launch(sr_stream *stream, const sr_kernel_call *from);
sr_status sr_cpu_stream_wait_event(sr_stream *stream, sr_event *event);
sr_status sr_cpu_stream_wait(sr_stream *stream);

sr_status sr_cpu_event_create(sr_device *device, sr_event **out);
void sr_cpu_event_free(sr_event *event);
sr_status sr_cpu_event_record(sr_event *event, sr_stream *stream);
bool sr_cpu_event_done(const sr_event *event);
sr_status sr_cpu_event_wait(sr_event *event, double seconds);
int64_t sr_cpu_event_elapsed_ns(const sr_event *begin, const sr_event *end);

#define SR_CPU_OPS                                                                                 \
    .kernels = "cpu", .features = sr_cpu_device_features, .restrict_features = sr_cpu_restrict,    \
    .numerics = sr_cpu_numerics, .identity = sr_cpu_identity, .upload = sr_cpu_upload,             \
    .download = sr_cpu_download, .copy = sr_cpu_copy, .stream_create = sr_cpu_stream_create,       \
    .stream_free = sr_cpu_stream_free, .stream_clear = sr_cpu_stream_clear,                        \
    .stream_launch = sr_cpu_stream_launch, .stream_wait_event = sr_cpu_stream_wait_event,          \
    .stream_wait = sr_cpu_stream_wait, .event_create = sr_cpu_event_create,                        \
    .event_free = sr_cpu_event_free, .event_record = sr_cpu_event_record,                          \
    .event_done = sr_cpu_event_done, .event_wait = sr_cpu_event_wait,                              \
    .event_elapsed_ns = sr_cpu_event_elapsed_ns

#endif
