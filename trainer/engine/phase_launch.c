// SPDX-License-Identifier: Apache-2.0
// Enqueues kernels of a phase. They are prepared on first use and kept, with one workspace for all.
#include "kernels/prepared_cache.h"
#include "trainer/engine/phase_internal.h"

// A stream may still use the current workspace.
static sr_status grow_workspace(sr_phase *phase, size_t bytes, sr_stream *stream) {
    if (bytes <= phase->workspace_bytes)
        return SR_OK;
    SR_TRY(sr_stream_wait(stream));
    sr_device_free(phase->device, phase->workspace);
    phase->workspace = sr_address_none();
    phase->workspace_bytes = 0;
    SR_TRY(sr_device_alloc(phase->device, bytes, "update workspace", &phase->workspace));
    phase->workspace_bytes = bytes;
    return SR_OK;
}

sr_status sr_phase_launch_request(sr_phase *phase, const sr_kernel_request *request,
                                  const sr_address *p, const char *what, sr_stream *stream) {
    const sr_prepared_entry *kernel;
    SR_TRY(sr_prepared_cache_get(phase->kernels, request, &kernel));
    SR_TRY(grow_workspace(phase, kernel->prepared.workspace, stream));
    const sr_kernel_call call = {.prepared = &kernel->prepared,
                                 .request = &kernel->request,
                                 .p = p,
                                 .workspace = phase->workspace,
                                 .site = {.what = what}};
    return sr_stream_launch(stream, &call);
}

sr_status sr_phase_launch(sr_phase *phase, sr_kernel_id kernel, const void *params, size_t bytes,
                          const sr_address *p, const char *what, sr_stream *stream) {
    sr_kernel_request request;
    sr_kernel_request_init(&request, sr_device_get_properties(phase->device)->kind, kernel, SR_F32,
                           params, bytes);
    return sr_phase_launch_request(phase, &request, p, what, stream);
}
