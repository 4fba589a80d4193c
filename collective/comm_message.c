// SPDX-License-Identifier: Apache-2.0
// Messages between two ranks, and waits for them with deadlines.
//
// A wait never spins: ranks share cores, so it sleeps 20 to 200 us between two tests.
#include <stdio.h>

#include "collective/comm_internal.h"
#include "kernels/base/clock.h"

#define LOOK_FOR_NOTICE_EVERY 16u // tests between two checks

static sr_status check_message(const sr_comm *comm, int peer, int tag, bool has_memory,
                               size_t bytes, const sr_comm_request *request) {
    if (peer < 0 || peer >= comm->job.size)
        return SR_FAIL(SR_E_ARGUMENT, "a message to or from rank %d, but there are %d ranks", peer,
                       comm->job.size);
    if (tag < 0 || tag > SR_COMM_TAG_GATHER)
        return SR_FAIL(SR_E_ARGUMENT, "a message with tag %d; valid tags are 0 to %d", tag,
                       SR_COMM_MAX_TAG);
    if (!has_memory && bytes > 0)
        return SR_FAIL(SR_E_ARGUMENT, "a message of %zu bytes with a NULL buffer", bytes);
    if (request->active)
        return SR_FAIL(SR_E_ARGUMENT, "a request is reused before its message is complete");
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
    SR_TRY(check_message(comm, to, tag, data != NULL, bytes, request));
    *request = (sr_comm_request){.peer = to, .tag = tag, .receives = false};
    return posted(comm, comm->backend->isend(comm->state, to, tag, data, bytes, request), request);
}

sr_status sr_comm_irecv(sr_comm *comm, int from, int tag, void *data, size_t bytes,
                        sr_comm_request *request) {
    if (comm->failed != SR_OK)
        return sr_comm_failure(comm);
    SR_TRY(check_message(comm, from, tag, data != NULL, bytes, request));
    *request = (sr_comm_request){.peer = from, .tag = tag, .receives = true};
    return posted(comm, comm->backend->irecv(comm->state, from, tag, data, bytes, request),
                  request);
}

sr_status sr_comm_isend_device(sr_comm *comm, int to, int tag, sr_device *device, sr_address data,
                               size_t bytes, sr_comm_request *request) {
    if (sr_comm_memory_of(comm, device).in_place)
        return sr_comm_isend(comm, to, tag, (const void *)data.at, bytes, request);
    if (comm->failed != SR_OK)
        return sr_comm_failure(comm);
    SR_TRY(check_message(comm, to, tag, !sr_address_is_none(data), bytes, request));
    *request = (sr_comm_request){.peer = to, .tag = tag, .receives = false};
    return posted(comm, sr_comm_staged_start(comm, device, data, bytes, request), request);
}

sr_status sr_comm_irecv_device(sr_comm *comm, int from, int tag, sr_device *device, sr_address data,
                               size_t bytes, sr_comm_request *request) {
    if (sr_comm_memory_of(comm, device).in_place)
        return sr_comm_irecv(comm, from, tag, (void *)data.at, bytes, request);
    if (comm->failed != SR_OK)
        return sr_comm_failure(comm);
    SR_TRY(check_message(comm, from, tag, !sr_address_is_none(data), bytes, request));
    *request = (sr_comm_request){.peer = from, .tag = tag, .receives = true};
    return posted(comm, sr_comm_staged_start(comm, device, data, bytes, request), request);
}

sr_status sr_comm_test(sr_comm *comm, sr_comm_request *request, bool *done) {
    if (comm->failed != SR_OK)
        return sr_comm_failure(comm);
    if (++comm->tests % LOOK_FOR_NOTICE_EVERY == 0)
        SR_TRY(sr_comm_poll(comm));
    *done = true;
    if (!request->active)
        return SR_OK;
    sr_status status = request->staged ? sr_comm_staged_test(comm, request, done)
                                       : comm->backend->test(comm->state, request, done);
    if (status != SR_OK)
        return sr_comm_fail_here(comm, status);
    if (*done) {
        request->active = false;
        comm->under_way--;
    }
    return SR_OK;
}

// *missing is the first request that is not done, or -1.
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

// A running peer may be doing long work, so the deadline is multiplied by patience; not for a
// stopped one.
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
        sr_comm_settle(comm, requests, count); // while the caller's memory is still valid
        return comm->failed != SR_OK ? sr_comm_failure(comm) : status;
    }
    return SR_OK;
}
