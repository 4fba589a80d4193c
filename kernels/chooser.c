// SPDX-License-Identifier: Apache-2.0
// Choosing among candidates (chooser.h): by the cache, or by timing them.
//
// Kernels of plug-ins (SR_KERNEL_OWN), whose argument sizes are unknown, keep their default. A race
// prepares kernels that may prepare others (oneDNN's casts): those use their default, too.
#include "kernels/chooser.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "kernels/base/clock.h"
#include "kernels/base/log.h"
#include "kernels/chooser_internal.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sr_chooser_cache cache;      // this and the following under the lock
static sr_device_properties device; // the device whose kernels are chosen
static size_t workspace_limit;
static sr_chooser_stats stats, reported; // reported: at the last message
static atomic_bool on;
static _Thread_local bool racing;

void sr_chooser_use(const sr_chooser_options *options) {
    sr_chooser_cache fresh;
    sr_device_properties now;
    if (!options->on || sr_device_describe(options->device, &now) != SR_OK) {
        atomic_store_explicit(&on, false, memory_order_release);
        return;
    }
    (void)pthread_mutex_lock(&lock);
    device = now;
    workspace_limit = options->workspace ? options->workspace : SR_CHOOSER_WORKSPACE;
    bool ready = sr_chooser_cache_init(&fresh, &device, options->numerics) == SR_OK;
    if (ready && cache.path && fresh.path && strcmp(cache.path, fresh.path) == 0) {
        sr_chooser_cache_release(&fresh);
    } else if (ready) {
        sr_chooser_cache_release(&cache);
        cache = fresh;
    }
    atomic_store_explicit(&on, ready, memory_order_release);
    (void)pthread_mutex_unlock(&lock);
}

// ---- candidates ----

static int add(const sr_kernel_entry *entry, int count, sr_chooser_candidate *out) {
    for (int v = 0; count < SR_CHOOSER_MAX_CANDIDATES && sr_kernel_variant(entry, v) != NULL; v++)
        out[count++] = (sr_chooser_candidate){entry, v};
    return count;
}

int sr_chooser_candidates(const sr_kernel_request *request, const sr_kernel_entry *entry,
                          sr_chooser_candidate *out) {
    size_t providers;
    const sr_provider *const *provider = sr_providers(&providers);
    int count = add(entry, 0, out);
    for (size_t i = 0; i < providers; i++) {
        for (size_t k = 0;
             sr_provider_is_for(provider[i], request->device) && k < provider[i]->count; k++) {
            const sr_kernel_entry *other = &provider[i]->entries[k];
            if (other != entry && other->kernel == entry->kernel &&
                strcmp(other->numerics_class, entry->numerics_class) == 0 &&
                sr_kernel_serves(other, request))
                count = add(other, count, out);
        }
    }
    return count;
}

// Random numbers would be wrong labels, keys and indices.
static bool only_numbers(const sr_kernel_request *request) {
    for (int i = 0; i < request->args; i++)
        if (request->dtype[i] != SR_DTYPE_COUNT && !sr_dtype_is_float(request->dtype[i]))
            return false;
    return true;
}

// Whether the provider of the default offers a choice. An earlier provider's kernel of the same
// bits is no reason for a race: it was replaced because it is slower.
static bool worth_a_race(const sr_chooser_candidate *candidates, int count) {
    for (int i = 1; i < count; i++)
        if (strcmp(candidates[i].entry->provider, candidates[0].entry->provider) == 0)
            return true;
    return false;
}

// ---- choosing ----

static bool is_named(const sr_chooser_candidate *c, const sr_chooser_entry *item) {
    return strcmp(c->entry->name, item->chosen) == 0 &&
           strcmp(sr_kernel_variant(c->entry, c->variant), item->variant) == 0;
}

// The candidate that an entry names, or -1.
static int candidate_of(const sr_chooser_entry *item, const sr_chooser_candidate *candidates,
                        int count) {
    for (int i = 0; item != NULL && i < count; i++)
        if (is_named(&candidates[i], item))
            return i;
    return -1;
}

static int time_anew(const sr_kernel_request *request, const sr_chooser_candidate *candidates,
                     int count, sr_chooser_entry *item) {
    sr_chooser_result result;
    const int64_t start = sr_clock_ns();
    racing = true;
    const sr_status status =
        sr_chooser_race(device.name, request, candidates, count, workspace_limit, &result);
    racing = false;
    stats.ns += (uint64_t)(sr_clock_ns() - start);
    if (status != SR_OK) {
        SR_DEBUG("%s was not timed: %s", candidates[0].entry->name, sr_error_message());
        return 0;
    }
    stats.timed++;
    const sr_chooser_candidate *winner = &candidates[result.winner];
    const char *variant = sr_kernel_variant(winner->entry, winner->variant);
    item->ns = result.ns;
    item->default_ns = result.default_ns;
    if (strlen(winner->entry->name) < sizeof item->chosen &&
        strlen(variant) < sizeof item->variant) {
        memcpy(item->chosen, winner->entry->name, strlen(winner->entry->name));
        memcpy(item->variant, variant, strlen(variant));
        sr_chooser_cache_add(&cache, item);
    }
    return result.winner;
}

void sr_chooser_choose(const sr_kernel_request *request, const sr_kernel_entry **entry,
                       int *variant) {
    sr_chooser_candidate candidates[SR_CHOOSER_MAX_CANDIDATES];
    sr_chooser_entry item;
    if (!atomic_load_explicit(&on, memory_order_acquire) || racing ||
        request->kernel == SR_KERNEL_OWN || !only_numbers(request))
        return;
    const int count = sr_chooser_candidates(request, *entry, candidates);
    if (count < 2 || !worth_a_race(candidates, count))
        return;
    (void)pthread_mutex_lock(&lock);
    if (request->device != device.kind) {
        (void)pthread_mutex_unlock(&lock);
        return;
    }
    sr_chooser_question(request, workspace_limit, &item);
    int taken = candidate_of(sr_chooser_cache_find(&cache, &item), candidates, count);
    if (taken >= 0)
        stats.found++;
    else
        taken = time_anew(request, candidates, count, &item);
    (void)pthread_mutex_unlock(&lock);
    *entry = candidates[taken].entry;
    *variant = candidates[taken].variant;
}

// Reports why the first step took longer, once for each plan.
static void report(void) {
    if (stats.timed > reported.timed) {
        SR_INFO("%llu kernel%s timed in %.1f s to choose the fastest of those with the same bits; "
                "'serried info chooser' lists them",
                (unsigned long long)(stats.timed - reported.timed),
                stats.timed - reported.timed == 1 ? " was" : "s were",
                (double)(stats.ns - reported.ns) / (double)SR_NS_PER_S);
    }
    reported = stats;
}

void sr_chooser_save(void) {
    (void)pthread_mutex_lock(&lock);
    report();
    sr_chooser_race_release();
    if (cache.changed)
        sr_chooser_cache_save(&cache);
    (void)pthread_mutex_unlock(&lock);
}

// ---- listing ----

sr_chooser_stats sr_chooser_get_stats(void) {
    (void)pthread_mutex_lock(&lock);
    const sr_chooser_stats now = stats;
    (void)pthread_mutex_unlock(&lock);
    return now;
}

const char *sr_chooser_folder(void) {
    return cache.folder;
}

const char *sr_chooser_file(void) {
    return cache.path;
}

void sr_chooser_visit(void (*visit)(void *user, const sr_chooser_choice *choice), void *user) {
    const sr_chooser_entry nothing = {0};
    (void)pthread_mutex_lock(&lock);
    (void)sr_chooser_cache_find(&cache, &nothing); // reads the file
    for (size_t i = 0; i < cache.count; i++) {
        const sr_chooser_entry *r = &cache.entries[i];
        const sr_chooser_choice choice = {.kernel = r->kernel,
                                          .dtype = r->dtype,
                                          .args = r->args,
                                          .params = r->params,
                                          .entry = r->chosen,
                                          .variant = r->variant,
                                          .seconds = (double)r->ns / (double)SR_NS_PER_S,
                                          .default_seconds =
                                              (double)r->default_ns / (double)SR_NS_PER_S};
        visit(user, &choice);
    }
    (void)pthread_mutex_unlock(&lock);
}
