// SPDX-License-Identifier: Apache-2.0
// Figures: operations as bytes and back, damaged bytes, what is refused, and how each kind is
// drawn.
#include <math.h>

#include "tests/unit/support/guarded_page.h"
#include "tests/unit/trainer/draw/plot_fixture.h"
#include "trainer/draw/drawing.h"
#include "trainer/draw/drawing_internal.h"
#include "trainer/draw/figure_internal.h"
#include "trainer/draw/palette.h"

static const uint8_t pixels[2][3][3] = {{{255, 0, 0}, {0, 255, 0}, {0, 0, 255}},
                                        {{9, 8, 7}, {255, 255, 0}, {1, 2, 3}}};
static const double zigzag[] = {10, 20, 110, 20, 110, 60};
static const double values[] = {0, 5, 1, (double)NAN, 2, 7, 3, 6}; // x, y of each point

static sr_panel make_panel(double x, const sr_panel_series *series) {
    return (sr_panel){.title = "Panel",
                      .x_title = "step",
                      .x = x,
                      .y = 10,
                      .width = 300,
                      .height = 200,
                      .x_unit = 1,
                      .from_zero = true,
                      .cap = 9,
                      .series = series,
                      .series_count = 1};
}

static sr_panel_series make_series(void) {
    return (sr_panel_series){.name = "train",
                             .color = SR_BLUE,
                             .x = values,
                             .y = values + 1,
                             .stride = 2,
                             .count = 4,
                             .marks = true};
}

// One operation of each kind.
static void record_all(sr_figure *figure) {
    const sr_panel_series series = make_series();
    sr_figure_init(figure, 700, 400);
    sr_figure_add_rectangle(figure, (sr_figure_rectangle){1, 2, 30.5, 40, SR_GREEN});
    sr_figure_add_text(figure, (sr_figure_text){.text = "gr\xc3\xbc\xc3\x9f",
                                                .x = 5,
                                                .y = 6,
                                                .size = 12,
                                                .max_width = 90,
                                                .rotation = 45,
                                                .color = SR_INK,
                                                .align = SR_ALIGN_RIGHT,
                                                .bold = true});
    sr_figure_add_line(figure, (sr_figure_line){zigzag, 3, 2.5, SR_RED});
    sr_figure_add_pixels(figure, (sr_figure_pixels){.x = 50,
                                                    .y = 60,
                                                    .width = 30,
                                                    .height = 40,
                                                    .rgb = &pixels[0][0][0],
                                                    .rows = 2,
                                                    .columns = 3});
    sr_figure_add_panel(figure, make_panel(0, &series));
}

static void check_panel(const sr_panel *panel) {
    const sr_panel wanted = make_panel(0, NULL);
    const sr_panel_series *s = panel->series;
    assert_string_equal(panel->title, wanted.title);
    assert_string_equal(panel->x_title, wanted.x_title);
    assert_true(panel->x == 0 && panel->y == 10 && panel->width == 300 && panel->height == 200);
    assert_true(panel->x_unit == 1 && panel->from_zero && panel->cap == 9);
    assert_int_equal(panel->series_count, 1);
    assert_string_equal(s->name, "train");
    assert_true(s->color == SR_BLUE && s->marks && !s->smooth && s->stride == 1 && s->count == 4);
    for (int i = 0; i < 4; ++i) {
        assert_memory_equal(&s->x[i], &values[2 * i], sizeof(double));
        assert_memory_equal(&s->y[i], &values[2 * i + 1], sizeof(double));
    }
}

static void check_all(const sr_figure_list *list) {
    const sr_figure_operation *o = list->operations;
    assert_int_equal(list->width, 700);
    assert_int_equal(list->height, 400);
    assert_int_equal(list->count, 5);
    for (int i = 0; i < 5; ++i)
        assert_int_equal(o[i].kind, i);
    const sr_figure_rectangle *r = &o[0].as.rectangle;
    assert_true(r->x == 1 && r->y == 2 && r->width == 30.5 && r->height == 40);
    assert_int_equal(r->color, SR_GREEN);
    const sr_figure_text *t = &o[1].as.text;
    assert_string_equal(t->text, "gr\xc3\xbc\xc3\x9f");
    assert_true(t->x == 5 && t->y == 6 && t->size == 12 && t->max_width == 90);
    assert_true(t->rotation == 45 && t->bold && t->align == SR_ALIGN_RIGHT && t->color == SR_INK);
    const sr_figure_line *l = &o[2].as.line;
    assert_true(l->count == 3 && l->width == 2.5 && l->color == SR_RED);
    assert_memory_equal(l->points, zigzag, sizeof zigzag);
    const sr_figure_pixels *p = &o[3].as.pixels;
    assert_true(p->x == 50 && p->y == 60 && p->width == 30 && p->height == 40);
    assert_true(p->rows == 2 && p->columns == 3);
    assert_memory_equal(p->rgb, pixels, sizeof pixels);
    check_panel(&o[4].as.panel);
}

// As bytes for a child, and back, everything is the same.
static void round_trip(void **state) {
    (void)state;
    sr_picture in = {.kind = SR_DRAWING_FIGURE, .path = "a folder", .name = "a name"}, out;
    sr_figure_list list;
    sr_arena arena;
    sr_text bytes;
    sr_arena_init(&arena);
    sr_text_init(&bytes);
    record_all(&in.figure);
    assert_ok(sr_figure_check(&in.figure));
    sr_picture_encode(&in, &bytes);
    assert_ok(sr_picture_decode(bytes.data, bytes.length, &arena, &out));
    assert_int_equal(out.kind, SR_DRAWING_FIGURE);
    assert_string_equal(out.path, "a folder");
    assert_string_equal(out.name, "a name");
    assert_ok(sr_figure_unpack(&out.figure, &arena, &list));
    check_all(&list);
    sr_text_release(&bytes);
    sr_arena_release(&arena);
    sr_figure_release(&in.figure);
}

// -- damage ------------------------------------------------------------------------------------

static double sum(const double *numbers, int64_t count) {
    double total = 0;
    for (int64_t i = 0; i < count; ++i)
        total += numbers[i];
    return total;
}

// Reads everything that a list refers to.
static double walk(const sr_figure_list *list) {
    double total = 0;
    for (int i = 0; i < list->count; ++i) {
        const sr_figure_operation *o = &list->operations[i];
        if (o->kind == SR_FIGURE_TEXT)
            total += (double)strlen(o->as.text.text);
        if (o->kind == SR_FIGURE_LINE)
            total += sum(o->as.line.points, 2 * o->as.line.count);
        for (int p = 0;
             o->kind == SR_FIGURE_PIXELS && p < 3 * o->as.pixels.rows * o->as.pixels.columns; ++p)
            total += o->as.pixels.rgb[p];
        for (int s = 0; o->kind == SR_FIGURE_PANEL && s < o->as.panel.series_count; ++s) {
            const sr_panel_series *series = &o->as.panel.series[s];
            total += (double)strlen(series->name) + sum(series->x, series->count) +
                     sum(series->y, series->count);
        }
    }
    return total;
}

// Whether the bytes can be drawn. All that a picture refers to is read.
static bool reads(const void *bytes, size_t count) {
    sr_picture picture;
    sr_figure_list list;
    sr_arena arena;
    sr_arena_init(&arena);
    bool good = sr_picture_decode(bytes, count, &arena, &picture) == SR_OK &&
                picture.kind == SR_DRAWING_FIGURE &&
                sr_figure_unpack(&picture.figure, &arena, &list) == SR_OK;
    if (good)
        (void)isnan(walk(&list));
    sr_arena_release(&arena);
    return good;
}

static void encode_all(sr_text *out) {
    sr_picture picture = {.kind = SR_DRAWING_FIGURE, .path = "folder", .name = "name"};
    record_all(&picture.figure);
    sr_picture_encode(&picture, out);
    assert_ok(sr_text_check(out));
    sr_figure_release(&picture.figure);
}

// What is cut is refused at every length.
static void refuses_cut_bytes(void **state) {
    (void)state;
    sr_text bytes;
    sr_text_init(&bytes);
    encode_all(&bytes);
    guarded_page g = guarded_page_make(bytes.length);
    for (size_t left = 0; left < bytes.length; ++left) {
        char *begin = g.end - (left + 7) / 8 * 8;
        memcpy(begin, bytes.data, left);
        assert_false(reads(begin, left));
    }
    memcpy(g.end - bytes.length, bytes.data, bytes.length);
    assert_true(reads(g.end - bytes.length, bytes.length));
    guarded_page_free(&g);
    sr_text_release(&bytes);
}

// Any number may be any other, and any byte: nothing outside is read, and most damage is refused.
static void damaged_numbers(void **state) {
    (void)state;
    static const int64_t wrong[] = {-1,        0,         1,         7,     INT32_MAX, INT64_MAX,
                                    INT64_MIN, 1LL << 32, 1LL << 40, 16384, -8};
    sr_text bytes;
    int refused = 0, all = 0;
    sr_text_init(&bytes);
    encode_all(&bytes);
    guarded_page g = guarded_page_make(bytes.length);
    char *copy = g.end - bytes.length;
    for (size_t at = 0; at < bytes.length; at += 8) {
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i, ++all) {
            memcpy(copy, bytes.data, bytes.length);
            memcpy(copy + at, &wrong[i], 8);
            refused += !reads(copy, bytes.length);
        }
    }
    for (size_t at = 0; at < bytes.length; ++at) {
        for (int bit = 0; bit < 8; ++bit) {
            memcpy(copy, bytes.data, bytes.length);
            copy[at] ^= (char)(1 << bit);
            (void)reads(copy, bytes.length);
        }
    }
    assert_true(2 * refused > all);
    guarded_page_free(&g);
    sr_text_release(&bytes);
}

// -- what is refused -----------------------------------------------------------------------------

static void check_refused(sr_figure *figure, const char *kind) {
    assert_status(SR_E_ARGUMENT, sr_figure_check(figure));
    assert_message("operation 0 of a figure");
    assert_message(kind);
    sr_figure_release(figure);
    sr_figure_init(figure, 100, 100);
}

static void refuses_invalid_operations(void **state) {
    (void)state;
    sr_figure f;
    const double far[] = {0, (double)INFINITY};
    sr_panel_series series = make_series();
    sr_panel panel = make_panel((double)NAN, &series);
    sr_figure_init(&f, 100, 100);
    assert_ok(sr_figure_check(&f));
    sr_figure_add_rectangle(&f, (sr_figure_rectangle){.x = (double)NAN});
    check_refused(&f, "rectangle");
    sr_figure_add_rectangle(&f, (sr_figure_rectangle){.color = 0x1000000});
    check_refused(&f, "rectangle");
    sr_figure_add_text(&f, (sr_figure_text){.size = 12});
    check_refused(&f, "text");
    sr_figure_add_text(&f, (sr_figure_text){.text = "no size"});
    check_refused(&f, "text");
    sr_figure_add_text(&f, (sr_figure_text){.text = "huge", .size = 1001});
    check_refused(&f, "text");
    sr_figure_add_line(&f, (sr_figure_line){.points = far, .count = 1, .width = 1});
    check_refused(&f, "line");
    sr_figure_add_line(&f, (sr_figure_line){.count = 2, .width = 1});
    check_refused(&f, "line");
    sr_figure_add_pixels(&f, (sr_figure_pixels){.width = 1, .height = 1, .rows = 1, .columns = 1});
    check_refused(&f, "picture");
    sr_figure_add_pixels(&f, (sr_figure_pixels){.rgb = &pixels[0][0][0], .rows = 1, .columns = 1});
    check_refused(&f, "picture");
    sr_figure_add_panel(&f, panel);
    check_refused(&f, "panel");
    panel = make_panel(0, &series);
    series.name = NULL;
    sr_figure_add_panel(&f, panel);
    check_refused(&f, "panel");
    sr_figure_release(&f);
}

static void refuses_sizes(void **state) {
    (void)state;
    static const int sizes[][2] = {{0, 5}, {5, -1}, {SR_FIGURE_SIDE + 1, 5}, {5, INT32_MAX}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        sr_figure f;
        sr_figure_init(&f, sizes[i][0], sizes[i][1]);
        assert_status(SR_E_LIMIT, sr_figure_check(&f));
    }
}

// A failure to record, anywhere, is found by the check.
static void reports_lost_memory(void **state) {
    (void)state;
    int failures = 0;
    for (uint64_t n = 1; n < 100 && failures == (int)n - 1; ++n) {
        sr_figure f;
        sr_memory_fail_nth(n);
        record_all(&f);
        sr_memory_fail_nth(0);
        failures += sr_figure_check(&f) == SR_E_MEMORY;
        sr_figure_release(&f);
    }
    assert_in_range(failures, 1, 98);
}

// -- drawing -----------------------------------------------------------------------------------

static int count(uint32_t color, uint32_t x, uint32_t y, uint32_t width, uint32_t height) {
    return png_pixels_count(&plot_drawn, color, 0, x, y, width, height);
}

static int inked(uint32_t x, uint32_t y, uint32_t width, uint32_t height) {
    return (int)(width * height) - count(SR_WHITE, x, y, width, height);
}

static void draws_rectangles_and_pixels(void **state) {
    (void)state;
    sr_figure f;
    plot_needs_cairo();
    sr_figure_init(&f, 200, 100);
    sr_figure_add_rectangle(&f, (sr_figure_rectangle){10, 20, 30, 40, SR_TEAL});
    sr_figure_add_pixels(&f, (sr_figure_pixels){.x = 60,
                                                .y = 20,
                                                .width = 60,
                                                .height = 20,
                                                .rgb = &pixels[0][0][0],
                                                .rows = 2,
                                                .columns = 3});
    sr_figure_add_rectangle(&f, (sr_figure_rectangle){115, 35, 10, 10, SR_INK}); // on top
    plot_draw(&f, "rectangles");
    assert_int_equal(count(SR_TEAL, 10, 20, 30, 40), 30 * 40);
    assert_int_equal(inked(0, 0, 60, 100), 30 * 40);
    for (uint32_t j = 0; j < 2; ++j) {
        for (uint32_t i = 0; i < 3; ++i) {
            const uint8_t *p = pixels[j][i];
            const uint32_t color = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
            assert_int_equal(count(color, 60 + 20 * i, 20 + 10 * j, 20, 10),
                             i == 2 && j == 1 ? 20 * 10 - 5 * 5 : 20 * 10);
        }
    }
    assert_int_equal(count(SR_INK, 115, 35, 10, 10), 10 * 10);
    assert_int_equal(inked(60, 0, 140, 100), 60 * 20 + 10 * 10 - 5 * 5);
    sr_figure_release(&f);
}

static void draws_lines(void **state) {
    (void)state;
    sr_figure f;
    plot_needs_cairo();
    sr_figure_init(&f, 200, 100);
    sr_figure_add_text(&f, (sr_figure_text){.text = " ", .x = 2, .y = 90, .size = 12});
    sr_figure_add_line(&f, (sr_figure_line){zigzag, 3, 4, SR_RED});
    plot_draw(&f, "lines");
    assert_int_equal(count(SR_RED, 12, 18, 96, 4), 96 * 4);
    assert_int_equal(count(SR_RED, 108, 24, 4, 34), 34 * 4);
    assert_int_equal(inked(0, 24, 107, 76), 0);
    assert_int_equal(inked(0, 63, 200, 37), 0);
    sr_figure_release(&f);
}

static void draws_texts(void **state) {
    (void)state;
    sr_figure f;
    sr_figure_text text = {
        .text = "a text of words", .x = 200, .y = 100, .size = 16, .color = SR_INK};
    plot_needs_cairo();
    for (int align = SR_ALIGN_LEFT; align <= SR_ALIGN_RIGHT; ++align) {
        sr_figure_init(&f, 400, 200);
        text.align = (sr_align)align;
        sr_figure_add_text(&f, text);
        plot_draw(&f, "texts");
        const int left = inked(0, 0, 200, 200), right = inked(200, 0, 200, 200);
        assert_int_equal(left > 100, align != SR_ALIGN_LEFT);
        assert_int_equal(right > 100, align != SR_ALIGN_RIGHT);
        assert_int_equal(inked(0, 0, 400, 80) + inked(0, 108, 400, 92), 0);
        sr_figure_release(&f);
    }
}

// A text that rises to the right, one that is cut, and one that is bold.
static void draws_styles_of_text(void **state) {
    (void)state;
    sr_figure f;
    sr_figure_text text = {
        .text = "mmmmmmmmmmmm", .x = 20, .y = 180, .size = 16, .rotation = 90, .color = SR_INK};
    plot_needs_cairo();
    sr_figure_init(&f, 400, 200);
    sr_figure_add_text(&f, text);
    text.rotation = 0;
    text.x = 100;
    text.y = 50;
    text.max_width = 60;
    sr_figure_add_text(&f, text);
    text.y = 100;
    text.max_width = 0;
    sr_figure_add_text(&f, text);
    text.y = 150;
    text.bold = true;
    sr_figure_add_text(&f, text);
    plot_draw(&f, "styles");
    assert_true(inked(0, 60, 24, 100) > 100);
    assert_int_equal(inked(26, 0, 70, 200), 0);
    assert_true(inked(100, 30, 61, 22) > 100);
    assert_int_equal(inked(161, 30, 239, 22), 0);
    assert_true(inked(161, 80, 239, 22) > 100);
    assert_true(inked(100, 130, 300, 22) > inked(100, 80, 300, 22));
    sr_figure_release(&f);
}

// What was drawn before leaves no trace: two panels of the same values are the same pixels.
static void draws_panels(void **state) {
    (void)state;
    sr_figure f;
    const sr_panel_series series = make_series();
    plot_needs_cairo();
    sr_figure_init(&f, 800, 220);
    sr_figure_add_panel(&f, make_panel(20, &series));
    sr_figure_add_line(&f, (sr_figure_line){zigzag, 1, 9, SR_RED});
    sr_figure_add_panel(&f, make_panel(420, &series));
    plot_draw(&f, "panels");
    assert_true(count(SR_BLUE, 420, 10, 300, 200) > 100);
    assert_true(count(SR_INK, 420, 10, 300, 20) > 20); // title
    assert_true(count(SR_GRID, 420, 40, 300, 140) > 300);
    for (uint32_t y = 0; y < 220; ++y)
        assert_memory_equal(plot_drawn.rgb + 3 * ((size_t)y * 800 + 150),
                            plot_drawn.rgb + 3 * ((size_t)y * 800 + 550), 3 * (size_t)250);
    sr_figure_release(&f);
}

// The estimate is near to the width in the font that is used here.
static void estimates_widths(void **state) {
    (void)state;
    static const char *const texts[] = {
        "arrow",      "Golden retriever",          "illicit filly", "MAMMOTH",
        "0123456789", "container ship, freighter", "gr\xc3\xbcn",   "tench (Tinca tinca)"};
    plot_needs_cairo();
    for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
        const double measured = sr_raster_text_width(12, texts[i]);
        const double estimated = sr_figure_text_width(12, texts[i]);
        if (fabs(estimated - measured) > 0.25 * measured + 3)
            fail_msg("%s: %.1f, estimated %.1f", texts[i], measured, estimated);
    }
    assert_true(sr_figure_text_width(24, "word") == 2 * sr_figure_text_width(12, "word"));
    assert_true(sr_figure_text_width(10, "\xe4\xb8\xad\xe6\x96\x87") == 20);
    assert_true(sr_figure_text_width(10, "\xe4\xb8") > 0); // invalid UTF-8
}

static int notified;

static void count_drawn(void *user, const char *folder, const char *name, int64_t step) {
    notified += user == &notified && strcmp(folder, plot_folder) == 0 &&
                strcmp(name, "all.png") == 0 && step == 7;
}

// Asked for in a run: who waits for pictures is told of one that was drawn, and one that cannot be
// drawn is a picture that was missed.
static void drawn_for_a_run(void **state) {
    (void)state;
    sr_drawing *drawing;
    sr_figure f;
    plot_needs_cairo();
    notified = 0;
    assert_ok(sr_drawing_create(&drawing));
    sr_drawing_notify(drawing, count_drawn, &notified);
    sr_drawing_set_step(drawing, 7);
    record_all(&f);
    sr_drawing_figure(NULL, &f, "nothing", plot_folder);
    sr_drawing_figure(drawing, &f, "all", plot_folder);
    assert_int_equal(notified, 1);
    assert_true(sr_drawing_finish(drawing, 1));
    sr_figure_add_text(&f, (sr_figure_text){.text = "no size"});
    sr_drawing_figure(drawing, &f, "all", plot_folder);
    assert_message("operation 5 of a figure (text)");
    assert_int_equal(notified, 1);
    assert_false(sr_drawing_finish(drawing, 1));
    sr_drawing_free(drawing);
    sr_figure_release(&f);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, plot_set_up, plot_tear_down)
    const struct CMUnitTest tests[] = {
        CASE(round_trip),
        CASE(refuses_cut_bytes),
        CASE(damaged_numbers),
        CASE(refuses_invalid_operations),
        CASE(refuses_sizes),
        CASE(reports_lost_memory),
        CASE(draws_rectangles_and_pixels),
        CASE(draws_lines),
        CASE(draws_texts),
        CASE(draws_styles_of_text),
        CASE(draws_panels),
        CASE(estimates_widths),
        CASE(drawn_for_a_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
