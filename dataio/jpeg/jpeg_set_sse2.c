// SPDX-License-Identifier: Apache-2.0
// The inner loops of decoding JPEGs with SSE2, which all x86-64 processors have.
#define SR_JPEG_SET sr_jpeg_sse2
#define SR_JPEG_READ sr_jpeg_read_plain
#include "dataio/jpeg/jpeg_loops_internal.h"
