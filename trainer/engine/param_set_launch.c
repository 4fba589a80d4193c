// SPDX-License-Identifier: Apache-2.0
// Enqueues kernels of a set. They are prepared on first use and kept, with one workspace for all.
#include "kernels/prepared_cache.h"
#include "trainer/engine/param_set_internal.h"

// A stream may still use the current workspace.
static sr_status grow_workspace(sr_param_set *set, size_t bytes, sr_stream *stream) {
    if (bytes <= set->workspace_bytes)
        return SR_OK;
    SR_TRY(sr_stream_wait(stream));
    sr_device_free(set->device, set->workspace);
    set->workspace = sr_address_none();
    set->workspace_bytes = 0;
    SR_TRY(sr_device_alloc(set->device, bytes, "update workspace", &set->workspace));
    set->workspace_bytes = bytes;
    return SR_OK;
}

sr_status sr_param_set_launch_request(sr_param_set *set, const sr_kernel_request *request,
                                      const sr_address *p, const char *what, sr_stream *stream) {
    const sr_prepared_entry *kernel;
    SR_TRY(sr_prepared_cache_get(set->kernels, request, &kernel));
    SR_TRY(grow_workspace(set, kernel->prepared.workspace, stream));
    const sr_kernel_call call = {.prepared = &kernel->prepared,
                                 .request = &kernel->request,
                                 .p = p,
                                 .workspace = set->workspace,
                                 .site = {.what = what}};
    return sr_stream_launch(stream, &call);
}

sr_status sr_param_set_launch(sr_param_set *set, sr_kernel_id kernel, const void *params,
                              size_t bytes, const sr_address *p, const char *what,
                              sr_stream *stream) {
    sr_kernel_request request;
    sr_kernel_request_init(&request, sr_device_get_properties(set->device)->kind, kernel, SR_F32,
                           params, bytes);
    return sr_param_set_launch_request(set, &request, p, what, stream);
}
