// SPDX-License-Identifier: Apache-2.0
// Prints digests of what serried computes here, which check_numerics.py compares with the table.
//
//   numerics_digests features                    the processor features that decide, of this mask
//   numerics_digests PART...                     reference, providers, networks, portable, data
//
// SERRIED_CPU_MASK and SERRIED_PROVIDERS select what computes.
#include "tests/numerics/numerics_digests.h"

#include <stdio.h>
#include <string.h>

#include "kernels/base/cpuid.h"
#include "kernels/kernel.h"

static void print_features(void) {
    char text[80];
    (void)puts(
        sr_cpu_features_text(sr_cpu_features() & sr_providers_features(SR_DEVICE_CPU), text));
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*print)(void);
    } parts[] = {
        {"features", print_features},        {"reference", digests_of_reference},
        {"providers", digests_of_providers}, {"networks", digests_of_networks},
        {"portable", digests_of_portable},   {"data", digests_of_data},
    };
    sr_kernels_thread_init();
    for (int i = 1; i < argc; i++) {
        size_t k = 0;
        while (k < sizeof parts / sizeof parts[0] && strcmp(parts[k].name, argv[i]) != 0)
            k++;
        if (k == sizeof parts / sizeof parts[0]) {
            (void)fprintf(stderr, "numerics_digests: no part '%s'\n", argv[i]);
            return 2;
        }
        parts[k].print();
    }
    return 0;
}
