// SPDX-License-Identifier: Apache-2.0
// The communicator handle: start, names of the ranks, messages, and waits with deadlines.
//
// A backend only moves bytes; everything that is the same for all of them is here and in
// comm_failure.c (how a failure reaches every rank) and comm_collectives.c (barrier, broadcast,
// gather). A wait never spins: ranks share cores, so it sleeps 20 to 200 us between two looks.
// Not here: arithmetic of any kind.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collective/comm_internal.h"
#include "kernels/base/clock.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "kernels/base/process.h"
#include "kernels/base/watch.h"

#define LOOK_FOR_NOTICE_EVERY 16u // tests between two looks

static int64_t seconds_or(double seconds, double otherwise) {
    return (int64_t)((seconds > 0 ? seconds : otherwise) * (double)SR_NS_PER_S);
}

sr_status sr_comm_start(const sr_comm_backend *backend, void *state, int rank, int size,
                        const sr_comm_options *options, sr_comm **out) {
    sr_comm *comm = sr_alloc(sizeof *comm, "communicator");
    if (!comm)
        return SR_E_MEMORY;
    comm->backend = backend;
    comm->state = state;
    comm->rank = rank;
    comm->size = size;
    comm->report_ns = seconds_or(options->report_seconds, 10);
    comm->act_ns = seconds_or(options->act_seconds, 120);
    comm->patience = options->patience > 0 ? options->patience : 1;
    comm->clock_ns = options->clock_ns ? options->clock_ns : sr_watch_clock_ns;
    comm->names = sr_alloc_array((size_t)size, sizeof *comm->names, "names of ranks");
    comm->control = sr_alloc_array((size_t)size, sizeof *comm->control, "requests for notices");
    comm->pids = sr_alloc_array((size_t)size, sizeof *comm->pids, "numbers of ranks");
    if (!comm->names || !comm->control || !comm->pids) {
        sr_free(comm->names);
        sr_free(comm->pids);
        sr_free(comm->control);
        sr_free(comm);
        return SR_E_MEMORY;
    }
    for (int r = 0; r < size; r++)
        snprintf(comm->names[r], sizeof comm->names[r], "rank %d", r);
    *out = comm;
    return SR_OK;
}

// Exchanges "host-a, pid 123" of all ranks, the first messages of a communicator.
static sr_status exchange_names(sr_comm *comm) {
    char host[64] = "?", mine[SR_COMM_NAME_BYTES] = {0}, here[80];
    if (gethostname(host, sizeof host - 1) != 0)
        snprintf(host, sizeof host, "?");
    snprintf(mine, sizeof mine, "%s, pid %ld", host, (long)getpid());
    SR_TRY(sr_comm_all_gather(comm, mine, sizeof mine, comm->names, "the names of all ranks"));
    int prefix = snprintf(here, sizeof here, "%s, pid ", host);
    for (int r = 0; r < comm->size; r++) {
        comm->names[r][SR_COMM_NAME_BYTES - 1] = '\0';
        if (strncmp(comm->names[r], here, (size_t)prefix) == 0)
            comm->pids[r] = (pid_t)strtol(comm->names[r] + prefix, NULL, 10);
    }
    return SR_OK;
}

static const sr_comm_backend *find_backend(const char *name) {
    size_t count = 0;
    const sr_comm_backend *const *all = sr_comm_backends(&count);
    for (size_t i = 0; i < count; i++) {
        if (name ? strcmp(all[i]->name, name) == 0 : all[i]->detect && all[i]->detect())
            return all[i];
    }
    return name ? NULL : find_backend("self");
}

static int environment_number(const char *name) {
    const char *text = getenv(name);
    return text ? atoi(text) : 0;
}

// A launcher that started several processes which each believe to be alone: training would run
// that many times, in the same folder.
static sr_status check_not_alone(const char *backend) {
    int slurm = environment_number("SLURM_STEP_NUM_TASKS");
    if (getenv("SLURM_PROCID") && slurm > 1 && !getenv("OMPI_COMM_WORLD_SIZE"))
        return SR_FAIL(SR_E_USAGE,
                       "Slurm started %d tasks, but each is alone (backend '%s', 1 rank); start "
                       "them with 'srun --mpi=pmix ...', or with mpirun inside the allocation",
                       slurm, backend);
    int other = environment_number("PMI_SIZE");
    if (other > 1 && !getenv("OMPI_COMM_WORLD_SIZE"))
        return SR_FAIL(SR_E_USAGE,
                       "a launcher started %d processes, but each is alone (backend '%s', 1 "
                       "rank): it belongs to another MPI; use the mpirun of Open MPI",
                       other, backend);
    return SR_OK;
}

sr_status sr_comm_create(const sr_comm_options *options, sr_comm **out) {
    sr_comm_options defaults = {0};
    if (!options)
        options = &defaults;
    const sr_comm_backend *backend = find_backend(options->backend);
    if (!backend)
        return SR_FAIL(SR_E_USAGE, "no communicator backend is called '%s'; there are self and mpi",
                       options->backend);
    if (backend->abi != SR_COMM_BACKEND_ABI || backend->struct_size != sizeof *backend)
        return SR_FAIL(SR_E_UNSUPPORTED,
                       "backend '%s' was made for table version %u, this build has %u; rebuild it",
                       backend->name, backend->abi, SR_COMM_BACKEND_ABI);
    void *state = NULL;
    int rank = 0, size = 1;
    SR_TRY(backend->open(options, &state, &rank, &size));
    sr_comm *comm = NULL;
    sr_status status = SR_OK;
    bool chosen = options->backend && strcmp(options->backend, "self") == 0;
    if (size == 1 && !chosen)
        status = check_not_alone(backend->name);
    if (status == SR_OK)
        status = sr_comm_start(backend, state, rank, size, options, &comm);
    if (status != SR_OK) {
        // Alone or not: nobody has heard of this rank yet, so it cannot part together.
        backend->close(state, size == 1 ? SR_COMM_CLEAN : SR_COMM_FAILED_ALONE,
                       sr_status_exit_code(status));
        return status;
    }
    status = exchange_names(comm);
    if (status != SR_OK) {
        sr_comm_free(comm);
        return status;
    }
    *out = comm;
    return SR_OK;
}

static sr_comm_parting part(sr_comm *comm) {
    if (comm->size == 1 || !comm->backend->meets_at_end)
        return SR_COMM_CLEAN;
    if (comm->failed == SR_OK && sr_comm_barrier(comm, "all ranks to finish") == SR_OK)
        return SR_COMM_CLEAN;
    // Memory of requests that are still under way may be gone: no more progress then.
    if (!comm->settled && comm->under_way == 0)
        sr_comm_settle(comm, NULL, 0);
    return comm->met ? SR_COMM_FAILED_TOGETHER : SR_COMM_FAILED_ALONE;
}

void sr_comm_free(sr_comm *comm) {
    if (!comm)
        return;
    bool had_failed = comm->failed != SR_OK;
    sr_comm_parting parting = part(comm);
    if (!had_failed && comm->failed != SR_OK)
        SR_ERROR("%s", comm->failure.text);
    comm->backend->close(comm->state, parting, sr_status_exit_code(comm->failed));
    sr_free(comm->names);
    sr_free(comm->pids);
    sr_free(comm->control);
    sr_free(comm);
}

int sr_comm_rank(const sr_comm *comm) {
    return comm->rank;
}

int sr_comm_size(const sr_comm *comm) {
    return comm->size;
}

const char *sr_comm_backend_name(const sr_comm *comm) {
    return comm->backend->name;
}

const char *sr_comm_peer_name(const sr_comm *comm, int rank) {
    return rank >= 0 && rank < comm->size ? comm->names[rank] : "no such rank";
}

bool sr_comm_peer_is_stopped(const sr_comm *comm, int rank) {
    return rank >= 0 && rank < comm->size && sr_process_is_stopped(comm->pids[rank]);
}

bool sr_comm_speaks(const sr_comm *comm) {
    int first = 0;
    while (first < comm->rank && sr_comm_peer_is_stopped(comm, first))
        first++;
    return first == comm->rank;
}

int64_t sr_comm_now(const sr_comm *comm) {
    return comm->clock_ns();
}

void sr_comm_report(const sr_comm *comm, const char *format, ...) {
    char text[SR_COMM_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (sr_comm_speaks(comm))
        sr_log_alarm("rank %d (%s): %s", comm->rank, comm->names[comm->rank], text);
    else
        SR_WARN("rank %d (%s): %s", comm->rank, comm->names[comm->rank], text);
}

static sr_status check_message(const sr_comm *comm, int peer, int tag, const void *data,
                               size_t bytes, const sr_comm_request *request) {
    if (peer < 0 || peer >= comm->size)
        return SR_FAIL(SR_E_ARGUMENT, "a message with rank %d, but there are %d ranks", peer,
                       comm->size);
    if (tag < 0 || tag > SR_COMM_TAG_GATHER)
        return SR_FAIL(SR_E_ARGUMENT, "a message with tag %d; tags go from 0 to %d", tag,
                       SR_COMM_MAX_TAG);
    if (!data && bytes > 0)
        return SR_FAIL(SR_E_ARGUMENT, "a message of %zu bytes without memory", bytes);
    if (request->active)
        return SR_FAIL(SR_E_ARGUMENT, "a request is used again before its message is done");
    return SR_OK;
}

static sr_status posted(sr_comm *comm, sr_status status, sr_comm_request *request) {
    if (status != SR_OK)
        return sr_comm_fail_here(comm, status);
    request->active = true;
    comm->under_way++;
    return SR_OK;
}

sr_status sr_comm_isend(sr_comm *comm, int to, int tag, const void *data, size_t bytes,
                        sr_comm_request *request) {
    if (comm->failed != SR_OK)
        return sr_comm_failure(comm);
    SR_TRY(check_message(comm, to, tag, data, bytes, request));
    *request = (sr_comm_request){.peer = to, .tag = tag, .receives = false};
    return posted(comm, comm->backend->isend(comm->state, to, tag, data, bytes, request), request);
}

sr_status sr_comm_irecv(sr_comm *comm, int from, int tag, void *data, size_t bytes,
                        sr_comm_request *request) {
    if (comm->failed != SR_OK)
        return sr_comm_failure(comm);
    SR_TRY(check_message(comm, from, tag, data, bytes, request));
    *request = (sr_comm_request){.peer = from, .tag = tag, .receives = true};
    return posted(comm, comm->backend->irecv(comm->state, from, tag, data, bytes, request),
                  request);
}

sr_status sr_comm_test(sr_comm *comm, sr_comm_request *request, bool *done) {
    if (comm->failed != SR_OK)
        return sr_comm_failure(comm);
    if (++comm->tests % LOOK_FOR_NOTICE_EVERY == 0)
        SR_TRY(sr_comm_poll(comm));
    *done = true;
    if (!request->active)
        return SR_OK;
    sr_status status = comm->backend->test(comm->state, request, done);
    if (status != SR_OK)
        return sr_comm_fail_here(comm, status);
    if (*done) {
        request->active = false;
        comm->under_way--;
    }
    return SR_OK;
}

void sr_comm_back_off(int *round) {
    static const int64_t microseconds[] = {0, 20, 40, 80, 160, 200};
    const int last = (int)(sizeof microseconds / sizeof microseconds[0]) - 1;
    if (*round > 0)
        sr_clock_sleep_ns(microseconds[*round] * 1000);
    if (*round < last)
        ++*round;
}

// *missing becomes the first request that is not done, -1 when all are.
static sr_status test_all(sr_comm *comm, sr_comm_request *requests, int count, int *missing) {
    *missing = -1;
    for (int i = 0; i < count; i++) {
        bool done = false;
        SR_TRY(sr_comm_test(comm, &requests[i], &done));
        if (!done && *missing < 0)
            *missing = i;
    }
    return SR_OK;
}

// "rank 1 (host a, pid 7), which is stopped (SIGSTOP)"
static void describe_peer(const sr_comm *comm, int peer, char *out, size_t size) {
    snprintf(out, size, "rank %d (%s)%s", peer, comm->names[peer],
             sr_comm_peer_is_stopped(comm, peer) ? SR_COMM_STOPPED : "");
}

// A rank that runs may be at work alone; one that is stopped gets no patience.
static bool is_over(const sr_comm *comm, int64_t waited, int peer) {
    if (waited < comm->act_ns)
        return false;
    return sr_comm_peer_is_stopped(comm, peer) ||
           (double)waited >= comm->patience * (double)comm->act_ns;
}

static sr_status wait_for_all(sr_comm *comm, sr_comm_request *requests, int count,
                              const char *what) {
    int64_t start = comm->clock_ns(), report = start + comm->report_ns;
    char peer_name[SR_COMM_NAME_BYTES + 64];
    for (int round = 0;; sr_comm_back_off(&round)) {
        int missing = -1;
        SR_TRY(test_all(comm, requests, count, &missing));
        if (missing < 0)
            return SR_OK;
        SR_TRY(sr_comm_poll(comm));
        int64_t now = comm->clock_ns();
        double waited = (double)(now - start) / (double)SR_NS_PER_S;
        int peer = requests[missing].peer;
        if (is_over(comm, now - start, peer)) {
            describe_peer(comm, peer, peer_name, sizeof peer_name);
            return sr_comm_fail_here(
                comm, SR_FAIL(SR_E_TIMEOUT, "waited %.0f s (deadline.act) for %s; waiting for %s",
                              waited, what, peer_name));
        }
        if (now >= report) {
            report = now + comm->report_ns;
            describe_peer(comm, peer, peer_name, sizeof peer_name);
            sr_comm_report(comm, "waiting %.0f s for %s; waiting for %s", waited, what, peer_name);
        }
    }
}

sr_status sr_comm_wait(sr_comm *comm, sr_comm_request *requests, int count, const char *what) {
    sr_status status = wait_for_all(comm, requests, count, what);
    if (status != SR_OK) {
        sr_comm_settle(comm, requests, count); // while the caller's memory is still there
        return comm->failed != SR_OK ? sr_comm_failure(comm) : status;
    }
    return SR_OK;
}
