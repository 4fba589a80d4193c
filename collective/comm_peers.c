// SPDX-License-Identifier: Apache-2.0
// The ranks of a communicator: numbers, names, which are stopped, and which of them reports.
#include <stdarg.h>
#include <stdio.h>

#include "collective/comm_internal.h"
#include "kernels/base/clock.h"
#include "kernels/base/log.h"
#include "kernels/base/process.h"

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

void sr_comm_back_off(int *round) {
    static const int64_t microseconds[] = {0, 20, 40, 80, 160, 200};
    const int last = (int)(sizeof microseconds / sizeof microseconds[0]) - 1;
    if (*round > 0)
        sr_clock_sleep_ns(microseconds[*round] * 1000);
    if (*round < last)
        ++*round;
}
