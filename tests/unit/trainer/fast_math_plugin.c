// SPDX-License-Identifier: Apache-2.0
// A plug-in that is linked with -ffast-math (tests/CMakeLists.txt): loading it disables subnormal
// numbers in the loading thread, as gcc's crtfastm.o does. The constructor does the same for
// linkers that leave that file out of shared libraries.
#include "kernels/base/plugin.h"

#if defined(__x86_64__)
__attribute__((constructor)) static void turn_off_subnormal_numbers(void) {
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040u); // FTZ and DAZ
}
#endif

static const sr_plugin plugin = {SR_PLUGIN_HEAD, .name = "fast-math"};

const sr_plugin *sr_plugin_entry(void) {
    return &plugin;
}
