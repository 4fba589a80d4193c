// SPDX-License-Identifier: Apache-2.0
// Streams and events: calls that go through the tables of devices.
#include "kernels/device/stream.h"

#include "kernels/device/device_internal.h"

sr_status sr_stream_create(sr_device *device, const sr_stream_options *options, sr_stream **out) {
    static const sr_stream_options defaults = {0};
    return device->ops->stream_create(device, options ? options : &defaults, out);
}

void sr_stream_free(sr_stream *stream) {
    if (stream)
        stream->device->ops->stream_free(stream);
}

sr_device *sr_stream_device(const sr_stream *stream) {
    return stream->device;
}

sr_status sr_stream_upload(sr_stream *stream, sr_address to, const void *from, size_t bytes) {
    return stream->device->ops->upload(stream->device, stream, to, from, bytes);
}

sr_status sr_stream_download(sr_stream *stream, void *to, sr_address from, size_t bytes) {
    return stream->device->ops->download(stream->device, stream, to, from, bytes);
}

sr_status sr_stream_copy(sr_stream *stream, sr_address to, sr_address from, size_t bytes) {
    return stream->device->ops->copy(stream->device, stream, to, from, bytes);
}

sr_status sr_stream_clear(sr_stream *stream, sr_address memory, size_t bytes) {
    return stream->device->ops->stream_clear(stream, memory, bytes);
}

sr_status sr_stream_launch(sr_stream *stream, const sr_kernel_call *call) {
    return stream->device->ops->stream_launch(stream, call);
}

sr_status sr_stream_flush(sr_stream *stream) {
    const sr_device_ops *ops = stream->device->ops;
    return ops->stream_flush ? ops->stream_flush(stream) : SR_OK;
}

sr_status sr_stream_wait(sr_stream *stream) {
    return stream->device->ops->stream_wait(stream);
}

sr_status sr_stream_wait_event(sr_stream *stream, sr_event *event) {
    return stream->device->ops->stream_wait_event(stream, event);
}

sr_status sr_event_create(sr_device *device, sr_event **out) {
    return device->ops->event_create(device, out);
}

void sr_event_free(sr_event *event) {
    if (event)
        event->device->ops->event_free(event);
}

sr_status sr_event_record(sr_event *event, sr_stream *stream) {
    return event->device->ops->event_record(event, stream);
}

bool sr_event_done(const sr_event *event) {
    return event->device->ops->event_done(event);
}

sr_status sr_event_wait(sr_event *event, double seconds) {
    return event->device->ops->event_wait(event, seconds);
}

int64_t sr_event_elapsed_ns(const sr_event *begin, const sr_event *end) {
    return begin->device->ops->event_elapsed_ns(begin, end);
}
