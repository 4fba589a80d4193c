// SPDX-License-Identifier: Apache-2.0
// Huffman decoding of JPEGs with BMI2's shifts; compiled with -mbmi2.
#define SR_JPEG_READ sr_jpeg_read_bmi
#include "dataio/jpeg/jpeg_entropy_internal.h"
