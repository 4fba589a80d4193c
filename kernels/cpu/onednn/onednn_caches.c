// SPDX-License-Identifier: Apache-2.0
// The cache sizes that oneDNN uses.
//
// oneDNN 2.6 chooses blocks, loop orders and the number of partial sums of its convolutions and
// products by the size of the first three data caches for each core (platform.cpp,
// get_per_core_cache_size), so its bits may depend on them. It reads them with Xbyak's
// setCacheHierarchy, which only supports Intel processors: leaf 4 of CPUID, divided by the threads
// of leaf 0xB. On others it uses constants, whatever their caches. The same is done here, including
// its narrow bit fields, as the library has no function for it: the sizes are part of the
// fingerprint (trainer/engine/fingerprint.h). serried's own kernels do not use cache sizes.
#include <string.h>

#include "kernels/cpu/onednn/onednn_internal.h"

#if defined(__x86_64__)
#include <cpuid.h>

static void read_leaf(uint32_t leaf, uint32_t subleaf, uint32_t out[4]) {
    __cpuid_count(leaf, subleaf, out[0], out[1], out[2], out[3]);
}
#else
static void read_leaf(uint32_t leaf, uint32_t subleaf, uint32_t out[4]) {
    (void)leaf, (void)subleaf;
    memset(out, 0, 4 * sizeof out[0]);
}
#endif

// Bits [begin, end).
static uint32_t bits(uint32_t value, int begin, int end) {
    return value >> begin & ((1u << (end - begin)) - 1);
}

// Logical processors of a core and of a package; zeros without leaf 0xB.
static void read_topology(sr_onednn_cpuid read, uint32_t highest, uint32_t *core,
                          uint32_t *package) {
    uint32_t r[4], threads[2] = {0, 0};
    for (uint32_t i = 0; highest >= 0xb && i < 2; i++) {
        read(0xb, i, r);
        const uint32_t level = bits(r[2], 8, 15);
        if (level == 1 || level == 2)
            threads[level - 1] = bits(r[1], 0, 15);
    }
    if (highest >= 0xb && threads[0] < 1)
        threads[0] = 1;
    if (highest >= 0xb && threads[1] < threads[0])
        threads[1] = threads[0];
    *core = threads[0];
    *package = threads[1];
}

bool sr_onednn_read_caches(sr_onednn_cpuid read, uint32_t bytes[SR_ONEDNN_CACHES]) {
    uint32_t r[4], core, package;
    read(0, 0, r);
    if (memcmp(&r[1], "Genu", 4) != 0 || memcmp(&r[2], "ntel", 4) != 0)
        return false;
    read_topology(read, r[0], &core, &package);
    memset(bytes, 0, SR_ONEDNN_CACHES * sizeof bytes[0]);
    for (uint32_t i = 0, level = 0; level < SR_ONEDNN_CACHES; i++) {
        read(4, i, r);
        const uint32_t kind = bits(r[0], 0, 4);
        if (kind == 0)
            break;
        if (kind != 1 && kind != 3) // neither data nor unified
            continue;
        uint32_t sharing = bits(r[0], 14, 25) + 1;
        if (package != 0 && sharing > package)
            sharing = package;
        if (core == 0)
            core = sharing; // of the first level, which is not shared
        const uint32_t cores = sharing / core;
        bytes[level++] = (bits(r[1], 22, 31) + 1) * (bits(r[1], 12, 21) + 1) *
                         (bits(r[1], 0, 11) + 1) * (r[2] + 1) / (cores > 1 ? cores : 1);
    }
    return true;
}

bool sr_onednn_caches(uint32_t bytes[SR_ONEDNN_CACHES]) {
    return sr_onednn_read_caches(read_leaf, bytes);
}
