// SPDX-License-Identifier: Apache-2.0
#include "collective/mpi_start_internal.h"

#include "kernels/base/watch.h"

sr_status sr_mpi_failed(int code, const char *call) {
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

static sr_status duplicate(MPI_Comm *out) {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const int code = MPI_Comm_dup(MPI_COMM_WORLD, out);
    if (code != MPI_SUCCESS)
        return sr_mpi_failed(code, "MPI_Comm_dup");
    MPI_Comm_set_errhandler(*out, MPI_ERRORS_RETURN);
    return SR_OK;
}

sr_status sr_mpi_start(MPI_Comm *out, bool *here) {
    sr_watch start;
    sr_watch_begin(&start, "MPI to start on all ranks");
    sr_status status = initialise(here);
    if (status == SR_OK)
        status = duplicate(out);
    sr_watch_end(&start);
    return status;
}
