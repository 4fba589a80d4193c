// SPDX-License-Identifier: Apache-2.0
// Decoding a region of a usual JPEG (dataio/jpeg/jpeg_stream_internal.h), bit for bit as
// libjpeg-turbo decodes the whole picture at this scale (JDCT_ISLOW, fancy upsampling).
#ifndef SR_DATAIO_JPEG_REGION_INTERNAL_H
#define SR_DATAIO_JPEG_REGION_INTERNAL_H

#include "dataio/jpeg/decode_internal.h"
#include "dataio/jpeg/jpeg_set_internal.h"

typedef struct sr_jpeg_region sr_jpeg_region;

// Works with these inner loops, and adds its times to *times. SR_E_MEMORY.
SR_NODISCARD sr_status sr_jpeg_region_create(const sr_jpeg_set *set, sr_decode_times *times,
                                             sr_jpeg_region **out);
void sr_jpeg_region_free(sr_jpeg_region *decoder);
// Reads the headers; false where the picture is not usual. The bytes are borrowed until the next
// open.
bool sr_jpeg_region_open(sr_jpeg_region *decoder, const sr_encoded *encoded, int64_t *width,
                         int64_t *height, int *orientation);
// As sr_jpeg_read of what was opened. *done is false where the data are not as they should be, and
// nothing is said about what is wrong; or where this picture is not usual at this scale.
SR_NODISCARD sr_status sr_jpeg_region_read(sr_jpeg_region *decoder, const sr_region *region,
                                           int scale, sr_pixel_buffer *buffer, sr_pixels *out,
                                           bool *done);

#endif
