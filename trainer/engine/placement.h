// SPDX-License-Identifier: Apache-2.0
// Where a rank computes: its share of the processors that ranks of its host have in common.
#ifndef SR_TRAINER_PLACEMENT_H
#define SR_TRAINER_PLACEMENT_H

#include "collective/comm.h"
#include "kernels/base/cores.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_placement {
    sr_cpu_set cpus; // of this rank
    int ranks;       // of this host that had the same mask, this one included
    int nodes;       // NUMA nodes that the processors are on
    int threads;     // to compute with
    bool bound;      // this thread keeps to 'cpus', and so do those that it starts from now on
} sr_placement;

// Collective: every rank tells its host and its mask. A mask of one's own (mpirun --bind-to,
// taskset, a cpuset) is left as it is; ranks with one mask in common share it out by whole cores,
// in the order of ranks. Nothing is bound where there are more ranks than cores, where a cgroup's
// quota is smaller than the mask, or with SERRIED_PIN=0. SERRIED_THREADS, where set, says how many
// threads compute.
SR_NODISCARD sr_status sr_placement_make(sr_comm *comm, sr_placement *out);

// Where the threads of one of 'lanes' lanes at a time compute in a rank whose processors are on
// several NUMA nodes: part 'index' of them, so that a lane's memory is on the node that it computes
// on. False where they are on one node, where there are more lanes than cores, or with
// SERRIED_PIN=0: then anywhere in the rank's share. 'sys' as of sr_cpu_locations_read.
bool sr_placement_of_lane(const char *sys, const sr_cpu_set *rank, int lanes, int index,
                          sr_cpu_set *out);

#ifdef __cplusplus
}
#endif
#endif
