// SPDX-License-Identifier: Apache-2.0
// The CPU as a device: memory is mapped pages, shared with the host.
//
// Pages are mapped, not taken from malloc: ranges can grow in place, and transparent huge pages are
// asked for, which is most of what a special allocator gains on a CPU.
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/base/text.h"
#include "kernels/device/device_internal.h"

static sr_status cpu_commit(sr_device *device, void *memory, size_t bytes) {
    sr_device_range *r = sr_device_find_range(device, memory);
    char text[16];
    bytes = sr_device_round_page(bytes);
    if (bytes <= r->committed)
        return SR_OK;
    if (bytes > r->limit)
        return sr_device_over_limit(r, bytes);
    if (mprotect(r->base, bytes, PROT_READ | PROT_WRITE) != 0)
        return SR_FAIL(SR_E_MEMORY, "cannot map %s of memory: %s; lower the batch or the lanes",
                       sr_text_bytes(bytes, text), strerror(errno));
    (void)madvise(r->base, bytes, MADV_HUGEPAGE);
    r->committed = bytes;
    return SR_OK;
}

static sr_status cpu_reserve(sr_device *device, size_t limit, void **out) {
    char text[16];
    limit = sr_device_round_page(limit);
    void *base = mmap(NULL, limit, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return SR_FAIL(SR_E_MEMORY, "cannot reserve %s of addresses: %s",
                       sr_text_bytes(limit, text), strerror(errno));
    sr_status status = sr_device_add_range(
        device, (sr_device_range){.base = base, .kernel = base, .limit = limit, .fd = -1});
    if (status != SR_OK) {
        (void)munmap(base, limit);
        return status;
    }
    *out = base;
    return SR_OK;
}

static void cpu_free(sr_device *device, void *memory) {
    sr_device_range *r = sr_device_find_range(device, memory);
    (void)munmap(r->base, r->limit);
    sr_device_drop_range(device, r);
}

static sr_status cpu_alloc(sr_device *device, size_t bytes, void **out) {
    SR_TRY(cpu_reserve(device, bytes, out));
    sr_status status = cpu_commit(device, *out, bytes);
    if (status != SR_OK)
        cpu_free(device, *out);
    return status;
}

static void *cpu_kernel_address(sr_device *device, void *memory) {
    (void)device;
    return memory;
}

const sr_device_ops sr_device_cpu = {
    .struct_size = sizeof(sr_device_ops),
    .abi = SR_DEVICE_ABI,
    .name = "cpu",
    .host_access = true,
    .alloc = cpu_alloc,
    .reserve = cpu_reserve,
    .commit = cpu_commit,
    .free = cpu_free,
    .kernel_address = cpu_kernel_address,
};
