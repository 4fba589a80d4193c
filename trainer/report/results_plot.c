// SPDX-License-Identifier: Apache-2.0
// The four main plots of a run, from metrics.csv.
#include "trainer/report/results_plot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/log.h"
#include "trainer/draw/palette.h"
#include "trainer/draw/plot_ticks.h"
#include "trainer/report/progress.h"
#include "trainer/report/results_internal.h"

enum { SERIES_MAX = 6 }; // that a legend has room for

typedef struct results {
    const sr_results *run;
    sr_csv_table table;
    char title[160], facts[256];
    const char *x; // column of the x axis
} results;

// -- title and facts -------------------------------------------------------------------------

// "cifar10-fast / 20260131-120000": the last two components of the folder's path.
static void make_title(const char *folder, char *out, size_t bytes) {
    size_t length = strlen(folder);
    while (length > 1 && folder[length - 1] == '/')
        --length;
    size_t from = length, slashes = 0;
    while (from > 0 && (folder[from - 1] != '/' || ++slashes < 2))
        --from;
    size_t used = 0;
    for (size_t i = from; i < length && used + 4 < bytes; ++i) {
        if (folder[i] == '/') {
            memcpy(out + used, " / ", 3);
            used += 3;
        } else {
            out[used++] = folder[i];
        }
    }
    out[used] = 0;
}

static void add_fact(char *out, size_t bytes, const char *text) {
    size_t used = strlen(out);
    snprintf(out + used, bytes - used, "%s%s", used > 0 ? "   ·   " : "", text);
}

static void add_best(results *r) {
    const sr_column *column = r->run->best;
    char value[SR_COLUMN_TEXT], text[128];
    if (!column)
        return;
    const double best = sr_results_best(&r->table, column);
    snprintf(text, sizeof text, "best %s %s", column->label ? column->label : column->name,
             sr_column_text(column, best, value));
    if (!isnan(best))
        add_fact(r->facts, sizeof r->facts, text);
}

// "5,000 steps · 640,000 images · 12:30 · best top-1 94.12 %"
static void make_facts(results *r) {
    char number[48], text[128];
    const sr_csv_table *t = &r->table;
    double steps = sr_results_last(t, "step"), samples = sr_results_last(t, "samples");
    double seconds = sr_results_last(t, "seconds");
    if (!isnan(steps)) {
        sr_plot_number(steps, 1, number, sizeof number);
        snprintf(text, sizeof text, "%s steps", number);
        add_fact(r->facts, sizeof r->facts, text);
    }
    if (!isnan(samples)) {
        sr_plot_number(samples, 1, number, sizeof number);
        snprintf(text, sizeof text, "%s images", number);
        add_fact(r->facts, sizeof r->facts, text);
    }
    if (!isnan(seconds))
        add_fact(r->facts, sizeof r->facts, sr_progress_duration(seconds, number));
    add_best(r);
}

// -- columns ---------------------------------------------------------------------------------

static bool has_measured(const results *r, sr_unit unit) {
    for (int i = 0; i < r->run->count; ++i)
        if (sr_column_is_measured(&r->run->columns[i], unit) &&
            sr_csv_table_column(&r->table, r->run->columns[i].name) >= 0)
            return true;
    return false;
}

static void to_percent(results *r) {
    for (int i = 0; i < r->run->count; ++i)
        if (r->run->columns[i].unit == SR_UNIT_FRACTION)
            sr_results_to_percent(&r->table, r->run->columns[i].name);
}

// -- panels ----------------------------------------------------------------------------------

// The curves of a panel.
typedef struct curves {
    const results *from;
    sr_panel_series list[SERIES_MAX];
    char names[SERIES_MAX][SR_CURVE_NAME];
    int count;
} curves;

// A curve over the x axis, if the table has its column.
static void add_curve(curves *to, const char *column, const char *name, uint32_t color,
                      bool smooth) {
    char *kept = to->names[to->count % SERIES_MAX];
    sr_panel_series *series = &to->list[to->count % SERIES_MAX];
    if (to->count == SERIES_MAX || !sr_results_curve(&to->from->table, to->from->x, column, series))
        return;
    (void)snprintf(kept, SR_CURVE_NAME, "%s", name);
    series->name = kept;
    series->color = color;
    series->smooth = smooth;
    series->marks = !smooth;
    ++to->count;
}

// What was measured in a unit: the first curve of training in blue, all others in the colours
// beside it.
static void add_measured(curves *to, sr_unit unit) {
    const results *r = to->from;
    int used = 0;
    for (int i = 0; i < r->run->count; ++i) {
        const sr_column *column = &r->run->columns[i];
        const bool training = sr_column_is_in(column, "train/");
        char name[SR_CURVE_NAME];
        if (!sr_column_is_measured(column, unit))
            continue;
        sr_column_curve(column, name);
        add_curve(to, column->name, name,
                  training && to->count == 0 ? SR_BLUE : sr_color_series(used++), training);
    }
}

static void add_losses(const results *r, sr_figure *figure) {
    curves shown = {.from = r};
    add_measured(&shown, SR_UNIT_LOSS);
    sr_results_add_panel(figure, sr_results_place(0, 0, "Loss"), shown.list, shown.count);
}

// Fractions, or else numbers.
static void add_measures(const results *r, sr_figure *figure) {
    curves shown = {.from = r};
    const bool numbers = !has_measured(r, SR_UNIT_FRACTION);
    char title[SR_CURVE_NAME];
    (void)snprintf(title, sizeof title, "%s, %%",
                   r->run->fractions ? r->run->fractions : "Fractions");
    sr_panel panel = sr_results_place(1, 0, numbers ? "Measures" : title);
    panel.cap = numbers ? 0 : 100;
    add_measured(&shown, numbers ? SR_UNIT_NUMBER : SR_UNIT_FRACTION);
    sr_results_add_panel(figure, panel, shown.list, shown.count);
}

static void add_rates(const results *r, sr_figure *figure) {
    curves shown = {.from = r};
    sr_panel panel = sr_results_place(0, 1, "Learning rate");
    panel.x_title = r->x;
    panel.from_zero = true;
    for (int i = 0; i < r->run->count; ++i) {
        const char *name = r->run->columns[i].name;
        if (sr_column_is_rate(name))
            add_curve(&shown, name, name,
                      shown.count == 0 ? SR_PURPLE : sr_color_series(shown.count - 1), false);
    }
    for (int i = 0; i < shown.count; ++i)
        shown.list[i].marks = false;
    sr_results_add_panel(figure, panel, shown.list, shown.count);
}

static void add_speed(const results *r, sr_figure *figure) {
    curves shown = {.from = r};
    sr_panel panel = sr_results_place(1, 1, "Images per second");
    panel.x_title = r->x;
    panel.from_zero = true;
    add_curve(&shown, "images_per_s", "all ranks", SR_GREEN, true);
    sr_results_add_panel(figure, panel, shown.list, shown.count);
}

static void add_heading(const results *r, sr_figure *figure) {
    sr_figure_add_text(
        figure, (sr_figure_text){
                    .text = r->title, .x = 40, .y = 46, .size = 22, .bold = true, .color = SR_INK});
    sr_figure_add_text(figure, (sr_figure_text){.text = r->facts,
                                                .x = SR_RESULTS_WIDTH - 48,
                                                .y = 45,
                                                .size = 13,
                                                .color = SR_SOFT,
                                                .align = SR_ALIGN_RIGHT});
}

static sr_status read_results(results *r) {
    const sr_csv_table *tables[] = {&r->table};
    SR_TRY(sr_results_read(r->run->folder, &r->table));
    make_title(r->run->folder, r->title, sizeof r->title);
    make_facts(r);
    r->x = sr_results_axis(tables, 1);
    to_percent(r);
    return SR_OK;
}

sr_status sr_results_figure(const sr_results *run, sr_figure *out) {
    results r = {.run = run};
    SR_TRY(read_results(&r));
    sr_figure_init(out, SR_RESULTS_WIDTH, SR_RESULTS_HEIGHT);
    add_heading(&r, out);
    add_losses(&r, out);
    add_measures(&r, out);
    add_rates(&r, out);
    add_speed(&r, out);
    sr_csv_table_release(&r.table);
    return SR_OK;
}

void sr_results_draw(const sr_results *run, sr_drawing *drawing) {
    sr_figure figure;
    if (!drawing)
        return;
    if (sr_results_figure(run, &figure) != SR_OK) {
        SR_WARN("results.png was not drawn: %s", sr_error_message());
        return;
    }
    sr_drawing_figure(drawing, &figure, "results", run->folder);
    sr_figure_release(&figure);
}
