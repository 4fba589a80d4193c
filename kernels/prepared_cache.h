// SPDX-License-Identifier: Apache-2.0
// Prepared kernels by request, for callers outside plans: each is prepared once and kept, so steps
// after the first prepare nothing. Any thread may call.
#ifndef SR_KERNELS_PREPARED_CACHE_H
#define SR_KERNELS_PREPARED_CACHE_H

#include "kernels/kernel.h"

// A prepared kernel with its request; stays where it is until the cache is freed.
typedef struct sr_prepared_entry {
    sr_kernel_request request;
    sr_prepared prepared;
} sr_prepared_entry;

typedef struct sr_prepared_cache sr_prepared_cache;

// SR_E_MEMORY.
SR_NODISCARD sr_status sr_prepared_cache_create(sr_prepared_cache **out);
// None of its kernels may be running; NULL is legal.
void sr_prepared_cache_free(sr_prepared_cache *cache);
// The kernel for a request, prepared if it is new. The request is zeroed before it is filled: it is
// compared as bytes. Errors are those of sr_kernel_prepare.
SR_NODISCARD sr_status sr_prepared_cache_get(sr_prepared_cache *cache,
                                             const sr_kernel_request *request,
                                             const sr_prepared_entry **out);

#endif
