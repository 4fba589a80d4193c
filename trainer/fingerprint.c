// SPDX-License-Identifier: Apache-2.0
// The numerics fingerprint of this process, and ranks' agreement on one (fingerprint.h).
#include "trainer/fingerprint.h"

#include <stdio.h>
#include <string.h>

#include "kernels/base/cpuid.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "kernels/kernel.h"

char *sr_fingerprint(char out[SR_FINGERPRINT_BYTES]) {
    char features[80];
    size_t count, used;
    const sr_provider *const *providers = sr_providers(&count);
    used = (size_t)snprintf(out, SR_FINGERPRINT_BYTES, "serried-numerics %d; %s",
                            SR_NUMERICS_VERSION, sr_cpu_features_text(sr_cpu_features(), features));
    for (size_t i = 0; i < count && used < SR_FINGERPRINT_BYTES; i++)
        used +=
            (size_t)snprintf(out + used, SR_FINGERPRINT_BYTES - used, "; %s",
                             providers[i]->version ? providers[i]->version() : providers[i]->name);
    return out;
}

static sr_status agree_on_features(sr_comm *comm, bool strict, uint32_t *all) {
    char here[80], there[80], common_text[80];
    int ranks = sr_comm_size(comm), other = 0;
    uint32_t mine = sr_cpu_features();
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
                       "numerics.strict is set; use equal hosts or leave it out",
                       other, sr_comm_peer_name(comm, other), there, sr_comm_peer_name(comm, 0),
                       here);
    }
    sr_cpu_restrict(common);
    if (sr_comm_rank(comm) == 0)
        SR_INFO("processors differ (rank %d has '%s', rank 0 '%s'): all keep to '%s'", other, there,
                here, sr_cpu_features_text(common, common_text));
    return SR_OK;
}

static sr_status compare_fingerprints(sr_comm *comm, char (*all)[SR_FINGERPRINT_BYTES]) {
    char mine[SR_FINGERPRINT_BYTES] = "";
    sr_fingerprint(mine);
    SR_TRY(sr_comm_all_gather(comm, mine, sizeof mine, all, "fingerprints of all ranks"));
    for (int r = 1; r < sr_comm_size(comm); r++) {
        if (strncmp(all[r], all[0], SR_FINGERPRINT_BYTES) != 0) {
            return SR_FAIL(SR_E_NUMERICS,
                           "rank %d (%s) computes by '%.250s', rank 0 by '%.250s': the bits would "
                           "differ; install the same build and libraries on all hosts",
                           r, sr_comm_peer_name(comm, r), all[r], all[0]);
        }
    }
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
