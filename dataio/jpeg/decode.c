// SPDX-License-Identifier: Apache-2.0
// Decodes pictures of records to upright RGB: selects the decoder, applies orientation, converts
// greyscale and alpha.
//
// A transformer opens a picture (header only), draws a crop based on its size, and then reads just
// that region. PNG has no random access, so it is decoded completely. Sources: libspng's
// documentation; Exif 2.3 for orientation. Not a general image library: only formats that packing
// accepts are supported.
#include "dataio/jpeg/decode.h"

#include <spng.h>
#include <string.h>

#include "dataio/jpeg/decode_internal.h"
#include "dataio/record/zstd_frame.h"
#include "kernels/base/clock.h"
#include "kernels/base/memory.h"

typedef enum picture_kind { PICTURE_JPEG, PICTURE_PNG, PICTURE_RAW } picture_kind;

struct sr_decoder {
    sr_jpeg *jpeg;
    sr_encoded encoded;
    picture_kind kind;
    int orientation;
    int64_t width, height;                    // as stored
    sr_pixel_buffer pixels, turned, expanded; // expanded: of a compressed raw picture
    sr_zstd zstd;
    sr_decode_times times;
};

sr_encoded sr_encoded_of(const sr_sample *picture) {
    return (sr_encoded){.data = picture->data,
                        .bytes = picture->bytes,
                        .raw = !picture->encoded,
                        .zstd = picture->zstd,
                        .height = picture->height,
                        .width = picture->width,
                        .channels = picture->channels,
                        .orientation = picture->orientation,
                        .segments = picture->segments,
                        .segment_count = picture->segment_count};
}

sr_status sr_decoder_create(sr_decoder **out) {
    sr_decoder *decoder = sr_alloc(sizeof *decoder, "picture decoder");
    if (!decoder)
        return SR_E_MEMORY;
    sr_status status = sr_jpeg_create(&decoder->times, &decoder->jpeg);
    if (status != SR_OK) {
        sr_free(decoder);
        return status;
    }
    *out = decoder;
    return SR_OK;
}

void sr_decoder_free(sr_decoder *decoder) {
    if (!decoder)
        return;
    sr_jpeg_free(decoder->jpeg);
    sr_pixel_buffer_release(&decoder->pixels);
    sr_pixel_buffer_release(&decoder->turned);
    sr_pixel_buffer_release(&decoder->expanded);
    sr_zstd_release(&decoder->zstd);
    sr_free(decoder);
}

static sr_status png_begin(const sr_encoded *encoded, spng_ctx **out) {
    spng_ctx *png = spng_ctx_new(0);
    if (!png)
        return SR_FAIL(SR_E_MEMORY, "PNG decoder: out of memory");
    int error = spng_set_image_limits(png, 1 << 20, 1 << 20);
    if (!error)
        error = spng_set_chunk_limits(png, 64u << 20, 64u << 20);
    if (!error)
        error = spng_set_png_buffer(png, encoded->data, encoded->bytes);
    if (error) {
        spng_ctx_free(png);
        return SR_FAIL(SR_E_DATA, "PNG: %s", spng_strerror(error));
    }
    *out = png;
    return SR_OK;
}

static sr_status png_size(sr_decoder *decoder) {
    spng_ctx *png = NULL;
    SR_TRY(png_begin(&decoder->encoded, &png));
    struct spng_ihdr header;
    int error = spng_get_ihdr(png, &header);
    spng_ctx_free(png);
    if (error)
        return SR_FAIL(SR_E_DATA, "PNG: %s", spng_strerror(error));
    decoder->width = header.width;
    decoder->height = header.height;
    return SR_OK;
}

static sr_status png_read(sr_decoder *decoder, sr_pixels *out) {
    size_t bytes = (size_t)(decoder->width * decoder->height) * 3;
    SR_TRY(sr_pixel_buffer_fit(&decoder->pixels, bytes));
    spng_ctx *png = NULL;
    SR_TRY(png_begin(&decoder->encoded, &png));
    int error = spng_decode_image(png, decoder->pixels.data, bytes, SPNG_FMT_RGB8, 0);
    spng_ctx_free(png);
    if (error)
        return SR_FAIL(SR_E_DATA, "PNG: %s", spng_strerror(error));
    *out = (sr_pixels){.data = decoder->pixels.data,
                       .width = decoder->width,
                       .height = decoder->height,
                       .channels = 3};
    return SR_OK;
}

// Decompresses the raw picture; then decoder->encoded describes uncompressed pixels.
static sr_status expand_raw(sr_decoder *decoder) {
    sr_encoded *e = &decoder->encoded;
    const size_t bytes = (size_t)(e->width * e->height * e->channels);
    SR_TRY(sr_pixel_buffer_fit(&decoder->expanded, bytes));
    SR_TRY(sr_zstd_expand(&decoder->zstd, e->data, e->bytes, decoder->expanded.data, bytes));
    e->data = decoder->expanded.data;
    e->bytes = bytes;
    e->zstd = false;
    return SR_OK;
}

static sr_status raw_read(sr_decoder *decoder, sr_pixels *out) {
    const sr_encoded *e = &decoder->encoded;
    if (e->zstd)
        SR_TRY(expand_raw(decoder));
    *out = (sr_pixels){.data = e->data, .width = e->width, .height = e->height, .channels = 3};
    if (e->channels == 3)
        return SR_OK;
    int64_t pixels = e->width * e->height, step = e->channels;
    SR_TRY(sr_pixel_buffer_fit(&decoder->pixels, (size_t)pixels * 3));
    for (int64_t i = 0; i < pixels; i++)
        for (int64_t c = 0; c < 3; c++)
            decoder->pixels.data[3 * i + c] = e->data[i * step + (step == 1 ? 0 : c)];
    out->data = decoder->pixels.data;
    return SR_OK;
}

static sr_status open_raw(sr_decoder *decoder) {
    const sr_encoded *e = &decoder->encoded;
    if (e->width < 1 || e->height < 1 || e->width > 1 << 20 || e->height > 1 << 20 ||
        (e->channels != 1 && e->channels != 3 && e->channels != 4) ||
        (!e->zstd && e->bytes != (size_t)(e->width * e->height * e->channels)))
        return SR_FAIL(SR_E_DATA, "raw picture of shape [%lld, %lld, %lld] has %zu bytes",
                       (long long)e->height, (long long)e->width, (long long)e->channels, e->bytes);
    decoder->width = e->width;
    decoder->height = e->height;
    return SR_OK;
}

static sr_status open_stored(sr_decoder *decoder, const sr_encoded *encoded) {
    static const uint8_t png_signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    decoder->encoded = *encoded;
    decoder->orientation = 1;
    if (encoded->raw) {
        decoder->kind = PICTURE_RAW;
        SR_TRY(open_raw(decoder));
    } else if (encoded->bytes >= 3 && memcmp(encoded->data, "\xff\xd8\xff", 3) == 0) {
        decoder->kind = PICTURE_JPEG;
        SR_TRY(sr_jpeg_open(decoder->jpeg, encoded, &decoder->width, &decoder->height,
                            &decoder->orientation));
    } else if (encoded->bytes >= 8 && memcmp(encoded->data, png_signature, 8) == 0) {
        decoder->kind = PICTURE_PNG;
        SR_TRY(png_size(decoder));
    } else {
        return SR_FAIL(SR_E_DATA, "a picture of %zu bytes is neither JPEG nor PNG", encoded->bytes);
    }
    if (decoder->width * decoder->height > SR_DECODE_MAX_PIXELS)
        return SR_FAIL(SR_E_LIMIT, "a picture of %lld x %lld is over the limit of %lld pixels",
                       (long long)decoder->width, (long long)decoder->height,
                       (long long)SR_DECODE_MAX_PIXELS);
    return SR_OK;
}

sr_status sr_decoder_open(sr_decoder *decoder, const sr_encoded *encoded, int64_t *width,
                          int64_t *height) {
    const int64_t begin = sr_clock_ns();
    const sr_status status = open_stored(decoder, encoded);
    decoder->times.header += sr_clock_ns() - begin;
    SR_TRY(status);
    if (encoded->orientation >= 1 && encoded->orientation <= 8)
        decoder->orientation = encoded->orientation;
    bool turned = decoder->orientation >= 5;
    *width = turned ? decoder->height : decoder->width;
    *height = turned ? decoder->width : decoder->height;
    return SR_OK;
}

sr_decode_times sr_decoder_times(const sr_decoder *decoder) {
    return decoder->times;
}

int sr_decoder_max_scale(const sr_decoder *decoder) {
    // A mirrored picture's scaled grid would begin at a fraction of a pixel.
    return decoder->kind == PICTURE_JPEG && decoder->orientation == 1 ? 8 : 1;
}

sr_stored_shape sr_decoder_stored(const sr_decoder *decoder) {
    return (sr_stored_shape){decoder->width, decoder->height, decoder->orientation};
}

void sr_stored_position(const sr_stored_shape *shape, int64_t x, int64_t y, int64_t *sx,
                        int64_t *sy) {
    int64_t right = shape->width - 1, bottom = shape->height - 1;
    int o = shape->orientation;
    bool transposed = o >= 5;
    int64_t a = transposed ? y : x, b = transposed ? x : y;
    *sx = o == 2 || o == 3 || o == 7 || o == 8 ? right - a : a;
    *sy = o == 3 || o == 4 || o == 6 || o == 7 ? bottom - b : b;
}

static sr_status read_stored(sr_decoder *decoder, const sr_region *region, int scale,
                             sr_pixels *out) {
    if (decoder->kind == PICTURE_JPEG)
        return sr_jpeg_read(decoder->jpeg, region, scale, &decoder->pixels, out);
    const int64_t begin = sr_clock_ns();
    const sr_status status =
        decoder->kind == PICTURE_PNG ? png_read(decoder, out) : raw_read(decoder, out);
    decoder->times.library += sr_clock_ns() - begin;
    return status;
}

static sr_status read_turned(sr_decoder *decoder, const sr_region *region, sr_pixels *out) {
    const sr_stored_shape shape = sr_decoder_stored(decoder);
    int64_t x0, y0, x1, y1;
    sr_stored_position(&shape, region->x, region->y, &x0, &y0);
    sr_stored_position(&shape, region->x + region->width - 1, region->y + region->height - 1, &x1,
                       &y1);
    sr_region stored = {.x = x0 < x1 ? x0 : x1, .y = y0 < y1 ? y0 : y1};
    stored.width = (x0 < x1 ? x1 : x0) - stored.x + 1;
    stored.height = (y0 < y1 ? y1 : y0) - stored.y + 1;
    sr_pixels in = {0};
    SR_TRY(read_stored(decoder, &stored, 1, &in));
    if (!in.data)
        return SR_FAIL(SR_E_INTERNAL, "a decoder returned no pixels");
    SR_TRY(sr_pixel_buffer_fit(&decoder->turned, (size_t)(region->width * region->height) * 3));
    uint8_t *to = decoder->turned.data;
    for (int64_t y = 0; y < region->height; y++) {
        for (int64_t x = 0; x < region->width; x++, to += 3) {
            int64_t sx, sy;
            sr_stored_position(&shape, region->x + x, region->y + y, &sx, &sy);
            memcpy(to, in.data + 3 * ((sy - in.y) * in.width + sx - in.x), 3);
        }
    }
    *out = (sr_pixels){.data = decoder->turned.data,
                       .width = region->width,
                       .height = region->height,
                       .x = region->x,
                       .y = region->y,
                       .channels = 3};
    return SR_OK;
}

sr_status sr_decoder_read(sr_decoder *decoder, const sr_region *region, int scale, sr_pixels *out) {
    if (decoder->orientation != 1)
        return read_turned(decoder, region, out);
    return read_stored(decoder, region, scale, out);
}
