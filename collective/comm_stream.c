// SPDX-License-Identifier: Apache-2.0
// Messages of device memory on the device's own streams.
//
// The host only enqueues: it neither waits nor sees a message arrive. So deadlines and failures
// stay with the caller, who watches events of the stream, and with notices between hosts
// (comm_failure.c), which end the groups. Only some backends can do this; for the others the caller
// uses isend and irecv, which stage what they cannot reach (comm_staging.c).
#include "collective/comm_internal.h"

sr_comm_memory sr_comm_memory_of(const sr_comm *comm, const sr_device *device) {
    if (comm->backend->memory)
        return comm->backend->memory(comm->state, device);
    return (sr_comm_memory){.in_place = sr_device_get_properties(device)->unified};
}

static sr_status check_group(const sr_comm *comm, const sr_stream *stream,
                             const sr_comm_message *messages, int count) {
    const sr_device *device = sr_stream_device(stream);
    if (!comm->backend->enqueue || !sr_comm_memory_of(comm, device).on_stream)
        return SR_FAIL(SR_E_UNSUPPORTED, "backend '%s' puts no messages on streams of device %s",
                       comm->backend->name, sr_device_name(device));
    for (int i = 0; i < count; i++) {
        const sr_comm_message *m = &messages[i];
        if (m->peer < 0 || m->peer >= comm->job.size)
            return SR_FAIL(SR_E_ARGUMENT, "a message to or from rank %d, but there are %d ranks",
                           m->peer, comm->job.size);
        if (sr_address_is_none(m->data) || m->bytes == 0)
            return SR_FAIL(SR_E_ARGUMENT, "a message of %zu bytes %s rank %d without memory",
                           m->bytes, m->receives ? "from" : "to", m->peer);
    }
    return SR_OK;
}

sr_status sr_comm_enqueue(sr_comm *comm, sr_stream *stream, const sr_comm_message *messages,
                          int count) {
    if (comm->failed != SR_OK)
        return sr_comm_failure(comm);
    SR_TRY(check_group(comm, stream, messages, count));
    if (count == 0)
        return SR_OK;
    const sr_status status = comm->backend->enqueue(comm->state, stream, messages, count);
    return status == SR_OK ? SR_OK : sr_comm_fail_here(comm, status);
}
