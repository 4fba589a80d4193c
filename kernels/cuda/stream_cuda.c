// SPDX-License-Identifier: Apache-2.0
// Streams, events and copies of a GPU.
//
// Launches are held back until something looks at the stream (cuda_batch.h). A wait for an event is
// not: it goes in front of them. No other work depends on what is held back, since that has no
// event behind it, so nothing waits in a circle, and batches are the same whether the event has
// been reached or not.
#include <math.h>

#include "kernels/base/clock.h"
#include "kernels/base/memory.h"
#include "kernels/cuda/cuda_batch.h"

typedef struct cuda_stream {
    sr_stream head;
    cudaStream_t stream;
    sr_cuda_log log;
    sr_cuda_batch *batch;
} cuda_stream;

typedef struct cuda_event {
    sr_event head;
    cudaEvent_t event;
    sr_cuda_mark mark; // of its last record
} cuda_event;

static cuda_stream *own(sr_stream *stream) {
    return (cuda_stream *)stream;
}

static cudaEvent_t event_of(const sr_event *event) {
    return ((const cuda_event *)event)->event;
}

static const char *name_of(const sr_device *device) {
    return device->properties.name;
}

// ---- Copies ----

// Without a stream the copy is complete when the call returns.
static sr_status copy(sr_device *device, sr_stream *stream, void *to, const void *from,
                      size_t bytes, enum cudaMemcpyKind kind) {
    cudaStream_t s = stream ? own(stream)->stream : sr_cuda_state(device)->copies;
    if (bytes == 0)
        return SR_OK;
    SR_TRY(sr_cuda_enter(device));
    if (stream)
        SR_TRY(sr_cuda_stream_flush(stream));
    cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, s);
    if (error == cudaSuccess && !stream)
        error = cudaStreamSynchronize(s);
    if (error == cudaSuccess)
        return SR_OK;
    return sr_cuda_fail(device, error, "copying %zu bytes %s %s", bytes,
                        kind == cudaMemcpyHostToDevice   ? "to"
                        : kind == cudaMemcpyDeviceToHost ? "from"
                                                         : "on",
                        name_of(device));
}

sr_status sr_cuda_upload(sr_device *device, sr_stream *stream, sr_address to, const void *from,
                         size_t bytes) {
    return copy(device, stream, (void *)to.at, from, bytes, cudaMemcpyHostToDevice);
}

sr_status sr_cuda_download(sr_device *device, sr_stream *stream, void *to, sr_address from,
                           size_t bytes) {
    return copy(device, stream, to, (const void *)from.at, bytes, cudaMemcpyDeviceToHost);
}

sr_status sr_cuda_copy(sr_device *device, sr_stream *stream, sr_address to, sr_address from,
                       size_t bytes) {
    if (stream && bytes > 0)
        return sr_cuda_batch_add_copy(own(stream)->batch, to, from, bytes);
    return copy(device, stream, (void *)to.at, (const void *)from.at, bytes,
                cudaMemcpyDeviceToDevice);
}

// ---- Streams ----

sr_status sr_cuda_stream_create(sr_device *device, const sr_stream_options *options,
                                sr_stream **out) {
    (void)options; // of CPUs
    SR_TRY(sr_cuda_enter(device));
    cuda_stream *stream = sr_alloc(sizeof *stream, "stream");
    if (!stream)
        return SR_E_MEMORY;
    stream->head.device = device;
    const cudaError_t error =
        cudaStreamCreateWithPriority(&stream->stream, cudaStreamNonBlocking, 0);
    if (error != cudaSuccess) {
        sr_free(stream);
        return sr_cuda_fail(device, error, "making a stream of %s", name_of(device));
    }
    const sr_status status = sr_cuda_batch_create(device, stream->stream, &stream->batch);
    if (status != SR_OK) {
        (void)cudaStreamDestroy(stream->stream);
        sr_free(stream);
        return status;
    }
    sr_cuda_log_begin(device, &stream->log);
    *out = &stream->head;
    return SR_OK;
}

void sr_cuda_stream_free(sr_stream *stream) {
    cuda_stream *s = own(stream);
    if (sr_cuda_enter(stream->device) == SR_OK) {
        (void)sr_cuda_stream_flush(stream);
        (void)cudaStreamSynchronize(s->stream);
        (void)cudaStreamDestroy(s->stream);
    }
    sr_cuda_batch_free(s->batch);
    sr_cuda_log_end(stream->device, &s->log);
    sr_free(s);
}

static sr_status run_batch(sr_stream *stream) {
    SR_TRY(sr_cuda_enter(stream->device));
    return sr_cuda_batch_run(own(stream)->batch, &own(stream)->log);
}

sr_status sr_cuda_stream_flush(sr_stream *stream) {
    SR_TRY(run_batch(stream));
    sr_cuda_batch_end(own(stream)->batch);
    return SR_OK;
}

sr_status sr_cuda_stream_clear(sr_stream *stream, sr_address memory, size_t bytes) {
    return bytes == 0 ? SR_OK : sr_cuda_batch_add_clear(own(stream)->batch, memory, bytes);
}

sr_status sr_cuda_stream_launch(sr_stream *stream, const sr_kernel_call *call) {
    SR_TRY(sr_cuda_batch_add(own(stream)->batch, call));
    return sr_cuda_state(stream->device)->blocking ? sr_cuda_stream_flush(stream) : SR_OK;
}

sr_status sr_cuda_stream_wait(sr_stream *stream) {
    cuda_stream *s = own(stream);
    sr_cuda_mark mark;
    SR_TRY(sr_cuda_stream_flush(stream));
    sr_cuda_log_mark(stream->device, &s->log, &mark);
    const cudaError_t error = cudaStreamSynchronize(s->stream);
    if (error != cudaSuccess)
        return sr_cuda_fail(stream->device, error, "waiting for %s", name_of(stream->device));
    sr_cuda_log_reached(stream->device, mark);
    return SR_OK;
}

sr_status sr_cuda_stream_wait_event(sr_stream *stream, sr_event *event) {
    SR_TRY(sr_cuda_enter(stream->device));
    const cudaError_t error = cudaStreamWaitEvent(own(stream)->stream, event_of(event), 0);
    if (error != cudaSuccess)
        return sr_cuda_fail(stream->device, error, "waiting for an event on %s",
                            name_of(stream->device));
    return SR_OK;
}

// ---- Events ----

sr_status sr_cuda_event_create(sr_device *device, sr_event **out) {
    SR_TRY(sr_cuda_enter(device));
    cuda_event *event = sr_alloc(sizeof *event, "event");
    if (!event)
        return SR_E_MEMORY;
    event->head.device = device;
    const cudaError_t error = cudaEventCreateWithFlags(&event->event, cudaEventDefault);
    if (error != cudaSuccess) {
        sr_free(event);
        return sr_cuda_fail(device, error, "making an event of %s", name_of(device));
    }
    *out = &event->head;
    return SR_OK;
}

void sr_cuda_event_free(sr_event *event) {
    if (sr_cuda_enter(event->device) == SR_OK)
        (void)cudaEventDestroy(event_of(event));
    sr_free(event);
}

sr_status sr_cuda_event_record(sr_event *event, sr_stream *stream) {
    SR_TRY(run_batch(stream));
    sr_cuda_log_mark(event->device, &own(stream)->log, &((cuda_event *)event)->mark);
    const cudaError_t error = cudaEventRecord(event_of(event), own(stream)->stream);
    sr_cuda_batch_end(own(stream)->batch);
    if (error != cudaSuccess)
        return sr_cuda_fail(event->device, error, "recording an event on %s",
                            name_of(event->device));
    return SR_OK;
}

bool sr_cuda_event_done(const sr_event *event) {
    if (sr_cuda_enter(event->device) != SR_OK)
        return true;
    const sr_cuda_mark mark = sr_cuda_log_read(event->device, &((const cuda_event *)event)->mark);
    const cudaError_t error = cudaEventQuery(event_of(event));
    if (error == cudaSuccess)
        sr_cuda_log_reached(event->device, mark);
    return error != cudaErrorNotReady;
}

// CUDA's own wait has no deadline.
sr_status sr_cuda_event_wait(sr_event *event, double seconds) {
    enum { SPIN_NS = 50000, SLEEP_NS = 20000 };
    const int64_t begin = sr_clock_ns();
    while (!sr_cuda_event_done(event)) {
        const int64_t waited = sr_clock_ns() - begin;
        if ((double)waited > seconds * (double)SR_NS_PER_S)
            return SR_FAIL(SR_E_TIMEOUT, "%s did not come to an event within %g s",
                           name_of(event->device), seconds);
        if (waited > SPIN_NS)
            sr_clock_sleep_ns(SLEEP_NS);
    }
    return SR_OK;
}

int64_t sr_cuda_event_elapsed_ns(const sr_event *begin, const sr_event *end) {
    const double ns_per_ms = 1e6;
    float ms = 0;
    if (sr_cuda_enter(begin->device) != SR_OK ||
        cudaEventElapsedTime(&ms, event_of(begin), event_of(end)) != cudaSuccess)
        return 0;
    return llround((double)ms * ns_per_ms);
}
