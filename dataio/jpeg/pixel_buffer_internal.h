// SPDX-License-Identifier: Apache-2.0
// A growing buffer of pixels, reused from picture to picture.
#ifndef SR_DATAIO_PIXEL_BUFFER_INTERNAL_H
#define SR_DATAIO_PIXEL_BUFFER_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"

// Zero-initialised is empty.
typedef struct sr_pixel_buffer {
    uint8_t *data;
    size_t capacity;
} sr_pixel_buffer;

// Makes the capacity at least 'bytes'; the contents are lost when the buffer grows. SR_E_MEMORY.
SR_NODISCARD sr_status sr_pixel_buffer_fit(sr_pixel_buffer *buffer, size_t bytes);
void sr_pixel_buffer_release(sr_pixel_buffer *buffer);

#endif
