// SPDX-License-Identifier: Apache-2.0
// PNG masks for segmentation: one class id of at most 8 bits per pixel.
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

// Whether a PNG, by its first bytes (SR_MASK_HEAD), has one number per pixel.
#define SR_MASK_HEAD 33
bool sr_mask_png_is(const uint8_t *head, size_t bytes);
// Reads the ids, [height, width], into a growing buffer (sr_free): grey values or palette indices,
// never the palette's colours. The whole file is checked. SR_E_DATA where it is damaged, has
// colours or more than 8 bits; SR_E_LIMIT.
SR_NODISCARD sr_status sr_mask_png_read(const void *data, size_t bytes, void **ids,
                                        size_t *capacity, int64_t *width, int64_t *height);

#ifdef __cplusplus
}
#endif
#endif
