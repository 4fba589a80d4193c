// SPDX-License-Identifier: Apache-2.0
// The numerics fingerprint of this process, and the check that all ranks have the same one
// (fingerprint.h).
#include "trainer/engine/fingerprint.h"

#include <stdio.h>
#include <string.h>

#include "dataio/pipeline/data_numerics.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "kernels/kernel.h"
#include "trainer/engine/plugins.h"

// With portable numerics only kernels of class "reference" are used, those of plug-ins included;
// plug-ins have kernels for CPUs only.
static uint32_t deciding_features(const sr_device_properties *device) {
    if (sr_kernels_portable())
        return 0;
    return sr_providers_features(device->kind) |
           (device->kind == SR_DEVICE_CPU ? sr_plugins_features() : 0);
}

// Whether a provider's kernels have bits of their own. With portable numerics, the kernels that run
// have the bits of the reference, which is the first provider, on every kind of device.
static bool has_own_bits(const sr_provider *provider, const sr_device_properties *device) {
    return sr_provider_is_for(provider, device->kind) &&
           (!sr_kernels_portable() || strcmp(provider->name, SR_KERNEL_REFERENCE) == 0);
}

// Processors have no kernels for it.
static bool takes_tf32(const sr_device_properties *device) {
    return sr_kernels_tf32() && device->kind != SR_DEVICE_CPU;
}

char *sr_fingerprint(const sr_device_properties *device, char out[SR_FINGERPRINT_BYTES]) {
    char own[SR_DEVICE_TEXT] = "processor any", provider[SR_PROVIDER_TEXT],
         data[SR_DATA_NUMERICS_TEXT];
    size_t count, used;
    const sr_provider *const *providers = sr_providers(&count);
    if (!sr_kernels_portable())
        (void)sr_device_numerics(device, sr_device_features(device) & deciding_features(device),
                                 own);
    used = (size_t)snprintf(out, SR_FINGERPRINT_BYTES, "serried-numerics %d; %s",
                            SR_NUMERICS_VERSION, own);
    for (size_t i = 0; i < count && used < SR_FINGERPRINT_BYTES; i++)
        if (has_own_bits(providers[i], device))
            used += (size_t)snprintf(out + used, SR_FINGERPRINT_BYTES - used, "; %s",
                                     sr_provider_numerics(providers[i], provider));
    if (used < SR_FINGERPRINT_BYTES && takes_tf32(device))
        used += (size_t)snprintf(out + used, SR_FINGERPRINT_BYTES - used, "; tf32 on");
    if (used < SR_FINGERPRINT_BYTES)
        (void)snprintf(out + used, SR_FINGERPRINT_BYTES - used, "; %s", sr_data_numerics(data));
    return out;
}

// ---- Differences ----

// A component; name_bytes is 0 after the last one.
typedef struct component {
    const char *name, *what;
    int name_bytes, what_bytes;
} component;

// Parses the component at *text and advances *text to the next one.
static component next_component(const char **text) {
    const size_t n = strcspn(*text, ";"), name = strcspn(*text, " ;");
    const size_t gap = name < n ? name + 1 : name;
    component c = {*text, *text + gap, (int)name, (int)(n - gap)};
    if (c.what_bytes == 0) { // of a checkpoint from before components had versions
        c.what = "1";
        c.what_bytes = 1;
    }
    *text += n;
    *text += strspn(*text, "; ");
    return c;
}

static component find_component(const char *text, const component *wanted) {
    component c = next_component(&text);
    while (c.name_bytes > 0 && (c.name_bytes != wanted->name_bytes ||
                                memcmp(c.name, wanted->name, (size_t)c.name_bytes) != 0))
        c = next_component(&text);
    return c;
}

static void add_side(sr_text *out, const component *c, const char *origin) {
    sr_text_add(out, "%.*s %s", c->name_bytes ? c->what_bytes : 7,
                c->name_bytes ? c->what : "nothing", origin);
}

static void add_row(sr_text *out, const component *a, const component *b,
                    const sr_fingerprint_origin *const origins[2]) {
    const component *named = a->name_bytes > 0 ? a : b;
    sr_text_add(out, "%s%.*s: ", out->length > 0 ? "; " : "", named->name_bytes, named->name);
    add_side(out, a, origins[0]->origin);
    sr_text_add(out, " and ");
    add_side(out, b, origins[1]->origin);
}

void sr_fingerprint_difference(const sr_fingerprint_origin *a, const sr_fingerprint_origin *b,
                               sr_text *out) {
    const sr_fingerprint_origin *const origins[2] = {a, b};
    const char *at = a->text;
    sr_text_clear(out);
    for (component c = next_component(&at); c.name_bytes > 0; c = next_component(&at)) {
        const component other = find_component(b->text, &c);
        if (other.name_bytes == 0 || other.what_bytes != c.what_bytes ||
            memcmp(other.what, c.what, (size_t)c.what_bytes) != 0)
            add_row(out, &c, &other, origins);
    }
    at = b->text;
    for (component c = next_component(&at); c.name_bytes > 0; c = next_component(&at)) {
        const component other = find_component(a->text, &c);
        if (other.name_bytes == 0)
            add_row(out, &other, &c, origins);
    }
}

// ---- Comparing ranks ----

// What a rank reports about its device.
typedef struct rank_device {
    char kernels[SR_DEVICE_TEXT]; // name of their kind
    char name[SR_DEVICE_TEXT];
    uint32_t features;
} rank_device;

static sr_status compare_kinds(const sr_comm *comm, const rank_device *all) {
    for (int r = 1; r < sr_comm_size(comm); r++) {
        if (strcmp(all[r].kernels, all[0].kernels) != 0) {
            return SR_FAIL(SR_E_NUMERICS,
                           "rank %d (%s) computes on device '%s', but rank 0 (%s) on '%s', and "
                           "their bits differ; 'serried doctor' on each host shows why: make the "
                           "device usable on all, or give device=cpu",
                           r, sr_comm_peer_name(comm, r), all[r].name, sr_comm_peer_name(comm, 0),
                           all[0].name);
        }
    }
    return SR_OK;
}

// Messages name features as the fingerprint does: "processor avx2" -> "processor", "avx2".
static const char *what_of(char *numerics) {
    char *space = strchr(numerics, ' ');
    if (!space)
        return "";
    *space = '\0';
    return space + 1;
}

static sr_status agree_on_features(const sr_comm *comm, const sr_device_properties *device,
                                   bool strict, const rank_device *all) {
    char first[SR_DEVICE_TEXT], there[SR_DEVICE_TEXT], common_text[SR_DEVICE_TEXT];
    int ranks = sr_comm_size(comm), other = 0;
    uint32_t common = all[0].features;
    for (int r = 1; r < ranks; r++) {
        common &= all[r].features;
        if (other == 0 && all[r].features != all[0].features)
            other = r;
    }
    if (other == 0)
        return SR_OK;
    const char *here = what_of(sr_device_numerics(device, all[0].features, first));
    const char *elsewhere = what_of(sr_device_numerics(device, all[other].features, there));
    if (strict) {
        return SR_FAIL(SR_E_NUMERICS,
                       "rank %d (%s) has %s features '%s', rank 0 (%s) '%s', and "
                       "numerics.strict is set; use identical hosts or remove it",
                       other, sr_comm_peer_name(comm, other), first, elsewhere,
                       sr_comm_peer_name(comm, 0), here);
    }
    sr_device_restrict(device, common | ~deciding_features(device));
    if (sr_comm_rank(comm) == 0)
        SR_INFO("%ss differ (rank %d has '%s', rank 0 '%s'): all ranks use only '%s'", first, other,
                elsewhere, here, what_of(sr_device_numerics(device, common, common_text)));
    return SR_OK;
}

static sr_status agree_on_devices(sr_comm *comm, const sr_device_properties *device, bool strict,
                                  rank_device *all) {
    rank_device mine = {.features = sr_device_features(device) & deciding_features(device)};
    (void)snprintf(mine.kernels, sizeof mine.kernels, "%s", sr_device_kind_name(device->kind));
    (void)snprintf(mine.name, sizeof mine.name, "%s", device->name);
    SR_TRY(sr_comm_all_gather(comm, &mine, sizeof mine, all, "devices of all ranks"));
    SR_TRY(compare_kinds(comm, all));
    return agree_on_features(comm, device, strict, all);
}

static sr_status differs(const sr_comm *comm, int rank, const char *there, const char *first) {
    sr_text text;
    sr_text_init(&text);
    sr_fingerprint_difference(&(sr_fingerprint_origin){there, "there"},
                              &(sr_fingerprint_origin){first, "on rank 0"}, &text);
    const sr_status status =
        SR_FAIL(SR_E_NUMERICS,
                "rank %d (%s) computes different bits from rank 0: %s; install the same build and "
                "libraries on all hosts, or leave out the kernels that differ "
                "(SERRIED_PROVIDERS=reference,x86)",
                rank, sr_comm_peer_name(comm, rank), text.data);
    sr_text_release(&text);
    return status;
}

static sr_status compare_fingerprints(sr_comm *comm, const sr_device_properties *device,
                                      char (*all)[SR_FINGERPRINT_BYTES]) {
    char mine[SR_FINGERPRINT_BYTES] = "";
    sr_fingerprint(device, mine);
    SR_TRY(sr_comm_all_gather(comm, mine, sizeof mine, all, "fingerprints of all ranks"));
    for (int r = 1; r < sr_comm_size(comm); r++)
        if (strncmp(all[r], all[0], SR_FINGERPRINT_BYTES) != 0)
            return differs(comm, r, all[r], all[0]);
    return SR_OK;
}

sr_status sr_fingerprint_agree(sr_comm *comm, const sr_device_properties *device, bool strict) {
    size_t ranks = (size_t)sr_comm_size(comm);
    rank_device *devices = sr_alloc_array(ranks, sizeof *devices, "devices of ranks");
    char(*texts)[SR_FINGERPRINT_BYTES] = sr_alloc_array(ranks, sizeof *texts, "fingerprints");
    sr_status status = devices && texts ? SR_OK : SR_E_MEMORY;
    if (status == SR_OK)
        status = agree_on_devices(comm, device, strict, devices);
    if (status == SR_OK)
        status = compare_fingerprints(comm, device, texts);
    sr_free(devices);
    sr_free(texts);
    return status;
}
