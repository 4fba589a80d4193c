// SPDX-License-Identifier: Apache-2.0
// Converts source pictures for storage: completely checked, same pixels, ready for training.
//
// - JPEG is transcoded losslessly: coefficients, and so pixels, do not change. Huffman tables are
//   optimized, progressive and arithmetic coding become sequential Huffman, metadata is dropped. If
//   the shorter side is at least SR_PICTURE_INDEX_SIDE, each row of MCUs ends with a restart
//   marker, or has several, and there is an index of them (record.h, key segments).
// - CMYK and YCCK become RGB, encoded at quality 95 without chroma subsampling.
// - Greyscale stays greyscale (decoders replicate it).
// - PNG of 8 bits, grey or RGB, is stored unchanged; palettes, alpha and other depths become PNG of
//   8 bits, grey or RGB: alpha is dropped, 16 bits keep the upper 8.
// - Orientation is recorded, not applied.
// - With max_side, a picture whose shorter side is longer is resized (antialiased) so that it has
//   that length, and encoded as JPEG at 'quality'.
// - With 'raw' every picture is stored as pixels, u8 [height, width, 3]; with 'zstd' as one
//   compressed frame of them (zstd_frame.h).
// - Source pixels remain pixels, of one or three channels.
// A decoder's warning is an error: a picture that a decoder must guess is no training data.
#ifndef SR_DATAIO_PICTURE_H
#define SR_DATAIO_PICTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dataio/record/record.h"
#include "dataio/record/shard.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_PICTURE_MAX_PIXELS (INT64_C(64) << 20)
#define SR_PICTURE_MAX_BYTES (UINT64_C(256) << 20) // of a file
#define SR_PICTURE_MAX_MEMORY (256L << 20)         // working memory of the JPEG library
#define SR_PICTURE_MAX_SCANS 100
#define SR_PICTURE_INDEX_SIDE 128

typedef enum sr_picture_kind {
    SR_PICTURE_NONE = 0, // no known picture format
    SR_PICTURE_JPEG,
    SR_PICTURE_PNG,
    SR_PICTURE_OTHER, // a picture in an unsupported format
} sr_picture_kind;

// Detects the kind by the first bytes; 16 are enough, fewer are allowed. *name, where not NULL,
// gets "JPEG", "WebP", ... ("" for NONE).
sr_picture_kind sr_picture_sniff(const uint8_t *start, size_t bytes, const char **name);
// Whether the name has a picture's extension (.jpg, .png, ...): such a file is reported if it is no
// picture. The extension never decides how a file is read.
bool sr_picture_named(const char *name);

#define SR_PICTURE_NO_INDEX (-1)   // instead of a number of segments
#define SR_PICTURE_MAX_SEGMENTS 64 // of a row

typedef struct sr_picture_options {
    int64_t max_side; // 0: no limit
    int quality;      // 0: 90
    bool raw;         // as RGB of 8 bits, not as JPEG or PNG
    bool zstd;        // compress what is stored as pixels
    int segments;     // of a row, at most: the largest divisor of its MCUs; 0: 1; or NO_INDEX
} sr_picture_options;

enum { // properties of a source picture, for statistics
    SR_PICTURE_IS_PROGRESSIVE = 1 << 0,
    SR_PICTURE_IS_GREY = 1 << 1,
    SR_PICTURE_IS_CMYK = 1 << 2,
    SR_PICTURE_IS_ORIENTED = 1 << 3,
    SR_PICTURE_IS_PNG = 1 << 4,
    SR_PICTURE_WAS_REDUCED = 1 << 5, // PNG with palette, alpha or another depth
    SR_PICTURE_WAS_RESIZED = 1 << 6,
};
#define SR_PICTURE_FLAG_COUNT 7

// Buffers and library objects, reused from picture to picture. One thread at a time.
typedef struct sr_picture_worker sr_picture_worker;

SR_NODISCARD sr_status sr_picture_worker_create(sr_picture_worker **out);
void sr_picture_worker_free(sr_picture_worker *worker);

// Fills the picture's fields of *out (label and name do not change); its pointers refer to the
// worker or 'data' and are valid until the next call. *flags: SR_PICTURE_IS_*, SR_PICTURE_WAS_*.
// SR_E_DATA: damaged or no picture; SR_E_LIMIT: over a limit; the message is the reason, without a
// file name.
SR_NODISCARD sr_status sr_picture_normalise(sr_picture_worker *worker, const uint8_t *data,
                                            size_t bytes, const sr_picture_options *options,
                                            sr_sample *out, unsigned *flags);
// The same for pixels, u8 [height, width, channels] or, with 'planes', [channels, height, width];
// channels is 1 or 3.
SR_NODISCARD sr_status sr_picture_normalise_pixels(sr_picture_worker *worker, const uint8_t *data,
                                                   int64_t height, int64_t width, int64_t channels,
                                                   bool planes, const sr_picture_options *options,
                                                   sr_sample *out, unsigned *flags);
// Size of the last picture before it was resized to max_side.
void sr_picture_source_size(const sr_picture_worker *worker, int64_t *width, int64_t *height);
// Whether sr_picture_normalise would accept the picture, at less cost. Reads all of it.
SR_NODISCARD sr_status sr_picture_check(sr_picture_worker *worker, const uint8_t *data,
                                        size_t bytes);
// Adds the decoded pixels of a stored picture to the sums.
SR_NODISCARD sr_status sr_picture_sum(sr_picture_worker *worker, const sr_sample *picture,
                                      sr_channel_sums *sums);

#ifdef __cplusplus
}
#endif
#endif
