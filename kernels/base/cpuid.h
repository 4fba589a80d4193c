// SPDX-License-Identifier: Apache-2.0
// Processor features that kernels dispatch on, and the mask by which ranks agree on a common set.
#ifndef SR_KERNELS_BASE_CPUID_H
#define SR_KERNELS_BASE_CPUID_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SR_CPU_AVX2 = 1u << 0,     // with FMA and F16C
    SR_CPU_AVX512 = 1u << 1,   // F, BW, DQ, VL
    SR_CPU_VNNI = 1u << 2,     // AVX512-VNNI
    SR_CPU_BF16 = 1u << 3,     // AVX512-BF16
    SR_CPU_FP16 = 1u << 4,     // AVX512-FP16
    SR_CPU_AMX_BF16 = 1u << 5, // tiles, with the kernel's permission
    SR_CPU_AMX_INT8 = 1u << 6,
    SR_CPU_BF16_DOT =
        1u << 7, // AVX512-BF16 products as fast as fp32 multiply-adds: AMD's processors
};

// Features of this processor and kernel, without those that SERRIED_CPU_MASK (a comma-separated
// list of names, read once) or sr_cpu_restrict removes.
uint32_t sr_cpu_features(void);
// Keeps only these features from now on; called before any kernel is chosen.
void sr_cpu_restrict(uint32_t keep);
// "avx2 avx512 vnni" into out (at least 80 bytes); returns out.
char *sr_cpu_features_text(uint32_t features, char *out);
// Brand string of the processor, as in /proc/cpuinfo. Static storage.
const char *sr_cpu_model(void);

#ifdef __cplusplus
}
#endif
#endif
