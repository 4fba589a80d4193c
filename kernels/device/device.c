// SPDX-License-Identifier: Apache-2.0
// Opening devices by name, the list of their memory, and calls that go through their tables.
#include "kernels/device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "kernels/base/memory_owners.h"
#include "kernels/base/text.h"
#include "kernels/device/device_internal.h"
#include "kernels/device/module.h"

#define PAGE 4096

// ---- Names ----

static pthread_once_t default_once = PTHREAD_ONCE_INIT;
static const char *default_device = "cpu";

// The error for device 'name' of a kind that cannot be used; the last message gives the reason.
static sr_status fail_unusable(const char *name, sr_status status) {
    if (status == SR_E_MEMORY || status == SR_E_DEVICE_MEMORY)
        return status;
    return SR_FAIL(SR_E_USAGE, "device '%s' cannot be used: %s, or give device=cpu", name,
                   sr_error_message());
}

static sr_status find_kind(const char *name, const char *kind, sr_device_properties *out) {
    out->ops = sr_device_find_kind(kind, &out->kind);
    if (out->ops)
        return SR_OK;
    const sr_status status = sr_module_open(kind);
    if (status == SR_OK)
        out->ops = sr_device_find_kind(kind, &out->kind);
    if (out->ops)
        return SR_OK;
    const bool known = sr_module_is_listed(kind) || sr_module_is_installed(kind);
    return known && status != SR_OK ? fail_unusable(name, status) : sr_device_fail_unknown(kind);
}

static sr_status count_of(const sr_device_properties *p, int *out) {
    *out = 1;
    const sr_status status = p->ops->count ? p->ops->count(out) : SR_OK;
    return status == SR_OK ? SR_OK : fail_unusable(p->name, status);
}

// Chooses the first module of the list that is installed, if its devices can be used.
static void find_default(void) {
    for (size_t i = 0; sr_module_listed(i); i++) {
        sr_device_properties p;
        const char *name = sr_module_listed(i);
        if (!sr_module_is_installed(name))
            continue;
        if (sr_device_describe(name, &p) == SR_OK) {
            default_device = name;
            return;
        }
        SR_WARN("computing on the CPU: %s", sr_error_message());
    }
}

static const char *name_of(const char *given) {
    const char *name = given ? given : getenv("SERRIED_TEST_DEVICE");
    if (name && *name)
        return name;
    (void)pthread_once(&default_once, find_default);
    return default_device;
}

// Finds the table that a name selects, the number after ':' (-1 if there is none), and the number
// of its devices. Fills 'ops', 'kind' and 'name'.
static sr_status select_kind(const char *given, sr_device_properties *out, int *number,
                             int *count) {
    char kind[SR_DEVICE_TEXT], rest;
    const char *name = name_of(given);
    const char *colon = strchr(name, ':');
    const int length = colon ? (int)(colon - name) : (int)strlen(name);
    *out = (sr_device_properties){0};
    (void)snprintf(out->name, sizeof out->name, "%s", name);
    (void)snprintf(kind, sizeof kind, "%.*s", length, name);
    SR_TRY(find_kind(name, kind, out));
    *number = -1;
    if (colon && (sscanf(colon + 1, "%d%c", number, &rest) != 1 || *number < 0))
        return SR_FAIL(SR_E_USAGE,
                       "device '%s': what follows ':' is the number of a device, 0, 1, "
                       "...",
                       name);
    return count_of(out, count);
}

sr_status sr_device_count(const char *name, int *out) {
    sr_device_properties p;
    int number, count = 0;
    SR_TRY(select_kind(name, &p, &number, &count));
    *out = number >= 0 ? 1 : count;
    return SR_OK;
}

sr_status sr_device_describe(const char *name, sr_device_properties *out) {
    sr_device_properties p;
    int number, count = 0;
    SR_TRY(select_kind(name, &p, &number, &count));
    if (number >= count)
        return SR_FAIL(SR_E_USAGE,
                       "device '%s': this machine has %d device%s '%s', from number 0 on", p.name,
                       count, count == 1 ? "" : "s", p.ops->name);
    p.ordinal = number < 0 ? 0 : number;
    p.count = count;
    p.help = p.ops->help;
    (void)snprintf(p.memory_owner, sizeof p.memory_owner, "device %.64s", p.name);
    const sr_status status = p.ops->describe(p.ordinal, &p);
    if (status != SR_OK)
        return fail_unusable(p.name, status);
    *out = p;
    return SR_OK;
}

// ---- Kinds ----

typedef struct kind_visit {
    void (*visit)(void *user, const char *name);
    void *user;
} kind_visit;

static void visit_module(void *user, const char *name) {
    const kind_visit *v = user;
    sr_device_kind kind;
    if (!sr_device_find_kind(name, &kind))
        v->visit(v->user, name);
}

void sr_device_visit_kinds(void (*visit)(void *user, const char *name), void *user) {
    kind_visit v = {visit, user};
    const sr_device_ops *ops;
    for (size_t i = 0; (ops = sr_device_kind_at(i)) != NULL; i++)
        visit(user, ops->name);
    sr_module_visit(visit_module, &v);
}

uint32_t sr_device_features(const sr_device_properties *device) {
    return device->ops->features ? device->ops->features(device->ordinal) : 0;
}

void sr_device_restrict(const sr_device_properties *device, uint32_t keep) {
    if (device->ops->restrict_features)
        device->ops->restrict_features(keep);
}

char *sr_device_numerics(const sr_device_properties *device, uint32_t features,
                         char out[SR_DEVICE_TEXT]) {
    return device->ops->numerics(device->ordinal, features, out);
}

char *sr_device_identity(const sr_device_properties *device, char out[SR_DEVICE_IDENTITY]) {
    return device->ops->identity(device->ordinal, out);
}

char *sr_device_details(const sr_device_properties *device, char out[SR_DEVICE_IDENTITY]) {
    out[0] = '\0';
    return device->ops->details ? device->ops->details(device->ordinal, out) : out;
}

// ---- Opening ----

sr_status sr_device_open(const char *name, sr_device **out) {
    sr_device_properties properties = {0};
    SR_TRY(sr_device_describe(name, &properties));
    sr_device *device = sr_alloc(sizeof *device, "device");
    if (!device)
        return SR_E_MEMORY;
    device->ops = properties.ops;
    device->properties = properties;
    (void)pthread_mutex_init(&device->lock, NULL);
    const sr_status status = device->ops->open ? device->ops->open(device) : SR_OK;
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

// The range that contains an address, or NULL. Called with the lock held.
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

static sr_status reserve(sr_device *device, size_t limit, bool sparse, const char *what,
                         sr_address *out) {
    sr_device_range range = {.limit = whole_pages(limit ? limit : 1),
                             .owner = sr_memory_owner_find(what),
                             .handle = -1,
                             .sparse = sparse};
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

sr_status sr_device_reserve(sr_device *device, size_t limit, const char *what, sr_address *out) {
    return reserve(device, limit, false, what, out);
}

// Called with the lock held. 'bytes' is a multiple of the page size.
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

static sr_status alloc(sr_device *device, size_t bytes, bool sparse, const char *what,
                       sr_address *out) {
    sr_address memory;
    SR_TRY(reserve(device, bytes, sparse, what, &memory));
    const sr_status status = sr_device_commit(device, memory, bytes ? bytes : 1);
    if (status != SR_OK) {
        sr_error_prefix("%s", what);
        sr_device_free(device, memory);
        return status;
    }
    *out = memory;
    return SR_OK;
}

sr_status sr_device_alloc(sr_device *device, size_t bytes, const char *what, sr_address *out) {
    return alloc(device, bytes, false, what, out);
}

sr_status sr_device_alloc_sparse(sr_device *device, size_t bytes, const char *what,
                                 sr_address *out) {
    return alloc(device, bytes, true, what, out);
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

bool sr_device_get_memory(sr_device *device, sr_device_memory *out) {
    return device->ops->get_memory && device->ops->get_memory(device, out);
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

sr_status sr_device_repeat(sr_device *device, sr_address memory, size_t unit, size_t bytes) {
    for (size_t filled = unit; filled < bytes; filled *= 2) {
        const size_t more = filled < bytes - filled ? filled : bytes - filled;
        SR_TRY(sr_device_copy(device, sr_address_add(memory, filled), memory, more));
    }
    return SR_OK;
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
