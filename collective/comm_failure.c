// SPDX-License-Identifier: Apache-2.0
// How a failure of one rank becomes a failure of all ranks, and how they end.
//
// The rank that fails sends a notice (status, text, rank) to every other rank, with a reserved tag;
// every test and wait checks for it. A rank that receives a notice forwards it, so that the notice
// reaches all ranks even if its sender dies half-way. Groups on streams end with the notice. A
// failure sticks: from then on every call returns it, with the same status and text on every rank.
// Before memory of unfinished messages may be freed, ranks "settle": each cancels its requests and
// sends a "bye" to all others. A rank that has received all byes knows that no rank accesses its
// memory any more and that all are alive. If they do not arrive in time, a rank is dead or hangs,
// and the backend ends the job.
#include <stdio.h>
#include <string.h>

#include "collective/comm_internal.h"
#include "kernels/base/clock.h"
#include "kernels/base/watch.h"

#define NOTICE_MAGIC 0x6c696166u // "fail"
#define ANNOUNCE_NS SR_NS_PER_S
#define SETTLE_NS (5 * SR_NS_PER_S)

sr_status sr_comm_failure(sr_comm *comm) {
    return sr_error_adopt(comm->failed, "comm_failure.c", comm->failure.text);
}

static void set_failure(sr_comm *comm, sr_status status, int cause, const char *text) {
    if (comm->failed != SR_OK)
        return;
    comm->failed = status;
    comm->failure.magic = NOTICE_MAGIC;
    comm->failure.status = (int32_t)status;
    comm->failure.cause = cause;
    snprintf(comm->failure.text, sizeof comm->failure.text, "%s", text);
    comm->failure.length = (uint32_t)strlen(comm->failure.text);
}

// Tests the control requests until none is active or the time is up. Uses real time: the clock of a
// simulation does not advance here.
static void finish_control(sr_comm *comm, int64_t nanoseconds) {
    int64_t end = sr_clock_ns() + nanoseconds;
    int active = comm->job.size;
    for (int round = 0; active > 0 && sr_clock_ns() < end; sr_comm_back_off(&round)) {
        active = 0;
        for (int r = 0; r < comm->job.size; r++) {
            sr_comm_request *request = &comm->control[r];
            bool done = false;
            if (request->active && comm->backend->test(comm->state, request, &done) == SR_OK)
                request->active = !done;
            active += request->active ? 1 : 0;
        }
        if (active == 0)
            return;
    }
}

static void send_to_all(sr_comm *comm, int tag, const void *data, size_t bytes) {
    for (int r = 0; r < comm->job.size; r++) {
        sr_comm_request *request = &comm->control[r];
        if (r == comm->job.rank || request->active)
            continue;
        *request = (sr_comm_request){.peer = r, .tag = tag};
        request->active = comm->backend->isend(comm->state, r, tag, data, bytes, request) == SR_OK;
    }
    finish_control(comm, ANNOUNCE_NS);
}

static void announce(sr_comm *comm) {
    if (comm->announced)
        return;
    comm->announced = true;
    send_to_all(comm, SR_COMM_TAG_NOTICE, &comm->failure, sizeof comm->failure);
    if (comm->backend->end_groups)
        comm->backend->end_groups(comm->state); // a peer may never enqueue its part
}

void sr_comm_abort(sr_comm *comm, sr_status status, const char *message) {
    char text[SR_COMM_TEXT_BYTES];
    if (comm->job.size == 1)
        snprintf(text, sizeof text, "%s", message);
    else
        snprintf(text, sizeof text, "rank %d (%s): %s", comm->job.rank, comm->names[comm->job.rank],
                 message);
    set_failure(comm, status == SR_OK ? SR_E_PEER : status, comm->job.rank, text);
    announce(comm);
}

sr_status sr_comm_fail_here(sr_comm *comm, sr_status status) {
    if (comm->failed == SR_OK) {
        char text[SR_COMM_TEXT_BYTES];
        snprintf(text, sizeof text, "%s", sr_error_message());
        sr_comm_abort(comm, status, text);
    }
    return sr_comm_failure(comm);
}

// Receives one small message that a probe has found.
static bool receive_now(sr_comm *comm, int from, int tag, void *data, size_t bytes) {
    sr_comm_request request = {.peer = from, .tag = tag, .receives = true};
    if (comm->backend->irecv(comm->state, from, tag, data, bytes, &request) != SR_OK)
        return false;
    int64_t end = sr_clock_ns() + ANNOUNCE_NS;
    bool done = false;
    for (int round = 0; !done && sr_clock_ns() < end; sr_comm_back_off(&round)) {
        if (comm->backend->test(comm->state, &request, &done) != SR_OK)
            return false;
    }
    if (!done)
        comm->backend->cancel(comm->state, &request);
    return done;
}

sr_status sr_comm_poll(sr_comm *comm) {
    if (comm->failed != SR_OK)
        return sr_comm_failure(comm);
    int from = -1;
    sr_status status = comm->backend->probe(comm->state, SR_COMM_TAG_NOTICE, &from);
    if (status != SR_OK)
        return sr_comm_fail_here(comm, status);
    if (from < 0)
        return SR_OK;
    sr_comm_notice *notice = &comm->incoming;
    memset(notice, 0, sizeof *notice);
    bool valid = receive_now(comm, from, SR_COMM_TAG_NOTICE, notice, sizeof *notice) &&
                 notice->magic == NOTICE_MAGIC && notice->status != SR_OK;
    if (!valid)
        return sr_comm_fail_here(comm, SR_FAIL(SR_E_PEER, "rank %d (%s) failed without a reason",
                                               from, comm->names[from]));
    notice->text[sizeof notice->text - 1] = '\0';
    set_failure(comm, (sr_status)notice->status, notice->cause, notice->text);
    announce(comm);
    return sr_comm_failure(comm);
}

// Waits for the byes of all other ranks.
static bool meet(sr_comm *comm) {
    for (int r = 0; r < comm->job.size; r++)
        if (r != comm->job.rank && sr_comm_peer_is_stopped(comm, r))
            return false; // a stopped rank sends none
    int64_t limit = comm->act_ns < SETTLE_NS ? comm->act_ns : SETTLE_NS;
    int64_t end = sr_watch_clock_ns() + limit;
    int missing = comm->job.size - 1;
    for (int round = 0; missing > 0 && sr_watch_clock_ns() < end; sr_comm_back_off(&round)) {
        int from = -1;
        while (missing > 0 && comm->backend->probe(comm->state, SR_COMM_TAG_BYE, &from) == SR_OK &&
               from >= 0) {
            if (!receive_now(comm, from, SR_COMM_TAG_BYE, NULL, 0))
                return false;
            missing--;
        }
    }
    return missing == 0;
}

void sr_comm_settle(sr_comm *comm, sr_comm_request *requests, int count) {
    bool first = !comm->settled;
    if (first && comm->failed == SR_OK)
        sr_comm_abort(comm, SR_E_PEER, "it left in the middle of an exchange");
    for (int i = 0; i < count; i++) {
        if (!requests[i].active)
            continue;
        if (requests[i].staged)
            sr_comm_staged_cancel(comm, &requests[i]);
        else
            comm->backend->cancel(comm->state, &requests[i]);
        requests[i].active = false;
        comm->under_way--;
    }
    comm->settled = true;
    if (!first || comm->job.size == 1 || !comm->job.bootstrap)
        return;
    send_to_all(comm, SR_COMM_TAG_BYE, NULL, 0);
    comm->met = meet(comm);
}
