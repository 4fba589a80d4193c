// SPDX-License-Identifier: Apache-2.0
// "cpu-async": a CPU that behaves like an accelerator, for tests.
//
// Every range has two addresses. The one that callers get has no memory, so that a host access
// faults immediately. The one that kernels get has memory and ends with a page that faults.
// Addresses of freed ranges stay reserved for a while, so that work on a stream that still uses one
// faults, too, and no new range is mistaken for an old one. No stream is direct. Streams run as
// late, or as far ahead of others, as the rules allow (stream_cpu.c); the delays are drawn with the
// seed SERRIED_TEST_SEED (default 0).
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/base/machine.h"
#include "kernels/base/memory.h"
#include "kernels/base/text.h"
#include "kernels/device/cpu_internal.h"

#define GUARD ((size_t)4096) // bytes after the kernels' memory that fault
#define FREED_RANGES 64u     // number of freed ranges whose addresses stay reserved

typedef struct async_state {
    sr_cpu_delays delays;
    bool keeps_addresses; // of freed ranges; not where they are limited
    pthread_mutex_t lock;
    sr_device_range freed[FREED_RANGES];
    unsigned freed_count; // so far
} async_state;

static sr_status describe(int ordinal, sr_device_properties *out) {
    (void)ordinal;
    return sr_cpu_describe(out, false);
}

static sr_status open_async(sr_device *device) {
    async_state *state = sr_alloc(sizeof *state, "device");
    if (!state)
        return SR_E_MEMORY;
    const char *seed = getenv("SERRIED_TEST_SEED");
    state->delays.seed = seed ? strtoull(seed, NULL, 10) : 0;
    state->keeps_addresses = !sr_machine_get_memory().addresses_limited;
    (void)pthread_mutex_init(&state->lock, NULL);
    device->state = state;
    return SR_OK;
}

static void unmap(const sr_device_range *r) {
    if (r->base.at)
        (void)munmap((void *)r->base.at, r->limit);
    if (r->mapping)
        (void)munmap(r->mapping, r->limit + GUARD);
}

static void close_async(sr_device *device) {
    async_state *state = device->state;
    for (unsigned i = 0; i < FREED_RANGES && i < state->freed_count; i++)
        unmap(&state->freed[i]);
    (void)pthread_mutex_destroy(&state->lock);
    sr_free(state);
}

// Frees the memory of a range and keeps its addresses reserved; releases the addresses that were
// freed longest ago.
static void keep_addresses(async_state *state, const sr_device_range *r) {
    (void)mmap(r->mapping, r->limit + GUARD, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    (void)pthread_mutex_lock(&state->lock);
    sr_device_range *place = &state->freed[state->freed_count % FREED_RANGES];
    if (state->freed_count++ >= FREED_RANGES)
        unmap(place);
    *place = *r;
    (void)pthread_mutex_unlock(&state->lock);
}

static void release(sr_device *device, sr_device_range *r) {
    async_state *state = device->state;
    if (state->keeps_addresses && r->base.at && r->mapping)
        keep_addresses(state, r);
    else
        unmap(r);
}

// Reserves addresses without memory; returns NULL with errno set on failure.
static void *take_addresses(size_t bytes) {
    void *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static sr_status reserve(sr_device *device, sr_device_range *r) {
    char text[16];
    r->base.at = (uintptr_t)take_addresses(r->limit);
    r->mapping = r->base.at ? take_addresses(r->limit + GUARD) : NULL;
    if (r->mapping)
        return SR_OK;
    const int error = errno;
    release(device, r);
    return SR_FAIL(SR_E_MEMORY, "cannot reserve %s of addresses: %s", sr_text_bytes(r->limit, text),
                   strerror(error));
}

static sr_status commit(sr_device *device, sr_device_range *r, size_t bytes) {
    char text[16];
    (void)device;
    if (mprotect(r->mapping, bytes, PROT_READ | PROT_WRITE) != 0)
        return SR_FAIL(SR_E_MEMORY, "cannot map %s of memory: %s; lower the batch or the lanes",
                       sr_text_bytes(bytes, text), strerror(errno));
    return SR_OK;
}

const sr_device_ops sr_device_cpu_async = {
    .struct_size = sizeof(sr_device_ops),
    .abi = SR_DEVICE_ABI,
    .name = "cpu-async",
    .help = "a CPU that behaves like an accelerator, for tests",
    .describe = describe,
    .open = open_async,
    .close = close_async,
    .reserve = reserve,
    .commit = commit,
    .release = release,
    SR_CPU_OPS,
};
