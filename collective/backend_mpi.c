// SPDX-License-Identifier: Apache-2.0
// Backend over MPI (written for Open MPI 4.1; MPI 3.1 calls only).
//
// After sr_mpi_start only MPI_Isend, MPI_Irecv, MPI_Test, MPI_Iprobe and MPI_Cancel are used, on a
// duplicate of MPI_COMM_WORLD with MPI_ERRORS_RETURN: a collective of MPI has no deadline, and none
// may add floating-point numbers. Calls come from one thread at a time (MPI_THREAD_SERIALIZED).
#include <limits.h>
#include <string.h>

#include "collective/comm_backend_internal.h"
#include "collective/mpi_start_internal.h"
#include "kernels/base/clock.h"
#include "kernels/base/memory.h"

#define CANCEL_NS SR_NS_PER_S

typedef struct mpi_state {
    MPI_Comm comm;
    size_t split;
} mpi_state;

// A message that is too long for one MPI call, in parts. All parts are posted at once, in order, so
// that two long messages of one (source, tag) do not mix.
typedef struct mpi_parts {
    size_t count, next, part_bytes, last_bytes;
    MPI_Request requests[];
} mpi_parts;

// A short message has its MPI_Request in backend[0] and its size in backend[1]; for a long one,
// backend[2] points to its mpi_parts.
_Static_assert(sizeof(MPI_Request) <= sizeof(void *), "an MPI_Request fits into a pointer");

// MPI runs, as the bootstrap has started it.
static bool serves(const sr_comm_job *job) {
    return job->bootstrap && strcmp(job->bootstrap->name, "mpi") == 0;
}

static sr_status open_mpi(const sr_comm_job *job, const sr_comm_options *options, void **out) {
    bool here = false;
    (void)job;
    mpi_state *state = sr_alloc(sizeof *state, "MPI communicator");
    if (!state)
        return SR_E_MEMORY;
    const sr_status status = sr_mpi_start(&state->comm, &here);
    if (status != SR_OK) {
        sr_free(state);
        return status;
    }
    state->split = options->split_bytes ? options->split_bytes : SR_COMM_SPLIT_BYTES;
    if (state->split > INT_MAX)
        state->split = SR_COMM_SPLIT_BYTES;
    *out = state;
    return SR_OK;
}

static void store_handle(sr_comm_request *request, MPI_Request handle) {
    memcpy(&request->backend[0], &handle, sizeof handle);
}

static MPI_Request load_handle(const sr_comm_request *request) {
    MPI_Request handle;
    memcpy(&handle, &request->backend[0], sizeof handle);
    return handle;
}

static mpi_parts *new_parts(const mpi_state *state, size_t bytes) {
    size_t count = (bytes + state->split - 1) / state->split;
    mpi_parts *parts =
        sr_alloc(sizeof *parts + count * sizeof parts->requests[0], "parts of a long message");
    if (!parts)
        return NULL;
    parts->count = count;
    parts->part_bytes = state->split;
    parts->last_bytes = bytes - (count - 1) * state->split;
    return parts;
}

static size_t part_size(const mpi_parts *parts, size_t i) {
    return i + 1 < parts->count ? parts->part_bytes : parts->last_bytes;
}

static sr_status isend(void *opaque, int to, int tag, const void *data, size_t bytes,
                       sr_comm_request *request) {
    mpi_state *state = opaque;
    if (bytes <= state->split) {
        MPI_Request handle = MPI_REQUEST_NULL;
        int code = MPI_Isend(data, (int)bytes, MPI_BYTE, to, tag, state->comm, &handle);
        store_handle(request, handle);
        return code == MPI_SUCCESS ? SR_OK : sr_mpi_failed(code, "MPI_Isend");
    }
    mpi_parts *parts = new_parts(state, bytes);
    if (!parts)
        return SR_E_MEMORY;
    request->backend[2] = parts;
    const unsigned char *from = data;
    for (size_t i = 0; i < parts->count; i++) {
        int code = MPI_Isend(from + i * state->split, (int)part_size(parts, i), MPI_BYTE, to, tag,
                             state->comm, &parts->requests[i]);
        if (code != MPI_SUCCESS)
            return sr_mpi_failed(code, "MPI_Isend");
    }
    return SR_OK;
}

static sr_status irecv(void *opaque, int from, int tag, void *data, size_t bytes,
                       sr_comm_request *request) {
    mpi_state *state = opaque;
    if (bytes <= state->split) {
        MPI_Request handle = MPI_REQUEST_NULL;
        int code = MPI_Irecv(data, (int)bytes, MPI_BYTE, from, tag, state->comm, &handle);
        store_handle(request, handle);
        memcpy(&request->backend[1], &bytes, sizeof bytes);
        return code == MPI_SUCCESS ? SR_OK : sr_mpi_failed(code, "MPI_Irecv");
    }
    mpi_parts *parts = new_parts(state, bytes);
    if (!parts)
        return SR_E_MEMORY;
    request->backend[2] = parts;
    unsigned char *to = data;
    for (size_t i = 0; i < parts->count; i++) {
        int code = MPI_Irecv(to + i * state->split, (int)part_size(parts, i), MPI_BYTE, from, tag,
                             state->comm, &parts->requests[i]);
        if (code != MPI_SUCCESS)
            return sr_mpi_failed(code, "MPI_Irecv");
    }
    return SR_OK;
}

static sr_status test_one(MPI_Request *handle, const sr_comm_request *request, size_t expected,
                          bool *done) {
    MPI_Status status;
    int flag = 0, count = 0;
    int code = MPI_Test(handle, &flag, &status);
    if (code != MPI_SUCCESS)
        return sr_mpi_failed(code, "MPI_Test");
    *done = flag != 0;
    if (!flag || !request->receives)
        return SR_OK;
    MPI_Get_count(&status, MPI_BYTE, &count);
    if ((size_t)count != expected)
        return SR_FAIL(SR_E_PEER,
                       "rank %d sent %d bytes where %zu were expected (tag %d); start all ranks "
                       "with the same recipe and build",
                       request->peer, count, expected, request->tag);
    return SR_OK;
}

static sr_status test(void *opaque, sr_comm_request *request, bool *done) {
    (void)opaque;
    mpi_parts *parts = request->backend[2];
    if (!parts) {
        MPI_Request handle = load_handle(request);
        size_t bytes = 0;
        memcpy(&bytes, &request->backend[1], sizeof bytes);
        sr_status status = test_one(&handle, request, bytes, done);
        store_handle(request, handle);
        return status;
    }
    for (*done = true; *done && parts->next < parts->count;) {
        size_t i = parts->next;
        SR_TRY(test_one(&parts->requests[i], request, part_size(parts, i), done));
        parts->next += *done ? 1 : 0;
    }
    if (*done) {
        sr_free(parts);
        request->backend[2] = NULL;
    }
    return SR_OK;
}

// A receive can be cancelled until it is matched; a matched one is waited for, for a limited time.
// A send that was never received stays with MPI: its memory is not read unless this rank makes
// progress again.
static bool cancel_one(MPI_Request *handle, bool receives) {
    if (*handle == MPI_REQUEST_NULL)
        return true;
    if (receives)
        MPI_Cancel(handle);
    int64_t end = sr_clock_ns() + (receives ? CANCEL_NS : 0);
    int flag = 0;
    do {
        if (MPI_Test(handle, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return false;
        if (!flag && receives)
            sr_clock_sleep_ns(50000);
    } while (!flag && sr_clock_ns() < end);
    return flag != 0;
}

static bool cancel(void *opaque, sr_comm_request *request) {
    (void)opaque;
    mpi_parts *parts = request->backend[2];
    bool gone = true;
    if (!parts) {
        MPI_Request handle = load_handle(request);
        gone = cancel_one(&handle, request->receives);
        store_handle(request, handle);
        return gone;
    }
    for (size_t i = parts->next; i < parts->count; i++)
        gone &= cancel_one(&parts->requests[i], request->receives);
    sr_free(
        parts); // MPI identifies requests by the values of their handles, not by their addresses
    request->backend[2] = NULL;
    return gone;
}

static sr_status probe(void *opaque, int tag, int *from) {
    mpi_state *state = opaque;
    MPI_Status status;
    int flag = 0;
    int code = MPI_Iprobe(MPI_ANY_SOURCE, tag, state->comm, &flag, &status);
    if (code != MPI_SUCCESS)
        return sr_mpi_failed(code, "MPI_Iprobe");
    *from = flag ? status.MPI_SOURCE : -1;
    return SR_OK;
}

static void close_mpi(void *opaque) {
    sr_free(opaque);
}

const sr_comm_backend sr_comm_backend_mpi = {
    .struct_size = sizeof(sr_comm_backend),
    .abi = SR_COMM_BACKEND_ABI,
    .name = "mpi",
    .help = "Open MPI, between any ranks that mpirun or srun started",
    .serves = serves,
    .open = open_mpi,
    .isend = isend,
    .irecv = irecv,
    .test = test,
    .cancel = cancel,
    .probe = probe,
    .close = close_mpi,
};
