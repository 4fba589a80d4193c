// SPDX-License-Identifier: Apache-2.0
// Selects the inner loops of resizing for an x86-64 processor.
#include "dataio/image/resample_rows_internal.h"
#include "kernels/base/cpuid.h"

int sr_resample_sets(const sr_resample_set *out[SR_RESAMPLE_MOST_SETS]) {
    int count = 0;
    out[count++] = &sr_resample_plain;
    out[count++] = &sr_resample_sse2;
    if (sr_cpu_features() & SR_CPU_AVX2)
        out[count++] = &sr_resample_avx2;
    if (sr_cpu_features() & SR_CPU_AVX512)
        out[count++] = &sr_resample_avx512;
    return count;
}
