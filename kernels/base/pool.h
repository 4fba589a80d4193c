// SPDX-License-Identifier: Apache-2.0
// A pool of threads with a fixed partition of work: one team per lane.
//
// sr_pool_run divides 'count' items statically among the team (item i goes to worker i mod size),
// so the assignment never depends on timing. Results must not depend on the team either. Idle
// workers sleep on a futex after at most 20 us of spinning, since ranks share cores.
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

// 'size' counts all threads, including the calling one (size 1 starts no thread). 'init', if given,
// runs once on each started thread and on the creator; it sets up the thread, for example limits
// the threads of a library.
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
