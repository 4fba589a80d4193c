// SPDX-License-Identifier: Apache-2.0
// The curves of a run: in the specified size, with their colours; malformed metrics files do no
// harm.
#include <math.h>

#include "tests/unit/trainer/draw/plot_fixture.h"
#include "trainer/draw/figure_internal.h"
#include "trainer/draw/palette.h"
#include "trainer/draw/plots.h"
#include "trainer/report/csv_file.h"
#include "trainer/report/results_plot.h"

static char csv_path[300];

static int set_up(void **state) {
    plot_set_up(state);
    (void)snprintf(csv_path, sizeof csv_path, "%s/metrics.csv", plot_folder);
    return 0;
}

static void write_metrics(int rows, double epochs) {
    enum { STEP, SAMPLES, EPOCH, LOSS, LR, RATE, VAL_LOSS, VAL_TOP1, VAL_TOP5, COLUMNS };
    static const char *const names[COLUMNS] = {"step",       "samples",  "epoch",
                                               "train/loss", "lr",       "images_per_s",
                                               "val/loss",   "val/top1", "val/top5"};
    sr_csv *csv;
    assert_int_equal(sr_csv_open(csv_path, names, COLUMNS, 1, -1, &csv), SR_OK);
    for (int i = 1; i <= rows; ++i) {
        double row[COLUMNS] = {[STEP] = i,
                               [SAMPLES] = 64 * i,
                               [EPOCH] = epochs * i / rows,
                               [LOSS] = 2.3 / i + (i % 3) * 0.1,
                               [LR] = 0.1,
                               [RATE] = 1000,
                               [VAL_LOSS] = i % 10 == 0 ? 2.5 / i : (double)NAN,
                               [VAL_TOP1] = i % 10 == 0 ? 1.0 - 0.5 / i : (double)NAN,
                               [VAL_TOP5] = (double)NAN};
        assert_int_equal(sr_csv_add_numbers(csv, row), SR_OK);
    }
    sr_csv_close(csv);
}

static const sr_column columns[] = {
    {.name = "step"},
    {.name = "epoch"},
    {"train/loss", "loss", SR_UNIT_LOSS, SR_BETTER_LOWER},
    {"train/top1", "top-1", SR_UNIT_FRACTION, SR_BETTER_HIGHER},
    {.name = "lr"},
    {.name = "images_per_s"},
    {.name = "data_wait", .unit = SR_UNIT_FRACTION},
    {"val/loss", "loss", SR_UNIT_LOSS, SR_BETTER_LOWER},
    {"val/top1", "top-1", SR_UNIT_FRACTION, SR_BETTER_HIGHER},
    {"val/top5", "top-5", SR_UNIT_FRACTION, SR_BETTER_HIGHER},
};
static const sr_results results = {.folder = plot_folder,
                                   .columns = columns,
                                   .count = sizeof columns / sizeof *columns,
                                   .fractions = "Hits",
                                   .best = &columns[8]};

static void draw_results(void) {
    sr_figure figure;
    assert_ok(sr_results_figure(&results, &figure));
    plot_draw(&figure, "results");
    sr_figure_release(&figure);
}

static void draws_results(void **state) {
    (void)state;
    plot_needs_cairo();
    write_metrics(100, 10);
    draw_results();
    assert_int_equal(plot_drawn.width, 1200);
    assert_int_equal(plot_drawn.height, 800);
    assert_true(plot_count(SR_BLUE) > 200);   // train loss
    assert_true(plot_count(SR_ORANGE) > 100); // val
    assert_true(plot_count(SR_PURPLE) > 100); // lr
    assert_true(plot_count(SR_WHITE) > 1200 * 800 * 8 / 10);
}

// Runs of less than two epochs are drawn over steps, whatever fraction of an epoch these are.
static void axis_of_steps(void **state) {
    (void)state;
    const double epochs[] = {0.5, 1.5, 2};
    sr_figure figures[3];
    for (int i = 0; i < 3; ++i) {
        write_metrics(20, epochs[i]);
        assert_ok(sr_results_figure(&results, &figures[i]));
        assert_ok(sr_figure_check(&figures[i]));
    }
    const sr_text *a = &figures[0].operations, *b = &figures[1].operations;
    const sr_text *c = &figures[2].operations;
    assert_int_equal(a->length, b->length);
    assert_memory_equal(a->data, b->data, a->length);
    assert_true(a->length != c->length || memcmp(a->data, c->data, a->length) != 0);
    for (int i = 0; i < 3; ++i)
        sr_figure_release(&figures[i]);
}

static void put(const char *text) {
    assert_int_equal(sr_file_write_atomic(csv_path, text, strlen(text)), SR_OK);
}

static void odd_metrics(void **state) {
    (void)state;
    sr_figure figure;
    plot_needs_cairo();
    assert_status(SR_E_NOT_FOUND, sr_results_figure(&results, &figure));
    for (int rows = 0; rows < 3; ++rows) {
        write_metrics(rows, 1);
        draw_results();
    }
    static const char *const texts[] = {
        "a,b\n1,2\n", // no known column
        "epoch,train/loss\n0,0\n1,0\n2,0\n",
        "epoch,train/loss\n0,1e308\n1,-1e308\n2,inf\n3,nan\n",
        "epoch,train/loss\n5,1e-300\n5,2e-300\n5,1e-300\n",
        "epoch,train/loss\n-3,-7\n-2,-8\n",
        "epoch,train/loss\n1,1e16\n1.0000000000000002,10000000000000002\n",
        "samples,val/loss,val/a,val/top1\n1,2,3,4\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
        put(texts[i]);
        draw_results();
        assert_true(plot_count(SR_INK) > 100); // titles
    }
}

static void unpack(const sr_results *run, sr_figure *figure, sr_arena *arena, sr_figure_list *out) {
    assert_ok(sr_results_figure(run, figure));
    assert_ok(sr_figure_unpack(figure, arena, out));
    assert_int_equal(out->count, 6); // two texts, four panels
}

static void check_series(const sr_figure_list *list, int panel, int at, const char *name,
                         uint32_t color, double last) {
    const sr_panel *p = &list->operations[2 + panel].as.panel;
    assert_in_range(at, 0, p->series_count - 1);
    const sr_panel_series *s = &p->series[at];
    assert_string_equal(s->name, name);
    assert_int_equal(s->color, color);
    assert_true(fabs(s->y[s->count - 1] - last) < 1e-9);
}

static int series_of(const sr_figure_list *list, int panel) {
    return list->operations[2 + panel].as.panel.series_count;
}

// What columns are follows from their units, not from their names; fractions are shown in percent.
static void columns_by_unit(void **state) {
    (void)state;
    sr_figure figure;
    sr_figure_list list;
    sr_arena arena;
    sr_arena_init(&arena);
    put("step,samples,epoch,train/loss,train/top1,lr,images_per_s,data_wait,val/loss,val/top1,val/"
        "top5\n"
        "1,8,1,2.5,0.25,0.5,100,0.125,2.75,0.5,0.75\n"
        "2,16,2,1.5,0.5,0.25,200,0.25,1.75,0.375,0.875\n");
    unpack(&results, &figure, &arena, &list);
    assert_non_null(strstr(list.operations[1].as.text.text, "2 steps   \xc2\xb7   16 images"));
    assert_non_null(strstr(list.operations[1].as.text.text, "best top-1 50.00 %"));
    check_series(&list, 0, 0, "train", SR_BLUE, 1.5);
    check_series(&list, 0, 1, "val", SR_ORANGE, 1.75);
    check_series(&list, 1, 0, "train top-1", SR_BLUE, 50);
    check_series(&list, 1, 1, "val top-1", SR_ORANGE, 37.5);
    check_series(&list, 1, 2, "val top-5", SR_GREEN, 87.5);
    assert_string_equal(list.operations[3].as.panel.title, "Hits, %");
    check_series(&list, 2, 0, "lr", SR_PURPLE, 0.25);
    check_series(&list, 3, 0, "all ranks", SR_GREEN, 200);
    assert_int_equal(series_of(&list, 0) * 1000 + series_of(&list, 1) * 100 +
                         series_of(&list, 2) * 10 + series_of(&list, 3),
                     2311);
    sr_figure_release(&figure);
    sr_arena_release(&arena);
}

// Several phases, and a metric that is no fraction.
static void columns_of_phases(void **state) {
    (void)state;
    static const sr_column own[] = {
        {"train/D.loss", "loss", SR_UNIT_LOSS, SR_BETTER_LOWER},
        {"train/G.loss", "loss", SR_UNIT_LOSS, SR_BETTER_LOWER},
        {.name = "D.lr"},
        {.name = "G.lr"},
        {"val/fid", "FID", SR_UNIT_NUMBER, SR_BETTER_LOWER},
    };
    const sr_results run = {.folder = plot_folder, .columns = own, .count = 5, .best = &own[4]};
    sr_figure figure;
    sr_figure_list list;
    sr_arena arena;
    sr_arena_init(&arena);
    put("step,train/D.loss,train/G.loss,D.lr,G.lr,val/fid\n1,0.5,0.75,0.25,0.125,60\n"
        "2,0.25,0.5,0.25,0.125,70.5\n");
    unpack(&run, &figure, &arena, &list);
    assert_non_null(strstr(list.operations[1].as.text.text, "best FID 60"));
    check_series(&list, 0, 0, "train D", SR_BLUE, 0.25);
    check_series(&list, 0, 1, "train G", SR_ORANGE, 0.5);
    check_series(&list, 1, 0, "val FID", SR_ORANGE, 70.5);
    check_series(&list, 2, 0, "D.lr", SR_PURPLE, 0.25);
    check_series(&list, 2, 1, "G.lr", SR_ORANGE, 0.125);
    assert_string_equal(list.operations[3].as.panel.title, "Measures");
    sr_figure_release(&figure);
    sr_arena_release(&arena);
}

// A build without cairo records figures, and reports that it does not draw them.
static void recorded_without_cairo(void **state) {
    (void)state;
    sr_figure figure;
    write_metrics(20, 2);
    assert_ok(sr_results_figure(&results, &figure));
    assert_ok(sr_figure_check(&figure));
    if (!sr_plots_available(NULL)) {
        assert_status(SR_E_UNSUPPORTED, sr_figure_write(&figure, plot_folder, "results"));
        assert_message("results.png");
        assert_message("cairo");
    }
    sr_figure_release(&figure);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, plot_tear_down)
    const struct CMUnitTest tests[] = {
        CASE(draws_results),   CASE(odd_metrics),       CASE(axis_of_steps),
        CASE(columns_by_unit), CASE(columns_of_phases), CASE(recorded_without_cairo),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
