// SPDX-License-Identifier: Apache-2.0
// Decodes a record's picture to RGB pixels: only the required region, at the required scale.
//
// JPEG (libjpeg-turbo), PNG (libspng) and raw u8. Greyscale is replicated, CMYK and YCCK are
// converted, alpha is dropped, 16 bits are reduced to 8, EXIF orientation is applied: callers see
// upright RGB only. A decoder's warning is an error (SR_E_DATA): the picture is damaged. Results
// are bit-identical on every processor: accurate integer DCT and integer conversions.
#ifndef SR_DATAIO_DECODE_H
#define SR_DATAIO_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dataio/record/record.h"
#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Larger pictures are SR_E_LIMIT: 2^27 pixels are 400 MB of RGB.
#define SR_DECODE_MAX_PIXELS (INT64_C(1) << 27)
// Scans of a progressive JPEG; encoders write about ten, malicious files thousands.
#define SR_DECODE_MAX_SCANS 200
// Pixels times scans: each scan processes all pixels, however few bytes it has.
#define SR_DECODE_MAX_WORK (INT64_C(1) << 31)

// An encoded picture; all pointers are borrowed.
typedef struct sr_encoded {
    const uint8_t *data;
    size_t bytes;
    bool raw;                        // u8 [height, width, channels] instead of JPEG or PNG
    bool zstd;                       // the raw pixels are one compressed frame (zstd_frame.h)
    int64_t height, width, channels; // of a raw picture: channels 1, 3 or 4
    int orientation;                 // EXIF code 1..8; 0: that of the file
    const void *segments;            // JPEG's row index (dataio/record/record.h), or NULL
    size_t segment_count;
} sr_encoded;

// The picture of a record with its metadata; borrows its bytes.
sr_encoded sr_encoded_of(const sr_sample *picture);

// A rectangle in pixels of the upright picture at full size.
typedef struct sr_region {
    int64_t x, y, width, height;
} sr_region;

// Packed pixels of 'channels' bytes; (x, y) is the position of the first one in the whole picture
// at the decoded scale.
typedef struct sr_pixels {
    const uint8_t *data;
    int64_t width, height;
    int64_t x, y;
    int channels;
} sr_pixels;

// Nanoseconds spent since the decoder was created.
typedef struct sr_decode_times {
    int64_t header;    // reading headers and building tables
    int64_t entropy;   // built-in JPEG decoder: coefficients,
    int64_t transform; // samples,
    int64_t colour;    // and RGB
    int64_t library;   // pictures decoded by libraries, and raw ones
} sr_decode_times;

// Reuses its buffers from picture to picture. One thread at a time.
typedef struct sr_decoder sr_decoder;

// Creates a decoder; buffers are allocated as needed. SR_E_MEMORY.
SR_NODISCARD sr_status sr_decoder_create(sr_decoder **out);
// NULL is legal.
void sr_decoder_free(sr_decoder *decoder);
// Reads the header; the encoded bytes are borrowed until the next open. Width and height are those
// of the upright picture. SR_E_DATA, SR_E_LIMIT.
SR_NODISCARD sr_status sr_decoder_open(sr_decoder *decoder, const sr_encoded *encoded,
                                       int64_t *width, int64_t *height);
// Times of this decoder.
sr_decode_times sr_decoder_times(const sr_decoder *decoder);
// The largest factor (1, 2, 4, 8) by which this picture can be scaled down while decoding.
int sr_decoder_max_scale(const sr_decoder *decoder);
// Decodes at least the region (of the upright full-size picture) at 1/scale. The result contains,
// at scale s, pixels floor(x / s) .. ceil((x + width) / s) and possibly more around them; it is
// bit-identical to that part of a decode of the whole picture. Borrowed until the next call.
SR_NODISCARD sr_status sr_decoder_read(sr_decoder *decoder, const sr_region *region, int scale,
                                       sr_pixels *out);

#ifdef __cplusplus
}
#endif
#endif
