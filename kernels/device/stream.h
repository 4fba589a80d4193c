// SPDX-License-Identifier: Apache-2.0
// Streams and events of a device.
//
// A stream runs its work in order, concurrently with the caller and with other streams. An event
// marks a position in a stream; other streams and the host can wait for it.
//
// A stream may hold back kernels, clears and copies inside the device until an event is recorded,
// somebody waits, and returns their errors then. Work that comes again, with the same prepared
// kernels and addresses from one event to the next, may cost far less, so steps should use the same
// memory.
//
// A *direct* stream of a CPU runs its work on the calling thread, before the call returns. It has
// no overhead and is meant for threads that have nothing else to do. Other devices make it an
// ordinary stream, so callers must treat it as one.
//
// Threads: only one thread at a time may enqueue work on a stream or record an event. Any thread
// may query an event or wait for it. Streams and events must be freed before their device is
// closed.
#ifndef SR_KERNELS_DEVICE_STREAM_H
#define SR_KERNELS_DEVICE_STREAM_H

#include "kernels/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

// A queue of work on a device, which runs in order, concurrently with the caller.
typedef struct sr_stream sr_stream;
// A position in a stream.
typedef struct sr_event sr_event;

// Settings of a stream; all zeros are the defaults.
typedef struct sr_stream_options {
    int threads; // team size on a CPU; 0: all processors of this process
    bool direct; // see above
} sr_stream_options;

// SR_E_MEMORY. options may be NULL.
SR_NODISCARD sr_status sr_stream_create(sr_device *device, const sr_stream_options *options,
                                        sr_stream **out);
// Waits for its work first; NULL is legal.
void sr_stream_free(sr_stream *stream);
// Its device. Borrowed.
sr_device *sr_stream_device(const sr_stream *stream);

// Copies from the host in the stream's order. The host memory must not change until the copy is
// complete.
SR_NODISCARD sr_status sr_stream_upload(sr_stream *stream, sr_address to, const void *from,
                                        size_t bytes);
// Copies to the host in the stream's order.
SR_NODISCARD sr_status sr_stream_download(sr_stream *stream, void *to, sr_address from,
                                          size_t bytes);
// Copies inside the device in the stream's order.
SR_NODISCARD sr_status sr_stream_copy(sr_stream *stream, sr_address to, sr_address from,
                                      size_t bytes);
// Sets bytes to zero in the stream's order.
SR_NODISCARD sr_status sr_stream_clear(sr_stream *stream, sr_address memory, size_t bytes);

typedef struct sr_kernel_call sr_kernel_call; // kernels/kernel.h
// Runs a prepared kernel in the stream's order.
SR_NODISCARD sr_status sr_stream_launch(sr_stream *stream, const sr_kernel_call *call);

// Lets the device begin all work so far, for callers that enqueue nothing else for a while.
SR_NODISCARD sr_status sr_stream_flush(sr_stream *stream);
// Waits until the stream is empty. Returns and clears its first failure, with its message; work
// enqueued after a failure has been skipped.
SR_NODISCARD sr_status sr_stream_wait(sr_stream *stream);

// An event that was never recorded counts as reached. SR_E_MEMORY.
SR_NODISCARD sr_status sr_event_create(sr_device *device, sr_event **out);
// No stream may still wait for it; NULL is legal.
void sr_event_free(sr_event *event);
// Marks the present end of the stream; replaces an earlier mark of the event.
SR_NODISCARD sr_status sr_event_record(sr_event *event, sr_stream *stream);
// Whether the stream has reached the mark, or failed.
bool sr_event_done(const sr_event *event);
// Work enqueued on 'stream' from now on runs after the event's present mark.
SR_NODISCARD sr_status sr_stream_wait_event(sr_stream *stream, sr_event *event);
// Waits on the host. SR_E_TIMEOUT after 'seconds'; a failure of the stream is reported by
// sr_stream_wait.
SR_NODISCARD sr_status sr_event_wait(sr_event *event, double seconds);
// Nanoseconds on the device's clock between two events that have been reached.
int64_t sr_event_elapsed_ns(const sr_event *begin, const sr_event *end);

#ifdef __cplusplus
}
#endif
#endif
