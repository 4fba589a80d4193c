// SPDX-License-Identifier: Apache-2.0
// Backend over MPI (written for Open MPI 4.1; MPI 3.1 calls only).
//
// After start-up only MPI_Isend, MPI_Irecv, MPI_Test, MPI_Iprobe and MPI_Cancel are used, on a
// duplicate of MPI_COMM_WORLD with MPI_ERRORS_RETURN: a collective of MPI has no deadline, and none
// may add floating-point numbers. Calls come from one thread at a time (MPI_THREAD_SERIALIZED).
// Ending: MPI_Finalize is a collective, too, so it is only called when all ranks are known to be
// alive and nothing failed. When all ranks know of a failure, each process exits with the same
// code, which mpirun returns. MPI_Abort ends the job only when a rank does not answer. Not here:
// recovery inside a job, which Open MPI 4.1 lacks.
#include <limits.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "collective/comm_backend_internal.h"
#include "kernels/base/clock.h"
#include "kernels/base/memory.h"
#include "kernels/base/watch.h"

#define CANCEL_NS SR_NS_PER_S

typedef struct mpi_state {
    MPI_Comm comm;
    size_t split;
    bool initialised_here;
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

static bool started_by_launcher(void) {
    return getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMIX_RANK") || getenv("PMI_RANK");
}

static sr_status failed(int code, const char *call) {
    char text[MPI_MAX_ERROR_STRING] = "?";
    int length = 0;
    MPI_Error_string(code, text, &length);
    return SR_FAIL(SR_E_PEER, "%s failed: %s; a rank has ended, or the connection to it is lost",
                   call, text);
}

static sr_status initialise(bool *here) {
    int ready = 0, over = 0, level = MPI_THREAD_SINGLE;
    MPI_Finalized(&over);
    if (over)
        return SR_FAIL(SR_E_UNSUPPORTED,
                       "MPI was finalised already in this process and cannot be "
                       "started again; keep one communicator until the process ends");
    MPI_Initialized(&ready);
    *here = !ready;
    if (ready)
        MPI_Query_thread(&level);
    else if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS)
        return SR_FAIL(SR_E_SYSTEM, "MPI_Init_thread failed; see its message above");
    if (level < MPI_THREAD_SERIALIZED)
        return SR_FAIL(SR_E_UNSUPPORTED,
                       "this MPI provides thread level %d, but MPI_THREAD_SERIALIZED is "
                       "needed; initialise MPI with it, or let serried initialise MPI",
                       level);
    return SR_OK;
}

static sr_status duplicate(mpi_state *state) {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int code = MPI_Comm_dup(MPI_COMM_WORLD, &state->comm);
    if (code != MPI_SUCCESS)
        return failed(code, "MPI_Comm_dup");
    MPI_Comm_set_errhandler(state->comm, MPI_ERRORS_RETURN);
    return SR_OK;
}

static sr_status open_mpi(const sr_comm_options *options, void **out, int *rank, int *size) {
    mpi_state *state = sr_alloc(sizeof *state, "MPI communicator");
    if (!state)
        return SR_E_MEMORY;
    sr_watch start;
    sr_watch_begin(&start, "MPI to start on all ranks");
    sr_status status = initialise(&state->initialised_here);
    if (status == SR_OK)
        status = duplicate(state);
    sr_watch_end(&start);
    if (status != SR_OK) {
        sr_free(state);
        return status;
    }
    state->split = options->split_bytes ? options->split_bytes : SR_COMM_SPLIT_BYTES;
    if (state->split > INT_MAX)
        state->split = SR_COMM_SPLIT_BYTES;
    MPI_Comm_rank(state->comm, rank);
    MPI_Comm_size(state->comm, size);
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
        return code == MPI_SUCCESS ? SR_OK : failed(code, "MPI_Isend");
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
            return failed(code, "MPI_Isend");
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
        return code == MPI_SUCCESS ? SR_OK : failed(code, "MPI_Irecv");
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
            return failed(code, "MPI_Irecv");
    }
    return SR_OK;
}

static sr_status test_one(MPI_Request *handle, const sr_comm_request *request, size_t expected,
                          bool *done) {
    MPI_Status status;
    int flag = 0, count = 0;
    int code = MPI_Test(handle, &flag, &status);
    if (code != MPI_SUCCESS)
        return failed(code, "MPI_Test");
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
        return failed(code, "MPI_Iprobe");
    *from = flag ? status.MPI_SOURCE : -1;
    return SR_OK;
}

static void close_mpi(void *opaque, sr_comm_parting parting, int exit_code) {
    mpi_state *state = opaque;
    sr_watch end;
    if (parting == SR_COMM_FAILED_ALONE) {
        sr_watch_begin_end(&end, "MPI to abort");
        MPI_Abort(state->comm, exit_code ? exit_code : 1);
        sr_watch_end(&end);
    } else if (parting == SR_COMM_CLEAN && state->initialised_here) {
        sr_watch_begin(&end, "MPI to end");
        MPI_Finalize();
        sr_watch_end(&end);
    }
    sr_free(state);
}

const sr_comm_backend sr_comm_backend_mpi = {
    .struct_size = sizeof(sr_comm_backend),
    .abi = SR_COMM_BACKEND_ABI,
    .name = "mpi",
    .meets_at_end = true,
    .detect = started_by_launcher,
    .open = open_mpi,
    .isend = isend,
    .irecv = irecv,
    .test = test,
    .cancel = cancel,
    .probe = probe,
    .close = close_mpi,
};
