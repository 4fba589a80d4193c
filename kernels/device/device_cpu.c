// SPDX-License-Identifier: Apache-2.0
// The CPU as a device: memory is mapped pages, shared with the host.
//
// Pages are mapped, not taken from malloc, so that ranges can grow in place. Transparent huge pages
// are requested, which gives most of the gain of a special allocator on a CPU.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/base/cpuid.h"
#include "kernels/base/machine.h"
#include "kernels/base/text.h"
#include "kernels/device/cpu_internal.h"

#define ALIGNMENT 64 // of allocations within pages: a cache line

// All processors of a machine are one device.
sr_status sr_cpu_describe(sr_device_properties *out, bool unified) {
    const sr_machine_memory memory = sr_machine_get_memory();
    out->memory = memory.total;
    out->addresses_limited = memory.addresses_limited;
    out->alignment = ALIGNMENT;
    out->unified = unified;
    out->asynchronous = !unified;
    (void)snprintf(out->memory_owner, sizeof out->memory_owner, "%s",
                   memory.limit ? memory.limit : "this machine");
    (void)snprintf(out->model, sizeof out->model, "%s", sr_cpu_model());
    return SR_OK;
}

uint32_t sr_cpu_device_features(int ordinal) {
    (void)ordinal;
    return sr_cpu_features();
}

char *sr_cpu_numerics(int ordinal, uint32_t features, char out[SR_DEVICE_TEXT]) {
    char text[80] = "plain";
    (void)ordinal;
    if (features)
        sr_cpu_features_text(features, text);
    (void)snprintf(out, SR_DEVICE_TEXT, "processor %s", text);
    return out;
}

char *sr_cpu_identity(int ordinal, char out[SR_DEVICE_IDENTITY]) {
    char features[80];
    (void)ordinal;
    (void)snprintf(out, SR_DEVICE_IDENTITY, "%s; %s", sr_cpu_model(),
                   sr_cpu_features_text(sr_cpu_features(), features));
    return out;
}

static sr_status describe(int ordinal, sr_device_properties *out) {
    (void)ordinal;
    return sr_cpu_describe(out, true);
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
    if (!r->sparse)
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
    .describe = describe,
    .reserve = reserve,
    .commit = commit,
    .release = release,
    SR_CPU_OPS,
};
