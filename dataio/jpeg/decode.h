// SPDX-License-Identifier: Apache-2.0
// A picture of a record -> RGB pixels: only the region and at the scale that are needed.
//
// JPEG (libjpeg-turbo), PNG (libspng) and raw u8. Greyscale is replicated, CMYK and YCCK are
// converted, alpha is dropped, 16 bits are cut to 8, EXIF orientation is applied: callers only see
// upright RGB. Decoders' warnings are failures (SR_E_DATA): a picture with one is damaged.
// Bits are the same on every processor: accurate integer DCT and our own integer conversions.
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

// A larger picture is SR_E_LIMIT: 2^27 pixels are 400 MB of RGB.
#define SR_DECODE_MAX_PIXELS (INT64_C(1) << 27)
// Scans of a progressive JPEG; encoders write about ten, hostile files thousands.
#define SR_DECODE_MAX_SCANS 200
// Pixels times scans of one: each scan goes over all of them, however few bytes it has.
#define SR_DECODE_MAX_WORK (INT64_C(1) << 31)

// An encoded picture; all pointers are borrowed.
typedef struct sr_encoded {
    const uint8_t *data;
    size_t bytes;
    bool raw;                        // u8 [height, width, channels] instead of JPEG or PNG
    bool zstd;                       // the raw pixels are one compressed frame (zstd_frame.h)
    int64_t height, width, channels; // of a raw picture: channels 1, 3 or 4
    int orientation;                 // EXIF code 1..8; 0: as the file says
    const void *segments;            // JPEG's row index (dataio/record/record.h), or NULL
    size_t segment_count;
} sr_encoded;

// A record's picture with all that the record knows of it; borrows its bytes.
sr_encoded sr_encoded_of(const sr_sample *picture);

// A rectangle in pixels of the upright picture at full size.
typedef struct sr_region {
    int64_t x, y, width, height;
} sr_region;

// Packed pixels, 'channels' bytes each; (x, y) is where the first one lies in the whole picture at
// the scale of decoding.
typedef struct sr_pixels {
    const uint8_t *data;
    int64_t width, height;
    int64_t x, y;
    int channels;
} sr_pixels;

// Nanoseconds spent since the decoder was made.
typedef struct sr_decode_times {
    int64_t header;    // reading headers and making tables
    int64_t entropy;   // of our own decoding of JPEGs: coefficients,
    int64_t transform; // samples,
    int64_t colour;    // and RGB
    int64_t library;   // pictures that libraries read, and raw ones
} sr_decode_times;

// Keeps its buffers from picture to picture. One thread at a time.
typedef struct sr_decoder sr_decoder;

// Makes a decoder without buffers; they come with the pictures. SR_E_MEMORY.
SR_NODISCARD sr_status sr_decoder_create(sr_decoder **out);
// NULL is legal.
void sr_decoder_free(sr_decoder *decoder);
// Reads the header; the encoded bytes are borrowed until the next open. Width and height are those
// of the upright picture. SR_E_DATA, SR_E_LIMIT.
SR_NODISCARD sr_status sr_decoder_open(sr_decoder *decoder, const sr_encoded *encoded,
                                       int64_t *width, int64_t *height);
// What this decoder has spent.
sr_decode_times sr_decoder_times(const sr_decoder *decoder);
// Largest of 1, 2, 4, 8 by which this picture can be scaled down while decoding.
int sr_decoder_max_scale(const sr_decoder *decoder);
// Decodes at least the region (of the upright full-size picture) at 1/scale. The result holds, at
// scale s, pixels floor(x / s) .. ceil((x + width) / s) and perhaps more around them; it equals
// that part of a decode of the whole picture bit for bit. Borrowed until the next call.
SR_NODISCARD sr_status sr_decoder_read(sr_decoder *decoder, const sr_region *region, int scale,
                                       sr_pixels *out);

#ifdef __cplusplus
}
#endif
#endif
