// SPDX-License-Identifier: Apache-2.0
// Messages from and to device memory: the one place where bytes are copied because a backend cannot
// reach a device's memory.
//
// A message to be sent is downloaded to a host buffer and then given to the backend; a received one
// is uploaded when it has arrived. Copies overtake each other, messages must not: those of one
// sender with one tag are matched in order, so sends are given to the backend in the order of their
// calls. Buffers are kept for later messages.
#include "collective/comm_internal.h"
#include "kernels/base/memory.h"
#include "kernels/device/stream.h"

typedef enum stage { COPIED_FROM_DEVICE, MESSAGE, COPIED_TO_DEVICE } stage;

struct sr_comm_staged {
    sr_device *device;
    sr_stream *stream;
    sr_event *copied;
    void *host;
    size_t capacity;
    bool in_use;
    stage stage;
    sr_address memory; // of the message
    size_t bytes;
};

static void free_staged(sr_comm_staged *s) {
    sr_stream_free(s->stream); // waits
    sr_event_free(s->copied);
    if (s->host)
        sr_device_unregister_host(s->device, s->host);
    sr_free(s->host);
    sr_free(s);
}

static sr_status fill_staged(sr_comm_staged *s, sr_device *device, size_t bytes) {
    static const sr_stream_options direct = {.direct = true};
    s->device = device;
    SR_TRY(sr_stream_create(device, &direct, &s->stream));
    SR_TRY(sr_event_create(device, &s->copied));
    void *host = sr_alloc(bytes, "message staging");
    if (!host)
        return SR_E_MEMORY;
    const sr_status status = sr_device_register_host(device, host, bytes);
    if (status != SR_OK) {
        sr_free(host);
        return status;
    }
    s->host = host;
    s->capacity = bytes;
    return SR_OK;
}

static sr_status make_staged(sr_comm *comm, sr_device *device, size_t bytes, sr_comm_staged **out) {
    void *list = comm->staged;
    SR_TRY(sr_grow(&list, &comm->staged_capacity, comm->staged_count + 1, sizeof *comm->staged,
                   "message staging"));
    comm->staged = list;
    sr_comm_staged *s = sr_alloc(sizeof *s, "message staging");
    if (!s)
        return SR_E_MEMORY;
    const sr_status status = fill_staged(s, device, bytes ? bytes : 1);
    if (status != SR_OK) {
        free_staged(s);
        return status;
    }
    comm->staged[comm->staged_count++] = s;
    *out = s;
    return SR_OK;
}

static sr_status take_staged(sr_comm *comm, sr_device *device, sr_address memory, size_t bytes,
                             sr_comm_staged **out) {
    sr_comm_staged *s = NULL;
    for (size_t i = 0; i < comm->staged_count; i++) {
        sr_comm_staged *other = comm->staged[i];
        if (!other->in_use && other->device == device && other->capacity >= bytes &&
            (!s || other->capacity < s->capacity))
            s = other;
    }
    if (!s)
        SR_TRY(make_staged(comm, device, bytes, &s));
    s->in_use = true;
    s->memory = memory;
    s->bytes = bytes;
    *out = s;
    return SR_OK;
}

static void give_back(sr_comm_request *request) {
    request->staged->in_use = false;
    request->staged = NULL;
}

static void forget_unsent(sr_comm *comm, const sr_comm_request *request) {
    size_t kept = 0;
    for (size_t i = 0; i < comm->unsent_count; i++)
        if (comm->unsent[i] != request)
            comm->unsent[kept++] = comm->unsent[i];
    comm->unsent_count = kept;
}

// Gives the backend what has been copied, up to the first that has not.
static sr_status send_copied(sr_comm *comm) {
    while (comm->unsent_count > 0) {
        sr_comm_request *request = comm->unsent[0];
        sr_comm_staged *s = request->staged;
        if (!sr_event_done(s->copied))
            return SR_OK;
        forget_unsent(comm, request);
        SR_TRY(sr_stream_wait(s->stream)); // returns the copy's failure
        SR_TRY(comm->backend->isend(comm->state, request->peer, request->tag, s->host, s->bytes,
                                    request));
        s->stage = MESSAGE;
    }
    return SR_OK;
}

static sr_status start_send(sr_comm *comm, sr_comm_request *request) {
    sr_comm_staged *s = request->staged;
    void *unsent = comm->unsent;
    SR_TRY(sr_grow(&unsent, &comm->unsent_capacity, comm->unsent_count + 1, sizeof *comm->unsent,
                   "message staging"));
    comm->unsent = unsent;
    SR_TRY(sr_stream_download(s->stream, s->host, s->memory, s->bytes));
    SR_TRY(sr_event_record(s->copied, s->stream));
    s->stage = COPIED_FROM_DEVICE;
    comm->unsent[comm->unsent_count++] = request;
    return send_copied(comm);
}

static sr_status start_receive(sr_comm *comm, sr_comm_request *request) {
    sr_comm_staged *s = request->staged;
    s->stage = MESSAGE;
    return comm->backend->irecv(comm->state, request->peer, request->tag, s->host, s->bytes,
                                request);
}

sr_status sr_comm_staged_start(sr_comm *comm, sr_device *device, sr_address memory, size_t bytes,
                               sr_comm_request *request) {
    SR_TRY(take_staged(comm, device, memory, bytes, &request->staged));
    const sr_status status =
        request->receives ? start_receive(comm, request) : start_send(comm, request);
    if (status != SR_OK) {
        forget_unsent(comm, request);
        give_back(request);
    }
    return status;
}

static sr_status test_message(sr_comm *comm, sr_comm_request *request, bool *arrived) {
    sr_comm_staged *s = request->staged;
    SR_TRY(comm->backend->test(comm->state, request, arrived));
    if (!*arrived || !request->receives)
        return SR_OK;
    SR_TRY(sr_stream_upload(s->stream, s->memory, s->host, s->bytes));
    SR_TRY(sr_event_record(s->copied, s->stream));
    s->stage = COPIED_TO_DEVICE;
    return SR_OK;
}

sr_status sr_comm_staged_test(sr_comm *comm, sr_comm_request *request, bool *done) {
    sr_comm_staged *s = request->staged;
    *done = false;
    SR_TRY(send_copied(comm));
    if (s->stage == MESSAGE) {
        bool arrived = false;
        SR_TRY(test_message(comm, request, &arrived));
        *done = arrived && !request->receives;
    }
    if (s->stage == COPIED_TO_DEVICE && sr_event_done(s->copied)) {
        SR_TRY(sr_stream_wait(s->stream));
        *done = true;
    }
    if (*done)
        give_back(request);
    return SR_OK;
}

void sr_comm_staged_cancel(sr_comm *comm, sr_comm_request *request) {
    forget_unsent(comm, request);
    // A buffer that the backend may still use is not reused.
    if (request->staged->stage != MESSAGE || comm->backend->cancel(comm->state, request))
        give_back(request);
}

void sr_comm_release_device(sr_comm *comm, const sr_device *device) {
    size_t kept = 0;
    for (size_t i = 0; i < comm->staged_count; i++) {
        if (comm->staged[i]->device == device)
            free_staged(comm->staged[i]);
        else
            comm->staged[kept++] = comm->staged[i];
    }
    comm->staged_count = kept;
}
