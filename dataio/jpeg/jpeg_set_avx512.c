// SPDX-License-Identifier: Apache-2.0
// The inner loops of decoding JPEGs for AVX-512 F and BW; compiled with these flags.
#define SR_JPEG_SET sr_jpeg_avx512
#define SR_JPEG_READ sr_jpeg_read_bmi
#include "dataio/jpeg/jpeg_loops_internal.h"
