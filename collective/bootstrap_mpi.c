// SPDX-License-Identifier: Apache-2.0
// Bootstrap of ranks that mpirun or srun started, over Open MPI.
//
// Ending: MPI_Finalize is a collective, so it is only called when all ranks are known to be alive
// and nothing failed. When all ranks know of a failure, each process exits with the same code,
// which mpirun returns. MPI_Abort ends the job only when a rank does not answer. Not here: recovery
// inside a job, which Open MPI 4.1 lacks.
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "collective/bootstrap_internal.h"
#include "collective/mpi_start_internal.h"
#include "kernels/base/clock.h"
#include "kernels/base/memory.h"
#include "kernels/base/watch.h"

#define LOOK_NS 50000 // between two tests

typedef struct mpi_job {
    MPI_Comm comm;
    int size;
    bool started_here;
} mpi_job;

static bool started_by_launcher(void) {
    return getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMIX_RANK") || getenv("PMI_RANK");
}

static sr_status open_mpi(void **out, int *rank, int *size) {
    mpi_job *job = sr_alloc(sizeof *job, "job of MPI");
    if (!job)
        return SR_E_MEMORY;
    const sr_status status = sr_mpi_start(&job->comm, &job->started_here);
    if (status != SR_OK) {
        sr_free(job);
        return status;
    }
    MPI_Comm_rank(job->comm, rank);
    MPI_Comm_size(job->comm, size);
    job->size = *size;
    *out = job;
    return SR_OK;
}

// Its own loop, as a collective of MPI has no deadline.
static sr_status exchange(void *state, const void *mine, size_t bytes, void *all, double seconds) {
    mpi_job *job = state;
    MPI_Request request = MPI_REQUEST_NULL;
    int code =
        MPI_Iallgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, job->comm, &request);
    const int64_t end = sr_watch_clock_ns() + (int64_t)(seconds * (double)SR_NS_PER_S);
    for (int done = 0; code == MPI_SUCCESS && !done;) {
        code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (!done && sr_watch_clock_ns() > end)
            return SR_FAIL(
                SR_E_TIMEOUT,
                "waited %.0f s (deadline.act) for the names and addresses of all %d ranks", seconds,
                job->size);
        if (!done)
            sr_clock_sleep_ns(LOOK_NS);
    }
    return code == MPI_SUCCESS ? SR_OK : sr_mpi_failed(code, "MPI_Iallgather");
}

static void close_mpi(void *state, sr_comm_parting parting, int exit_code) {
    mpi_job *job = state;
    sr_watch end;
    if (parting == SR_COMM_FAILED_ALONE) {
        sr_watch_begin_end(&end, "MPI to abort");
        MPI_Abort(job->comm, exit_code ? exit_code : 1);
        sr_watch_end(&end);
    } else if (parting == SR_COMM_CLEAN && job->started_here) {
        sr_watch_begin(&end, "MPI to end");
        MPI_Finalize();
        sr_watch_end(&end);
    }
    sr_free(job);
}

const sr_bootstrap sr_bootstrap_mpi = {
    .name = "mpi",
    .detect = started_by_launcher,
    .open = open_mpi,
    .exchange = exchange,
    .close = close_mpi,
};
