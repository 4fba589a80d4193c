// SPDX-License-Identifier: Apache-2.0
// Rasters for grids of samples: what libspng needs to write a picture, and little more.
#include "trainer/raster.h"

#include <spng.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/memory.h"

sr_status sr_raster_create(int width, int height, sr_raster *out) {
    if (width < 1 || height < 1 || (int64_t)width * height > (int64_t)64 << 20)
        return SR_FAIL(SR_E_LIMIT, "a picture of %d x %d pixels is not drawn", width, height);
    size_t bytes = (size_t)width * (size_t)height * 3;
    uint8_t *rgb = sr_alloc(bytes, "picture");
    if (rgb == NULL)
        return SR_E_MEMORY;
    memset(rgb, 255, bytes);
    *out = (sr_raster){.width = width, .height = height, .rgb = rgb};
    return SR_OK;
}

void sr_raster_release(sr_raster *raster) {
    sr_free(raster->rgb);
    *raster = (sr_raster){0};
}

static uint8_t *pixel(sr_raster *raster, int x, int y) {
    if (x < 0 || y < 0 || x >= raster->width || y >= raster->height)
        return NULL;
    return raster->rgb + 3 * ((size_t)y * (size_t)raster->width + (size_t)x);
}

void sr_raster_tint(sr_raster *raster, int x, int y, uint32_t color, int part) {
    uint8_t *p = pixel(raster, x, y);
    if (p == NULL)
        return;
    for (int c = 0; c < 3; ++c) {
        int to = (int)(color >> (16 - 8 * c) & 255);
        p[c] = (uint8_t)((p[c] * (256 - part) + to * part) / 256);
    }
}

void sr_raster_fill(sr_raster *raster, int x, int y, int width, int height, uint32_t color) {
    for (int j = y; j < y + height; ++j)
        for (int i = x; i < x + width; ++i)
            sr_raster_tint(raster, i, j, color, 256);
}

void sr_raster_frame(sr_raster *raster, int x, int y, int width, int height, int thickness,
                     uint32_t color) {
    sr_raster_fill(raster, x, y, width, thickness, color);
    sr_raster_fill(raster, x, y + height - thickness, width, thickness, color);
    sr_raster_fill(raster, x, y, thickness, height, color);
    sr_raster_fill(raster, x + width - thickness, y, thickness, height, color);
}

// First pixel of the source under the k-th of 'to' pixels.
static int64_t source_begin(int64_t k, int64_t from, int64_t to) {
    return k * from / to;
}

// One past the last; at least one pixel.
static int64_t source_end(int64_t k, int64_t from, int64_t to) {
    int64_t begin = source_begin(k, from, to), end = source_begin(k + 1, from, to);
    return end > begin ? end : begin + 1;
}

void sr_raster_picture(sr_raster *raster, int x, int y, int width, int height, const uint8_t *rgb,
                       int64_t from_width, int64_t from_height) {
    for (int j = 0; j < height; ++j) {
        int64_t y0 = source_begin(j, from_height, height), y1 = source_end(j, from_height, height);
        for (int i = 0; i < width; ++i) {
            int64_t x0 = source_begin(i, from_width, width), x1 = source_end(i, from_width, width);
            int64_t sum[3] = {0}, n = (x1 - x0) * (y1 - y0);
            for (int64_t v = y0; v < y1; ++v)
                for (int64_t u = x0; u < x1; ++u)
                    for (int c = 0; c < 3; ++c)
                        sum[c] += rgb[3 * (v * from_width + u) + c];
            uint8_t *p = pixel(raster, x + i, y + j);
            for (int c = 0; p != NULL && c < 3; ++c)
                p[c] = (uint8_t)((sum[c] + n / 2) / n);
        }
    }
}

// Continuation bytes of UTF-8 do not begin a character.
static bool begins_character(char c) {
    return ((unsigned char)c & 0xc0) != 0x80;
}

int sr_raster_text_length(const char *text) {
    int n = 0;
    for (; *text != 0; ++text)
        n += begins_character(*text);
    return n;
}

static void draw_glyph(sr_raster *raster, int x, int y, int scale, uint32_t color, char c) {
    for (int j = 0; j < SR_GLYPH_HEIGHT; ++j)
        for (int i = 0; i + 1 < SR_GLYPH_WIDTH; ++i)
            if (sr_raster_glyph(c, i, j))
                sr_raster_fill(raster, x + i * scale, y + j * scale, scale, scale, color);
}

int sr_raster_text(sr_raster *raster, int x, int y, int scale, uint32_t color, int max_width,
                   const char *text) {
    int advance = SR_GLYPH_WIDTH * scale, room = (max_width + scale) / advance, drawn = 0;
    int length = sr_raster_text_length(text);
    for (; *text != 0 && drawn < room; ++text) {
        if (!begins_character(*text))
            continue;
        bool cut = length > room && drawn >= room - 2;
        draw_glyph(raster, x + drawn++ * advance, y, scale, color, cut ? '.' : *text);
    }
    return drawn * advance;
}

static sr_status encode(spng_ctx *context, const sr_raster *raster, const char *path) {
    struct spng_ihdr header = {.width = (uint32_t)raster->width,
                               .height = (uint32_t)raster->height,
                               .bit_depth = 8,
                               .color_type = SPNG_COLOR_TYPE_TRUECOLOR};
    size_t bytes = (size_t)raster->width * (size_t)raster->height * 3;
    int error = spng_set_option(context, SPNG_ENCODE_TO_BUFFER, 1);
    if (error == 0)
        error = spng_set_ihdr(context, &header);
    if (error == 0)
        error = spng_encode_image(context, raster->rgb, bytes, SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE);
    void *png = NULL;
    if (error == 0)
        png = spng_get_png_buffer(context, &bytes, &error);
    if (png == NULL)
        return SR_FAIL(SR_E_SYSTEM, "%s: cannot be encoded: %s", path, spng_strerror(error));
    sr_status status = sr_file_write_atomic(path, png, bytes);
    free(png); // libspng's own memory
    return status;
}

sr_status sr_raster_write_png(const sr_raster *raster, const char *path) {
    spng_ctx *context = spng_ctx_new(SPNG_CTX_ENCODER);
    if (context == NULL)
        return SR_FAIL(SR_E_MEMORY, "%s: no memory for the PNG encoder", path);
    sr_status status = encode(context, raster, path);
    spng_ctx_free(context);
    return status;
}
