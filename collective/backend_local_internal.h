// SPDX-License-Identifier: Apache-2.0
// A world of ranks inside one process: for unit tests, thread checkers and simulation, and, with
// one rank, the backend "self".
//
// Ranks are threads, or are driven in turn by one thread. With a clock and a delay, a message
// arrives between 0 and max_delay_ns after it was sent; within one (source, tag) messages stay in
// order, different ones overtake each other. All draws derive from the seed, so a single-threaded
// run is reproducible. Short messages are buffered, as in MPI; longer ones complete at the sender
// when they have been received. Locked inside.
#ifndef SR_COLLECTIVE_BACKEND_LOCAL_INTERNAL_H
#define SR_COLLECTIVE_BACKEND_LOCAL_INTERNAL_H

#include "collective/comm_backend_internal.h"

typedef struct sr_local_world sr_local_world;

typedef struct sr_local_options {
    int size;
    uint64_t seed;
    int64_t max_delay_ns;
    int64_t (*clock_ns)(void); // NULL: sr_clock_ns
    size_t eager_bytes;        // messages up to this size are buffered; 0: 1024
} sr_local_options;

SR_NODISCARD sr_status sr_local_world_create(const sr_local_options *options, sr_local_world **out);
// Creates the communicator of one rank; free it before the world. It uses the clock of the world
// unless the options have one. Not collective: names are "rank N".
SR_NODISCARD sr_status sr_local_world_join(sr_local_world *world, int rank,
                                           const sr_comm_options *options, sr_comm **out);
// From now on no message of this rank arrives, including those already sent.
void sr_local_world_kill(sr_local_world *world, int rank);
void sr_local_world_free(sr_local_world *world);

// The calls of a rank, for backend_self.c.
typedef struct sr_local_rank sr_local_rank;
SR_NODISCARD sr_status sr_local_rank_create(sr_local_world *world, int rank, bool owns_world,
                                            sr_local_rank **out);
extern const sr_comm_backend sr_comm_backend_local;

#endif
