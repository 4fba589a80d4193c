// SPDX-License-Identifier: Apache-2.0
// Opening devices by name, and the calls that go through their tables.
#include "kernels/device/device.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/memory.h"
#include "kernels/base/memory_owners.h"
#include "kernels/base/text.h"
#include "kernels/device/device_internal.h"

static const sr_device_ops *const devices[] = {
#define SR_DEVICE(ops) &ops,
#include "kernels/device/device_list.def"
#undef SR_DEVICE
};
enum { DEVICE_COUNT = sizeof devices / sizeof devices[0] };

static sr_status unknown(const char *name, const char *const *known) {
    const char *near = sr_text_nearest(name, known, DEVICE_COUNT);
    sr_text list;
    if (strncmp(name, "cuda", 4) == 0 || strncmp(name, "gpu", 3) == 0)
        return SR_FAIL(SR_E_USAGE,
                       "device '%s' is not built: this version runs on CPUs only; leave "
                       "device out, or give device=cpu",
                       name);
    sr_text_init(&list);
    for (int i = 0; i < DEVICE_COUNT; i++)
        sr_text_add(&list, "%s%s", i ? ", " : "", known[i]);
    (void)SR_FAIL(SR_E_USAGE, "unknown device '%s'%s%s%s; one of: %s", name,
                  near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "", list.data);
    sr_text_release(&list);
    return SR_E_USAGE;
}

sr_status sr_device_open(const char *name, sr_device **out) {
    const char *known[DEVICE_COUNT];
    if (!name)
        name = getenv("SERRIED_TEST_DEVICE");
    if (!name || !*name)
        name = "cpu";
    for (int i = 0; i < DEVICE_COUNT; i++) {
        known[i] = devices[i]->name;
        if (strcmp(name, known[i]) != 0)
            continue;
        sr_device *device = sr_alloc(sizeof *device, "device");
        if (!device)
            return SR_E_MEMORY;
        device->ops = devices[i];
        *out = device;
        return SR_OK;
    }
    return unknown(name, known);
}

void sr_device_close(sr_device *device) {
    if (!device)
        return;
    while (device->range_count)
        sr_device_free(device, device->ranges[device->range_count - 1].base);
    sr_free(device->ranges);
    sr_free(device);
}

const char *sr_device_name(const sr_device *device) {
    return device->ops->name;
}

bool sr_device_host_access(const sr_device *device) {
    return device->ops->host_access;
}

static void note_owner(sr_device *device, const void *memory, const char *what) {
    sr_device_range *range = sr_device_find_range(device, memory);
    range->owner = sr_memory_owner_find(what);
    sr_memory_owner_add(range->owner, range->committed);
}

sr_status sr_device_alloc(sr_device *device, size_t bytes, const char *what, void **out) {
    sr_status status = device->ops->alloc(device, bytes ? bytes : 1, out);
    if (status != SR_OK)
        sr_error_prefix("%s", what);
    else
        note_owner(device, *out, what);
    return status;
}

void sr_device_free(sr_device *device, void *memory) {
    if (!memory)
        return;
    const sr_device_range *range = sr_device_find_range(device, memory);
    sr_memory_owner_remove(range->owner, range->committed);
    device->ops->free(device, memory);
}

sr_status sr_device_reserve(sr_device *device, size_t limit, const char *what, void **out) {
    SR_TRY(device->ops->reserve(device, limit, out));
    note_owner(device, *out, what);
    return SR_OK;
}

sr_status sr_device_commit(sr_device *device, void *memory, size_t bytes) {
    const sr_device_range *range = sr_device_find_range(device, memory);
    const size_t before = range->committed;
    SR_TRY(device->ops->commit(device, memory, bytes));
    sr_memory_owner_grow(range->owner, range->committed - before);
    return SR_OK;
}

void *sr_device_kernel_address(sr_device *device, void *memory) {
    return device->ops->kernel_address(device, memory);
}

void sr_device_copy(sr_device *device, void *dst, const void *src, size_t bytes) {
    memcpy(sr_device_kernel_address(device, dst), sr_device_source_address(device, src), bytes);
}

sr_status sr_device_add_range(sr_device *device, sr_device_range range) {
    void *ranges = device->ranges;
    SR_TRY(sr_grow(&ranges, &device->range_capacity, device->range_count + 1,
                   sizeof *device->ranges, "device ranges"));
    device->ranges = ranges;
    device->ranges[device->range_count++] = range;
    return SR_OK;
}

sr_device_range *sr_device_find_range(sr_device *device, const void *memory) {
    const unsigned char *p = memory;
    for (size_t i = 0; i < device->range_count; i++) {
        sr_device_range *r = &device->ranges[i];
        if (p >= r->base && p < r->base + r->limit)
            return r;
    }
    return NULL;
}

void sr_device_drop_range(sr_device *device, sr_device_range *range) {
    *range = device->ranges[--device->range_count];
}

sr_status sr_device_over_limit(const sr_device_range *range, size_t bytes) {
    char wanted[16], limit[16];
    return SR_FAIL(SR_E_MEMORY,
                   "device memory of %s is over the %s of this machine that are reserved for it; "
                   "lower the batch or the lanes",
                   sr_text_bytes(bytes, wanted), sr_text_bytes(range->limit, limit));
}
