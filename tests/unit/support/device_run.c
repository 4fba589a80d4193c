// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/support/device_run.h"

#include "kernels/base/memory.h"
#include "kernels/device/stream.h"
#include "tests/unit/support/test_support.h"

static sr_device *opened;

static void close_opened(void) {
    sr_device_close(opened);
}

sr_device *device_of_test(void) {
    static bool asked;
    if (!asked) {
        asked = true;
        assert_ok(sr_device_open(NULL, &opened));
        assert_int_equal(0, atexit(close_opened));
    }
    return sr_device_get_properties(opened)->kind == SR_DEVICE_CPU ? NULL : opened;
}

const char *device_for(sr_dtype type) {
    return type == SR_F64 && device_of_test() ? "cpu" : NULL;
}

static size_t bytes_of(const sr_kernel_request *request, int i) {
    return (size_t)sr_kernel_argument_count(request, i) * sr_dtype_size(request->dtype[i]);
}

// The argument before 'i' that is the same array, or 'i'.
static int first_of(void *const *p, int i) {
    for (int k = 0; k < i; k++)
        if (p[k] == p[i])
            return k;
    return i;
}

static sr_address workspace_of(sr_device *device, size_t bytes, int fill) {
    sr_address out;
    void *contents = sr_alloc(bytes + 1, "test workspace");
    assert_non_null(contents);
    memset(contents, fill, bytes);
    assert_ok(sr_device_alloc(device, bytes, "test workspace", &out));
    assert_ok(sr_device_upload(device, out, contents, bytes));
    sr_free(contents);
    return out;
}

void device_run(sr_device *device, const sr_prepared *prepared, const sr_kernel_request *request,
                void *const *p, int fill) {
    sr_address at[SR_KERNEL_MAX_ARGS] = {{0}};
    sr_stream *stream;
    assert_ok(sr_stream_create(device, NULL, &stream));
    for (int i = 0; i < request->args; i++) {
        if (!p[i])
            continue;
        at[i] = at[first_of(p, i)];
        if (first_of(p, i) != i)
            continue;
        assert_ok(sr_device_alloc(device, bytes_of(request, i), "test array", &at[i]));
        assert_ok(sr_device_upload(device, at[i], p[i], bytes_of(request, i)));
    }
    const sr_kernel_call call = {.prepared = prepared,
                                 .request = request,
                                 .p = at,
                                 .workspace = workspace_of(device, prepared->workspace, fill)};
    assert_ok(sr_stream_launch(stream, &call));
    assert_ok(sr_stream_wait(stream));
    for (int i = 0; i < request->args; i++) {
        if (!p[i] || first_of(p, i) != i)
            continue;
        assert_ok(sr_device_download(device, p[i], at[i], bytes_of(request, i)));
        sr_device_free(device, at[i]);
    }
    sr_device_free(device, call.workspace);
    sr_stream_free(stream);
}
