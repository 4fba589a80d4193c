// SPDX-License-Identifier: Apache-2.0
// PNG masks (mask_png.h): libspng's raw samples, unpacked to one byte each.
//
// libspng returns rows as stored, deinterlaced: with depth 1, 2 or 4 a byte contains several
// pixels, the first in the high bits. Source: PNG specification, third edition, section 7.2.
#include "dataio/image/mask_png.h"

#include <spng.h>
#include <string.h>

#include "dataio/image/picture_internal.h"
#include "kernels/base/memory.h"

bool sr_mask_png_is(const uint8_t *head, size_t bytes) {
    // Signature, length and type of IHDR, width and height, then depth and colour type.
    return bytes >= 26 && sr_picture_sniff(head, bytes, NULL) == SR_PICTURE_PNG && head[24] <= 8 &&
           (head[25] == SPNG_COLOR_TYPE_GRAYSCALE || head[25] == SPNG_COLOR_TYPE_INDEXED);
}

// Unpacks rows of samples of 'depth' bits to bytes, in place, starting at the end.
static void unpack(uint8_t *data, size_t width, size_t height, unsigned depth) {
    const size_t row_bytes = (width * depth + 7) / 8;
    for (size_t y = height; y-- > 0;) {
        for (size_t x = width; x-- > 0;) {
            const unsigned shift = 8 - depth - (unsigned)(x * depth % 8);
            const unsigned packed = data[y * row_bytes + x * depth / 8];
            data[y * width + x] = (uint8_t)(packed >> shift & ((1u << depth) - 1));
        }
    }
}

sr_status sr_mask_png_read(const void *data, size_t bytes, void **ids, size_t *capacity,
                           int64_t *width, int64_t *height) {
    spng_ctx *png;
    struct spng_ihdr header;
    size_t length = 0;
    SR_TRY(sr_picture_png_open(data, &bytes, &png, &header));
    sr_status status = SR_OK;
    if (header.bit_depth > 8 || (header.color_type != SPNG_COLOR_TYPE_GRAYSCALE &&
                                 header.color_type != SPNG_COLOR_TYPE_INDEXED))
        status = SR_FAIL(SR_E_DATA,
                         "PNG of %u bits%s; a mask has one class id of at most 8 bits per pixel",
                         header.bit_depth,
                         header.color_type == SPNG_COLOR_TYPE_GRAYSCALE ? "" : " with colours");
    if (status == SR_OK)
        status = sr_picture_png_check(spng_decoded_image_size(png, SPNG_FMT_RAW, &length));
    if (status == SR_OK)
        status = sr_grow(ids, capacity, (size_t)header.width * header.height, 1, "mask");
    if (status == SR_OK)
        status = sr_picture_png_check(spng_decode_image(png, *ids, length, SPNG_FMT_RAW, 0));
    if (status == SR_OK)
        status = sr_picture_png_check(spng_decode_chunks(png));
    spng_ctx_free(png);
    SR_TRY(status);
    if (header.bit_depth < 8)
        unpack(*ids, header.width, header.height, header.bit_depth);
    *width = header.width;
    *height = header.height;
    return SR_OK;
}
