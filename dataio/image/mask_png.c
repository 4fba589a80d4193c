// SPDX-License-Identifier: Apache-2.0
// PNG masks (mask_png.h): libspng's raw samples, unpacked to one byte each, or its RGB.
//
// libspng returns rows as stored, deinterlaced: with depth 1, 2 or 4 a byte contains several
// pixels, the first in the high bits. Source: PNG specification, third edition, section 7.2.
#include "dataio/image/mask_png.h"

#include <spng.h>
#include <stdlib.h>
#include <string.h>

#include "dataio/image/picture_internal.h"
#include "kernels/base/file.h"
#include "kernels/base/memory.h"

sr_mask_kind sr_mask_png_kind(const uint8_t *head, size_t bytes) {
    // Signature, length and type of IHDR, width, height and depth, then the colour type.
    if (bytes < 26 || sr_picture_sniff(head, bytes, NULL) != SR_PICTURE_PNG)
        return SR_MASK_NONE;
    const uint8_t type = head[25];
    if (type == SPNG_COLOR_TYPE_TRUECOLOR || type == SPNG_COLOR_TYPE_TRUECOLOR_ALPHA)
        return SR_MASK_COLORS;
    const bool numbers = type == SPNG_COLOR_TYPE_GRAYSCALE || type == SPNG_COLOR_TYPE_INDEXED;
    return numbers ? SR_MASK_NUMBERS : SR_MASK_NONE;
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

static sr_status check_kind(const struct spng_ihdr *header, sr_mask_kind kind) {
    const bool indexed = header->color_type == SPNG_COLOR_TYPE_INDEXED;
    const bool grey = header->color_type == SPNG_COLOR_TYPE_GRAYSCALE;
    const bool truecolor = header->color_type == SPNG_COLOR_TYPE_TRUECOLOR ||
                           header->color_type == SPNG_COLOR_TYPE_TRUECOLOR_ALPHA;
    if (header->bit_depth > 8)
        return SR_FAIL(SR_E_DATA, "a PNG of %u bits; masks have 8 bits or fewer per pixel",
                       header->bit_depth);
    if (kind == SR_MASK_NUMBERS && truecolor)
        return SR_FAIL(SR_E_DATA, "a PNG with colours; a mask has one number per pixel, unless a "
                                  "class map with lines 'R G B NAME' states what its colours mean");
    if (kind == SR_MASK_COLORS && grey)
        return SR_FAIL(SR_E_DATA, "a PNG with grey values, but the class map has colours");
    if (!grey && !indexed && !truecolor)
        return SR_FAIL(SR_E_DATA, "a grey PNG with alpha; a mask has one number per pixel");
    return SR_OK;
}

sr_status sr_mask_png_read(const void *data, size_t bytes, sr_mask_kind kind, void **pixels,
                           size_t *capacity, int64_t *width, int64_t *height) {
    const bool colors = kind == SR_MASK_COLORS;
    const int format = colors ? SPNG_FMT_RGB8 : SPNG_FMT_RAW;
    spng_ctx *png;
    struct spng_ihdr header;
    size_t length = 0;
    SR_TRY(sr_picture_png_open(data, &bytes, &png, &header));
    sr_status status = check_kind(&header, kind);
    if (status == SR_OK)
        status = sr_picture_png_check(spng_decoded_image_size(png, format, &length));
    if (status == SR_OK) // packed numbers are unpacked in place
        status = sr_grow(pixels, capacity, (size_t)header.width * header.height * (colors ? 3 : 1),
                         1, "mask");
    if (status == SR_OK)
        status = sr_picture_png_check(spng_decode_image(png, *pixels, length, format, 0));
    if (status == SR_OK)
        status = sr_picture_png_check(spng_decode_chunks(png));
    spng_ctx_free(png);
    SR_TRY(status);
    if (!colors && header.bit_depth < 8)
        unpack(*pixels, header.width, header.height, header.bit_depth);
    *width = header.width;
    *height = header.height;
    return SR_OK;
}

// -- writing -----------------------------------------------------------------------------------

enum { IDS = 256 };

static struct spng_plte palette_of(const uint32_t *colors, int count) {
    struct spng_plte palette = {.n_entries = IDS};
    for (int i = 0; i < count && i < IDS; i++)
        palette.entries[i] = (struct spng_plte_entry){.red = (uint8_t)(colors[i] >> 16),
                                                      .green = (uint8_t)(colors[i] >> 8),
                                                      .blue = (uint8_t)colors[i],
                                                      .alpha = UINT8_MAX};
    return palette;
}

static sr_status encode(spng_ctx *context, const uint8_t *ids, int64_t width, int64_t height,
                        struct spng_plte *palette, const char *path) {
    struct spng_ihdr header = {.width = (uint32_t)width,
                               .height = (uint32_t)height,
                               .bit_depth = 8,
                               .color_type = SPNG_COLOR_TYPE_INDEXED};
    size_t bytes = (size_t)width * (size_t)height;
    int error = spng_set_option(context, SPNG_ENCODE_TO_BUFFER, 1);
    if (error == 0)
        error = spng_set_ihdr(context, &header);
    if (error == 0)
        error = spng_set_plte(context, palette);
    if (error == 0)
        error = spng_encode_image(context, ids, bytes, SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE);
    void *png = NULL;
    if (error == 0)
        png = spng_get_png_buffer(context, &bytes, &error);
    if (!png)
        return SR_FAIL(SR_E_SYSTEM, "%s: cannot be encoded: %s", path, spng_strerror(error));
    const sr_status status = sr_file_write_atomic(path, png, bytes);
    free(png); // libspng's own memory
    return status;
}

sr_status sr_mask_png_write(const uint8_t *ids, int64_t width, int64_t height,
                            const uint32_t *colors, int color_count, const char *path) {
    struct spng_plte palette = palette_of(colors, color_count);
    spng_ctx *context = spng_ctx_new(SPNG_CTX_ENCODER);
    if (!context)
        return SR_FAIL(SR_E_MEMORY, "%s: no memory for the PNG encoder", path);
    const sr_status status = encode(context, ids, width, height, &palette, path);
    spng_ctx_free(context);
    return status;
}
