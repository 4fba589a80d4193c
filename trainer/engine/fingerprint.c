// SPDX-License-Identifier: Apache-2.0
// The numerics fingerprint of this process, and the check that all ranks have the same one
// (fingerprint.h).
#include "trainer/engine/fingerprint.h"

#include <stdio.h>
#include <string.h>

#include "dataio/pipeline/data_numerics.h"
#include "kernels/base/cpuid.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "kernels/kernel.h"
#include "trainer/engine/plugins.h"

// Portable numerics take kernels of class "reference" alone, of plug-ins, too.
static uint32_t deciding_features(void) {
    return sr_kernels_portable() ? 0 : sr_providers_features() | sr_plugins_features();
}

// Whether the bits of a provider's kernels are of its own. With portable numerics those that run
// have the bits of the reference, which is the first provider.
static bool has_own_bits(const sr_provider *provider) {
    return !sr_kernels_portable() || strcmp(provider->name, SR_KERNEL_REFERENCE) == 0;
}

char *sr_fingerprint(char out[SR_FINGERPRINT_BYTES]) {
    char features[80] = "any", provider[SR_PROVIDER_TEXT], data[SR_DATA_NUMERICS_TEXT];
    const uint32_t here = sr_cpu_features() & deciding_features();
    size_t count, used;
    const sr_provider *const *providers = sr_providers(&count);
    if (!sr_kernels_portable())
        (void)snprintf(features, sizeof features, "plain");
    if (here)
        sr_cpu_features_text(here, features);
    used = (size_t)snprintf(out, SR_FINGERPRINT_BYTES, "serried-numerics %d; processor %s",
                            SR_NUMERICS_VERSION, features);
    for (size_t i = 0; i < count && used < SR_FINGERPRINT_BYTES; i++)
        if (has_own_bits(providers[i]))
            used += (size_t)snprintf(out + used, SR_FINGERPRINT_BYTES - used, "; %s",
                                     sr_provider_numerics(providers[i], provider));
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

static sr_status agree_on_features(sr_comm *comm, bool strict, uint32_t *all) {
    char here[80], there[80], common_text[80];
    int ranks = sr_comm_size(comm), other = 0;
    uint32_t mine = sr_cpu_features() & deciding_features();
    SR_TRY(sr_comm_all_gather(comm, &mine, sizeof mine, all, "processor features of all ranks"));
    uint32_t common = all[0];
    for (int r = 1; r < ranks; r++) {
        common &= all[r];
        if (other == 0 && all[r] != all[0])
            other = r;
    }
    if (other == 0)
        return SR_OK;
    sr_cpu_features_text(all[0], here);
    sr_cpu_features_text(all[other], there);
    if (strict) {
        return SR_FAIL(SR_E_NUMERICS,
                       "rank %d (%s) has processor features '%s', rank 0 (%s) '%s', and "
                       "numerics.strict is set; use identical hosts or remove it",
                       other, sr_comm_peer_name(comm, other), there, sr_comm_peer_name(comm, 0),
                       here);
    }
    sr_cpu_restrict(common | ~deciding_features());
    if (sr_comm_rank(comm) == 0)
        SR_INFO("processors differ (rank %d has '%s', rank 0 '%s'): all ranks use only '%s'", other,
                there, here, sr_cpu_features_text(common, common_text));
    return SR_OK;
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

static sr_status compare_fingerprints(sr_comm *comm, char (*all)[SR_FINGERPRINT_BYTES]) {
    char mine[SR_FINGERPRINT_BYTES] = "";
    sr_fingerprint(mine);
    SR_TRY(sr_comm_all_gather(comm, mine, sizeof mine, all, "fingerprints of all ranks"));
    for (int r = 1; r < sr_comm_size(comm); r++)
        if (strncmp(all[r], all[0], SR_FINGERPRINT_BYTES) != 0)
            return differs(comm, r, all[r], all[0]);
    return SR_OK;
}

sr_status sr_fingerprint_agree(sr_comm *comm, bool strict) {
    size_t ranks = (size_t)sr_comm_size(comm);
    uint32_t *features = sr_alloc_array(ranks, sizeof *features, "processor features");
    char(*texts)[SR_FINGERPRINT_BYTES] = sr_alloc_array(ranks, sizeof *texts, "fingerprints");
    sr_status status = features && texts ? SR_OK : SR_E_MEMORY;
    if (status == SR_OK)
        status = agree_on_features(comm, strict, features);
    if (status == SR_OK)
        status = compare_fingerprints(comm, texts);
    sr_free(features);
    sr_free(texts);
    return status;
}
