// SPDX-License-Identifier: Apache-2.0
// The processors that a rank computes on: its share of those that it has in common with other ranks
// of its host.
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
    int index;       // number of the rank among all ranks of this host
    int nodes;       // NUMA nodes that the processors are on
    int threads;     // to compute with
    bool bound;      // this thread, and those that it starts from now on, are bound to 'cpus'
} sr_placement;

// Collective: ranks exchange their processor masks. A mask that only one rank has (mpirun
// --bind-to, taskset, a cpuset) is kept; ranks with the same mask divide it by whole cores, in rank
// order. Nothing is bound if there are more ranks than cores, if a cgroup's quota is smaller than
// the mask, or with SERRIED_PIN=0. SERRIED_THREADS, if set, is the number of threads that compute.
SR_NODISCARD sr_status sr_placement_make(sr_comm *comm, sr_placement *out);
// The number of this rank among all ranks of its host.
int sr_placement_index(const sr_comm *comm);

// The processors for concurrent lane 'index' of 'lanes', in a rank whose processors are on several
// NUMA nodes: a subset of the rank's share, so that a lane's memory is on the node that it computes
// on. False if all are on one node, if there are more lanes than cores, or with SERRIED_PIN=0: then
// the lane may run anywhere in the rank's share. 'sys': as for sr_cpu_locations_read.
bool sr_placement_of_lane(const char *sys, const sr_cpu_set *rank, int lanes, int index,
                          sr_cpu_set *out);

#ifdef __cplusplus
}
#endif
#endif
