// SPDX-License-Identifier: Apache-2.0
// The inner loops of decoding JPEGs in plain C, for any processor.
#define SR_JPEG_SET sr_jpeg_plain
#define SR_JPEG_WITHOUT_VECTORS
#define SR_JPEG_READ sr_jpeg_read_plain
#include "dataio/jpeg/jpeg_loops_internal.h"
