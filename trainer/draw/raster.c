// SPDX-License-Identifier: Apache-2.0
// Drawing into a raster (raster.h); text and files are in raster_text.c and raster_write.c.
#include "trainer/draw/raster.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

void sr_raster_tint(sr_raster *raster, int x, int y, uint32_t color, int weight) {
    uint8_t *p = pixel(raster, x, y);
    if (p == NULL)
        return;
    for (int c = 0; c < 3; ++c) {
        int to = (int)(color >> (16 - 8 * c) & 255);
        p[c] = (uint8_t)((p[c] * (256 - weight) + to * weight) / 256);
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

void sr_raster_line(sr_raster *raster, int x0, int y0, int x1, int y1, uint32_t color) {
    const int dx = x1 - x0, dy = y1 - y0;
    const int steps = abs(dx) > abs(dy) ? abs(dx) : abs(dy);
    for (int i = 0; i <= steps; ++i) {
        const double at = steps == 0 ? 0 : (double)i / steps;
        sr_raster_tint(raster, x0 + (int)lround(at * dx), y0 + (int)lround(at * dy), color, 256);
    }
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
