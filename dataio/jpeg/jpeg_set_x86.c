// SPDX-License-Identifier: Apache-2.0
// Selects the inner loops of decoding JPEGs for an x86-64 processor.
#include "dataio/jpeg/jpeg_set_internal.h"
#include "kernels/base/cpuid.h"

int sr_jpeg_sets(const sr_jpeg_set *out[SR_JPEG_MOST_SETS]) {
    int count = 0;
    out[count++] = &sr_jpeg_plain;
    out[count++] = &sr_jpeg_sse2;
    if (sr_cpu_features() & SR_CPU_AVX2)
        out[count++] = &sr_jpeg_avx2;
    if (sr_cpu_features() & SR_CPU_AVX512)
        out[count++] = &sr_jpeg_avx512;
    return count;
}
