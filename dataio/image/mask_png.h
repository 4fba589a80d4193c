// SPDX-License-Identifier: Apache-2.0
// PNG masks for segmentation: one number of at most 8 bits for each pixel, or one colour.
#ifndef SR_DATAIO_MASK_PNG_H
#define SR_DATAIO_MASK_PNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_MASK_VOID 255 // the id of pixels without a class

typedef enum sr_mask_kind {
    SR_MASK_NONE = 0, // no PNG
    SR_MASK_NUMBERS,  // a grey value or an index into a palette for each pixel
    SR_MASK_COLORS,   // truecolour
} sr_mask_kind;

// The kind of a PNG by its first bytes (SR_MASK_HEAD), whatever its depth.
#define SR_MASK_HEAD 33
sr_mask_kind sr_mask_png_kind(const uint8_t *head, size_t bytes);
// Reads the pixels into a growing buffer (sr_free). NUMBERS: [height, width], grey values or
// palette indices. COLORS: [height, width, 3], red, green and blue, of a palette or truecolour;
// alpha is dropped. The whole file is checked. SR_E_DATA where it is damaged, of another kind or
// has more than 8 bits; SR_E_LIMIT.
SR_NODISCARD sr_status sr_mask_png_read(const void *data, size_t bytes, sr_mask_kind kind,
                                        void **pixels, size_t *capacity, int64_t *width,
                                        int64_t *height);

// Writes ids [height][width] as a PNG with a palette: the colours 0xRRGGBB of the ids from 0 on,
// and black for the others. Atomic.
SR_NODISCARD sr_status sr_mask_png_write(const uint8_t *ids, int64_t width, int64_t height,
                                         const uint32_t *colors, int color_count, const char *path);

#ifdef __cplusplus
}
#endif
#endif
