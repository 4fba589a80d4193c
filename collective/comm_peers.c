// SPDX-License-Identifier: Apache-2.0
// The ranks of a communicator: numbers, names, hosts, which are stopped, and which of them reports.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collective/comm_internal.h"
#include "kernels/base/clock.h"
#include "kernels/base/hash.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "kernels/base/process.h"
#include "kernels/base/watch.h"

// By the kernel's boot id, which all containers of a host share.
static uint64_t host_number(const char *name) {
    char text[64] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    const bool has_id = file && fgets(text, sizeof text, file);
    if (file)
        (void)fclose(file);
    if (!has_id)
        return sr_hash64(name, strlen(name));
    return sr_hash64(text, strlen(text));
}

static sr_comm_card own_card(void) {
    sr_comm_card card = {.pid = getpid()};
    char host[64] = "?";
    struct stat pids;
    if (gethostname(host, sizeof host - 1) != 0)
        (void)snprintf(host, sizeof host, "?");
    (void)snprintf(card.name, sizeof card.name, "%s, pid %ld", host, (long)card.pid);
    card.host = host_number(host);
    card.pids = stat("/proc/self/ns/pid", &pids) == 0 ? pids.st_ino : 0;
    return card;
}

static int first_of_host(const sr_comm_card *cards, int rank) {
    int first = 0;
    while (cards[first].host != cards[rank].host)
        first++;
    return first;
}

static void take_cards(sr_comm *comm, const sr_comm_card *cards) {
    const sr_comm_card *own = &cards[comm->job.rank];
    for (int r = 0; r < comm->job.size; r++) {
        const sr_comm_card *c = &cards[r];
        (void)snprintf(comm->names[r], sizeof comm->names[r], "%.*s", SR_COMM_NAME_BYTES - 1,
                       c->name);
        comm->hosts[r] = first_of_host(cards, r);
        comm->pids[r] = c->host == own->host && c->pids == own->pids ? (pid_t)c->pid : 0;
    }
}

sr_status sr_comm_meet(sr_comm *comm) {
    const sr_comm_card own = own_card();
    const double seconds = comm->patience * (double)comm->act_ns / (double)SR_NS_PER_S;
    sr_comm_card *cards = sr_alloc_array((size_t)comm->job.size, sizeof *cards, "names of ranks");
    sr_watch wait;
    if (!cards)
        return SR_E_MEMORY;
    sr_watch_begin(&wait, "the names of all ranks");
    const sr_status status =
        comm->job.bootstrap->exchange(comm->job.state, &own, sizeof own, cards, seconds);
    sr_watch_end(&wait);
    if (status == SR_OK)
        take_cards(comm, cards);
    sr_free(cards);
    return status;
}

int sr_comm_rank(const sr_comm *comm) {
    return comm->job.rank;
}

int sr_comm_size(const sr_comm *comm) {
    return comm->job.size;
}

const char *sr_comm_backend_name(const sr_comm *comm) {
    return comm->backend->name;
}

const char *sr_comm_peer_name(const sr_comm *comm, int rank) {
    return rank >= 0 && rank < comm->job.size ? comm->names[rank] : "no such rank";
}

int sr_comm_host(const sr_comm *comm, int rank) {
    return comm->hosts[rank];
}

bool sr_comm_peer_is_stopped(const sr_comm *comm, int rank) {
    return rank >= 0 && rank < comm->job.size && sr_process_is_stopped(comm->pids[rank]);
}

bool sr_comm_speaks(const sr_comm *comm) {
    int first = 0;
    while (first < comm->job.rank && sr_comm_peer_is_stopped(comm, first))
        first++;
    return first == comm->job.rank;
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
        sr_log_alarm("rank %d (%s): %s", comm->job.rank, comm->names[comm->job.rank], text);
    else
        SR_WARN("rank %d (%s): %s", comm->job.rank, comm->names[comm->job.rank], text);
}

void sr_comm_back_off(int *round) {
    static const int64_t microseconds[] = {0, 20, 40, 80, 160, 200};
    const int last = (int)(sizeof microseconds / sizeof microseconds[0]) - 1;
    if (*round > 0)
        sr_clock_sleep_ns(microseconds[*round] * 1000);
    if (*round < last)
        ++*round;
}
