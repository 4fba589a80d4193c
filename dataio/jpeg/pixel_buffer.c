// SPDX-License-Identifier: Apache-2.0
// A growing buffer of pixels (pixel_buffer_internal.h).
#include "dataio/jpeg/pixel_buffer_internal.h"

#include "kernels/base/memory.h"

sr_status sr_pixel_buffer_fit(sr_pixel_buffer *buffer, size_t bytes) {
    if (bytes <= buffer->capacity)
        return SR_OK;
    uint8_t *grown = sr_alloc(bytes + bytes / 4, "pixels");
    if (!grown)
        return SR_E_MEMORY;
    sr_free(buffer->data);
    buffer->data = grown;
    buffer->capacity = bytes + bytes / 4;
    return SR_OK;
}

void sr_pixel_buffer_release(sr_pixel_buffer *buffer) {
    sr_free(buffer->data);
    *buffer = (sr_pixel_buffer){0};
}
