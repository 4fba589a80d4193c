// SPDX-License-Identifier: Apache-2.0
// Interface between picture.c and the JPEG and PNG code.
#ifndef SR_DATAIO_PICTURE_INTERNAL_H
#define SR_DATAIO_PICTURE_INTERNAL_H

#include "dataio/image/picture.h"

struct spng_ctx;
struct spng_ihdr;

typedef struct picture_bytes {
    void *data;
    size_t bytes, capacity;
} picture_bytes;

// JPEG: one decompressor and one compressor of libjpeg with their error handling.
typedef struct picture_jpeg picture_jpeg;

typedef struct jpeg_facts {
    int64_t width, height;
    int components, orientation;
    bool progressive, cmyk;
} jpeg_facts;

SR_NODISCARD sr_status sr_picture_jpeg_create(picture_jpeg **out);
void sr_picture_jpeg_free(picture_jpeg *jpeg);
// Reads the header and checks the limits.
SR_NODISCARD sr_status sr_picture_jpeg_probe(picture_jpeg *jpeg, const uint8_t *data, size_t bytes,
                                             jpeg_facts *out);
// Transcodes losslessly into 'out', with at most 'segments' segments per row of MCUs (0: one for
// the whole picture). With out NULL the source is only read to its end.
SR_NODISCARD sr_status sr_picture_jpeg_transcode(picture_jpeg *jpeg, const uint8_t *data,
                                                 size_t bytes, int segments, picture_bytes *out);
// Encodes packed pixels of 1 or 3 channels. subsample: 4:2:0, else 4:4:4.
SR_NODISCARD sr_status sr_picture_jpeg_encode(picture_jpeg *jpeg, const uint8_t *pixels,
                                              int64_t width, int64_t height, int channels,
                                              int quality, bool subsample, int segments,
                                              picture_bytes *out);
// Writes the offsets of such a stream's segments (record.h), little-endian u32, to 'out'.
SR_NODISCARD sr_status sr_picture_jpeg_index(const uint8_t *data, size_t bytes, picture_bytes *out);

// PNG. Checks all of it. If it must be rewritten, 'out' is the new file; else out->bytes is 0.
SR_NODISCARD sr_status sr_picture_png(const uint8_t *data, size_t bytes, picture_bytes *pixels,
                                      picture_bytes *out, sr_sample *sample, unsigned *flags);
// Opens a PNG with the limits set and checks that all chunks are complete. *bytes becomes the
// length without data after IEND.
SR_NODISCARD sr_status sr_picture_png_open(const uint8_t *data, size_t *bytes,
                                           struct spng_ctx **out, struct spng_ihdr *header);
// Converts an error code of libspng; 0 is SR_OK.
SR_NODISCARD sr_status sr_picture_png_check(int error);

#endif
