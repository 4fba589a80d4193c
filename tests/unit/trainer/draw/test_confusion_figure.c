// SPDX-License-Identifier: Apache-2.0
// The confusion matrix as a figure: any number of classes, names, numbers, and lists of mistakes.
#include "tests/unit/trainer/draw/plot_fixture.h"
#include "trainer/draw/figure_internal.h"
#include "trainer/draw/palette.h"
#include "trainer/tasks/confusion_figure.h"

static void draw(const sr_confusion *confusion, const char *const *classes) {
    sr_figure figure;
    assert_ok(sr_confusion_figure(confusion, classes, &figure));
    plot_draw(&figure, "confusion");
    sr_figure_release(&figure);
}

static void draws_confusion(void **state) {
    (void)state;
    static const char *const names[] = {"cat", "a class with a name that goes on and on \xc3\xa4",
                                        "dog"};
    plot_needs_cairo();
    for (int n = 1; n <= 300; n = n < 3 ? n + 1 : n * 5) {
        sr_confusion confusion;
        assert_ok(sr_confusion_create(n, &confusion));
        for (int c = 0; c < n; ++c)
            confusion.counts[(int64_t)c * n + c] = 10;
        draw(&confusion, n == 3 ? names : NULL);
        assert_true(plot_count(SR_BLUE) > 500);
        assert_true(plot_drawn.width < 1500 && plot_drawn.height < 1400);
        sr_confusion_release(&confusion);
    }
}

// A matrix without names lists its most frequent confusions.
static void lists_mistakes(void **state) {
    (void)state;
    sr_confusion confusion;
    plot_needs_cairo();
    assert_ok(sr_confusion_create(60, &confusion));
    draw(&confusion, NULL);
    assert_int_equal(plot_count(SR_RUST), 0);
    int before = 0;
    for (int pairs = 1; pairs <= 40; pairs *= 2) {
        confusion.counts[pairs] = pairs; // of class 0
        draw(&confusion, NULL);
        assert_true(plot_count(SR_RUST) > before);
        before = plot_count(SR_RUST);
    }
    for (int c = 1; c < 60; ++c)
        confusion.counts[60 * c] = 7;
    draw(&confusion, NULL);
    assert_true(plot_count(SR_RUST) > before);
    assert_true(plot_drawn.height < 1400);
    sr_confusion_release(&confusion);
}

static const sr_figure_text *find_text(const sr_figure_list *list, const char *text, int nth) {
    for (int i = 0; i < list->count; ++i)
        if (list->operations[i].kind == SR_FIGURE_TEXT &&
            strcmp(list->operations[i].as.text.text, text) == 0 && nth-- == 0)
            return &list->operations[i].as.text;
    return NULL;
}

// What is in the picture, on any machine: cells in percent of their row, each name at its row and,
// rotated, at its column, inside the picture.
static void records_cells_and_names(void **state) {
    (void)state;
    static const char *const names[] = {"cat", "a name much longer than there is room for it",
                                        "dog"};
    int64_t counts[9] = {3, 1, 0, 0, 0, 0, 0, 0, 8};
    const sr_confusion confusion = {.classes = 3, .counts = counts};
    sr_figure figure;
    sr_figure_list list;
    sr_arena arena;
    sr_arena_init(&arena);
    assert_ok(sr_confusion_figure(&confusion, names, &figure));
    assert_ok(sr_figure_unpack(&figure, &arena, &list));
    assert_non_null(find_text(&list, "91.67 % of 12 right", 0));
    assert_non_null(find_text(&list, "75", 0));
    assert_non_null(find_text(&list, "25", 0));
    assert_true(find_text(&list, "100", 0)->color == SR_WHITE); // on a strong blue
    assert_null(find_text(&list, "0.0", 0));
    for (int c = 0; c < 3; ++c) {
        const sr_figure_text *row = find_text(&list, names[c], 0);
        const sr_figure_text *column = find_text(&list, names[c], 1);
        assert_true(row->x - row->max_width >= 0 && row->rotation == 0);
        assert_true(column->rotation == 45 && column->y > row->y);
        assert_null(find_text(&list, names[c], 2));
    }
    sr_arena_release(&arena);
    sr_figure_release(&figure);
}

static void refuses_too_many_classes(void **state) {
    (void)state;
    sr_figure figure;
    assert_status(SR_E_LIMIT, sr_confusion_figure(&(sr_confusion){0}, NULL, &figure));
    assert_status(SR_E_LIMIT, sr_confusion_figure(&(sr_confusion){.classes = 4001}, NULL, &figure));
    assert_message("4001 classes");
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, plot_set_up, plot_tear_down)
    const struct CMUnitTest tests[] = {
        CASE(draws_confusion),
        CASE(lists_mistakes),
        CASE(records_cells_and_names),
        CASE(refuses_too_many_classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
