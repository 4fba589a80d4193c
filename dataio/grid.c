// SPDX-License-Identifier: Apache-2.0
// Grids of pictures (see grid.h).
#include "dataio/grid.h"

#include <spng.h>
#include <stdlib.h>
#include <string.h>

#include "dataio/decode.h"
#include "dataio/label_font.h"
#include "dataio/mask_png.h"
#include "dataio/resample.h"
#include "dataio/zstd_frame.h"
#include "kernels/base/file.h"
#include "kernels/base/memory.h"

#define GAP 6
#define TEXT_ROOM (SR_LABEL_HEIGHT + 6)

static const uint8_t text_color[3] = {220, 220, 220};
static const uint8_t box_colors[][3] = {{255, 80, 80},  {80, 220, 80},  {90, 150, 255},
                                        {255, 220, 60}, {230, 90, 230}, {80, 220, 220}};

struct sr_grid {
    int columns, rows, cell;
    int64_t width, height;
    uint8_t *pixels, *scratch; // scratch: one cell's picture
    sr_decoder *decoder;
    sr_resampler *resampler;
};

sr_status sr_grid_create(int columns, int rows, int cell, sr_grid **out) {
    if (columns < 1 || rows < 1 || cell < 8 || columns > 200 || rows > 2000 || cell > 4096)
        return SR_FAIL(SR_E_ARGUMENT, "a grid of %d x %d cells of %d pixels", columns, rows, cell);
    sr_grid *grid = sr_alloc(sizeof *grid, "picture grid");
    if (grid == NULL)
        return SR_E_MEMORY;
    grid->columns = columns;
    grid->rows = rows;
    grid->cell = cell;
    grid->width = (int64_t)columns * (cell + GAP) + GAP;
    grid->height = (int64_t)rows * (cell + TEXT_ROOM + GAP) + GAP;
    size_t bytes = (size_t)(grid->width * grid->height) * 3;
    grid->pixels = sr_alloc(bytes, "picture grid");
    grid->scratch = sr_alloc((size_t)cell * (size_t)cell * 3, "picture grid");
    sr_status status = grid->pixels && grid->scratch ? SR_OK : SR_E_MEMORY;
    if (status == SR_OK)
        status = sr_decoder_create(&grid->decoder);
    if (status == SR_OK)
        status = sr_resampler_create(&grid->resampler);
    if (status != SR_OK) {
        sr_grid_free(grid);
        return status;
    }
    memset(grid->pixels, 24, bytes);
    *out = grid;
    return SR_OK;
}

void sr_grid_free(sr_grid *grid) {
    if (grid == NULL)
        return;
    sr_decoder_free(grid->decoder);
    sr_resampler_free(grid->resampler);
    sr_free(grid->pixels);
    sr_free(grid->scratch);
    sr_free(grid);
}

// Where a picture of this size goes in its cell, and at which size.
typedef struct place {
    int64_t x, y, width, height;
} place;

static place find_place(const sr_grid *grid, int index, int64_t width, int64_t height) {
    int64_t longer = width > height ? width : height;
    place p = {.width = (width * grid->cell + longer / 2) / longer,
               .height = (height * grid->cell + longer / 2) / longer};
    p.width = p.width < 1 ? 1 : p.width;
    p.height = p.height < 1 ? 1 : p.height;
    int column = index % grid->columns, row = index / grid->columns;
    p.x = GAP + (int64_t)column * (grid->cell + GAP) + (grid->cell - p.width) / 2;
    p.y = GAP + (int64_t)row * (grid->cell + TEXT_ROOM + GAP) + (grid->cell - p.height) / 2;
    return p;
}

static void put_label(sr_grid *grid, int index, const char *label) {
    int column = index % grid->columns, row = index / grid->columns;
    int64_t x = GAP + (int64_t)column * (grid->cell + GAP);
    int64_t y = GAP + (int64_t)row * (grid->cell + TEXT_ROOM + GAP) + grid->cell + 3;
    sr_label_draw(grid->pixels, grid->width, grid->height, x, y, 1, grid->cell, label,
                  strlen(label), text_color);
}

sr_status sr_grid_put(sr_grid *grid, int index, const uint8_t *rgb, int64_t width, int64_t height,
                      const char *label) {
    if (index < 0 || index >= grid->columns * grid->rows || width < 1 || height < 1)
        return SR_FAIL(SR_E_ARGUMENT, "picture %d of a grid of %d", index,
                       grid->columns * grid->rows);
    place p = find_place(grid, index, width, height);
    sr_pixels in = {.data = rgb, .width = width, .height = height, .channels = 3};
    sr_resize job = {.width = (double)width,
                     .height = (double)height,
                     .output_width = p.width,
                     .output_height = p.height,
                     .window = {.width = p.width, .height = p.height}};
    SR_TRY(sr_resample(grid->resampler, &in, &job, grid->scratch));
    for (int64_t y = 0; y < p.height; y++)
        memcpy(grid->pixels + 3 * ((p.y + y) * grid->width + p.x), grid->scratch + 3 * y * p.width,
               (size_t)p.width * 3);
    if (label != NULL)
        put_label(grid, index, label);
    return SR_OK;
}

static void draw_box(sr_grid *grid, const place *p, const double corner[4],
                     const uint8_t color[3]) {
    int64_t c[4]; // x0 y0 x1 y1 in the canvas, inside the picture
    for (int i = 0; i < 4; i++) {
        int64_t size = i % 2 ? p->height : p->width;
        double v = corner[i] > 0 ? corner[i] : 0; // also where it is no number
        v = v < 1 ? v : 1;
        c[i] = (i % 2 ? p->y : p->x) + (int64_t)(v * (double)(size - 1));
    }
    for (int64_t x = c[0]; x <= c[2]; x++) {
        memcpy(grid->pixels + 3 * (c[1] * grid->width + x), color, 3);
        memcpy(grid->pixels + 3 * (c[3] * grid->width + x), color, 3);
    }
    for (int64_t y = c[1]; y <= c[3]; y++) {
        memcpy(grid->pixels + 3 * (y * grid->width + c[0]), color, 3);
        memcpy(grid->pixels + 3 * (y * grid->width + c[2]), color, 3);
    }
}

// A line between two points of the picture, as shares of its sides; what lies outside is moved to
// the border.
static void draw_line(sr_grid *grid, const place *p, const double from[2], const double to[2],
                      const uint8_t color[3]) {
    const double sides[2] = {(double)(p->width - 1), (double)(p->height - 1)};
    double at[2], step[2], longest = 1;
    for (int i = 0; i < 2; i++) {
        const double begin = from[i] > 0 ? from[i] < 1 ? from[i] : 1 : 0;
        const double end = to[i] > 0 ? to[i] < 1 ? to[i] : 1 : 0;
        at[i] = begin * sides[i];
        step[i] = (end - begin) * sides[i];
        const double length = step[i] < 0 ? -step[i] : step[i];
        longest = length > longest ? length : longest;
    }
    const int steps = (int)longest;
    for (int i = 0; i <= steps; i++) {
        const int64_t x = p->x + (int64_t)(at[0] + step[0] * i / steps + 0.5);
        const int64_t y = p->y + (int64_t)(at[1] + step[1] * i / steps + 0.5);
        memcpy(grid->pixels + 3 * (y * grid->width + x), color, 3);
    }
}

// A polygon of an object's outline, closed.
static sr_status draw_polygon(sr_grid *grid, const place *p, const double sides[2],
                              sr_record_cursor numbers, const uint8_t color[3]) {
    double first[2] = {0}, last[2] = {0}, next[2] = {0};
    for (int64_t i = 0;; i++) {
        const char *key;
        size_t key_bytes;
        sr_feature number;
        bool more;
        SR_TRY(sr_record_next(&numbers, &key, &key_bytes, &number, &more));
        if (!more) {
            if (i > 2)
                draw_line(grid, p, last, first, color);
            return SR_OK;
        }
        next[i % 2] = number.f64 / sides[i % 2];
        if (i % 2 == 0)
            continue;
        if (i == 1)
            memcpy(first, next, sizeof first);
        else
            draw_line(grid, p, last, next, color);
        memcpy(last, next, sizeof last);
    }
}

static sr_status draw_outlines(sr_grid *grid, const place *p, const double sides[2],
                               sr_record_cursor outlines, const uint8_t color[3]) {
    for (;;) {
        const char *key;
        size_t key_bytes;
        sr_feature polygon;
        bool more;
        SR_TRY(sr_record_next(&outlines, &key, &key_bytes, &polygon, &more));
        if (!more)
            return SR_OK;
        if (polygon.kind == SR_FEATURE_LIST)
            SR_TRY(draw_polygon(grid, p, sides, sr_feature_entries(&polygon), color));
    }
}

static sr_status draw_objects(sr_grid *grid, const place *p, int64_t width, int64_t height,
                              sr_detection objects) {
    for (unsigned i = 0;; i++) {
        sr_object object;
        bool more;
        SR_TRY(sr_detection_next(&objects, &object, &more));
        if (!more)
            return SR_OK;
        const double corner[4] = {object.xmin / (double)width, object.ymin / (double)height,
                                  object.xmax / (double)width, object.ymax / (double)height};
        unsigned kind = object.label >= 0 ? (unsigned)object.label : i;
        const uint8_t *color = box_colors[kind % (sizeof box_colors / sizeof *box_colors)];
        const double sides[2] = {(double)width, (double)height};
        draw_box(grid, p, corner, color);
        SR_TRY(draw_outlines(grid, p, sides, object.outlines, color));
    }
}

// Blends the classes' colours over the picture; pixels without a class stay.
static sr_status draw_mask(sr_grid *grid, int index, const sr_sample *picture) {
    const place p = find_place(grid, index, picture->width, picture->height);
    const size_t bytes = (size_t)(picture->width * picture->height);
    uint8_t *ids = sr_alloc(bytes, "mask");
    sr_zstd zstd = {0};
    if (ids == NULL)
        return SR_E_MEMORY;
    sr_status status = sr_zstd_expand(&zstd, picture->mask, picture->mask_bytes, ids, bytes);
    for (int64_t y = 0; y < p.height && status == SR_OK; y++) {
        const uint8_t *row = ids + (2 * y + 1) * picture->height / (2 * p.height) * picture->width;
        uint8_t *to = grid->pixels + 3 * ((p.y + y) * grid->width + p.x);
        for (int64_t x = 0; x < p.width; x++, to += 3) {
            const uint8_t id = row[(2 * x + 1) * picture->width / (2 * p.width)];
            const uint8_t *color = box_colors[id % (sizeof box_colors / sizeof *box_colors)];
            // Classes of one colour differ in how strong it is.
            const int part = 96 + 32 * (id / 6 % 4);
            for (int c = 0; c < 3 && id != SR_MASK_VOID; c++)
                to[c] = (uint8_t)((to[c] * (256 - part) + color[c] * part) / 256);
        }
    }
    sr_zstd_release(&zstd);
    sr_free(ids);
    return status;
}

sr_status sr_grid_put_sample(sr_grid *grid, int index, const sr_sample *picture,
                             const sr_detection *objects, const char *label) {
    sr_encoded encoded = sr_encoded_of(picture);
    int64_t width, height;
    sr_pixels pixels;
    SR_TRY(sr_decoder_open(grid->decoder, &encoded, &width, &height));
    sr_region all = {.width = width, .height = height};
    SR_TRY(sr_decoder_read(grid->decoder, &all, 1, &pixels));
    SR_TRY(sr_grid_put(grid, index, pixels.data, pixels.width, pixels.height, label));
    // A mask is turned as the picture is stored, so only one that is stored upright is drawn.
    if (picture->mask != NULL && width == picture->width && height == picture->height &&
        picture->orientation <= 1)
        SR_TRY(draw_mask(grid, index, picture));
    place p = find_place(grid, index, width, height);
    return objects ? draw_objects(grid, &p, width, height, *objects) : SR_OK;
}

const uint8_t *sr_grid_pixels(const sr_grid *grid, int64_t *width, int64_t *height) {
    *width = grid->width;
    *height = grid->height;
    return grid->pixels;
}

sr_status sr_grid_write_png(const sr_grid *grid, const char *path) {
    struct spng_ihdr header = {.width = (uint32_t)grid->width,
                               .height = (uint32_t)grid->height,
                               .bit_depth = 8,
                               .color_type = SPNG_COLOR_TYPE_TRUECOLOR};
    spng_ctx *png = spng_ctx_new(SPNG_CTX_ENCODER);
    if (png == NULL)
        return SR_FAIL(SR_E_MEMORY, "%s: out of memory", path);
    size_t bytes = 0;
    int error = spng_set_option(png, SPNG_ENCODE_TO_BUFFER, 1);
    if (error == 0)
        error = spng_set_ihdr(png, &header);
    if (error == 0)
        error = spng_encode_image(png, grid->pixels, (size_t)(grid->width * grid->height) * 3,
                                  SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE);
    void *data = error == 0 ? spng_get_png_buffer(png, &bytes, &error) : NULL;
    sr_status status = data ? sr_file_write_atomic(path, data, bytes)
                            : SR_FAIL(SR_E_INTERNAL, "%s: PNG: %s", path, spng_strerror(error));
    free(data); // libspng's own malloc
    spng_ctx_free(png);
    return status;
}

sr_status sr_grid_print(const sr_grid *grid, int columns, FILE *out) {
    int64_t width = columns < grid->width ? columns : grid->width;
    int64_t height = (grid->height * width / grid->width + 1) / 2 * 2;
    height = height < 2 ? 2 : height;
    uint8_t *small = sr_alloc((size_t)(width * height) * 3, "terminal picture");
    if (small == NULL)
        return SR_E_MEMORY;
    sr_pixels in = {
        .data = grid->pixels, .width = grid->width, .height = grid->height, .channels = 3};
    sr_resize job = {.width = (double)grid->width,
                     .height = (double)grid->height,
                     .output_width = width,
                     .output_height = height,
                     .window = {.width = width, .height = height}};
    sr_status status = sr_resample(grid->resampler, &in, &job, small);
    for (int64_t y = 0; status == SR_OK && y < height; y += 2) {
        for (int64_t x = 0; x < width; x++) {
            const uint8_t *a = small + 3 * (y * width + x), *b = a + 3 * width;
            (void)fprintf(out, "\x1b[38;2;%d;%d;%dm\x1b[48;2;%d;%d;%dm\xe2\x96\x80", a[0], a[1],
                          a[2], b[0], b[1], b[2]);
        }
        (void)fputs("\x1b[0m\n", out);
    }
    sr_free(small);
    return status;
}
