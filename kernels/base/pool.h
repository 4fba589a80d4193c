// SPDX-License-Identifier: Apache-2.0
// A pool of threads with a fixed partition of work: one team per lane.
//
// sr_pool_run splits 'count' items over the team statically (item i goes to worker i mod size), so
// which thread computes what never depends on timing. Results must not depend on the team either.
// Workers sleep on a futex when idle (no spinning beyond 20 us: ranks share cores).
#ifndef SR_KERNELS_BASE_POOL_H
#define SR_KERNELS_BASE_POOL_H

#include <stdint.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_pool sr_pool;

// Called once per item; 'worker' is 0..size-1, stable for a thread.
typedef void (*sr_pool_fn)(void *user, int64_t item, int worker);

// 'size' threads in all, the calling thread included (so size 1 starts no thread). 'init', where
// given, runs once on each started thread and on the creator (thread set-up, such as limiting the
// threads of a library).
SR_NODISCARD sr_status sr_pool_create(int size, void (*init)(void *user, int worker), void *user,
                                      sr_pool **out);
int sr_pool_size(const sr_pool *pool);
// Runs fn for items 0..count-1 and returns when all are done. The caller is worker 0.
// One caller at a time; not reentrant.
void sr_pool_run(sr_pool *pool, int64_t count, sr_pool_fn fn, void *user);
void sr_pool_free(sr_pool *pool);

// Number of processors that this process may run on (affinity mask, cgroup quota rounded up).
int sr_cpu_count(void);

#ifdef __cplusplus
}
#endif
#endif
