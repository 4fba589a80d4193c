// SPDX-License-Identifier: Apache-2.0
// Huffman decoding of JPEGs with the instructions that every processor has.
#define SR_JPEG_READ sr_jpeg_read_plain
#include "dataio/jpeg/jpeg_entropy_internal.h"
