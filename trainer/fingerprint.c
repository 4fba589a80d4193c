// SPDX-License-Identifier: Apache-2.0
// The numerics fingerprint of this process (fingerprint.h).
#include "trainer/fingerprint.h"

#include <stdio.h>
#include <string.h>

#include "kernels/base/cpuid.h"
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
