// SPDX-License-Identifier: Apache-2.0
// A communicator from start to end: the job, choice of the backend, names of the ranks, and how it
// ends.
//
// A backend only moves bytes. Everything else is here and, each built on those before it, in
// comm_peers.c (ranks and their names), comm_failure.c (how a failure reaches every rank),
// comm_message.c (messages, and waits with deadlines) and comm_collectives.c (barrier, broadcast,
// gather). None of them does arithmetic.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collective/comm_internal.h"
#include "kernels/base/clock.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "kernels/base/watch.h"

static int64_t seconds_or(double seconds, double otherwise) {
    return (int64_t)((seconds > 0 ? seconds : otherwise) * (double)SR_NS_PER_S);
}

static void release(sr_comm *comm) {
    if (!comm)
        return;
    sr_free(comm->names);
    sr_free(comm->pids);
    sr_free(comm->hosts);
    sr_free(comm->control);
    sr_free(comm->staged);
    sr_free(comm->unsent);
    sr_free(comm);
}

sr_status sr_comm_start(const sr_comm_job *job, const sr_comm_backend *backend, void *state,
                        const sr_comm_options *options, sr_comm **out) {
    const size_t size = (size_t)job->size;
    sr_comm *comm = sr_alloc(sizeof *comm, "communicator");
    if (!comm)
        return SR_E_MEMORY;
    comm->job = *job;
    comm->backend = backend;
    comm->state = state;
    comm->report_ns = seconds_or(options->report_seconds, 10);
    comm->act_ns = seconds_or(options->act_seconds, 120);
    comm->patience = options->patience > 0 ? options->patience : 1;
    comm->clock_ns = options->clock_ns ? options->clock_ns : sr_watch_clock_ns;
    comm->names = sr_alloc_array(size, sizeof *comm->names, "names of ranks");
    comm->control = sr_alloc_array(size, sizeof *comm->control, "requests for notices");
    comm->pids = sr_alloc_array(size, sizeof *comm->pids, "numbers of ranks");
    comm->hosts = sr_alloc_array(size, sizeof *comm->hosts, "hosts of ranks");
    if (!comm->names || !comm->control || !comm->pids || !comm->hosts) {
        release(comm);
        return SR_E_MEMORY;
    }
    for (int r = 0; r < job->size; r++)
        snprintf(comm->names[r], sizeof comm->names[r], "rank %d", r);
    *out = comm;
    return SR_OK;
}

static sr_status choose_backend(const sr_comm_job *job, const char *name,
                                const sr_comm_backend **out) {
    SR_TRY(sr_comm_backend_choose(job, name, out));
    if (!(*out)->serves(job))
        return SR_FAIL(SR_E_USAGE,
                       "backend '%s' cannot connect this job (%d rank%s, started by '%s'); without "
                       "a name, one that can is chosen",
                       name, job->size, job->size == 1 ? "" : "s", job->bootstrap->name);
    return SR_OK;
}

static int environment_number(const char *name) {
    const char *text = getenv(name);
    return text ? atoi(text) : 0;
}

// Detects a launcher that started several processes, each with one rank: the same training would
// run several times, in the same folder.
static sr_status check_not_alone(const sr_comm_job *job) {
    int slurm = environment_number("SLURM_STEP_NUM_TASKS");
    if (getenv("SLURM_PROCID") && slurm > 1 && !getenv("OMPI_COMM_WORLD_SIZE"))
        return SR_FAIL(SR_E_USAGE,
                       "Slurm started %d tasks, but each runs alone ('%s', 1 rank); start them "
                       "with 'srun --mpi=pmix ...', or with mpirun inside the allocation",
                       slurm, job->bootstrap->name);
    int other = environment_number("PMI_SIZE");
    if (other > 1 && !getenv("OMPI_COMM_WORLD_SIZE"))
        return SR_FAIL(SR_E_USAGE,
                       "a launcher started %d processes, but each runs alone ('%s', 1 rank): it "
                       "belongs to another MPI; use the mpirun of Open MPI",
                       other, job->bootstrap->name);
    return SR_OK;
}

// Opens a backend of the job, and a communicator on it that knows the names of all ranks.
static sr_status connect_ranks(const sr_comm_job *job, const sr_comm_options *options,
                               sr_comm **out) {
    const sr_comm_backend *backend = NULL;
    void *state = NULL;
    sr_comm *comm = NULL;
    if (job->size == 1 && !options->alone)
        SR_TRY(check_not_alone(job));
    SR_TRY(choose_backend(job, options->backend, &backend));
    SR_TRY(backend->open(job, options, &state));
    sr_status status = sr_comm_start(job, backend, state, options, &comm);
    if (status == SR_OK)
        status = sr_comm_meet(comm);
    if (status != SR_OK) {
        backend->close(state);
        release(comm);
        return status;
    }
    *out = comm;
    return SR_OK;
}

sr_status sr_comm_create(const sr_comm_options *options, sr_comm **out) {
    const sr_comm_options defaults = {0};
    if (!options)
        options = &defaults;
    sr_comm_job job = {.bootstrap = sr_bootstrap_find(options->alone)};
    SR_TRY(job.bootstrap->open(&job.state, &job.rank, &job.size));
    const sr_status status = connect_ranks(&job, options, out);
    if (status != SR_OK) // the ranks cannot agree yet on how to end
        job.bootstrap->close(job.state, job.size == 1 ? SR_COMM_CLEAN : SR_COMM_FAILED_ALONE,
                             sr_status_exit_code(status));
    return status;
}

static sr_comm_parting choose_parting(sr_comm *comm) {
    if (comm->job.size == 1 || !comm->job.bootstrap)
        return SR_COMM_CLEAN;
    if (comm->failed == SR_OK && sr_comm_barrier(comm, "all ranks to finish") == SR_OK)
        return SR_COMM_CLEAN;
    // Memory of unfinished requests may have been freed: no progress may be made then.
    if (!comm->settled && comm->under_way == 0)
        sr_comm_settle(comm, NULL, 0);
    return comm->met ? SR_COMM_FAILED_TOGETHER : SR_COMM_FAILED_ALONE;
}

void sr_comm_free(sr_comm *comm) {
    if (!comm)
        return;
    bool had_failed = comm->failed != SR_OK;
    sr_comm_parting parting = choose_parting(comm);
    if (!had_failed && comm->failed != SR_OK)
        SR_ERROR("%s", comm->failure.text);
    const sr_comm_job job = comm->job;
    const int exit_code = sr_status_exit_code(comm->failed);
    comm->backend->close(comm->state);
    release(comm);
    if (job.bootstrap)
        job.bootstrap->close(job.state, parting, exit_code);
}
