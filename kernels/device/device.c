// SPDX-License-Identifier: Apache-2.0
// Opening devices by name, the list of their memory, and calls that go through their tables.
#include "kernels/device/device.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/memory.h"
#include "kernels/base/memory_owners.h"
#include "kernels/base/table.h"
#include "kernels/base/text.h"
#include "kernels/device/device_internal.h"

#define PAGE 4096

static const sr_device_ops *const built_in[] = {
#define SR_DEVICE(ops) &ops,
#include "kernels/device/device_list.def"
#undef SR_DEVICE
};
static sr_table kinds = {.what = "device",
                         .struct_size = sizeof(sr_device_ops),
                         .abi = SR_DEVICE_ABI,
                         .built_in = built_in,
                         .built_in_count = sizeof built_in / sizeof built_in[0]};

sr_status sr_device_add_kind(const sr_device_ops *ops, const char *origin) {
    const sr_device_ops *const list[] = {ops, NULL};
    return sr_table_add(&kinds, list, origin);
}

const char *sr_device_kind_name(sr_device_kind kind) {
    static const char *const names[SR_DEVICE_KINDS] = {"cpu", "gpu"};
    return (unsigned)kind < SR_DEVICE_KINDS ? names[kind] : "?";
}

// ---- Opening ----

static sr_status choose(const char *name, const sr_device_ops **out, int *ordinal) {
    char kind[SR_DEVICE_TEXT], rest;
    const char *colon = strchr(name, ':');
    const void *found;
    const int length = colon ? (int)(colon - name) : (int)strlen(name);
    (void)snprintf(kind, sizeof kind, "%.*s", length, name);
    if ((strcmp(kind, "cuda") == 0 || strcmp(kind, "gpu") == 0) && !sr_table_find(&kinds, kind))
        return SR_FAIL(SR_E_USAGE,
                       "device '%s' is not built: this version runs on CPUs only; leave "
                       "device out, or give device=cpu",
                       name);
    SR_TRY(sr_table_choose(&kinds, kind, &found));
    *ordinal = -1;
    if (colon && (sscanf(colon + 1, "%d%c", ordinal, &rest) != 1 || *ordinal < 0))
        return SR_FAIL(SR_E_USAGE,
                       "device '%s': what follows ':' is the number of a device, 0, 1, "
                       "...",
                       name);
    *out = found;
    return SR_OK;
}

sr_status sr_device_open(const char *name, sr_device **out) {
    const sr_device_ops *ops = NULL;
    int ordinal = -1;
    if (!name)
        name = getenv("SERRIED_TEST_DEVICE");
    if (!name || !*name)
        name = "cpu";
    SR_TRY(choose(name, &ops, &ordinal));
    assert(ops);
    sr_device *device = sr_alloc(sizeof *device, "device");
    if (!device)
        return SR_E_MEMORY;
    device->ops = ops;
    (void)pthread_mutex_init(&device->lock, NULL);
    (void)snprintf(device->properties.name, sizeof device->properties.name, "%s", name);
    const sr_status status = ops->open(device, ordinal);
    if (status != SR_OK) {
        (void)pthread_mutex_destroy(&device->lock);
        sr_free(device);
        return status;
    }
    *out = device;
    return SR_OK;
}

void sr_device_close(sr_device *device) {
    if (!device)
        return;
    while (device->range_count)
        sr_device_free(device, device->ranges[device->range_count - 1].base);
    if (device->ops->close)
        device->ops->close(device);
    (void)pthread_mutex_destroy(&device->lock);
    sr_free(device->ranges);
    sr_free(device);
}

const sr_device_properties *sr_device_get_properties(const sr_device *device) {
    return &device->properties;
}

const char *sr_device_name(const sr_device *device) {
    return device->properties.name;
}

// ---- Memory ----

static size_t whole_pages(size_t bytes) {
    return (bytes + PAGE - 1) & ~(size_t)(PAGE - 1);
}

// With the lock held. The range that contains an address, or NULL.
static sr_device_range *range_of(const sr_device *device, sr_address address) {
    for (size_t i = 0; i < device->range_count; i++) {
        sr_device_range *r = &device->ranges[i];
        if (address.at >= r->base.at && address.at - r->base.at < r->limit)
            return r;
    }
    return NULL;
}

bool sr_device_find_range(sr_device *device, sr_address address, sr_device_range *out) {
    (void)pthread_mutex_lock(&device->lock);
    const sr_device_range *r = range_of(device, address);
    if (r)
        *out = *r;
    (void)pthread_mutex_unlock(&device->lock);
    return r != NULL;
}

static sr_status add_range(sr_device *device, const sr_device_range *range) {
    (void)pthread_mutex_lock(&device->lock);
    void *ranges = device->ranges;
    const sr_status status = sr_grow(&ranges, &device->range_capacity, device->range_count + 1,
                                     sizeof *device->ranges, "device ranges");
    device->ranges = ranges;
    if (status == SR_OK)
        device->ranges[device->range_count++] = *range;
    (void)pthread_mutex_unlock(&device->lock);
    return status;
}

sr_status sr_device_reserve(sr_device *device, size_t limit, const char *what, sr_address *out) {
    sr_device_range range = {
        .limit = whole_pages(limit ? limit : 1), .owner = sr_memory_owner_find(what), .handle = -1};
    sr_status status = device->ops->reserve(device, &range);
    if (status != SR_OK) {
        sr_error_prefix("%s", what);
        return status;
    }
    status = add_range(device, &range);
    if (status != SR_OK) {
        device->ops->release(device, &range);
        return status;
    }
    sr_memory_owner_add(range.owner, 0);
    *out = range.base;
    return SR_OK;
}

// With the lock held. 'bytes' is whole pages.
static sr_status commit_pages(sr_device *device, sr_device_range *range, size_t bytes) {
    const size_t before = range->committed;
    char wanted[16], limit[16];
    if (bytes <= before)
        return SR_OK;
    if (bytes > range->limit)
        return SR_FAIL(SR_E_MEMORY,
                       "device memory of %s is over the %s of this machine that are reserved for "
                       "it; lower the batch or the lanes",
                       sr_text_bytes(bytes, wanted), sr_text_bytes(range->limit, limit));
    SR_TRY(device->ops->commit(device, range, bytes));
    range->committed = bytes;
    sr_memory_owner_grow(range->owner, bytes - before);
    return SR_OK;
}

sr_status sr_device_commit(sr_device *device, sr_address memory, size_t bytes) {
    (void)pthread_mutex_lock(&device->lock);
    sr_device_range *range = range_of(device, memory);
    const sr_status status = commit_pages(device, range, whole_pages(bytes));
    if (status == SR_OK && bytes > range->bytes)
        range->bytes = bytes;
    (void)pthread_mutex_unlock(&device->lock);
    return status;
}

sr_status sr_device_alloc(sr_device *device, size_t bytes, const char *what, sr_address *out) {
    sr_address memory;
    SR_TRY(sr_device_reserve(device, bytes, what, &memory));
    const sr_status status = sr_device_commit(device, memory, bytes ? bytes : 1);
    if (status != SR_OK) {
        sr_error_prefix("%s", what);
        sr_device_free(device, memory);
        return status;
    }
    *out = memory;
    return SR_OK;
}

void sr_device_free(sr_device *device, sr_address memory) {
    if (sr_address_is_none(memory))
        return;
    (void)pthread_mutex_lock(&device->lock);
    sr_device_range *r = range_of(device, memory);
    sr_device_range range = *r;
    *r = device->ranges[--device->range_count];
    (void)pthread_mutex_unlock(&device->lock);
    sr_memory_owner_remove(range.owner, range.committed);
    device->ops->release(device, &range);
}

// ---- Copies and host memory ----

sr_status sr_device_upload(sr_device *device, sr_address to, const void *from, size_t bytes) {
    return device->ops->upload(device, NULL, to, from, bytes);
}

sr_status sr_device_download(sr_device *device, void *to, sr_address from, size_t bytes) {
    return device->ops->download(device, NULL, to, from, bytes);
}

sr_status sr_device_copy(sr_device *device, sr_address to, sr_address from, size_t bytes) {
    return device->ops->copy(device, NULL, to, from, bytes);
}

sr_status sr_device_map(sr_device *device, sr_address memory, size_t bytes, void **out) {
    if (device->properties.unified) {
        *out = (void *)memory.at;
        return SR_OK;
    }
    void *copy = sr_alloc(bytes, "host copy of device memory");
    if (!copy)
        return SR_E_MEMORY;
    const sr_status status = sr_device_download(device, copy, memory, bytes);
    if (status != SR_OK) {
        sr_free(copy);
        return status;
    }
    *out = copy;
    return SR_OK;
}

sr_status sr_device_unmap(sr_device *device, sr_address memory, size_t bytes, void *mapped,
                          bool write) {
    if (device->properties.unified || !mapped)
        return SR_OK;
    const sr_status status = write ? sr_device_upload(device, memory, mapped, bytes) : SR_OK;
    sr_free(mapped);
    return status;
}

sr_address sr_device_host_address(const sr_device *device, const void *memory) {
    const sr_address address = {(uintptr_t)memory};
    return device->properties.unified ? address : sr_address_none();
}

sr_status sr_device_register_host(sr_device *device, void *memory, size_t bytes) {
    return device->ops->register_host ? device->ops->register_host(device, memory, bytes) : SR_OK;
}

void sr_device_unregister_host(sr_device *device, void *memory) {
    if (device->ops->unregister_host)
        device->ops->unregister_host(device, memory);
}
