// SPDX-License-Identifier: Apache-2.0
// The races of kernels that are launched on a device (chooser.h): memory there, and times by
// events.
//
// The races open a device of their own, since the caller that switched the chooser on may have
// closed its device by now. It is kept from race to race.
#include <string.h>

#include "kernels/chooser_internal.h"
#include "kernels/device/stream.h"

// A kernel that has not ended after this time is abandoned.
#define PATIENCE_S 60.0

// Under the chooser's lock.
static sr_device *device;
static sr_stream *stream;
static sr_event *begin, *end;
static sr_address memory;
static size_t memory_bytes;

void sr_chooser_launch_release(void) {
    sr_event_free(begin);
    sr_event_free(end);
    sr_stream_free(stream);
    sr_device_close(device); // frees the memory
    begin = end = NULL;
    stream = NULL;
    device = NULL;
    memory = sr_address_none();
    memory_bytes = 0;
}

static sr_status open_device(const char *name) {
    if (end && strcmp(sr_device_name(device), name) == 0)
        return SR_OK;
    sr_chooser_launch_release();
    SR_TRY(sr_device_open(name, &device));
    SR_TRY(sr_stream_create(device, NULL, &stream));
    SR_TRY(sr_event_create(device, &begin));
    return sr_event_create(device, &end);
}

sr_status sr_chooser_launch_reserve(const char *name, size_t bytes, sr_address *out) {
    SR_TRY(open_device(name));
    if (bytes > memory_bytes) {
        sr_device_free(device, memory);
        memory = sr_address_none();
        memory_bytes = 0;
        SR_TRY(sr_device_alloc(device, bytes, "memory to time kernels in", &memory));
        memory_bytes = bytes;
    }
    *out = memory;
    return SR_OK;
}

sr_status sr_chooser_launch_fill(sr_address to, const void *from, size_t bytes) {
    return sr_device_upload(device, to, from, bytes);
}

static sr_status run(const sr_kernel_call *call, int64_t repeats) {
    SR_TRY(sr_event_record(begin, stream));
    for (int64_t i = 0; i < repeats; i++)
        SR_TRY(sr_stream_launch(stream, call));
    SR_TRY(sr_event_record(end, stream));
    return sr_event_wait(end, PATIENCE_S);
}

sr_status sr_chooser_launch_time(const sr_kernel_call *call, int64_t repeats, int64_t *ns) {
    const sr_status status = run(call, repeats);
    if (status == SR_E_TIMEOUT)
        return status;
    const sr_status failure = sr_stream_wait(stream); // of a kernel, rather than of a launch
    if (status != SR_OK || failure != SR_OK)
        return failure != SR_OK ? failure : status;
    *ns = sr_event_elapsed_ns(begin, end);
    return SR_OK;
}
