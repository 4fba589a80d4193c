// SPDX-License-Identifier: Apache-2.0
// The providers of this build in the order of provider_list.def, and those of modules behind them,
// limited to those that SERRIED_PROVIDERS names. The variable is read once, by the first call.
//
// The list only grows, and an entry is complete before it is counted, so that readers take no lock.
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/log.h"
#include "kernels/kernel.h"

#define SR_PROVIDER(name) extern const sr_provider sr_provider_##name;
#include "kernels/provider_list.def"
#undef SR_PROVIDER

static const sr_provider *const built_in[] = {
#define SR_PROVIDER(name) &sr_provider_##name,
#include "kernels/provider_list.def"
#undef SR_PROVIDER
    NULL};

enum { PROVIDERS_MAX = 32 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // of additions
static const sr_provider *chosen[PROVIDERS_MAX];
static atomic_size_t chosen_count;

static bool names_equal(const char *item, size_t length, const char *name) {
    return strlen(name) == length && memcmp(item, name, length) == 0;
}

// Whether a comma-separated list contains 'name'.
static bool listed(const char *list, const char *name) {
    for (const char *p = list; *p;) {
        const size_t length = strcspn(p, ",");
        if (names_equal(p, length, name))
            return true;
        p += length + (p[length] == ',');
    }
    return false;
}

static const char *device_of(const sr_provider *provider) {
    return provider->device ? provider->device : "cpu";
}

static bool same_device(const sr_provider *a, const sr_provider *b) {
    return strcmp(device_of(a), device_of(b)) == 0;
}

// Whether SERRIED_PROVIDERS keeps a provider of 'all' in use: it is named, or none of its kind is.
static bool is_wanted(const sr_provider *provider, const sr_provider *const *all) {
    const char *list = getenv("SERRIED_PROVIDERS");
    bool limited = false;
    for (size_t i = 0; list && all[i]; i++)
        limited = limited || (same_device(all[i], provider) && listed(list, all[i]->name));
    return !limited || listed(list, provider->name);
}

static void warn_of_unknown(const char *list) {
    for (const char *p = list; *p;) {
        const size_t length = strcspn(p, ",");
        bool known = length == 0;
        for (size_t i = 0; built_in[i]; i++)
            known = known || names_equal(p, length, built_in[i]->name);
        if (!known)
            SR_WARN("SERRIED_PROVIDERS names '%.*s', which is not a provider of this build: it has "
                    "no effect unless a module has one of this name",
                    (int)length, p);
        p += length + (p[length] == ',');
    }
}

// Appends those that are in use.
static void append(const sr_provider *const *list) {
    size_t count = atomic_load_explicit(&chosen_count, memory_order_relaxed);
    for (size_t i = 0; list[i]; i++)
        if (is_wanted(list[i], list))
            chosen[count++] = list[i];
    atomic_store_explicit(&chosen_count, count, memory_order_release);
}

static void choose(void) {
    const char *list = getenv("SERRIED_PROVIDERS");
    if (list)
        warn_of_unknown(list);
    append(built_in);
}

const sr_provider *const *sr_providers(size_t *count) {
    (void)pthread_once(&once, choose);
    *count = atomic_load_explicit(&chosen_count, memory_order_acquire);
    return chosen;
}

// ---- Providers of modules ----

static sr_status check_entries(const sr_provider *provider, const char *origin) {
    for (size_t i = 0; i < provider->count; i++) {
        const sr_kernel_entry *e = &provider->entries[i];
        if (e->abi != SR_KERNEL_ABI || e->struct_size != sizeof *e) {
            return SR_FAIL(SR_E_UNSUPPORTED,
                           "%s: kernel %zu of provider '%s' is for interface %u with %u bytes, but "
                           "this serried has interface %u with %zu; install the module of this "
                           "version",
                           origin, i, provider->name, e->abi, e->struct_size, SR_KERNEL_ABI,
                           sizeof *e);
        }
    }
    return SR_OK;
}

// With the lock held.
static sr_status check(const sr_provider *provider, const char *origin) {
    size_t count;
    const sr_provider *const *all = sr_providers(&count);
    if (provider->abi != SR_KERNEL_ABI || provider->struct_size != sizeof *provider) {
        return SR_FAIL(SR_E_UNSUPPORTED,
                       "%s: a provider for interface %u with %u bytes, but this serried has "
                       "interface %u with %zu; install the module of this version",
                       origin, provider->abi, provider->struct_size, SR_KERNEL_ABI,
                       sizeof *provider);
    }
    for (size_t i = 0; i < count; i++)
        if (same_device(all[i], provider) && strcmp(all[i]->name, provider->name) == 0)
            return SR_FAIL(SR_E_USAGE, "%s: the provider '%s' of kernels for '%s' exists already",
                           origin, provider->name, device_of(provider));
    return check_entries(provider, origin);
}

static sr_status add(const sr_provider *const *list, const char *origin) {
    size_t count, added = 0;
    (void)sr_providers(&count);
    for (; list[added]; added++)
        SR_TRY(check(list[added], origin));
    if (count + added > PROVIDERS_MAX)
        return SR_FAIL(SR_E_LIMIT, "%s: at most %d providers can be in use", origin, PROVIDERS_MAX);
    append(list);
    return SR_OK;
}

sr_status sr_providers_add(const sr_provider *const *list, const char *origin) {
    if (!list)
        return SR_OK;
    (void)pthread_mutex_lock(&lock);
    const sr_status status = add(list, origin);
    (void)pthread_mutex_unlock(&lock);
    return status;
}
