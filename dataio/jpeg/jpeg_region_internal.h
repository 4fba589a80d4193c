// SPDX-License-Identifier: Apache-2.0
// The built-in decoder: decodes a region of a baseline JPEG (see jpeg_stream_internal.h),
// bit-identical to libjpeg-turbo's decode of the whole picture at this scale (JDCT_ISLOW, fancy
// upsampling).
#ifndef SR_DATAIO_JPEG_REGION_INTERNAL_H
#define SR_DATAIO_JPEG_REGION_INTERNAL_H

#include "dataio/jpeg/decode_internal.h"
#include "dataio/jpeg/jpeg_set_internal.h"

typedef struct sr_jpeg_region sr_jpeg_region;

// Uses these inner loops and adds its times to *times. SR_E_MEMORY.
SR_NODISCARD sr_status sr_jpeg_region_create(const sr_jpeg_set *set, sr_decode_times *times,
                                             sr_jpeg_region **out);
void sr_jpeg_region_free(sr_jpeg_region *decoder);
// Reads the headers; false where this decoder does not support the picture. The bytes are borrowed
// until the next open.
bool sr_jpeg_region_open(sr_jpeg_region *decoder, const sr_encoded *encoded, int64_t *width,
                         int64_t *height, int *orientation);
// Like sr_jpeg_read. *done is false, without an error message, where the data are invalid or the
// picture is not supported at this scale; libjpeg-turbo must then decode it.
SR_NODISCARD sr_status sr_jpeg_region_read(sr_jpeg_region *decoder, const sr_region *region,
                                           int scale, sr_pixel_buffer *buffer, sr_pixels *out,
                                           bool *done);

#endif
