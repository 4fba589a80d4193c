// SPDX-License-Identifier: Apache-2.0
// JPEG behind dataio/decode.c.
#ifndef SR_DATAIO_DECODE_INTERNAL_H
#define SR_DATAIO_DECODE_INTERNAL_H

#include "dataio/decode.h"

typedef struct sr_jpeg sr_jpeg;

// A growing byte buffer; contents are lost when it grows.
typedef struct sr_pixel_buffer {
    uint8_t *data;
    size_t capacity;
} sr_pixel_buffer;

SR_NODISCARD sr_status sr_pixel_buffer_fit(sr_pixel_buffer *buffer, size_t bytes);
void sr_pixel_buffer_release(sr_pixel_buffer *buffer);

SR_NODISCARD sr_status sr_jpeg_create(sr_jpeg **out);
void sr_jpeg_free(sr_jpeg *jpeg);
// Size as stored (not turned) and the EXIF orientation (1 when there is none).
SR_NODISCARD sr_status sr_jpeg_open(sr_jpeg *jpeg, const uint8_t *data, size_t bytes,
                                    int64_t *width, int64_t *height, int *orientation);
// As sr_decoder_read, in coordinates as stored, into the buffer.
SR_NODISCARD sr_status sr_jpeg_read(sr_jpeg *jpeg, const sr_region *region, int scale,
                                    sr_pixel_buffer *buffer, sr_pixels *out);

#endif
