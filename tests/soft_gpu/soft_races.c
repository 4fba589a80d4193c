// SPDX-License-Identifier: Apache-2.0
// Races in shared memory, for kernels that report their accesses (soft_hooks.c): two threads access
// a byte, one of them writes, and no barrier is between. Found for certain, in whatever order the
// threads run, as each byte has a record of who wrote and read it last. Of threads of one warp,
// __syncwarp is such a barrier; shuffles and votes are not, since they order no memory.
#include <stdlib.h>

#include "tests/soft_gpu/soft_gpu_internal.h"

enum { NOBODY = 0xffff, SEVERAL = 0xfffe, WARP = 32 };

typedef struct access {
    uint32_t block_phase, warp_phase;
    uint16_t thread; // NOBODY; SEVERAL: of different warps
    bool lanes;      // with other lanes of its warp, in the same phase
    bool atomic;
} access;

typedef struct record {
    uint32_t block; // that it is of
    access write, read;
} record;

static __thread record *records; // of each byte of shared memory
static __thread uint32_t block;

void soft_races_begin(void) {
    block++;
}

void soft_races_release(void) {
    free(records);
}

// Whether what 'a' stands for is done before the access of a thread that is at 'now'.
static bool is_before(const access *a, const soft_position *now) {
    if (a->thread == NOBODY || a->block_phase < now->block_phase ||
        (a->thread == now->thread && !a->lanes))
        return true;
    return a->thread != SEVERAL && a->thread / WARP == now->thread / WARP &&
           a->warp_phase < now->warp_phase;
}

static _Noreturn void report(const access *a, size_t offset, const char *now, const char *before) {
    if (a->thread == SEVERAL)
        soft_mistake("%s byte %zu of shared memory, which threads of several warps %s; no barrier "
                     "is between",
                     now, offset, before);
    soft_mistake("%s byte %zu of shared memory, which thread number %u %s; no barrier is between",
                 now, offset, (unsigned)a->thread, before);
}

static void add_read(access *a, const soft_position *now) {
    const bool concurrent = a->thread != NOBODY && a->block_phase == now->block_phase;
    bool lanes = false;
    uint16_t thread = (uint16_t)now->thread;
    if (concurrent && (a->thread == SEVERAL || a->thread / WARP != now->thread / WARP))
        thread = SEVERAL;
    else if (concurrent && a->warp_phase == now->warp_phase)
        lanes = a->lanes || a->thread != now->thread;
    *a = (access){now->block_phase, now->warp_phase, thread, lanes, false};
}

static void check_byte(record *r, size_t offset, const soft_position *now,
                       soft_gpu_access_kind kind) {
    const bool atomic = kind == SOFT_GPU_ATOMIC;
    if (r->block != block)
        *r = (record){.block = block, .write = {.thread = NOBODY}, .read = {.thread = NOBODY}};
    if (kind != SOFT_GPU_WRITE && r->write.thread == NOBODY)
        soft_mistake("reads byte %zu of shared memory, which nobody wrote", offset);
    if (!is_before(&r->write, now) && !(atomic && r->write.atomic))
        report(&r->write, offset, kind == SOFT_GPU_READ ? "reads" : "writes", "wrote");
    if (kind == SOFT_GPU_READ) {
        add_read(&r->read, now);
        return;
    }
    if (!is_before(&r->read, now))
        report(&r->read, offset, "writes", "read");
    r->write = (access){now->block_phase, now->warp_phase, (uint16_t)now->thread, false, atomic};
}

void soft_gpu_access(const void *address, size_t bytes, soft_gpu_access_kind kind) {
    const size_t offset =
        (size_t)((const unsigned char *)address - (const unsigned char *)soft_gpu_now.shared);
    if (!soft_in_thread() || offset >= soft_gpu_now.shared_bytes)
        return;
    if (!records)
        records = calloc(SOFT_GPU_SHARED_MAX, sizeof *records);
    if (!records)
        soft_mistake("no memory of the host is left");
    const soft_position now = soft_get_position();
    for (size_t i = offset; i < offset + bytes && i < soft_gpu_now.shared_bytes; i++)
        check_byte(&records[i], i, &now, kind);
}
