// SPDX-License-Identifier: Apache-2.0
// Huffman decoding of JPEGs without special instructions.
#define SR_JPEG_READ sr_jpeg_read_plain
#include "dataio/jpeg/jpeg_entropy_internal.h"
