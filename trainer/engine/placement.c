// SPDX-License-Identifier: Apache-2.0
// Divides a host's processors among its ranks (placement.h). A rank is bound to its share with the
// threads of its exchange and its data processes. A lane is bound to a subset of the share if that
// has several NUMA nodes, but not to a core: it may move while something else occupies its core.
// The pages of a lane's values are first touched by the lane's own threads, so that the kernel
// places them on the node of the subset.
#include "trainer/engine/placement.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/hash.h"
#include "kernels/base/memory.h"
#include "kernels/base/pool.h"

enum { MAX_THREADS = 4096 };

typedef struct binding {
    uint64_t host;
    sr_cpu_set mask;
} binding;

// Identifies the host by the kernel's boot id, which all containers of a host share.
static uint64_t host_number(void) {
    char text[256] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (!file || !fgets(text, sizeof text, file))
        (void)gethostname(text, sizeof text - 1);
    if (file)
        (void)fclose(file);
    return sr_hash64(text, strlen(text));
}

static bool pins(void) {
    const char *text = getenv("SERRIED_PIN");
    return !text || strcmp(text, "0") != 0;
}

// Counts the ranks of this one's host before it.
static int count_on_host(const binding *bindings, int rank) {
    int before = 0;
    for (int r = 0; r < rank; r++)
        before += bindings[r].host == bindings[rank].host;
    return before;
}

// Counts the ranks with this one's host and mask, and those of them before it.
static void count_neighbours(const binding *bindings, int ranks, int rank, int *all, int *before) {
    *all = *before = 0;
    for (int r = 0; r < ranks; r++) {
        const bool same = bindings[r].host == bindings[rank].host &&
                          sr_cpu_set_equal(&bindings[r].mask, &bindings[rank].mask);
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

// Hosts and masks of all ranks, in new memory.
static sr_status gather(sr_comm *comm, binding **out) {
    const binding own = {.host = host_number(), .mask = sr_cpu_set_of_thread()};
    binding *all = sr_alloc_array((size_t)sr_comm_size(comm), sizeof *all, "placement of ranks");
    if (!all)
        return SR_E_MEMORY;
    const sr_status status = sr_comm_all_gather(comm, &own, sizeof own, all, "placement of ranks");
    if (status != SR_OK) {
        sr_free(all);
        return status;
    }
    *out = all;
    return SR_OK;
}

sr_status sr_placement_make(sr_comm *comm, sr_placement *out) {
    binding *bindings = NULL;
    int asked, index;
    SR_TRY(threads_asked_for(&asked));
    SR_TRY(gather(comm, &bindings));
    const int rank = sr_comm_rank(comm);
    count_neighbours(bindings, sr_comm_size(comm), rank, &out->ranks, &index);
    out->index = count_on_host(bindings, rank);
    take_share(&bindings[rank].mask, index, out);
    out->threads = asked > 0 ? asked : threads_of(out);
    sr_free(bindings);
    return out->bound ? sr_cpu_set_bind(&out->cpus) : SR_OK;
}

sr_status sr_placement_index(sr_comm *comm, int *out) {
    binding *bindings = NULL;
    SR_TRY(gather(comm, &bindings));
    *out = count_on_host(bindings, sr_comm_rank(comm));
    sr_free(bindings);
    return SR_OK;
}

bool sr_placement_of_lane(const char *sys, const sr_cpu_set *rank, int lanes, int index,
                          sr_cpu_set *out) {
    sr_cpu_location places[SR_CPUS];
    const int count = sr_cpu_locations_read(sys, rank, places);
    return lanes > 1 && pins() && sr_cpu_locations_nodes(places, count) > 1 &&
           sr_cpu_share(places, count, lanes, index, out);
}
