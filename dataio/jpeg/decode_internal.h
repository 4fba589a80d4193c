// SPDX-License-Identifier: Apache-2.0
// The JPEG decoder that dataio/jpeg/decode.c uses.
#ifndef SR_DATAIO_DECODE_INTERNAL_H
#define SR_DATAIO_DECODE_INTERNAL_H

#include "dataio/jpeg/decode.h"
#include "dataio/jpeg/pixel_buffer_internal.h"

typedef struct sr_jpeg sr_jpeg;

// Size of the picture as stored, and its orientation (EXIF code 1..8).
typedef struct sr_stored_shape {
    int64_t width, height;
    int orientation;
} sr_stored_shape;
sr_stored_shape sr_decoder_stored(const sr_decoder *decoder);
// Stored position of pixel (x, y) of the upright picture.
void sr_stored_position(const sr_stored_shape *shape, int64_t x, int64_t y, int64_t *sx,
                        int64_t *sy);

// Adds its times to *times.
SR_NODISCARD sr_status sr_jpeg_create(sr_decode_times *times, sr_jpeg **out);
void sr_jpeg_free(sr_jpeg *jpeg);
// Reads the size as stored (not turned) and the EXIF orientation (1 if there is none).
SR_NODISCARD sr_status sr_jpeg_open(sr_jpeg *jpeg, const sr_encoded *encoded, int64_t *width,
                                    int64_t *height, int *orientation);
// Like sr_decoder_read, but in stored coordinates and into the buffer.
SR_NODISCARD sr_status sr_jpeg_read(sr_jpeg *jpeg, const sr_region *region, int scale,
                                    sr_pixel_buffer *buffer, sr_pixels *out);

// Offset i of the picture's row index.
uint32_t sr_jpeg_segment(const sr_encoded *encoded, int64_t i);

// -- row index ---------------------------------------------------------------------------------

// Rows of MCUs of a JPEG with a row index that are to be decoded.
typedef struct sr_jpeg_row_range {
    int64_t first, rows;  // rows of MCUs
    int64_t row_segments; // restart segments per row of MCUs
    int64_t mcu_height;   // pixels
    int64_t height;       // of the whole picture, pixels
} sr_jpeg_row_range;

// Writes a JPEG of these rows of MCUs to the buffer: the header with the new height, the segments
// with restart markers renumbered from 0, and an end marker. SR_E_DATA when the index does not
// match the file.
SR_NODISCARD sr_status sr_jpeg_extract_rows(const sr_encoded *encoded,
                                            const sr_jpeg_row_range *range, sr_pixel_buffer *buffer,
                                            size_t *bytes);

#endif
