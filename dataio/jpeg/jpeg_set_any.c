// SPDX-License-Identifier: Apache-2.0
// The inner loops of decoding JPEGs on other architectures: plain C only.
#include "dataio/jpeg/jpeg_set_internal.h"

int sr_jpeg_sets(const sr_jpeg_set *out[SR_JPEG_MOST_SETS]) {
    out[0] = &sr_jpeg_plain;
    return 1;
}
