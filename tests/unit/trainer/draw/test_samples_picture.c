// SPDX-License-Identifier: Apache-2.0
// Sample grids, decoded again: pixels at their positions, verdicts, boxes, masks and captions.
#include <math.h>
#include <unistd.h>

#include "tests/unit/support/guarded_page.h"
#include "tests/unit/support/png_pixels.h"
#include "tests/unit/support/test_support.h"
#include "trainer/draw/drawing_internal.h"

static char path[] = "/tmp/serried-samples-XXXXXX";
static png_pixels decoded;
static uint32_t width, height;

static int set_up(void **state) {
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 || close(fd) != 0;
}

static int tear_down(void **state) {
    (void)state;
    png_pixels_release(&decoded);
    return unlink(path);
}

static void decode(void) {
    png_pixels_read(&decoded, path);
    width = decoded.width;
    height = decoded.height;
}

static uint32_t at(uint32_t x, uint32_t y) {
    return png_pixels_at(&decoded, x, y);
}

// Number of pixels of a colour in a region.
static int count(uint32_t color, uint32_t x, uint32_t y, uint32_t w, uint32_t h) {
    return png_pixels_count(&decoded, color, 0, x, y, w, h);
}

// Number of pixels that are not white.
static int drawn(uint32_t x, uint32_t y, uint32_t w, uint32_t h) {
    return (int)(w * h) - count(0xffffff, x, y, w, h);
}

static void small_pictures_grow_by_whole_factors(void **state) {
    (void)state;
    const uint8_t rgb[2][12] = {{255, 0, 0, 0, 255, 0, 0, 0, 255, 9, 9, 9}, {0}};
    const sr_tile tiles[] = {
        {.rgb = rgb[0], .width = 2, .height = 2, .verdict = SR_VERDICT_WRONG},
        {.rgb = rgb[1], .width = 2, .height = 2, .caption = "cat", .verdict = SR_VERDICT_RIGHT},
    };
    const sr_samples sheet = {.tiles = tiles, .count = 2, .columns = 2};
    assert_int_equal(sr_samples_write(&sheet, path), SR_OK);
    decode();
    assert_int_equal(width, 14 + 2 * (192 + 14));
    assert_int_equal(count(0xff0000, 14, 14, 192, 192), 96 * 96);
    assert_int_equal(at(14, 14), 0xff0000);
    assert_int_equal(at(14 + 191, 14), 0x00ff00);
    assert_int_equal(at(14, 14 + 191), 0x0000ff);
    assert_int_equal(at(14 + 96, 14 + 96), 0x090909);
    assert_true(count(0xd64545, 14, 206, 192, 8) >= 192 * 4); // the bar below the first
    assert_true(count(0x1c9c6c, 220, 206, 192, 8) >= 192 * 4);
    assert_true(drawn(220, 212, 192, 30) > 10); // its name
    assert_int_equal(drawn(14, 212, 192, 30), 0);
}

static void boxes_and_masks(void **state) {
    (void)state;
    static uint8_t rgb[160 * 160 * 3], mask[160 * 160];
    const char *const classes[] = {"zero", "person", "two"};
    const sr_tile_box boxes[] = {
        {.x1 = 20, .y1 = 30, .x2 = 100, .y2 = 90, .number = 0},
        {.x1 = 110, .y1 = 110, .x2 = 500, .y2 = 150, .number = 1, .label = "person 0.93"}};
    memset(mask, 255, sizeof mask); // void stays transparent
    mask[0] = 2;
    const sr_tile tile = {
        .rgb = rgb, .width = 160, .height = 160, .boxes = boxes, .box_count = 2, .mask = mask};
    sr_samples sheet = {.title = "title", .tiles = &tile, .count = 1};
    assert_int_equal(sr_samples_write(&sheet, path), SR_OK);
    decode();
    const uint32_t top = 42, without = height;
    assert_int_equal(count(0xe6194b, 0, 0, width, height), 2 * 80 * 2 + 2 * 56 * 2);
    assert_int_equal(at(14 + 20, top + 30), 0xe6194b);
    assert_int_equal(at(14 + 22, top + 32), 0x000000);
    assert_true(at(14, top) != 0 && at(15, top) == 0);
    assert_true(count(0x3cb44b, 14, top, 160, 160) > 100); // a box that crosses the edge is clipped
    assert_int_equal(drawn(174, top, 14, 160), 0);
    sheet.classes = classes;
    sheet.class_count = 3;
    assert_int_equal(sr_samples_write(&sheet, path), SR_OK);
    decode();
    assert_true(height > without);
    for (int c = 0; c < 3; c++) { // a swatch of each below
        const uint32_t colors[] = {0xe6194b, 0x3cb44b, 0x4363d8};
        assert_true(count(colors[c], 0, without, width, height - without) >= 11 * 11);
    }
}

// A sheet with every part.
typedef struct whole_sheet {
    uint8_t rgb[12 * 10 * 3], mask[12 * 10];
    sr_tile_box boxes[2];
    sr_tile_outline outline;
    sr_tile tiles[3];
    sr_picture picture;
} whole_sheet;

static void make_whole(whole_sheet *w) {
    static const float points[] = {1, 1, 9, 1, 5, 8};
    static const char *const rows[] = {"first", "second"}, *const classes[] = {"zero", "one",
                                                                               "two"};
    *w = (whole_sheet){
        .boxes = {{.x1 = 1, .y1 = 2, .x2 = 7.5f, .y2 = 9, .number = 1},
                  {.x1 = 3, .x2 = 5, .y2 = 4, .number = 2, .label = "two 0.5"}},
        .outline = {.points = points, .count = 3, .number = 2},
        .tiles = {{.rgb = w->rgb,
                   .width = 12,
                   .height = 10,
                   .caption = "a",
                   .note = "b",
                   .verdict = SR_VERDICT_WRONG,
                   .boxes = w->boxes,
                   .box_count = 2,
                   .outlines = &w->outline,
                   .outline_count = 1,
                   .mask = w->mask},
                  {.width = 3, .height = 3},
                  {.rgb = w->rgb, .width = 5, .height = 7, .verdict = SR_VERDICT_RIGHT}},
        .picture = {.kind = SR_DRAWING_SHEET,
                    .sheet = {.title = "title",
                              .tiles = w->tiles,
                              .count = 3,
                              .side = 40,
                              .row_titles = rows,
                              .classes = classes,
                              .class_count = 3}}};
    for (size_t i = 0; i < sizeof w->rgb; i++)
        w->rgb[i] = (uint8_t)(i * 7);
    memset(w->mask, 255, sizeof w->mask);
    w->mask[5] = 0;
}

// What a child that draws is given has every part of a sheet.
static void as_bytes(void **state) {
    (void)state;
    whole_sheet in;
    sr_picture out;
    sr_raster direct, again;
    sr_text bytes;
    sr_arena arena;
    make_whole(&in);
    sr_text_init(&bytes);
    sr_arena_init(&arena);
    for (int columns = 0; columns < 3; columns += 2) {
        in.picture.sheet.columns = columns;
        sr_text_clear(&bytes);
        sr_picture_encode(&in.picture, &bytes);
        assert_ok(sr_picture_decode(bytes.data, bytes.length, &arena, &out));
        assert_int_equal(out.kind, SR_DRAWING_SHEET);
        assert_ok(sr_samples_draw(&in.picture.sheet, &direct));
        assert_ok(sr_samples_draw(&out.sheet, &again));
        assert_int_equal(direct.width, again.width);
        assert_int_equal(direct.height, again.height);
        assert_memory_equal(direct.rgb, again.rgb,
                            (size_t)direct.width * (size_t)direct.height * 3);
        sr_raster_release(&direct);
        sr_raster_release(&again);
    }
    sr_arena_release(&arena);
    sr_text_release(&bytes);
}

static size_t length(const char *text) {
    return text ? strlen(text) : 0;
}

static size_t sum(const uint8_t *bytes, int64_t count) {
    size_t total = 0;
    for (int64_t i = 0; bytes && i < count; i++)
        total += bytes[i];
    return total;
}

// Reads everything that a sheet refers to.
static size_t walk(const sr_samples *sheet) {
    size_t total = length(sheet->title);
    for (int r = 0; sheet->row_titles && r < sr_samples_rows(sheet); r++)
        total += strlen(sheet->row_titles[r]);
    for (int c = 0; c < sheet->class_count; c++)
        total += strlen(sheet->classes[c]);
    for (int i = 0; i < sheet->count; i++) {
        const sr_tile *t = &sheet->tiles[i];
        total += length(t->caption) + length(t->note);
        total += sum(t->rgb, 3 * t->width * t->height) + sum(t->mask, t->width * t->height);
        for (int b = 0; b < t->box_count; b++)
            total += length(t->boxes[b].label);
        for (int o = 0; o < t->outline_count; o++)
            for (int p = 0; p < 2 * t->outlines[o].count; p++)
                total += isfinite(t->outlines[o].points[p]) != 0;
    }
    return total;
}

static bool reads(const char *bytes, size_t count) {
    sr_picture out;
    sr_arena arena;
    sr_arena_init(&arena);
    const bool good = sr_picture_decode(bytes, count, &arena, &out) == SR_OK;
    if (good && out.kind != SR_DRAWING_FIGURE)
        assert_true(walk(&out.sheet) < SIZE_MAX);
    sr_arena_release(&arena);
    return good;
}

// What is cut is refused, and nothing outside the bytes is read, whatever their numbers are.
static void damaged_bytes(void **state) {
    (void)state;
    static const int64_t wrong[] = {-1, 0, 1, 7, INT32_MAX, INT64_MAX, INT64_MIN, 1LL << 32, -8};
    whole_sheet in;
    sr_text bytes;
    int refused = 0;
    make_whole(&in);
    sr_text_init(&bytes);
    sr_picture_encode(&in.picture, &bytes);
    assert_ok(sr_text_check(&bytes));
    guarded_page g = guarded_page_make(bytes.length);
    for (size_t left = 0; left < bytes.length; left += 8)
        assert_false(reads(memcpy(g.end - left, bytes.data, left), left));
    char *copy = g.end - bytes.length;
    assert_true(reads(memcpy(copy, bytes.data, bytes.length), bytes.length));
    for (size_t at = 0; at < bytes.length; at += 8) {
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            memcpy(copy, bytes.data, bytes.length);
            memcpy(copy + at, &wrong[i], 8);
            refused += !reads(copy, bytes.length);
        }
    }
    assert_true(refused > 100);
    guarded_page_free(&g);
    sr_text_release(&bytes);
}

// Coordinates that are not numbers, or far outside: nothing is drawn outside the picture.
static void hostile_boxes(void **state) {
    (void)state;
    const float bad = NAN, far = INFINITY;
    static const uint8_t rgb[8 * 8 * 3];
    const float points[] = {bad, 1, far, -far, 3, bad, -1e30f, 2};
    const sr_tile_box boxes[] = {{.x1 = bad, .y1 = 1, .x2 = 5, .y2 = bad, .label = "a"},
                                 {.x1 = -far, .y1 = -1e30f, .x2 = far, .y2 = 1e30f, .label = "b"},
                                 {.x1 = 7, .y1 = 7, .x2 = 2, .y2 = 2, .label = "c"},
                                 {.x2 = bad, .y2 = 3, .number = 2147483647, .label = "d"}};
    const sr_tile_outline outlines[] = {{.points = points, .count = 4, .number = -5},
                                        {.points = points, .count = 0}};
    const sr_tile tile = {.rgb = rgb,
                          .width = 8,
                          .height = 8,
                          .boxes = boxes,
                          .box_count = 4,
                          .outlines = outlines,
                          .outline_count = 2};
    const sr_samples sheet = {.tiles = &tile, .count = 1, .side = 24};
    assert_int_equal(sr_samples_write(&sheet, path), SR_OK);
    decode();
    assert_int_equal(width, 24 + 2 * 14);
    assert_int_equal(drawn(0, 0, width, height), 24 * 24);
    assert_int_equal(drawn(14, 14, 24, 24), 24 * 24);
    assert_int_equal(at(14, 14), 0xe6194b); // a corner of the one without an end
}

static void an_outline(void **state) {
    (void)state;
    static const uint8_t rgb[8 * 8 * 3];
    const float triangle[] = {0, 0, 8, 0, 0, 8};
    const sr_tile_outline outline = {.points = triangle, .count = 3};
    const sr_tile tile = {
        .rgb = rgb, .width = 8, .height = 8, .outlines = &outline, .outline_count = 1};
    const sr_samples sheet = {.tiles = &tile, .count = 1, .side = 24};
    assert_int_equal(sr_samples_write(&sheet, path), SR_OK);
    decode();
    for (uint32_t i = 0; i < 24; i++) {
        assert_int_equal(at(14 + i, 14), 0xe6194b);
        assert_int_equal(at(14, 14 + i), 0xe6194b);
        assert_int_equal(at(14 + i, 37 - i), 0xe6194b);
    }
    assert_int_equal(at(14 + 6, 14 + 6), 0);
    assert_int_equal(at(14 + 22, 14 + 22), 0);
}

// Aspect ratios are kept, whether a picture is reduced or enlarged; an empty tile stays white.
static void aspect_ratio(void **state) {
    (void)state;
    static uint8_t rgb[640 * 480 * 3];
    const sr_tile tiles[] = {{.rgb = rgb, .width = 640, .height = 480},
                             {.rgb = NULL},
                             {.rgb = rgb, .width = 16, .height = 12},
                             {.rgb = rgb, .width = 3, .height = 640}};
    const char *const titles[] = {"first", "second"};
    const sr_samples sheet = {.tiles = tiles, .count = 4, .columns = 2, .row_titles = titles};
    assert_int_equal(sr_samples_write(&sheet, path), SR_OK);
    decode();
    const uint32_t row = 192 + 14 + 28;
    assert_int_equal(width, 14 + 2 * (192 + 14));
    assert_int_equal(height, 14 + 2 * row);
    assert_int_equal(count(0, 14, 14 + 28, 192, 192), 192 * 144);
    assert_int_equal(count(0, 14 + 206, 14 + 28, 192, 192), 0);
    assert_int_equal(count(0, 14, 14 + row + 28, 192, 192), 192 * 144);
    assert_int_equal(count(0, 14 + 206, 14 + row + 28, 192, 192), 192);
}

// The suffix selects the format.
static void formats(void **state) {
    (void)state;
    static const uint8_t rgb[3];
    const sr_tile tile = {.rgb = rgb, .width = 1, .height = 1};
    const sr_samples sheet = {.tiles = &tile, .count = 1};
    const struct {
        const char *suffix, *head;
    } cases[] = {{".png", "\x89PNG"},
                 {".PNG", "\x89PNG"},
                 {".jpg", "\xff\xd8"},
                 {".jpeg", "\xff\xd8"},
                 {"", "\x89PNG"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[64];
        void *data;
        size_t bytes;
        (void)snprintf(name, sizeof name, "%s-file%s", path, cases[i].suffix);
        assert_int_equal(sr_samples_write(&sheet, name), SR_OK);
        assert_int_equal(sr_file_read(name, 1 << 20, &data, &bytes), SR_OK);
        assert_memory_equal(data, cases[i].head, strlen(cases[i].head));
        sr_free(data);
        (void)unlink(name);
    }
    assert_int_equal(sr_samples_write(&sheet, "/tmp/x.gif"), SR_E_USAGE);
    assert_non_null(strstr(sr_error_message(), "as .png or .jpg, not as .gif"));
}

static void terminal(void **state) {
    (void)state;
    static uint8_t rgb[10 * 10 * 3];
    const sr_raster raster = {.width = 10, .height = 10, .rgb = rgb};
    void *data;
    size_t bytes;
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_int_equal(sr_raster_print(&raster, 5, out), SR_OK);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(sr_file_read(path, 1 << 20, &data, &bytes), SR_OK);
    int lines = 0, blocks = 0;
    for (const char *c = data; *c != 0; c++) {
        lines += *c == '\n';
        blocks += memcmp(c, "\x1b[48;2;0;0;0m", 13) == 0;
    }
    assert_int_equal(lines, 3);
    assert_int_equal(blocks, 5 * 3);
    sr_free(data);
}

static void refuses_nothing_to_draw(void **state) {
    (void)state;
    const uint8_t rgb[3] = {0};
    const sr_tile tile = {.rgb = rgb, .width = 0, .height = 1};
    assert_int_equal(sr_samples_write(&(sr_samples){.tiles = &tile}, path), SR_E_ARGUMENT);
    assert_int_equal(sr_samples_write(&(sr_samples){.tiles = &tile, .count = 1}, path),
                     SR_E_ARGUMENT);
}

// Captions longer than any tile, empty, in other scripts: nothing is drawn outside the tile.
static void any_caption(void **state) {
    (void)state;
    char longest[3000];
    const uint8_t rgb[3] = {0};
    memset(longest, 'W', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    const char *const captions[] = {longest, "", "\xc3\xa4\xe4\xb8\xad\xff\x80", "\t\n\x7f"};
    sr_tile tiles[4];
    for (int i = 0; i < 4; ++i)
        tiles[i] = (sr_tile){
            .rgb = rgb, .width = 1, .height = 1, .caption = captions[i], .note = captions[i]};
    const sr_samples sheet = {.title = longest, .tiles = tiles, .count = 4};
    assert_int_equal(sr_samples_write(&sheet, path), SR_OK);
    decode();
    assert_int_equal(drawn(206, 50, 14, height - 50), 0); // the gap between two tiles
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_pictures_grow_by_whole_factors),
        cmocka_unit_test(boxes_and_masks),
        cmocka_unit_test(as_bytes),
        cmocka_unit_test(damaged_bytes),
        cmocka_unit_test(hostile_boxes),
        cmocka_unit_test(an_outline),
        cmocka_unit_test(aspect_ratio),
        cmocka_unit_test(formats),
        cmocka_unit_test(terminal),
        cmocka_unit_test(refuses_nothing_to_draw),
        cmocka_unit_test(any_caption),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
