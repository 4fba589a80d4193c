// SPDX-License-Identifier: Apache-2.0
// libjpeg-turbo's decoding of a whole JPEG, to compare with.
#ifndef SR_TESTS_UNIT_LIBRARY_JPEG_H
#define SR_TESTS_UNIT_LIBRARY_JPEG_H

#include <stddef.h>
#include <stdint.h>

// RGB (sr_free) at 1/scale, with its accurate integer decoding; NULL if it fails or warns.
uint8_t *library_jpeg(const void *data, size_t bytes, int scale, int64_t *width, int64_t *height);

#endif
