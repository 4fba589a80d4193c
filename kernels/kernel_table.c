// SPDX-License-Identifier: Apache-2.0
// The kernel table: finding the entry that serves a request, preparing it, running it whole on one
// thread. Lookups are linear scans over a few dozen rows: they happen when plans are made, never in
// a step.
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "kernels/kernel.h"

static const char *const names[] = {
#define SR_KERNEL(id, params, doc, ...) #id,
#include "kernels/kernel_list.def"
#undef SR_KERNEL
};

static const char *const docs[] = {
#define SR_KERNEL(id, params, doc, ...) doc,
#include "kernels/kernel_list.def"
#undef SR_KERNEL
};

static atomic_bool portable;

void sr_kernels_use_portable(bool on) {
    atomic_store_explicit(&portable, on, memory_order_relaxed);
}

bool sr_kernels_portable(void) {
    return atomic_load_explicit(&portable, memory_order_relaxed);
}

static atomic_bool tf32;

void sr_kernels_use_tf32(bool on) {
    atomic_store_explicit(&tf32, on, memory_order_relaxed);
}

bool sr_kernels_tf32(void) {
    return atomic_load_explicit(&tf32, memory_order_relaxed);
}

bool sr_kernel_is_reference(const sr_kernel_entry *entry) {
    return strcmp(entry->numerics_class, SR_KERNEL_REFERENCE) == 0;
}

bool sr_kernel_serves(const sr_kernel_entry *entry, const sr_kernel_request *request) {
    const bool lanes = entry->lanes || (request->per_lane == 0 && sr_kernel_is_reference(entry));
    const bool apart = (request->apart & ~entry->apart) == 0;
    return (request->lanes == 0 || (lanes && apart)) && entry->supports(request);
}

// The last entry that serves the request and is of class "reference", or of another.
static const sr_kernel_entry *find_among(const sr_kernel_entry *entries, size_t count,
                                         const sr_kernel_request *request, bool reference) {
    const sr_kernel_entry *found = NULL;
    for (size_t i = 0; i < count; i++)
        if (entries[i].kernel == request->kernel &&
            sr_kernel_is_reference(&entries[i]) == reference &&
            sr_kernel_serves(&entries[i], request))
            found = &entries[i];
    return found;
}

static bool known(sr_kernel_id kernel) {
    return (unsigned)kernel < (unsigned)SR_KERNEL_COUNT;
}

const char *sr_kernel_name(sr_kernel_id kernel) {
    return known(kernel) ? names[kernel] : "?";
}

const char *sr_kernel_doc(sr_kernel_id kernel) {
    return known(kernel) ? docs[kernel] : "";
}

void sr_kernels_thread_init(void) {
    size_t count;
    const sr_provider *const *providers = sr_providers(&count);
    for (size_t i = 0; i < count; i++)
        if (providers[i]->thread_init)
            providers[i]->thread_init();
}

char *sr_provider_numerics(const sr_provider *provider, char out[SR_PROVIDER_TEXT]) {
    (void)snprintf(out, SR_PROVIDER_TEXT, "%s %d%s%s", provider->name, provider->numerics,
                   provider->version ? ", " : "", provider->version ? provider->version() : "");
    return out;
}

bool sr_provider_is_for(const sr_provider *provider, sr_device_kind device) {
    const char *kernels = provider->device ? provider->device : sr_device_kind_name(SR_DEVICE_CPU);
    return strcmp(kernels, sr_device_kind_name(device)) == 0;
}

uint32_t sr_providers_features(sr_device_kind device) {
    size_t count;
    const sr_provider *const *providers = sr_providers(&count);
    uint32_t features = 0;
    for (size_t i = 0; i < count && !sr_kernels_portable(); i++) {
        if (!sr_provider_is_for(providers[i], device))
            continue;
        features |= providers[i]->features;
        for (size_t k = 0; k < providers[i]->count; k++)
            features |= providers[i]->entries[k].needs;
    }
    return features;
}

static const sr_kernel_entry *find_in(const sr_provider *provider, const sr_kernel_request *request,
                                      bool reference) {
    return sr_provider_is_for(provider, request->device)
               ? find_among(provider->entries, provider->count, request, reference)
               : NULL;
}

static const sr_kernel_entry *find_class(const sr_kernel_request *request, bool reference) {
    size_t count;
    const sr_provider *const *providers = sr_providers(&count);
    if (request->kernel == SR_KERNEL_OWN) // of a plug-in: for CPUs
        return request->device == SR_DEVICE_CPU
                   ? find_among(request->own, request->own_count, request, reference)
                   : NULL;
    const sr_kernel_entry *found = NULL;
    for (size_t i = 0; i < count; i++) {
        const sr_kernel_entry *entry = find_in(providers[i], request, reference);
        if (entry && (!found || !found->outranks || entry->outranks))
            found = entry;
    }
    return found;
}

const sr_kernel_entry *sr_kernel_find(const sr_kernel_request *request) {
    const sr_kernel_entry *entry = sr_kernels_portable() ? NULL : find_class(request, false);
    return entry ? entry : find_class(request, true);
}

const sr_kernel_entry *sr_kernel_find_in(const sr_kernel_request *request, const char *provider) {
    size_t count;
    const sr_provider *const *providers = sr_providers(&count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(providers[i]->name, provider) != 0 ||
            !sr_provider_is_for(providers[i], request->device))
            continue;
        const sr_kernel_entry *entry =
            sr_kernels_portable() ? NULL : find_in(providers[i], request, false);
        return entry ? entry : find_in(providers[i], request, true);
    }
    return NULL;
}

const char *sr_kernel_variant(const sr_kernel_entry *entry, int variant) {
    if (variant == 0)
        return "";
    for (int i = 1; entry->variants != NULL && entry->variants[i - 1] != NULL; i++)
        if (i == variant)
            return entry->variants[i - 1];
    return NULL;
}

static atomic_uint_least64_t prepared_count; // so far

sr_status sr_kernel_prepare_as(const sr_kernel_request *request, const sr_kernel_entry *entry,
                               int variant, sr_prepared *out) {
    sr_prepared prepared = {.variant = variant};
    SR_TRY(entry->prepare(request, &prepared));
    if (request->device != SR_DEVICE_CPU && !prepared.launch)
        return SR_FAIL(SR_E_INTERNAL, "kernel %s prepares no launch", entry->name);
    if (request->device == SR_DEVICE_CPU &&
        (prepared.stages < 1 || prepared.stages > SR_KERNEL_STAGES))
        return SR_FAIL(SR_E_ARGUMENT, "kernel %s prepares %d stages; 1 to %d are possible",
                       entry->name, prepared.stages, SR_KERNEL_STAGES);
    prepared.entry = entry;
    prepared.variant = variant;
    prepared.number = atomic_fetch_add_explicit(&prepared_count, 1, memory_order_relaxed) + 1;
    *out = prepared;
    return SR_OK;
}

void sr_prepared_release(sr_prepared *prepared) {
    if (prepared->state_free)
        prepared->state_free(prepared->state);
    *prepared = (sr_prepared){0};
}

sr_status sr_prepared_run(const sr_prepared *prepared, const sr_kernel_request *request,
                          void *const *p, void *workspace, void *scratch) {
    sr_kernel_args args = {
        .p = p, .params = request->params, .state = prepared->state, .workspace = workspace};
    sr_worker worker = {.index = 0, .scratch = scratch};
    for (int s = 0; s < prepared->stages; s++) {
        args.block_rows = prepared->stage[s].block_rows;
        for (int64_t block = 0; block < prepared->stage[s].blocks; block++)
            SR_TRY(prepared->stage[s].run(&args, block, &worker));
    }
    return SR_OK;
}
