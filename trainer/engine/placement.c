// SPDX-License-Identifier: Apache-2.0
// Divides a host's processors among its ranks (placement.h). A rank is bound to its share with the
// threads of its exchange and its data processes. A lane is bound to a subset of the share if that
// has several NUMA nodes, but not to a core: it may move while something else occupies its core.
// The pages of a lane's values are first touched by the lane's own threads, so that the kernel
// places them on the node of the subset.
#include "trainer/engine/placement.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/memory.h"
#include "kernels/base/pool.h"

enum { MAX_THREADS = 4096 };

static bool pins(void) {
    const char *text = getenv("SERRIED_PIN");
    return !text || strcmp(text, "0") != 0;
}

// Counts the ranks with this one's host and mask, and those of them before it.
static void count_neighbours(const sr_comm *comm, const sr_cpu_set *masks, int *all, int *before) {
    const int rank = sr_comm_rank(comm);
    *all = *before = 0;
    for (int r = 0; r < sr_comm_size(comm); r++) {
        const bool same = sr_comm_host(comm, r) == sr_comm_host(comm, rank) &&
                          sr_cpu_set_equal(&masks[r], &masks[rank]);
        *all += same;
        *before += same && r < rank;
    }
}

static void take_share(const sr_cpu_set *mask, int index, sr_placement *out) {
    sr_cpu_location places[SR_CPUS];
    const int count = sr_cpu_locations_read("/sys", mask, places);
    const bool whole = sr_cpu_count() >= count; // no quota
    out->cpus = *mask;
    out->bound =
        whole && count > 0 && pins() && sr_cpu_share(places, count, out->ranks, index, &out->cpus);
    out->nodes = sr_cpu_locations_nodes(places, sr_cpu_locations_read("/sys", &out->cpus, places));
}

// *out: 0 if SERRIED_THREADS is not set.
static sr_status threads_asked_for(int *out) {
    const char *given = getenv("SERRIED_THREADS");
    char *end = NULL;
    const long threads = given ? strtol(given, &end, 10) : 0;
    *out = (int)threads;
    if (given && (end == given || *end != '\0' || threads < 1 || threads > MAX_THREADS))
        return SR_FAIL(
            SR_E_USAGE,
            "SERRIED_THREADS='%s' is not a number of threads from 1 to %d; correct or unset it",
            given, MAX_THREADS);
    return SR_OK;
}

static int threads_of(const sr_placement *p) {
    if (p->bound)
        return sr_cpu_set_count(&p->cpus);
    const int threads = p->ranks > 1 ? sr_cpu_count() / p->ranks : sr_cpu_count();
    return threads > 0 ? threads : 1;
}

int sr_placement_index(const sr_comm *comm) {
    const int rank = sr_comm_rank(comm);
    int before = 0;
    for (int r = 0; r < rank; r++)
        before += sr_comm_host(comm, r) == sr_comm_host(comm, rank);
    return before;
}

sr_status sr_placement_make(sr_comm *comm, sr_placement *out) {
    const sr_cpu_set own = sr_cpu_set_of_thread();
    int asked, index;
    SR_TRY(threads_asked_for(&asked));
    sr_cpu_set *masks =
        sr_alloc_array((size_t)sr_comm_size(comm), sizeof *masks, "placement of ranks");
    if (!masks)
        return SR_E_MEMORY;
    const sr_status status =
        sr_comm_all_gather(comm, &own, sizeof own, masks, "placement of ranks");
    if (status == SR_OK) {
        count_neighbours(comm, masks, &out->ranks, &index);
        out->index = sr_placement_index(comm);
        take_share(&own, index, out);
        out->threads = asked > 0 ? asked : threads_of(out);
    }
    sr_free(masks);
    SR_TRY(status);
    return out->bound ? sr_cpu_set_bind(&out->cpus) : SR_OK;
}

bool sr_placement_of_lane(const char *sys, const sr_cpu_set *rank, int lanes, int index,
                          sr_cpu_set *out) {
    sr_cpu_location places[SR_CPUS];
    const int count = sr_cpu_locations_read(sys, rank, places);
    return lanes > 1 && pins() && sr_cpu_locations_nodes(places, count) > 1 &&
           sr_cpu_share(places, count, lanes, index, out);
}
