// SPDX-License-Identifier: Apache-2.0
// The CPU as a device: memory is mapped pages, shared with the host.
//
// Pages are mapped, not taken from malloc: ranges can grow in place, and transparent huge pages are
// asked for, which is most of what a special allocator gains on a CPU.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/base/cpuid.h"
#include "kernels/base/machine.h"
#include "kernels/base/text.h"
#include "kernels/device/cpu_internal.h"

#define ALIGNMENT 64 // of what is allocated inside pages: a cache line

sr_status sr_cpu_open(sr_device *device, int ordinal, bool unified) {
    if (ordinal > 0)
        return SR_FAIL(SR_E_USAGE, "device '%s': all processors of a machine are one device, %s",
                       device->properties.name, device->ops->name);
    sr_device_properties *p = &device->properties;
    p->kind = SR_DEVICE_CPU;
    p->memory = sr_machine_get_memory().total;
    p->alignment = ALIGNMENT;
    p->unified = unified;
    p->asynchronous = !unified;
    (void)snprintf(p->model, sizeof p->model, "%s", sr_cpu_model());
    return SR_OK;
}

static sr_status open_cpu(sr_device *device, int ordinal) {
    return sr_cpu_open(device, ordinal, true);
}

static sr_status reserve(sr_device *device, sr_device_range *r) {
    char text[16];
    (void)device;
    void *base =
        mmap(NULL, r->limit, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return SR_FAIL(SR_E_MEMORY, "cannot reserve %s of addresses: %s",
                       sr_text_bytes(r->limit, text), strerror(errno));
    r->mapping = base;
    r->base.at = (uintptr_t)base;
    return SR_OK;
}

static sr_status commit(sr_device *device, sr_device_range *r, size_t bytes) {
    char text[16];
    (void)device;
    if (mprotect(r->mapping, bytes, PROT_READ | PROT_WRITE) != 0)
        return SR_FAIL(SR_E_MEMORY, "cannot map %s of memory: %s; lower the batch or the lanes",
                       sr_text_bytes(bytes, text), strerror(errno));
    (void)madvise(r->mapping, bytes, MADV_HUGEPAGE);
    return SR_OK;
}

static void release(sr_device *device, sr_device_range *r) {
    (void)device;
    (void)munmap(r->mapping, r->limit);
}

const sr_device_ops sr_device_cpu = {
    .struct_size = sizeof(sr_device_ops),
    .abi = SR_DEVICE_ABI,
    .name = "cpu",
    .help = "the processors of this machine",
    .open = open_cpu,
    .reserve = reserve,
    .commit = commit,
    .release = release,
    SR_CPU_STREAM_OPS,
};
