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

static void set_bytes(sr_device *device, sr_address to, size_t bytes, int fill) {
    void *contents = sr_alloc(bytes + 1, "test array");
    assert_non_null(contents);
    memset(contents, fill, bytes);
    assert_ok(sr_device_upload(device, to, contents, bytes));
    sr_free(contents);
}

static sr_address workspace_of(sr_device *device, size_t bytes, int fill) {
    sr_address out;
    assert_ok(sr_device_alloc(device, bytes, "test workspace", &out));
    set_bytes(device, out, bytes, fill);
    return out;
}

static void upload_arguments(sr_device *device, const sr_kernel_request *request, void *const *p,
                             sr_address at[SR_KERNEL_MAX_ARGS]) {
    for (int i = 0; i < request->args; i++) {
        at[i] = sr_address_none();
        if (!p[i])
            continue;
        at[i] = at[first_of(p, i)];
        if (first_of(p, i) != i)
            continue;
        assert_ok(sr_device_alloc(device, bytes_of(request, i), "test array", &at[i]));
        assert_ok(sr_device_upload(device, at[i], p[i], bytes_of(request, i)));
    }
}

static void free_arguments(sr_device *device, const sr_kernel_request *request, void *const *p,
                           const sr_address at[SR_KERNEL_MAX_ARGS]) {
    for (int i = 0; i < request->args; i++)
        if (first_of(p, i) == i)
            sr_device_free(device, at[i]);
}

static void launch(sr_device *device, const sr_kernel_call *call) {
    sr_stream *stream;
    assert_ok(sr_stream_create(device, NULL, &stream));
    assert_ok(sr_stream_launch(stream, call));
    assert_ok(sr_stream_wait(stream));
    sr_stream_free(stream);
}

void device_run(sr_device *device, const sr_prepared *prepared, const sr_kernel_request *request,
                void *const *p, int fill) {
    sr_address at[SR_KERNEL_MAX_ARGS];
    upload_arguments(device, request, p, at);
    const sr_kernel_call call = {.prepared = prepared,
                                 .request = request,
                                 .p = at,
                                 .workspace = workspace_of(device, prepared->workspace, fill)};
    launch(device, &call);
    for (int i = 0; i < request->args; i++)
        if (p[i] && first_of(p, i) == i)
            assert_ok(sr_device_download(device, p[i], at[i], bytes_of(request, i)));
    free_arguments(device, request, p, at);
    sr_device_free(device, call.workspace);
}

// ---- Packed arguments ----

static bool is_result(const sr_kernel_request *request, int i) {
    int count;
    const sr_kernel_argument *arguments = sr_kernel_arguments(request->kernel, &count);
    return sr_argument_is_result(arguments[i].role);
}

// Launches with other numbers in the results before.
static void expect_results(sr_device *device, const sr_kernel_call *call, void *const *p) {
    const sr_kernel_request *request = call->request;
    for (int i = 0; i < request->args; i++)
        if (p[i] && is_result(request, i))
            set_bytes(device, call->p[i], bytes_of(request, i), 0xff);
    launch(device, call);
    for (int i = 0; i < request->args; i++) {
        if (!p[i] || !is_result(request, i))
            continue;
        void *got = sr_alloc(bytes_of(request, i) + 1, "test array");
        assert_non_null(got);
        assert_ok(sr_device_download(device, got, call->p[i], bytes_of(request, i)));
        if (memcmp(got, p[i], bytes_of(request, i)) != 0)
            fail_msg("%s: other bits %s", call->prepared->entry->name,
                     call->is_packed ? "with what was packed before" : "of what it packs");
        sr_free(got);
    }
}

void device_run_packed(sr_device *device, const sr_prepared *prepared,
                       const sr_kernel_request *request, void *const *p, int fill) {
    const sr_kernel_packing *packing = &prepared->packing;
    const size_t workspace = prepared->workspace - packing->bytes;
    sr_address at[SR_KERNEL_MAX_ARGS];
    sr_kernel_call call = {.prepared = prepared, .request = request, .p = at};
    if (packing->bytes == 0)
        return;
    upload_arguments(device, request, p, at);
    if (workspace > 0)
        call.workspace = workspace_of(device, workspace, fill);
    call.packed = workspace_of(device, packing->bytes, fill);
    expect_results(device, &call, p);
    call.is_packed = true;
    set_bytes(device, at[packing->argument], bytes_of(request, packing->argument), 0xff);
    expect_results(device, &call, p);
    free_arguments(device, request, p, at);
    sr_device_free(device, call.workspace);
    sr_device_free(device, call.packed);
}
