// SPDX-License-Identifier: Apache-2.0
// PNG for storage: checked completely, rewritten only where it is not plain 8-bit grey or RGB.
//
// libspng stops after the last row, before it checks the CRC of the last chunk and of the zlib
// stream (measured with 0.7.3: a flipped bit of the only IDAT is not detected). So all chunks to
// IEND and their CRCs are checked here first. Source: https://libspng.org/docs/api/ and the PNG
// specification, third edition, section 5.
#include <limits.h>
#include <spng.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "dataio/image/picture_internal.h"
#include "dataio/jpeg/exif.h"
#include "kernels/base/memory.h"

#define CHUNK_MAX ((size_t)16 << 20)

sr_status sr_picture_png_check(int error) {
    if (error == 0)
        return SR_OK;
    if (error == SPNG_EMEM)
        return SR_FAIL(SR_E_MEMORY, "PNG: out of memory");
    bool limit =
        error == SPNG_EUSER_WIDTH || error == SPNG_EUSER_HEIGHT || error == SPNG_ECHUNK_LIMITS;
    return SR_FAIL(limit ? SR_E_LIMIT : SR_E_DATA, "PNG: %s", spng_strerror(error));
}

static uint32_t get_be32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

// Checks every chunk up to IEND; *end is the offset after it.
static sr_status check_chunks(const uint8_t *data, size_t bytes, size_t *end) {
    size_t at = 8;
    for (;;) {
        if (bytes < at || bytes - at < 12)
            return SR_FAIL(SR_E_DATA, "PNG: truncated: no IEND chunk");
        uint32_t length = get_be32(data + at);
        if (length > bytes - at - 12)
            return SR_FAIL(SR_E_DATA, "PNG: truncated inside a chunk at byte %zu", at);
        if (crc32(0, data + at + 4, (uInt)length + 4) != get_be32(data + at + 8 + length))
            return SR_FAIL(SR_E_DATA, "PNG: wrong checksum of the chunk at byte %zu", at);
        bool last = memcmp(data + at + 4, "IEND", 4) == 0;
        at += 12 + (size_t)length;
        if (last)
            break;
    }
    *end = at;
    return SR_OK;
}

static sr_status open_png(spng_ctx *png, const uint8_t *data, size_t bytes,
                          struct spng_ihdr *header) {
    SR_TRY(sr_picture_png_check(spng_set_image_limits(png, INT32_MAX, INT32_MAX)));
    SR_TRY(sr_picture_png_check(spng_set_chunk_limits(png, CHUNK_MAX, 4 * CHUNK_MAX)));
    SR_TRY(sr_picture_png_check(spng_set_png_buffer(png, data, bytes)));
    SR_TRY(sr_picture_png_check(spng_get_ihdr(png, header)));
    if ((int64_t)header->width * header->height > SR_PICTURE_MAX_PIXELS)
        return SR_FAIL(SR_E_LIMIT, "PNG: %u x %u is over the limit of %lld Mpx", header->width,
                       header->height, (long long)(SR_PICTURE_MAX_PIXELS >> 20));
    return SR_OK;
}

sr_status sr_picture_png_open(const uint8_t *data, size_t *bytes, struct spng_ctx **out,
                              struct spng_ihdr *header) {
    SR_TRY(check_chunks(data, *bytes, bytes));
    spng_ctx *png = spng_ctx_new(0);
    if (png == NULL)
        return sr_picture_png_check(SPNG_EMEM);
    sr_status status = open_png(png, data, *bytes, header);
    if (status != SR_OK) {
        spng_ctx_free(png);
        return status;
    }
    *out = png;
    return SR_OK;
}

static sr_status decode(const uint8_t *data, size_t *bytes, picture_bytes *pixels,
                        struct spng_ihdr *header, int *orientation) {
    spng_ctx *png = NULL;
    SR_TRY(sr_picture_png_open(data, bytes, &png, header));
    pixels->bytes = (size_t)header->width * header->height * 3;
    sr_status status = sr_grow(&pixels->data, &pixels->capacity, pixels->bytes, 1, "pixels");
    if (status == SR_OK)
        status = sr_picture_png_check(
            spng_decode_image(png, pixels->data, pixels->bytes, SPNG_FMT_RGB8, 0));
    if (status == SR_OK)
        status = sr_picture_png_check(spng_decode_chunks(png));
    struct spng_exif exif;
    *orientation = 1;
    if (status == SR_OK && spng_get_exif(png, &exif) == 0)
        *orientation = sr_exif_orientation((const uint8_t *)exif.data, exif.length);
    spng_ctx_free(png);
    return status;
}

static sr_status take_buffer(spng_ctx *png, picture_bytes *out) {
    int error = 0;
    size_t bytes;
    void *data = spng_get_png_buffer(png, &bytes, &error);
    if (data == NULL)
        return sr_picture_png_check(error ? error : SPNG_EMEM);
    sr_status status = sr_grow(&out->data, &out->capacity, bytes, 1, "PNG");
    if (status == SR_OK) {
        memcpy(out->data, data, bytes);
        out->bytes = bytes;
    }
    free(data); // libspng's own malloc
    return status;
}

static sr_status encode(const picture_bytes *pixels, const struct spng_ihdr *source, bool grey,
                        picture_bytes *out) {
    struct spng_ihdr header = {.width = source->width, .height = source->height, .bit_depth = 8};
    header.color_type = grey ? SPNG_COLOR_TYPE_GRAYSCALE : SPNG_COLOR_TYPE_TRUECOLOR;
    spng_ctx *png = spng_ctx_new(SPNG_CTX_ENCODER);
    if (png == NULL)
        return sr_picture_png_check(SPNG_EMEM);
    sr_status status = sr_picture_png_check(spng_set_option(png, SPNG_ENCODE_TO_BUFFER, 1));
    if (status == SR_OK)
        status = sr_picture_png_check(spng_set_ihdr(png, &header));
    if (status == SR_OK)
        status = sr_picture_png_check(spng_encode_image(png, pixels->data, pixels->bytes,
                                                        SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE));
    if (status == SR_OK)
        status = take_buffer(png, out);
    spng_ctx_free(png);
    return status;
}

sr_status sr_picture_png(const uint8_t *data, size_t bytes, picture_bytes *pixels,
                         picture_bytes *out, sr_sample *sample, unsigned *flags) {
    struct spng_ihdr header = {0};
    int orientation = 1;
    out->bytes = 0;
    SR_TRY(decode(data, &bytes, pixels, &header, &orientation));
    bool grey = header.color_type == SPNG_COLOR_TYPE_GRAYSCALE ||
                header.color_type == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA;
    bool plain = header.bit_depth == 8 && (header.color_type == SPNG_COLOR_TYPE_GRAYSCALE ||
                                           header.color_type == SPNG_COLOR_TYPE_TRUECOLOR);
    if (grey && !plain) { // the three channels are equal: keep the first
        uint8_t *p = pixels->data;
        pixels->bytes /= 3;
        for (size_t i = 0; i < pixels->bytes; i++)
            p[i] = p[3 * i];
    }
    if (!plain)
        SR_TRY(encode(pixels, &header, grey, out));
    sample->data = plain ? (const void *)data : out->data;
    sample->bytes = plain ? bytes : out->bytes;
    sample->encoded = true;
    sample->width = header.width;
    sample->height = header.height;
    sample->channels = grey ? 1 : 3;
    sample->orientation = orientation;
    *flags |= SR_PICTURE_IS_PNG | (grey ? (unsigned)SR_PICTURE_IS_GREY : 0u) |
              (plain ? 0u : (unsigned)SR_PICTURE_WAS_REDUCED);
    return SR_OK;
}
