// SPDX-License-Identifier: Apache-2.0
// The curves of several runs, each in the run's colour (compare_plot.h).
#include "trainer/report/compare_plot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/log.h"
#include "trainer/report/results_internal.h"

enum { SERIES_MAX = 2 * SR_COMPARED_RUNS };

typedef struct comparison {
    const sr_comparison *of;
    sr_csv_table tables[SR_COMPARED_RUNS];
    // Columns that are drawn; NULL: no run has such a column.
    const char *loss, *val_loss, *rate;
    sr_compared *to;
} comparison;

static uint32_t color_of(int run) {
    return run == 0 ? SR_BLUE : sr_color_series(run - 1);
}

// -- columns ---------------------------------------------------------------------------------

// A column of a run's file. Of tasks that are not known here, columns are plain numbers; but every
// run has losses.
static sr_column describe(const sr_results *run, const char *name) {
    const size_t length = strlen(name);
    for (int i = 0; i < run->count; ++i)
        if (strcmp(run->columns[i].name, name) == 0)
            return run->columns[i];
    const bool loss = length >= 4 && strcmp(name + length - 4, "loss") == 0;
    return (sr_column){.name = name, .unit = loss ? SR_UNIT_LOSS : SR_UNIT_NUMBER};
}

static bool is_train_loss(const sr_column *column) {
    return sr_column_is_measured(column, SR_UNIT_LOSS) && sr_column_is_in(column, "train/");
}

static bool is_val_loss(const sr_column *column) {
    return sr_column_is_measured(column, SR_UNIT_LOSS) && sr_column_is_in(column, "val/");
}

static bool is_val(const sr_column *column) {
    return sr_column_is_in(column, "val/");
}

static bool is_rate(const sr_column *column) {
    return sr_column_is_rate(column->name);
}

// The first such column of the first run that has one; NULL: none.
static const char *find_column(const comparison *c, bool (*is)(const sr_column *column)) {
    for (int run = 0; run < c->of->count; ++run) {
        for (int i = 0; i < c->tables[run].columns; ++i) {
            const sr_column column = describe(&c->of->runs[run], c->tables[run].names[i]);
            if (is(&column))
                return column.name;
        }
    }
    return NULL;
}

static bool has(const comparison *c, int run, const char *name) {
    return sr_csv_table_column(&c->tables[run], name) >= 0;
}

static bool any_has(const comparison *c, const char *name) {
    for (int run = 0; run < c->of->count; ++run)
        if (has(c, run, name))
            return true;
    return false;
}

static sr_status fail_metric(const comparison *c) {
    const sr_csv_table *table = &c->tables[0];
    const char *near = sr_text_nearest(c->of->metric, table->names, (size_t)table->columns);
    return SR_FAIL(SR_E_USAGE, "no run has a column '%s'%s%s%s", c->of->metric,
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

// The metric's name.
static const char *choose_metric(const comparison *c) {
    for (int run = 0; run < c->of->count; ++run)
        if (c->of->runs[run].best && has(c, run, c->of->runs[run].best->name))
            return c->of->runs[run].best->name;
    const char *val = find_column(c, is_val);
    return val ? val : c->loss;
}

// With the unit that it has in the first run whose task is known.
static void set_metric(comparison *c, const char *name) {
    const sr_results *from = &c->of->runs[0];
    for (int run = c->of->count; run-- > 0;)
        if (c->of->runs[run].count > 0 && has(c, run, name))
            from = &c->of->runs[run];
    (void)snprintf(c->to->name, sizeof c->to->name, "%s", name);
    c->to->metric = describe(from, name);
    c->to->metric.name = c->to->name;
}

static sr_status choose_columns(comparison *c) {
    const sr_csv_table *tables[SR_COMPARED_RUNS];
    for (int run = 0; run < c->of->count; ++run)
        tables[run] = &c->tables[run];
    if (c->of->metric && !any_has(c, c->of->metric))
        return fail_metric(c);
    c->to->by = c->of->by ? c->of->by : sr_results_axis(tables, c->of->count);
    if (!any_has(c, c->to->by))
        return SR_FAIL(SR_E_USAGE, "no run has a column '%s'", c->to->by);
    c->loss = find_column(c, is_train_loss);
    c->val_loss = find_column(c, is_val_loss);
    c->rate = find_column(c, is_rate);
    const char *metric = c->of->metric ? c->of->metric : choose_metric(c);
    if (!metric)
        return SR_FAIL(SR_E_USAGE, "no run has a loss or a metric");
    set_metric(c, metric);
    return SR_OK;
}

// -- runs ------------------------------------------------------------------------------------

static void measure(const comparison *c, int run) {
    const sr_csv_table *table = &c->tables[run];
    const sr_column *metric = &c->to->metric;
    c->to->runs[run] = (sr_compared_run){
        .steps = sr_results_last(table, "step"),
        .best = metric->better == SR_BETTER_NEITHER ? (double)NAN : sr_results_best(table, metric),
        .last = sr_results_last(table, metric->name)};
}

static bool is_among(const char *const *names, size_t count, const char *name) {
    for (size_t i = 0; i < count; ++i)
        if (names[i] && strcmp(names[i], name) == 0)
            return true;
    return false;
}

static void warn_of_missing(const comparison *c, int run) {
    const char *const shown[] = {c->to->by,   c->loss, c->val_loss,
                                 c->to->name, c->rate, "images_per_s"};
    sr_text missing;
    sr_text_init(&missing);
    for (size_t i = 0; i < sizeof shown / sizeof *shown; ++i)
        if (shown[i] && !has(c, run, shown[i]) && !is_among(shown, i, shown[i]))
            sr_text_add(&missing, "%s%s", missing.length > 0 ? ", " : "", shown[i]);
    if (missing.length > 0)
        SR_WARN("%s: metrics.csv has no %s: the run has no curve there", c->of->runs[run].folder,
                missing.data);
    sr_text_release(&missing);
}

// -- panels ----------------------------------------------------------------------------------

typedef struct curves {
    const comparison *from;
    sr_panel_series list[SERIES_MAX];
    int count;
} curves;

// A curve of each run that has the column; paler ones towards white.
static void add_curves(curves *to, const char *column, bool smooth, bool marks, double pale) {
    const comparison *c = to->from;
    for (int run = 0; column && run < c->of->count && to->count < SERIES_MAX; ++run) {
        sr_panel_series *series = &to->list[to->count];
        if (!sr_results_curve(&c->tables[run], c->to->by, column, series))
            continue;
        series->color = sr_color_mix(color_of(run), SR_WHITE, pale);
        series->smooth = smooth;
        series->marks = marks;
        ++to->count;
    }
}

static void add_losses(const comparison *c, sr_figure *figure) {
    curves shown = {.from = c};
    add_curves(&shown, c->loss, true, false, c->val_loss ? 0.55 : 0);
    add_curves(&shown, c->val_loss, false, true, 0);
    const char *title = c->val_loss ? "Loss: train pale, val dark" : "Loss";
    sr_results_add_panel(figure, sr_results_place(0, 0, title), shown.list, shown.count);
}

static void add_metric(const comparison *c, sr_figure *figure) {
    const sr_column *metric = &c->to->metric;
    const bool fraction = metric->unit == SR_UNIT_FRACTION;
    const bool measured = sr_column_is_measured(metric, metric->unit);
    char curve[SR_CURVE_NAME], title[SR_CURVE_NAME + 16];
    curves shown = {.from = c};
    if (measured)
        sr_column_curve(metric, curve);
    (void)snprintf(title, sizeof title, "%s%s%s", measured ? curve : metric->name,
                   measured && metric->unit == SR_UNIT_LOSS ? " loss" : "", fraction ? ", %" : "");
    sr_panel panel = sr_results_place(1, 0, title);
    panel.cap = fraction ? 100 : 0;
    const bool training = sr_column_is_in(metric, "train/");
    add_curves(&shown, metric->name, training, !training, 0);
    sr_results_add_panel(figure, panel, shown.list, shown.count);
}

// A panel of the lower row.
static void add_lower(const comparison *c, sr_figure *figure, int column, const char *title,
                      const char *name, bool smooth) {
    curves shown = {.from = c};
    sr_panel panel = sr_results_place(column, 1, title);
    panel.x_title = c->to->by;
    panel.from_zero = true;
    add_curves(&shown, name, smooth, false, 0);
    sr_results_add_panel(figure, panel, shown.list, shown.count);
}

// -- legend ----------------------------------------------------------------------------------

// "best top-1 94.12 %", or the last value of what has no best one.
static void describe_value(const comparison *c, int run, char *out, size_t bytes) {
    const sr_column *metric = &c->to->metric;
    const sr_compared_run *r = &c->to->runs[run];
    const bool best = metric->better != SR_BETTER_NEITHER;
    const double value = best ? r->best : r->last;
    char text[SR_COLUMN_TEXT];
    out[0] = '\0';
    if (!isnan(value))
        (void)snprintf(out, bytes, "%s %s %s", best ? "best" : "last",
                       metric->label ? metric->label : metric->name,
                       sr_column_text(metric, value, text));
}

// Three runs in each of two rows.
static void add_legend(const comparison *c, int run, sr_figure *figure) {
    const double width = (SR_RESULTS_WIDTH - 80) / 3.0;
    const double x = 40 + run % 3 * width, y = c->of->count > 3 ? 34 + 28 * (run / 3) : 48;
    const double line[] = {x, y - 5, x + 20, y - 5};
    char value[96];
    describe_value(c, run, value, sizeof value);
    const double space = width - 64 - sr_figure_text_width(12, value);
    const double wide = 1.12 * sr_figure_text_width(14, c->of->names[run]); // bold
    sr_figure_add_line(
        figure, (sr_figure_line){.points = line, .count = 2, .width = 4, .color = color_of(run)});
    sr_figure_add_text(figure, (sr_figure_text){.text = c->of->names[run],
                                                .x = x + 28,
                                                .y = y,
                                                .size = 14,
                                                .max_width = space,
                                                .bold = true,
                                                .color = SR_INK});
    sr_figure_add_text(
        figure,
        (sr_figure_text){
            .text = value, .x = x + 40 + fmin(space, wide), .y = y, .size = 12, .color = SR_SOFT});
}

static sr_status compose(comparison *c, sr_figure *out) {
    SR_TRY(choose_columns(c));
    for (int run = 0; run < c->of->count; ++run) {
        measure(c, run);
        warn_of_missing(c, run);
        if (c->to->metric.unit == SR_UNIT_FRACTION)
            sr_results_to_percent(&c->tables[run], c->to->name);
    }
    sr_figure_init(out, SR_RESULTS_WIDTH, SR_RESULTS_HEIGHT);
    for (int run = 0; run < c->of->count; ++run)
        add_legend(c, run, out);
    add_losses(c, out);
    add_metric(c, out);
    add_lower(c, out, 0, "Learning rate", c->rate, false);
    add_lower(c, out, 1, "Images per second", "images_per_s", true);
    return SR_OK;
}

sr_status sr_compare_figure(const sr_comparison *of, sr_figure *out, sr_compared *compared) {
    comparison c = {.of = of, .to = compared};
    sr_status status = SR_OK;
    int read = 0;
    *compared = (sr_compared){.by = NULL};
    if (of->count > SR_COMPARED_RUNS)
        return SR_FAIL(SR_E_USAGE, "%d runs: colours tell at most %d apart", of->count,
                       SR_COMPARED_RUNS);
    for (; status == SR_OK && read < of->count; read += status == SR_OK)
        status = sr_results_read(of->runs[read].folder, &c.tables[read]);
    if (status == SR_OK)
        status = compose(&c, out);
    while (read > 0)
        sr_csv_table_release(&c.tables[--read]);
    return status;
}
