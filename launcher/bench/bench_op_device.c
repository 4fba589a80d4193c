// SPDX-License-Identifier: Apache-2.0
// Times kernels on a device whose kernels are enqueued on streams (bench_op_internal.h).
#include <string.h>

#include "kernels/base/memory.h"
#include "kernels/base/rng.h"
#include "kernels/device/device.h"
#include "kernels/device/stream.h"
#include "launcher/bench/bench_op_internal.h"

enum {
    NUMBERS = 65521,        // after which an array repeats; a prime, so that rows differ
    CACHE_BYTES = 128 << 20 // more than the caches of a GPU
};

struct sr_bench_op_device {
    sr_device *device;
    sr_stream *stream;
    sr_event *begin, *end;
    sr_address cache; // written before each run, so that the caches have nothing of the arrays
};

sr_status sr_bench_op_device_open(const char *name, sr_bench_op_device **out) {
    sr_status status = SR_OK;
    sr_bench_op_device *d = sr_alloc(sizeof *d, "a benchmark");
    if (!d)
        return SR_E_MEMORY;
    SR_TRY_GOTO(sr_device_open(name, &d->device), fail);
    if (!sr_device_get_properties(d->device)->asynchronous) {
        status = SR_FAIL(SR_E_USAGE, "--device: %s runs kernels in threads; leave --device out",
                         sr_device_name(d->device));
        goto fail;
    }
    SR_TRY_GOTO(sr_stream_create(d->device, NULL, &d->stream), fail);
    SR_TRY_GOTO(sr_event_create(d->device, &d->begin), fail);
    SR_TRY_GOTO(sr_event_create(d->device, &d->end), fail);
    SR_TRY_GOTO(sr_device_alloc(d->device, CACHE_BYTES, "a benchmark", &d->cache), fail);
    *out = d;
    return SR_OK;
fail:
    sr_bench_op_device_close(d);
    return status;
}

void sr_bench_op_device_close(sr_bench_op_device *d) {
    if (!d)
        return;
    sr_event_free(d->begin);
    sr_event_free(d->end);
    sr_stream_free(d->stream);
    if (d->device)
        sr_device_free(d->device, d->cache);
    sr_device_close(d->device);
    sr_free(d);
}

const sr_device_properties *sr_bench_op_device_properties(const sr_bench_op_device *d) {
    return sr_device_get_properties(d->device);
}

// What a kernel works on.
typedef struct arrays {
    sr_address p[SR_KERNEL_MAX_ARGS], workspace;
} arrays;

// Random numbers, repeated.
static sr_status fill(const sr_bench_op_device *d, const sr_kernel_request *request, int i,
                      sr_address to, size_t bytes) {
    const size_t size = sr_dtype_size(request->dtype[i]), count = bytes / size;
    const size_t numbers = count < NUMBERS ? count : NUMBERS;
    const size_t filled = numbers * size;
    void *piece = sr_alloc(filled, "an array of a benchmark");
    if (!piece)
        return SR_E_MEMORY;
    sr_bench_op_fill(request->dtype[i], piece, (int64_t)numbers, (uint64_t)i + 1);
    sr_status status = sr_device_upload(d->device, to, piece, filled);
    if (status == SR_OK)
        status = sr_device_repeat(d->device, to, filled, bytes);
    sr_free(piece);
    return status;
}

static sr_status make_arrays(const sr_bench_op_device *d, const sr_kernel_request *request,
                             size_t workspace, arrays *a) {
    for (int i = 0; i < request->args; i++) {
        const size_t bytes =
            (size_t)sr_kernel_argument_count(request, i) *
            (request->dtype[i] == SR_DTYPE_COUNT ? 0 : sr_dtype_size(request->dtype[i]));
        if (bytes == 0)
            continue;
        SR_TRY(sr_device_alloc(d->device, bytes, "an array of a benchmark", &a->p[i]));
        SR_TRY(fill(d, request, i, a->p[i], bytes));
    }
    return workspace > 0
               ? sr_device_alloc(d->device, workspace, "workspace of a benchmark", &a->workspace)
               : SR_OK;
}

static void free_arrays(const sr_bench_op_device *d, const arrays *a) {
    for (int i = 0; i < SR_KERNEL_MAX_ARGS; i++)
        sr_device_free(d->device, a->p[i]);
    sr_device_free(d->device, a->workspace);
}

static sr_status run(const sr_bench_op_device *d, const sr_kernel_call *call, double *seconds) {
    SR_TRY(sr_stream_clear(d->stream, d->cache, CACHE_BYTES));
    SR_TRY(sr_event_record(d->begin, d->stream));
    SR_TRY(sr_stream_launch(d->stream, call));
    SR_TRY(sr_event_record(d->end, d->stream));
    SR_TRY(sr_stream_wait(d->stream));
    *seconds = 1e-9 * (double)sr_event_elapsed_ns(d->begin, d->end);
    return SR_OK;
}

sr_status sr_bench_op_device_time(sr_bench_op_device *d, const sr_kernel_request *request,
                                  const sr_prepared *prepared, double seconds, double *times,
                                  int most, int *runs) {
    arrays a;
    memset(&a, 0, sizeof a);
    sr_kernel_call call = {
        .prepared = prepared, .request = request, .p = a.p, .site = {.what = "a benchmark"}};
    double spent = 0, first;
    *runs = 0;
    sr_status status = make_arrays(d, request, prepared->workspace, &a);
    call.workspace = a.workspace;
    if (status == SR_OK)
        status = run(d, &call, &first);
    while (status == SR_OK && *runs < most && (*runs < 3 || spent < seconds)) {
        status = run(d, &call, &times[*runs]);
        spent += times[(*runs)++];
    }
    free_arrays(d, &a);
    return status;
}
